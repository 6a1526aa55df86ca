"""Cosines of random frequencies on a device: columns that are made there, used and forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer._array import Index, n_threads, row_chunks
from mercer._device import Device, exact_float32
from mercer._device_array import like_kind
from mercer._rows import Data
from mercer._validation import column_indices
from mercer.designs.base import Design, check_gram, float_dtype

__all__ = ["DeviceCosines"]

# Numbers of a tile on the processor, whose caches hold it, and the share of the free memory of a
# GPU that a tile may take with what is made on the way.
_ROWS_SHARE = 0.3  # of the device's memory, up to which all rows stay there
_TILE, _TILE_SHARE, _TILE_COPIES = 2**20, 0.1, 3


class DeviceCosines(Design):
    """The matrix amplitude * cos(X Wᵀ + b), made on a device in tiles of rows.

    Parameters
    ----------
    X : ndarray of shape (n, d), float32 or float64
    frequencies : ndarray of shape (D, d)
        The rows of W.
    phases : ndarray of shape (D,)
        b.
    amplitude : float
    device : Device
    n_jobs : int or None, default=None
        Threads of what is not done on the device.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer
    >>> from mercer.maps import RandomFourier
    >>> with mercer.config_context(device="cuda"):  # doctest: +SKIP
    ...     RandomFourier(gamma=1.0, random_state=0).fit([[0.0], [1.0]]).design([[0.5]])
    <DeviceCosines design 1 x 1000, float64>
    """

    shuffled = True
    device: Device

    def __init__(
        self,
        X: NDArray,
        frequencies: NDArray,
        phases: NDArray,
        amplitude: float,
        device: Device,
        n_jobs: int | None = None,
    ):
        self.X, self.device, self.amplitude = X, device, float(amplitude)
        self.dtype, self.n_threads = float_dtype(X.dtype), n_threads(n_jobs)
        self.shape = (X.shape[0], len(frequencies))
        free = device.free_memory()
        fits = free is None or self.dtype.itemsize * X.size <= _ROWS_SHARE * free
        self._rows: Any = device.array(X) if fits else X  # else sent tile by tile
        self._directions = device.array(frequencies, self.dtype).T
        self._phases = device.array(phases, self.dtype)

    @property
    def n_inputs(self) -> int:
        """Numbers that a row of data is made of."""
        return int(self.X.shape[1])

    def _tile(self, rows: Any, columns: Any) -> Any:
        """Entries of some rows and columns, a tensor."""
        torch = self.device.torch
        with exact_float32(torch):
            angles = torch.addmm(
                self._phases[columns],
                self.device.array(self._rows[rows], self.dtype),
                self._directions[:, columns],
            )
        return angles.cos_().mul_(self.amplitude)

    def _chunks(self) -> Iterator[slice]:
        """Slices of rows whose entries are a tile."""
        free = self.device.free_memory() if self.device.is_gpu else None
        numbers = float(_TILE)
        if free is not None:
            numbers = _TILE_SHARE * free / (_TILE_COPIES * self.dtype.itemsize)
        return row_chunks(self.shape[0], float(self.shape[1]), max(1, int(numbers)))

    def _tiles(self) -> Iterator[tuple[slice, Any]]:
        for rows in self._chunks():
            yield rows, self._tile(rows, slice(None))

    def _sent(self, vector: Any, length: int, name: str) -> Any:
        """A vector on the device."""
        if isinstance(vector, np.ndarray):
            vector = self._check(vector, length, name)
        return self.device.array(vector, self.dtype)

    def _given_back(self, product: Any, given: Any) -> Any:
        return like_kind(product.to(self._phases.dtype), given, self.device)

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
            squares = entries.double().square_()
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
        columns = np.asarray(columns)
        chosen = np.flatnonzero(columns) if columns.dtype == bool else columns
        there = self.device.array(column_indices(chosen, self.shape[1]))
        shape = (self.shape[0], len(there))
        out = self.device.torch.empty(shape, dtype=self._phases.dtype, device=self.device.name)
        for rows in self._chunks():
            out[rows] = self._tile(rows, there)
        return out

    def rows(self, index: Index) -> DeviceCosines:
        other = object.__new__(DeviceCosines)
        other.__dict__.update(self.__dict__)
        other.X = self.X[index]
        if isinstance(self._rows, np.ndarray):
            other._rows = other.X
        else:
            places = index if isinstance(index, slice) else self.device.array(np.asarray(index))
            other._rows = self._rows[places]
        other.shape = (len(other.X), self.shape[1])
        return other

    def with_rows(self, rows: Any) -> DeviceCosines:
        """The design of other rows, a tensor (m, d) on the device."""
        other = object.__new__(DeviceCosines)
        other.__dict__.update(self.__dict__)
        other._rows = rows.to(self._phases.dtype)
        other.shape = (len(rows), self.shape[1])
        return other

    def sources(self) -> list[Data]:
        return [self.X]

    @property
    def nbytes(self) -> int:
        return 0

    def _zeros(self, shape: tuple[int, ...]) -> Any:
        torch = self.device.torch
        return torch.zeros(shape, dtype=torch.float64, device=self.device.name)
