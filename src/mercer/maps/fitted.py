"""Features of fitted models, as transformers and as maps of other estimators."""

from __future__ import annotations

from copy import copy
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.validation import check_is_fitted

from mercer._runtime.arrays import Matrix
from mercer._runtime.rows import Data
from mercer._runtime.state import State
from mercer.designs import Design
from mercer.maps.base import FeatureMap

__all__ = ["FittedFeatures", "as_features"]


class FittedFeatures(FeatureMap):
    """Features of a fitted map of scaled rows, which no further fit changes.

    :func:`as_features` makes one from a fitted model. ``fit`` checks the rows and keeps scaler and
    map; a clone keeps them as well.

    Parameters
    ----------
    feature_map : FeatureMap
        Fitted map.
    scaler : StandardScaler, MaxAbsScaler or None, default=None
        Fitted scaler of the rows before the map; None takes rows as they are.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.maps import IdentityMap
    >>> from mercer.maps.fitted import FittedFeatures
    >>> FittedFeatures(IdentityMap().fit(np.eye(2))).fit_transform([[3.0, 4.0]])
    array([[3., 4.]])
    """

    _fitted_by: ClassVar[str] = "n_features_in_"

    def __init__(self, feature_map: FeatureMap, scaler: Any = None):
        self.feature_map = feature_map
        self.scaler = scaler
        if hasattr(feature_map, "n_features_in_"):
            self.n_features_in_ = feature_map.n_features_in_

    def __sklearn_clone__(self) -> Self:
        return copy(self)

    @property
    def n_features_out_(self) -> int:  # type: ignore[override]
        return self.feature_map.n_features_out_

    @property
    def takes_text(self) -> bool:
        return self.feature_map.takes_text

    def bytes_per_row(self, dtype: DTypeLike) -> float:
        given = 0.0 if self.takes_text else np.dtype(dtype).itemsize * float(self.n_features_in_)
        return given + self.feature_map.bytes_per_row(dtype)

    def warn_missing(self, n_missing: int, n_rows: int) -> None:
        self.feature_map.warn_missing(n_missing, n_rows)

    def _fit(self, X: Data) -> None:
        """Keep what is fitted."""

    def _taken(self, X: Any, reset: bool) -> Data:
        return super()._taken(X, reset=False)  # columns are those of the fitted map

    def _checked(self, X: Any, reset: bool) -> Matrix:
        if self.takes_text:
            return self.feature_map._checked(X, reset=False)
        return super()._checked(X, reset=False)

    def _scaled(self, X: Data) -> Matrix:
        return X if self.scaler is None else self.scaler.transform(X)

    def _transform(self, X: Matrix) -> Matrix:
        return self.feature_map._transform(self._scaled(X))

    def _block(self, X: Matrix, columns: NDArray[np.int64]) -> NDArray:
        return self.feature_map._block(self._scaled(X), columns)

    def _design(self, X: Data) -> Design:
        return self.feature_map._design(self._scaled(X))

    def _check_fitted(self) -> None:
        self.feature_map._check_fitted()

    def _check_state(self) -> None:
        State(self).instance("feature_map", FeatureMap)._check_state()

    @property
    def _n_jobs(self) -> int | None:
        return self.feature_map._n_jobs


def as_features(model: Any) -> Any:
    """Features that a fitted model multiplies by its coefficients, as a transformer.

    Parameters
    ----------
    model : estimator
        Fitted kernel machine, automatic model with one machine, or pipeline that ends in one.

    Returns
    -------
    FeatureMap or Pipeline
        Scaler and map of a machine: also the ``feature_map`` of other estimators. Of pipelines and
        automatic models, a pipeline of their fitted steps and these features. Neither a fit nor a
        clone changes anything that the model has learned.

    Raises
    ------
    ValueError
        If the model has no explicit features, or averages several machines.
    NotFittedError
        If the model is not fitted.

    Notes
    -----
    Responses are ``features @ map_coef_.T`` and an intercept. Features of the exact kernel are its
    values at the rows of the fit.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRegressor
    >>> from mercer.maps import as_features
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> model = KernelRegressor("fourier", n_components=64, random_state=0).fit(X, X[:, 0])
    >>> features = as_features(model).transform(X)
    >>> bool(np.allclose(features @ model.map_coef_ + model.intercept_, model.predict(X)))
    True
    """
    check_is_fitted(model)
    if hasattr(model, "explained_members"):  # an automatic model
        members = model.explained_members()[0]
        if len(members) > 1:
            raise ValueError(
                f"model must have one kernel machine; {type(model).__name__} is a mean of "
                f"{len(members)}: give one of their pipelines."
            )
        return as_features(members[0][1])
    if isinstance(model, Pipeline):
        steps = [step for _, step in model.steps[:-1] if step not in (None, "passthrough")]
        return make_pipeline(*map(FrozenEstimator, steps), as_features(model.steps[-1][1]))
    feature_map = getattr(model, "weighted_map", None)
    if feature_map is None:
        raise ValueError(
            "model must be a kernel machine with a feature map, an automatic model or a pipeline "
            f"that ends in one; got {type(model).__name__}."
        )
    features = FittedFeatures(feature_map, model.scaler_)
    if hasattr(model, "feature_names_in_"):
        features.feature_names_in_ = model.feature_names_in_
    return features
