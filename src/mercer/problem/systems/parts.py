"""Rows of a design and the state that goes with them: all that touches rows happens here."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mercer.designs import Dense, Design

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

    def gram(self, J: NDArray) -> NDArray[np.float64]:
        """Z_Jᵀ S Z_J."""
        return Dense(self.columns(J)).gram(self.weights)

    def project(self, J: NDArray, v: NDArray) -> NDArray[np.float64]:
        """Z_Jᵀ v."""
        block = self.columns(J)
        return Dense(block).rmatvec(v.astype(block.dtype)).astype(np.float64)

    def subtract(self, J: NDArray, delta: NDArray, scale: NDArray | None = None) -> None:
        """state −= scale · (Z_J delta), row by row."""
        block = self.columns(J)
        change = block @ delta.astype(block.dtype)
        self.state -= change if scale is None else scale * change

    def locate(self, J: NDArray) -> tuple[NDArray, NDArray]:
        """Positions in J of the rows that are here, and where they are."""
        here = np.flatnonzero((self.rows.start <= J) & (self.rows.stop > J))
        return here, J[here] - self.rows.start

    def weighted(self, v: NDArray) -> NDArray[np.float64]:
        """S v."""
        return v if self.weights is None else v * self.weights[:, None]

    def matvec(self, w: NDArray) -> NDArray[np.float64]:
        """Z w."""
        if not np.any(w):
            return np.zeros((self.n_rows, w.shape[1]))
        return self.design.matvec(w.astype(self.design.dtype)).astype(np.float64)

    def rmatvec(self, v: NDArray) -> NDArray[np.float64]:
        """Zᵀ v."""
        return self.design.rmatvec(v.astype(self.design.dtype)).astype(np.float64)
