"""Conjugate gradients on the equations of kernel machines, several strengths at once."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.designs import KernelColumns
from mercer.equations import Equations, KernelEquations
from mercer.problem import Problem
from mercer.solvers.base import Clock, Result, State, TraceRow, check_range
from mercer.solvers.preconditioners import low_rank, rank_for, restricted

__all__ = ["KrylovState", "Precondition", "held", "lost", "preconditioner"]

_STRIKES = 3  # looks at the truth that may find nothing better before a strength is given up
_GAIN = 0.5  # what counts as better
_FEW_OUTPUTS = 3  # for which it does not pay to hold a matrix that is quickly made
_COARSE = 1e-3  # residual from which products in float32, if that is the data's, lose nothing
_DRIFT = 2.0  # how much more than the recurrence the truth may be

Precondition = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]


@dataclass(kw_only=True)
class KrylovState(State):
    """Where conjugate gradients stand, for all strengths at once.

    Attributes
    ----------
    alphas : ndarray of shape (q,)
        All strengths asked for.
    coefs : list of ndarray
        θ of every strength.
    relative : ndarray of shape (q,)
        Relative residual of every strength, the largest over its outputs.
    """

    system: Equations
    precondition: Precondition
    alphas: NDArray[np.float64]
    index: NDArray[np.int64]  # numbers of the strengths at work
    relative: NDArray[np.float64]
    residual: NDArray[np.float64]
    direction: NDArray[np.float64]
    slope: NDArray[np.float64]  # rᵀ M⁻¹ r of every column at work
    values: NDArray[np.float64]  # F of every strength and output at work
    n_iter: NDArray[np.int64]
    begun: tuple[NDArray[np.float64], NDArray[np.float64]]  # x and its residual at the start
    energy: NDArray[np.float64]  # the quadratic that falls with every step, when last looked at
    best: NDArray[np.float64]  # the least true residual of every strength
    strikes: NDArray[np.int64]
    traces: list[list[TraceRow]]
    kept: dict[int, NDArray] = field(
        default_factory=dict
    )  # θ of the best, where it is not the last
    finished: dict[int, NDArray] = field(default_factory=dict)

    @property
    def coefs(self) -> list[NDArray]:
        """θ of every strength."""
        places = {int(number): place for place, number in enumerate(self.index)}
        return [
            self.system.theta(self.system.x, places[number])
            if number in places
            else self.finished[number]
            for number in range(len(self.alphas))
        ]

    @property
    def coef(self) -> NDArray:
        """θ of the first strength."""
        return self.coefs[0]

    @property
    def objective(self) -> float:
        """F of the first strength when it was last looked at."""
        return self.traces[0][-1].objective

    @classmethod
    def begin(
        cls,
        problem: Problem,
        system: Equations,
        precondition: Precondition,
        clock: Clock,
        theta: NDArray,
    ) -> KrylovState:
        """At θ for every strength."""
        q = len(system.alphas)
        with clock.phase("products"):
            system.start(system.from_theta(theta))
            residual = system.residual(system.x)
        state = cls(
            problem=problem,
            clock=clock,
            x=theta,
            system=system,
            precondition=precondition,
            alphas=system.alphas.copy(),
            index=np.arange(q),
            relative=system.relative(residual).max(axis=1),
            residual=residual,
            direction=residual,
            slope=np.ones(residual.shape[1]),
            values=system.values(),
            n_iter=np.zeros(q, dtype=np.int64),
            begun=(system.x.copy(), residual),
            energy=np.full(q, np.inf),
            best=np.full(q, np.inf),
            strikes=np.zeros(q, dtype=np.int64),
            traces=[[] for _ in range(q)],
        )
        state.turn(restart=True)
        state.observe()
        return state

    def advance(self, tol: float) -> None:
        """One step along the directions."""
        # The recurrence strays no further than the truth is looked at for.
        single = tol >= _COARSE and isinstance(self.system, KernelEquations)
        dtype = self.problem.dtype if single else np.float64
        with self.clock.phase("products"):
            product = self.system.product(self.direction.astype(dtype, copy=False))
        with self.clock.phase("vectors"):
            curvature = np.einsum("ij,ij->j", self.direction, product)
            check_range(self.problem, curvature)
            usable = curvature > 0
            length = np.divide(self.slope, curvature, out=np.zeros_like(curvature), where=usable)
            self.system.state["x"] += length * self.direction
            product *= length
            self.residual = self.residual - product
            self.relative[self.index] = self.system.relative(self.residual).max(axis=1)
        if not self.system.knows_residual:
            self.values -= 0.5 * (length * self.slope).reshape(self.values.shape)
        self.iteration += 1
        self.n_iter[self.index] += 1

    def verify(self, tol: float) -> bool:
        """Replace the recurrence by the truth; whether directions have to begin anew.

        Residuals may rise for long; the energy ½ xᵀM x − rᵀx only does where rounding rules.
        """
        system, at = self.system, self.index
        with self.clock.phase("products"):
            true = system.residual(system.x)
        relative = system.relative(true).max(axis=1)
        missed = relative > np.maximum(tol, _DRIFT * self.relative[at])
        x, residual = self.begun
        each = -0.5 * np.einsum("ij,ij->j", system.x - x, residual + true)
        energy = each.reshape(len(at), -1).sum(axis=1)
        idle = (relative >= self.best[at]) & (energy >= self.energy[at])
        better = relative <= _GAIN * self.best[at]
        self.strikes[at] = np.where(better, 0, self.strikes[at] + (missed | idle))
        for place in np.flatnonzero(relative < self.best[at]):
            self.kept[int(at[place])] = system.theta(system.x, int(place))
        self.best[at] = np.minimum(relative, self.best[at])
        self.energy[at], self.relative[at], self.residual = energy, relative, true
        return bool(missed.any())

    def turn(self, restart: bool = False) -> None:
        """The next directions: conjugate to the ones before, or steepest descent."""
        with self.clock.phase("precondition"):
            steepest = self.precondition(self.residual, self.system.strengths())
        with self.clock.phase("vectors"):
            slope = np.einsum("ij,ij->j", self.residual, steepest)
            if restart:
                self.direction = steepest
            else:
                ratio = np.divide(slope, self.slope, out=np.zeros_like(slope), where=self.slope > 0)
                self.direction = steepest + ratio * self.direction
            self.slope = slope

    def leave(self, tol: float) -> None:
        """Let strengths go that are solved, or that rounding keeps from it."""
        done = (self.relative <= tol) | (self.strikes >= _STRIKES)
        places = np.flatnonzero(~done[self.index])
        if len(places) == len(self.index):
            return
        for place in np.flatnonzero(done[self.index]):
            number = int(self.index[place])
            self.finished[number] = self.system.theta(self.system.x, int(place))
            if self.best[number] < self.relative[number]:
                self.finished[number] = self.kept[number]
                self.relative[number] = self.best[number]
        width = self.system.width
        columns = (places[:, None] * width + np.arange(width)).ravel()
        self.system.keep(places)
        self.index, self.values = self.index[places], self.values[places]
        self.residual, self.direction = self.residual[:, columns], self.direction[:, columns]
        self.slope = self.slope[columns]
        self.begun = (self.begun[0][:, columns], self.begun[1][:, columns])

    def observe(self) -> None:
        """Write a row into the trace of every strength at work."""
        with self.clock.pause():
            if self.system.knows_residual:
                for m, part in enumerate(self.system.parts):
                    self.system.state[f"rows{m}"] = self.residual[part.rows]
                self.values = self.system.values()
            check_range(self.problem, self.values)
            self.optimality = float(self.relative.max())
            for place, number in enumerate(self.index):
                row = TraceRow(
                    self.clock.seconds,
                    float(self.values[place].sum()),
                    float(self.relative[number]),
                    int(np.count_nonzero(self.system.x[:, self.system.of(place)])),
                    dict(self.clock.phases),
                )
                self.traces[number].append(row)

    def results(self, tol: float, interrupted: bool) -> list[Result]:
        """One for each strength."""
        return [
            Result(
                coef,
                int(self.n_iter[number]),
                bool(self.relative[number] <= tol),
                float(self.relative[number]),
                self.traces[number],
                interrupted and bool(self.relative[number] > tol),
                "residual",
            )
            for number, coef in enumerate(self.coefs)
        ]


def held(problem: Problem, hold: bool | str) -> Problem:
    """The problem with its kernel matrices in memory where they fit, and where that pays."""
    design, penalty = problem.design, problem.penalty
    if not hold or not isinstance(design, KernelColumns):
        return problem
    if hold == "auto" and design.quick and problem.n_outputs <= _FEW_OUTPUTS:
        return problem
    other = copy.copy(problem)
    other.design = design.held()
    matrix: Any = penalty.matrix  # type: ignore[attr-defined]
    if matrix is design:
        matrix = other.design
    elif isinstance(matrix, KernelColumns):
        matrix = matrix.held()
    other.penalty = replace(penalty, matrix=matrix)  # type: ignore[call-arg]
    return other


def lost(state: KrylovState, start: NDArray) -> bool:
    """Whether a machine of landmarks ended worse than it began, and so is back at its start.

    Where columns are nearly dependent and entries float32, weights grow until their rounding is all
    that is left.
    """
    if isinstance(state.system, KernelEquations) or not state.iteration:
        return False
    if state.problem.value(state.coef) <= state.problem.value(start):
        return False
    state.finished[0], state.index = start, state.index[:0]
    state.relative[0] = state.traces[0][0].optimality
    return True


def preconditioner(system: Equations, kind: Any, rank: int | str, key: int) -> Precondition:
    """What approximates the inverse of the equations, by name or as given."""
    problem = system.problem
    if callable(kind):
        return kind
    if kind is None:
        return lambda residual, strengths: residual
    if not isinstance(system, KernelEquations):
        penalty: Any = problem.penalty
        return restricted(
            penalty.matrix, penalty.jitter, problem.fit_intercept, problem.design.dtype
        )
    n = problem.n_rows
    root = None if problem.weights is None else np.sqrt(problem.weights)
    design: Any = problem.design
    most = rank_for(n) if rank == "auto" else min(int(rank), n)
    inverse = low_rank(design, most, key, root, n * float(system.alphas.min()))
    return lambda residual, strengths: inverse(residual, n * strengths)
