"""Kernel regression and classification by doubly stochastic gradients."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from mercer._runtime.arrays import Matrix
from mercer._runtime.random import RandomStateLike
from mercer._runtime.rows import Data
from mercer._runtime.state import State
from mercer._runtime.threads import one_blas_thread
from mercer._runtime.validation import float_type
from mercer.estimators._documentation import SHARED, documented, entries
from mercer.estimators.base import FeatureModel, Listener
from mercer.estimators.classification import Classification
from mercer.estimators.first_batch import fitted_to_first
from mercer.estimators.plan import FitPlan
from mercer.estimators.precision import warn_of_rough_features
from mercer.estimators.preprocessing import Preprocessing, Scale, TrainingSample, scale_of
from mercer.estimators.regression import Regression
from mercer.estimators.targets import ClassTarget, NumericTarget, Target
from mercer.losses import Loss
from mercer.maps import FeatureMap
from mercer.maps.members import Endless, Members
from mercer.solvers.doubly import SETTINGS, DoublySGD, Expansion

__all__ = ["DoublySGDClassifier", "DoublySGDRegressor"]

_RELIABLE_ROWS = 64  # of a batch; steps of fewer at full length let the loss of others rise
_LATE = 6  # steps from which a loss that has risen is warned of
_TEXTS = {**SHARED, **SETTINGS} | entries(
    """
    alpha : float, default=3e-4
        Strength of the penalty ``alpha / 2 * |f|**2`` added to the mean loss, >= 0. With a
        preconditioner it is also the ridge of every step: without a ridge, a step overfits the rows
        of its batch with large weights.
    feature_map : str or map, default="fourier"
        Sequence of random features: "fourier", "fastfood" or "perceptron", or a map object with
        its own settings, such as ``feature_map__form``.
    max_iter : int, default=50
        Number of steps of ``fit``, >= 1.
    n_jobs : int or None, default=None
        Number of threads of the map; None and -1 mean all that the process may use.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the features and of the order of the rows.
    feature_map_ : map
        Fitted map: the sequence of features, by its key.
    map_coef_ : ndarray of shape (n_features_seen_,) or (n_outputs, n_features_seen_)
        Weights of the features drawn.
    n_features_seen_ : int
        Number of features drawn so far; each prediction computes all of them from the key.
    n_steps_, n_iter_ : int
        Number of steps so far.
    loss_curve_ : ndarray of shape (n_steps_,)
        Mean loss of each batch before its step: a loss on unseen rows as long as no row repeats.
    ValueError, TypeError
        At ``fit``, if a setting or the data are invalid, or if steps are so large that the loss
        exceeds the range of floats. A loss that has doubled is a ``ConvergenceWarning``.
    """
)
_TEXTS["scale"] += "\n    The first rows of the first fit determine it."
_TEXTS["method"] = """\
Each step takes a batch of rows and a block of new random features, and adds these features with
coefficients along the negative gradient. The model stores the key of its features and their
coefficients, neither a kernel matrix nor features; memory does not depend on the number of rows.
``partial_fit`` takes rows in batches. A batch of fewer rows than ``batch_size``, or than 64, takes
a step shorter in that proportion unless ``step_size`` is stated; single rows are learned badly, and
the first batch should be of 64 rows or more, since it determines scales and means. The time of a
prediction grows in proportion to the number of steps."""
_TEXTS["paper"] = """\
Dai, Xie, He, Liang, Raj, Balcan and Song, Scalable kernel methods via doubly stochastic gradients,
NIPS 2014."""


@dataclass(eq=False, repr=False)
class StreamingMachine(FeatureModel):
    """A kernel machine that is fitted by doubly stochastic gradients, in any number of calls.

    ``feature_map_`` is the start of the sequence of features, and ``map_coef_`` has an entry for
    every feature seen.
    """

    feature_map: str | FeatureMap = "fourier"
    _: KW_ONLY
    kernel: Any = None
    gamma: float | ArrayLike | str = "scale"
    loss: str | Loss = "squared"
    alpha: float = 3e-4  # smallest that left test R2 within 0.05 of training R2 on cadata
    preconditioned: bool = True
    batch_size: int | None = None
    block_size: int | None = None
    step_size: float | None = None
    step_decay: float | None = None
    max_iter: int = 50
    fit_intercept: bool = True
    scale: Scale = True
    n_jobs: int | None = None
    random_state: RandomStateLike = None

    # -- fitting -----------------------------------------------------------------------------

    def _check_flags(self) -> None:
        super()._check_flags()
        successor = type(self).__name__.replace("DoublySGD", "Kernel")
        warnings.warn(
            f"{type(self).__name__} leaves mercer with version 0.5; {successor} has partial_fit, "
            "whose model is that of all rows at once.",
            FutureWarning,
            stacklevel=3,
        )

    def _fit_rows(self, rows: TrainingSample, listener: Listener | None, plan: FitPlan) -> None:
        solver = self._solver()
        scaled = self._begin(rows)
        f, losses = solver.solve(
            self.feature_map_,
            scaled,
            rows.target,
            self._loss_,
            sample_weight=rows.weights,
            offset=self._constant_,
            callback=listener,
        )
        self._adopt_steps(f, losses)

    def _continue(self, X: Data, y: NDArray, weights: NDArray | None, target: Target) -> None:
        """A step for every batch of these rows, in the order they came in."""
        rows = TrainingSample(X, target.encoded(y, float_type(X)), weights).weighted()
        solver = self._solver()
        self.__dict__.update(target.attributes())
        self.__dict__.pop("_probabilities_", None)  # of an earlier state of the model
        begins = not hasattr(self, "map_coef_")
        if begins:
            scaled = self._begin(rows, fitted_to_first)
        else:
            scaled = self._preprocessing.scaled(rows.X)
        f = self._expansion(rows.target.shape[1:], float_type(X))
        losses = [] if begins else self.loss_curve_.tolist()
        known = len(losses)
        batch, _ = solver.sizes(len(rows))
        for first in range(0, len(rows), batch):
            part = slice(first, first + batch)
            given = f, len(losses), scaled[part], rows.target[part], self._loss_
            with one_blas_thread(self.n_jobs):
                loss = solver.step(
                    *given,
                    sample_weight=None if rows.weights is None else rows.weights[part],
                    offset=self._constant_,
                    share=self._share(rows.target[part]),
                )
            losses.append(loss)
        self._adopt_steps(f, np.array(losses), known)

    def _share(self, batch: NDArray) -> float:
        """Share of a whole step that a batch is worth, where the step's length is not stated."""
        if self.step_size is not None:
            return 1.0
        return min(1.0, len(batch) / max(self.batch_size or 0, _RELIABLE_ROWS))

    def _begin(
        self, rows: TrainingSample, fitted: Callable[..., Any] = Preprocessing.fitted
    ) -> Matrix:
        """Fix scaler, map and constant by the first rows; returns them scaled."""
        loss = self._loss_
        if not np.isfinite(loss.lipschitz):
            raise ValueError(
                f"loss must be one of bounded curvature, for steps of a length; got {loss.name!r}."
            )
        prepared, scaled = fitted(self._map(), rows, scale_of(self))
        self.scaler_, self.feature_map_ = prepared.scaler, prepared.feature_map
        warn_of_rough_features(self.feature_map_, scaled)
        constant = np.zeros(rows.target.shape[1:])
        if self.fit_intercept and loss.is_classification:
            mean = np.average(rows.target, axis=0, weights=rows.weights)
            constant = np.asarray(loss.constant(mean, len(rows)), dtype=np.float64)
        self._constant_ = constant
        return scaled

    def _expansion(self, outputs: tuple[int, ...], dtype: DTypeLike) -> Expansion:
        """The features and coefficients so far, if there are any."""
        f = Expansion(self.feature_map_, outputs, dtype)
        if hasattr(self, "map_coef_"):
            f.append(self.map_coef_.T)
        return f

    def _map(self) -> FeatureMap:
        """The start of the sequence of features."""
        map_ = self._stated_map()
        if not isinstance(map_, Endless):
            raise ValueError(
                "feature_map must be an endless sequence of random functions, such as 'fourier', "
                f"'fastfood' or 'perceptron'; got {self.feature_map!r}."
            )
        return map_.set_params(scale=False, n_components=2)

    def _solver(self) -> DoublySGD:
        names = ("alpha", "preconditioned", "batch_size", "block_size", "step_size", "step_decay")
        return DoublySGD(max_iter=self.max_iter, **{name: getattr(self, name) for name in names})

    def _adopt_steps(self, f: Expansion, losses: NDArray[np.float64], known: int = 0) -> None:
        """Make the expansion the fitted model; earlier calls have judged ``known`` losses."""
        risen = _risen(losses)
        if risen[-1] and not risen[:known].any():
            warnings.warn(
                f"step_size must be smaller, or batch_size larger: the loss has risen from "
                f"{losses[0]:.3g} to {losses[-1]:.3g} in {len(losses)} steps.",
                ConvergenceWarning,
                stacklevel=3,  # the caller of fit or partial_fit
            )
        self.loss_curve_ = losses
        self.n_steps_ = self.n_iter_ = len(losses)
        self.n_features_seen_ = f.n_features
        self.__dict__.update(self._coefficients(f.coef))

    def _coefficients(self, theta: NDArray) -> dict[str, Any]:
        intercept = self._with_mean(np.asarray(self._constant_, dtype=theta.dtype))
        return {"map_coef_": theta.T, "_intercept_": intercept}

    def _n_coefficients(self) -> int:
        return State(self).integer("n_features_seen_")

    def _check_state(self) -> None:
        super()._check_state()
        state = State(self)
        endless = state.instance("feature_map_", Endless)
        state.check("feature_map_", "have scale=False", not endless._scale_)
        constant = state.value("_constant_")
        state.numbers("_constant_", self.map_coef_.shape[:-1] if np.ndim(constant) else ())
        state.array("loss_curve_", (state.integer("n_steps_", 1),), "d")

    # -- prediction --------------------------------------------------------------------------

    @property
    def weighted_map(self) -> FeatureMap:
        """Map of as many features of the sequence as the model has coefficients."""
        return Members.of(self.feature_map_, np.arange(self._n_coefficients()))

    def _responses(self, X: Any) -> NDArray:
        return self._responses_of(self._checked(X))

    def _responses_of(self, X: Any) -> NDArray:
        f = self._expansion(self.map_coef_.shape[:-1], self.map_coef_.dtype)
        with one_blas_thread(self.n_jobs):
            responses = f.responses(self._preprocessing.scaled(X))
        dtype = self._response_type(responses.dtype)
        return np.add(responses, self._intercept_, dtype=dtype)


@documented(_TEXTS)
class DoublySGDRegressor(Regression, StreamingMachine):
    """Kernel regression by doubly stochastic gradients, for rows that come in batches.

    {method}

    Parameters
    ----------
    {feature_map, kernel, gamma}
    loss : "squared", "huber" or a loss, default="squared"
    {alpha, preconditioned, batch_size, block_size, step_size, step_decay, max_iter}
    fit_intercept : bool, default=True
        Whether the model starts from the mean target instead of zero.
    {scale, n_jobs, random_state}

    Attributes
    ----------
    {feature_map_, scaler_, map_coef_, intercept_, n_features_seen_, n_steps_, loss_curve_}
    {n_features_in_}

    Raises
    ------
    {ValueError}

    References
    ----------
    {paper}

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import DoublySGDRegressor
    >>> X = np.random.default_rng(0).uniform(-3, 3, size=(2000, 2))
    >>> y = np.sin(X).sum(axis=1)
    >>> model = DoublySGDRegressor(max_iter=10, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.99
    True
    >>> model.partial_fit(X, y).n_steps_
    11
    """

    def partial_fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Continue the fit with these rows: one step per batch, in their order.

        Parameters
        ----------
        X : array, data frame or CSR of shape (n_samples, n_features)
            New rows, best ``batch_size`` or more per call.
        y : array of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array of shape (n_samples,), default=None
            Weight per row, >= 0; the default is 1.

        Returns
        -------
        self
        """
        first = not hasattr(self, "map_coef_")
        if not first:
            self._check_state()
        self._check_flags()
        X, y, weights = NumericTarget.checked(self, X, y, sample_weight, reset=first)
        if first:
            target = NumericTarget.learned(self, y, weights)
        elif y.shape[1:] == self.map_coef_.shape[:-1]:
            target = NumericTarget(self._loss_, self._target_mean_)
        else:
            raise ValueError(
                f"y must have as many outputs as before, {self.map_coef_.shape[:-1]}; got "
                f"{y.shape[1:]}."
            )
        self._continue(X, y, weights, target)
        return self


@documented(_TEXTS)
@dataclass(eq=False, repr=False, kw_only=True)
class DoublySGDClassifier(Classification, StreamingMachine):
    """Kernel classification by doubly stochastic gradients, for rows that come in batches.

    {method}
    With more than two classes there is one response per class.

    Parameters
    ----------
    {feature_map, kernel, gamma}
    loss : str or a loss, default="multinomial"
        "multinomial" (which for two classes is "logistic"), "logistic", "squared_hinge",
        "smooth_hinge" or "squared".
    {alpha, preconditioned, batch_size, block_size, step_size, step_decay, max_iter}
    fit_intercept : bool, default=True
        Whether the model starts from the frequencies of the classes instead of zero.
    {scale, n_jobs, random_state}
    class_weight : dict, "balanced" or None, default=None
        Weight per class, multiplied into the sample weights. Only ``fit`` takes it.

    Attributes
    ----------
    {classes_, feature_map_, scaler_, map_coef_, intercept_, n_features_seen_, n_steps_}
    {loss_curve_, n_features_in_}

    Raises
    ------
    {ValueError}

    References
    ----------
    {paper}

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import DoublySGDClassifier
    >>> X = np.random.default_rng(0).normal(size=(2000, 2))
    >>> y = np.where(np.hypot(*X.T) < 1, "inside", "outside")
    >>> model = DoublySGDClassifier(random_state=0)
    >>> for rows in np.split(np.arange(2000), 4):
    ...     model = model.partial_fit(X[rows], y[rows], classes=["inside", "outside"])
    >>> model.predict([[0.0, 0.0], [2.0, 2.0]]).tolist()
    ['inside', 'outside']
    """

    loss: str | Loss = "multinomial"
    class_weight: dict[Any, float] | str | None = None

    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Continue the fit with these rows: one step per batch, in their order.

        Parameters
        ----------
        X : array, data frame or CSR of shape (n_samples, n_features)
            New rows, best ``batch_size`` or more per call.
        y : array of shape (n_samples,)
        classes : array of shape (n_classes,), default=None
            All labels of all calls; the first call needs them unless its ``y`` has every label.
        sample_weight : array of shape (n_samples,), default=None
            Weight per row, >= 0; the default is 1.

        Returns
        -------
        self
        """
        first = not hasattr(self, "map_coef_")
        if not first:
            self._check_state()
        if self.class_weight is not None:
            raise ValueError(
                "class_weight must be None for partial_fit, which does not know all rows; got "
                f"{self.class_weight!r}: weigh the rows by sample_weight."
            )
        self._check_flags()
        X, y, weights = ClassTarget.checked(self, X, y, sample_weight, reset=first)
        self._continue(X, y, weights, self._known_classes(y, classes, first))
        return self


def _risen(losses: NDArray[np.float64]) -> NDArray[np.bool_]:
    """For every step, whether the last three losses are above twice the first three."""
    risen = np.zeros(len(losses), dtype=bool)
    if len(losses) >= _LATE:
        least = np.lib.stride_tricks.sliding_window_view(losses[_LATE - 3 :], 3).min(axis=1)
        risen[_LATE - 1 :] = least > 2 * losses[:3].max()
    return risen
