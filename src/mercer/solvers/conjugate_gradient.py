"""Conjugate gradients for ridge problems, all outputs at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mercer._validation import name_from
from mercer.problem import Problem
from mercer.solvers.base import Clock, Solver, State

__all__ = ["ConjugateGradient"]

_DRIFT = 0.1  # share of the true residual that the recurrence may have missed


@dataclass
class _State(State):
    """``residual`` and ``direction`` hold the columns of ``outputs``, those still at work."""

    outputs: NDArray = field(kw_only=True)
    residual: NDArray = field(kw_only=True)
    direction: NDArray = field(kw_only=True)
    slope: NDArray = field(kw_only=True)  # rᵀ M⁻¹ r of every output at work
    relative: NDArray = field(kw_only=True)  # ‖r‖ of every output, in units of the reference
    verified: NDArray = field(kw_only=True)  # the same at the last look at the true residual
    values: NDArray = field(kw_only=True)  # F of every output
    precondition: Callable[[NDArray], NDArray] = field(kw_only=True)
    lost: NDArray = field(kw_only=True)  # outputs that rounding keeps from the goal
    exact: bool = True  # whether ``relative`` is that of the true residual

    @property
    def objective(self) -> float:
        return float(np.sum(self.values))

    def keep(self, mask: NDArray) -> None:
        """Let the other outputs go."""
        self.outputs = self.outputs[mask]
        if mask.any():
            self.residual = _columns(self.residual, mask)
            self.direction = _columns(self.direction, mask)
            self.slope = self.slope[mask]


@dataclass
class ConjugateGradient(Solver):
    """Preconditioned conjugate gradients on ((1/n) Zᵀ S Z + alpha I) w = (1/n) Zᵀ S y.

    ::

        r = -∇F(θ), p = z = M⁻¹ r
        repeat   q = ∇²F p,  a = rᵀz / pᵀq,  θ += a p,  r -= a q
                 z = M⁻¹ r,  b = rᵀz / (the one before),  p = z + b p

    Every output has its own a and b, and leaves the products when it is done. The recurrence for r
    drifts away from the truth in finite precision: it is compared with -∇F(θ) every ``check_every``
    iterations and before an output is called solved, replaced by it, and started anew where the two
    differ much. An output that rounding keeps from its goal is given up, with a warning.

    Parameters
    ----------
    tol : float, default=1e-4
        Stop when ‖r‖ ≤ tol · (‖r‖ of the best constant model) for every output.
    max_iter : int, default=1000
    preconditioner : "tempered", "jacobi", None or callable, default="tempered"
        M is the fourth root of the diagonal of ∇²F, the diagonal, or nothing; or M⁻¹ is any
        symmetric positive definite linear function of residuals (D + 1,) or (D + 1, k), column by
        column. The diagonal itself speeds up the first iterations over columns of very unequal
        sizes, such as bins, and slows down the later ones; its fourth root keeps most of the one
        and avoids the other.
    check_every : int, default=50
        Iterations between two looks at the true residual.

    References
    ----------
    Wu, Yen, Chen and Yan (2016), Revisiting random binning features, section 3.1.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.designs import Dense
    >>> from mercer.losses import Squared
    >>> from mercer.penalties import L2
    >>> from mercer.problem import Problem
    >>> from mercer.solvers import ConjugateGradient
    >>> design = Dense(np.array([[1.0, 0.0], [0.0, 2.0]]))
    >>> problem = Problem(design, [1.0, 1.0], Squared(), L2(0.5), fit_intercept=False)
    >>> ConjugateGradient(tol=1e-10).solve(problem).coef.round(6)
    array([0.5, 0.4])
    """

    preconditioner: str | Callable[[NDArray], NDArray] | None = "tempered"
    check_every: int = 50

    name: ClassVar[str] = "cg"
    requires: ClassVar[frozenset[str]] = frozenset({"a quadratic loss", "a quadratic penalty"})

    def init(self, problem: Problem, theta: NDArray, clock: Clock) -> _State:
        with clock.phase("products"):
            residual = -problem.gradient(theta)
            relative = problem.norm(residual) / problem.reference()
        with clock.phase("vectors"):
            precondition = _preconditioner(self.preconditioner, problem)
            direction = np.array(precondition(residual))
        state = _State(
            problem,
            theta,
            clock,
            optimality=float(relative.max()),
            outputs=np.arange(len(relative)),
            residual=residual,
            direction=direction,
            slope=problem.dot(residual, direction),
            relative=relative,
            verified=relative.copy(),
            values=problem.values(theta).copy(),
            precondition=precondition,
            lost=np.zeros(len(relative), dtype=bool),
        )
        state.keep(relative > self.tol)
        return state

    def step(self, problem: Problem, state: _State) -> None:
        outputs = state.outputs
        with state.clock.phase("products"):
            product = problem.curvature_product(
                state.coef, state.direction, outputs if state.coef.ndim == 2 else None
            )
        with state.clock.phase("vectors"):
            curvature = problem.dot(state.direction, product)
            usable = curvature > 0
            length = np.divide(state.slope, curvature, out=np.zeros_like(curvature), where=usable)
            state.values[outputs] -= 0.5 * length * state.slope
            length = length.astype(problem.dtype)
            if len(outputs) == len(state.relative):
                state.coef += length * state.direction
            else:
                state.coef[:, outputs] += length * state.direction
            state.residual -= length * product
            state.relative[outputs] = problem.norm(state.residual) / problem.reference()[outputs]
            state.exact = False
            state.lost[outputs] |= ~usable
        at_work = (state.relative[outputs] > self.tol) & usable
        restart = False
        if not at_work.any() or (state.iteration + 1) % self.check_every == 0:
            restart = self._verify(problem, state)
        else:
            state.keep(at_work)
        state.optimality = float(state.relative.max())
        if len(state.outputs):
            self._turn(problem, state, restart)
        elif state.optimality > self.tol:
            state.stalled = f"stalled at the limit of {problem.dtype}"

    def _turn(self, problem: Problem, state: _State, restart: bool) -> None:
        """The next direction: conjugate to the ones before, or steepest descent."""
        with state.clock.phase("vectors"):
            steepest = state.precondition(state.residual)
            slope = problem.dot(state.residual, steepest)
            if restart:
                state.direction = np.array(steepest)
            else:
                state.direction *= (slope / state.slope).astype(problem.dtype)
                state.direction += steepest
            state.slope = slope

    def _verify(self, problem: Problem, state: _State) -> bool:
        """Replace the recurrence by the truth; whether CG has to start anew from there."""
        with state.clock.phase("products"):
            true = -problem.gradient(state.coef)
            relative = problem.norm(true) / problem.reference()
        with state.clock.pause():
            state.values = problem.values(state.coef).copy()
        # Rounding rules where the recurrence promises progress that the truth does not show.
        state.lost |= (state.relative < 0.5 * relative) & (relative > 0.5 * state.verified)
        state.verified, state.relative, state.exact = relative, relative.copy(), True
        unsolved = (relative > self.tol) & ~state.lost
        state.keep(unsolved[state.outputs])
        if len(state.outputs):
            at_work = np.isin(np.arange(len(relative)), state.outputs)
            recurrence, state.residual = state.residual, _columns(true, at_work)
            drift = problem.norm(state.residual - recurrence)
            return bool(np.any(drift > _DRIFT * problem.norm(state.residual)))
        # Outputs that were let go too early come back.
        state.outputs = np.flatnonzero(unsolved)
        state.residual = _columns(true, unsolved)
        return True

    def finish(self, problem: Problem, state: _State) -> None:
        if not state.exact:
            state.relative = problem.norm(problem.gradient(state.coef)) / problem.reference()
            state.optimality = float(state.relative.max())


def _columns(array: NDArray, mask: NDArray) -> NDArray:
    return array if array.ndim == 1 or mask.all() else array[:, mask]


def _preconditioner(kind: Any, problem: Problem) -> Callable[[NDArray], NDArray]:
    if kind is None:
        return lambda residual: residual
    if callable(kind):
        return kind
    powers = {"tempered": 0.25, "jacobi": 1.0}
    power = powers[name_from(kind, powers, "preconditioner")]
    diagonal = problem.diagonal(problem.initial()).astype(np.float64)
    if problem.fit_intercept and len(diagonal) > 1:
        # The intercept's own entry is far above those of columns that add up to a constant.
        diagonal[-1] = diagonal[:-1].max()
    inverse = np.ones_like(diagonal)
    np.power(diagonal, -power, out=inverse, where=diagonal > 0)
    inverse = inverse.astype(problem.dtype)
    return lambda residual: inverse * residual
