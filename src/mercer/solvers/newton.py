"""Trust-region Newton with conjugate gradients inside, for smooth losses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.validation import number_at_least_0, positive_integer
from mercer.problem import Point, Problem
from mercer.problem.rows import add_scaled
from mercer.solvers.base import Clock, Solver, State, check_range

__all__ = ["NewtonCG"]

# Ratios of the actual to the predicted decrease: a step is accepted above ACCEPT, the radius
# shrinks below POOR and grows above GOOD, by factors from SHRINK to GROW.
_ACCEPT, _POOR, _GOOD = 1e-4, 0.25, 0.75
_SHRINK, _HALVE, _GROW = 0.25, 0.5, 4.0
_NOISE = 10.0  # rounding error of F, in units of the dtype's precision


@dataclass(kw_only=True)
class _State(State):
    """The arrays have one entry per independent output, or one in all."""

    point: Point
    relative: NDArray  # norm of the gradient in units of the reference
    radius: NDArray
    lost: NDArray  # outputs that rounding keeps from the goal

    @property
    def objective(self) -> float:
        return self.point.value


@dataclass
class _Step:
    """A minimiser of the quadratic model within the trust region."""

    move: NDArray
    length: NDArray  # norm of the move
    predicted: NDArray  # decrease of the model


@dataclass
class NewtonCG(Solver):
    """Newton's method with a trust region, by products with the Hessian.

    ::

        repeat   s ≈ argmin  gᵀs + ½ sᵀ∇²F s  within ‖s‖ ≤ Δ       (CG, to 0.1 ‖g‖ or the boundary)
                 ρ = (F(θ) - F(θ + s)) / (the decrease the model predicts)
                 θ += s  if ρ > 1e-4;   Δ shrinks if ρ < 0.25, grows if ρ > 0.75

    Independent outputs have their own Δ and ρ and share products until they converge. A loss that
    couples the outputs is minimised over all of them jointly. Losses whose second derivative jumps
    use the generalised Hessian.

    Parameters
    ----------
    tol : float, default=1e-4
        Tolerance: the solver stops when the norm of the gradient is at most tol · (that of the best
        constant model) for every output.
    max_iter : int, default=1000
        Largest number of trust-region steps, rejected steps included.
    inner_tol : float, default=0.1
        Residual at which the inner CG stops, relative to the gradient.
    max_inner : int, default=500
        Largest number of CG iterations in a step.

    References
    ----------
    Lin, Weng and Keerthi (2008), Trust region Newton method for large-scale logistic regression.
    Steihaug (1983), The conjugate gradient method and trust regions.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import designs, losses, penalties, solvers
    >>> from mercer.problem import Problem
    >>> design = designs.Dense(np.array([[-1.0], [1.0]]))
    >>> problem = Problem(design, [-1.0, 1.0], losses.Logistic(), penalties.L2(0.1))
    >>> solvers.NewtonCG(tol=1e-8).solve(problem).coef.round(4)
    array([1.6335, 0.    ])
    """

    inner_tol: float = 0.1
    max_inner: int = 500

    name: ClassVar[str] = "newton-cg"
    follows_design: ClassVar[bool] = True
    requires: ClassVar[frozenset[str]] = frozenset(
        {"a penalty of linear gradient", "a smooth loss"}
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.inner_tol = number_at_least_0(self.inner_tol, "inner_tol")
        self.max_inner = positive_integer(self.max_inner, "max_inner")

    def init(self, problem: Problem, theta: NDArray, clock: Clock) -> _State:
        with clock.phase("gradient"):
            reference = problem.reference()  # first: it knows the gradient at the usual start
            point = problem.at(theta)
            norm = problem.norm(point.gradient)
            relative = norm / reference
        # No Newton step is longer than ‖g‖ / alpha if alpha bounds the curvature from below; of a
        # norm other than ‖w‖ that is a guess, which the steps themselves correct.
        least = float(np.mean(problem.penalty.diagonal()))
        radius = norm / least if problem.loss.convex and least > 0 else norm
        return _State(
            problem=problem,
            clock=clock,
            x=point.theta,
            optimality=float(relative.max()),
            point=point,
            relative=relative,
            radius=radius,
            lost=np.zeros(len(norm), dtype=bool),
        )

    def step(self, problem: Problem, state: _State) -> None:
        with state.clock.phase("inner"):
            step = self._inner(problem, state)
        point = state.point
        with state.clock.phase("gradient"):
            trial = problem.at(point.theta + step.move)
            relative = problem.norm(trial.gradient) / problem.reference()
        tried = step.predicted > 0
        actual = np.where(np.isfinite(trial.values), point.values - trial.values, -np.inf)
        ratio = np.divide(actual, step.predicted, out=np.zeros_like(actual), where=tried)
        # Where the predicted decrease drowns in the rounding of F, the gradient decides.
        noise = _NOISE * float(np.finfo(problem.dtype).eps) * np.abs(point.values)
        blind = tried & (step.predicted <= noise)
        better = relative < state.relative
        ratio = np.where(blind, better, ratio)
        accept = tried & (ratio > _ACCEPT)
        state.lost |= (blind & ~better) | (~tried & (state.relative > self.tol))
        radius = np.minimum(state.radius, step.length) if state.iteration == 0 else state.radius
        slope = problem.dot(point.gradient, step.move)
        state.radius = np.where(tried, _new_radius(radius, step, ratio, actual, slope), radius)
        state.point = point.with_outputs(trial, accept)
        state.x = state.point.theta
        state.relative = np.where(accept, relative, state.relative)
        state.optimality = float(state.relative.max())
        if np.all(state.lost | (state.relative <= self.tol)):
            state.stalled = f"stalled at the limit of {problem.dtype}"

    def _inner(self, problem: Problem, state: _State) -> _Step:
        """Steihaug's truncated conjugate gradients, output by output."""
        point, at_work = state.point, (state.relative > self.tol) & ~state.lost
        outputs = np.flatnonzero(at_work)
        step = _Step(np.zeros_like(point.theta), np.zeros(len(at_work)), np.zeros(len(at_work)))
        # Norm of the residual to reach: at least half of that of the stopping test.
        goal = 0.5 * self.tol * problem.reference()
        if not problem.loss.quadratic:
            goal = np.maximum(goal, self.inner_tol * problem.norm(point.gradient))
        goal = goal[outputs]
        residual = -_columns(point.gradient, at_work)
        direction = residual.copy()
        slope = problem.dot(residual, residual)
        # Inner products of the step s and the direction p follow from recurrences.
        ss, sp, pp = np.zeros_like(slope), np.zeros_like(slope), slope
        for _ in range(self.max_inner):
            columns = outputs if len(at_work) > 1 else None
            product = point.curvature_product(direction, columns)
            curvature = problem.dot(direction, product)
            check_range(problem, curvature)
            radius = state.radius[outputs]
            length = np.where(curvature > 0, slope / curvature, np.inf)
            outside = ss + length * (2 * sp + length * pp) >= np.square(radius)
            to_boundary = (np.sqrt(sp**2 + pp * (radius**2 - ss)) - sp) / pp
            length = np.where(outside, to_boundary, length)
            ss, sp = ss + length * (2 * sp + length * pp), sp + length * pp
            step.length[outputs] = np.where(outside, radius, np.sqrt(ss))
            step.predicted[outputs] += length * (slope - 0.5 * length * curvature)
            factor = length.astype(problem.dtype)
            moved = outputs if len(outputs) < len(at_work) else None
            add_scaled(step.move, factor, direction, moved)
            add_scaled(residual, -factor, product)
            squares = problem.dot(residual, residual)
            keep = ~outside & (np.sqrt(squares) > goal)
            if not keep.any():
                break
            outputs, goal = outputs[keep], goal[keep]
            residual, direction = _columns(residual, keep), _columns(direction, keep)
            turn = squares[keep] / slope[keep]
            slope = squares[keep]
            ss, sp, pp = ss[keep], turn * sp[keep], slope + turn**2 * pp[keep]
            direction *= turn.astype(problem.dtype)
            direction += residual
        return step


def _new_radius(
    radius: NDArray, step: _Step, ratio: NDArray, actual: NDArray, slope: NDArray
) -> NDArray:
    """Δ for the next step: where F seems to be least along this one, within bounds set by ρ."""
    bend = -actual - slope  # F(θ + s) - F(θ) - gᵀs
    scale = np.where(bend > 0, np.maximum(_SHRINK, -0.5 * slope / bend), _GROW)
    poor, good = ratio <= _POOR, ratio >= _GOOD
    shortest = np.minimum(step.length, radius)
    low = np.where(poor, _SHRINK * shortest, np.where(good, radius, _SHRINK * radius))
    high = np.where(poor, _HALVE * radius, _GROW * radius)
    inner = np.clip(scale * step.length, low, high)
    # A good step that the boundary cut short says nothing against going much further.
    return np.where(good & (step.length >= radius), _GROW * radius, inner)


def _columns(array: NDArray, mask: NDArray) -> NDArray:
    return array if array.ndim == 1 or mask.all() else array[:, mask]
