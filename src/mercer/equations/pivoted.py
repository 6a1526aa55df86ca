"""Cholesky's factor of the columns of a semi-definite matrix that all others follow from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.linalg import lapack

from mercer._runtime.pages import lent
from mercer.designs import Dense, KernelColumns

__all__ = ["pivoted_lower"]

_BLOCK = 256  # pivots proposed together
# Residual, relative to the largest, below which a proposed pivot waits: pivots of one block may be
# similar rows.
_SHARE = 0.25


def pivoted_lower(
    matrix: Dense | KernelColumns, least: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """An order of the columns of M (p, p), and L (p, r) with M about LLᵀ in that order.

    M is symmetric and positive semi-definite but for rounding. L is lower triangular, and no entry
    of the diagonal of M − LLᵀ is above ``least``; each of the r pivots was. Columns of M are
    computed on demand: memory holds at most twice the columns of L, and p² numbers at most.
    """
    growing = _Growing(matrix)
    while growing.count < growing.side:
        largest = float(growing.left[growing.count :].max())
        if not largest > least:
            break
        growing.add(growing.proposed(least), max(least, _SHARE * largest))
    return growing.order, growing.finished()


class _Growing:
    """The first ``count`` columns of L, and the diagonal that they leave, in the order so far."""

    def __init__(self, matrix: Dense | KernelColumns):
        self._matrix, self.side = matrix, matrix.shape[0]
        self.order = np.arange(self.side)
        self.left = np.array(matrix.diagonal(), dtype=np.float64)
        self.count = 0
        # Pages that no entry was written to take no memory.
        self._numbers = lent((self.side**2,), np.float64)
        self._width = min(self.side, 2 * _BLOCK)

    def proposed(self, least: float) -> NDArray[np.int64]:
        """The places where most is left, more than ``least``."""
        left, n = self.left[self.count :], min(_BLOCK, self.side - self.count)
        places = self.count + np.argpartition(left, len(left) - n)[len(left) - n :]
        return places[self.left[places] > least]

    def add(self, places: NDArray[np.int64], least: float) -> None:
        """Take those of some places as pivots of which the pivots before leave more."""
        if self.count + _BLOCK > self._width:
            self._widen(min(self.side, 2 * self._width))
        lower, start = self._lower, self.count
        rows = self._matrix.block(self.order[places]).T  # symmetric: its columns are its rows
        own = lower[places, :start]
        inner = rows[:, self.order[places]] - own @ own.T
        triangle, pivots, rank, _ = lapack.dpstrf(inner, tol=least, lower=1)
        if not rank:  # but for rounding, less was left
            self.left[places] = np.minimum(self.left[places], inner.diagonal())
            return
        taken, triangle = pivots[:rank] - 1, np.tril(triangle[:rank, :rank])
        self._bring_forward(places[taken])
        stop = start + rank
        below = rows[taken][:, self.order[stop:]]
        below -= lower[start:stop, :start] @ lower[stop:, :start].T
        below = linalg.solve_triangular(triangle, below, lower=True, check_finite=False)
        self.left[stop:] -= np.einsum("ij,ij->j", below, below)
        lower[:start, start:stop] = 0.0
        lower[start:stop, start:stop] = triangle
        lower[stop:, start:stop] = below.T
        self.count = stop

    def finished(self) -> NDArray[np.float64]:
        """L, whose first rows are a square that lies together."""
        self._widen(self.count)
        return self._lower

    @property
    def _lower(self) -> NDArray[np.float64]:
        return self._numbers[: self.side * self._width].reshape(self.side, self._width)

    def _widen(self, width: int) -> None:
        """Give rows another length, in their place."""
        old, self._width = self._width, width
        every = range(self.side)
        for i in every if width < old else reversed(every):
            row = self._numbers[i * old : i * old + self.count]
            self._numbers[i * width : i * width + self.count] = row

    def _bring_forward(self, places: NDArray[np.int64]) -> None:
        """Exchange rows, so that those of some places are next."""
        head = np.arange(self.count, self.count + len(places))
        to = np.append(head, np.setdiff1d(places, head))
        source = np.append(places, np.setdiff1d(head, places))
        for array in (self._lower[:, : self.count], self.order, self.left):
            array[to] = array[source]
