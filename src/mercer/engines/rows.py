"""Rows of all shards as a matrix, brought here when they are asked for."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer._runtime.arrays import available_memory
from mercer._runtime.rows import PreparedRows, is_sparse
from mercer.engines.engine import Engine
from mercer.engines.memory import WorkerStore
from mercer.engines.shards import Shard

__all__ = ["RowsByNumber"]


class RowsByNumber:
    """The rows of all shards as a matrix from which rows are taken by their number, and brought.

    Parameters
    ----------
    engine : Engine
        Of checked shards.
    lengths : list of int
        Rows of each.
    n_columns : int
    dtype : dtype
    """

    ndim = 2

    def __init__(self, engine: Engine, lengths: list[int], n_columns: int, dtype: np.dtype):
        self.engine, self.dtype = engine, dtype
        self.ends = np.cumsum(lengths)
        self.shape = (int(self.ends[-1]), n_columns)

    @property
    def nbytes(self) -> int:
        """Bytes of the rows as an array, of which CSR takes a part."""
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> Any:
        numbers = np.arange(self.shape[0])[rows]
        homes = np.searchsorted(self.ends, numbers, side="right")
        used = np.unique(homes).tolist()
        starts = np.concatenate([[0], self.ends])
        own = {i: (numbers[homes == i] - starts[i],) for i in used}
        pieces = self.engine.fetch(self.engine.each(_rows_at, numbers=used, own=own))
        if not pieces:
            return np.empty((0, self.shape[1]), dtype=self.dtype)
        stacked = sparse.vstack(pieces, "csr") if is_sparse(pieces[0]) else np.concatenate(pieces)
        return stacked[np.argsort(np.argsort(homes, kind="stable"), kind="stable")]

    def together(self) -> NDArray:
        """All dense rows, brought shard by shard: in memory, or a file where it has no room."""
        available = available_memory()
        if available is None or 2 * self.nbytes < available:
            out = np.empty(self.shape, self.dtype)
        else:
            with tempfile.TemporaryFile(prefix="mercer-") as file:  # gone with the array
                out = np.asarray(np.memmap(file, self.dtype, "w+", shape=self.shape))
        starts = [0, *self.ends[:-1]]
        for handle, first, last in zip(self.engine.each(_rows), starts, self.ends, strict=True):
            out[first:last] = self.engine.fetch([handle])[0]
        return out

    def prepared(self, prepare: Callable[[Any], Any] | None) -> PreparedRows:
        """The rows as a map takes them that reads few of them."""
        return PreparedRows(self, prepare)


def _rows_at(memory: WorkerStore, number: int, shard: Shard, places: NDArray[np.int64]) -> Any:
    return shard.X[places]


def _rows(memory: WorkerStore, number: int, shard: Shard) -> NDArray:
    return shard.X
