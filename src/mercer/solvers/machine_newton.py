"""Newton's method for kernel machines of all rows, in the coefficients of the rows.

A loss of the responses u = K a + b has slopes g and second derivatives W = R Rᵀ, row by row and
with their weights. At the minimum the residual r = −(g + n alpha a) is zero, and so is the sum of
g. With W less what a constant takes of it, W', a step is

    (W' K + n alpha) δ = r - W db,   δ = (r - W db) / (n alpha) + R γ,
    (Rᵀ K R + n alpha) γ = −Rᵀ K (r - W db) / (n alpha)

where db is the step of the intercept for δ = 0. Conjugate gradients find γ: these are the equations
of a weighted squared loss, as well conditioned as the kernel matrix and not as its square. Rows
without curvature are solved by the first term of δ alone: γ is 0 there, and its equations are those
of the kernel among the other rows.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.device_arrays import contiguous, every_row, on_host, zeros
from mercer.designs import Design, FixedPointKernel, KernelColumns
from mercer.equations import spans_all_rows
from mercer.losses import Loss
from mercer.penalties import RKHSNorm
from mercer.problem import Problem
from mercer.solvers.base import Clock, OutOfRange, State, check_range
from mercer.solvers.krylov import is_rough_enough, with_cached_kernel
from mercer.solvers.machine_curvature import Curvature, Reweighted, Rows, sums
from mercer.solvers.preconditioners import pivots_of, pivots_on_device, rank_for

__all__ = ["MachineNewton", "MachineState", "is_by_rows", "suits_rows"]

# A function of residuals and the places of their outputs among those at work.
Inverse = Callable[[Rows, NDArray[np.int64]], Rows]

_COARSE = 1e-3  # tol from which float32 sums of products are accurate enough for the responses
_TRIALS = 30  # most trial step lengths in a line search
_SHORTER = 0.05  # least distance of a trial from the ends of the interval, as a share of its length
_FLAT_SLOPE = 0.5  # slope of F at the end of a step, relative to its start, that ends the search
_IDLE = 3  # consecutive steps without a smaller residual that end the solver
_NOISE = 10.0 * float(np.finfo(np.float64).eps)  # relative rounding error of F
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
_MORE = 4  # factor by which the rank of the preconditioner grows
_SAMPLE = 4  # rows per row of the sample whose machine gives the first iterate
_FEWEST = 500  # least number of rows of that sample
_OF_SAMPLE = 0.1  # tol of the machine of the sample: its distance to the solution is larger


def is_by_rows(problem: Problem) -> bool:
    """Whether this file has the method for a problem."""
    suits = suits_rows(problem.loss) and "vectors of rows" in problem.capabilities
    return suits and spans_all_rows(problem) and problem.penalty.alpha > 0


def suits_rows(loss: Loss) -> bool:
    """Whether this file has the method for a loss."""
    return loss.convex and loss.smooth and not loss.quadratic


@dataclass(kw_only=True)
class MachineState(State):
    """A point. Numbers of outputs are (k,), or (1,) for the outputs of a joint loss together."""

    machine: MachineNewton
    coefficients: Rows  # a
    linear: Rows  # K a
    intercept: NDArray[np.float64]  # b
    slopes: Rows  # g
    values: NDArray[np.float64]  # F
    relative: NDArray[np.float64]
    least: NDArray[np.float64]  # the least of ``relative`` so far
    idle: int = 0  # steps in a row that made neither ``least`` nor F smaller

    @property
    def coef(self) -> NDArray:
        """θ."""
        problem = self.problem
        theta = np.empty((problem.shape[0], problem.n_outputs), dtype=problem.dtype)
        problem.weights_of(theta)[...] = on_host(self.coefficients)
        if problem.fit_intercept:
            theta[-1] = self.intercept
        return theta.reshape(problem.shape)

    @property
    def n_nonzero(self) -> int:
        """Non-zero entries of θ."""
        counted = np.count_nonzero(self.coefficients.astype(self.problem.dtype, copy=False))
        if self.problem.fit_intercept:
            counted += np.count_nonzero(self.intercept)
        return int(counted)

    @property
    def objective(self) -> float:
        """F, summed over the outputs."""
        return float(np.sum(self.values))


class MachineNewton:
    """The method for the machines of one kernel matrix, whose factor serves all strengths."""

    def __init__(
        self, problem: Problem, tol: float, forcing: float, max_inner: int, least_alpha: float
    ):
        curvature = max(1.0, problem.loss.lipschitz)  # of a row, in units of the squared loss's
        self._least_shift = problem.n_rows * least_alpha / curvature  # infinitely curved: 0
        rough = is_rough_enough(problem, 1.0, least_alpha / curvature)
        design = problem.design
        rough = rough and isinstance(design, KernelColumns) and FixedPointKernel.fits(design)
        self._design = design = with_cached_kernel(problem, "auto" if rough else True, rough).design
        self._kernel = design if isinstance(design, KernelColumns) else None
        self._tol, self._forcing, self._max_inner = tol, forcing, max_inner
        self._dtype = np.dtype(problem.dtype)  # of products within a step
        self._is_fine = tol < _COARSE and self._dtype != np.float64
        self._factor: Any = None  # F, FᵀF being about K
        self._rank = 0  # most rows of F
        self._last: tuple[Any, Rows, Inverse] | None = None  # preconditioner: of what, of which D
        self._n_inner = 0  # iterations of the last step
        self._among: tuple[NDArray[np.int64], Design] | None = None  # kernel among some rows
        diagonal = 0.0 if self._kernel is None else float(np.mean(self._kernel.diagonal()))
        self._is_hard = problem.loss.lipschitz * diagonal > _HARD * least_alpha
        self._y = problem.y.reshape(problem.n_rows, -1).astype(np.float64)
        weights = np.ones_like(self._y[:, 0]) if problem.weights is None else problem.weights
        self._weights = weights[:, None]
        self._reference = self._of_constant(problem)

    def _of_constant(self, problem: Problem) -> NDArray[np.float64]:
        """The norm of r of the best constant model."""
        start = np.zeros_like(self._y)
        if problem.fit_intercept:
            start += problem.initial()[-1]
        norm = self._norm(problem, self._slopes(problem, start))
        size = np.sqrt(sums(problem, self._weights * np.square(self._y)))
        return np.where(norm <= 4 * float(np.finfo(problem.dtype).eps) * size, np.inf, norm)

    def init(self, problem: Problem, theta: NDArray, clock: Clock) -> MachineState:
        """The state at θ; where it has no weights, at the machine of a sample, which costs less."""
        both = theta.reshape(len(theta), -1).astype(np.float64)
        a = problem.weights_of(both)
        state = MachineState(
            problem=problem,
            clock=clock,
            x=theta,
            machine=self,
            coefficients=a,
            linear=np.zeros_like(a),
            intercept=on_host(both[-1]) if problem.fit_intercept else np.zeros(a.shape[1]),
            slopes=a,
            values=np.zeros(1),
            relative=np.full(len(self._reference), np.inf),
            least=np.full(len(self._reference), np.inf),
        )
        begins = not np.any(a)
        with clock.phase("gradient"):
            self._look(problem, state, anew=not begins)
        if begins:
            with clock.phase("start"), suppress(MemoryError, OutOfRange):
                self._begin(problem, state)
        return state

    def _begin(self, problem: Problem, state: MachineState) -> None:
        """Go to the machine of a sample of the rows, for outputs whose F is less there."""
        weighted = np.flatnonzero(self._weights[:, 0]) if problem.device is None else np.arange(0)
        chosen = weighted[::_SAMPLE]
        if self._kernel is None or len(chosen) < _FEWEST:
            return
        few, alpha = self._kernel.among(chosen), problem.penalty.alpha
        weights, norm = self._weights[chosen, 0], RKHSNorm(alpha, few)
        sample = Problem(few, problem.y[chosen], problem.loss, norm, weights, problem.fit_intercept)
        machine = MachineNewton(sample, _OF_SAMPLE, self._forcing, self._max_inner, alpha)
        start = machine.init(sample, sample.initial(), Clock())
        while start.optimality > _OF_SAMPLE and not start.stalled:
            machine.step(sample, start)
        there = replace(state, coefficients=np.zeros_like(state.coefficients))
        there.coefficients[chosen], there.intercept = start.coefficients, start.intercept
        there.linear = self._product(there.coefficients)
        self._look(problem, there, anew=self._is_fine)
        falls = there.values < state.values
        for name in ("coefficients", "linear", "intercept"):
            setattr(state, name, np.where(falls, getattr(there, name), getattr(state, name)))
        self._look(problem, state, anew=False)

    def _look(self, problem: Problem, state: MachineState, anew: bool) -> None:
        """Update the state from the coefficients; the responses, too, if ``anew``."""
        if anew:
            state.linear = self._design.matvec(state.coefficients)
        u = state.linear + state.intercept
        state.slopes = self._slopes(problem, u)
        square = sums(problem, state.coefficients * state.linear)
        state.values = self._losses(problem, u) + 0.5 * problem.penalty.alpha * square
        residual = self._residual(problem, state)
        norm = self._norm(problem, residual)
        if problem.fit_intercept:
            total = sums(problem, np.square(state.slopes.sum(axis=0, keepdims=True)))
            norm = np.hypot(norm, np.sqrt(total / problem.n_rows))
        state.relative = norm / self._reference
        state.optimality = float(state.relative.max())

    def step(self, problem: Problem, state: MachineState) -> None:
        """One step of Newton's method, as far along as F falls enough."""
        with state.clock.phase("inner"):
            change, linear, shift = self._solution(problem, state)
        before = state.values
        with state.clock.phase("gradient"):
            length = self._length(problem, state, change, linear, shift)
            state.coefficients = state.coefficients + length * change
            state.linear = state.linear + length * linear
            state.intercept = state.intercept + length * shift
            self._look(problem, state, anew=self._is_fine)
            if state.optimality <= self._tol and not self._is_fine:  # by sums of products
                self._look(problem, state, anew=True)
        check_range(problem, state.values)
        # The residual may rise for some steps; F falls until rounding rules.
        better = (state.relative < state.least) | (state.values < (1.0 - _NOISE) * before)
        state.least = np.minimum(state.least, state.relative)
        state.idle = 0 if np.any(better & (length > 0)) else state.idle + 1
        if state.idle >= _IDLE or not np.any(length):
            state.stalled = f"stalled at the limit of {problem.dtype}"

    # -- the equations of a step -----------------------------------------------------------------

    def _solution(
        self, problem: Problem, state: MachineState
    ) -> tuple[Rows, Rows, NDArray[np.float64]]:
        """δ, K δ and the step of the intercept; zeros for outputs that are solved."""
        ridge = problem.n_rows * problem.penalty.alpha
        at_work = state.relative > self._tol
        columns = np.flatnonzero(np.broadcast_to(at_work, state.coefficients.shape[1:]))
        curvature = Curvature(problem, state.linear + state.intercept, self._y).of(columns)
        slopes, residual = state.slopes[:, columns], self._residual(problem, state)[:, columns]
        forcing = np.minimum(self._forcing, np.sqrt(state.relative[at_work]))
        goal = forcing * np.sqrt(sums(problem, np.square(residual)))
        goal = np.maximum(goal, 0.5 * self._tol * self._reference[at_work])
        shift = -curvature.shift(slopes.sum(axis=0))
        of_shift = curvature.times(every_row(shift, residual))
        change = (residual - of_shift) / ridge
        linear = self._product(change)
        fall, lean = sums(problem, residual * linear), shift - curvature.mean(linear)
        rows, kernel = self._rows_with(curvature)
        part = curvature.among(rows)

        def rises(moved: Rows, product: Rows) -> NDArray[np.bool_]:
            along = fall + sums(problem, ridge * linear[rows] * moved + of_shift[rows] * product)
            of_intercept = slopes.sum(axis=0) * (lean - part.mean(product))
            return along <= sums(problem, of_intercept[None])

        inverse = self._inverse(problem, curvature, rows, ridge, columns)
        moved, product = self._inner(
            problem, part, kernel, ridge, goal, linear[rows], rises, inverse
        )
        change[rows] += moved
        if kernel is not self._design:
            everywhere = np.zeros_like(change)
            everywhere[rows] = moved
            product = self._product(everywhere)
        linear += product
        shift = shift - curvature.mean(linear)
        full: list[NDArray[np.float64]] = []
        for each in (change, linear, shift):
            full.append(zeros((*each.shape[:-1], state.coefficients.shape[1]), np.float64, each))
            full[-1][..., columns] = each
        return full[0], full[1], full[2]

    def _inner(
        self,
        problem: Problem,
        curvature: Curvature,
        kernel: Design,
        ridge: float,
        goal: NDArray[np.float64],
        linear: Rows,
        rises: Callable[[Rows, Rows], NDArray[np.bool_]],
        inverse: Inverse,
    ) -> tuple[Rows, Rows]:
        """R γ and K R γ by conjugate gradients, where ``linear`` is K δ for the first term of δ.

        They end with ‖R ρ‖ ≤ goal for the residual ρ, and not while F ``rises`` along the step.
        """
        gamma, image_of = np.zeros_like(linear), np.zeros_like(linear)
        residual = -curvature.transposed(linear - curvature.mean(linear))
        groups, direction, slope = np.arange(len(goal)), residual, np.zeros(len(goal))
        for count in range(self._max_inner):
            self._n_inner = count
            keep = np.sqrt(sums(problem, np.square(curvature.root(residual)))) > goal[groups]
            if not keep.all():
                keep |= rises(gamma, image_of)[groups]
            if not keep.any():
                break
            if not keep.all():
                groups, slope, curvature = groups[keep], slope[keep], curvature.of(keep)
                residual, direction = residual[:, keep], direction[:, keep]
            places = np.arange(residual.shape[1]) if problem.loss.joint else groups
            steepest = curvature.centred(inverse(residual, places))
            last, slope = slope, sums(problem, residual * steepest)
            direction = steepest + slope / last * direction if count else steepest
            moved = curvature.root(direction)
            product = self._product(moved, kernel)
            image = curvature.transposed(product - curvature.mean(product)) + ridge * direction
            bend = sums(problem, direction * image)
            check_range(problem, bend)
            length = np.divide(slope, bend, out=np.zeros_like(bend), where=bend > 0)
            gamma[:, places] += length * moved
            image_of[:, places] += length * product
            residual = residual - length * image
            if not length.any():
                break
        return gamma, image_of

    def _rows_with(self, curvature: Curvature) -> tuple[Any, Design]:
        """Rows that have curvature, and the kernel among them; all where few are without."""
        every, n = (slice(None), self._design), len(curvature.scale)
        if self._kernel is None or self._kernel.device is not None:
            return every
        rows = np.flatnonzero(curvature.scale.any(axis=1))
        if not 0 < len(rows) <= _SHARE_WITH * n:
            return every
        if self._among is None or not np.array_equal(self._among[0], rows):
            self._among = None  # its memory is that of the next
            try:
                few = self._kernel.among(rows)
                rounded = isinstance(self._kernel, FixedPointKernel)
                self._among = rows, FixedPointKernel(few) if rounded else few
            except MemoryError:
                return every
        return self._among

    def _inverse(
        self,
        problem: Problem,
        curvature: Curvature,
        rows: Any,
        ridge: float,
        columns: NDArray[np.int64],
    ) -> Inverse:
        """The preconditioner; that of a step before where second derivatives are about the same."""
        scale, now = curvature.scale, (ridge, columns.tobytes())
        if self._last is not None and self._last[0] == now and self._n_inner < _LONG:
            last = self._last[1]
            if np.all(np.abs(scale - last) <= _ALIKE * last):
                return self._last[2]
        few = scale.shape[1] <= _FEW_OUTPUTS and not problem.loss.joint
        inverse: Inverse | None = None
        if (few and self._is_hard) or self._factor is not None or self._n_inner >= _LONG:
            with suppress(np.linalg.LinAlgError, MemoryError):
                self._make_factor(problem)
                if self._factor is not None and self._kernel is not None:
                    if self._kernel.device is not None:
                        from mercer.solvers.on_device import reweighted  # which few need

                        inverse = reweighted(self._factor, scale, ridge)
                    else:
                        threads = self._kernel.n_threads
                        factor = self._factor[:, rows]
                        inverse = Reweighted(factor, scale[rows], ridge, threads)
        self._last = None if inverse is None else (now, scale, inverse)
        return inverse or (lambda residual, places: residual)

    def _make_factor(self, problem: Problem) -> None:
        """The factor of the kernel; one of more rows where that of the last step was too short."""
        n = problem.n_rows
        if self._kernel is None or (self._rank and self._n_inner < _LONG):
            return
        rank = self._rank * _MORE or int(np.ceil(_SHARE_OF_RANK * rank_for(n)))
        if self._rank < n:
            self._rank = min(rank, n)
            pivots = pivots_of if self._kernel.device is None else pivots_on_device
            self._factor = pivots(self._kernel, self._rank, 0, None, self._least_shift)
            if len(self._factor) < self._rank:  # as good as any
                self._rank = n

    # -- rows ------------------------------------------------------------------------------------

    def _product(self, v: Rows, kernel: Design | None = None) -> Rows:
        """K v for the equations of a step, maybe rounded; or with the kernel among some rows."""
        product = (kernel or self._design).matvec(contiguous(v, self._dtype))
        return product.astype(np.float64, copy=False)

    def _slopes(self, problem: Problem, u: Rows) -> Rows:
        return self._weights * problem.loss.gradient(u, self._y)

    def _losses(self, problem: Problem, u: Rows) -> NDArray[np.float64]:
        """Mean losses, one per group."""
        return np.atleast_1d(problem.row_mean(problem.loss.value(u, self._y)))

    def _residual(self, problem: Problem, state: MachineState) -> Rows:
        ridge = problem.n_rows * problem.penalty.alpha
        return -(state.slopes + ridge * state.coefficients)

    def _norm(self, problem: Problem, residual: Rows) -> NDArray[np.float64]:
        """Norms of S^(-1/2) r, that of the squared loss; rows of weight 0 are solved in a step."""
        squares = np.square(residual)
        np.divide(squares, self._weights, out=squares, where=self._weights > 0)
        return np.sqrt(sums(problem, squares))

    def _length(
        self,
        problem: Problem,
        state: MachineState,
        change: Rows,
        linear: Rows,
        shift: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Step length per group from the line search; 0 if F does not decrease.

        A secant leads back where F rises too steeply; the step doubles where F still falls steeply.
        """
        alpha, a, moved = problem.penalty.alpha, state.coefficients, linear + shift
        pairs = ((a, state.linear), (a, linear), (change, linear))
        square, cross, bend = (alpha * sums(problem, v * w) for v, w in pairs)

        def look(length: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
            u = state.linear + state.intercept + length * moved
            slope = sums(problem, self._slopes(problem, u) * moved) / problem.n_rows
            value = self._losses(problem, u) + 0.5 * square
            value += length * (cross + 0.5 * length * bend)
            return value, slope + cross + length * bend

        most = state.values + _NOISE * np.abs(state.values)
        low, fall = np.zeros_like(most), look(np.zeros_like(most))[1]
        slope_low, high, slope_high = fall, np.full_like(most, np.inf), fall
        terms = sums(problem, np.abs(state.slopes * moved)) / problem.n_rows
        flat = _FLAT_SLOPE * np.abs(fall) + _NOISE * (terms + np.abs(cross))
        length = np.where(fall < 0, 1.0, 0.0)
        for trial in range(_TRIALS):
            value, slope = look(length)
            fallen = value <= most
            done = (fallen & (np.abs(slope) <= flat)) | (fall >= 0)
            if done.all():
                return length
            short = fallen & (slope < 0)
            low, slope_low = np.where(short, length, low), np.where(short, slope, slope_low)
            high, slope_high = np.where(short, high, length), np.where(short, slope_high, slope)
            share = slope_low / np.where(slope_high > slope_low, slope_low - slope_high, np.inf)
            if trial % 2:  # secants alone may take for ever
                share = np.where(low > 0, 0.5, _SHORTER)
            within = low + np.clip(share, _SHORTER, 1 - _SHORTER) * (high - low)
            length = np.where(done, length, np.where(np.isfinite(high), within, 2 * length))
        return np.where(done, length, low)
