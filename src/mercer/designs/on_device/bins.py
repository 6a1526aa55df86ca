"""Bins of rows on a device: the keys and the numbers that the core gives them, to the last bit.

A tensor of codes has a row per grid, of uint8, or of int16 or int32 with the bits of uint16 and
uint32, which PyTorch knows little of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.arrays import row_chunks
from mercer._runtime.devices import Device

__all__ = [
    "Boxes",
    "Grids",
    "box_keys",
    "hashed_codes",
    "numbered",
    "short_codes",
    "wide_codes",
]

_LOW = 0xFFFFFFFF
_MIXER = 0x7FEB352D
_KEYS = 2**20  # keys that PyTorch computes together


@dataclass(frozen=True)
class Grids:
    """Parameters (G, d) of grids on a device; halves of multipliers are int64 below 2**32."""

    inverse_widths: Any
    shifts: Any
    low: Any
    high: Any

    @classmethod
    def on(cls, device: Device, parameters: tuple[NDArray, NDArray, NDArray]) -> Grids:
        """Inverse widths, shifts and multipliers of the host."""
        inverse_widths, shifts, multipliers = parameters
        halves = (multipliers & np.uint64(_LOW), multipliers >> np.uint64(32))
        low, high = (device.array(half.astype(np.int64)) for half in halves)
        return cls(device.array(inverse_widths), device.array(shifts), low, high)

    def __len__(self) -> int:
        return int(self.shifts.shape[0])


def box_keys(device: Device, columns: Any, grids: Grids) -> Any:
    """Keys (G, n), int64 with the bits of uint64, of rows given input by input, (d, n).

    The code of an input is floor(x * inverse_width - shift), clamped to the range of int32, in
    float64 with a rounding after each step. A key is h1 | h2 << 32 of the sums h1 and h2 of codes
    times the low and the high halves of multipliers, modulo 2**32.
    """
    torch, n = device.torch, columns.shape[1]
    out = torch.empty((len(grids), n), dtype=torch.int64, device=columns.device)
    for rows in row_chunks(n, len(grids), _KEYS):
        low = torch.zeros_like(out[:, rows])
        high = torch.zeros_like(low)
        for j, x in enumerate(columns[:, rows].double()):
            places = x * grids.inverse_widths[:, j, None] - grids.shifts[:, j, None]
            code = places.clamp_(-(2.0**31), 2.0**31 - 1).floor_().long()
            low += code * grids.low[:, j, None]
            high += code * grids.high[:, j, None]
        out[:, rows] = (low & _LOW) | (high << 32)
    return out


def hashed_codes(device: Device, columns: Any, grids: Grids, n_columns: int, out: Any) -> None:
    """Write codes (G, n) of rows (d, n) whose boxes are hashed into so many columns."""
    for rows in row_chunks(columns.shape[1], len(grids), _KEYS):
        keys = box_keys(device, columns[:, rows], grids)
        low = keys & _LOW
        mixed = ((low ^ (low >> 16)) * _MIXER) & _LOW
        mixed = mixed ^ (mixed >> 15) ^ ((keys >> 32) & _LOW)
        out[:, rows] = short_codes(device, (mixed * n_columns) >> 32, out.dtype)


def numbered(device: Device, keys: Any) -> tuple[Any, Any]:
    """Numbers (n,) of keys, in the order in which they are first met, and the keys by number."""
    torch = device.torch
    different, place = torch.unique(keys, return_inverse=True)
    first = torch.full_like(different, len(keys))
    rows = torch.arange(len(keys), device=keys.device)
    first.scatter_reduce_(0, place, rows, "amin")
    order = first.argsort()
    numbers = torch.empty_like(order)
    numbers[order] = torch.arange(len(order), device=keys.device)
    return numbers[place], different[order]


@dataclass(frozen=True)
class Boxes:
    """The boxes that grids have met, in the order of their keys, for ``numbers_of``."""

    keys: list[Any]  # of every grid, sorted
    numbers: list[Any]

    @classmethod
    def on(cls, device: Device, keys: NDArray[np.uint64], n_bins: NDArray[np.int64]) -> Boxes:
        """The boxes of a table: their keys, grid after grid, by number."""
        parts = device.array(keys.view(np.int64)).split(n_bins.tolist())
        pairs = [part.sort() for part in parts]
        return cls([pair.values for pair in pairs], [pair.indices for pair in pairs])

    def numbers_of(self, device: Device, grid: int, keys: Any) -> tuple[Any, Any]:
        """Numbers (n,) of keys in a grid, the number of its boxes for unknown ones, and how many
        these are, a tensor."""
        torch, own = device.torch, self.keys[grid]
        if not len(own):
            return torch.zeros_like(keys), torch.tensor(len(keys), device=keys.device)
        place = torch.searchsorted(own, keys).clamp_(max=len(own) - 1)
        known = own[place] == keys
        numbers = self.numbers[grid][place]
        numbers[~known] = len(own)
        return numbers, len(keys) - known.sum()


def short_codes(device: Device, codes: Any, kind: Any) -> Any:
    """Codes of int64 in a shorter type, without a sign in its bits."""
    torch = device.torch
    bits = {torch.uint8: 8, torch.int16: 16, torch.int32: 32}[kind]
    if bits > 8:  # those beyond the largest number of the type are negative ones
        half = 1 << (bits - 1)
        codes = ((codes + half) & ((1 << bits) - 1)) - half
    return codes.to(kind)


def wide_codes(codes: Any) -> Any:
    """Codes as int64, without their sign."""
    wide = codes.long()
    return wide.bitwise_and_((1 << (8 * codes.element_size())) - 1)
