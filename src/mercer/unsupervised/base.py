"""Estimators without targets: a feature map, its design, and sums over rows."""

from __future__ import annotations

import contextlib
import warnings
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from mercer import maps
from mercer._runtime.arrays import check_memory
from mercer._runtime.progress import CallbackSupportMixin
from mercer._runtime.random import RandomStateLike, key_from
from mercer._runtime.sparse import canonical_csr
from mercer._runtime.state import Checked, State
from mercer._runtime.validation import check_weights, counted, positive_integer
from mercer.designs import Design
from mercer.estimators._documentation import entries
from mercer.estimators.inputs import float_types, naming_remedy
from mercer.estimators.preprocessing import (
    Preprocessing,
    Scale,
    Scaler,
    fit_scaler,
    scale_of,
    with_resolved_gamma,
)
from mercer.estimators.state import check_scaler
from mercer.kernels.text import checked_texts

__all__ = ["COMMON", "Unsupervised", "leading"]

_DENSE = 400  # order of a matrix whose eigenvectors LAPACK finds in some hundredths of a second
_BASIS = 40  # vectors of Lanczos' method: with 20, close eigenvalues take 3 times the products
_RESTARTS = 50  # of Lanczos' method, each of about _BASIS products

COMMON = entries(
    """
    feature_map : str or FeatureMap, default="exact"
        Map into the space of the kernel: "exact", "nystroem", "fourier", "binning" or another name
        of :func:`mercer.maps.get`, or a map object.
    kernel : str, Kernel, callable or None, default=None
        Kernel of a map given by name; None takes the default of the map.
    gamma : float, array of shape (d,), "scale" or "median", default="scale"
        Factor of the distance in the kernel, > 0.
    n_features : int or None, default=None
        Number of random features or landmarks of a map given by name, >= 1; None takes its default.
    scale : bool or groups of columns, default=True
        Whether inputs are scaled to mean 0 and variance 1, or sparse ones by their largest absolute
        value, as in :class:`mercer.KernelRegressor`. False suits tables that
        :class:`mercer.TablePreparer` has treated, and features of a fitted model.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the map and of the algorithm.
    n_jobs : int or None, default=None
        Number of threads; None and -1 mean all that the process may use.
    feature_map_ : FeatureMap
        Fitted map.
    scaler_ : transformer or None
        Fitted scaler of the inputs; None without ``scale`` and for texts.
    n_features_in_ : int
        Number of input columns.
    ValueError, TypeError
        At ``fit``, if a parameter or the data are invalid.
    MemoryError
        At ``fit``, if the features would not fit.
    """
)


@dataclass(eq=False, repr=False)
class Unsupervised(Checked, CallbackSupportMixin, BaseEstimator):
    """Settings of a map, and the design of the rows that it is fitted to."""

    _: KW_ONLY
    feature_map: Any = "exact"
    kernel: Any = None
    gamma: float | ArrayLike | str = "scale"
    n_features: int | None = None
    scale: Scale = True
    random_state: RandomStateLike = None
    n_jobs: int | None = None
    scaler_: Scaler = field(init=False, default=None)
    feature_map_: maps.FeatureMap = field(init=False)

    def __sklearn_tags__(self):
        tags, has_texts = super().__sklearn_tags__(), self._takes_texts()
        tags.input_tags.sparse = tags.input_tags.two_d_array = not has_texts
        tags.input_tags.string = tags.input_tags.one_d_array = has_texts
        return tags

    def _takes_texts(self) -> bool:
        return maps.takes_text(self.feature_map, self.kernel)

    def _checked(self, X: Any, reset: bool) -> Any:
        if self._takes_texts():
            return checked_texts(X)
        X = canonical_csr(X)
        with naming_remedy(self, X):
            return validate_data(
                self, X, accept_sparse="csr", dtype=float_types(X), order="C", reset=reset
            )

    def _fitted_design(self, X: Any, gamma: Any = None, weights: NDArray | None = None) -> Design:
        """The design of checked rows by scaler and map of the settings, fitted to them."""
        self._key = key_from(self.random_state)
        map_ = maps.get(
            self.feature_map,
            self.kernel,
            self.gamma if gamma is None else gamma,
            n_jobs=self.n_jobs,
        ).placed(vars(self).get("feature_names_in_"))
        settings = map_.get_params(deep=False)
        if self.n_features is not None:
            count = positive_integer(self.n_features, "n_features")
            if "n_components" not in settings:
                raise ValueError(
                    f"n_features must be left out for feature_map={self.feature_map!r}; "
                    f"got {count}."
                )
            map_.set_params(n_components=count)
        if "random_state" in settings and map_.random_state is None:
            map_.set_params(random_state=self._key % 2**31)
        self.scaler_ = fit_scaler(X, weights, scale_of(self))
        X = self._scaled(X)
        if weights is not None:
            map_ = with_resolved_gamma(map_, X, weights)
        self.feature_map_ = map_
        return map_.fit_design(X)

    def _scaled(self, X: Any) -> Any:
        """Checked rows as the map takes them."""
        return Preprocessing(self.scaler_).scaled(X)

    @property
    def _is_exact(self) -> bool:
        """True if features are kernel values at all rows, whose products are not the kernel."""
        fitted = self.feature_map_
        return isinstance(fitted, maps.ExactKernel) and fitted.normalization_ is None

    def _gram(self, design: Design, vectors: NDArray) -> NDArray[np.float64]:
        """The kernel matrix of the rows of the fit times vectors (n,) or (n, k)."""
        found = design.matvec(vectors) if self._is_exact else design.gram_matvec(vectors)
        return found.astype(np.float64)

    def _spread(self, design: Design, vectors: NDArray) -> NDArray[np.float64]:
        """Weights of the features in sums of rows of the fit: the exact kernel has one per row."""
        found = vectors if self._is_exact else design.rmatvec(vectors)
        return found.astype(np.float64)

    def _weighed(self, X: Any, sample_weight: Any) -> tuple[Any, NDArray | None]:
        """Checked rows of weight above 0, and their weights as counts of rows."""
        weights = counted(check_weights(sample_weight, X))
        if weights is None or weights.all():
            return X, weights
        return X[weights > 0], weights[weights > 0]

    def _design(self, X: Any) -> Design:
        self._check_fitted()
        return self._design_of(self._checked(X, reset=False))

    def _design_of(self, X: Any) -> Design:
        """The design of checked rows by the fitted scaler and map."""
        return self.feature_map_.design(self._scaled(X))

    def _check_state(self) -> None:
        state = State(self)
        state.instance("feature_map_", maps.FeatureMap)._check_fitted()
        if not self._takes_texts():
            check_scaler(self)


def leading(
    product: Any, size: int, count: int, key: int, tol: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Largest eigenvalues (count,), descending, and eigenvectors (size, count) of a symmetric map.

    ``product`` multiplies a positive semidefinite matrix by a vector (size,); ``key`` seeds the
    start of Lanczos' method; ``tol`` is the relative error of the eigenvalues.
    """
    if size <= max(_DENSE, count + 1):
        matrix = np.column_stack([product(unit) for unit in np.eye(size)])
        values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
        return values[::-1][:count], vectors[:, ::-1][:, :count]
    operator = LinearOperator((size, size), matvec=product, dtype=np.float64)
    start = np.random.default_rng(key).normal(size=size)
    if not product(start).any():  # ARPACK refuses a matrix of zeros
        return np.zeros(count), np.eye(size, count)
    basis = min(size, max(_BASIS, 2 * count + 1))
    check_memory(
        16.0 * basis * size,  # ARPACK's vectors, and as many to make eigenvectors of them
        f"Lanczos' method with {basis} vectors of {size} numbers",
        "use fewer rows, features or eigenvectors",
    )
    settings = {"v0": start, "ncv": basis, "maxiter": _RESTARTS}
    for error in (tol, 1e-3, 1.0):
        with contextlib.suppress(ArpackNoConvergence):
            values, vectors = eigsh(operator, count, tol=error, **settings)
            break
    if error > tol:
        warnings.warn(
            f"the leading eigenvalues lie too close together to be found to {tol:g}; they were "
            f"found to {error:g}: a smaller gamma moves them apart.",
            ConvergenceWarning,
            stacklevel=2,
        )
    order = np.argsort(values)[::-1]
    return values[order], vectors[:, order]
