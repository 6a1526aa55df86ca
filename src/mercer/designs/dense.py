"""The design that holds its numbers as an array."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer import _core
from mercer._runtime.arrays import Index, n_threads, row_chunks
from mercer._runtime.rows import Data
from mercer.designs.base import Design, check_gram, float_dtype, transposed_product

__all__ = ["Dense"]

_LONG = 16  # mean length of runs of neighbouring columns from which they are copied as runs


class Dense(Design):
    """Design stored as an array.

    Parameters
    ----------
    array : ndarray of shape (n, D), float32 or float64
        Entries of the matrix.
    n_jobs : int or None, default=None
        Number of threads of designs derived from this one; products use the threads of NumPy.

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
        self._n_jobs = n_jobs

    @property
    def n_threads(self) -> int:  # type: ignore[override]
        """Threads of products."""
        return n_threads(self._n_jobs)

    def matvec(self, w: NDArray) -> NDArray:
        return self.array @ self._check(w, self.shape[1], "w")

    def rmatvec(self, v: NDArray) -> NDArray:
        return transposed_product(self.array, self._check(v, self.shape[0], "v"))

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
            if columns.dtype != bool and np.all(np.diff(columns) > 0):
                starts = np.append(0, np.flatnonzero(np.diff(columns) > 1) + 1)
                if len(starts) * _LONG <= len(columns):
                    return self._runs(columns, starts)
            return self.array.take(columns, axis=1)  # several times faster than an index
        return self.array[:, columns]

    def _runs(self, columns: NDArray, starts: NDArray) -> NDArray:
        """Runs of neighbouring columns among increasing ones, from ``starts``."""
        out = np.empty((self.shape[0], len(columns)), dtype=self.dtype)
        for first, last in zip(starts, np.append(starts[1:], len(columns)), strict=True):
            out[:, first:last] = self.array[:, columns[first] : columns[last - 1] + 1]
        return out

    def rows(self, index: Index) -> Dense:
        return Dense(self.array[index], self.n_threads)

    def diagonal(self) -> NDArray:
        """The diagonal of a square design."""
        return np.diagonal(self.array)

    def toarray(self) -> NDArray:
        return self.array

    def views(self) -> dict[str, Any]:
        return {"array": self.array}

    def sources(self) -> list[Data]:
        return [self.array]

    @property
    def nbytes(self) -> int:
        return self.array.nbytes
