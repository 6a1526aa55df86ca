"""The design that regenerates what is asked for."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from mercer._runtime.arrays import Index, Matrix, n_threads, row_chunks
from mercer._runtime.rows import Data, bytes_per_row, selected
from mercer.designs.base import Design, float_dtype
from mercer.designs.dense import Dense

__all__ = ["BlockMap", "Lazy"]


class BlockMap(Protocol):
    """A map as ``Lazy`` uses it: some columns for some rows."""

    def transform_block(self, X: Matrix, columns: Any) -> Any:
        """Columns ``columns`` of z(X)."""


class Lazy(Design):
    """Design that computes its columns at each use and stores none.

    Parameters
    ----------
    X : array, CSR or PreparedRows of shape (n, d)
        Rows that the map is applied to.
    feature_map : object with ``transform_block(X, columns)``
        Fitted map.
    n_columns : int
        Number of columns D of the map.
    dtype : dtype, default=float64
        Type of the columns and products.
    block_size : int, default=512
        Number of columns computed together; at most n * block_size numbers are in memory besides X.
    n_jobs : int or None, default=None
        Number of threads of products; None means all.
    """

    shuffled = True

    def __init__(
        self,
        X: Data,
        feature_map: BlockMap,
        n_columns: int,
        dtype: DTypeLike = np.float64,
        block_size: int = 512,
        n_jobs: int | None = None,
    ):
        self.X = X
        self.feature_map = feature_map
        self.shape = (X.shape[0], int(n_columns))
        self.dtype = float_dtype(dtype)
        self.block_size = int(block_size)
        self.n_threads = n_threads(n_jobs)

    def _tiles(self):
        """(rows, columns, z[rows, columns]) over the whole matrix, one tile in memory at a time."""
        n, n_columns = self.shape
        width = min(self.block_size, n_columns)
        for rows in row_chunks(n, self._row_bytes(width)):
            X = self.X[rows]
            for start in range(0, n_columns, self.block_size):
                columns = np.arange(start, min(n_columns, start + self.block_size))
                tile = np.asarray(self.feature_map.transform_block(X, columns), dtype=self.dtype)
                yield rows, slice(start, start + len(columns)), tile

    def _row_bytes(self, n_columns: int) -> float:
        """Bytes that a row and some of its columns take while they are made."""
        # A row is read, prepared and checked.
        return self.dtype.itemsize * n_columns + 3.0 * bytes_per_row(self.X)

    def matvec(self, w: NDArray) -> NDArray:
        w = self._check(w, self.shape[1], "w")
        out = np.zeros((self.shape[0], *w.shape[1:]), dtype=self.dtype)
        for rows, columns, tile in self._tiles():
            out[rows] += tile @ w[columns]
        return out

    def rmatvec(self, v: NDArray) -> NDArray:
        v = self._check(v, self.shape[0], "v")
        total = np.zeros((self.shape[1], *v.shape[1:]))
        for rows, columns, tile in self._tiles():
            total[columns] += Dense(tile).rmatvec(v[rows])
        return total.astype(self.dtype)

    def column_sqnorms(self, weights: NDArray | None = None) -> NDArray[np.float64]:
        total = np.zeros(self.shape[1])
        for rows, columns, tile in self._tiles():
            total[columns] += Dense(tile).column_sqnorms(None if weights is None else weights[rows])
        return total

    def block(self, columns: ArrayLike) -> NDArray:
        columns = np.asarray(columns)
        out = np.empty((self.shape[0], len(columns)), dtype=self.dtype)
        for rows in row_chunks(self.shape[0], self._row_bytes(len(columns))):
            out[rows] = self.feature_map.transform_block(self.X[rows], columns)
        return out

    def rows(self, index: Index) -> Lazy:
        return Lazy(
            selected(self.X, index),
            self.feature_map,
            self.shape[1],
            self.dtype,
            self.block_size,
            self.n_threads,
        )

    @property
    def n_inputs(self) -> int:
        """Numbers that a row of data is made of."""
        return int(self.X.shape[-1])

    def sources(self) -> list[Data]:
        return [self.X]

    @property
    def nbytes(self) -> int:
        return 0
