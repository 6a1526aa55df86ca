"""Equations of Newton's method by rows: second derivatives, cached kernels and preconditioners."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.linalg import lapack

from mercer._runtime.device_arrays import contiguous, every_row
from mercer._runtime.threads import cholesky_in_place
from mercer.designs import Design, FixedPointKernel, KernelColumns
from mercer.designs.kernel_rows import times
from mercer.problem import Problem
from mercer.solvers.krylov import is_rough_enough, with_cached_kernel
from mercer.solvers.low_rank import pivots_of, pivots_on_device, rank_for

__all__ = ["Curvature", "Inverse", "Reweighted", "RowKernel", "Rows", "shifted_inverse", "sums"]

Rows = NDArray[np.float64]  # (n, k), of all outputs or of those at work
# A function of residuals and the places of their outputs among those at work.
Inverse = Callable[[Rows, NDArray[np.int64]], Rows]

_FLAT = 1e-10  # mean second derivative below which the constant term has no curvature
# Outputs up to which the factor of the kernel is weighted again in each step: per output this takes
# as long as a few products with the kernel for one output, or a hundred for many outputs in BLAS.
_FEW_OUTPUTS = 4
_SHARE_OF_RANK = 0.35  # rank relative to that of a squared loss, which is factorised only once
# Relative change of the entries of the scale D up to which a preconditioner is reused. It ignores
# rows that had no curvature before: with the squared hinge a reused one took 84 iterations instead
# of 6 (cod-rna, 10 000 rows).
_ALIKE = 0.3
_SHARE_WITH = 0.6  # largest share of rows with curvature for which a kernel of these rows pays
_HARD = 1000.0  # condition number of a step above which few outputs get a factor at once
_LONG = 60  # CG iterations of a step after which a factor, or a larger factor, pays
# Products with the kernel, per row and output, that take as long as a factor of the whole kernel:
# 83 for 2000 rows of 6 outputs.
_WORTH = 0.25
_NEAR = 4.0  # ratio of shifts up to which that factor is reused
_MORE = 4  # factor by which the rank of the preconditioner grows


class Curvature:
    """W = R Rᵀ at responses, R being a scale times a projection within every row."""

    def __init__(self, problem: Problem, responses: Rows, y: Rows):
        self._projection: Callable[[Rows], Rows] | None
        self.scale, self._projection = problem.loss.curvature_root(responses, y)
        self._has_intercept = problem.fit_intercept
        if problem.weights is not None:
            self.scale = self.scale * np.sqrt(problem.weights)[:, None]
        n, k = self.scale.shape
        if self._projection is None:
            total = np.einsum("ij,ij->j", self.scale, self.scale)
            # Where the loss is linear, a step of any length does; that of unit curvature is tried.
            self._of_constants = 1.0 / np.where(total > _FLAT * n, total, n)
        else:
            units = [every_row(np.eye(1, k, c), self.scale) for c in range(k)]
            total = np.stack([self.times(unit).sum(axis=0) for unit in units])
            total_weight = n if problem.weights is None else float(problem.weights.sum())
            # Mean eigenvalue of the mean of W over the rows, but for the one that is 0.
            self.typical = max(float(total.trace()) / (max(k - 1, 1) * total_weight), _FLAT)
            self._of_constants = np.linalg.pinv(total, rcond=_FLAT, hermitian=True)

    def of(self, columns: NDArray) -> Curvature:
        """Curvature of some independent outputs, by number or mask."""
        if self._projection is not None or self.scale.shape[1] == 1:
            return self
        other = copy(self)
        other.scale, other._of_constants = self.scale[:, columns], self._of_constants[columns]
        return other

    def among(self, rows: Any) -> Curvature:
        """Curvature of some rows; all others get 0."""
        other = copy(self)
        other.scale = self.scale[rows]
        return other

    def root(self, v: Rows) -> Rows:
        """R v."""
        return self.scale * (v if self._projection is None else self._projection(v))

    def transposed(self, v: Rows) -> Rows:
        """Rᵀ v."""
        scaled = self.scale * v
        return scaled if self._projection is None else self._projection(scaled)

    def times(self, v: Rows) -> Rows:
        """W v."""
        return self.root(self.transposed(v))

    def shift(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        """The constants c with sums of W c equal to the given ones; 0 without an intercept."""
        if not self._has_intercept:
            return np.zeros_like(sums)
        return (
            self._of_constants @ sums if self._of_constants.ndim == 2 else self._of_constants * sums
        )

    def mean(self, v: Rows) -> NDArray[np.float64]:
        """The constants c for which W (v − c) adds up to nothing."""
        return self.shift(self.times(v).sum(axis=0))

    def free(self, v: Rows) -> Rows:
        """W' v: W times v less the constants that the intercept takes."""
        return self.times(v - self.mean(v))

    def centred(self, v: Rows) -> Rows:
        """v less its part within Rᵀ 1, which the intercept takes, and within rows."""
        v = v if self._projection is None else self._projection(v)
        shift = self.shift(self.root(v).sum(axis=0))
        return v - self.transposed(every_row(shift, v)) if self._has_intercept else v


class Reweighted:
    """(D FᵀF D + ridge I)⁻¹, up to a factor, for the scale D of each output."""

    def __init__(self, factor: NDArray, scale: Rows, ridge: float, n_jobs: int):
        self._factor, self._scale, self._n_jobs = factor, scale, n_jobs
        self._inner = []
        eps = float(np.finfo(factor.dtype).eps)
        for column in scale.T:
            weighted = factor * column.astype(factor.dtype)
            inner = (weighted @ weighted.T).astype(np.float64)
            diagonal = inner.diagonal()
            # Raised by what rounding may have taken.
            inner[np.diag_indices(len(inner))] += ridge + eps * float(diagonal.sum())
            if not cholesky_in_place(inner):
                raise np.linalg.LinAlgError("the weighted factor has no inverse.")
            self._inner.append(inner.T)

    def __call__(self, v: Rows, places: NDArray[np.int64]) -> Rows:
        scale = self._scale[:, places]
        inner = times(self._factor, scale * v, self._n_jobs)
        for column, place in enumerate(places):
            inner[:, column] = lapack.dpotrs(self._inner[place], inner[:, column], lower=1)[0]
        return v - scale * times(self._factor.T, inner, self._n_jobs)


def shifted_inverse(
    problem: Problem, matrix: NDArray[np.float64], shift: float
) -> Callable[[Rows], Rows]:
    """√S (Q √S K √S Q + shift I)⁻¹ √S⁻¹ with the weights S, for sums of 0 if Q leaves out √S 1.

    The matrix K is overwritten.
    """
    n, root = problem.n_rows, np.ones((problem.n_rows, 1))
    if problem.weights is not None:
        root = np.sqrt(problem.weights)[:, None]
        matrix *= root
        matrix *= root.T
    matrix[np.diag_indices(n)] += shift
    if not cholesky_in_place(matrix):
        raise np.linalg.LinAlgError("the shifted kernel has no inverse.")
    factor, constant = (matrix.T, True), np.zeros((n, 1))
    if problem.fit_intercept:
        solved = linalg.cho_solve(factor, root, check_finite=False)
        constant = solved / np.vdot(root, solved)

    def inverse(v: Rows) -> Rows:
        scaled = np.divide(v, root, out=np.zeros_like(v), where=root > 0)
        solved = linalg.cho_solve(factor, scaled, overwrite_b=True, check_finite=False)
        return root * (solved - constant * (root.T @ solved))

    return inverse


class RowKernel:
    """Kernel of all rows, with the submatrices and preconditioners that steps cache.

    It serves all strengths of a path, of which ``least_alpha`` is the least.
    """

    def __init__(self, problem: Problem, least_alpha: float):
        curvature = max(1.0, problem.loss.lipschitz)  # of a row, in units of the squared loss's
        self._least_shift = problem.n_rows * least_alpha / curvature  # infinitely curved: 0
        rough = is_rough_enough(problem, 1.0, least_alpha / curvature)
        design = problem.design
        rough = rough and isinstance(design, KernelColumns) and FixedPointKernel.fits(design)
        self.design = design = with_cached_kernel(problem, "auto" if rough else True, rough).design
        self.columns = design if isinstance(design, KernelColumns) else None
        self.n_inner = 0  # conjugate-gradient iterations of the last step
        self._shifted: tuple[float, Callable[[Rows], Rows] | None] = 1.0, None  # shift, inverse
        self._n_products = 0  # of joint steps, since that factor was made
        self._dtype = np.dtype(problem.dtype)  # of products within a step
        self._factor: Any = None  # F, FᵀF being about K
        self._rank = 0  # most rows of F
        self._last: tuple[Any, Rows, Inverse] | None = None  # preconditioner: of what, of which D
        self._among: tuple[NDArray[np.int64], Design] | None = None  # kernel among some rows
        diagonal = 0.0 if self.columns is None else float(np.mean(self.columns.diagonal()))
        self._is_hard = problem.loss.lipschitz * diagonal > _HARD * least_alpha

    def product(self, v: Rows, kernel: Design | None = None) -> Rows:
        """K v, maybe of rounded entries; or by the kernel among some rows."""
        product = (kernel or self.design).matvec(contiguous(v, self._dtype))
        return product.astype(np.float64, copy=False)

    def rows_with(self, curvature: Curvature) -> tuple[Any, Design]:
        """Rows that have curvature, and the kernel among them; all where few are without."""
        every, n = (slice(None), self.design), len(curvature.scale)
        if self.columns is None or self.columns.device is not None:
            return every
        rows = np.flatnonzero(curvature.scale.any(axis=1))
        if not 0 < len(rows) <= _SHARE_WITH * n:
            return every
        if self._among is None or not np.array_equal(self._among[0], rows):
            self._among = None  # its memory is that of the next
            try:
                few = self.columns.among(rows)
                rounded = isinstance(self.columns, FixedPointKernel)
                self._among = rows, FixedPointKernel(few) if rounded else few
            except MemoryError:
                return every
        return self._among

    def inverse(
        self,
        problem: Problem,
        curvature: Curvature,
        rows: Any,
        ridge: float,
        columns: NDArray[np.int64],
    ) -> Inverse:
        """The preconditioner; that of a step before where second derivatives are about the same."""
        scale, now = curvature.scale, (ridge, columns.tobytes())
        if self._last is not None and self._last[0] == now and self.n_inner < _LONG:
            last = self._last[1]
            if np.all(np.abs(scale - last) <= _ALIKE * last):
                return self._last[2]
        few = scale.shape[1] <= _FEW_OUTPUTS and not problem.loss.joint
        inverse: Inverse | None = None
        if (few and self._is_hard) or self._factor is not None or self.n_inner >= _LONG:
            with suppress(np.linalg.LinAlgError, MemoryError):
                self._make_factor(problem)
                if self._factor is not None and self.columns is not None:
                    if self.columns.device is not None:
                        from mercer.solvers.on_device import reweighted  # which few need

                        inverse = reweighted(self._factor, scale, ridge)
                    else:
                        threads = self.columns.n_threads
                        factor = self._factor[:, rows]
                        inverse = Reweighted(factor, scale[rows], ridge, threads)
        self._last = None if inverse is None else (now, scale, inverse)
        return inverse or (lambda residual, places: residual)

    def shifted(self, problem: Problem, shift: float) -> Callable[[Rows], Rows] | None:
        """The inverse at about this shift, for one more product; None while products cost less.

        The matrix is factorised, for a first or another shift, once the products since the last
        time have taken as long: no step takes much more than twice the time of the best choice.
        """
        last, inverse = self._shifted
        self._n_products += 1
        is_near = inverse is not None and 1 / _NEAR <= shift / last <= _NEAR
        worth = _WORTH * problem.n_rows / problem.n_outputs
        if is_near or self.columns is None or self._n_products <= worth:
            return inverse
        self._n_products, self._shifted, inverse = 0, (shift, None), None  # free its memory
        with suppress(np.linalg.LinAlgError, MemoryError):
            matrix = self.columns.toarray().astype(np.float64)
            self._shifted = shift, shifted_inverse(problem, matrix, shift)
        return self._shifted[1]

    def _make_factor(self, problem: Problem) -> None:
        """The factor of the kernel; one of more rows where that of the last step was too short."""
        n = problem.n_rows
        if self.columns is None or (self._rank and self.n_inner < _LONG):
            return
        rank = self._rank * _MORE or int(np.ceil(_SHARE_OF_RANK * rank_for(n)))
        if self._rank < n:
            self._rank = min(rank, n)
            pivots = pivots_of if self.columns.device is None else pivots_on_device
            self._factor = pivots(self.columns, self._rank, 0, None, self._least_shift)
            if len(self._factor) < self._rank:  # as good as any
                self._rank = n


def sums(problem: Problem, array: NDArray) -> NDArray[np.float64]:
    """Sums over the rows of every output, (k,), or over all outputs of a joint loss, (1,)."""
    each = array.sum(axis=0)
    return each.sum(keepdims=True) if problem.loss.joint else each
