"""The design of weighted random binning: codes, and a value for every one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy import sparse

from mercer import _core
from mercer._runtime.arrays import Index, check_memory
from mercer._runtime.rows import Data
from mercer.designs.binned import Binned

__all__ = ["Weighted"]


class Weighted(Binned):
    """One code per row and grid, and the value that the row has in that column.

    Parameters
    ----------
    codes : ndarray of shape (R, n), uint8, uint16 or uint32
        Codes as in :class:`Binned`; a code beyond the columns of the grid means that the row has no
        column in it, and its value is ignored.
    values : ndarray of shape (R, n)
        Values: ``values[r, i]`` is the entry of row i within grid r, stored in float32.
    offsets : ndarray of shape (R + 1,), int64
        First column of each grid; the last entry is D.
    dtype : dtype, default=float64
        Type of products, float32 or float64.
    n_jobs : int or None, default=None
        Number of threads of products; None means all.
    n_missing : int, optional
        Number of codes beyond the columns of their grid, if known.

    Raises
    ------
    ValueError
        If shapes do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.designs import Weighted
    >>> codes, values = np.array([[0, 1, 0]], dtype=np.uint8), np.array([[0.5, 1.0, 0.25]])
    >>> Weighted(codes, values, np.array([0, 2])).toarray()
    array([[0.5 , 0.  ],
           [0.  , 1.  ],
           [0.25, 0.  ]])
    """

    def __init__(
        self,
        codes: NDArray,
        values: NDArray,
        offsets: ArrayLike,
        dtype: DTypeLike = np.float64,
        n_jobs: int | None = None,
        *,
        n_missing: int | None = None,
    ):
        super().__init__(codes, offsets, 1.0, dtype, True, n_jobs, n_missing=n_missing)
        self.values = np.ascontiguousarray(values, dtype=np.float32)
        if self.values.shape != self.codes.shape:
            raise ValueError(
                f"values must have the shape of codes, {self.codes.shape}; got {self.values.shape}."
            )

    def matvec(self, w: NDArray) -> NDArray:
        w = self._check(w, self.shape[1], "w")
        out = np.empty((self.shape[0], *w.shape[1:]), dtype=self.dtype)
        _core.weighted_matvec(self.codes, self.values, self.offsets, w, out, self.n_threads)
        return out

    def rmatvec(self, v: NDArray) -> NDArray:
        return self._sums(self._check(v, self.shape[0], "v"), power=1)

    def gram_matvec(self, v: NDArray) -> NDArray:
        v = self._check(v, self.shape[0], "v")
        out = np.empty_like(v)
        _core.weighted_gram_matvec(self.codes, self.values, self.offsets, v, out, self.n_threads)
        return out

    def column_sqnorms(self, weights: NDArray | None = None) -> NDArray[np.float64]:
        ones = np.ones(self.shape[0])
        return self._sums(ones if weights is None else weights.astype(np.float64), power=2)

    def counts(self) -> NDArray[np.int64]:
        return np.rint(self._sums(np.ones(self.shape[0]), power=0)).astype(np.int64)

    def _sums(self, v: NDArray, power: int) -> NDArray:
        """Sums over the rows of every column of v times the values to some power."""
        out = np.empty((self.shape[1], *v.shape[1:]), dtype=v.dtype)
        _core.weighted_rmatvec(self.codes, self.values, self.offsets, v, out, power, self.n_threads)
        return out

    def _entries(self, grid: int, rows: NDArray[np.bool_]) -> NDArray:
        return self.values[grid, rows]

    def rows(self, index: Index) -> Weighted:
        return Weighted(
            self.codes[:, index], self.values[:, index], self.offsets, self.dtype, self.n_threads
        )

    def tocsr(self) -> sparse.csr_array:
        needed = float(self.codes.size) * (8 + 2 * self.dtype.itemsize)
        check_memory(needed, "the sparse form of Z", "use design(X)")
        matrix = super().tocsr()
        sizes, codes = np.diff(self.offsets), self.codes.T
        matrix.data = self.values.T[codes < sizes].astype(self.dtype)
        return matrix

    def views(self) -> dict[str, Any]:
        return {"codes": self.codes, "values": self.values, "offsets": self.offsets}

    def sources(self) -> list[Data]:
        return [*super().sources(), self.values]

    @property
    def nbytes(self) -> int:
        return super().nbytes + self.values.nbytes
