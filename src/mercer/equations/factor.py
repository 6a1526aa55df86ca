"""Cholesky's factor, also in the place of the matrix, and the inverse of singular matrices."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.linalg import lapack

from mercer._runtime.arrays import check_memory

__all__ = ["LARGE", "Factor", "lower", "lower_in_place"]

# Side from which this module factorises instead of OpenBLAS, whose threaded factorisation crashes
# on matrices of side 20 000; its products are sound.
LARGE = 8192

_BLOCK = 2048  # side of a block
_IN_PLACE = 4096  # side from which saving memory matters more than restarting threads


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

    def inverse_diagonal(self, keep: bool = False) -> NDArray[np.float64]:
        """The diagonal of the inverse, which destroys a regular factor unless it is to ``keep``."""
        if self._factor is None:
            return np.square(self._vectors) @ self._inverse
        # The transpose of a C-ordered lower triangle is an upper one in the order of LAPACK.
        upper, self._factor = self._factor.T, self._factor.copy() if keep else None
        inverse, _ = lapack.dtrtri(upper, lower=0, overwrite_c=1)
        return np.einsum("ij,ij->i", inverse, inverse)

    @property
    def nbytes(self) -> int:
        """Bytes of the factor."""
        return self._vectors.nbytes if self._factor is None else self._factor.nbytes


def lower(matrix: NDArray[np.float64]) -> NDArray:
    """The lower factor of a symmetric matrix, not changed; LinAlgError if there is none."""
    if len(matrix) < LARGE:
        # NumPy's factorisation runs on the threads of the products before; SciPy has its own.
        return np.linalg.cholesky(matrix)
    factor = matrix.copy()
    if not lower_in_place(factor):
        raise np.linalg.LinAlgError("the matrix is not positive definite to rounding.")
    return factor


def lower_in_place(matrix: NDArray, block: int = _BLOCK) -> bool:
    """Write the lower factor L, matrix = L Lᵀ, over a symmetric matrix; True if there is one.

    Without a factor the matrix is restored. Three blocks of side ``block`` are in memory besides.
    """
    m = len(matrix)
    diagonal = matrix.diagonal().copy()
    parts = [slice(start, min(m, start + block)) for start in range(0, m, block)]
    for number, pivot in enumerate(parts):
        try:
            factor = np.linalg.cholesky(matrix[pivot, pivot])
        except np.linalg.LinAlgError:
            _restore(matrix, diagonal)
            return False
        _write_lower(matrix[pivot, pivot], factor)
        below = parts[number + 1 :]
        for rows in below:
            tile = matrix[rows, pivot]
            tile[...] = linalg.solve_triangular(factor, tile.T, lower=True, check_finite=False).T
        for place, rows in enumerate(below):
            for columns in below[:place]:
                matrix[rows, columns] -= matrix[rows, pivot] @ matrix[columns, pivot].T
            tile = matrix[rows, pivot]
            _write_lower(matrix[rows, rows], matrix[rows, rows] - tile @ tile.T)
    for i in range(m):
        matrix[i, i + 1 :] = 0.0
    return True


def _write_lower(target: NDArray, source: NDArray) -> None:
    """Copy a lower triangle; the upper one of the target is for ``_restore``."""
    for i in range(len(target)):
        target[i, : i + 1] = source[i, : i + 1]


def _restore(matrix: NDArray, diagonal: NDArray[np.float64]) -> None:
    """A symmetric matrix from its upper triangle and its diagonal."""
    for i in range(len(matrix)):
        matrix[i, :i] = matrix[:i, i]
    matrix[np.diag_indices(len(matrix))] = diagonal
