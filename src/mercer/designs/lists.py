"""Columns of a design as lists of the rows that have entries."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mercer import _core

__all__ = ["ColumnLists"]


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
