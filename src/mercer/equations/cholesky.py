"""Cholesky's factor in the place of the matrix, block by block."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

__all__ = ["LARGE", "lower", "lower_in_place"]

# Side from which matrices are factorised here: threads of OpenBLAS's own factorisation are known to
# crash on matrices of side 20000, while their products are sound.
LARGE = 8192

_BLOCK = 2048  # side of a block


def lower(matrix: NDArray[np.float64]) -> NDArray:
    """The lower factor of a symmetric matrix, which stays.

    Raises
    ------
    numpy.linalg.LinAlgError
        If there is none.
    """
    if len(matrix) < LARGE:
        # NumPy's factorisation, not SciPy's: the threads of the products before are theirs.
        return np.linalg.cholesky(matrix)
    factor = matrix.copy()
    if not lower_in_place(factor):
        raise np.linalg.LinAlgError("the matrix is not positive definite to rounding.")
    return factor


def lower_in_place(matrix: NDArray[np.float64], block: int = _BLOCK) -> bool:
    """Write the lower factor L, matrix = L Lᵀ, over a symmetric matrix.

    Parameters
    ----------
    matrix : ndarray of shape (m, m), float64
        Symmetric.
    block : int, default=2048
        Side of the blocks that are worked on: three of them are held besides the matrix.

    Returns
    -------
    bool
        Whether there is a factor. Where there is none, the matrix is what it was.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.equations.cholesky import lower_in_place
    >>> matrix = np.array([[4.0, 2.0], [2.0, 5.0]])
    >>> lower_in_place(matrix), matrix
    (True, array([[2., 0.],
           [1., 2.]]))
    """
    m = len(matrix)
    diagonal = matrix.diagonal().copy()
    parts = [slice(start, min(m, start + block)) for start in range(0, m, block)]
    for number, own in enumerate(parts):
        try:
            factor = np.linalg.cholesky(matrix[own, own])
        except np.linalg.LinAlgError:
            _restore(matrix, diagonal)
            return False
        _write_lower(matrix[own, own], factor)
        below = parts[number + 1 :]
        for rows in below:
            some = matrix[rows, own]
            some[...] = linalg.solve_triangular(factor, some.T, lower=True, check_finite=False).T
        for place, rows in enumerate(below):
            for columns in below[:place]:
                matrix[rows, columns] -= matrix[rows, own] @ matrix[columns, own].T
            some = matrix[rows, own]
            _write_lower(matrix[rows, rows], matrix[rows, rows] - some @ some.T)
    for i in range(m):
        matrix[i, i + 1 :] = 0.0
    return True


def _write_lower(target: NDArray[np.float64], source: NDArray) -> None:
    """The lower triangle of one matrix into another, whose upper one stays for ``_restore``."""
    for i in range(len(target)):
        target[i, : i + 1] = source[i, : i + 1]


def _restore(matrix: NDArray[np.float64], diagonal: NDArray[np.float64]) -> None:
    """A symmetric matrix from its upper triangle and its diagonal."""
    for i in range(len(matrix)):
        matrix[i, :i] = matrix[:i, i]
    matrix[np.diag_indices(len(matrix))] = diagonal
