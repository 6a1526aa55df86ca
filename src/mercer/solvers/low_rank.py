"""Low-rank factors of kernel matrices of all rows by pivoted Cholesky, and their inverses."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import linalg

from mercer._runtime.arrays import available_memory, check_memory
from mercer._runtime.device_arrays import on_host
from mercer.designs import Dense, KernelColumns
from mercer.designs.kernel_rows import times
from mercer.maps.landmarks import GrowingFactor, pivoted_cholesky
from mercer.problem import Problem

__all__ = [
    "MEMORY_SHARE",
    "KernelFactor",
    "LowRank",
    "kernel_blocks",
    "pivots_of",
    "pivots_on_device",
    "rank_for",
    "weight_roots",
]

MEMORY_SHARE = 0.2  # share of the available memory for a preconditioner
_RANK = 10.0  # rank / √n at which the factor takes as long as a few products with K
_ENOUGH = 0.03  # diagonal residual / shift at which the factor suffices: few iterations remain
# Shift, relative to the largest diagonal entry, from which F may grow in float32, and from which it
# may be rounded to float32 once it is grown: the number of iterations stays the same. Rounding at a
# shift of 6e-5 made 20 iterations more than 100 (a robot arm, 6000 rows, Gaussian kernel).
_SINGLE_SHIFT, _ROUNDED_SHIFT = 1e-3, 3e-4
_FEW_SHIFTS = 8  # shifts up to which a triangular factor each takes less time than eigenvectors


@dataclass(frozen=True)
class KernelFactor:
    """F (rank, n) with FᵀF about √S K √S, and the weights s (n,) of the rows; None for ones."""

    rows: NDArray
    weights: NDArray | None

    @classmethod
    def of(cls, problem: Problem, rank: int | str, key: int, alpha: float) -> KernelFactor:
        """The factor of a machine of all rows at its least strength, by randomly drawn pivots."""
        n, design = problem.n_rows, problem.penalty.matrix  # type: ignore[attr-defined]
        most = rank_for(n) if rank == "auto" else min(int(rank), n)
        rows = pivots_of(design, most, key, weight_roots(problem), n * alpha)
        return cls(rows, None if problem.weights is None else on_host(problem.weights))

    def reweighted(self, problem: Problem) -> NDArray[np.float64] | None:
        """Factors (n,) of the columns of F for the weights of a problem; None if these are those
        of F."""
        if problem.weights is self.weights:
            return None
        weights = np.ones(problem.n_rows) if self.weights is None else self.weights
        wanted = 1.0 if problem.weights is None else on_host(problem.weights)
        ratio = np.divide(wanted, weights, out=np.zeros_like(weights), where=weights > 0)
        return np.sqrt(ratio)


class LowRank:
    """(FᵀF + shift I)⁻¹ with F of shape (rank, n), float32 or float64, and a shift per column.

    ``shifts`` are those of all columns if they are known: a triangular factor for each of a few
    takes a tenth of the time of the eigenvectors that serve any shift. ``ratio`` (n,) multiplies
    the columns of F.
    """

    def __init__(
        self,
        factor: NDArray,
        shifts: NDArray[np.float64] | None = None,
        ratio: NDArray[np.float64] | None = None,
    ):
        self._factor = factor
        self._ratio = None if ratio is None else ratio[:, None]
        # (FᵀF + s I)⁻¹ = (I − Fᵀ (F Fᵀ + s I)⁻¹ F) / s, and one rotation serves all shifts.
        gram = Dense(factor.T).gram(None if ratio is None else np.square(ratio))
        self._triangles: dict[float, Any] = {}
        if shifts is not None and len(np.unique(shifts)) <= _FEW_SHIFTS:
            with suppress(np.linalg.LinAlgError):
                self._triangles = {float(s): _lower_factor(gram, s) for s in np.unique(shifts)}
                return
        values, self._vectors = np.linalg.eigh(gram)
        self._values = np.maximum(values, 0.0)
        # Rounding of FᵀF hides smaller shifts.
        self._least = max(float(np.finfo(np.float64).eps * self._values.max(initial=0.0)), 1e-300)

    def __call__(self, v: NDArray[np.float64], shifts: NDArray[np.float64]) -> NDArray[np.float64]:
        """The inverse times v (n, C), with a shift (C,) for every column."""
        inner = times(self._factor, self._scaled(v))
        if self._triangles:
            for shift in np.unique(shifts):
                own, triangle = shifts == shift, self._triangles[float(shift)]
                inner[:, own] = linalg.cho_solve(triangle, inner[:, own], check_finite=False)
        else:
            shifts = np.maximum(shifts, self._least)
            rotated = inner.T @ self._vectors
            rotated /= self._values + shifts[:, None]
            inner = (rotated @ self._vectors.T).T
        return (v - self._scaled(times(self._factor.T, np.ascontiguousarray(inner)))) / shifts

    def _scaled(self, v: NDArray[np.float64]) -> NDArray[np.float64]:
        return v if self._ratio is None else self._ratio * v


def _lower_factor(gram: NDArray[np.float64], shift: float) -> Any:
    """The Cholesky factor of gram + shift I, for ``scipy.linalg.cho_solve``."""
    raised = gram + shift * np.eye(len(gram))
    return linalg.cho_factor(raised, lower=True, overwrite_a=True, check_finite=False)


def rank_for(n: int, available: int | None = None) -> int:
    """Rank 10 √n, less if ``available`` bytes are few; the factor costs a few products with K."""
    rank = _RANK * np.sqrt(n)
    available = available_memory() if available is None else available
    if available is not None:
        rank = min(rank, MEMORY_SHARE * available / (12.0 * n))
    return int(np.clip(rank, 1, n))


def pivots_of(
    design: KernelColumns,
    rank: int,
    key: int,
    root: NDArray[np.float64] | None = None,
    shift: float = 0.0,
) -> NDArray:
    """A factor F (rank, n) of √S K √S by randomly pivoted Cholesky.

    F is float32 where the shift hides its rounding, and float64 where it does not; without a shift
    it has the dtype of the design.
    ``root`` are √s, the square roots of the weights. There are at most ``rank`` pivots, and fewer
    for a large ``shift``, the least of any product.

    Díaz, Epperly, Frangella, Tropp and Webber (2023), Robust, randomized preconditioning for kernel
    ridge regression.
    """
    n = design.shape[0]
    check_memory(
        12.0 * n * (rank + 64.0) + 24.0 * rank * rank,
        f"a preconditioner of rank {rank} for {n} rows",
        "choose a smaller rank",
    )

    def columns(rows: NDArray[np.int64], out: NDArray) -> None:
        out[...] = design.rows(rows).toarray()  # symmetric: rows are columns, and in order
        if root is not None:
            out *= root
            out *= root[rows][:, None]

    diagonal = _diagonal(design, root)
    relative = shift / (diagonal.max(initial=0.0) or 1.0)
    dtype = np.float32 if relative >= _SINGLE_SHIFT else np.float64
    factor = GrowingFactor(diagonal, columns, rank, dtype)
    _grow(factor, design, key, root, shift)
    if 0 < relative < _ROUNDED_SHIFT:
        return factor.rows
    rounded = np.float32 if relative >= _ROUNDED_SHIFT else design.dtype
    return factor.rows.astype(rounded, copy=False)


def pivots_on_device(
    design: Any, rank: int, key: int, root: NDArray | None = None, shift: float = 0.0
) -> Any:
    """``pivots_of`` as a tensor on the device of a design."""
    from mercer.solvers.on_device import DeviceFactor  # which few need

    factor = DeviceFactor(design, _diagonal(design, root), root, rank)
    _grow(factor, design, key, root, shift)
    return factor.tensor


def _diagonal(design: KernelColumns, root: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """The diagonal of √S K √S."""
    return design.diagonal() * (1.0 if root is None else root**2)


def _grow(
    factor: GrowingFactor,
    design: KernelColumns,
    key: int,
    root: NDArray[np.float64] | None,
    shift: float,
) -> None:
    """Take pivots into an empty factor of √S K √S, as many as the shift wants."""
    trace = factor.trace_left() or 1.0
    enough = _ENOUGH * shift * design.shape[0] / trace
    cut_off = max(float(np.finfo(design.dtype).eps), enough)
    pivoted_cholesky(factor, kernel_blocks(design, root), key, min(cut_off, 0.5))


def kernel_blocks(
    design: KernelColumns, root: NDArray[np.float64] | None, dtype: DTypeLike = np.float64
) -> Callable[[NDArray[np.int64]], NDArray]:
    """Square blocks of √S K √S, symmetric bit for bit, by the numbers of rows."""

    def block(rows: NDArray[np.int64]) -> NDArray:
        entries = design.rows(rows).block(rows).astype(dtype, copy=False)
        entries = entries + entries.T
        entries *= 0.5
        return entries if root is None else entries * root[rows] * root[rows][:, None]

    return block


def weight_roots(problem: Problem) -> NDArray[np.float64] | None:
    """√s of the weights of the rows, (n,); None for ones."""
    return None if problem.weights is None else np.sqrt(on_host(problem.weights))
