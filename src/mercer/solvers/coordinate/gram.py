"""Gram matrices of the columns of working sets, cached from one working set to the next."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.arrays import check_memory
from mercer.solvers.coordinate.columns import Columns

__all__ = ["GramPool"]

_POOL = 1000  # columns of a Gram matrix that are cached even if fewer are needed
_SHARED = 3000  # most columns of a Gram matrix shared by outputs (72 MB)


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
        self._gram[old:size, old:size] = self.columns.mean_products(new)
        if old:
            side = self.columns.mean_products(new, self._ids)
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
