"""Parts of the rows of a design: everything that touches rows happens here."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mercer._runtime.arrays import row_chunks
from mercer._runtime.device_arrays import zeros
from mercer.designs import Dense, Design, KernelColumns
from mercer.designs.kernel_rows import times

__all__ = ["RowPart"]

_EVERY = slice(None)  # all rows of a part


class RowPart:
    """Some rows of a design: their numbers, weights and the columns cached of them.

    ``budget`` is the number of bytes left for cached columns, ``room`` the number of bytes for the
    columns of the block at work.
    """

    def __init__(self, design: Design, rows: slice, weights: NDArray | None):
        self.design = design
        self.rows = rows
        self.weights = weights
        self.n_rows = design.shape[0]
        self.budget = 0.0
        self.room = np.inf
        self._cache: dict[bytes, NDArray] = {}
        self._last: tuple[bytes, NDArray] | None = None
        self._first: RowPart | None = None  # rows whose columns are held where ``room`` is short

    def pieces(self, J: NDArray) -> Iterator[RowPart]:
        """Consecutive pieces of the rows, for products with the columns J.

        The part itself where all of the columns are cached or have room. Otherwise as many of the
        first rows as have room, whose columns stay until others are needed, and then pieces whose
        columns are generated for each sweep over the pieces.
        """
        row = float(self.design.dtype.itemsize) * max(1, len(J))
        if self._has(J) or row * self.n_rows <= max(self.room, self.budget):
            self._first = None
            yield self
            return
        self._last = None
        n_first = int(self.room / row)
        if self._first is None or self._first.n_rows != n_first:
            self._first = self.piece(slice(0, n_first))
        if n_first:
            yield self._first
        for rows in row_chunks(self.n_rows - n_first, row):
            yield self.piece(slice(n_first + rows.start, n_first + rows.stop))

    def piece(self, rows: slice) -> RowPart:
        """The part of some of the rows, which are counted from the first row of this part."""
        weights = None if self.weights is None else self.weights[rows]
        first = self.rows.start
        numbers = slice(first + rows.start, first + rows.stop)
        return RowPart(self.design.rows(rows), numbers, weights)

    def _has(self, J: NDArray) -> bool:
        """Whether the columns J are in memory."""
        key = J.tobytes()
        return key in self._cache or (self._last is not None and self._last[0] == key)

    def columns(self, J: NDArray) -> NDArray:
        """Columns J, cached for repeated requests in a row."""
        key = J.tobytes()
        if key in self._cache:
            return self._cache[key]
        if self._last is not None and self._last[0] == key:
            return self._last[1]
        self._last = None
        block = self.block(J)
        if not self.design.nbytes and block.nbytes <= self.budget:
            self._cache[key] = block
            self.budget -= block.nbytes
        else:
            self._last = (key, block)
        return block

    def block(self, J: NDArray) -> NDArray:
        """Columns J of the design."""
        return self.design.block(J)

    def fill_symmetric(self, blocks: list[NDArray]) -> None:
        """Generate and cache all of a symmetric design, each pair of rows once, if it fits."""
        design, n = self.design, self.n_rows
        needed = float(design.dtype.itemsize) * n * n
        if design.nbytes or needed > self.budget:
            return
        self.budget -= needed
        cache = {J.tobytes(): np.empty((n, len(J)), dtype=design.dtype) for J in blocks}
        for number, rows in enumerate(blocks):
            of_rows = design.rows(rows)
            for J in blocks[number:]:
                tile = of_rows.block(J)
                cache[J.tobytes()][rows] = tile
                if J is not rows:
                    cache[rows.tobytes()][J] = tile.T
        self._cache.update(cache)

    def gram(self, J: NDArray, exact: bool = False) -> NDArray[np.float64]:
        """Z_Jᵀ S Z_J; if exact, products of float32 columns are float64."""
        block = Dense(self.columns(J))
        return Design.gram(block, self.weights) if exact else block.gram(self.weights)

    def project(self, J: NDArray, v: NDArray, rows: slice = _EVERY) -> NDArray[np.float64]:
        """Z_Jᵀ v of some rows."""
        block = self.columns(J)[rows]
        return Dense(block).rmatvec(v.astype(block.dtype, copy=False)).astype(np.float64)

    def product(self, J: NDArray, delta: NDArray, rows: slice = _EVERY) -> NDArray[np.float64]:
        """Z_J delta of some rows."""
        block = self.columns(J)[rows]
        return (block @ delta.astype(block.dtype)).astype(np.float64, copy=False)

    def locate(self, J: NDArray) -> tuple[NDArray, NDArray]:
        """Positions in J of the rows of this part, and their numbers within the part."""
        inside = np.flatnonzero((self.rows.start <= J) & (self.rows.stop > J))
        return inside, J[inside] - self.rows.start

    def weighted(self, v: NDArray, rows: slice = _EVERY) -> NDArray[np.float64]:
        """S v of some rows."""
        return v if self.weights is None else v * self.weights[rows, None]

    def matvec(
        self, w: NDArray, blocks: list[NDArray] | None = None, kind: DTypeLike = np.float64
    ) -> NDArray:
        """Z w, a fresh array of that kind, from cached columns if all of ``blocks`` are."""
        if not np.any(w):
            return zeros((self.n_rows, w.shape[1]), kind, w)
        if blocks and all(J.tobytes() in self._cache for J in blocks):
            total = np.zeros((self.n_rows, w.shape[1]))
            for J in blocks:
                total += times(self._cache[J.tobytes()], w[J])
            return total.astype(kind, copy=False)
        return self.design.matvec(self._suited(w)).astype(kind, copy=False)

    def exact(self, w: NDArray) -> NDArray[np.float64]:
        """Z w with the entries of a kernel that are not rounded."""
        if not np.any(w) or not isinstance(self.design, KernelColumns):
            return self.matvec(w)
        return self.design.exact.matvec(w).astype(np.float64)

    def rmatvec(self, v: NDArray) -> NDArray[np.float64]:
        """Zᵀ v."""
        return self.design.rmatvec(self._suited(v)).astype(np.float64)

    def _suited(self, v: NDArray) -> NDArray:
        """v in the dtype that products with the design take: those with kernels take any."""
        return v if isinstance(self.design, KernelColumns) else v.astype(self.design.dtype)

    @property
    def cached(self) -> bool:
        """Whether no column has to be generated again."""
        n_cached = sum(block.shape[1] for block in self._cache.values())
        return bool(self.design.nbytes) or n_cached >= max(1, self.design.shape[1])
