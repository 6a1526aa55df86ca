"""Columns as lists of rows, for sweeps that move one column after the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mercer._array import check_memory
from mercer.solvers.coordinate.columns import BinColumns, Columns, SparseColumns

__all__ = ["ColumnLists", "column_lists"]


@dataclass
class ColumnLists:
    """Some columns: the entries of column k are starts[k] to starts[k + 1]."""

    starts: NDArray[np.int64]  # (p + 1,)
    rows: NDArray[np.uint32]  # ascending within a column
    values: NDArray[np.float64] | None  # None stands for ones
    scale: float  # of every value

    def arguments(
        self,
    ) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.float64] | None, float]:
        """All of it, in the order of the core's arguments."""
        return self.starts, self.rows, self.values, self.scale

    def curvatures(self, h: NDArray[np.float64] | None, n: int) -> NDArray[np.float64]:
        """(1/n) Σ h z² of every column."""
        each = np.full(len(self.rows), self.scale**2)
        if self.values is not None:
            each *= self.values**2
        if h is not None:
            each *= h[self.rows]
        sums = np.concatenate([[0.0], np.cumsum(each)])
        return np.maximum(np.diff(sums[self.starts]), 0.0) / n


def column_lists(columns: Columns, ids: NDArray) -> ColumnLists:
    """The lists of columns ``ids``, in that order."""
    if isinstance(columns, BinColumns):
        return _of_bins(columns, ids)
    if isinstance(columns, SparseColumns):
        z = columns.by_column[:, ids]
        z.sort_indices()
        return ColumnLists(z.indptr.astype(np.int64), z.indices.astype(np.uint32), z.data, 1.0)
    n = columns.n
    check_memory(20.0 * n * len(ids), "the columns at work", "raise alpha")
    values = columns.part(slice(0, n), ids).T.ravel()
    rows = np.tile(np.arange(n, dtype=np.uint32), len(ids))
    return ColumnLists(np.arange(len(ids) + 1, dtype=np.int64) * n, rows, values, 1.0)


def _of_bins(columns: BinColumns, ids: NDArray) -> ColumnLists:
    design = columns.design
    grids = np.searchsorted(design.offsets, ids, side="right") - 1
    parts: list[NDArray[np.uint32]] = [np.zeros(0, dtype=np.uint32)] * len(ids)
    for grid in np.unique(grids):
        codes = design.codes[grid]
        order = np.argsort(codes, kind="stable").astype(np.uint32)
        sorted_codes = codes[order]
        for k in np.flatnonzero(grids == grid):
            code = ids[k] - design.offsets[grid]
            first, last = np.searchsorted(sorted_codes, [code, code + 1])
            parts[k] = order[first:last]
    starts = np.zeros(len(ids) + 1, dtype=np.int64)
    np.cumsum([len(part) for part in parts], out=starts[1:])
    rows = np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint32)
    return ColumnLists(starts, rows, None, design.scale)
