"""Preconditioners of kernel machines whose kernel is made on a device.

They are those of ``low_rank`` and ``preconditioners`` with matrices on the device; vectors are
there or on the host, and so are the products with them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mercer._runtime.arrays import row_chunks
from mercer._runtime.device_arrays import DeviceArray, like_kind
from mercer._runtime.devices import Device, exact_float32
from mercer.designs.on_device import DeviceKernel
from mercer.maps.landmarks import GrowingFactor

__all__ = ["DeviceFactor", "DeviceLowRank", "DeviceRestricted", "reweighted"]


class DeviceFactor(GrowingFactor):
    """F of √S K √S, of given diagonal and root √s, on a device; rank m at most."""

    def __init__(
        self,
        design: DeviceKernel,
        diagonal: NDArray[np.float64],
        root: NDArray[np.float64] | None,
        m: int,
    ):
        device, torch = design.device, design.device.torch
        self.design, self.device = design, device
        self._on_device = torch.empty(
            (m, len(diagonal)), dtype=design.tensor_type, device=device.name
        )
        self._left_there = device.array(diagonal, np.float64).clone()
        self._root = None if root is None else device.array(root, np.float64)
        self.most, self.count = m, 0

    @property
    def tensor(self) -> Any:
        """F so far, on the device."""
        return self._on_device[: self.count]

    @property
    def rows(self) -> NDArray:
        return self.device.host(self.tensor)

    def trace_left(self) -> float:
        return float(self._left_there.sum())

    def drawn(self, uniform: NDArray[np.float64]) -> NDArray[np.int64]:
        reach = self._left_there.cumsum(0)
        places = self.device.array(uniform, np.float64) * reach[-1]
        found = self.device.torch.searchsorted(reach, places, right=True)
        return self.device.host(found.clamp_(max=len(reach) - 1))

    def left_of(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        return self.device.host(self._left_there[self.device.array(rows)])

    def explained(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        own = self.tensor[:, self.device.array(rows)].double()
        return self.device.host(own.T @ own)

    def add(self, pivots: NDArray[np.int64], triangle: NDArray[np.float64]) -> None:
        torch, places = self.device.torch, self.device.array(pivots)
        rows = self.design.taken(pivots).toarray_on_device().double()
        if self._root is not None:
            rows *= self._root
            rows *= self._root[places][:, None]
        with exact_float32(torch):
            rows -= (self.tensor[:, places].T @ self.tensor).double()
        lower = self.device.array(triangle, np.float64)
        rows = torch.linalg.solve_triangular(lower, rows, upper=False)
        self._left_there -= rows.square().sum(dim=0)
        self._left_there[places] = 0.0
        self._left_there.clamp_(min=0.0)
        self._on_device[self.count : self.count + len(pivots)] = rows
        self.count += len(pivots)


class DeviceLowRank:
    """(FᵀF + shift I)⁻¹ on a device, with a Cholesky factor of F Fᵀ + shift I for every shift."""

    def __init__(self, factor: Any, device: Device):
        self.device, self._factor = device, factor
        self._gram = _gram(device.torch, factor)
        # Rounding of FᵀF hides smaller shifts.
        trace = float(self._gram.diagonal().sum())
        self._least = max(float(np.finfo(np.float64).eps) * trace, 1e-300)
        self._of_shifts: dict[float, Any] = {}

    def __call__(self, v: Any, shifts: NDArray[np.float64]) -> Any:
        """The inverse times v (n, C), with a shift (C,) for every column."""
        shifts = np.maximum(shifts, self._least)
        on_device = self.device.array(v, np.float64)
        out = self.device.torch.empty_like(on_device)
        for shift in np.unique(shifts):
            columns = self.device.array(np.flatnonzero(shifts == shift))
            own = on_device[:, columns]
            with exact_float32(self.device.torch):
                inner = (self._factor @ own.to(self._factor.dtype)).double()
                inner = self.device.torch.cholesky_solve(inner, self._triangle(float(shift)))
                own -= (self._factor.T @ inner.to(self._factor.dtype)).double()
            out[:, columns] = own / float(shift)
        return like_kind(out, v, self.device)

    def _triangle(self, shift: float) -> Any:
        """The Cholesky factor of F Fᵀ + shift I, kept."""
        if shift not in self._of_shifts:
            shifted = self._gram.clone()
            shifted.diagonal().add_(shift)
            self._of_shifts[shift] = self.device.torch.linalg.cholesky(shifted)
        return self._of_shifts[shift]


class DeviceRestricted:
    """The preconditioner ``Restricted`` of landmarks, k(L, L) in float64, on a device."""

    def __init__(self, matrix: DeviceKernel, jitter: float, fit_intercept: bool, dtype: DTypeLike):
        self.device, self._fit_intercept = matrix.device, fit_intercept
        entries, p = matrix.toarray_on_device().clone(), matrix.shape[0]
        diagonal = entries.diagonal().clone() + jitter
        # The matrix is singular where landmarks are alike.
        least = 4.0 * np.sqrt(p) * float(np.finfo(dtype).eps) * float(diagonal.max())
        info = 1
        while info:
            entries.diagonal().copy_(diagonal + least)
            lower, info = self.device.torch.linalg.cholesky_ex(entries)
            least *= 4.0
        self._triangle = lower.T
        self._last: tuple[float, Any] | None = None

    def __call__(self, v: Any, strengths: NDArray[np.float64]) -> Any:
        """The inverse times v (p + 1, C), with a strength (C,) for every column."""
        on_device = self.device.array(v, np.float64)
        out = self.device.torch.empty_like(on_device)
        for alpha in np.unique(strengths):
            columns = self.device.array(np.flatnonzero(strengths == alpha))
            inverse = self._inverse(float(alpha))
            out[:, columns] = inverse @ (inverse.T @ on_device[:, columns])
        return like_kind(out, v, self.device)

    def _inverse(self, alpha: float) -> Any:
        """R⁻¹ of one strength; the last one is cached."""
        if self._last is not None and self._last[0] == alpha:
            return self._last[1]
        self._last = None
        torch, triangle = self.device.torch, self._triangle
        p = len(triangle)
        side = p + self._fit_intercept
        inner = torch.ones((side, side), dtype=torch.float64, device=triangle.device)
        inner[:p, :p] = triangle @ triangle.T / p
        inner[:p, :p].diagonal().add_(alpha)
        if self._fit_intercept:
            inner[p, :p] = inner[:p, p] = triangle.sum(dim=1) / p
        inner.diagonal().add_(
            side * float(np.finfo(np.float64).eps) * float(inner.diagonal().max())
        )
        upper = torch.linalg.cholesky(inner).T
        upper = torch.cat([upper[:, :p] @ triangle, upper[:, p:]], dim=1)
        identity = torch.eye(side, dtype=torch.float64, device=triangle.device)
        inverse = torch.linalg.solve_triangular(upper, identity, upper=True)
        self._last = (alpha, inverse)
        return inverse


def reweighted(factor: Any, scale: Any, ridge: float) -> Callable[..., Any]:
    """(D FᵀF D + ridge I)⁻¹ up to a factor, for D (n, k), on a device; or a LinAlgError."""
    device = scale.device
    torch, eps = device.torch, float(np.finfo(str(factor.dtype).removeprefix("torch.")).eps)
    triangles = []
    for column in scale.tensor.T:
        inner = _gram(torch, factor * column.to(factor.dtype))
        # Raised by what rounding may have taken.
        inner.diagonal().add_(ridge + eps * float(inner.diagonal().sum()))
        triangle, failed = torch.linalg.cholesky_ex(inner)
        if int(failed):
            raise np.linalg.LinAlgError("the weighted factor has no inverse.")
        triangles.append(triangle)

    def inverse(v: DeviceArray, places: NDArray[np.int64]) -> DeviceArray:
        own = scale[:, places].tensor
        with exact_float32(torch):
            sums = (factor @ (own * v.tensor).to(factor.dtype)).double()
            for column, place in enumerate(places.tolist()):
                part = sums[:, column : column + 1]
                sums[:, column : column + 1] = torch.cholesky_solve(part, triangles[place])
            return DeviceArray(v.tensor - own * (factor.T @ sums.to(factor.dtype)), device)

    return inverse


def _gram(torch: Any, factor: Any) -> Any:
    """F Fᵀ in float64, of some columns of F after others."""
    total = torch.zeros((len(factor),) * 2, dtype=torch.float64, device=factor.device)
    for columns in row_chunks(factor.shape[1], 8.0 * len(factor)):
        wide = factor[:, columns].double()
        total.addmm_(wide, wide.T)
    return total
