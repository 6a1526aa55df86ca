"""A digest of the rows of all shards that does not depend on where one shard ends."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer._runtime.arrays import row_chunks
from mercer.engines.engine import Engine
from mercer.engines.memory import WorkerStore
from mercer.engines.shards import Shard, add, gathered

__all__ = ["digest_of_shards"]

_ODD = np.uint64(0x9E3779B97F4A7C15)


def digest_of_shards(engine: Engine) -> NDArray[np.uint64]:
    """Sums (3,) over all rows of digests of the content of a row and of its number.

    Every bit of X, the targets and the weights counts. Rows of an array and of CSR with equal
    entries have different digests.
    """
    starts = np.cumsum([0, *gathered(engine, len)])
    own = {i: (int(start),) for i, start in enumerate(starts[:-1])}
    return engine.fetch([engine.total(engine.each(_of_shard, own=own), add)])[0]


def _of_shard(memory: WorkerStore, number: int, shard: Shard, start: int) -> NDArray[np.uint64]:
    sums = np.zeros(3, dtype=np.uint64)
    for place, rows in enumerate((shard.X, shard.target, shard.weights)):
        if rows is None or not len(shard):
            continue
        if not sparse.issparse(rows):
            rows = np.asarray(rows)
        for chunk in row_chunks(len(shard), 64.0 * max(1, *rows.shape[1:], 1)):
            where = np.arange(start + chunk.start, start + chunk.stop, dtype=np.uint64)
            sums[place] += _mixed(_of_rows(rows[chunk]) + _mixed(where)).sum(dtype=np.uint64)
    return sums


def _of_rows(rows: Any) -> NDArray[np.uint64]:
    """Digest of the content of each row."""
    if sparse.issparse(rows):
        rows = sparse.csr_array(rows)
        entries = _mixed(_bits(rows.data) + _mixed(rows.indices.astype(np.uint64) + _ODD))
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(entries, dtype=np.uint64)])
        return sums[rows.indptr[1:]] - sums[rows.indptr[:-1]]
    if rows.dtype.kind not in "biufM":
        texts = (repr(row).encode("utf-8", "surrogatepass") for row in rows.tolist())
        digests = b"".join(hashlib.blake2b(text, digest_size=8).digest() for text in texts)
        return np.frombuffer(digests, dtype="<u8").astype(np.uint64)
    table = rows.reshape(len(rows), -1)
    places = _mixed(np.arange(table.shape[1], dtype=np.uint64) + _ODD)
    return _mixed(_bits(table) + places).sum(axis=1, dtype=np.uint64)


def _bits(numbers: NDArray) -> NDArray[np.uint64]:
    """Numbers of up to 8 bytes as they are held, one word each."""
    if numbers.dtype.kind == "f" and numbers.dtype.itemsize != 8:
        numbers = numbers.astype(np.float64)  # exact
    if numbers.dtype.kind in "fM":
        return np.ascontiguousarray(numbers).view(np.uint64)
    return numbers.astype(np.int64).astype(np.uint64)


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A bijection of words under which neighbours are far apart (that of SplitMix64)."""
    with np.errstate(over="ignore"):
        words = words + _ODD
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return words ^ (words >> np.uint64(31))
