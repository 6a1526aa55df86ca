"""What streaming regression and classification share: steps, batches, and features made again."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer import maps
from mercer._state import State
from mercer._validation import float_type
from mercer.estimators.base import KernelMachine, with_resolved_gamma
from mercer.maps import FeatureMap
from mercer.maps.members import Endless
from mercer.solvers.doubly import DoublySGD, Expansion

__all__ = ["StreamingMachine"]


class StreamingMachine(KernelMachine):
    """A kernel machine that is fitted by doubly stochastic gradients, in any number of calls.

    ``feature_map_`` is the start of the sequence of features, and ``coef_`` has an entry for every
    feature seen.
    """

    loss_curve_: NDArray[np.float64]
    n_steps_: int

    def __init__(
        self,
        feature_map="fourier",
        *,
        kernel=None,
        gamma="scale",
        loss="squared",
        alpha=0.0,
        preconditioned=True,
        batch_size=None,
        block_size=None,
        step_size=None,
        step_decay=None,
        max_iter=50,
        fit_intercept=True,
        scale=True,
        n_jobs=None,
        random_state=None,
    ):
        self.feature_map = feature_map
        self.kernel = kernel
        self.gamma = gamma
        self.loss = loss
        self.alpha = alpha
        self.preconditioned = preconditioned
        self.batch_size = batch_size
        self.block_size = block_size
        self.step_size = step_size
        self.step_decay = step_decay
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.scale = scale
        self.n_jobs = n_jobs
        self.random_state = random_state

    # -- fitting -----------------------------------------------------------------------------

    def _fit(self, X: Any, y: Any, target: NDArray, weights: NDArray | None, loss: Any) -> None:
        solver = self._solver()
        context = self._init_callback_context(max_subtasks=None)
        context.call_on_fit_task_begin(estimator=self, X=X, y=y)
        seen = X
        if weights is not None and not weights.all():
            rows = np.flatnonzero(weights)  # no weight is the same as not being there
            seen, target, weights = X[rows], target[rows], weights[rows]
        scaled = self._begin(seen, target, weights, loss)
        listen = self._bridge(context, X, y)
        f, losses = solver.solve(
            self.feature_map_,
            scaled,
            target,
            loss,
            sample_weight=weights,
            offset=self._constant_,
            callback=None if listen is None else lambda f: listen(_Seen(f.coef)),
        )
        self._adopt_steps(f, losses)
        context.call_on_fit_task_end(estimator=self, X=X, y=y, reconstruction_attributes=dict)

    def _continue(self, X: Any, target: NDArray, weights: NDArray | None, loss: Any) -> None:
        """A step for every batch of these rows, in the order they came in."""
        solver = self._solver()
        if weights is not None and not weights.all():
            some = np.flatnonzero(weights)
            X, target, weights = X[some], target[some], weights[some]
        if hasattr(self, "coef_"):
            scaled, f = self._scaled(X), Expansion(self.feature_map_, target.shape[1:], X.dtype)
            f.append(self.coef_.T)
            losses = self.loss_curve_.tolist()
        else:
            scaled = self._begin(X, target, weights, loss)
            f, losses = Expansion(self.feature_map_, target.shape[1:], float_type(X)), []
        batch, _ = solver.sizes(len(target))
        for first in range(0, len(target), batch):
            rows = slice(first, first + batch)
            losses.append(
                solver.step(
                    f,
                    len(losses),
                    scaled[rows],
                    target[rows],
                    loss,
                    sample_weight=None if weights is None else weights[rows],
                    offset=self._constant_,
                )
            )
        self._adopt_steps(f, np.array(losses))

    def _begin(self, X: Any, target: NDArray, weights: NDArray | None, loss: Any) -> Any:
        """Fix scaler, map and constant by the first rows; returns them scaled."""
        self.scaler_ = self._fit_scaler(X, weights)
        scaled = self._scaled(X)
        self.feature_map_ = with_resolved_gamma(self._map(), scaled, weights).fit(scaled)
        constant = np.zeros(target.shape[1:])
        if self.fit_intercept and loss.is_classification:
            mean = np.average(target, axis=0, weights=weights)
            constant = np.asarray(loss.constant(mean, len(target)), dtype=np.float64)
        self._constant_ = constant
        return scaled

    def _map(self) -> FeatureMap:
        """The start of the sequence of features."""
        map_ = maps.get(
            self.feature_map,
            kernel=self.kernel,
            gamma=self.gamma,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
        )
        if not isinstance(map_, Endless):
            raise ValueError(
                "feature_map must be an endless sequence of random functions, such as 'fourier', "
                f"'fastfood', 'perceptron', 'stump' or 'tree'; got {self.feature_map!r}."
            )
        return map_.set_params(scale=False, n_components=2)

    def _solver(self) -> DoublySGD:
        return DoublySGD(
            alpha=self.alpha,
            preconditioned=self.preconditioned,
            batch_size=self.batch_size,
            block_size=self.block_size,
            step_size=self.step_size,
            step_decay=self.step_decay,
            max_iter=self.max_iter,
        )

    def _adopt_steps(self, f: Expansion, losses: NDArray[np.float64]) -> None:
        """Make the expansion the fitted model."""
        self.loss_curve_ = losses
        self.n_steps_ = self.n_iter_ = len(losses)
        self.n_features_seen_ = f.n_features
        for name, value in self._split(f.coef).items():
            setattr(self, name, value)

    def _split(self, coef: NDArray) -> dict[str, Any]:
        intercept = self._constant_ + self._target_mean_
        return {"coef_": coef.T, "intercept_": intercept.astype(coef.dtype)}

    def _n_coefficients(self) -> int:
        return State(self).integer("n_features_seen_")

    def _check_state(self) -> None:
        super()._check_state()
        state = State(self)
        endless = state.instance("feature_map_", Endless)
        state.check("feature_map_", "have scale=False", not endless._scale_)
        constant = state.value("_constant_")
        state.numbers("_constant_", self.coef_.shape[:-1] if np.ndim(constant) else ())
        state.array("loss_curve_", (state.integer("n_steps_", 1),), "d")

    # -- prediction --------------------------------------------------------------------------

    def _responses(self, X: Any) -> NDArray:
        X = self._checked(X)
        f = Expansion(self.feature_map_, self.coef_.shape[:-1], self.coef_.dtype)
        f.append(self.coef_.T)
        return f.responses(self._scaled(X)) + self.intercept_


class _Seen:
    """What callbacks see of a step."""

    def __init__(self, coef: NDArray):
        self.coef = coef
