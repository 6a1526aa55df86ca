"""Columns of a design in float64: products with all of them, and Gram matrices of a few."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mercer import _core
from mercer._runtime.arrays import check_memory
from mercer.designs import Binned, Dense, Design, Sparse
from mercer.solvers.coordinate.base import Columns
from mercer.solvers.coordinate.dense import DenseColumns

__all__ = ["ColumnLists", "Columns", "GramPool", "column_lists", "columns_of"]

_BLOCK = 512  # rows of a bitmap that share one curvature
_FEW_BLOCKS = 16  # least number of blocks that resolve unequal curvatures
_LARGEST = 2**24  # largest curvature of a block as an integer
_FINEST = np.uint16(2**16 - 1)  # largest curvature of a row as an integer for sorting
_TINY = float(np.finfo(np.float64).tiny)
_MANY = 2  # grids per grid with weights from which a product skips grids without weights
_POOL = 1000  # columns of a Gram matrix that are cached even if fewer are needed
_SHARED = 3000  # most columns of a Gram matrix shared by outputs (72 MB)


class SparseColumns(Columns):
    """Columns of a sparse matrix."""

    design: Sparse

    def __init__(self, design: Design):
        matrix = design.tocsr().astype(np.float64)
        super().__init__(Sparse(matrix))
        self.by_column = matrix.tocsc()

    def products(self, left: NDArray, right: NDArray | None = None) -> NDArray[np.float64]:
        z = self.by_column[:, left]
        other = z if right is None else self.by_column[:, right]
        if self.curvature is not None:
            other = other.multiply(self.curvature[:, None]).tocsc()
        return (z.T @ other).toarray() / self.n


class BinColumns(Columns):
    """Columns of zeros and ones: their common rows are counted in bitmaps.

    Rows are sorted by curvature; each block of 512 gets its mean, for a cheap weighted count.
    """

    design: Binned

    def __init__(self, design: Binned):
        if design.dtype != np.float64:
            layout = (design.codes, design.offsets, design.scale, np.float64, design.missing)
            design = Binned(*layout, design.n_threads, validate=False)
        super().__init__(design)
        self._order: NDArray[np.uint32] | None = None
        self._weights: NDArray[np.uint32] | None = None
        self._unit = 1.0

    def set_curvature(self, h: NDArray[np.float64] | None) -> None:
        self.curvature, self._order, self._weights, self._unit = h, None, None, 1.0
        if h is None or self.is_small:
            return
        keys = np.rint(h * (_FINEST / max(float(np.max(h)), _TINY))).astype(np.uint16)
        order = np.argsort(_FINEST - keys, kind="stable")[: np.count_nonzero(keys)]  # by digits
        starts = np.arange(0, len(order), _BLOCK)
        sizes = np.diff(np.append(starts, len(order)))
        means = np.add.reduceat(h[order], starts) / sizes if len(order) else np.zeros(0)
        self._unit = float(means[0]) / _LARGEST if len(means) else 1.0
        self._weights = np.rint(means / self._unit).astype(np.uint32)
        self._order = order.astype(np.uint32)
        self.curvature = np.zeros(self.n)
        self.curvature[order] = np.repeat(self._weights * self._unit, sizes)

    def products(self, left: NDArray, right: NDArray | None = None) -> NDArray[np.float64]:
        design = self.design
        if self.curvature is not None and self.is_small:
            z = design.block(left)
            other = (z if right is None else design.block(right)) * self.curvature[:, None]
            return z.T @ other / self.n
        ours = self._bits(left)
        theirs = ours if right is None else self._bits(right)
        out = np.empty((len(ours), len(theirs)))
        unit = design.scale**2 / self.n * self._unit
        _core.bit_products(ours, theirs, self._weights, unit, out, design.n_threads)
        return out

    def matvec(self, w: NDArray) -> NDArray[np.float64]:
        """Z w, by the grids alone that have weights."""
        design = self.design
        grids = np.unique(np.searchsorted(design.offsets, np.flatnonzero(w), side="right") - 1)
        if not len(grids) or _MANY * len(grids) > design.n_grids:
            return design.matvec(w)
        starts, ends = design.offsets[grids], design.offsets[grids + 1]
        offsets = np.append(0, np.cumsum(ends - starts))
        columns = np.concatenate([np.arange(a, b) for a, b in zip(starts, ends, strict=True)])
        layout = (design.codes[grids], offsets, design.scale, np.float64, design.missing)
        return Binned(*layout, design.n_threads, validate=False).matvec(w[columns])

    @property
    def is_small(self) -> bool:
        return self.n < _FEW_BLOCKS * _BLOCK

    def _bits(self, columns: NDArray) -> NDArray[np.uint64]:
        """Bitmaps of columns in any order, over the rows in the order of their curvatures."""
        n_rows = self.n if self._order is None else len(self._order)
        n_words = -(-n_rows // _BLOCK) * (_BLOCK // 64)
        check_memory(16.0 * n_words * len(columns), "the bitmaps of columns", "raise alpha")
        bits = np.empty((len(columns), n_words), dtype=np.uint64)
        design, place = self.design, np.argsort(columns)
        _core.bit_columns(
            design.codes, design.offsets, columns[place], self._order, bits, design.n_threads
        )
        if np.any(place[1:] < place[:-1]):
            bits = bits[np.argsort(place)]
        return bits


def columns_of(design: Design) -> Columns:
    """The columns of a design that holds them, brought to the processor from a device."""
    design = design.on_host() if hasattr(design, "on_host") else design
    if isinstance(design, Binned):
        return BinColumns(design)
    if isinstance(design, Dense):
        return DenseColumns(design)
    if isinstance(design, Sparse):
        return SparseColumns(design)
    raise ValueError(
        f"coordinate descent needs a design that holds its columns; got {type(design).__name__}."
    )


@dataclass
class ColumnLists:
    """Some columns: the entries of column k are starts[k] to starts[k + 1]."""

    starts: NDArray[np.int64]  # (p + 1,)
    rows: NDArray[np.uint32]  # ascending within a column
    values: NDArray[np.float64] | None  # None stands for ones
    scale: float  # of every value

    def n_entries(self, at: NDArray) -> int:
        """Entries of the columns at the positions."""
        return int(np.sum(self.starts[at + 1] - self.starts[at]))

    def times(self, w: NDArray, n_rows: int, at: NDArray | None = None) -> NDArray[np.float64]:
        """Z w, for the weights of all columns or at positions ``at``."""
        out = np.zeros(n_rows)
        _core.list_product(*self.arguments(), at, w, out)
        return out

    def transposed_times(self, v: NDArray, at: NDArray | None = None) -> NDArray[np.float64]:
        """Zᵀ v, for all columns or at positions ``at``."""
        out = np.empty(len(self.starts) - 1 if at is None else len(at))
        _core.list_sums(*self.arguments(), at, v, out)
        return out

    def arguments(
        self,
    ) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.float64] | None, float]:
        """All of it, in the order of the core's arguments."""
        return self.starts, self.rows, self.values, self.scale

    def curvatures(self, h: NDArray[np.float64] | None, n: int) -> NDArray[np.float64]:
        """(1/n) Σ h z² of every column."""
        if h is None and self.values is None:
            return self.scale**2 / n * np.diff(self.starts)
        h = np.ones(n) if h is None else h
        if self.values is None:
            sums = self.scale * self.transposed_times(h)
        else:
            squares = replace(self, values=self.values**2, scale=self.scale**2)
            sums = squares.transposed_times(h)
        return np.maximum(sums, 0.0) / n


def column_lists(columns: Columns, ids: NDArray, kept: NDArray | None = None) -> ColumnLists:
    """The lists of columns ``ids``, which ascend, over the rows ``kept``, or all of them."""
    if isinstance(columns, BinColumns):
        return _of_bins(columns, ids, kept)
    if isinstance(columns, SparseColumns):
        z = columns.by_column[:, ids]
        if kept is not None:
            z = z[kept]
        z.sort_indices()
        return ColumnLists(z.indptr.astype(np.int64), z.indices.astype(np.uint32), z.data, 1.0)
    n = columns.n if kept is None else len(kept)
    check_memory(20.0 * n * len(ids), "the columns at work", "raise alpha")
    z = columns.part(slice(0, columns.n), ids)
    values = (z if kept is None else z[kept]).T.ravel()
    rows = np.tile(np.arange(n, dtype=np.uint32), len(ids))
    return ColumnLists(np.arange(len(ids) + 1, dtype=np.int64) * n, rows, values, 1.0)


def _of_bins(columns: BinColumns, ids: NDArray, kept: NDArray | None) -> ColumnLists:
    design = columns.design
    n_rows = columns.n if kept is None else len(kept)
    n_grids = min(design.n_grids, len(ids))
    check_memory(8.0 * n_grids * n_rows, "the columns at work", "raise alpha")
    starts = np.empty(len(ids) + 1, dtype=np.int64)
    rows = np.empty(n_grids * n_rows, dtype=np.uint32)
    order = None if kept is None else kept.astype(np.uint32)
    _core.bin_lists(design.codes, design.offsets, ids, order, starts, rows, design.n_threads)
    return ColumnLists(starts, rows[: starts[-1]], None, design.scale)


class GramPool:
    """The Gram matrix of columns asked for so far, under one curvature of the rows.

    With ``centred``, the columns are those of Z − 1m̄ᵀ with their means m̄ under the curvature, which
    eliminates an intercept without penalty from a quadratic.

    ``curvature`` are the weights of the rows as asked for, ``Columns.curvature`` those used.
    ``shared``, by outputs that take turns: none is forgotten, unless there are too many columns.
    """

    def __init__(self, columns: Columns, centred: bool, shared: bool = False):
        self.columns = columns
        self.centred = centred
        self.shared = shared and columns.n_columns <= _SHARED
        self._place = np.full(columns.n_columns, -1)
        self._ids = np.zeros(0, dtype=np.int64)
        self._gram = np.zeros((0, 0))
        self._fresh = False
        self.curvature: NDArray[np.float64] | None = None
        self._means = np.full(columns.n_columns, np.nan)  # those that were asked for
        self._mass = 1.0
        self._ridge = 0.0
        self._sqnorms: NDArray[np.float64] | None = None

    def set_curvature(self, h: NDArray[np.float64] | None, ridge: float = 0.0) -> None:
        """Weigh rows by h, or by ones for None.

        Diagonal entries rise by ``ridge`` · (mean of h) · (the entry for h of ones). Entries are
        updated by the rows of changed weight where that is less work than to form them again.
        """
        if self._fresh and h is None and self.curvature is None:
            return
        before, self._fresh, self.curvature = self.curvature, True, h
        self.columns.set_curvature(h)
        self.columns.rough = ridge > 0
        change = None
        if before is not None and h is not None and len(self._ids):
            change = self.columns.changes(self._ids, before, h)
        if change is None:
            self._keep(np.zeros(0, dtype=np.int64))
        else:
            self._gram[: len(change), : len(change)] += change
        if ridge and self._sqnorms is None:
            self._sqnorms = self.columns.n * self.columns.norms() ** 2
        self._ridge = ridge * (1.0 if h is None else float(np.mean(h))) / self.columns.n
        if self.centred:
            used = self.columns.curvature
            self._mass = 1.0 if used is None else float(np.mean(used))
            self._means[:] = np.nan

    def centre(self, ids: NDArray) -> NDArray[np.float64]:
        """Means of columns ``ids`` under the curvature, if they are centred; else 0."""
        if not (self.centred and self._mass > 0):
            return np.zeros(len(ids))
        new = ids[np.isnan(self._means[ids])]
        if len(new):
            self._means[new] = self.columns.means(new)
        return self._means[ids] / self._mass

    def hold(self, ids: NDArray) -> None:
        """Cache the Gram matrix of the columns: one pass for outputs that use parts of it."""
        new = ids[self._place[ids] < 0]
        if len(new):
            self._add(new)

    def gram(self, ids: NDArray) -> tuple[NDArray, NDArray[np.float64]]:
        """The columns in the order of the cache, and their Gram matrix, not to be written to."""
        new = ids[self._place[ids] < 0]
        if not self.shared and len(self._ids) + len(new) > max(_POOL, 2 * len(ids)):
            self._keep(ids[self._place[ids] >= 0])
        self.hold(new)
        places = np.sort(self._place[ids])
        size = len(self._ids)
        if len(places) == size:
            return self._ids, self._corrected(self._ids, self._gram[:size, :size])
        found = self._ids[places]
        return found, self._corrected(found, self._gram[np.ix_(places, places)])

    def _keep(self, ids: NDArray) -> None:
        places = self._place[ids]
        self._gram = self._gram[np.ix_(places, places)]
        self._place[self._ids] = -1
        self._ids = ids
        self._place[ids] = np.arange(len(ids))

    def _add(self, new: NDArray) -> None:
        old, size = len(self._ids), len(self._ids) + len(new)
        if size > len(self._gram):
            room = min(self.columns.n_columns, max(size, 3 * old // 2))
            check_memory(8.0 * room**2, "the Gram matrix of the columns at work", "raise alpha")
            grown = np.empty((room, room))
            grown[:old, :old] = self._gram[:old, :old]
            self._gram = grown
        self._gram[old:size, old:size] = self.columns.products(new)
        if old:
            side = self.columns.products(new, self._ids)
            self._gram[old:size, :old] = side
            self._gram[:old, old:size] = side.T
        self._ids = np.concatenate([self._ids, new])
        self._place[new] = np.arange(old, size)

    def _corrected(self, ids: NDArray, gram: NDArray) -> NDArray[np.float64]:
        """The Gram matrix of the columns, centred and with its ridge."""
        if not (self.centred and self._mass > 0) and not self._ridge:
            return gram
        means = self.centre(ids)
        gram = gram - np.multiply.outer(self._mass * means, means)
        if self._ridge and self._sqnorms is not None:
            gram[np.diag_indices(len(ids))] += self._ridge * self._sqnorms[ids]
        return gram
