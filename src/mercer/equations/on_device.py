"""Parts of rows, and solutions of blocks, on the device where a design lives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.arrays import row_chunks
from mercer._runtime.device_arrays import DeviceArray, on_host, placed, zeros
from mercer._runtime.devices import Device, exact_float32
from mercer.designs import Design
from mercer.equations.factor import Factor
from mercer.equations.parts import RowPart

__all__ = ["DeviceFactor", "DevicePart", "row_part"]

_WIDENED = 2**25  # entries of columns converted to float64 together


class DevicePart(RowPart):
    """Some rows of a design, with columns and vectors on its device."""

    def block(self, J: NDArray) -> Any:
        design: Any = self.design
        return placed(design.block_on_device(J), design.device)

    def fill_symmetric(self, blocks: list[NDArray]) -> None:
        """Generate and cache all columns, if they fit."""
        needed = float(self.design.dtype.itemsize) * self.n_rows * self.design.shape[1]
        if not self.design.nbytes and needed <= self.budget:
            for J in blocks:
                self.columns(J)

    def locate(self, J: NDArray) -> tuple[Any, NDArray]:
        if self.rows.start == 0 and self.rows.stop > J.max(initial=-1):
            return slice(None), J
        return super().locate(J)

    def gram(self, J: NDArray, exact: bool = False) -> Any:
        block = self.columns(J)
        total = zeros((len(J), len(J)), np.float64, block)
        for rows in row_chunks(len(block), max(1, len(J)), _WIDENED):
            wide = block[rows].astype(np.float64, copy=False)
            total += wide.T @ (wide if self.weights is None else wide * self.weights[rows, None])
        return total

    def pieces(self, J: NDArray) -> Iterator[RowPart]:
        yield self

    def project(self, J: NDArray, v: Any, rows: slice = slice(None)) -> Any:
        block = self.columns(J)[rows]
        total = zeros((len(J), v.shape[1]), np.float64, block)
        for chunk in row_chunks(len(block), max(1, len(J)), _WIDENED):
            total += block[chunk].astype(np.float64, copy=False).T @ v[chunk]
        return total

    def product(self, J: NDArray, delta: Any, rows: slice = slice(None)) -> Any:
        block = self.columns(J)[rows]
        return (block @ delta.astype(block.dtype)).astype(np.float64, copy=False)

    def matvec(self, w: Any, blocks: list[NDArray] | None = None, kind: Any = np.float64) -> Any:
        if blocks and all(J.tobytes() in self._cache for J in blocks):
            total = zeros((self.n_rows, w.shape[1]), np.float64, w)
            for J in blocks:
                cached = self._cache[J.tobytes()]
                for rows in row_chunks(len(cached), max(1, len(J)), _WIDENED):
                    total[rows] += cached[rows].astype(np.float64, copy=False) @ w[J]
            return total
        return super().matvec(w, kind=kind)


class DeviceFactor:
    """The inverse of a positive definite matrix on a device; that of another is the host's."""

    def __init__(self, matrix: DeviceArray):
        torch = matrix.device.torch
        self._factor, failed = torch.linalg.cholesky_ex(matrix.tensor)
        self._host: Factor | None = None
        pivots = self._factor.diagonal().square()
        cutoff = len(matrix) * float(np.finfo(np.float64).eps)
        if int(failed) or not bool(pivots.min() > cutoff * pivots.max()):
            self._host = Factor(on_host(matrix))
            self._factor = self._factor[:0]

    def solve(self, rhs: DeviceArray) -> DeviceArray:
        """The shortest x that minimises ‖matrix @ x − rhs‖."""
        if self._host is not None:
            solution: DeviceArray = placed(self._host.solve(on_host(rhs)), rhs.device)
            return solution
        torch = rhs.device.torch
        with exact_float32(torch):
            return DeviceArray(torch.cholesky_solve(rhs.tensor, self._factor), rhs.device)


def row_part(
    design: Design, rows: slice, weights: NDArray | None, device: Device | None
) -> RowPart:
    """The part of rows whose vectors are on a device, or NumPy arrays."""
    return (RowPart if device is None else DevicePart)(design, rows, weights)
