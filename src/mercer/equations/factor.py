"""The inverse of a symmetric matrix, also where it has none."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.linalg import lapack

from mercer._array import check_memory
from mercer.equations.cholesky import lower, lower_in_place

__all__ = ["Factor"]

_IN_PLACE = 4096  # side from which memory counts for more than threads that begin anew


class Factor:
    """The inverse, or pseudo-inverse, of a symmetric positive semi-definite matrix.

    Parameters
    ----------
    matrix : ndarray of shape (m, m), float64, C-ordered
    overwrite : bool, default=False
        Whether the matrix may be destroyed, which saves its memory where it is large.
    eigenvectors : bool, default=True
        Whether to go on by eigenvectors where there is no inverse; else only ``regular`` is told.

    Attributes
    ----------
    regular : bool
        Whether it has an inverse, up to rounding.
    """

    def __init__(
        self, matrix: NDArray[np.float64], overwrite: bool = False, eigenvectors: bool = True
    ):
        side = len(matrix)
        in_place = overwrite and side >= _IN_PLACE
        if not in_place:
            check_memory(8.0 * side**2, "the Cholesky factor", "use solver='block' or solver='cg'")
        cutoff = side * np.finfo(np.float64).eps
        factor = _lower_over(matrix) if in_place else _lower(matrix)
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
        # Singular to rounding: the eigenvectors say in which directions.
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
        if self._factor is not None:
            half = linalg.solve_triangular(self._factor, rows.T, lower=True, check_finite=False)
        else:
            half = (rows @ (self._vectors * np.sqrt(self._inverse))).T
        return np.einsum("ij,ij->j", half, half)

    def inverse_diagonal(self) -> NDArray[np.float64]:
        """The diagonal of the inverse; a regular factor is destroyed by it."""
        if self._factor is None:
            return np.square(self._vectors) @ self._inverse
        # The transpose of a C-ordered lower triangle is an upper one in the order of LAPACK.
        upper, self._factor = self._factor.T, None
        inverse, _ = lapack.dtrtri(upper, lower=0, overwrite_c=1)
        return np.einsum("ij,ij->i", inverse, inverse)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._vectors.nbytes if self._factor is None else self._factor.nbytes


def _lower(matrix: NDArray[np.float64]) -> NDArray | None:
    try:
        return lower(matrix)
    except np.linalg.LinAlgError:
        return None


def _lower_over(matrix: NDArray[np.float64]) -> NDArray | None:
    return matrix if lower_in_place(matrix) else None
