"""A first solution without some rows, beside the solution of all rows: what a model errs by.

Both share the kernel matrix, and the second one starts from the first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.random import key_from
from mercer.designs import KernelColumns
from mercer.equations import spans_all_rows
from mercer.estimators.plan import HeldOut
from mercer.problem import Problem
from mercer.solvers import ConjugateGradient, Solver
from mercer.solvers.base import Result
from mercer.solvers.low_rank import KernelFactor
from mercer.solvers.preconditioners import of_machine

__all__ = ["solve_after_held_out"]


def solve_after_held_out(
    problem: Problem,
    solver: Solver,
    start: NDArray | None,
    listener: Any,
    mean: NDArray,
    held: HeldOut | None,
) -> tuple[Solver, Result]:
    """Solve a problem, and first without the held-out rows, if any.

    Only kernel machines that conjugate gradients solve have a first solution. ``start`` are
    coefficients of all rows to begin with, such as those that float32 could not carry further.
    ``mean`` was subtracted from the targets. Returns the solver of the result, whose tolerance may
    differ.
    """
    if (
        held is None
        or not isinstance(solver, ConjugateGradient)
        or not isinstance(problem.design, KernelColumns)
        or problem.penalty.quadratic
    ):
        return solver, solver.solve(problem, start, listener)
    cached = solver.with_cached_kernel(problem)
    others = _without(cached, held.rows)
    with_factor = _sharing_a_factor(solver, cached)
    begin = None if start is None or held.coef is None else held.coef.astype(problem.dtype)
    first = with_factor(others).solve(others, begin, listener)
    if first.interrupted:
        return solver, first
    weights = first.coef[:-1] if problem.fit_intercept else first.coef
    found = problem.design.rows(held.rows).matvec(weights.astype(np.float64))
    found = found + (first.coef[-1] if problem.fit_intercept else 0.0)
    held.coef = first.coef
    held.responses = np.asarray(found + mean, dtype=np.float64).reshape(len(held.rows), -1)
    tol = held.tol(held.responses)
    exact = replace(with_factor(cached), tol=tol)
    if not exact.serves(cached):
        cached = problem
    begin = first.coef if start is None else start
    return replace(solver, tol=tol), exact.solve(cached, begin, listener)


def _sharing_a_factor(
    solver: ConjugateGradient, problem: Problem
) -> Callable[[Problem], ConjugateGradient]:
    """A function from a problem, whole or held-out, to its solver; all share one factor.

    The factor takes as long as several products with the kernel. That of landmarks has no weights
    in it; that of all rows is weighted again.
    """
    kind = solver.preconditioner
    if callable(kind) or kind is None or problem.device:
        return lambda part: solver
    alpha, key = problem.penalty.alpha, key_from(solver.random_state)
    if not spans_all_rows(problem):
        inverse = of_machine(problem, kind, solver.rank, key, [alpha])

        def at_alpha(residual: NDArray, strengths: NDArray) -> NDArray:
            return inverse(residual, np.full_like(strengths, alpha))

        shared = replace(solver, preconditioner=at_alpha)
        return lambda part: shared
    factor = KernelFactor.of(problem, solver.rank, key, alpha)

    def for_(part: Problem) -> ConjugateGradient:
        inverse = of_machine(part, kind, solver.rank, key, [part.penalty.alpha], factor)
        return replace(solver, preconditioner=inverse)

    return for_


def _without(problem: Problem, rows: NDArray[np.int64]) -> Problem:
    """The problem with weights of 0 for some rows, and as much penalty for each of the others."""
    weights = np.ones(problem.n_rows) if problem.weights is None else problem.weights.copy()
    weights[rows] = 0.0
    alpha = problem.penalty.alpha * problem.n_rows / float(weights.sum())
    penalty = replace(problem.penalty, alpha=alpha)
    return Problem(problem.design, problem.y, problem.loss, penalty, weights, problem.fit_intercept)
