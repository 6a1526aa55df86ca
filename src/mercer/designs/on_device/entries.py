"""Entries of kernels on a device: rows prepared once, tiles of rows against others.

Kernels have the names and the accuracy that they have in the core: entries of float32 rows are
right to 2e-5, those of float64 rows to a few units in the last place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer._runtime.devices import Device, exact_float32

__all__ = ["DeviceRows", "KernelOf", "prepared_rows", "tile"]

_TOO_LARGE = "X is too large for this kernel: squared distances overflow; rescale it."

# Kernels computed from single differences of coordinates; others use the sum of their squares.
_DIRECT = ("cityblock", "laplacian", "cauchy")

# (share, beyond, start) per dtype: a squared distance below share * S + beyond * max(S - start, 0),
# where S is the sum of the squared norms, has lost digits and is recomputed from differences.
_CANCELLED = {"float32": (1e-5, 1e-2, 32.0), "float64": (1e-6, 0.0, 0.0)}
_ROOT_SHARE = 1e-3  # that share for float32 kernels with a square root, which magnifies the error
_PAIRS = 2**22  # pairs of rows recomputed together


@dataclass(frozen=True)
class KernelOf:
    """A kernel as the core names it, on a device."""

    name: str
    parameter: float
    scale: Any  # (d,) float64, what inputs are multiplied by
    centre: Any  # (d,) float64, an origin near the rows

    @property
    def is_direct(self) -> bool:
        return self.name in _DIRECT


@dataclass(frozen=True)
class DeviceRows:
    """Rows (m, d) on a device.

    ``given`` are those as they came, ``scaled`` the same after centre and scale, and ``squares``
    (m,) the sums of their squares; kernels that take coordinates one by one need the first alone.
    """

    given: Any
    scaled: Any = None
    squares: Any = None

    def __getitem__(self, rows: Any) -> DeviceRows:
        if self.scaled is None:
            return DeviceRows(self.given[rows])
        return DeviceRows(self.given[rows], self.scaled[rows], self.squares[rows])

    def __len__(self) -> int:
        return int(self.given.shape[0])


def prepared_rows(kernel: KernelOf, given: Any) -> DeviceRows:
    """Rows (m, d) as ``tile`` takes them; a ValueError if squared distances would overflow."""
    if kernel.is_direct:
        return DeviceRows(given)
    scaled = ((given.double() - kernel.centre) * kernel.scale).to(given.dtype)
    squares = scaled.square().sum(dim=1)
    most = float(np.finfo(str(given.dtype).removeprefix("torch.")).max) / 8
    if not bool((squares <= most).all()):
        raise ValueError(_TOO_LARGE)
    return DeviceRows(given, scaled, squares)


def tile(device: Device, kernel: KernelOf, left: DeviceRows, right: DeviceRows) -> Any:
    """The kernel of rows (a, d) against others (b, d): a tensor (a, b) of their dtype."""
    if kernel.is_direct:
        return _of_differences(device.torch, kernel, left.given, right.given)
    squares = _squared_distances(device.torch, kernel, left, right)
    return _PROFILES[kernel.name](squares, kernel.parameter)


def _of_differences(torch: Any, kernel: KernelOf, x: Any, y: Any) -> Any:
    """A kernel of the differences of coordinates, taken from the rows as they came."""
    is_product = kernel.name == "cauchy"
    start = torch.ones if is_product else torch.zeros
    sums = start((x.shape[0], y.shape[0]), dtype=x.dtype, device=x.device)
    apart = torch.empty_like(sums)
    for k, scale in enumerate(kernel.scale.tolist()):
        torch.sub(x[:, k, None], y[None, :, k], out=apart)
        if is_product:
            sums *= apart.mul_(scale).square_().add_(1.0)
        else:
            sums.add_(apart.abs_(), alpha=scale)
    if is_product:
        return sums.reciprocal_()
    return sums if kernel.name == "cityblock" else sums.neg_().exp_()


def _squared_distances(torch: Any, kernel: KernelOf, left: DeviceRows, right: DeviceRows) -> Any:
    both = left.squares[:, None] + right.squares[None, :]
    with exact_float32(torch):
        squares = torch.addmm(both, left.scaled, right.scaled.T, alpha=-2.0)
    share, beyond, start = _CANCELLED[str(both.dtype).removeprefix("torch.")]
    if kernel.name == "exponential" and beyond:
        share = _ROOT_SHARE
    least = both.sub(start).clamp_(min=0.0).mul_(beyond).add_(both, alpha=share)
    i, j = (squares <= least).nonzero(as_tuple=True)
    step = max(1, _PAIRS // max(1, left.given.shape[1]))
    for first in range(0, len(i), step):
        a, b = i[first : first + step], j[first : first + step]
        apart = (left.given[a].double() - right.given[b].double()) * kernel.scale
        squares[a, b] = apart.square().sum(dim=1).to(squares.dtype)
    return squares.clamp_(min=0.0)


def _matern_3_2(squares: Any, parameter: float) -> Any:
    r = squares.mul_(3.0).sqrt_()
    return (1.0 + r).mul_(r.neg_().exp_())


def _matern_5_2(squares: Any, parameter: float) -> Any:
    r = squares.mul_(5.0).sqrt_()
    return (1.0 + r + r.square().div_(3.0)).mul_(r.neg_().exp_())


_PROFILES: dict[str, Callable[[Any, float], Any]] = {
    "sqeuclidean": lambda squares, parameter: squares,
    "gaussian": lambda squares, parameter: squares.neg_().exp_(),
    "exponential": lambda squares, parameter: squares.sqrt_().neg_().exp_(),
    "matern_3_2": _matern_3_2,
    "matern_5_2": _matern_5_2,
    "rational": lambda squares, parameter: squares.add_(1.0).reciprocal_(),
    "rational_power": lambda squares, a: squares.div_(a).log1p_().mul_(-a).exp_(),
}
