"""Solvers: algorithms that see a problem through vectors of one entry per column."""

from __future__ import annotations

from mercer._array import available_memory
from mercer._validation import name_from
from mercer.designs import Dense
from mercer.problem import Problem
from mercer.solvers.async_svrg import AsyncSVRG, simulate_delays, step_bounds
from mercer.solvers.base import Result, Solver, TraceRow
from mercer.solvers.block import BlockCoordinateDescent
from mercer.solvers.boosting import BestOfSome, BestStump, Boosting, Perceptrons
from mercer.solvers.conjugate_gradient import ConjugateGradient
from mercer.solvers.coordinate import CoordinateDescent, path, simulate
from mercer.solvers.direct import Cholesky, LeftOut, leave_one_out
from mercer.solvers.doubly import DoublySGD, Expansion
from mercer.solvers.dual import AsyncGreedyCD, BoxDual, DualResult, PairwiseCD
from mercer.solvers.newton import NewtonCG
from mercer.solvers.working_set import Selection, Stream, WorkingSet

__all__ = [
    "AsyncGreedyCD",
    "AsyncSVRG",
    "BestOfSome",
    "BestStump",
    "BlockCoordinateDescent",
    "Boosting",
    "BoxDual",
    "Cholesky",
    "ConjugateGradient",
    "CoordinateDescent",
    "DoublySGD",
    "DualResult",
    "Expansion",
    "LeftOut",
    "NewtonCG",
    "PairwiseCD",
    "Perceptrons",
    "Result",
    "Selection",
    "Solver",
    "Stream",
    "TraceRow",
    "WorkingSet",
    "auto",
    "get",
    "leave_one_out",
    "names",
    "path",
    "simulate",
    "simulate_delays",
    "step_bounds",
]

SOLVERS: dict[str, type[Solver]] = {
    cls.name: cls
    for cls in (
        Cholesky,
        ConjugateGradient,
        BlockCoordinateDescent,
        CoordinateDescent,
        NewtonCG,
        AsyncSVRG,
    )
}

_DIRECT_SIDE = 4000  # largest matrix to factorise unasked: seconds, and 128 MB
_SMALL = 2**22  # entries below which any design is as good as dense


def names() -> list[str]:
    """The names that ``get`` understands."""
    return ["auto", *SOLVERS]


def auto(problem: Problem, tol: float = 1e-4, max_iter: int = 1000) -> Solver:
    """The solver that suits the loss and the size of a problem.

    A penalty with an l1 part gets coordinate descent. Otherwise a quadratic loss gets the direct
    solver where the smaller side of the design is small, the design is dense or small itself, and
    the matrix fits; else conjugate gradients. Any other loss gets Newton's method.

    Parameters
    ----------
    problem : Problem
    tol, max_iter :
        As in ``Solver``.

    Returns
    -------
    Solver
    """
    if problem.penalty.l1:
        return CoordinateDescent(tol=tol, max_iter=max_iter)
    if not problem.loss.quadratic:
        return NewtonCG(tol=tol, max_iter=max_iter)
    n, n_columns = problem.design.shape
    side = min(n, n_columns + 1)
    cheap = isinstance(problem.design, Dense) or n * n_columns <= _SMALL
    available = available_memory()
    fits = available is None or 24 * side**2 <= available
    if cheap and fits and side <= _DIRECT_SIDE:
        return Cholesky(tol=tol, max_iter=max_iter)
    return ConjugateGradient(tol=tol, max_iter=max_iter)


def get(
    solver: str | Solver, problem: Problem, *, tol: float = 1e-4, max_iter: int = 1000
) -> Solver:
    """A solver by name, or the solver itself.

    Parameters
    ----------
    solver : {"auto", "cholesky", "cg", "block", "cd", "newton-cg", "async"} or Solver
        A solver object keeps its own settings.
    problem : Problem
        What "auto" chooses by.
    tol : float, default=1e-4
    max_iter : int, default=1000

    Returns
    -------
    Solver

    Raises
    ------
    ValueError
        If there is no solver of that name.
    """
    if isinstance(solver, Solver):
        return solver
    if name_from(solver, names(), "solver") == "auto":
        return auto(problem, tol, max_iter)
    return SOLVERS[solver](tol=tol, max_iter=max_iter)
