"""Rows of a design and the state that goes with them: all that touches rows happens here."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mercer.designs import Dense, Design, KernelColumns
from mercer.designs.kernel_rows import times

__all__ = ["RowPart"]


class RowPart:
    """Some rows of a design, and their share of the n-long state.

    Parameters
    ----------
    design : Design of shape (n, D)
        Of these rows alone.
    rows : slice
        Which rows they are.
    weights : ndarray of shape (n,) or None
        Of these rows.

    Attributes
    ----------
    state : ndarray of shape (n, C)
        float64.
    budget : float
        Bytes for blocks that are kept.
    """

    def __init__(self, design: Design, rows: slice, weights: NDArray | None):
        self.design = design
        self.rows = rows
        self.weights = weights
        self.n_rows = design.shape[0]
        self.state: NDArray[np.float64] = np.zeros((self.n_rows, 0))
        self.budget = 0.0
        self._kept: dict[bytes, NDArray] = {}
        self._last: tuple[bytes, NDArray] | None = None

    def columns(self, J: NDArray) -> NDArray:
        """Columns J, generated once in a row."""
        key = J.tobytes()
        if key in self._kept:
            return self._kept[key]
        if self._last is not None and self._last[0] == key:
            return self._last[1]
        self._last = None
        block = self.design.block(J)
        if not self.design.nbytes and block.nbytes <= self.budget:
            self._kept[key] = block
            self.budget -= block.nbytes
        else:
            self._last = (key, block)
        return block

    def fill_symmetric(self, blocks: list[NDArray]) -> None:
        """Make and keep all blocks of a symmetric design, each pair of rows once, if they fit."""
        design, n = self.design, self.n_rows
        needed = float(design.dtype.itemsize) * n * n
        if design.nbytes or needed > self.budget:
            return
        self.budget -= needed
        kept = {J.tobytes(): np.empty((n, len(J)), dtype=design.dtype) for J in blocks}
        for number, rows in enumerate(blocks):
            some = design.rows(rows)
            for J in blocks[number:]:
                tile = some.block(J)
                kept[J.tobytes()][rows] = tile
                if J is not rows:
                    kept[rows.tobytes()][J] = tile.T
        self._kept.update(kept)

    def gram(self, J: NDArray, exact: bool = False) -> NDArray[np.float64]:
        """Z_Jᵀ S Z_J; if exact, products of float32 columns are float64."""
        block = Dense(self.columns(J))
        return Design.gram(block, self.weights) if exact else block.gram(self.weights)

    def project(self, J: NDArray, v: NDArray) -> NDArray[np.float64]:
        """Z_Jᵀ v."""
        block = self.columns(J)
        return Dense(block).rmatvec(v.astype(block.dtype)).astype(np.float64)

    def product(self, J: NDArray, delta: NDArray) -> NDArray[np.float64]:
        """Z_J delta."""
        block = self.columns(J)
        return (block @ delta.astype(block.dtype)).astype(np.float64, copy=False)

    def locate(self, J: NDArray) -> tuple[NDArray, NDArray]:
        """Positions in J of the rows that are here, and where they are."""
        here = np.flatnonzero((self.rows.start <= J) & (self.rows.stop > J))
        return here, J[here] - self.rows.start

    def weighted(self, v: NDArray) -> NDArray[np.float64]:
        """S v."""
        return v if self.weights is None else v * self.weights[:, None]

    def matvec(self, w: NDArray, blocks: list[NDArray] | None = None) -> NDArray[np.float64]:
        """Z w, from kept blocks if all of them are."""
        if not np.any(w):
            return np.zeros((self.n_rows, w.shape[1]))
        if blocks and all(J.tobytes() in self._kept for J in blocks):
            total = np.zeros((self.n_rows, w.shape[1]))
            for J in blocks:
                total += times(self._kept[J.tobytes()], w[J])
            return total
        if not isinstance(self.design, KernelColumns):
            w = w.astype(self.design.dtype)
        return self.design.matvec(w).astype(np.float64)

    def rmatvec(self, v: NDArray) -> NDArray[np.float64]:
        """Zᵀ v."""
        if not isinstance(self.design, KernelColumns):
            v = v.astype(self.design.dtype)
        return self.design.rmatvec(v).astype(np.float64)

    @property
    def share_kept(self) -> float:
        """Share of the columns that need not be generated."""
        if self.design.nbytes:
            return 1.0
        n_kept = sum(block.shape[1] for block in self._kept.values())
        return n_kept / max(1, self.design.shape[1])
