"""Solvers: algorithms that see a problem through vectors of one entry per column."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._runtime.arrays import available_memory
from mercer._runtime.validation import name_from
from mercer.designs import Dense, Lazy
from mercer.equations import spans_all_rows
from mercer.problem import Problem
from mercer.solvers.async_svrg import AsyncSVRG, step_bounds
from mercer.solvers.base import Result, Solver, TraceRow
from mercer.solvers.block import BlockCoordinateDescent
from mercer.solvers.conjugate_gradient import ConjugateGradient
from mercer.solvers.coordinate import CoordinateDescent, path
from mercer.solvers.direct import Cholesky, LeftOut, leave_one_out
from mercer.solvers.doubly import DoublySGD, Expansion
from mercer.solvers.dual import BoxDual, DualResult, PairwiseCD
from mercer.solvers.newton import NewtonCG
from mercer.solvers.row_newton import RowNewton, newton_for
from mercer.solvers.smoothing import Smoothing
from mercer.solvers.working_set import Selection, Stream, WorkingSet, polished

__all__ = [
    "AsyncSVRG",
    "BlockCoordinateDescent",
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
    "Result",
    "RowNewton",
    "Selection",
    "Smoothing",
    "Solver",
    "Stream",
    "TraceRow",
    "WorkingSet",
    "auto",
    "get",
    "leave_one_out",
    "names",
    "path",
    "polished",
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
        RowNewton,
        Smoothing,
        AsyncSVRG,
    )
}

_DIRECT_SIDE = 4000  # largest side that "auto" factorises: a few seconds and 128 MB
# Landmarks, rows for each, and outputs up to which iterations take less time than eigenvectors or
# a Gram matrix: 2000 landmarks of 76 000 rows took 3 s in place of 9, with equal errors, but 1024
# of 15 000 rows of 26 classes 3.5 s in place of 1.8.
_SOME_LANDMARKS, _ROWS_PER_LANDMARK, _FEW_OUTPUTS = 1000, 10, 3
_MOST_LANDMARKS = 8000  # of conjugate gradients: the factors of more take longer than block descent
_ALL_ROWS = 8000  # largest kernel matrix of all rows that "auto" factorises: it is computed once
# Rows above which iterations are faster than the factor (1/7 of its time at 4000 rows, 1/50 at
# 8000), and the ridge, relative to the kernel's diagonal, below which they are not.
_FEW_ROWS, _LEAST_RIDGE = 2000, 1e-4
_SMALL = 2**22  # entries of a design that counts as small: it is treated like a dense one


def names() -> list[str]:
    """Names of the solvers that :func:`get` accepts."""
    return ["auto", *SOLVERS]


def auto(problem: Problem, tol: float = 1e-4, max_iter: int = 1000) -> Solver:
    """Return the solver that suits the loss and the size of a problem.

    Losses with a kink get :class:`Smoothing`, penalties with an l1 part
    :class:`CoordinateDescent`, and other losses that are not quadratic :class:`NewtonCG`. Linear
    equations remain:

    - Ridge problems get the direct solver if the smaller side of the design is at most 4000, the
      design is dense or small, and the matrix fits; block descent if columns are computed at each
      product, as in a ``Lazy`` design; else conjugate gradients.
    - Kernel machines (``RKHSNorm``) get the direct solver if the matrix fits and there are up to
      2000 rows (8000 if the ridge n alpha is below 1e-4 times the mean of the kernel's diagonal) or
      4000 landmarks. More rows, up to 8000 landmarks whose factors fit, and more than 1000 of ten
      times as many rows with up to three outputs get preconditioned conjugate gradients: with
      30 000 rows and 4500 landmarks, block descent stops at the tolerance of estimators with 7 %
      more squared error on held-out rows after the same time. More landmarks get block descent,
      which takes about as long as the factors of the preconditioner alone.
    """
    if not problem.loss.smooth:
        return Smoothing(tol=tol, max_iter=max_iter)
    if problem.penalty.l1:
        return CoordinateDescent(tol=tol, max_iter=max_iter)
    if not problem.loss.quadratic:
        return newton_for(problem)(tol=tol, max_iter=max_iter)
    kind = _for_ridge(problem) if problem.penalty.quadratic else _for_machines(problem)
    return kind(tol=tol, max_iter=max_iter)


def _for_ridge(problem: Problem) -> type[Solver]:
    design = problem.design
    n, n_columns = design.shape
    side = min(n, n_columns + 1)
    small = n * n_columns <= _SMALL
    if (isinstance(design, Dense) or small) and _fits(24 * side**2) and side <= _DIRECT_SIDE:
        return Cholesky
    return BlockCoordinateDescent if isinstance(design, Lazy) else ConjugateGradient


def _for_machines(problem: Problem) -> type[Solver]:
    n, n_landmarks = problem.design.shape
    if spans_all_rows(problem):
        few = n <= _FEW_ROWS or (n <= _ALL_ROWS and not _has_ridge(problem))
        return Cholesky if few and _fits(16 * n**2) else ConjugateGradient
    if n_landmarks > _MOST_LANDMARKS or not _fits(32 * n_landmarks**2):
        return BlockCoordinateDescent
    if n_landmarks > _DIRECT_SIDE:
        return ConjugateGradient
    suits = suits_iterations(n, n_landmarks, problem.n_outputs)
    return ConjugateGradient if suits and _has_ridge(problem) else Cholesky


def suits_iterations(n: int, n_landmarks: int, n_outputs: int) -> bool:
    """Whether iterations are quicker than a factor for so many landmarks of n rows."""
    many = n_landmarks > _SOME_LANDMARKS and n >= _ROWS_PER_LANDMARK * n_landmarks
    return many and n_outputs <= _FEW_OUTPUTS


def _has_ridge(problem: Problem) -> bool:
    """Whether iterations for a kernel machine are few; a device factorises quickly."""
    if problem.device is not None:
        return False
    kernel: Any = problem.design
    ridge = problem.n_rows * problem.penalty.alpha
    return bool(ridge >= _LEAST_RIDGE * np.mean(kernel.diagonal()))


def _fits(n_bytes: int) -> bool:
    available = available_memory()
    return available is None or n_bytes <= available


def get(
    solver: str | Solver, problem: Problem, *, tol: float = 1e-4, max_iter: int = 1000
) -> Solver:
    """Return a solver from a name, or the solver object given.

    Parameters
    ----------
    solver : str or Solver
        "auto" or the name of a solver; "newton-cg" is "row-newton" for kernel machines of all rows
        with a convex loss. A solver object keeps its own settings.
    problem : Problem
        Problem whose loss, penalty and size decide "auto".
    tol : float, default=1e-4
        Stopping tolerance of a solver given by name.
    max_iter : int, default=1000
        Largest number of iterations of a solver given by name.

    Raises
    ------
    ValueError
        If there is no solver of that name.
    """
    if isinstance(solver, Solver):
        return solver
    if name_from(solver, names(), "solver") == "auto":
        return auto(problem, tol, max_iter)
    kind = newton_for(problem) if solver == NewtonCG.name else SOLVERS[solver]
    return kind(tol=tol, max_iter=max_iter)
