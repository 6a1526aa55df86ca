"""One output of a problem in float64, with the best intercept for its weights and a lower bound."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mercer.problem import Problem
from mercer.problem.certificates import dual_values
from mercer.problem.constants import best_intercept
from mercer.solvers.coordinate.columns import Columns

__all__ = ["Iterate", "Output", "look"]


@dataclass(frozen=True)
class Seen:
    """Gradient, bound and dual scaling of an iterate, from one pass over all columns."""

    gradient: NDArray[np.float64]
    lean: float
    bound: float
    share: float


@dataclass
class Iterate:
    """Weights and their intercept, the best for convex losses; sums over columns are lazy."""

    output: Output
    w: NDArray[np.float64]
    intercept: float
    linear: NDArray[np.float64]  # Z w, without the intercept
    objective: float
    a: NDArray[np.float64]  # ℓ'(y_i, u_i), of mean zero with an intercept if the loss is convex
    slopes: NDArray[np.float64]  # s_i a_i

    @cached_property
    def seen(self) -> Seen:
        """Gradient and bound of this output at its iterate."""
        return _seen([self])[0]

    @property
    def gradient(self) -> NDArray[np.float64]:
        """The gradient of the mean loss with respect to the weights."""
        return self.seen.gradient

    @property
    def lean(self) -> float:
        """The derivative of the mean loss with respect to the intercept, 0 if there is none."""
        return self.seen.lean

    @property
    def bound(self) -> float:
        """A lower bound of the minimum, by the dual point share · a; −∞ if F is not convex."""
        return self.seen.bound

    @property
    def share(self) -> float:
        """The share of a that is the dual point."""
        return self.seen.share

    @cached_property
    def active(self) -> NDArray[np.int64]:
        """Columns that have weights."""
        return np.flatnonzero(self.w)


class Output:
    """(1/n) Σ s_i ℓ(y_i, z_iᵀw + b) + l1 ‖w‖₁ + ½ l2 ‖w‖² of one output, in float64."""

    def __init__(self, problem: Problem, columns: Columns, index: int):
        self.columns = columns
        self.loss = problem.loss
        self.l1, self.l2 = float(problem.penalty.l1), float(problem.penalty.l2)
        y = problem.y if problem.y.ndim == 1 else problem.y[:, index]
        self.problem = Problem(
            columns, y, problem.loss, problem.penalty, problem.weights, problem.fit_intercept
        )
        self.weights = self.problem.weights

    @cached_property
    def norms(self) -> NDArray[np.float64]:
        """Root mean squares of the columns, as ``Columns.norms``."""
        return self.columns.norms(self.weights)

    def restricted(self, ids: NDArray) -> Output | None:
        """Output on columns ``ids`` alone; None if that is no cheaper."""
        columns = self.columns.chosen(ids)
        return None if columns is None else Output(self.problem, columns, 0)

    def best_intercept(self, linear: NDArray, start: float = 0.0) -> float:
        """The b that minimises the mean loss of ``linear`` + b; ``start`` for non-convex losses.

        The best b may then be infinite; it moves along with the weights.
        """
        problem = self.problem
        if not problem.fit_intercept:
            return 0.0
        if not self.loss.convex:
            return start
        return best_intercept(self.loss, problem.y, linear, start, problem.row_mean)

    def objective(self, w: NDArray, linear: NDArray, b: float) -> float:
        """F for the non-zero weights w, in any order."""
        return float(self.problem.mean_loss(linear + b) + self.problem.penalty.value(w))

    def at(self, w: NDArray, linear: NDArray | None = None, b: float | None = None) -> Iterate:
        """Everything at w, whose responses are ``linear`` and whose best intercept is b."""
        problem, loss = self.problem, self.loss
        if linear is None:
            linear = self.columns.matvec(w) if np.any(w) else np.zeros(problem.n_rows)
        if b is None:
            fixed = problem.fit_intercept and not loss.convex
            b = self.best_intercept(linear, float(problem.initial()[-1]) if fixed else 0.0)
        a = loss.gradient(linear + b, problem.y)
        if problem.fit_intercept and loss.convex:
            a = loss.balance(a, problem.y, problem.row_mean)
        slopes = a if self.weights is None else a * self.weights
        return Iterate(self, w, b, linear, self.objective(w, linear, b), a, slopes)

    def curvature(self, at: Iterate) -> NDArray[np.float64] | None:
        """s_i ℓ''(y_i, u_i), or the curvature of a convex model, or None for ones."""
        if self.loss.quadratic:
            return self.weights
        h = self.loss.model_curvature(at.linear + at.intercept, self.problem.y)
        return h if self.weights is None else h * self.weights

    def hopeless(self, at: Iterate, ids: NDArray, norms: NDArray) -> NDArray[np.bool_]:
        """Mask of columns ``ids`` that the gap proves to have no weight at the minimum.

        The dual is (1/β)-strongly concave, so that its maximum is within √(2 β gap) of any of its
        points in root mean square; correlations with a column change by at most that times the
        root mean square of the column, its entry of ``norms``.
        """
        if not (np.isfinite(at.bound) and np.isfinite(self.loss.lipschitz)):
            return np.zeros(len(ids), dtype=bool)
        radius = np.sqrt(2 * self.loss.lipschitz * max(at.objective - at.bound, 0.0))
        return at.share * np.abs(at.gradient[ids]) + radius * norms < self.l1

    def violation(self, at: Iterate) -> float:
        """Norm of the distance of 0 to the subdifferential of F."""
        of_weights = self.problem.penalty.violation(at.w, at.gradient)
        return float(np.hypot(np.linalg.norm(of_weights), at.lean))

    def bound(self, a: NDArray, gradient: NDArray) -> tuple[float, float]:
        """The best D(share · a) among a few shares, and its share."""
        problem = self.problem
        steepest = float(np.max(np.abs(gradient), initial=0.0))
        allowed = min(1.0, self.l1 / steepest) if steepest > 0 else 1.0
        shares = {allowed, 1.0} if self.l2 > 0 else {allowed}
        if self.loss.quadratic and not self.l2:
            size = float(problem.row_mean(a * a))
            if size > 0:
                shares.add(min(max(float(-problem.row_mean(a * problem.y)) / size, 0.0), allowed))
        return max(
            (float(dual_values(problem, a, gradient, np.asarray(share))[0]), share)
            for share in sorted(shares)
        )


def _seen(iterates: list[Iterate]) -> list[Seen]:
    """Sums over all columns for outputs that share columns and weights of rows."""
    several = len(iterates) > 1
    rows = np.stack([at.a for at in iterates], axis=1) if several else iterates[0].a.copy()
    sums = iterates[0].output.problem.mean_rows(rows)  # which multiplies the rows by the weights
    results = []
    for at, column in zip(iterates, sums.T if several else [sums], strict=True):
        output = at.output
        lean = float(column[-1]) if output.problem.fit_intercept else 0.0
        gradient = np.ascontiguousarray(output.problem.weights_of(column))
        bound, share = output.bound(at.a, gradient) if output.loss.convex else (-np.inf, 0.0)
        results.append(Seen(gradient, lean, bound, share))
    return results


def look(iterates: Iterable[Iterate]) -> None:
    """Compute sums over all columns, in one pass, for iterates without them."""
    new = [at for at in iterates if "seen" not in vars(at)]
    for at, seen in zip(new, _seen(new) if new else [], strict=True):
        at.seen = seen
