"""Features on a device that are a linear function of those of another design there."""

from __future__ import annotations

from typing import Any

from numpy.typing import DTypeLike, NDArray

from mercer._runtime.arrays import Index
from mercer._runtime.rows import Data
from mercer.designs.base import float_dtype
from mercer.designs.dense import Dense
from mercer.designs.on_device.tiles import DeviceTiles

__all__ = ["DeviceFeatures"]

_HELD_SHARE = 0.5  # largest share of the free memory for features that stay on the device


class DeviceFeatures(DeviceTiles):
    """The features of a base, a design (n, p), times a matrix (p, D), made and held on a device.

    Whitened landmarks are the kernel against landmarks times their normalization, the features of
    ``SubspaceEmbedding`` those of a base times a projection. Features are
    made once where they fit into half of the free memory, else in every product; the base's are in
    its own dtype.
    """

    def __init__(self, base: Any, matrix: NDArray, dtype: DTypeLike):
        self.base, self.device, self.dtype = base, base.device, float_dtype(dtype)
        self.shape = (base.shape[0], matrix.shape[1])
        self.n_threads = base.n_threads
        self._matrix = self.device.array(matrix, base.dtype)
        self._held: Any = None
        self._is_held = self._fits()

    def _fits(self) -> bool:
        free, cell = self.device.free_memory(), self.base.dtype.itemsize + self.dtype.itemsize
        return free is None or float(self.shape[0]) * self.shape[1] * cell <= _HELD_SHARE * free

    @property
    def n_missing(self) -> int:  # type: ignore[override]
        """Features of the base that rows lack."""
        return int(self.base.n_missing)

    @property
    def n_grids(self) -> int:
        """Codes of a row that the base holds; 0 where it is not binned."""
        return int(getattr(self.base, "n_grids", 0))

    def toarray_on_device(self) -> Any:
        """``toarray`` as a tensor (n, D) on the device; held where it fits."""
        if self._held is not None:
            return self._held
        entries = self.base.matvec(self._matrix).to(self._kind)
        if self._is_held:
            self._held = entries
        return entries

    def _tile(self, rows: slice, columns: Any) -> Any:
        if self._is_held:
            return self.toarray_on_device()[rows][:, columns]
        return self.base.rows(rows).matvec(self._matrix[:, columns].contiguous()).to(self._kind)

    def _row_numbers(self) -> float:
        return float(self.shape[1] + (0 if self._is_held else self.base.shape[1]))

    def toarray(self) -> NDArray:
        return self.device.host(self.toarray_on_device())

    def on_host(self) -> Dense:
        """This design on the processor."""
        return Dense(self.toarray(), self.n_threads)

    def rows(self, index: Index) -> DeviceFeatures:
        base, held = self.base.rows(index), None
        if self._is_held:
            held = self.toarray_on_device()[self.device.places(index)]
        return self._with(base.shape[0], base=base, _held=held)

    def with_rows(self, rows: Any) -> DeviceFeatures:
        """The design of other rows, a tensor (m, d) on the device."""
        other = self._with(len(rows), base=self.base.with_rows(rows), _held=None)
        other._is_held = other._fits()
        return other

    def sources(self) -> list[Data]:
        sources: list[Data] = self.base.sources()
        return sources

    @property
    def nbytes(self) -> int:
        return 0 if self._held is None else int(self._held.nbytes)
