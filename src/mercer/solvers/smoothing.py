"""Losses with a kink, by smooth ones that come ever closer to it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from mercer.losses.base import typical
from mercer.penalties import RKHSNorm
from mercer.problem import Problem
from mercer.problem.certificates import dual_gaps
from mercer.solvers.base import PERFECT, Clock, Solver, State
from mercer.solvers.coordinate import CoordinateDescent
from mercer.solvers.row_newton import newton_for

__all__ = ["Smoothing"]

_NARROWER = 4.0  # factor by which the width h falls per round: the gap falls about 16-fold
# The same factor for a hinge: after 4.0 Newton's method stalled at a gap of 0.002 on weighted bins.
_HALVED = 2.0
_SHARPER = 10.0  # factor by which the tolerance of the smooth problem falls
_FIRST_TOL = 1e-2  # relative tolerance of the first smooth problem
_IDLE = 3  # consecutive rounds without a better θ that end the search
_LEAST_WIDTH = 64.0  # least width of the parabolas, in units of the targets' rounding error


@dataclass(kw_only=True)
class _State(State):
    """Arrays have one entry per output."""

    reference: NDArray  # F at the best constant model
    width: float
    inner_tol: float
    value: float  # F
    idle: int = 0  # steps in a row that brought nothing

    @property
    def objective(self) -> float:
        return self.value


@dataclass
class Smoothing(Solver):
    """Minimises a loss with a kink by a sequence of smooth losses that differ only near the kink.

    ::

        h = F(best constant model), with residuals up to 10 medians
        repeat   θ ← argmin of F with a parabola of width h for the kink   (from the last θ)
                 b ← the best intercept of the loss itself    (of quantiles)
                 stop if the duality gap of F is small enough;   h ← h / 4    (h / 2 for the hinge)

    The derivatives of the smooth loss are dual variables of F, which give the duality gap. With
    ``RKHSNorm`` and for alpha = 0 there is no duality gap; the criterion is then the mean ε of the
    derivatives as ε-subgradients of the loss, which bounds F minus its minimum if the smooth
    problem is solved exactly. A Newton method solves each smooth problem, or
    ``CoordinateDescent`` for a penalty with an l1 part.

    Parameters
    ----------
    tol : float, default=1e-4
        Tolerance: the solver stops when the duality gap, or the mean ε, is at most
        tol · F(best constant model) for every output. In this F, losses above 10 times their
        median count as 10 medians: a far target does not loosen the tolerance.
    max_iter : int, default=1000
        Largest number of widths h, and of iterations for each width.

    References
    ----------
    Nesterov (2005), Smooth minimization of non-smooth functions.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import designs, losses, penalties, solvers
    >>> from mercer.problem import Problem
    >>> design = designs.Dense(np.arange(5.0)[:, None])
    >>> y = np.array([0.0, 1.0, 2.0, 3.0, 40.0])
    >>> problem = Problem(design, y, losses.Quantile(0.5), penalties.L2(1e-6))
    >>> solvers.Smoothing().solve(problem).coef[:1].round(2)
    array([1.])
    """

    name: ClassVar[str] = "smoothing"
    requires: ClassVar[frozenset[str]] = frozenset({"a loss with a kink"})

    def criterion(self, problem: Problem) -> str:
        return "duality gap" if _has_gap(problem) else "subgradients"

    def init(self, problem: Problem, theta: NDArray, clock: Clock) -> _State:
        with clock.phase("gradient"):
            first = problem.initial()
            constant = _typical_value(problem, first)
            width = float(np.max(constant))
            # At the constant model a hinge may have no curvature for Newton's method.
            if width > 0 and np.array_equal(theta, first):
                theta = problem.with_loss(problem.loss.smoothed(width)).initial()
            point = problem.at(theta)
        size = np.atleast_1d(problem.row_mean(np.abs(problem.y)))
        perfect = np.maximum(PERFECT * size, np.finfo(np.float64).tiny)
        solved = constant <= np.maximum(perfect, np.finfo(problem.dtype).eps * size)
        reference = np.where(solved, np.inf, constant)
        return _State(
            problem=problem,
            clock=clock,
            x=point.theta,
            optimality=float(np.max(point.values / reference)),  # F is nowhere negative
            reference=reference,
            width=width,
            inner_tol=_FIRST_TOL,
            value=point.value,
        )

    def step(self, problem: Problem, state: _State) -> None:
        loss = problem.loss.smoothed(state.width)
        smooth = problem.with_loss(loss)
        kind = newton_for(smooth) if problem.penalty.linear else CoordinateDescent
        inner = kind(tol=state.inner_tol, max_iter=self.max_iter)
        with state.clock.phase("inner"), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            result = inner.solve(smooth, state.x)
        if result.interrupted:
            raise KeyboardInterrupt
        with state.clock.phase("gradient"):
            near = smooth.at(result.coef)
            slopes = loss.gradient(near.responses.astype(np.float64), problem.y)
            theta = result.coef.copy()
            # A quantile of the residuals lowers F. The hinge has no residuals.
            if problem.fit_intercept and not problem.loss.is_classification:
                linear = near.responses - theta[-1]
                theta[-1] = problem.loss.start(problem.y - linear, problem.row_mean)
            point = problem.at(theta)
            left = _excess(problem, near.responses, slopes)
            gaps = dual_gaps(point, slopes) if _has_gap(problem) else None
        bound = left if gaps is None else np.maximum(gaps, 0.0)
        relative = float(np.max(bound / state.reference))
        state.idle = 0 if relative < state.optimality else state.idle + 1
        if not state.idle:
            state.x, state.value, state.optimality = point.theta, point.value, relative
        if gaps is None or np.max(left / state.reference) > 0.5 * min(self.tol, relative):
            state.width /= _HALVED if problem.loss.is_classification else _NARROWER
        if gaps is None or not np.max(left / state.reference) > 0.5 * relative:
            state.inner_tol /= _SHARPER
        unit = float(np.finfo(problem.dtype).eps) * float(np.max(np.abs(problem.y), initial=0.0))
        if state.width < _LEAST_WIDTH * unit or state.idle >= _IDLE:
            state.stalled = "gained no more by less smoothing"


def _typical_value(problem: Problem, theta: NDArray) -> NDArray[np.float64]:
    """F at a constant model, per output; for residuals without the excess of a few far ones."""
    point = problem.at(theta)
    if problem.loss.is_classification:
        return point.values
    rows = problem.loss.value(point.responses, problem.y)
    return np.atleast_1d(typical(rows, problem.row_mean))


def _has_gap(problem: Problem) -> bool:
    return problem.penalty.alpha > 0 and not isinstance(problem.penalty, RKHSNorm)


def _excess(problem: Problem, responses: NDArray, slopes: NDArray) -> NDArray[np.float64]:
    """Mean ε by which slopes fall short of being derivatives at the responses, per output."""
    u, y = responses.astype(np.float64), problem.y.astype(np.float64)
    rows = problem.loss.value(u, y) + problem.loss.conjugate(slopes, y) - slopes * u
    return np.maximum(np.atleast_1d(problem.row_mean(rows)), 0.0)
