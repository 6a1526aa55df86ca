"""The base of designs whose entries are made on a device in tiles of rows, used and forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer._runtime.arrays import row_chunks
from mercer._runtime.device_arrays import like_kind
from mercer._runtime.devices import Device, exact_float32
from mercer.designs.base import Design, check_gram
from mercer.designs.kernel import column_numbers

__all__ = ["DeviceTiles"]

# Numbers of a tile on the processor (cache size), share of the free memory of a GPU for a tile, and
# arrays of the size of a tile, temporary ones included.
_TILE, _TILE_SHARE, _TILE_COPIES = 2**20, 0.1, 3


class DeviceTiles(Design):
    """A matrix whose rows are made on a device by ``_tile(rows, columns)`` of a subclass."""

    device: Device

    def _tile(self, rows: slice, columns: Any) -> Any:
        raise NotImplementedError

    def _row_numbers(self) -> float:
        """Numbers that are made for a row of a tile."""
        return float(self.shape[1])

    def _chunks(self) -> Iterator[slice]:
        """Slices of rows whose entries are a tile."""
        free = self.device.free_memory() if self.device.is_gpu else None
        numbers = float(_TILE)
        if free is not None:
            numbers = _TILE_SHARE * free / (_TILE_COPIES * self.dtype.itemsize)
        return row_chunks(self.shape[0], self._row_numbers(), max(1, int(numbers)))

    def _tiles(self) -> Iterator[tuple[slice, Any]]:
        for rows in self._chunks():
            yield rows, self._tile(rows, slice(None))

    def _sent(self, vector: Any, length: int, name: str) -> Any:
        """A vector on the device in the dtype of the design."""
        if isinstance(vector, np.ndarray):
            vector = self._check(vector, length, name)
        return self.device.array(vector, self.dtype)

    def _given_back(self, product: Any, given: Any) -> Any:
        return like_kind(product.to(self._kind), given, self.device)

    def matvec(self, w: Any) -> Any:
        torch = self.device.torch
        vector = self._sent(w, self.shape[1], "w")
        out = torch.empty(
            (self.shape[0], *vector.shape[1:]), dtype=vector.dtype, device=self.device.name
        )
        with exact_float32(torch):
            for rows, entries in self._tiles():
                out[rows] = entries @ vector
        return self._given_back(out, w)

    def rmatvec(self, v: Any) -> Any:
        torch = self.device.torch
        vector = self._sent(v, self.shape[0], "v")
        total = self._zeros((self.shape[1], *vector.shape[1:]))
        with exact_float32(torch):
            for rows, entries in self._tiles():
                total += (entries.T @ vector[rows]).double()
        return self._given_back(total, v)

    def gram_matvec(self, v: Any) -> Any:
        vector = self._sent(v, self.shape[0], "v")
        return self._given_back(self.matvec(self.rmatvec(vector)), v)

    def column_sqnorms(self, weights: NDArray | None = None) -> NDArray[np.float64]:
        total = self._zeros((self.shape[1],))
        for rows, entries in self._tiles():
            squares = entries.double().square()
            if weights is not None:
                squares *= self.device.array(weights[rows], np.float64)[:, None]
            total += squares.sum(dim=0)
        return self.device.host(total)

    def gram(self, weights: NDArray | None = None) -> NDArray[np.float64]:
        check_gram(self.shape[1])
        total = self._zeros((self.shape[1], self.shape[1]))
        for rows, entries in self._tiles():
            wide = entries.double()
            weighted = wide
            if weights is not None:
                weighted = wide * self.device.array(weights[rows], np.float64)[:, None]
            total.addmm_(wide.T, weighted)
        return self.device.host(total)

    def block(self, columns: ArrayLike) -> NDArray:
        return self.device.host(self.block_on_device(columns))

    def block_on_device(self, columns: ArrayLike) -> Any:
        """``block`` as a tensor (n, b) on the device."""
        there = self.device.array(column_numbers(columns, self.shape[1]))
        shape = (self.shape[0], len(there))
        out = self.device.torch.empty(shape, dtype=self._kind, device=self.device.name)
        for rows in self._chunks():
            out[rows] = self._tile(rows, there)
        return out

    @property
    def nbytes(self) -> int:
        return 0

    @property
    def _kind(self) -> Any:
        """The dtype as PyTorch names it."""
        return getattr(self.device.torch, self.dtype.name)

    def _with(self, n_rows: int, **changed: Any) -> Self:
        """A copy with other attributes, of so many rows."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, shape=(n_rows, self.shape[1]), **changed)
        return other

    def _zeros(self, shape: tuple[int, ...]) -> Any:
        torch = self.device.torch
        return torch.zeros(shape, dtype=torch.float64, device=self.device.name)
