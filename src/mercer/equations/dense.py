"""Whole matrices of the equations, for direct solvers and any strength of the penalty.

What belongs to all strengths is made once. Both forms know by how much a row changes its own
prediction, so that leaving each row out in turn takes one division.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import linalg

from mercer._runtime.arrays import check_memory, row_chunks
from mercer.designs import Design
from mercer.equations.factor import lower_in_place
from mercer.equations.row_space import point_of_rows
from mercer.penalties import RKHSNorm
from mercer.problem import Point, Problem
from mercer.problem.rows import as_rows, kernel_matrix

__all__ = ["NormalMatrix", "RowMatrix", "entries_of", "upper_factor"]

Inverse = Callable[[NDArray[np.float64]], NDArray[np.float64]]


class NormalMatrix:
    """The normal matrix of the weights and the intercept, G + alpha P.

    G = (1/n) (Z, 1)ᵀ S (Z, 1), and P is the matrix of the penalty: I, or M + jitter I; nothing for
    the intercept. Whitened, which is for ``RKHSNorm`` alone, Z T⁻¹ takes the place of Z and I that
    of M = TᵀT: that loses nothing where the normal matrix itself is singular to rounding, and takes
    twice the work.
    """

    def __init__(self, problem: Problem, whiten: bool = False):
        self.problem = problem
        n_columns = problem.design.shape[1]
        self.side = n_columns + problem.fit_intercept
        penalty = problem.penalty
        self.check(problem)
        self._triangle: NDArray[np.float64] | None = None
        self._penalty: NDArray[np.float64] | None = None
        if isinstance(penalty, RKHSNorm):
            if whiten:
                self._triangle = upper_factor(penalty.matrix, penalty.jitter, problem.dtype)
            else:
                self._penalty = entries_of(penalty.matrix)
                self._penalty[np.diag_indices(n_columns)] += penalty.jitter
        self._gram = self._gram_of_columns()

    @staticmethod
    def check(problem: Problem) -> None:
        """Raise MemoryError, before any product, if the matrix of the problem would not fit."""
        n_columns = problem.design.shape[1]
        copies = 3 + isinstance(problem.penalty, RKHSNorm)
        check_memory(
            8.0 * copies * (n_columns + problem.fit_intercept) ** 2,
            f"the normal matrix of {n_columns} columns and its factor",
            lambda room: (
                "use solver='block' or solver='cg', or at most "
                f"{int((room / (8.0 * copies)) ** 0.5)} columns"
            ),
        )

    @property
    def whitened(self) -> bool:
        """Whether columns are whitened."""
        return self._triangle is not None

    def _gram_of_columns(self) -> NDArray[np.float64]:
        """G, of the columns as they are or whitened."""
        problem = self.problem
        n_columns = problem.design.shape[1]
        gram = np.ones((self.side, self.side))
        inner = gram[:n_columns, :n_columns]
        if self._triangle is None:
            inner[...] = problem.design.gram(problem.weights)
        else:
            inner[...] = 0.0
            for rows, z in self._row_chunks():
                z = z[:, :n_columns]
                weighted = z if problem.weights is None else z * problem.weights[rows, None]
                inner += weighted.T @ z
        inner /= problem.n_rows
        if problem.fit_intercept:
            means = problem.mean_rows(np.ones(problem.n_rows, dtype=problem.dtype))
            gram[-1] = gram[:, -1] = self._lowered(means.astype(np.float64))
        return gram

    def _row_chunks(self) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Chunks of rows of (Z, 1), whitened on request."""
        problem = self.problem
        for rows in row_chunks(problem.n_rows, 32.0 * self.side):
            z = np.ones((rows.stop - rows.start, self.side))
            z[:, : problem.design.shape[1]] = problem.design.rows(rows).toarray()
            yield rows, self._lowered(z.T).T

    def _lowered(self, v: NDArray[np.float64]) -> NDArray[np.float64]:
        """T⁻ᵀ v."""
        if self._triangle is None:
            return v
        p = len(self._triangle)
        v[:p] = linalg.solve_triangular(self._triangle, v[:p], trans="T", check_finite=False)
        return v

    def matrix(self, alpha: float, last: bool = False) -> NDArray[np.float64]:
        """G + alpha P, the caller's to overwrite; ``last`` if no other strength will follow."""
        n_columns = self.problem.design.shape[1]
        matrix = self._gram if last else self._gram.copy()
        inner = matrix[:n_columns, :n_columns]
        if self._penalty is None:
            inner[np.diag_indices(n_columns)] += alpha
            return matrix
        for rows in row_chunks(n_columns, 8.0 * n_columns):
            inner[rows] += alpha * self._penalty[rows]
        return matrix

    def solve(self, inverse: Inverse, rhs: NDArray[np.float64]) -> NDArray[np.float64]:
        """The change of θ that changes ∇F by ``rhs``; ``inverse`` is the matrix's."""
        x = inverse(self._lowered(rhs.copy()))
        if self._triangle is not None:
            p = len(self._triangle)
            x[:p] = linalg.solve_triangular(self._triangle, x[:p], check_finite=False)
        return x

    def energy(
        self, inverse: Inverse, gradient: NDArray[np.float64], alpha: float
    ) -> NDArray[np.float64]:
        """gᵀ A⁻¹ g of every output, A being the second derivative: twice F(θ) − min F.

        ``inverse`` is that of ``matrix(alpha)``.
        """
        return np.asarray(np.sum(gradient * self.solve(inverse, gradient), axis=0))

    def unexplained(self, sqnorms: Inverse) -> NDArray[np.float64]:
        """1 − h of every row, h being the weight of its own target in its prediction.

        ``sqnorms`` maps several rows z to zᵀ A⁻¹ z, A being the matrix of one strength.
        """
        problem = self.problem
        unexplained = np.empty(problem.n_rows)
        for rows, z in self._row_chunks():
            unexplained[rows] = sqnorms(z)
        unexplained *= -1.0 / problem.n_rows
        if problem.weights is not None:
            unexplained *= problem.weights
        unexplained += 1.0
        return unexplained


class RowMatrix:
    """The kernel matrix of the rows, centred and weighted, plus n alpha on its diagonal.

    ::

        B = √S (I − 1sᵀ/n) K (I − s1ᵀ/n) √S,    (B + n alpha I) β = √S (y − ȳ),    a = √S β

    with K = Z Zᵀ and weights w = Zᵀ a, or the kernel itself and w = a. Centring eliminates the
    intercept; without one it is left out. The direction √s, of which B and y know nothing, is given
    the mean of the diagonal, so that B is regular where the rest is.
    """

    def __init__(self, problem: Problem):
        self.problem = problem
        n = problem.n_rows
        self.check(problem)
        ridge = problem.penalty.quadratic
        kernel = kernel_matrix(problem.design) if ridge else entries_of(problem.design)
        weights = np.ones(n) if problem.weights is None else problem.weights
        self._root = np.sqrt(weights)
        self._mean = problem.row_mean(problem.y)
        target = problem.y.astype(np.float64)
        self._extra = 0.0
        if problem.fit_intercept:
            target -= self._mean
            self._means = kernel @ weights / n
            kernel -= self._means
            kernel -= self._means[:, None]
            kernel += weights @ self._means / n
            self._extra = max(float(kernel.diagonal().mean()), 0.0)
            kernel += self._extra / n
        kernel *= self._root
        kernel *= self._root[:, None]
        self._kernel = kernel
        self.rhs = as_rows(self._root, target) * target

    @staticmethod
    def check(problem: Problem) -> None:
        """Raise MemoryError, before any product, if the matrix of the problem would not fit."""
        n = problem.n_rows
        check_memory(
            16.0 * n * n,
            f"the kernel matrix of {n} rows and its factor",
            lambda room: (
                f"use solver='block' or solver='cg', or at most {int((room / 16.0) ** 0.5)} rows"
            ),
        )

    def matrix(self, alpha: float, last: bool = False) -> NDArray[np.float64]:
        """B + n alpha I, the caller's to overwrite; ``last`` if no other strength will follow."""
        matrix = self._kernel if last else self._kernel.copy()
        matrix[np.diag_indices(len(matrix))] += self.problem.n_rows * alpha
        return matrix

    def solution(self, problem: Problem, beta: NDArray[np.float64]) -> NDArray | Point:
        """θ of a solution: a point for a ridge problem, a float64 array for a kernel machine.

        ``problem`` is that of the matrix at the strength of the solution.
        """
        a = as_rows(self._root, beta) * beta
        if problem.penalty.quadratic:
            return point_of_rows(problem, a)
        theta = np.zeros(problem.shape)
        problem.weights_of(theta)[...] = a
        if problem.fit_intercept:
            theta[-1] = self._mean - self._means @ a
        return theta

    def solve(self, inverse: Inverse, residual: NDArray[np.float64]) -> NDArray[np.float64]:
        """The error of θ of a kernel machine of all rows, given √S (y − b − K a) − n alpha β."""
        problem = self.problem
        change = np.zeros(problem.shape)
        root = as_rows(self._root, residual)
        if problem.fit_intercept:
            change[-1] = self._root @ residual / problem.n_rows
            residual = residual - root * change[-1]
        a = root * inverse(residual)
        problem.weights_of(change)[...] = a
        if problem.fit_intercept:
            change[-1] -= self._means @ a
        return change

    def energy(
        self, inverse: Inverse, gradient: NDArray[np.float64], alpha: float
    ) -> NDArray[np.float64]:
        """gᵀ A⁻¹ g of every output of a ridge, as that of the columns, by Woodbury's formula."""
        problem = self.problem
        g = problem.weights_of(gradient)
        responses = problem.design.matvec(g).astype(np.float64)
        responses -= problem.row_mean(responses) if problem.fit_intercept else 0.0
        rows = as_rows(self._root, responses) * responses
        squares = np.sum(np.square(g), axis=0)
        rest = squares - np.sum(rows * inverse(rows), axis=0)
        # The difference is not known better than to rounding of its terms.
        rest = np.maximum(rest, float(np.finfo(problem.dtype).eps) * squares)
        energy = rest / alpha
        return np.asarray(energy + np.square(gradient[-1]) if problem.fit_intercept else energy)

    def left_out(
        self, alpha: float, beta: NDArray[np.float64], inverse_diagonal: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """y less the prediction of every row by the others; NaN for rows of weight 0.

        ``beta`` is the solution for ``alpha`` > 0, ``inverse_diagonal`` (n,) that of the inverse of
        ``matrix(alpha)``.
        """
        ridge = self.problem.n_rows * alpha
        if self.problem.fit_intercept:
            of_constant = self._root**2 / (self.problem.n_rows * (ridge + self._extra))
            inverse_diagonal = inverse_diagonal - of_constant
        with np.errstate(invalid="ignore"):
            return beta / as_rows(inverse_diagonal * self._root, beta)


def upper_factor(
    matrix: Design, jitter: float = 0.0, dtype: DTypeLike | None = None
) -> NDArray[np.float64]:
    """T, upper triangular, with TᵀT = M + jitter I, raised by the rounding of the entries of M.

    M (p, p) is symmetric and positive semi-definite but for rounding. ``dtype`` is that of the
    columns which T is to whiten, where it is shorter than that of M: T would blow up their
    rounding.
    """
    entries = entries_of(matrix)
    p = len(entries)
    diagonal = entries.diagonal() + jitter
    # The matrix is singular where landmarks are alike.
    eps = float(np.finfo(dtype or matrix.dtype).eps)
    least = 4.0 * np.sqrt(p) * eps * float(diagonal.max(initial=0))
    while True:
        entries[np.diag_indices(p)] = diagonal + least
        if lower_in_place(entries):
            return entries.T
        least *= 4.0


def entries_of(matrix: Design) -> NDArray[np.float64]:
    """All of a symmetric design in float64."""
    n = matrix.shape[0]
    entries = np.empty((n, n))
    for rows in row_chunks(n, float(matrix.dtype.itemsize) * n):
        entries[rows] = matrix.block(np.arange(rows.start, rows.stop)).T
    return entries
