"""Random binning on a device: codes are made and numbered there, as they are on the processor."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from mercer._runtime.arrays import format_bytes, largest_fitting, row_chunks
from mercer._runtime.devices import Device
from mercer._runtime.rows import bytes_per_row
from mercer.designs.on_device import DeviceBinned, bins

__all__ = ["design_on"]

_KEY_BYTES = 56.0  # bytes per key, with the arrays that number it
_KEYS_SHARE = 0.1  # share of the free memory for keys numbered together
_ROWS_SHARE = 0.3  # largest share of the free memory for rows that stay on the device
_MOST_GRIDS = 32  # most grids whose keys are computed together


def design_on(device: Device, map_: Any, X: Any, is_new: bool = False) -> DeviceBinned:
    """The design of X on a device; with ``is_new``, the boxes of X become those of the map.

    The map is a ``RandomBinning``. X is data on the processor, or a tensor (n, d) on the device.

    Raises
    ------
    MemoryError
        If codes would not fit on the device, before they are made.
    """
    work = _Binning(device, map_, X)
    codes, n_missing = work.numbered() if is_new else work.coded()
    dtype = str(X.dtype).removeprefix("torch.")
    layout = map_._layout[0], map_._value, dtype, device, n_missing, map_.n_jobs
    return DeviceBinned(codes, *layout, partial(design_on, device, map_))


class _Binning:
    """The rows of X in passes over some grids at a time."""

    def __init__(self, device: Device, map_: Any, X: Any):
        self.device, self.map, self.X = device, map_, X
        self.free = device.free_memory() or np.inf
        self._kept: list[tuple[slice, Any]] | None = None

    def numbered(self) -> tuple[Any, int]:
        """Codes of rows whose boxes become those of the map, and 0."""
        torch, codes = self.device.torch, self._room(np.dtype(np.uint16), with_keys=True)
        keys, n_bins = [], []
        for start, of_grids in self._keys():
            for grid, own in enumerate(of_grids, start):
                numbers, different = bins.numbered(self.device, own)
                if len(different) > 0xFFFF and codes.dtype == torch.int16:
                    self._check_room(np.dtype(np.uint32), with_keys=True)
                    codes = codes.int().bitwise_and_(0xFFFF)
                codes[grid] = bins.short_codes(self.device, numbers, codes.dtype)
                keys.append(self.device.host(different).view(np.uint64))
                n_bins.append(len(different))
        self.map.take_boxes(np.concatenate(keys), np.array(n_bins, dtype=np.int64))
        return codes.to(torch.uint8) if max(n_bins) <= 256 else codes, 0

    def coded(self) -> tuple[Any, int]:
        """Codes of rows in the columns of the map, and how many have none."""
        codes = self._room(self.map._layout[1], with_keys=not self.map._is_hashed)
        if not self.map._is_hashed:
            return codes, self._looked_up(codes)
        n_columns = int(self.map.n_bins_[0])
        for start, stop in self._batches():
            grids = bins.Grids.on(self.device, self.map._parameters(start, stop))
            for rows, columns in self._pieces():
                bins.hashed_codes(self.device, columns, grids, n_columns, codes[start:stop, rows])
        return codes, 0

    def _looked_up(self, codes: Any) -> int:
        """Write the numbers of boxes that were met at fit; how many were not."""
        map_, device, n_unseen = self.map, self.device, 0
        table = map_._table
        _, boxes = map_._remembered(
            (device.name, id(table)),
            lambda: (table, bins.Boxes.on(device, table.keys(), map_.n_bins_)),
            "boxes on a device",
        )
        for start, of_grids in self._keys():
            for grid, own in enumerate(of_grids, start):
                numbers, unseen = boxes.numbers_of(device, grid, own)
                codes[grid] = bins.short_codes(device, numbers, codes.dtype)
                n_unseen = n_unseen + unseen
        return int(n_unseen)

    def _keys(self) -> Iterator[tuple[int, Any]]:
        """(first grid, keys (G, n)) of all rows, some grids after others."""
        for start, stop in self._batches():
            grids = bins.Grids.on(self.device, self.map._parameters(start, stop))
            parts = [bins.box_keys(self.device, own, grids) for _, own in self._pieces()]
            yield start, parts[0] if len(parts) == 1 else self.device.torch.cat(parts, dim=1)

    def _batches(self) -> Iterator[tuple[int, int]]:
        """Grids whose keys of all rows fit."""
        together = _KEYS_SHARE * self.free / (_KEY_BYTES * max(1, self.X.shape[0]))
        step = int(max(1, min(together, _MOST_GRIDS, self.map._grids_at_once)))
        for start in range(0, self.map._n_grids, step):
            yield start, min(self.map._n_grids, start + step)

    def _pieces(self) -> Iterator[tuple[slice, Any]]:
        """(rows, their numbers (d, m) on the device) of all rows, which stay there if they fit."""
        if self._kept is not None:
            yield from self._kept
            return
        budget, kept = _ROWS_SHARE * self.free, []
        fits = self.X.nbytes <= budget
        for rows, part in self.map._pieces(self.X):
            most = max(1.0, min(budget, 2.0**62) / (1.0 if fits else 4.0))
            for piece in row_chunks(part.shape[0], bytes_per_row(part), int(most)):
                own = self.device.array(part[piece]).T.contiguous()
                place = slice(rows.start + piece.start, rows.start + piece.stop)
                if fits:
                    kept.append((place, own))
                yield place, own
        if fits:
            self._kept = kept

    def _room(self, dtype: np.dtype, with_keys: bool) -> Any:
        """Room for the codes, if there is room for all that is made with them."""
        self._check_room(dtype, with_keys)
        torch, shape = self.device.torch, (self.map._n_grids, self.X.shape[0])
        kind = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[dtype.itemsize]
        return torch.empty(shape, dtype=kind, device=self.device.name)

    def _check_room(self, dtype: np.dtype, with_keys: bool) -> None:
        """Refuse codes of a type that would not fit with all that is made beside them."""
        n, n_grids = self.X.shape[0], self.map._n_grids
        scratch = min(float(self.X.nbytes), _ROWS_SHARE * self.free) + _KEY_BYTES * n * with_keys
        cell = 1.5 * dtype.itemsize * n  # with those of a narrower or wider type that replace them
        needed = scratch + cell * n_grids
        if needed > self.free:
            room = int(self.free)
            most = largest_fitting(lambda count: scratch + cell * count, n_grids - 1, room)
            raise MemoryError(
                f"binning {n} rows into {n_grids} grids needs {format_bytes(needed)} but "
                f"{format_bytes(room)} are available on the device '{self.device.name}'; "
                + (f"n_components={most} would fit." if most else "use fewer rows.")
            )
