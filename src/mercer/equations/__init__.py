"""Linear equations of quadratic problems, in normal or kernel form: told apart here alone."""

from __future__ import annotations

from functools import singledispatch

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer.equations.base import Equations, Functions, Span
from mercer.equations.block import EquationBlock
from mercer.equations.dense import NormalMatrix, RowMatrix
from mercer.equations.kernel import KernelEquations
from mercer.equations.normal import NormalEquations
from mercer.equations.row_space import RowSpace, point_of_rows
from mercer.equations.solves import BlockSolves
from mercer.penalties import RKHSNorm
from mercer.problem import Problem

__all__ = [
    "BlockSolves",
    "EquationBlock",
    "Equations",
    "Functions",
    "KernelEquations",
    "NormalEquations",
    "NormalMatrix",
    "RowMatrix",
    "RowSpace",
    "Span",
    "check_matrix",
    "equations",
    "equations_of",
    "matrix_of",
    "point_of_rows",
    "spans_all_rows",
]


def spans_all_rows(problem: Problem) -> bool:
    """Whether a problem is the kernel machine of all rows, K a with the penalty aᵀK a.

    That is ``RKHSNorm`` whose matrix is the design itself, without jitter.
    """
    penalty = problem.penalty
    return isinstance(penalty, RKHSNorm) and not penalty.jitter and penalty.matrix is problem.design


def equations(problem: Problem, alphas: ArrayLike | None = None) -> Equations:
    """The linear equations that minimisers solve, for ``alphas`` or the strength of the penalty.

    ``KernelEquations`` for the kernel machine of all rows; else ``NormalEquations``. A loss that is
    not quadratic, a penalty other than "l2" and "rkhs", and strengths that are negative or not
    finite are a ValueError.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.designs import Dense
    >>> from mercer.equations import equations
    >>> from mercer.losses import Squared
    >>> from mercer.penalties import L2
    >>> from mercer.problem import Problem
    >>> problem = Problem(Dense(np.eye(2)), [1.0, 3.0], Squared(), L2(0.5), None, False)
    >>> equations(problem).residual(np.ones((2, 1)))
    array([[-0.5],
           [ 0.5]])
    """
    penalty = problem.penalty
    if not (problem.loss.quadratic and penalty.linear):
        raise ValueError(
            "linear equations need a quadratic loss and penalty 'l2' or 'rkhs'; got loss "
            f"{problem.loss.name!r} and penalty {penalty.name!r}."
        )
    values = np.atleast_1d(np.asarray([penalty.alpha] if alphas is None else alphas, np.float64))
    if values.ndim != 1 or not len(values) or not np.all((values >= 0) & (values < np.inf)):
        raise ValueError(f"alphas must be a list of finite numbers of at least 0; got {alphas!r}.")
    return equations_of(problem, values)


@singledispatch
def equations_of(problem: Problem, alphas: NDArray[np.float64], n_parts: int = 1) -> Equations:
    """Linear equations of a problem that has some; a single-dispatch function of its class.

    Parameters
    ----------
    problem : Problem
        With a quadratic loss and a linear penalty. Other classes of problems register a function of
        their own with ``equations_of.register``.
    alphas : ndarray of shape (q,)
        Strengths of the penalty.
    n_parts : int, default=1
        Parts of the rows whose contributions are summed.

    Returns
    -------
    Equations
        ``KernelEquations`` for kernel machines of all rows, else ``NormalEquations``.
    """
    form = KernelEquations if spans_all_rows(problem) else NormalEquations
    return form(problem, alphas, n_parts)


def check_matrix(problem: Problem, form: str = "auto") -> None:
    """Raise the errors of ``matrix_of`` without a product with the design."""
    _kind(problem, form).check(problem)


def matrix_of(problem: Problem, form: str = "auto") -> NormalMatrix | RowMatrix:
    """The whole matrix of the equations, which a direct solver factorises.

    A ridge problem has two: that of its columns ("primal") and, K = ZZᵀ, that of its rows ("dual");
    "auto" is the smaller one. A kernel machine has one, and another ``form`` is a ValueError. A
    matrix that does not fit is a MemoryError.
    """
    return _kind(problem, form)(problem)


def _kind(problem: Problem, form: str) -> type[NormalMatrix] | type[RowMatrix]:
    """The matrix that ``form`` stands for."""
    if problem.penalty.quadratic:
        n, n_columns = problem.design.shape
        by_rows = form == "dual" or (form == "auto" and n < n_columns)
    else:
        by_rows = spans_all_rows(problem)
        if form != "auto" and by_rows != (form == "dual"):
            raise ValueError(
                "form must be 'auto' or 'dual' for a kernel machine of all rows, 'auto' or "
                f"'primal' for one of landmarks; got {form!r}."
            )
    return RowMatrix if by_rows else NormalMatrix
