"""Linear models in the features of a map: their fit to X and y, coefficients and responses."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from mercer import maps
from mercer._runtime.device_arrays import DeviceArray
from mercer._runtime.progress import CallbackSupportMixin, Iterations, is_heard, with_callbacks
from mercer._runtime.random import check_random_state
from mercer._runtime.rows import Data, PreparedRows
from mercer._runtime.sparse import canonical_csr
from mercer._runtime.state import Checked, State
from mercer._runtime.threads import one_blas_thread
from mercer._runtime.validation import (
    check_offset,
    counted,
    flag,
    float_type,
    is_listed,
    is_name,
    is_plain,
    plus_offset,
    recorded,
    require_offset,
)
from mercer.estimators.device import on_device, on_device_if_there
from mercer.estimators.inputs import MATRIX, NUMBERS, TEXTS, float_types, naming_remedy
from mercer.estimators.plan import FitPlan
from mercer.estimators.precomputed import rows_of_fit
from mercer.estimators.preprocessing import Preprocessing, Scale, Scaler, TrainingSample
from mercer.estimators.probabilities import calibrate
from mercer.estimators.selection import CRITERIA
from mercer.estimators.state import check_coefficients, check_map
from mercer.estimators.targets import ClassTarget, Target
from mercer.estimators.tensors import device_responses
from mercer.kernels.text import checked_texts
from mercer.losses import Loss
from mercer.maps import FeatureMap
from mercer.solvers import DualResult, Result, Selection

__all__ = [
    "INTERRUPTED",
    "FeatureModel",
    "Listener",
    "described",
    "listening",
    "raise_if_interrupted",
]

INTERRUPTED = "fit was interrupted; the model holds the last iterate"

Listener: TypeAlias = Callable[[Any], bool]  # sees a solver's state, and may stop it

_OF_CLUSTERS = {"n_rebuilt_", "n_workers_"}  # what fits over many machines tell besides
_ONE_THREAD = 9216  # numbers times rows below which OpenBLAS takes one thread anyway
_FLAGS = {"fit_intercept", "polish", "posterior", "preconditioned", "warm_start"}


class FeatureModel(Checked, CallbackSupportMixin, BaseEstimator):
    """A linear model in the features of a map.

    A subclass has the settings and solves for the coefficients in ``_fit_rows``; ``_target_kind``
    says what y means.
    """

    feature_map: str | FeatureMap
    kernel: Any
    fit_intercept: bool
    scale: Scale
    feature_map_: FeatureMap
    scaler_: Scaler
    map_coef_: NDArray
    _loss_: Loss
    _intercept_: NDArray  # of the responses in the features
    _target_mean_: NDArray  # taken off the targets before the fit, and part of the intercept
    _fitted_by: ClassVar[str] = "map_coef_"
    _target_kind: ClassVar[type[Target]]
    _takes_offset: ClassVar[bool] = False  # within the loss

    def __sklearn_tags__(self):
        tags, kind = super().__sklearn_tags__(), self._input_kind()
        tags.input_tags.sparse = kind == NUMBERS
        tags.input_tags.two_d_array = kind != TEXTS
        tags.input_tags.string = tags.input_tags.one_d_array = kind == TEXTS
        tags.input_tags.pairwise = kind == MATRIX
        return tags

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, those of a map as ``feature_map__gamma``.

        Raises
        ------
        ValueError
            If there is no such parameter, or a map's is set where ``feature_map`` is a name.
        """
        for name in params:
            owner, inner, _ = name.partition("__")
            value = params.get(owner, getattr(self, owner, self))
            if inner and not hasattr(value, "set_params"):
                raise ValueError(
                    f"{name} must be set on a map of mercer.maps; got {owner}={value!r}, and "
                    "kernel, gamma and n_components are parameters of the model itself."
                )
        return super().set_params(**params)

    # -- fitting -----------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array, data frame or CSR of shape (n_samples, n_features), or texts
        y : array of shape (n_samples,) or (n_samples, n_outputs)
            Numbers for regression; labels of any type that sorts for classification. Several
            columns are outputs of a regression, or labels of 0 and 1 for KernelClassifier.
        sample_weight : array of shape (n_samples,), default=None
            Non-negative; at given settings a weight of two is the same as a row given twice, and
            fits that choose settings merge copies of rows into weights. Weights whose sum is below
            their effective number ``sum(w)**2 / sum(w**2)`` are scaled up to it.
        offset : array of shape (n_samples,) or float, default=None
            Known parts of the responses, which the model adds to its own: means of a forecast that
            it corrects, or with a log link logarithms of exposures, such as the days of which y
            counts events. Losses with a log link and, of two classes, "logistic" take it in
            KernelRegressor and KernelClassifier with a Newton solver; other losses of numbers in
            every regression.

        Returns
        -------
        self
        """
        with recorded(self, offset):
            return self._fit_planned(X, y, sample_weight, FitPlan(), offset)

    @with_callbacks
    def _fit_planned(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        plan: FitPlan,
        offset: ArrayLike | None = None,
    ) -> Self:
        self._begin_fit()
        X, y, weights = self._target_kind.checked(self, X, y, sample_weight)
        y, shift = self._target_kind.less_offset(self, y, check_offset(offset, len(y)))
        target = self._target_kind.learned(self, y, weights)
        given = rows_of_fit(X) if self._input_kind() == MATRIX else X
        encoded = target.encoded(y, float_type(X))
        rows = TrainingSample(given, encoded, counted(weights), shift).weighted()
        if self._chooses:
            labels = rows.strata(target.strata)
            rows = rows.without_copies(labels, self._input_kind() == MATRIX)
        for name in ("_probabilities_", "_values_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        self.__dict__.update(target.attributes())
        with listening(self, X, y) as listener:
            self._fit_rows(rows, listener, plan)
        if isinstance(target, ClassTarget) and not target.loss.has_proba and plan.calibrates:
            calibrate(self, rows)
        return self

    def _fit_rows(self, rows: TrainingSample, listener: Listener | None, plan: FitPlan) -> None:
        """Fit scaler, map and coefficients; a listener that returns True stops the solver."""
        raise NotImplementedError

    def _attributes(self, state: Any) -> dict[str, Any]:
        """Fitted attributes by which the model predicts as far as a solver is."""
        return self._coefficients(state.coef)

    def _begin_fit(self) -> None:
        """Refuse to go on from a fit that was changed since, or forget it."""
        self._check_flags()
        if getattr(self, "warm_start", False) and hasattr(self, "map_coef_"):
            self._check_state()
        else:
            self._forget()

    def _check_flags(self) -> None:
        """Refuse flags that are no bool, and a random state, whether the fit draws by it or not."""
        check_random_state(getattr(self, "random_state", None))
        for name in _FLAGS & self.get_params(deep=False).keys():
            flag(getattr(self, name), name)
        if not is_listed(self.scale):
            flag(self.scale, "scale")

    def _forget(self) -> None:
        """Remove the fitted attributes that could contradict the next fit's."""
        for name in (
            "map_coef_",
            "_intercept_",
            "_probabilities_",
            "_settings_",
            "_sums_",
            "evidence_",
            "left_out_error_",
            "gamma_path_",
            "path_",
            "selection_",
            *_OF_CLUSTERS,
        ):
            self.__dict__.pop(name, None)

    def _stated_map(self) -> FeatureMap:
        """The map of the settings, unfitted."""
        return self._map_named(self.feature_map)

    def _map_named(self, feature_map: str | FeatureMap) -> FeatureMap:
        """A map with the settings that stand beside ``feature_map``, unfitted."""
        names = ("kernel", "gamma", "n_components", "random_state", "n_jobs")
        settings = self.get_params(deep=False)
        map_ = maps.get(feature_map, **{n: settings[n] for n in names if n in settings})
        return map_.placed(vars(self).get("feature_names_in_"))

    @property
    def _chooses(self) -> bool:
        """True if the fit chooses a setting by rows that are held or left out, or by evidence."""
        given = (getattr(self, name, None) for name in ("alphas", "gamma_path"))
        selection = getattr(self, "selection", None)
        return any(each is not None for each in given) or any(
            is_name(selection, each) for each in CRITERIA
        )

    @property
    def _target(self) -> Target:
        return self._target_kind.of(self)

    @property
    def _preprocessing(self) -> Preprocessing:
        return Preprocessing.of(self)

    @property
    def weighted_map(self) -> FeatureMap:
        """Fitted map with a feature for every coefficient."""
        return self.feature_map_

    def _coefficients(self, theta: NDArray) -> dict[str, Any]:
        """``map_coef_`` (D,) or (k, D) and ``_intercept_`` of a solver's variable."""
        weights, offset = theta, np.zeros(theta.shape[1:], theta.dtype)
        if self.fit_intercept:
            weights, offset = theta[:-1], theta[-1]
        return {"map_coef_": weights.T, "_intercept_": self._with_mean(offset)}

    def _with_mean(self, offset: NDArray) -> NDArray:
        """Constants of the responses plus the targets' means, in the longer type of both."""
        dtype = self._response_type(offset.dtype)
        return np.asarray(offset + self._target_mean_, dtype=dtype)

    def _response_type(self, dtype: DTypeLike) -> np.dtype:
        """Type of responses to rows of a type: float64 for numeric targets in float64."""
        return np.result_type(dtype, np.asarray(self._target_mean_).dtype)

    def _theta(self) -> NDArray:
        """The fitted coefficients as a solver's variable."""
        theta = self.map_coef_.T
        if self.fit_intercept:
            offset = np.asarray(self._intercept_ - self._target_mean_, dtype=theta.dtype)
            theta = np.concatenate([theta, offset[None]])
        return theta

    def _adopt(self, solver_name: str, result: Result | Selection, theta: NDArray) -> None:
        """Make a solver's result the fitted model."""
        self.__dict__.update(self._coefficients(theta))
        self.solver_ = solver_name
        self.n_iter_ = max(1, result.n_iter)
        self.converged_ = result.converged
        self.optimality_ = result.optimality

    # -- coefficients --------------------------------------------------------------------------

    @property
    def coef_(self) -> NDArray:
        """Weights (d,) or (k, d) of the inputs as given, of the map of the inputs themselves."""
        if isinstance(self.feature_map_, maps.IdentityMap):
            scale = 1.0 if self.scaler_ is None else self.scaler_.scale_
            return self.map_coef_ / scale
        raise AttributeError(
            f"coef_ needs a linear feature_map, whose features are the inputs; map_coef_ has a "
            f"weight for every feature of {self.feature_map_!r}."
        )

    @property
    def intercept_(self) -> Any:
        """Constant () or (k,) of the responses, of a linear map in the inputs as given."""
        centre = getattr(self.scaler_, "mean_", None)
        if centre is None or not isinstance(self.feature_map_, maps.IdentityMap):
            return self._intercept_
        return self._intercept_ - self.coef_ @ centre

    # -- prediction --------------------------------------------------------------------------

    def _responses_with(self, X: Any, offset: Any) -> NDArray:
        """Responses to every row, and its offset."""
        responses = self._responses(X)  # first: it refuses an unfitted model
        require_offset(self, offset)
        return plus_offset(responses, offset)

    def _responses(self, X: Any) -> NDArray:
        """``z(x)ᵀw + b`` for every row, of shape (n,) or (n, k), where the rows are."""
        if isinstance(X, DeviceArray):
            return device_responses(self, X)
        return self._responses_of(self._checked(X))

    def _responses_of(self, X: Any) -> NDArray:
        """Responses to checked rows, which may be prepared when they are read."""
        weights = self.map_coef_.T
        dtype = self._response_type(float_type(X))
        out = np.empty((X.shape[0], *weights.shape[1:]), dtype=dtype)
        feature_map, weights, prepare = self._predictor(weights)
        n_missing = 0
        is_small = X.shape[0] * weights.size < _ONE_THREAD
        limit = nullcontext() if is_small else one_blas_thread(getattr(self, "n_jobs", None))
        with on_device_if_there(getattr(self, "device", None)), limit:
            for rows, product, missing in feature_map._responses(X, weights, prepare):
                # Where both are large, they cancel: in the precision of the weights.
                out[rows] = product + self._intercept_
                n_missing += missing
        feature_map.warn_missing(n_missing, X.shape[0])
        return out

    def _predictor(self, weights: NDArray) -> tuple[FeatureMap, NDArray, Callable[[Any], Any]]:
        """Map and weights that predict with the least work, and the preparation of their rows."""
        feature_map, scaled = self.feature_map_, self._preprocessing.scaled
        folds = type(feature_map).folded is not FeatureMap.folded
        if folds and weights.size <= feature_map.n_features_out_**2:  # no more responses
            feature_map, weights = feature_map.folded(weights)
        if weights.dtype == np.float32 or feature_map.takes_text:
            return feature_map, weights, scaled
        # Weights in float64 may be so large that they cancel: so are the features they multiply.
        return feature_map, weights, lambda rows: scaled(rows).astype(np.float64, copy=False)

    # -- checks ------------------------------------------------------------------------------

    def _check_fitted(self) -> None:
        super()._check_fitted()
        self.feature_map_._check_fitted()

    def _checked(self, X: Any) -> Data:
        """New rows as the fitted model takes them."""
        self._check_fitted()
        if self.feature_map_.takes_text:
            return checked_texts(X, "X")
        if isinstance(X, PreparedRows):
            return X
        if is_plain(X, self):
            return X
        X = canonical_csr(X)
        with naming_remedy(self, X):
            return validate_data(self, X, accept_sparse="csr", dtype=float_types(X), reset=False)

    def _input_kind(self) -> str:
        """Kind of X of a fit: ``NUMBERS``, ``TEXTS`` or ``MATRIX``."""
        return TEXTS if maps.takes_text(self.feature_map, self.kernel) else NUMBERS

    def _n_coefficients(self) -> int:
        """Coefficients of an output."""
        return self.feature_map_.n_features_out_

    def _check_state(self) -> None:
        check_map(self)
        shape = check_coefficients(
            self, "map_coef_", self._n_coefficients(), intercept="_intercept_"
        )
        for name in _OF_CLUSTERS & vars(self).keys():
            State(self).integer(name)
        mean = State(self).value("_target_mean_")
        State(self).numbers("_target_mean_", shape if np.ndim(mean) else ())
        State(self).instance("_loss_", Loss)
        if "_has_offset_" in vars(self):
            State(self).flag("_has_offset_")


@contextmanager
def listening(
    model: Any, X: Any = None, y: Any = None, told: Listener | None = None
) -> Iterator[Listener | None]:
    """Tell the callbacks when a fit begins and ends, on the device of the model.

    Yields the function for a solver to call after every iteration, of ``told``, by default the log,
    and the model's callbacks; None if nothing listens.
    """
    context = model._init_callback_context(max_subtasks=None)
    context.call_on_fit_task_begin(estimator=model, X=X, y=y)
    if told is None and is_heard():
        told = Iterations(type(model).__name__)

    def on_iteration(state: Any) -> bool:
        stops = told is not None and told(state)
        task = context.subcontext(task_name="iteration")
        task.call_on_fit_task_begin(estimator=model, X=X, y=y)
        attributes = partial(model._attributes, state)
        return stops | task.call_on_fit_task_end(
            estimator=model, X=X, y=y, reconstruction_attributes=attributes
        )

    limit = one_blas_thread(getattr(model, "n_jobs", None))
    with on_device(getattr(model, "device", None)), limit:
        yield on_iteration if getattr(model, "_skl_callbacks", None) else told
    context.call_on_fit_task_end(estimator=model, X=X, y=y, reconstruction_attributes=dict)


def described(map_: FeatureMap, *settings: Any) -> str:
    """Settings to the last digit: a warm start goes on from a fit with the same ones."""
    with np.printoptions(threshold=sys.maxsize, precision=17):
        return repr((type(map_).__name__, map_.get_params(), *settings))


def raise_if_interrupted(result: Result | Selection | DualResult) -> None:
    """Stop the caller's loop after an interruption; the model reached so far is in place."""
    if result.interrupted:
        raise KeyboardInterrupt(INTERRUPTED)
