"""Designs that hold their numbers: dense arrays and compressed sparse rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from mercer import _core
from mercer._array import n_threads, row_chunks
from mercer._sparse import sound
from mercer.designs.base import Design, check_gram, float_dtype

__all__ = ["Dense", "Sparse"]

# Rows whose float32 sum keeps its digits; longer sums add up such parts in float64.
_EXACT_ROWS = 4096


class Dense(Design):
    """A design that is held as an array.

    Parameters
    ----------
    array : ndarray of shape (n, D), float32 or float64
    n_jobs : int or None, default=None
        Kept for designs derived from this one; products run on NumPy's own threads.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.designs import Dense
    >>> Dense(np.eye(2)).matvec(np.array([3.0, 4.0]))
    array([3., 4.])
    """

    def __init__(self, array: NDArray, n_jobs: int | None = None):
        self.array = np.asarray(array)
        if self.array.ndim != 2:
            raise ValueError(f"array must have two dimensions; got {self.array.ndim}.")
        self.shape = (self.array.shape[0], self.array.shape[1])
        self.dtype = float_dtype(self.array.dtype)
        self.n_threads = n_threads(n_jobs)

    def matvec(self, w: NDArray) -> NDArray:
        return self.array @ self._check(w, self.shape[1], "w")

    def rmatvec(self, v: NDArray) -> NDArray:
        v = self._check(v, self.shape[0], "v")
        if self.dtype == np.float64 or self.shape[0] <= _EXACT_ROWS:
            return self.array.T @ v
        total = np.zeros((self.shape[1], *v.shape[1:]))
        for start in range(0, self.shape[0], _EXACT_ROWS):
            chunk = slice(start, start + _EXACT_ROWS)
            total += self.array[chunk].T @ v[chunk]
        return total.astype(self.dtype)

    def column_sqnorms(self, weights: NDArray | None = None) -> NDArray[np.float64]:
        total = np.zeros(self.shape[1])
        for chunk in row_chunks(self.shape[0], 16.0 * self.shape[1]):
            z = self.array[chunk].astype(np.float64, copy=False)
            if weights is None:
                total += np.einsum("ij,ij->j", z, z)
            else:
                total += np.einsum("i,ij,ij->j", weights[chunk], z, z)
        return total

    def gram(self, weights: NDArray | None = None) -> NDArray[np.float64]:
        n, n_columns = self.shape
        check_gram(n_columns)
        if weights is None and self.dtype == np.float64:
            return self.array.T @ self.array  # BLAS sums in float64 as well, and knows the symmetry
        total = np.zeros((n_columns, n_columns))
        if weights is not None:
            weights = np.ascontiguousarray(weights, dtype=np.float64)
        if self.array.flags.f_contiguous:  # what lies in memory is the transpose
            _core.gram(self.array.T, True, weights, total, self.n_threads)
            return total
        for rows in row_chunks(n, self.dtype.itemsize * n_columns):
            z = np.ascontiguousarray(self.array[rows])
            part = None if weights is None else weights[rows]
            _core.gram(z, False, part, total, self.n_threads)
        return total

    def block(self, columns: ArrayLike) -> NDArray:
        columns = np.asarray(columns)
        if len(columns) and 0 <= columns[0] <= columns[-1] < self.shape[1]:
            if columns.dtype != bool and np.all(np.diff(columns) == 1):  # a view; the rest copies
                return self.array[:, columns[0] : columns[-1] + 1]
            return self.array.take(columns, axis=1)  # several times faster than an index
        return self.array[:, columns]

    def rows(self, index: Any) -> Dense:
        return Dense(self.array[index], self.n_threads)

    def diagonal(self) -> NDArray:
        """The diagonal of a square design."""
        return np.diagonal(self.array)

    def toarray(self) -> NDArray:
        return self.array

    def views(self) -> dict[str, Any]:
        return {"array": self.array}

    def sources(self) -> list[Any]:
        return [self.array]

    @property
    def nbytes(self) -> int:
        return self.array.nbytes


class Sparse(Design):
    """A design that is held in compressed sparse rows.

    Parameters
    ----------
    matrix : SciPy sparse array or matrix of shape (n, D), float32 or float64
    n_jobs : int or None, default=None

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from mercer.designs import Sparse
    >>> Sparse(sparse.eye_array(2, format="csr")).matvec(np.array([3.0, 4.0]))
    array([3., 4.])
    """

    def __init__(self, matrix: Any, n_jobs: int | None = None):
        self.matrix = sparse.csr_array(sound(matrix, "matrix"))
        self.shape = (self.matrix.shape[0], self.matrix.shape[1])
        self.dtype = float_dtype(self.matrix.dtype)
        self.n_threads = n_threads(n_jobs)

    def matvec(self, w: NDArray) -> NDArray:
        return self.matrix @ self._check(w, self.shape[1], "w")

    def rmatvec(self, v: NDArray) -> NDArray:
        v = self._check(v, self.shape[0], "v")
        if self.dtype == np.float64 or self.shape[0] <= _EXACT_ROWS:
            return self.matrix.T @ v
        total = np.zeros((self.shape[1], *v.shape[1:]))
        for start in range(0, self.shape[0], _EXACT_ROWS):
            chunk = slice(start, start + _EXACT_ROWS)
            total += self.matrix[chunk].T @ v[chunk]
        return total.astype(self.dtype)

    def column_sqnorms(self, weights: NDArray | None = None) -> NDArray[np.float64]:
        squares = self.matrix.astype(np.float64).power(2)
        ones = np.ones(self.shape[0]) if weights is None else np.asarray(weights, dtype=np.float64)
        return squares.T @ ones

    def gram(self, weights: NDArray | None = None) -> NDArray[np.float64]:
        n_columns = self.shape[1]
        check_gram(n_columns)
        z = self.matrix.astype(np.float64)
        scaled = z if weights is None else sparse.diags_array(weights, format="csr") @ z
        return (z.T @ scaled).toarray()

    def block(self, columns: ArrayLike) -> NDArray:
        return self.matrix[:, np.asarray(columns)].toarray()

    def rows(self, index: Any) -> Sparse:
        return Sparse(self.matrix[index], self.n_threads)

    def toarray(self) -> NDArray:
        return self.matrix.toarray()

    def tocsr(self) -> sparse.csr_array:
        return self.matrix

    def views(self) -> dict[str, Any]:
        matrix = self.matrix
        return {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr}

    def sources(self) -> list[Any]:
        return [self.matrix]

    @property
    def nbytes(self) -> int:
        return self.matrix.data.nbytes + self.matrix.indices.nbytes + self.matrix.indptr.nbytes
