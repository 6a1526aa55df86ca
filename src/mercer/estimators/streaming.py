"""Kernel machines by doubly stochastic gradients: steps, batches, and features made again."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from mercer._state import State
from mercer._validation import float_type
from mercer.estimators.base import FeatureModel, Listener
from mercer.estimators.precision import warn_of_rough_features
from mercer.estimators.preprocessing import Preprocessing, Rows
from mercer.losses import Loss
from mercer.maps import FeatureMap
from mercer.maps.members import Endless
from mercer.solvers.doubly import DoublySGD, Expansion

__all__ = ["StreamingMachine"]


@dataclass(eq=False, repr=False)
class StreamingMachine(FeatureModel):
    """A kernel machine that is fitted by doubly stochastic gradients, in any number of calls.

    ``feature_map_`` is the start of the sequence of features, and ``coef_`` has an entry for every
    feature seen.
    """

    feature_map: str | FeatureMap = "fourier"
    _: KW_ONLY
    kernel: Any = None
    gamma: float | ArrayLike | str = "scale"
    loss: str | Loss = "squared"
    alpha: float = 0.0
    preconditioned: bool = True
    batch_size: int | None = None
    block_size: int | None = None
    step_size: float | None = None
    step_decay: float | None = None
    max_iter: int = 50
    fit_intercept: bool = True
    scale: bool = True
    n_jobs: int | None = None
    random_state: Any = None

    # -- fitting -----------------------------------------------------------------------------

    def _fit_rows(self, rows: Rows, loss: Loss, listener: Listener | None) -> None:
        solver = self._solver()
        scaled = self._begin(rows, loss)
        f, losses = solver.solve(
            self.feature_map_,
            scaled,
            rows.target,
            loss,
            sample_weight=rows.weights,
            offset=self._constant_,
            callback=listener,
        )
        self._adopt_steps(f, losses)

    def _continue(self, X: Any, target: NDArray, weights: NDArray | None, loss: Loss) -> None:
        """A step for every batch of these rows, in the order they came in."""
        solver, rows = self._solver(), Rows(X, target, weights).weighted()
        begins = not hasattr(self, "coef_")
        scaled = self._begin(rows, loss) if begins else self._preprocessing.scaled(rows.X)
        f = self._expansion(target.shape[1:], float_type(X))
        losses = [] if begins else self.loss_curve_.tolist()
        batch, _ = solver.sizes(len(rows))
        for first in range(0, len(rows), batch):
            part = slice(first, first + batch)
            losses.append(
                solver.step(
                    f,
                    len(losses),
                    scaled[part],
                    rows.target[part],
                    loss,
                    sample_weight=None if rows.weights is None else rows.weights[part],
                    offset=self._constant_,
                )
            )
        self._adopt_steps(f, np.array(losses))

    def _begin(self, rows: Rows, loss: Loss) -> Any:
        """Fix scaler, map and constant by the first rows; returns them scaled."""
        prepared, scaled = Preprocessing.fitted(self._map(), rows, self.scale)
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
        if hasattr(self, "coef_"):
            f.append(self.coef_.T)
        return f

    def _map(self) -> FeatureMap:
        """The start of the sequence of features."""
        map_ = self._stated_map()
        if not isinstance(map_, Endless):
            raise ValueError(
                "feature_map must be an endless sequence of random functions, such as 'fourier', "
                f"'fastfood', 'perceptron', 'stump' or 'tree'; got {self.feature_map!r}."
            )
        return map_.set_params(scale=False, n_components=2)

    def _solver(self) -> DoublySGD:
        names = ("alpha", "preconditioned", "batch_size", "block_size", "step_size", "step_decay")
        return DoublySGD(max_iter=self.max_iter, **{name: getattr(self, name) for name in names})

    def _adopt_steps(self, f: Expansion, losses: NDArray[np.float64]) -> None:
        """Make the expansion the fitted model."""
        self.loss_curve_ = losses
        self.n_steps_ = self.n_iter_ = len(losses)
        self.n_features_seen_ = f.n_features
        self.__dict__.update(self._coefficients(f.coef))

    def _coefficients(self, theta: NDArray) -> dict[str, Any]:
        intercept = self._constant_ + self._target_mean_
        return {"coef_": theta.T, "intercept_": intercept.astype(theta.dtype)}

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
        f = self._expansion(self.coef_.shape[:-1], self.coef_.dtype)
        return f.responses(self._preprocessing.scaled(X)) + self.intercept_
