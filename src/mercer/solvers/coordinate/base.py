"""The columns of a design in float64, as coordinate descent and Gram matrices need them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mercer.designs import Design

__all__ = ["Columns"]


class Columns(Design):
    """A design in float64, and products of its columns under curvatures of the rows.

    ``curvature`` (n,) is the h that ``products`` uses, None for ones; ``rough`` allows it float32.
    """

    curvature: NDArray[np.float64] | None = None
    rough: bool = False

    def __init__(self, design: Design):
        self.design = design
        self.shape, self.dtype = design.shape, np.dtype(np.float64)
        self.n, self.n_columns = design.shape
        self._means: tuple[NDArray | None, NDArray] | None = None  # with the curvature of them
        self._norms: NDArray[np.float64] | None = None

    def matvec(self, w: NDArray) -> NDArray[np.float64]:
        return self.design.matvec(w)

    def rmatvec(self, v: NDArray) -> NDArray[np.float64]:
        return self.design.rmatvec(v).astype(np.float64, copy=False)

    def column_sqnorms(self, weights: NDArray | None = None) -> NDArray[np.float64]:
        return self.design.column_sqnorms(weights)

    def norms(self, weights: NDArray | None = None) -> NDArray[np.float64]:
        """√((1/n) Σ_i weights_i z_ij²) of every column, or an estimate that is good for scores."""
        if weights is not None:
            return self._root_mean_squares(weights)
        if self._norms is None:
            self._norms = self._root_mean_squares(None)
        return self._norms

    def _root_mean_squares(self, weights: NDArray | None) -> NDArray[np.float64]:
        return np.sqrt(self.column_sqnorms(weights) / self.n)

    def chosen(self, ids: NDArray) -> Columns | None:
        """Columns ``ids`` alone, or None where they are not cheaper than all of them."""
        return None

    def part(self, rows: slice, columns: NDArray) -> NDArray[np.float64]:
        """Some rows of some columns, as a new array."""
        return self.design.rows(rows).block(columns).astype(np.float64, copy=False)

    def set_curvature(self, h: NDArray[np.float64] | None) -> None:
        """Use h, or an approximation of it, from now on."""
        self.curvature = h

    def products(self, left: NDArray, right: NDArray | None = None) -> NDArray[np.float64]:
        """Z[:, left]ᵀ diag(h) Z[:, right] / n; ``right`` is ``left`` by default."""
        raise NotImplementedError

    def changes(
        self, ids: NDArray, before: NDArray[np.float64], after: NDArray[np.float64]
    ) -> NDArray[np.float64] | None:
        """The change of ``products(ids)`` with h, or None where it costs as much as they do."""
        return None

    def means(self, ids: NDArray) -> NDArray[np.float64]:
        """(1/n) Σ_i h_i z_ij for columns ``ids``."""
        if self._means is None or self._means[0] is not self.curvature:
            h = np.ones(self.n) if self.curvature is None else self.curvature
            self._means = self.curvature, self.rmatvec(h) / self.n
        return self._means[1][ids]
