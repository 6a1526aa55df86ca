"""Approximate inverses of linear equations, for conjugate gradients.

Those of kernel machines are made once for the kernel and serve every strength of the penalty.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import linalg

from mercer._runtime.arrays import available_memory, check_memory, row_chunks
from mercer._runtime.device_arrays import device_of, on_host, placed
from mercer.designs import Dense, KernelColumns
from mercer.designs.kernel_rows import times
from mercer.equations import spans_all_rows
from mercer.equations.dense import upper_factor
from mercer.equations.factor import lower_in_place
from mercer.equations.pivoted import pivoted_lower
from mercer.maps.landmarks import GrowingFactor, pivoted_cholesky
from mercer.maps.partition import grown
from mercer.problem import Problem
from mercer.solvers.leaf_blocks import LeafBlocks

__all__ = [
    "POWERS",
    "KernelFactor",
    "LowRank",
    "Restricted",
    "given",
    "of_diagonal",
    "of_machine",
    "pivots_of",
    "pivots_on_device",
    "rank_for",
]

POWERS = {"tempered": 0.25, "jacobi": 1.0}  # power of the diagonal of ∇²F per preconditioner

Inverse = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]

_RANK = 10.0  # rank / √n at which the factor takes as long as a few products with K
_ENOUGH = 0.03  # diagonal residual / shift at which the factor suffices: few iterations remain
_SHARE = 0.2  # share of the available memory for the factor
_LEAF = 320  # most rows of a leaf: inverses of all leaves take as long as a few products with K
# Shift, relative to the diagonal, above which leaves cost more than they save, as there are few
# iterations: 8 instead of 12 at .3 (covtype), 12 instead of 31 at .03 (ijcnn1, 20 000 rows).
_MOST_SHIFT = 0.05
# Residual, in units of eps(float32), below which landmarks are dropped. Smaller thresholds amplify
# rounding, larger ones lose accuracy: F is .11 % above its minimum with this one, .16 % with a
# quarter or four times of it (cod-rna, 1200 landmarks).
_APART = 1.0
_STRIP = 512  # rows of a triangular matrix multiplied together
_WIDE = 2048  # columns of a strip copied together
_SINGLE = 2048  # side from which the second factor of landmarks is float32, to save time
_RAISED = 8.0  # added to a unit diagonal, in units of float32's precision
# Shift, relative to the largest diagonal entry, from which F may grow in float32, and from which it
# may be rounded to float32 once it is grown: the number of iterations stays the same. Rounding at a
# shift of 6e-5 made 20 iterations more than 100 (a robot arm, 6000 rows, Gaussian kernel).
_SINGLE_SHIFT, _ROUNDED_SHIFT = 1e-3, 3e-4
_FEW_SHIFTS = 8  # shifts up to which a triangular factor each takes less time than eigenvectors
_LEAST_SHIFT = 1e-6  # shift per row of a leaf below which a float32 inverse may be indefinite


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
        rows = pivots_of(design, most, key, _root(problem), n * alpha)
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
    n, design, root = problem.n_rows, penalty.matrix, _root(problem)
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


def _root(problem: Problem) -> NDArray[np.float64] | None:
    """√s of the weights of the rows, (n,); None for ones."""
    return None if problem.weights is None else np.sqrt(on_host(problem.weights))


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
        rank = min(rank, _SHARE * available / (12.0 * n))
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
    pivoted_cholesky(factor, _blocks(design, root), key, min(cut_off, 0.5))


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


def pivots_on_device(
    design: Any, rank: int, key: int, root: NDArray | None = None, shift: float = 0.0
) -> Any:
    """``pivots_of`` as a tensor on the device of a design."""
    from mercer.solvers.on_device import DeviceFactor  # which few need

    factor = DeviceFactor(design, _diagonal(design, root), root, rank)
    _grow(factor, design, key, root, shift)
    return factor.tensor


def suits_leaves(
    design: KernelColumns,
    factor: NDArray,
    root: NDArray[np.float64] | None,
    alphas: list[float],
) -> bool:
    """Whether leaves pay, for one strength, may be inverted in float32, and fit in memory."""
    weights = np.ones(1) if root is None else root**2
    diagonal = design.diagonal()
    least = _LEAST_SHIFT * _LEAF * weights.max() * diagonal.max(initial=0.0)
    most = _MOST_SHIFT * float(np.mean(weights * diagonal))
    available = available_memory()
    fits = available is None or _bytes_of_leaves(design, factor) <= _SHARE * available
    is_between = bool(least <= design.shape[0] * alphas[0] <= most)
    return design.has_numbers and len(alphas) == 1 and is_between and fits


def in_leaves(
    design: KernelColumns,
    factor: NDArray,
    key: int,
    root: NDArray[np.float64] | None,
    shift: float,
) -> LeafBlocks:
    """The preconditioner of a factor of √S K √S and of the rows of leaves, cut by a random tree."""
    n, remedy = design.shape[0], "choose preconditioner='rpcholesky'"
    if not design.has_numbers:
        raise ValueError(f"preconditioner must not be 'leaves' for texts; {remedy}.")
    check_memory(_bytes_of_leaves(design, factor), f"the kernel within leaves of {n} rows", remedy)
    leaves = grown(design.points(), _LEAF, 1, 0.0, key, design.n_threads)[1]
    leaf_of = np.empty(n, dtype=np.int64)  # a row at a cut is in two leaves, and goes to the later
    leaf_of[leaves.order] = np.repeat(np.arange(len(leaves)), np.diff(leaves.starts))
    block = _blocks(design, root, np.float32)
    return LeafBlocks(factor, leaf_of, block, shift, design.n_threads)


def _bytes_of_leaves(design: KernelColumns, factor: NDArray) -> float:
    """Bytes of rows, inverses of leaves (at least half full) and the reordered factor."""
    return 8.0 * factor.shape[1] * (_LEAF + len(factor)) + design.n_bytes_of_points


def _blocks(
    design: KernelColumns, root: NDArray[np.float64] | None, dtype: DTypeLike = np.float64
) -> Callable[[NDArray[np.int64]], NDArray]:
    """Square blocks of √S K √S, symmetric bit for bit, by the numbers of rows."""

    def block(rows: NDArray[np.int64]) -> NDArray:
        entries = design.rows(rows).block(rows).astype(dtype, copy=False)
        entries = entries + entries.T
        entries *= 0.5
        return entries if root is None else entries * root[rows] * root[rows][:, None]

    return block


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
        inner = np.empty((r, r))
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
