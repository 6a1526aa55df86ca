"""Cholesky's factor, also in the place of the matrix, and the inverse of singular matrices."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from mercer._runtime.arrays import check_memory, row_chunks
from mercer._runtime.threads import (
    divide_rows_in_place,
    on_strips,
    side_by_side,
    tile_threads,
)

__all__ = ["Factor", "inverse_diagonal", "lower", "lower_in_place"]

_IN_PLACE = 4096  # side from which saving memory matters more than speed
_TILED = 1000  # side from which panels take less processor time than OpenBLAS, also on one thread
_PANEL = 256  # columns that are solved together: products of this depth are near the peak


class Factor:
    """The inverse, or pseudo-inverse, of a symmetric positive semi-definite C-ordered matrix.

    ``overwrite`` lets the matrix be destroyed, which saves its memory where it is large. Where
    there is no inverse, up to rounding, ``regular`` is False and eigenvectors serve, unless they
    are not wanted.
    """

    def __init__(
        self, matrix: NDArray[np.float64], overwrite: bool = False, eigenvectors: bool = True
    ):
        side = len(matrix)
        in_place = overwrite and side >= _IN_PLACE
        if not in_place:
            check_memory(8.0 * side**2, "the Cholesky factor", "use solver='block' or solver='cg'")
        cutoff = side * np.finfo(np.float64).eps
        factor: NDArray | None = None
        if in_place:
            factor = matrix if lower_in_place(matrix) else None
        else:
            with suppress(np.linalg.LinAlgError):
                factor = lower(matrix)
        if factor is not None:
            pivots = np.square(np.diag(factor))
            if pivots.min() > cutoff * pivots.max():
                self._factor: NDArray | None = factor
                self.regular = True
                return
            if in_place and eigenvectors:
                matrix[...] = factor @ factor.T
        self._factor, self.regular = None, False
        if not eigenvectors:
            return
        # Singular to rounding, in the directions of eigenvectors that are dropped.
        check_memory(24.0 * side**2, f"the {side} eigenvectors", "raise alpha")
        values, self._vectors = np.linalg.eigh(matrix)
        kept = values > cutoff * values.max(initial=0.0)
        self._inverse = np.divide(1, values, out=np.zeros_like(values), where=kept)

    def solve(self, rhs: NDArray[np.float64]) -> NDArray[np.float64]:
        """The shortest x that minimises ‖matrix @ x − rhs‖."""
        if self._factor is not None:
            return linalg.cho_solve((self._factor.T, False), rhs, check_finite=False)
        return self._vectors @ (self._inverse * (self._vectors.T @ rhs).T).T

    def sqnorms(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """zᵀ matrix⁻¹ z of every row z of an (r, m) array."""
        half = self._half(rows)
        return np.einsum("ij,ij->j", half, half)

    def products(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Symmetric zᵀ matrix⁻¹ z' of all pairs of rows of an (r, m) array, (r, r)."""
        half = self._half(rows)
        return half.T @ half

    def _half(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Columns (m, r) with inner products zᵀ matrix⁻¹ z'."""
        if self._factor is not None:
            return linalg.solve_triangular(self._factor, rows.T, lower=True, check_finite=False)
        return (rows @ (self._vectors * np.sqrt(self._inverse))).T

    def inverse_diagonal(self) -> NDArray[np.float64]:
        """The diagonal of the inverse."""
        if self._factor is None:
            return np.square(self._vectors) @ self._inverse
        return inverse_diagonal(self._factor)

    @property
    def nbytes(self) -> int:
        """Bytes of the factor."""
        return self._vectors.nbytes if self._factor is None else self._factor.nbytes


def lower(matrix: NDArray[np.float64]) -> NDArray:
    """The lower factor of a symmetric matrix, not changed; LinAlgError if there is none."""
    if len(matrix) < _TILED:
        return np.linalg.cholesky(matrix)
    factor = matrix.copy()
    if not lower_in_place(factor):
        raise np.linalg.LinAlgError("the matrix is not positive definite to rounding.")
    return factor


def lower_in_place(matrix: NDArray, panel: int = _PANEL) -> bool:
    """Write the lower factor L, matrix = L Lᵀ, over a symmetric matrix; True if there is one.

    Without a factor the matrix is restored. Panels of so many columns are solved in turn, each by
    all threads: columns before it are subtracted, then its triangle divides the rows below.
    """
    m = len(matrix)
    diagonal = matrix.diagonal().copy()
    for pivot in row_chunks(m, 1.0, panel):
        if pivot.start:
            on_strips(partial(_subtract, matrix, pivot), pivot.stop, m, first=[pivot])
        try:
            factor = np.linalg.cholesky(matrix[pivot, pivot])
        except np.linalg.LinAlgError:
            _restore(matrix, diagonal)
            return False
        _write_lower(matrix[pivot, pivot], factor)
        on_strips(partial(_divide, matrix[:, pivot], factor), pivot.stop, m)
    for i in range(m):
        matrix[i, i + 1 :] = 0.0
    return True


def inverse_diagonal(lower: NDArray) -> NDArray:
    """The diagonal of (L Lᵀ)⁻¹ for a lower factor L, which stays as it is."""
    n = len(lower)

    def squares(rows: slice) -> NDArray:
        columns = np.eye(rows.stop - rows.start, n - rows.start, dtype=lower.dtype)
        divide_rows_in_place(columns, lower[rows.start :, rows.start :])
        return np.einsum("ij,ij->i", columns, columns)

    parts = list(row_chunks(n, 1.0, _PANEL))
    threads = tile_threads() if n >= _TILED else 1
    return np.concatenate(list(side_by_side(squares, parts, threads)))


def _subtract(matrix: NDArray, pivot: slice, rows: slice) -> None:
    """Subtract the products of solved columns from rows of a panel."""
    tile = matrix[rows, pivot]
    product = matrix[rows, : pivot.start] @ matrix[pivot, : pivot.start].T
    if rows == pivot:
        _write_lower(tile, tile - product)
    else:
        tile -= product


def _divide(panel: NDArray, factor: NDArray, rows: slice) -> None:
    divide_rows_in_place(panel[rows], factor)


def _write_lower(target: NDArray, source: NDArray) -> None:
    """Copy a lower triangle; the upper one of the target is for ``_restore``."""
    for i in range(len(target)):
        target[i, : i + 1] = source[i, : i + 1]


def _restore(matrix: NDArray, diagonal: NDArray[np.float64]) -> None:
    """A symmetric matrix from its upper triangle and its diagonal."""
    for i in range(len(matrix)):
        matrix[i, :i] = matrix[:i, i]
    matrix[np.diag_indices(len(matrix))] = diagonal
