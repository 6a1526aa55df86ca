"""The design of random binning on a device: codes instead of numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy import sparse

from mercer._runtime.arrays import Index, n_threads
from mercer._runtime.devices import Device
from mercer._runtime.rows import Data
from mercer.designs.base import float_dtype
from mercer.designs.binned import Binned
from mercer.designs.kernel import column_numbers
from mercer.designs.occupancy import Occupancy
from mercer.designs.on_device.bins import wide_codes
from mercer.designs.on_device.tiles import DeviceTiles

__all__ = ["DeviceBinned"]

_SUM_BITS = 62  # bits of the largest sum of integers
_LEAST_EXPONENT = -900  # binary exponent below which numbers count as 0: no power of two overflows


class DeviceBinned(DeviceTiles):
    """A :class:`mercer.designs.Binned` of n rows and R grids whose codes live on a device.

    ``codes`` (R, n) are uint8, or int16 or int32 with the bits of unsigned integers: the column of
    each row within each grid; a code beyond the grid's columns is a row without a column in it.
    ``offsets`` (R + 1,) are first columns of the grids, then D; ``scale`` is every non-zero.
    ``n_missing`` counts codes beyond their grids, by default on demand; ``of_rows`` makes the
    design of other rows, a tensor (m, d) on the device.

    A product with w reads the codes once, R bytes or 2 R a row, and as many entries of w; one with
    v adds to as many sums. Sums over rows are made of whole numbers, units of about max |v| n /
    2**62, so that their bits depend on no order; two of them for float64.
    """

    def __init__(
        self,
        codes: Any,
        offsets: ArrayLike,
        scale: float,
        dtype: DTypeLike,
        device: Device,
        n_missing: int | None = None,
        n_jobs: int | None = None,
        of_rows: Callable[[Any], DeviceBinned] | None = None,
    ):
        self._of_rows = of_rows
        self.codes, self.device, self.scale = codes, device, float(scale)
        self.offsets = np.ascontiguousarray(offsets, dtype=np.int64)
        self.shape = (int(codes.shape[1]), int(self.offsets[-1]))
        self.dtype, self.n_threads = float_dtype(dtype), n_threads(n_jobs)
        self._n_missing = n_missing

    def with_rows(self, rows: Any) -> DeviceBinned:
        """The design of other rows, a tensor (m, d) on the device."""
        if self._of_rows is None:
            raise NotImplementedError("this design does not know how its codes were made.")
        return self._of_rows(rows)

    @property
    def n_grids(self) -> int:
        """Number of grids R."""
        return int(self.codes.shape[0])

    @property
    def n_missing(self) -> int:  # type: ignore[override]
        """Number of (row, grid) pairs without a column."""
        if self._n_missing is None:
            self._n_missing = self.shape[0] * self.n_grids - int(self.counts().sum())
        return self._n_missing

    def matvec(self, w: Any) -> Any:
        vector = self._sent(w, self.shape[1], "w")
        flat = vector.reshape(self.shape[1], math.prod(vector.shape[1:]))
        out = flat.new_zeros((self.shape[0], flat.shape[1]))
        for columns, places in self._grids():
            # Codes without a column find the row of zeros.
            padded = self.device.torch.nn.functional.pad(flat[columns], (0, 0, 0, 1))
            out += padded[places]
        out *= self.scale
        return self._given_back(out.reshape(self.shape[0], *vector.shape[1:]), w)

    def rmatvec(self, v: Any) -> Any:
        vector = self._sent(v, self.shape[0], "v")
        sums = self._sums(vector.reshape(self.shape[0], math.prod(vector.shape[1:]))).mul_(
            self.scale
        )
        return self._given_back(sums.reshape(self.shape[1], *vector.shape[1:]), v)

    def column_sqnorms(self, weights: NDArray | None = None) -> NDArray[np.float64]:
        ones = np.ones(self.shape[0]) if weights is None else weights
        sums = self._sums(self.device.array(ones, np.float64)[:, None])
        return self.device.host(sums[:, 0].mul_(self.scale**2))

    def counts(self) -> NDArray[np.int64]:
        """Number of rows in every column, of shape (D,)."""
        torch = self.device.torch
        ones = torch.ones((self.shape[0], 1), dtype=torch.int64, device=self.codes.device)
        return self.device.host(self._whole_sums(ones)[:, 0])

    def occupancy(self) -> Occupancy:
        """Sizes of the bins, by one pass over the codes."""
        sizes = self.counts()
        largest = [part.max(initial=0) for part in np.split(sizes, self.offsets[1:-1])]
        counts, n_bins = np.unique(sizes[sizes > 0], return_counts=True)
        return Occupancy(np.array(largest), counts, n_bins, n_rows=self.shape[0])

    # -- entries ---------------------------------------------------------------------------------

    def block_on_device(self, columns: ArrayLike) -> Any:
        """``block`` as a tensor (n, b) on the device."""
        chosen = column_numbers(columns, self.shape[1])
        grids = np.searchsorted(self.offsets, chosen, side="right") - 1
        torch = self.device.torch
        out = torch.zeros((self.shape[0], len(chosen)), dtype=self._kind, device=self.device.name)
        for grid in np.unique(grids):
            places = np.flatnonzero(grids == grid)
            local = self.device.array(chosen[places] - self.offsets[grid])
            there = wide_codes(self.codes[grid])[:, None] == local
            out[:, self.device.array(places)] = there.to(out.dtype) * self.scale
        return out

    def _tile(self, rows: slice, columns: Any) -> Any:
        return self.rows(rows).toarray_on_device()[:, columns]

    def toarray(self) -> NDArray:
        return self.on_host().toarray()

    def toarray_on_device(self) -> Any:
        """``toarray`` as a tensor (n, D) on the device."""
        # One more for codes without a column.
        shape = self.shape[0], self.shape[1] + 1
        out = self.device.torch.zeros(shape, dtype=self._kind, device=self.device.name)
        for grid in range(self.n_grids):
            first, stop = self.offsets[grid : grid + 2]
            codes = wide_codes(self.codes[grid])
            columns = (codes + first).masked_fill_(codes >= stop - first, self.shape[1])
            out.scatter_(1, columns[:, None], self.scale)
        return out[:, :-1]

    def tocsr(self) -> sparse.csr_array:
        return self.on_host().tocsr()

    def on_host(self) -> Binned:
        """This design on the processor."""
        codes = self.device.host(self.codes)
        codes = codes.view(f"uint{8 * codes.itemsize}")
        return Binned(
            codes,
            self.offsets,
            self.scale,
            self.dtype,
            self._n_missing != 0,
            self.n_threads,
            validate=False,
            n_missing=self._n_missing,
        )

    def rows(self, index: Index) -> DeviceBinned:
        codes = self.codes[:, self.device.places(index)]
        n_missing = 0 if self._n_missing == 0 else None
        return self._with(int(codes.shape[1]), codes=codes, _n_missing=n_missing)

    def sources(self) -> list[Data]:
        return self.on_host().sources()

    @property
    def nbytes(self) -> int:
        return int(self.codes.numel() * self.codes.element_size()) + self.offsets.nbytes

    # -- on the device ---------------------------------------------------------------------------

    def _grids(self) -> Iterator[tuple[slice, Any]]:
        """Columns of every grid, and the places (n,) of rows in them, the one beyond if missing."""
        for grid, own in enumerate(self.codes):
            first, stop = self.offsets[grid : grid + 2].tolist()
            yield slice(first, stop), wide_codes(own).clamp_(max=stop - first)

    def _sums(self, v: Any) -> Any:
        """Sums over the rows of every column of v (n, k), (D, k) in float64."""
        torch, wide = self.device.torch, v.double()
        bits = min(52, _SUM_BITS - max(1, len(v)).bit_length())
        most = wide.abs().amax(dim=0) if len(v) else wide.new_zeros(v.shape[1])
        exponent = most.frexp().exponent.clamp(min=_LEAST_EXPONENT)
        unit = ((bits - exponent + 1023).long() << 52).view(torch.float64)  # 2 ** (bits - exponent)
        wide = wide * unit
        parts = [wide.round()]
        if v.dtype == torch.float64:  # what was rounded, in units of its own
            parts.append(((wide - parts[0]) * 2.0 ** (bits + 1)).round())
        sums = self._whole_sums(torch.cat(parts, dim=1).long()).double()
        total = sums[:, : v.shape[1]]
        if len(parts) > 1:
            total = total + sums[:, v.shape[1] :] * 2.0 ** -(bits + 1)
        # There is no unit for numbers that are not finite: sums of their columns are NaN.
        return total / unit + 0.0 * most

    def _whole_sums(self, v: Any) -> Any:
        """Sums of whole numbers (n, k), int64, over the rows of each bin."""
        out = v.new_zeros((self.shape[1], v.shape[1]))
        for columns, places in self._grids():
            n_columns = columns.stop - columns.start
            for k, column in enumerate(v.T):
                own = v.new_zeros(n_columns + 1).index_add_(0, places, column)
                out[columns, k] = own[:n_columns]
        return out
