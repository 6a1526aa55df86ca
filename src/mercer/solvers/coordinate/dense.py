"""Columns of an array by rows: products and Gram matrices in chunks of rows, on threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.arrays import row_chunks
from mercer._runtime.threads import blas_threads, side_by_side
from mercer.designs import Dense, Design
from mercer.solvers.coordinate.base import Columns

__all__ = ["DenseColumns"]

_ROWS = 4096  # rows summed in the design's dtype before the sum continues in float64
_CHUNK = 2**22  # bytes of a chunk of rows in one pass; it fits into the processor cache
_BLOCK = 2**25  # bytes of a block of rows in a product of columns
_NEAR = 2**24  # bytes of a design that fits into the cache: a pass takes all columns
_CACHE = 2**30  # bytes of columns cached beside the design
_WORTH_THREADS = 2**26  # bytes read from which starting threads pays
_GAPS = 1.2  # ratio of a span of columns to the needed ones up to which all are multiplied
_SAMPLE = 2000  # rows sampled to estimate the norms of columns
_CROWDED = 0.5  # share of active columns from which they are read from the design


class DenseColumns(Columns):
    """Columns of an array by rows; few at work are cached beside each other.

    Sums of chunks are joined in the order of the rows: the number of threads changes no bit.
    """

    design: Dense

    def __init__(self, design: Design):
        super().__init__(design)
        self._cached = np.empty((0, self.n), dtype=design.dtype)  # a row for every column
        self._ids = np.zeros(0, dtype=np.int64)
        self._place = np.full(self.n_columns, -1)

    def matvec(self, w: NDArray) -> NDArray[np.float64]:
        used = np.flatnonzero(w)
        return self._product(*self._source(used, at_hand=True), w[used])

    def rmatvec(self, v: NDArray) -> NDArray[np.float64]:
        array, v = self.design.array, v.astype(self.design.dtype, copy=False)
        shape = (self.n_columns, *v.shape[1:])
        return self._sum(lambda rows: array[rows].T @ v[rows], self.n_columns, shape)

    def _root_mean_squares(self, weights: NDArray | None) -> NDArray[np.float64]:
        rows = slice(None, None, max(1, self.n // _SAMPLE))
        z = self.design.array[rows]
        other = z if weights is None else z * weights[rows, None]
        return np.sqrt(np.einsum("ij,ij->j", z, other) / max(len(z), 1)).astype(np.float64)

    def chosen(self, ids: NDArray) -> Columns | None:
        near = self.design.array.nbytes <= _NEAR
        return None if near or self._is_crowded(len(ids)) else ChosenColumns(self, ids)

    def means(self, ids: NDArray) -> NDArray[np.float64]:
        source, places = self._source(ids, at_hand=True)
        h = np.ones(self.n) if self.curvature is None else self.curvature
        h = h.astype(source.dtype, copy=False)
        width = source.shape[1]
        return self._sum(lambda rows: h[rows] @ source[rows], width, width)[places] / self.n

    def part(self, rows: slice, columns: NDArray) -> NDArray[np.float64]:
        return self.design.array[rows][:, columns].astype(np.float64, copy=False)

    def products(self, left: NDArray, right: NDArray | None = None) -> NDArray[np.float64]:
        h = self.curvature
        used = None if h is None or np.all(h) else np.flatnonzero(h)
        return self._products(left, right, h, used)

    def changes(
        self, ids: NDArray, before: NDArray[np.float64], after: NDArray[np.float64]
    ) -> NDArray[np.float64] | None:
        changed = np.flatnonzero(before != after)
        if 2 * len(changed) > np.count_nonzero(after):
            return None
        total = np.zeros((len(ids), len(ids)))
        for sign in (1.0, -1.0):
            rise = sign * (after - before)
            rows = changed[rise[changed] > 0]
            total += sign * self._products(ids, None, rise, rows)
        return total

    def _product(self, source: NDArray, places: NDArray, w: NDArray) -> NDArray[np.float64]:
        """Sum of columns of ``source``, w times each."""
        weights, out = np.zeros(source.shape[1]), np.empty(self.n)
        weights[places] = w

        def product(rows: slice) -> None:
            out[rows] = source[rows].astype(np.float64, copy=False) @ weights

        for _ in self._over_rows(product, source.shape[1]):
            pass
        return out

    def _products(
        self, left: NDArray, right: NDArray | None, h: NDArray | None, used: NDArray | None
    ) -> NDArray[np.float64]:
        """Z[:, left]ᵀ diag(h) Z[:, right] / n over rows, all or ``used`` with h > 0."""
        source, places = self._source(left if right is None else np.concatenate([right, left]))
        both, places = _span(places)
        ours, own = _span(places[-len(left) :])
        theirs, other = (ours, own) if right is None else _span(places[: len(right)])
        dtype = np.dtype(np.float32 if self.rough else np.float64)

        def product(rows: slice) -> NDArray:
            chosen = rows if used is None else used[rows]
            z = _columns(_rows(source, chosen), both).astype(dtype, copy=False)
            if h is not None:
                weights = np.sqrt(h[chosen]).astype(dtype)[:, None]
                z = np.multiply(z, weights, out=z if z.base is None else None)
            mine = _columns(z, ours)
            return mine.T @ (mine if right is None else _columns(z, theirs))

        n_rows = self.n if used is None else len(used)
        total = self._sum(product, _width(both), (_width(ours), _width(theirs)), n_rows, _BLOCK)
        total /= self.n
        if _ascends(own, len(total)) and _ascends(other, total.shape[1]):
            return total
        return total[np.ix_(own, other)]

    def _source(self, ids: NDArray, at_hand: bool = False) -> tuple[NDArray, NDArray]:
        """An array that has the columns, and their places in it; ``at_hand``: nothing is copied."""
        new = ids[self._place[ids] < 0]
        if self._is_crowded(len(ids)) or (at_hand and len(new)):
            return self.design.array, ids
        if len(self._ids) + len(new) > self._room:
            self._keep(ids[self._place[ids] >= 0])
        if len(new):
            self._add(new)
        return self._cached[: len(self._ids)].T, self._place[ids]

    @property
    def _room(self) -> float:
        """Columns that the cache has room for."""
        return _CACHE / (self.design.dtype.itemsize * max(self.n, 1))

    def _is_crowded(self, count: int) -> bool:
        """Whether so many columns are taken from the design itself."""
        return count > min(_CROWDED * self.n_columns, self._room)

    def _keep(self, ids: NDArray) -> None:
        self._cached = self._cached[self._place[ids]]
        self._place[self._ids] = -1
        self._ids = ids
        self._place[ids] = np.arange(len(ids))

    def _add(self, new: NDArray) -> None:
        old, size = len(self._ids), len(self._ids) + len(new)
        array = self.design.array
        if size > len(self._cached):
            grown = np.empty((min(self.n_columns, 2 * size), self.n), dtype=self.design.dtype)
            grown[:old] = self._cached[:old]
            self._cached = grown
        cached = self._cached

        def copy(rows: slice) -> None:
            cached[old:size, rows] = array[rows][:, new].T

        for _ in self._over_rows(copy, self.n_columns):
            pass
        self._ids = np.concatenate([self._ids, new])
        self._place[new] = np.arange(old, size)

    def _sum(
        self,
        call: Callable[[slice], NDArray],
        width: int,
        shape: int | tuple[int, ...],
        n_rows: int | None = None,
        chunk: int = _CHUNK,
    ) -> NDArray[np.float64]:
        """The sum of the calls for chunks of rows, as ``_over_rows`` makes them."""
        total = np.zeros(shape)
        for part in self._over_rows(call, width, n_rows, chunk):
            total += part
        return total

    def _over_rows(
        self,
        call: Callable[[slice], Any],
        width: int,
        n_rows: int | None = None,
        chunk: int = _CHUNK,
    ) -> Iterator[Any]:
        """Results of the calls for chunks of rows in order, ``width`` numbers in a row."""
        most = min(_ROWS, max(1, chunk // (8 * max(width, 1))))
        n = self.n if n_rows is None else n_rows
        chunks = list(row_chunks(n, 1.0, most))
        if len(chunks) <= 1:
            yield from map(call, chunks)
            return
        threads = self.design.n_threads if 8 * n * width >= _WORTH_THREADS else 1
        with blas_threads(1):
            yield from side_by_side(call, chunks, threads)


class ChosenColumns(Columns):
    """Some columns of others, which have them in their cache."""

    def __init__(self, columns: DenseColumns, ids: NDArray):
        super().__init__(columns.design)
        self.shape, self.n_columns = (self.n, len(ids)), len(ids)
        self.columns = columns
        self.source, self.places = columns._source(ids)

    def matvec(self, w: NDArray) -> NDArray[np.float64]:
        return self.columns._product(self.source, self.places, w)

    def rmatvec(self, v: NDArray) -> NDArray[np.float64]:
        source, v = self.source, v.astype(self.source.dtype, copy=False)
        width = source.shape[1]
        return self.columns._sum(lambda rows: v[rows] @ source[rows], width, width)[self.places]


def _rows(z: NDArray, index: slice | NDArray) -> NDArray:
    """Rows ``index`` of an array, in its memory order."""
    if isinstance(index, slice) or not z.flags.f_contiguous:
        return z[index]
    return z.T.take(index, axis=1).T


def _columns(z: NDArray, places: slice | NDArray) -> NDArray:
    """Columns ``places`` of a chunk, in its memory order."""
    if isinstance(places, slice):
        return z[:, places]
    return z.take(places, axis=1) if z.flags.c_contiguous else z.T[places].T


def _span(places: NDArray) -> tuple[slice | NDArray, NDArray]:
    """Columns to read from every chunk, cheap gaps included, and places of the given ones."""
    first, last = int(places.min()), int(places.max()) + 1
    if last - first <= _GAPS * len(places):
        return slice(first, last), places - first
    return places, np.arange(len(places))


def _ascends(places: NDArray, count: int) -> bool:
    """Whether they are all places, in order."""
    return len(places) == count and bool(np.all(places == np.arange(count)))


def _width(places: slice | NDArray) -> int:
    return places.stop - places.start if isinstance(places, slice) else len(places)
