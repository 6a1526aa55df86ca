"""One output of a problem in float64: its objective, its best intercept, its certificate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mercer.problem import Problem
from mercer.solvers.coordinate.columns import Columns

__all__ = ["Output", "Point"]

_TRIES = 100
_BALANCED = 1e-13  # mean derivative, relative to the mean of absolute ones, that counts as none


@dataclass
class Point:
    """Weights with an intercept, the best for them if the loss is convex, and what follows.

    Attributes
    ----------
    w : ndarray of shape (D,)
    intercept : float
    linear : ndarray of shape (n,)
        Z w, without the intercept.
    objective : float
    slopes : ndarray of shape (n,)
        s_i ℓ'(y_i, u_i), of sum zero with an intercept if the loss is convex.
    gradient : ndarray of shape (D,)
        Of the mean loss.
    bound : float
        A lower bound of the minimum, from the dual point share · slopes.
    share : float
    """

    w: NDArray[np.float64]
    intercept: float
    linear: NDArray[np.float64]
    objective: float
    slopes: NDArray[np.float64]
    gradient: NDArray[np.float64]
    bound: float
    share: float


class Output:
    """(1/n) Σ s_i ℓ(y_i, z_iᵀw + b) + l1 ‖w‖₁ + ½ l2 ‖w‖² for one column of the targets.

    Parameters
    ----------
    problem : Problem
    columns : Columns
        Of its design.
    index : int
        Which output.
    """

    def __init__(self, problem: Problem, columns: Columns, index: int):
        self.columns = columns
        self.loss = problem.loss
        self.l1, self.l2 = float(problem.penalty.l1), float(problem.penalty.l2)
        self.fit_intercept = problem.fit_intercept
        y = problem.y if problem.y.ndim == 1 else problem.y[:, index]
        self.y = np.ascontiguousarray(y, dtype=np.float64)
        self.weights = problem.weights
        self.n = len(self.y)
        first = problem.initial()[-1] if problem.fit_intercept else 0.0
        self.first_intercept = float(np.ravel(first)[index if np.ndim(first) else 0])

    def mean(self, rows: NDArray) -> float:
        """(1/n) Σ s_i rows_i."""
        if self.weights is None:
            return float(np.sum(rows)) / self.n
        return float(self.weights @ rows) / self.n

    def best_intercept(self, linear: NDArray, start: float = 0.0) -> float:
        """The b that minimises the mean loss of ``linear`` + b, if the loss is convex.

        Otherwise it is ``start``: what is best for a moment may be infinite, or far from where the
        weights are going. The intercept then moves along with them.
        """
        if not self.fit_intercept:
            return 0.0
        if not self.loss.convex:
            return start
        if self.loss.quadratic:
            return self.mean(self.y - linear)
        low, high, b, stride = -np.inf, np.inf, start, 1.0
        for _ in range(_TRIES):
            slopes = self.loss.gradient(linear + b, self.y)
            slope = self.mean(slopes)
            if abs(slope) <= _BALANCED * self.mean(np.abs(slopes)):
                break
            low, high = (low, b) if slope > 0 else (b, high)
            bend = self.mean(self.loss.hessian(linear + b, self.y))
            guess = b - slope / bend if bend > 0 else np.nan
            if not low < guess < high or abs(guess - b) > 10 * stride:
                bounded = np.isfinite(low) and np.isfinite(high)
                guess = 0.5 * (low + high) if bounded else b - np.copysign(stride, slope)
                stride *= 2.0
            if guess == b:
                break
            b = guess
        return float(b)

    def objective(self, w: NDArray, linear: NDArray, b: float) -> float:
        """F."""
        loss = self.mean(self.loss.value(linear + b, self.y))
        return loss + self.l1 * float(np.sum(np.abs(w))) + 0.5 * self.l2 * float(w @ w)

    def at(self, w: NDArray, linear: NDArray | None = None, b: float | None = None) -> Point:
        """Everything at w, whose responses are ``linear`` and whose best intercept is b."""
        if linear is None:
            linear = self.columns.matvec(w) if np.any(w) else np.zeros(self.n)
        if b is None:
            b = self.best_intercept(linear, 0.0 if self.loss.convex else self.first_intercept)
        slopes = self.loss.gradient(linear + b, self.y)
        if self.fit_intercept and self.loss.convex:
            slopes = self.loss.balance(slopes, self.y, lambda rows: np.asarray(self.mean(rows)))
        weighted = slopes if self.weights is None else self.weights * slopes
        gradient = self.columns.rmatvec(weighted) / self.n
        objective = self.objective(w, linear, b)
        bound, share = self._bound(slopes, gradient)
        return Point(w, b, linear, objective, weighted, gradient, bound, share)

    def curvature(self, point: Point) -> NDArray[np.float64] | None:
        """s_i ℓ''(y_i, u_i), or what stands for it in a model, or None for ones."""
        if self.loss.quadratic:
            return self.weights
        h = self.loss.model_curvature(point.linear + point.intercept, self.y)
        return h if self.weights is None else h * self.weights

    def hopeless(self, point: Point, ids: NDArray, norms: NDArray) -> NDArray[np.bool_]:
        """Which of columns ``ids`` have no weight at the minimum, which the gap proves.

        The dual is (1/β)-strongly concave, so that its maximum is within √(2 β gap) of any of its
        points; correlations with a column change by at most that times ‖z_j‖ / √n.
        """
        if not np.isfinite(point.bound):
            return np.zeros(len(ids), dtype=bool)
        gap = max(point.objective - point.bound, 0.0)
        radius = np.sqrt(2 * self.loss.lipschitz * gap / self.n)
        return point.share * np.abs(point.gradient[ids]) + radius * norms < self.l1

    def violation(self, point: Point) -> float:
        """Norm of the distance of 0 to the subdifferential of F."""
        full = point.gradient + self.l2 * point.w
        at_zero = np.maximum(np.abs(full) - self.l1, 0.0)
        elsewhere = np.abs(full + self.l1 * np.sign(point.w))
        of_weights = float(np.linalg.norm(np.where(point.w == 0, at_zero, elsewhere)))
        return float(np.hypot(of_weights, self.lean(point)))

    def lean(self, point: Point) -> float:
        """Derivative of F with respect to the intercept."""
        return float(np.sum(point.slopes)) / self.n if self.fit_intercept else 0.0

    def _bound(self, slopes: NDArray, gradient: NDArray) -> tuple[float, float]:
        """The best D(share · slopes) among a few shares; −∞ if the loss is not convex."""
        if not self.loss.convex:
            return -np.inf, 0.0
        steepest = float(np.max(np.abs(gradient), initial=0.0))
        allowed = min(1.0, self.l1 / steepest) if steepest > 0 else 1.0
        shares = {allowed, 1.0} if self.l2 > 0 else {allowed}
        if self.loss.quadratic and not self.l2:
            size = self.mean(slopes * slopes)
            if size > 0:
                shares.add(min(max(-self.mean(slopes * self.y) / size, 0.0), allowed))
        return max((self._dual(share, slopes, gradient), share) for share in sorted(shares))

    def _dual(self, share: float, slopes: NDArray, gradient: NDArray) -> float:
        conjugate = self.loss.conjugate(share * slopes, self.y)
        value = -self.mean(np.asarray(conjugate))
        if self.l2 > 0:
            above = np.maximum(share * np.abs(gradient) - self.l1, 0.0)
            value -= float(above @ above) / (2 * self.l2)
        return value
