"""A first solution without some rows, beside the solution of all rows: what a model errs by.

Both share the kernel matrix, and the second one starts from the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.designs import KernelColumns
from mercer.equations import spans_all_rows
from mercer.problem import Problem
from mercer.solvers import ConjugateGradient, Solver
from mercer.solvers.base import Result
from mercer.solvers.preconditioners import of_machine

__all__ = ["HeldOut", "held_out", "solve_without_first"]


@dataclass
class HeldOut:
    """Rows that a first solution leaves out, and its responses to these rows.

    Parameters
    ----------
    rows : ndarray of int64 of shape (h,)
    tol : callable
        Gives the tolerance of the solution of all rows from the responses (h, k).

    Attributes
    ----------
    responses : ndarray of float64 of shape (h, k), or None
        None until a first solution is found.
    """

    rows: NDArray[np.int64]
    tol: Callable[[NDArray[np.float64]], float]
    responses: NDArray[np.float64] | None = field(init=False, default=None)


_held: ContextVar[HeldOut | None] = ContextVar("mercer_held_out", default=None)


@contextmanager
def held_out(held: HeldOut) -> Iterator[None]:
    """Kernel machines of all rows or landmarks, fitted within this context, answer for ``held``."""
    token = _held.set(held)
    try:
        yield
    finally:
        _held.reset(token)


def solve_without_first(
    problem: Problem, solver: Solver, start: NDArray | None, listener: Any, mean: NDArray
) -> tuple[Solver, Result]:
    """Solve a problem; within ``held_out``, without some of its rows first.

    Only kernel machines that conjugate gradients solve have a first solution. ``mean`` was
    subtracted from the targets. Returns the solver of the result, whose tolerance may differ.
    """
    held = _held.get()
    if (
        held is None
        or not isinstance(solver, ConjugateGradient)
        or not isinstance(problem.design, KernelColumns)
        or problem.penalty.quadratic
    ):
        return solver, solver.solve(problem, start, listener)
    cached = solver.with_cached_kernel(problem)
    given, solver = solver, _of_landmarks_once(solver, cached)
    first = solver.solve(_without(cached, held.rows), None, listener)
    if first.interrupted:
        return given, first
    weights = first.coef[:-1] if problem.fit_intercept else first.coef
    found = problem.design.rows(held.rows).matvec(weights.astype(np.float64))
    found = found + (first.coef[-1] if problem.fit_intercept else 0.0)
    held.responses = np.asarray(found + mean, dtype=np.float64).reshape(len(held.rows), -1)
    tol = held.tol(held.responses)
    exact = replace(solver, tol=tol)
    if not exact.serves(cached):
        cached = problem
    return replace(given, tol=tol), exact.solve(cached, first.coef, listener)


def _of_landmarks_once(solver: ConjugateGradient, problem: Problem) -> ConjugateGradient:
    """The solver with a preconditioner for all solutions, if it would make one of landmarks.

    Its factors take as long as several products with the kernel, and weights are not in it.
    """
    if callable(solver.preconditioner) or problem.device or spans_all_rows(problem):
        return solver
    alpha = problem.penalty.alpha
    inverse = of_machine(problem, solver.preconditioner, solver.rank, 0, [alpha])

    def at_alpha(residual: NDArray, strengths: NDArray) -> NDArray:
        return inverse(residual, np.full_like(strengths, alpha))

    return replace(solver, preconditioner=at_alpha)


def _without(problem: Problem, rows: NDArray[np.int64]) -> Problem:
    """The problem with weights of 0 for some rows, and as much penalty for each of the others."""
    weights = np.ones(problem.n_rows) if problem.weights is None else problem.weights.copy()
    weights[rows] = 0.0
    alpha = problem.penalty.alpha * problem.n_rows / float(weights.sum())
    penalty = replace(problem.penalty, alpha=alpha)
    return Problem(problem.design, problem.y, problem.loss, penalty, weights, problem.fit_intercept)
