"""Approximate inverses of linear equations, for conjugate gradients.

Those of kernel machines are made once for the kernel and serve every strength of the penalty.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import linalg

from mercer._runtime.arrays import check_memory, row_chunks
from mercer._runtime.device_arrays import device_of, on_host, placed
from mercer._runtime.pages import lent
from mercer.designs import Dense, KernelColumns
from mercer.equations import spans_all_rows
from mercer.equations.dense import upper_factor
from mercer.equations.factor import lower_in_place
from mercer.equations.pivoted import pivoted_lower
from mercer.problem import Problem
from mercer.solvers.leaf_blocks import in_leaves, suits_leaves
from mercer.solvers.low_rank import (
    KernelFactor,
    LowRank,
    pivots_on_device,
    rank_for,
    weight_roots,
)

__all__ = ["POWERS", "Restricted", "given", "of_diagonal", "of_machine"]

POWERS = {"tempered": 0.25, "jacobi": 1.0}  # power of the diagonal of ∇²F per preconditioner

Inverse = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]

# Residual, in units of eps(float32), below which landmarks are dropped. Smaller thresholds amplify
# rounding, larger ones lose accuracy: F is .11 % above its minimum with this one, .16 % with a
# quarter or four times of it (cod-rna, 1200 landmarks).
_APART = 1.0
_STRIP = 512  # rows of a triangular matrix multiplied together
_WIDE = 2048  # columns of a strip copied together
_SINGLE = 2048  # side from which the second factor of landmarks is float32, to save time
_RAISED = 8.0  # added to a unit diagonal, in units of float32's precision


def of_diagonal(problem: Problem, kind: str) -> Callable[[NDArray], NDArray]:
    """The inverse of a power of the diagonal of a ridge problem's ∇²F, by its name."""
    diagonal = problem.at(problem.initial()).diagonal()
    if problem.fit_intercept and len(diagonal) > 1:
        # The intercept's own entry is far above those of columns that add up to a constant.
        diagonal[-1] = diagonal[:-1].max()
    inverse = np.ones_like(diagonal)
    np.power(diagonal, -POWERS[kind], out=inverse, where=diagonal > 0)
    inverse = inverse.astype(problem.dtype)
    inverse = placed(inverse, problem.device)
    return lambda residual: inverse * residual


def given(inverse: Callable[..., NDArray]) -> Callable[..., Any]:
    """A function of NumPy arrays that takes vectors on a device, too."""

    def applied(residual: Any, *strengths: NDArray[np.float64]) -> Any:
        return placed(inverse(on_host(residual), *strengths), device_of(residual))

    return applied


def of_machine(
    problem: Problem,
    kind: str | None,
    rank: int | str,
    key: int,
    alphas: list[float],
    factor: KernelFactor | None = None,
) -> Inverse:
    """The preconditioner of a kernel machine, a function of residuals and the alpha of each column.

    ``kind`` is the name of one, "auto", or None for the identity. Those of a machine of all rows
    have at most ``rank`` pivots, which ``key`` decides; ``factor`` is that of the kernel if it is
    known, maybe of other weights. ``alphas`` are those of all columns.
    """
    if kind is None:
        return lambda residual, strengths: residual
    penalty: Any = problem.penalty
    if not spans_all_rows(problem):
        matrix, jitter = penalty.matrix, penalty.jitter
        if getattr(matrix, "device", None) is not None:
            from mercer.solvers.on_device import DeviceRestricted  # which few need

            return DeviceRestricted(matrix, jitter, problem.fit_intercept, problem.design.dtype)
        return Restricted(matrix, jitter, problem.fit_intercept, problem.design.dtype)
    n, design, root = problem.n_rows, penalty.matrix, weight_roots(problem)
    if design.device is not None:
        low_rank = _on_device(design, kind, rank, key, root, n * min(alphas))
        return lambda residual, strengths: low_rank(residual, n * strengths)
    factor = factor or KernelFactor.of(problem, rank, key, min(alphas))
    rows, ratio = factor.rows, factor.reweighted(problem)
    if kind == "leaves" or (kind == "auto" and suits_leaves(design, rows, root, alphas)):
        with suppress(np.linalg.LinAlgError):
            scaled = rows if ratio is None else rows * ratio.astype(rows.dtype)
            local = in_leaves(design, scaled, key, root, n * min(alphas))
            return lambda residual, strengths: local(residual)
    inverse = LowRank(rows, n * np.array(alphas), ratio)
    return lambda residual, strengths: inverse(residual, n * strengths)


def _on_device(
    design: Any, kind: str, rank: int | str, key: int, root: NDArray | None, shift: float
) -> Any:
    """The preconditioner of a low rank, and of a shift per column, on the device of a design."""
    from mercer.solvers.on_device import DeviceLowRank  # which few need

    if kind == "leaves":
        raise ValueError(
            "preconditioner must be 'rpcholesky', 'auto', None or a function on the device "
            f"'{design.device.name}'; got 'leaves'."
        )
    n = design.shape[0]
    most = rank_for(n, design.device.free_memory()) if rank == "auto" else min(int(rank), n)
    return DeviceLowRank(pivots_on_device(design, most, key, root, shift), design.device)


class Restricted:
    """The normal equations in the span of landmarks, with the landmarks in the place of the rows.

    ::

        (1/p) (M, 1)ᵀ (M, 1) + alpha diag(M, 0) = Bᵀ A B,    B = diag(T, 1),    M = k(L, L) = TᵀT

    where A is (1/p) T Tᵀ + alpha I with the intercept. The two factors, of M and of A without the
    intercept, are all that is held: p² numbers each. ``jitter`` is the penalty's addition to the
    diagonal of M, and ``dtype`` that of the columns of all rows.

    Where float32 cannot tell landmarks apart, their weights would grow until only rounding is left.
    The inverse is then that of a few landmarks of which it can tell all others, and leaves the
    weights of these others alone: F (r, p), the factor of the few, takes the place of T in A.

    Rudi, Carratino and Rosasco (2017), FALKON: an optimal large scale kernel method.
    """

    def __init__(
        self,
        matrix: Dense | KernelColumns,
        jitter: float,
        fit_intercept: bool,
        dtype: DTypeLike | None = None,
    ):
        p = matrix.shape[0]
        check_memory(
            16.0 * p * p,
            f"a preconditioner for {p} landmarks",
            "use solver='block', or fewer landmarks",
        )
        self._few: NDArray[np.int64] | None = None
        if jitter or dtype != np.float32:
            self._rows = self._triangle = upper_factor(matrix, jitter, dtype)
        else:
            self._few, self._rows, self._triangle = _told_apart(matrix)
        self._sums = self._rows.sum(axis=1) / p if fit_intercept else None
        self._last: tuple[float, NDArray[np.float64]] | None = None

    def __call__(
        self, v: NDArray[np.float64], strengths: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """The inverse times v (p + 1, C), with a strength (C,) for every column."""
        r, p = self._rows.shape
        places: Any = (
            slice(None) if self._few is None else np.append(self._few, np.arange(p, len(v)))
        )
        x = np.array(v[places], order="F")
        x[:r] = _solved(self._triangle, x[:r], transposed=True)
        for alpha in np.unique(strengths):
            columns = strengths == alpha
            x[:, columns] = self._inner(float(alpha), x[:, columns])
        x[:r] = _solved(self._triangle, x[:r], transposed=False)
        out = np.zeros(v.shape)
        out[places] = x
        return out

    def _inner(self, alpha: float, v: NDArray[np.float64]) -> NDArray[np.float64]:
        """A⁻¹ v, whose last row is that of the intercept."""
        if self._last is None or self._last[0] != alpha:
            self._last = None  # its memory is that of the next
            self._last = alpha, self._factor(alpha)
        upper = self._last[1].T

        def inverse(rows: NDArray[np.float64]) -> NDArray[np.float64]:
            return _solved(upper, _solved(upper, rows, transposed=True), transposed=False)

        r = len(upper)
        x = inverse(v[:r])
        if self._sums is None:
            return x
        of_constant = inverse(self._sums[:, None])
        rest = 1.0 - float(self._sums @ of_constant[:, 0])
        # Rounding of the two terms hides less.
        constant = (v[r:] - self._sums @ x) / max(rest, r * float(np.finfo(np.float64).eps))
        return np.vstack([x - of_constant * constant, constant])

    def _factor(self, alpha: float) -> NDArray[np.float64]:
        """The lower factor of (1/p) T Tᵀ + alpha I, raised by its rounding."""
        factor, (r, p) = self._rows, self._rows.shape
        inner = lent((r, r), np.float64)
        if r >= _SINGLE and _factor_in_single(factor, alpha, inner):
            return inner
        for rows in row_chunks(r, 1.0, _STRIP):
            start, stop = rows.start, rows.stop
            # What is left of the diagonal is 0.
            np.matmul(factor[rows, start:], factor[:stop, start:].T, out=inner[rows, :stop])
            inner[:start, rows] = inner[rows, :start].T
        inner /= p
        diagonal = inner.diagonal() + alpha
        least = r * float(np.finfo(np.float64).eps) * float(diagonal.max())
        inner[np.diag_indices(r)] = diagonal + least
        if not lower_in_place(inner, _STRIP):
            raise np.linalg.LinAlgError("the landmarks' equations are not positive definite.")
        return inner


def _factor_in_single(factor: NDArray[np.float64], alpha: float, out: NDArray[np.float64]) -> bool:
    """Write the lower factor of (1/p) T Tᵀ + alpha I, rounded to float32; False if there is none.

    Rows are scaled for a unit diagonal. So rounding counts by each row's own size, and the solution
    stays that of nearly the same equations, also where ``alpha`` is far below their largest entry:
    rows of T fall off as the pivots do, and are hardly alike otherwise.
    """
    r, p = factor.shape
    roots = np.sqrt(np.einsum("ji,ji->i", factor.T, factor.T) / p + alpha)
    if not roots.min() > 0.0:
        return False
    scale = 1.0 / (np.sqrt(p) * roots)
    single = out.reshape(-1).view(np.float32)[: r * r].reshape(r, r)  # half of it
    single[...] = 0.0
    for columns in row_chunks(p, 1.0, _WIDE):
        stop = min(columns.stop, r)  # further rows begin behind these columns
        part = (factor[:stop, columns].T * scale[:stop]).astype(np.float32).T
        for rows in row_chunks(stop, 1.0, _STRIP):
            single[rows, : rows.stop] += part[rows] @ part[: rows.stop].T
    single[np.diag_indices(r)] = 1.0 + _RAISED * float(np.finfo(np.float32).eps)
    if not lower_in_place(single, _STRIP):
        return False
    for i in reversed(range(r)):  # the rows before it are not written over
        out[i] = single[i].copy()
        out[i] *= roots[i]
    return True


def _told_apart(
    matrix: Dense | KernelColumns,
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Landmarks that all others follow from in float32, F (r, p) with FᵀF about M, a triangle.

    The few stand first in the order of the columns of F, which is 0 left of its diagonal. The first
    of these columns are the triangle.
    """
    largest = float(matrix.diagonal().max(initial=0.0))
    order, lower = pivoted_lower(matrix, _APART * float(np.finfo(np.float32).eps) * largest)
    r = lower.shape[1]
    return order[:r], lower.T, lower[:r].T


def _solved(
    upper: NDArray[np.float64], v: NDArray[np.float64], transposed: bool
) -> NDArray[np.float64]:
    """T⁻¹ v or T⁻ᵀ v."""
    return linalg.solve_triangular(upper, v, trans=int(transposed), check_finite=False)
