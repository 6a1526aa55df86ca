"""Statistics of rows in shards for scalers, kernels and maps: sums, and rows by number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer._runtime.moments import Moments
from mercer._runtime.rows import PreparedRows, is_sparse
from mercer.distributed.engine import Engine
from mercer.distributed.memory import Memory
from mercer.distributed.shards import Shard

__all__ = ["RowsByNumber", "Summary", "moments_of", "summary_of"]


def moments_of(shard: Shard) -> Moments | None:
    """Moments of the columns of a checked shard; None for no rows."""
    return Moments.of(shard.X, shard.weights) if len(shard) else None


@dataclass(frozen=True)
class Summary:
    """Results of one pass over checked shards.

    Added, of the rows of both; a shard without rows has None for what it does not know.
    """

    columns: Moments | None  # of X
    target: Moments | None  # of y, where these are numbers

    def __add__(self, other: Summary) -> Summary:
        pairs = ((self.columns, other.columns), (self.target, other.target))
        return Summary(*(a if b is None else b if a is None else a + b for a, b in pairs))


def summary_of(shard: Shard, of_target: bool) -> Summary:
    """The summary of a checked shard."""
    target = None
    if of_target and len(shard):
        y = np.asarray(shard.target, dtype=np.float64)
        target = Moments.of(y.reshape(len(y), -1), shard.weights)
    return Summary(moments_of(shard), target)


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

    def prepared(self, prepare: Callable[[Any], Any] | None) -> PreparedRows:
        """The rows as a map takes them that reads few of them."""
        return PreparedRows(self, prepare)


def _rows_at(memory: Memory, number: int, shard: Shard, places: NDArray[np.int64]) -> Any:
    return shard.X[places]
