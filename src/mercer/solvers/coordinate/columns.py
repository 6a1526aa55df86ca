"""Columns of a design in float64: products with all of them, and Gram matrices of a few."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mercer.designs import Binned, Dense, Design, Sparse
from mercer.designs.binned import BlockWeights

__all__ = ["Columns", "columns_of", "spread"]

_SMALL = 8192  # rows up to which weights of bins are not rounded: few blocks resolve them badly
_MANY = 2  # grids per grid with weights from which a product skips grids without weights
_NEAR = 2**24  # bytes of a design that fits into the cache: a pass takes all columns
_CACHE = 2**30  # bytes of columns cached beside the design
_SAMPLE = 2000  # rows sampled to estimate the norms of columns
_CROWDED = 0.5  # share of active columns from which they are read from the design


class Columns(Design):
    """A design in float64, and products of its columns under curvatures of the rows.

    ``curvature`` (n,) is the h of ``mean_products``, None for ones; ``rough`` allows it float32.
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
        return self.design.rmatvec(v)

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

    def set_curvature(self, h: NDArray[np.float64] | None) -> None:
        """Use h, or an approximation of it, from now on."""
        self.curvature = h

    def mean_products(self, left: NDArray, right: NDArray | None = None) -> NDArray[np.float64]:
        """Z[:, left]ᵀ diag(h) Z[:, right] / n; ``right`` is ``left`` by default."""
        return self.design.products(left, right, self.curvature) / self.n

    def changes(
        self, ids: NDArray, before: NDArray[np.float64], after: NDArray[np.float64]
    ) -> NDArray[np.float64] | None:
        """Change of ``mean_products(ids)`` with h, or None where it costs as much as they do."""
        return None

    def means(self, ids: NDArray) -> NDArray[np.float64]:
        """(1/n) Σ_i h_i z_ij for columns ``ids``."""
        if self._means is None or self._means[0] is not self.curvature:
            h = np.ones(self.n) if self.curvature is None else self.curvature
            self._means = self.curvature, self.rmatvec(h) / self.n
        return self._means[1][ids]


class BinColumns(Columns):
    """Columns of zeros and ones: weights of many rows are rounded, to count common rows."""

    design: Binned
    _rounded: BlockWeights | None = None

    @property
    def is_small(self) -> bool:
        """True if curvatures are not rounded."""
        return self.n < _SMALL

    def set_curvature(self, h: NDArray[np.float64] | None) -> None:
        self._rounded = None if h is None or self.is_small else BlockWeights.of(h)
        self.curvature = h if self._rounded is None else self._rounded.values

    def mean_products(self, left: NDArray, right: NDArray | None = None) -> NDArray[np.float64]:
        h = self.curvature if self._rounded is None else self._rounded
        return self.design.products(left, right, h) / self.n

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
        source, places = self.source(used, at_hand=True)
        return source.matvec64(spread(places, w[used], source.shape[1]))

    def rmatvec(self, v: NDArray) -> NDArray[np.float64]:
        return self.design.rmatvec64(v)

    def _root_mean_squares(self, weights: NDArray | None) -> NDArray[np.float64]:
        rows = slice(None, None, max(1, self.n // _SAMPLE))
        z = self.design.array[rows]
        other = z if weights is None else z * weights[rows, None]
        return np.sqrt(np.einsum("ij,ij->j", z, other) / max(len(z), 1)).astype(np.float64)

    def chosen(self, ids: NDArray) -> Columns | None:
        near = self.design.array.nbytes <= _NEAR
        return None if near or self._is_crowded(len(ids)) else ChosenColumns(self, ids)

    def means(self, ids: NDArray) -> NDArray[np.float64]:
        source, places = self.source(ids, at_hand=True)
        h = np.ones(self.n) if self.curvature is None else self.curvature
        return source.rmatvec64(h)[places] / self.n

    def mean_products(self, left: NDArray, right: NDArray | None = None) -> NDArray[np.float64]:
        return self._mean_products(left, right, self.curvature)

    def _mean_products(
        self, left: NDArray, right: NDArray | None, h: NDArray[np.float64] | None
    ) -> NDArray[np.float64]:
        source, places = self.source(left if right is None else np.concatenate([right, left]))
        others = None if right is None else places[: len(right)]
        dtype = np.float32 if self.rough else np.float64
        return source.products(places[-len(left) :], others, h, dtype) / self.n

    def changes(
        self, ids: NDArray, before: NDArray[np.float64], after: NDArray[np.float64]
    ) -> NDArray[np.float64] | None:
        rise = after - before
        if 2 * np.count_nonzero(rise) > np.count_nonzero(after):
            return None
        more = self._mean_products(ids, None, np.maximum(rise, 0.0))
        return more - self._mean_products(ids, None, np.maximum(-rise, 0.0))

    def source(self, ids: NDArray, at_hand: bool = False) -> tuple[Dense, NDArray]:
        """A design with the columns, and their places in it; ``at_hand``: nothing is copied."""
        new = ids[self._place[ids] < 0]
        if self._is_crowded(len(ids)) or (at_hand and len(new)):
            return self.design, ids
        if len(self._ids) + len(new) > self._room:
            self._keep(ids[self._place[ids] >= 0])
        if len(new):
            self._add(new)
        cached = self._cached[: len(self._ids)].T
        return Dense(cached, self.design.n_threads), self._place[ids]

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
        if size > len(self._cached):
            grown = np.empty((min(self.n_columns, 2 * size), self.n), dtype=self.design.dtype)
            grown[:old] = self._cached[:old]
            self._cached = grown
        self.design.copy_columns(new, self._cached[old:size])
        self._ids = np.concatenate([self._ids, new])
        self._place[new] = np.arange(old, size)


class ChosenColumns(Columns):
    """Some columns of others, which have them in their cache."""

    def __init__(self, columns: DenseColumns, ids: NDArray):
        super().__init__(columns.design)
        self.shape, self.n_columns = (self.n, len(ids)), len(ids)
        self.source, self.places = columns.source(ids)

    def matvec(self, w: NDArray) -> NDArray[np.float64]:
        return self.source.matvec64(spread(self.places, w, self.source.shape[1]))

    def rmatvec(self, v: NDArray) -> NDArray[np.float64]:
        return self.source.rmatvec64(v)[self.places]


def columns_of(design: Design) -> Columns:
    """The columns of a design that holds them, brought to the processor from a device."""
    design = design.on_host() if hasattr(design, "on_host") else design
    if isinstance(design, Binned):
        layout = (design.codes, design.offsets, design.scale, np.float64, design.missing)
        return BinColumns(Binned(*layout, design.n_threads, validate=False))
    if isinstance(design, Dense):
        return DenseColumns(design)
    if isinstance(design, Sparse):
        return Columns(Sparse(design.matrix.astype(np.float64)))
    raise ValueError(
        f"coordinate descent needs a design that holds its columns; got {type(design).__name__}."
    )


def spread(places: NDArray, values: NDArray, size: int) -> NDArray[np.float64]:
    """Zeros but for ``values`` at ``places``."""
    out = np.zeros(size)
    out[places] = values
    return out
