"""The kernel within leaves on a device: blocks of a local design, made there and forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.arrays import row_chunks
from mercer._runtime.devices import Device, exact_float32
from mercer._runtime.rows import PreparedRows
from mercer.designs.kernel_rows import in_core
from mercer.designs.on_device.entries import DeviceRows, KernelOf, prepared_rows, tile
from mercer.kernels import Kernel

__all__ = ["kernel_on", "leaf_products", "rows_on"]

_SIDE = 8192  # rows of a block processed together


def kernel_on(device: Device, kernel: Kernel, X: Any) -> KernelOf:
    """The kernel on a device, with an origin near X; a ValueError if CSR or not in the core."""
    core = in_core(kernel, PreparedRows(X))
    if core is None:
        raise ValueError(
            "kernel must be a stationary one of mercer.kernels, of rows that are not sparse, on "
            f"the device '{device.name}'; got {kernel!r}."
        )
    name, parameter, scale = core
    centre = X.mean(axis=0, dtype=np.float64)
    return KernelOf(name, parameter, device.array(scale), device.array(centre))


def rows_on(device: Device, kernel: KernelOf, X: NDArray) -> DeviceRows:
    """Rows (n, d) on the device, as ``tile`` takes them."""
    return prepared_rows(kernel, device.array(X))


def leaf_products(
    device: Device, kernel: Kernel, X: NDArray, landmarks: NDArray, blocks: Sequence[Any], w: Any
) -> NDArray[np.float64]:
    """Blocks of a local design times w and their shares, (n, k), float64, without constants."""
    torch = device.torch
    of = kernel_on(device, kernel, landmarks)
    points = rows_on(device, of, X)
    others = rows_on(device, of, landmarks.astype(X.dtype, copy=False))
    weights = device.array(w).to(points.given.dtype)
    out = torch.zeros((len(X), w.shape[1]), dtype=torch.float64, device=device.name)
    for block in blocks:
        own, coef = others[device.array(block.members)], weights[block.columns]
        for part in row_chunks(len(block.rows), 1.0, _SIDE):
            rows = device.array(block.rows[part])
            entries = tile(device, of, points[rows], own)
            with exact_float32(torch):
                answers = (entries @ coef).double()
            out[rows] += device.array(block.shares[part])[:, None] * answers
    return device.host(out)
