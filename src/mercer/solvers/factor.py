"""The inverse of a symmetric matrix, also where it has none."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from mercer._array import check_memory

__all__ = ["Factor"]


class Factor:
    """The inverse, or pseudo-inverse, of a symmetric positive semi-definite matrix."""

    def __init__(self, matrix: NDArray[np.float64]):
        side = len(matrix)
        check_memory(8.0 * side**2, "the Cholesky factor", "use solver='cg'")
        cutoff = side * np.finfo(np.float64).eps
        self._factor: NDArray | None = None
        try:
            # NumPy's factorisations, not SciPy's: the threads of the products before are theirs.
            factor = np.linalg.cholesky(matrix)
            pivots = np.square(np.diag(factor))
            if pivots.min() > cutoff * pivots.max():
                self._factor = factor
                return
        except np.linalg.LinAlgError:
            pass  # singular to rounding: the eigenvectors say in which directions
        values, self._vectors = np.linalg.eigh(matrix)
        kept = values > cutoff * values.max()
        self._inverse = np.divide(1, values, out=np.zeros_like(values), where=kept)

    def solve(self, rhs: NDArray[np.float64]) -> NDArray[np.float64]:
        """The shortest x that minimises ‖matrix @ x − rhs‖."""
        if self._factor is not None:
            return linalg.cho_solve((self._factor, True), rhs, check_finite=False)
        return self._vectors @ (self._inverse * (self._vectors.T @ rhs).T).T
