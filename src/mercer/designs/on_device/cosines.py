"""Cosines of random frequencies on a device: columns that are made there, used and forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.arrays import Index, n_threads
from mercer._runtime.device_arrays import DeviceArray
from mercer._runtime.devices import Device, exact_float32
from mercer._runtime.rows import Data
from mercer._runtime.validation import check_reach
from mercer.designs.base import float_dtype
from mercer.designs.on_device.pieces import sent_ahead
from mercer.designs.on_device.tiles import DeviceTiles

__all__ = ["DeviceCosines"]

_ROWS_SHARE = 0.3  # largest share of the device's memory for rows that stay there


class DeviceCosines(DeviceTiles):
    """The matrix amplitude * cos(X Wᵀ + b), made on a device in tiles of rows.

    X is (n, d), ``frequencies`` W (D, d) and ``phases`` b (D,). A ValueError if X is so large that
    arguments of cosines overflow.
    """

    shuffled = True

    def __init__(
        self,
        X: NDArray,
        frequencies: NDArray,
        phases: NDArray,
        amplitude: float,
        device: Device,
        n_jobs: int | None = None,
    ):
        self.X: NDArray | None = X  # None of rows that came as a tensor
        self.device, self.amplitude = device, float(amplitude)
        self.dtype, self.n_threads = float_dtype(X.dtype), n_threads(n_jobs)
        self.shape = (X.shape[0], len(frequencies))
        highest = float(np.abs(frequencies).max(initial=1.0))
        self._limit = float(np.finfo(self.dtype).max) / X.shape[1] / highest
        check_reach(X, self._limit)
        free = device.free_memory()
        fits = free is None or self.dtype.itemsize * X.size <= _ROWS_SHARE * free
        self._rows: Any = device.array(X) if fits else X  # else sent ahead, tile by tile
        self._directions = device.array(frequencies, self.dtype).T
        self._phases = device.array(phases, self.dtype)

    @property
    def n_inputs(self) -> int:
        """Numbers that a row of data is made of."""
        return int(self._directions.shape[0])

    def _tile(self, rows: Any, columns: Any) -> Any:
        """Entries of some rows and columns, a tensor."""
        return self._cosines(self.device.array(self._rows[rows], self.dtype), columns)

    def _cosines(self, rows: Any, columns: Any) -> Any:
        torch = self.device.torch
        with exact_float32(torch):
            angles = torch.addmm(self._phases[columns], rows, self._directions[:, columns])
        return angles.cos_().mul_(self.amplitude)

    def _tiles(self) -> Iterator[tuple[slice, Any]]:
        if not isinstance(self._rows, np.ndarray):
            yield from super()._tiles()
            return
        chunks = list(self._chunks())
        pieces = (np.asarray(self._rows[rows], dtype=self.dtype) for rows in chunks)
        for rows, sent in zip(chunks, sent_ahead(self.device, pieces), strict=True):
            yield rows, self._cosines(sent, slice(None))

    def rows(self, index: Index) -> DeviceCosines:
        X = None if self.X is None else self.X[index]
        is_far = isinstance(self._rows, np.ndarray)
        rows: Any = X if is_far else self._rows[self.device.places(index)]
        return self._with(len(rows), X=X, _rows=rows)

    def with_rows(self, rows: Any) -> DeviceCosines:
        """The design of other rows, a tensor (m, d) on the device."""
        rows = rows.to(self._kind)
        check_reach(DeviceArray(rows, self.device), self._limit)
        return self._with(len(rows), X=None, _rows=rows)

    def sources(self) -> list[Data]:
        return [] if self.X is None else [self.X]
