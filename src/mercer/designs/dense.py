"""The design that holds its numbers as an array."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from mercer import _core
from mercer._runtime.arrays import Index, n_threads, row_chunks
from mercer._runtime.rows import Data
from mercer._runtime.threads import side_by_side
from mercer.designs.base import Design, check_gram, float_dtype, transposed_product

__all__ = ["Dense"]

_ROWS = 4096  # rows summed in the design's dtype before the sum continues in float64
_CHUNK = 2**22  # bytes of a chunk of rows in one pass; it fits into the processor cache
_BLOCK = 2**25  # bytes of a block of rows in a product of columns
_WORTH_THREADS = 2**26  # bytes read from which starting threads pays
_GAPS = 1.2  # ratio of a span of columns to the needed ones up to which all are multiplied
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

    def products(
        self,
        left: NDArray,
        right: NDArray | None = None,
        weights: NDArray | None = None,
        dtype: DTypeLike = np.float64,
    ) -> NDArray[np.float64]:
        """``Design.products`` for weights >= 0; ``dtype`` is that of sums within a chunk of rows.

        Rows of weight 0 are skipped.
        """
        both, places = _span(left if right is None else np.concatenate([right, left]))
        ours, own = _span(places[-len(left) :])
        theirs, other = (ours, own) if right is None else _span(places[: len(right)])
        used = None if weights is None or np.all(weights) else np.flatnonzero(weights)

        def product(rows: slice) -> NDArray:
            chosen = rows if used is None else used[rows]
            z = _columns(_rows(self.array, chosen), both).astype(dtype, copy=False)
            if weights is not None:
                roots = np.sqrt(weights[chosen]).astype(dtype)[:, None]
                z = np.multiply(z, roots, out=z if z.base is None else None)
            mine = _columns(z, ours)
            return mine.T @ (mine if right is None else _columns(z, theirs))

        n_rows = None if used is None else len(used)
        total = np.zeros((_width(ours), _width(theirs)))
        for part in self._over_rows(product, _width(both), n_rows, _BLOCK):
            total += part
        if _ascends(own, len(total)) and _ascends(other, total.shape[1]):
            return total
        return total[np.ix_(own, other)]

    def matvec64(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        """``Z @ w`` for w of shape (D,), in float64."""
        out = np.empty(self.shape[0])

        def product(rows: slice) -> None:
            out[rows] = self.array[rows].astype(np.float64, copy=False) @ w

        for _ in self._over_rows(product, self.shape[1]):
            pass
        return out

    def rmatvec64(self, v: NDArray) -> NDArray[np.float64]:
        """``Z.T @ v`` for v of shape (n,) or (n, k): sums of chunks of rows, added in float64."""
        v = v.astype(self.dtype, copy=False)
        total = np.zeros((self.shape[1], *v.shape[1:]))
        for part in self._over_rows(lambda rows: self.array[rows].T @ v[rows], self.shape[1]):
            total += part
        return total

    def copy_columns(self, columns: NDArray, out: NDArray) -> None:
        """Write some columns to the rows of ``out`` (len(columns), n)."""

        def copy(rows: slice) -> None:
            out[:, rows] = self.array[rows][:, columns].T

        for _ in self._over_rows(copy, self.shape[1]):
            pass

    def _over_rows(
        self, call: Callable[[slice], Any], width: int, n_rows: int | None = None, chunk: int = 0
    ) -> Iterator[Any]:
        """Results of the calls for chunks of rows in order, ``width`` numbers in a row."""
        most = min(_ROWS, max(1, (chunk or _CHUNK) // (8 * max(width, 1))))
        n = self.shape[0] if n_rows is None else n_rows
        chunks = list(row_chunks(n, 1.0, most))
        if len(chunks) <= 1:
            yield from map(call, chunks)
            return
        threads = self.n_threads if 8 * n * width >= _WORTH_THREADS else 1
        yield from side_by_side(call, chunks, threads)

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
