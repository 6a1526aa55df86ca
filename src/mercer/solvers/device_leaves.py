"""Leaves of local kernel machines on a device: many factors of small matrices at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.devices import Device, exact_float32
from mercer.designs.on_device.entries import tile
from mercer.designs.on_device.leaves import kernel_on, rows_on
from mercer.losses import Loss
from mercer.maps.local import LocalKernel

__all__ = ["DeviceLeaves"]

_SHARE = 0.3  # share of the device's memory for the matrices of leaves solved together
_STEPS = 4  # most steps of refinement with float32 factors
_FLAT = 1e-10  # least curvature of a row, so that its ridge is finite
_HALVINGS = 30  # most halvings of a Newton step before a leaf keeps its iterate


@dataclass
class _Group:
    """Leaves that are solved together, padded to the rows of the largest."""

    kernel: Any  # (b, m, m), zero beyond the rows of a leaf
    wide: Any  # the same in float64
    is_row: Any  # (b, m)
    ridge_shares: Any  # (b, m), 1 / weights
    target: Any  # (b, m, k)


class DeviceLeaves:
    """Solves leaves on a device: for the squared loss, and by Newton's method for others.

    The map is fitted to the rows; targets are (n, k). Refinement ends at a relative residual of
    ``tol``, or for other losses, after at most ``max_iter`` steps, at a gradient of ``loss_tol``.
    """

    def __init__(
        self,
        device: Device,
        map_: LocalKernel,
        target: NDArray[np.float64],
        weights: NDArray | None,
        fit_intercept: bool,
        tol: float,
        loss: Loss,
        loss_tol: float,
        max_iter: int,
    ):
        self.loss, self.loss_tol, self.max_iter = loss, loss_tol, max_iter
        self.n_iter = 1
        self.device, self.members, self.tol = device, map_.members_, tol
        self.fit_intercept = fit_intercept
        self._kernel = kernel_on(device, map_.kernel_, map_.landmarks_)
        self._rows = rows_on(device, self._kernel, map_.landmarks_)
        self._target = device.array(target, np.float64)
        self._shares = None if weights is None else device.array(1.0 / weights, np.float64)

    def solve(
        self, leaves: range, ridges: list[float]
    ) -> Iterator[tuple[int, NDArray, NDArray, NDArray]]:
        """(leaf, coefficients (q, m, k), constants (q, k), residuals (q,)) of every leaf."""
        for together in self._together(leaves):
            group = self._group(together)
            solver = self._solved if self.loss.quadratic else self._minimised
            solved = [solver(group, ridge) for ridge in ridges]
            for place, leaf in enumerate(together):
                size = len(self.members.of(leaf))
                coef = np.stack([one[0][place, :size] for one in solved])
                constants = np.stack([one[1][place] for one in solved])
                yield leaf, coef, constants, np.array([one[2][place] for one in solved])

    def _together(self, leaves: range) -> Iterator[range]:
        """Neighbours whose matrices fit: kernel, factor and both in float64."""
        free = self.device.free_memory()
        first, largest = leaves.start, 0
        itemsize = self._rows.given.element_size()
        for leaf in leaves:
            largest = max(largest, len(self.members.of(leaf)))
            needed = (leaf + 1 - first) * (2.0 * itemsize + 8.0) * largest**2
            if leaf > first and free is not None and needed > _SHARE * free:
                yield range(first, leaf)
                first, largest = leaf, len(self.members.of(leaf))
        if first < leaves.stop:
            yield range(first, leaves.stop)

    def _group(self, leaves: range) -> _Group:
        torch, device = self.device.torch, self.device
        rows = [device.array(self.members.of(leaf)) for leaf in leaves]
        b, m = len(rows), max(map(len, rows))
        numbers = {"dtype": torch.float64, "device": device.name}
        kernel = torch.zeros((b, m, m), dtype=self._rows.given.dtype, device=device.name)
        is_row = torch.zeros((b, m), **numbers)
        shares = torch.zeros((b, m), **numbers)
        target = torch.zeros((b, m, self._target.shape[1]), **numbers)
        for place, own in enumerate(rows):
            size = len(own)
            x = self._rows[own]
            kernel[place, :size, :size] = tile(device, self._kernel, x, x)
            is_row[place, :size] = 1.0
            shares[place, :size] = 1.0 if self._shares is None else self._shares[own]
            target[place, :size] = self._target[own]
        return _Group(kernel, kernel.double(), is_row, shares, target)

    def _solved(self, group: _Group, ridge: float) -> tuple[NDArray, NDArray, NDArray]:
        """Coefficients (b, m, k), constants (b, k) and relative residuals (b,) of a strength."""
        torch, k = self.device.torch, group.target.shape[2]
        diagonal = ridge * group.ridge_shares
        shifted = group.kernel.clone()
        # Rows that pad a leaf stand for equations of their own.
        shifted.diagonal(dim1=1, dim2=2).add_((diagonal + 1.0 - group.is_row).to(shifted.dtype))
        factor, failed = torch.linalg.cholesky_ex(shifted)
        factor[failed > 0] = torch.eye(factor.shape[1], dtype=factor.dtype, device=factor.device)
        right = torch.cat([group.target, group.is_row[:, :, None]], dim=2)
        solved, left = torch.zeros_like(right), right
        for _ in range(_STEPS):
            with exact_float32(torch):
                solved += torch.cholesky_solve(left.to(factor.dtype), factor).double()
            left = right - group.wide @ solved - diagonal[:, :, None] * solved
            if bool((left.norm(dim=1) <= self.tol * right.norm(dim=1)).all()):
                break
        constants = torch.zeros_like(solved[:, 0, :k])
        if self.fit_intercept:
            constants = solved[:, :, :k].sum(dim=1) / solved[:, :, k].sum(dim=1)[:, None]
        coef = solved[:, :, :k] - solved[:, :, k:] * constants[:, None, :]
        misfit = (group.target - constants[:, None, :]) * group.is_row[:, :, None]
        misfit = misfit - group.wide @ coef - diagonal[:, :, None] * coef
        residual = misfit.norm(dim=(1, 2)) / self._of_constant_model(group)
        residual[failed > 0] = np.inf
        host = self.device.host
        return host(coef), host(constants), host(residual)

    def _minimised(self, group: _Group, ridge: float) -> tuple[NDArray, NDArray, NDArray]:
        """Coefficients, constants and residuals for a loss other than squared, output by output."""
        outputs = [
            self._by_newton(replace(group, target=group.target[:, :, k : k + 1]), ridge)
            for k in range(group.target.shape[2])
        ]
        coefs, constants, residuals = zip(*outputs, strict=True)
        return np.dstack(coefs), np.column_stack(constants), np.max(residuals, axis=0)

    def _by_newton(self, group: _Group, ridge: float) -> tuple[NDArray, NDArray, NDArray]:
        """Coefficients (b, m), constants (b,) and relative gradients (b,) of one output.

        A step solves the squared loss with targets f - l'/l'' and weights l'', halved until F
        falls.
        """
        host, loss = self.device.host, self.loss
        y, is_row = host(group.target[:, :, 0]), host(group.is_row) > 0
        y = np.where(is_row, y, 1.0)  # a target that every loss understands
        weights = 1.0 / np.where(is_row, host(group.ridge_shares), np.inf)
        a, c = np.zeros(y.shape), np.zeros(len(y))
        if self.fit_intercept:
            for leaf, (own, there, w) in enumerate(zip(y, is_row, weights, strict=True)):
                average = partial(np.average, axis=0, weights=w[there])
                c[leaf] = loss.start(own[there][:, None], average)[0]
        smooth = np.zeros(y.shape)  # K a
        first = None
        for step in range(self.max_iter + 1):
            f = smooth + c[:, None]
            slopes = loss.gradient(f, y)
            gradient = np.linalg.norm(weights * slopes + ridge * a, axis=1)
            first = np.where(gradient > 0, gradient, 1.0) if first is None else first
            residual = gradient / first
            if step == self.max_iter or (residual <= self.loss_tol).all():
                break
            curved = np.maximum(loss.hessian(f, y), _FLAT)
            shares = np.where(is_row, 1.0 / np.where(is_row, weights * curved, 1.0), 0.0)
            there = self.device.array(shares, np.float64)
            target = self.device.array(np.where(is_row, f - slopes / curved, 0.0)[:, :, None])
            new, new_c, _ = self._solved(replace(group, ridge_shares=there, target=target), ridge)
            new_smooth = host(group.wide @ self.device.array(new))[:, :, 0]
            ways = (new[:, :, 0] - a, new_smooth - smooth, new_c[:, 0] - c)
            lengths = self._lengths(y, weights, ridge, (a, smooth, c), ways)
            a = a + lengths[:, None] * ways[0]
            smooth = smooth + lengths[:, None] * ways[1]
            c = c + lengths * ways[2]
            if not lengths.any():
                break
        self.n_iter = max(self.n_iter, step)
        return a, c, residual

    def _lengths(
        self, y: NDArray, weights: NDArray, ridge: float, at: tuple, ways: tuple
    ) -> NDArray[np.float64]:
        """A length (b,) of the step of every leaf at which the objective does not rise, or 0."""
        for way in ways:
            way[~np.isfinite(way)] = 0.0

        def objective(t: NDArray) -> NDArray:
            a, smooth, c = (
                x + (t[:, None] if x.ndim == 2 else t) * way
                for x, way in zip(at, ways, strict=True)
            )
            with np.errstate(over="ignore", invalid="ignore"):
                losses = (weights * self.loss.value(smooth + c[:, None], y)).sum(axis=1)
            return losses + 0.5 * ridge * (a * smooth).sum(axis=1)

        t = np.ones(len(y))
        most = objective(np.zeros(len(y)))
        most += 1e-13 * np.abs(most)
        for _ in range(_HALVINGS):
            falls = objective(t) <= most
            if falls.all():
                return t
            t[~falls] *= 0.5
        return np.where(objective(t) <= most, t, 0.0)

    @staticmethod
    def _of_constant_model(group: _Group) -> Any:
        """Norms of the residuals of the leaves' means, or 1 where they are 0."""
        mean = group.target.sum(dim=1) / group.is_row.sum(dim=1)[:, None]
        apart = (group.target - mean[:, None, :]) * group.is_row[:, :, None]
        norm = apart.norm(dim=(1, 2))
        norm[norm == 0] = 1.0
        return norm
