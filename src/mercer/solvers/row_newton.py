"""Newton's method for kernel machines of all rows, in the coefficients of the rows.

A loss of the responses u = K a + b has slopes g and second derivatives W = R Rᵀ, row by row and
with their weights. At the minimum the residual r = −(g + n alpha a) is zero, and so is the sum of
g. With W less what a constant takes of it, W', a step is

    (W' K + n alpha) δ = r - W db,   δ = (r - W db) / (n alpha) + R γ,
    (Rᵀ K R + n alpha) γ = −Rᵀ K (r - W db) / (n alpha)

where db is the step of the intercept for δ = 0. Conjugate gradients find γ: these are the equations
of a weighted squared loss, as well conditioned as the kernel matrix and not as its square. Rows
without curvature are solved by the first term of δ alone: γ is 0 there, and its equations are those
of the kernel among the other rows. Of joint losses, steps of a few thousand rows are those of
``joint_steps``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.device_arrays import every_row, on_host, zeros
from mercer._runtime.validation import number_at_least_0, positive_integer
from mercer.designs import Design
from mercer.equations import spans_all_rows
from mercer.losses import Loss
from mercer.penalties import RKHSNorm
from mercer.problem import Problem
from mercer.solvers.base import Clock, OutOfRange, Solver, State, check_range
from mercer.solvers.joint_steps import joint_step, suits_functions
from mercer.solvers.newton import NewtonCG
from mercer.solvers.row_equations import Curvature, Inverse, RowKernel, Rows, sums

__all__ = ["RowNewton", "is_by_rows", "newton_for", "suits_rows"]

_COARSE = 1e-3  # tol from which float32 sums of products are accurate enough for the responses
_TRIALS = 30  # most trial step lengths in a line search
_SHORTER = 0.05  # least distance of a trial from the ends of the interval, as a share of its length
_FLAT_SLOPE = 0.5  # slope of F at the end of a step, relative to its start, that ends the search
_IDLE = 3  # consecutive steps without a smaller residual that end the solver
_NOISE = 10.0 * float(np.finfo(np.float64).eps)  # relative rounding error of F
_SAMPLE = 4  # rows per row of the sample whose machine gives the first iterate
_FEWEST = 500  # least number of rows of that sample
_OF_SAMPLE = 0.1  # tol of the machine of the sample: its distance to the solution is larger


def suits_rows(loss: Loss) -> bool:
    """True for losses that are convex and smooth, and not quadratic."""
    return loss.convex and loss.smooth and not loss.quadratic


def is_by_rows(problem: Problem) -> bool:
    """True for a kernel machine of all rows if its loss suits rows and alpha > 0."""
    suits = suits_rows(problem.loss) and "vectors of rows" in problem.capabilities
    return suits and spans_all_rows(problem) and problem.penalty.alpha > 0


@dataclass(kw_only=True)
class _State(State):
    """A point. Numbers of outputs are (k,), or (1,) for the outputs of a joint loss together."""

    kernel: RowKernel
    y: Rows
    weights: Rows  # (n, 1)
    reference: NDArray[np.float64]  # norm of r of the best constant model
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

    @property
    def residual(self) -> Rows:
        """r = −(g + n alpha a)."""
        ridge = self.problem.n_rows * self.problem.penalty.alpha
        return -(self.slopes + ridge * self.coefficients)

    def slopes_at(self, u: Rows) -> Rows:
        """g at responses u."""
        return self.weights * self.problem.loss.gradient(u, self.y)

    def losses(self, u: Rows) -> NDArray[np.float64]:
        """Mean losses, one per group."""
        return np.atleast_1d(self.problem.row_mean(self.problem.loss.value(u, self.y)))

    def norm(self, residual: Rows) -> NDArray[np.float64]:
        """Norms of S^(-1/2) r, that of the squared loss; rows of weight 0 are solved in a step."""
        squares = np.square(residual)
        np.divide(squares, self.weights, out=squares, where=self.weights > 0)
        return np.sqrt(sums(self.problem, squares))


@dataclass
class RowNewton(Solver):
    """Newton's method for the kernel machine of all rows, in the coefficients of the rows.

    For convex, smooth losses that are not quadratic and the penalty ``RKHSNorm`` of the design
    itself. Steps are those of a weighted squared loss, cut short where F rises; the inner conjugate
    gradients have a factor of the kernel for a preconditioner, weighted anew in every step.

    Parameters
    ----------
    tol : float, default=1e-4
        Stop when the residual s ℓ' + n alpha a of the equations of the rows is, in norm, at most
        tol times that of the best constant model, for every output.
    max_iter : int, default=1000
        Most steps.
    inner_tol : float, default=0.1
        Residual of the inner conjugate gradients relative to that of the step.
    max_inner : int, default=500
        Most conjugate-gradient iterations in a step.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import designs, kernels, losses, penalties, solvers
    >>> from mercer.problem import Problem
    >>> X = np.array([[-1.0], [1.0]])
    >>> design = designs.KernelColumns(X, kernels.Gaussian(0.5))
    >>> penalty = penalties.RKHSNorm(0.1, design)
    >>> problem = Problem(design, [-1.0, 1.0], losses.Logistic(), penalty)
    >>> solvers.RowNewton(tol=1e-8).solve(problem).coef.round(3)
    array([-1.259,  1.259,  0.   ])
    """

    inner_tol: float = 0.1
    max_inner: int = 500

    name: ClassVar[str] = "row-newton"
    follows_design: ClassVar[bool] = True
    requires: ClassVar[frozenset[str]] = frozenset(
        {"a penalty of linear gradient", "a smooth loss", "a convex loss", "vectors of rows"}
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.inner_tol = number_at_least_0(self.inner_tol, "inner_tol")
        self.max_inner = positive_integer(self.max_inner, "max_inner")

    def criterion(self, problem: Problem) -> str:
        return "residual"

    def share(self, problem: Problem, alphas: list[float], clock: Clock) -> tuple[RowKernel]:
        """The kernel, in memory for all strengths."""
        if not is_by_rows(problem) or not min(alphas) > 0:
            raise ValueError(
                "row-newton needs the kernel machine of all rows with a loss that is not quadratic "
                f"and alpha > 0; got loss {problem.loss.name!r} and penalty "
                f"{problem.penalty.name!r}: use 'newton-cg'."
            )
        with clock.phase("hold"):
            return (RowKernel(problem, min(alphas)),)

    def init(
        self, problem: Problem, theta: NDArray, clock: Clock, kernel: RowKernel | None = None
    ) -> _State:
        """The state at θ; where it has no weights, at the machine of a sample, which costs less."""
        if kernel is None:
            (kernel,) = self.share(problem, [problem.penalty.alpha], clock)
        both = theta.reshape(len(theta), -1).astype(np.float64)
        a = problem.weights_of(both)
        y = problem.y.reshape(problem.n_rows, -1).astype(np.float64)
        weights = np.ones_like(y[:, 0]) if problem.weights is None else problem.weights
        unknown = np.full(1 if problem.loss.joint else a.shape[1], np.inf)
        state = _State(
            problem=problem,
            clock=clock,
            x=theta,
            kernel=kernel,
            y=y,
            weights=weights[:, None],
            reference=unknown,
            coefficients=a,
            linear=np.zeros_like(a),
            intercept=on_host(both[-1]) if problem.fit_intercept else np.zeros(a.shape[1]),
            slopes=a,
            values=np.zeros(1),
            relative=unknown,
            least=unknown,
        )
        begins = not np.any(a)
        with clock.phase("gradient"):
            state.reference = _of_constant(problem, state)
            self._look(problem, state, anew=not begins)
        if begins:
            with clock.phase("start"), suppress(MemoryError, OutOfRange):
                self._begin(problem, state)
        return state

    def _begin(self, problem: Problem, state: _State) -> None:
        """Go to the machine of a sample of the rows, for outputs whose F is less there."""
        weighted = np.flatnonzero(state.weights[:, 0]) if problem.device is None else np.arange(0)
        chosen = weighted[::_SAMPLE]
        kernel = state.kernel.columns
        if kernel is None or len(chosen) < _FEWEST:
            return
        few, alpha = kernel.among(chosen), problem.penalty.alpha
        weights, norm = state.weights[chosen, 0], RKHSNorm(alpha, few)
        y, loss = problem.y[chosen], problem.loss.among(chosen)
        sample = Problem(few, y, loss, norm, weights, problem.fit_intercept)
        solver = replace(self, tol=_OF_SAMPLE)
        start = solver.init(sample, sample.initial(), Clock(), RowKernel(sample, alpha))
        while start.optimality > _OF_SAMPLE and not start.stalled:
            solver.step(sample, start)
        there = replace(state, coefficients=np.zeros_like(state.coefficients))
        there.coefficients[chosen], there.intercept = start.coefficients, start.intercept
        there.linear = state.kernel.product(there.coefficients)
        self._look(problem, there, anew=self._is_fine(problem))
        falls = there.values < state.values
        for name in ("coefficients", "linear", "intercept"):
            setattr(state, name, np.where(falls, getattr(there, name), getattr(state, name)))
        self._look(problem, state, anew=False)

    def _look(self, problem: Problem, state: _State, anew: bool) -> None:
        """Update the state from the coefficients; the responses, too, if ``anew``."""
        if anew:
            state.linear = state.kernel.design.matvec(state.coefficients)
        u = state.linear + state.intercept
        state.slopes = state.slopes_at(u)
        square = sums(problem, state.coefficients * state.linear)
        state.values = state.losses(u) + 0.5 * problem.penalty.alpha * square
        residual = state.residual
        norm = state.norm(residual)
        if problem.fit_intercept:
            total = sums(problem, np.square(state.slopes.sum(axis=0, keepdims=True)))
            norm = np.hypot(norm, np.sqrt(total / problem.n_rows))
        state.relative = norm / state.reference
        state.optimality = float(state.relative.max())

    def step(self, problem: Problem, state: _State) -> None:
        """One step of Newton's method, as far along as F falls enough."""
        with state.clock.phase("inner"):
            change, linear, shift = self._solution(problem, state)
        before = state.values
        with state.clock.phase("gradient"):
            length = _length(problem, state, change, linear, shift)
            state.coefficients = state.coefficients + length * change
            state.linear = state.linear + length * linear
            state.intercept = state.intercept + length * shift
            self._look(problem, state, anew=self._is_fine(problem))
            if state.optimality <= self.tol and not self._is_fine(problem):  # by sums of products
                self._look(problem, state, anew=True)
        check_range(problem, state.values)
        # The residual may rise for some steps; F falls until rounding rules.
        better = (state.relative < state.least) | (state.values < (1.0 - _NOISE) * before)
        state.least = np.minimum(state.least, state.relative)
        state.idle = 0 if np.any(better & (length > 0)) else state.idle + 1
        if state.idle >= _IDLE or not np.any(length):
            state.stalled = f"stalled at the limit of {problem.dtype}"

    def _is_fine(self, problem: Problem) -> bool:
        """True if sums of float32 products are too rough for ``tol``."""
        return self.tol < _COARSE and problem.dtype != np.float64

    def _solution(self, problem: Problem, state: _State) -> tuple[Rows, Rows, NDArray[np.float64]]:
        """δ, K δ and the step of the intercept; zeros for outputs that are solved."""
        ridge = problem.n_rows * problem.penalty.alpha
        at_work = state.relative > self.tol
        columns = np.flatnonzero(np.broadcast_to(at_work, state.coefficients.shape[1:]))
        curvature = Curvature(problem, state.linear + state.intercept, state.y).of(columns)
        slopes, residual = state.slopes[:, columns], state.residual[:, columns]
        forcing = np.minimum(self.inner_tol, np.sqrt(state.relative[at_work]))
        goal = forcing * np.sqrt(sums(problem, np.square(residual)))
        goal = np.maximum(goal, 0.5 * self.tol * state.reference[at_work])
        shift = -curvature.shift(slopes.sum(axis=0))
        of_shift = curvature.times(every_row(shift, residual))
        if suits_functions(problem):
            given = problem, state.kernel, curvature, residual - of_shift, float(goal[0])
            change, linear = joint_step(*given, self.max_inner)
            return change, linear, shift - curvature.mean(linear)
        change = (residual - of_shift) / ridge
        linear = state.kernel.product(change)
        fall, lean = sums(problem, residual * linear), shift - curvature.mean(linear)
        rows, kernel = state.kernel.rows_with(curvature)
        part = curvature.among(rows)

        def rises(moved: Rows, product: Rows) -> NDArray[np.bool_]:
            along = fall + sums(problem, ridge * linear[rows] * moved + of_shift[rows] * product)
            of_intercept = slopes.sum(axis=0) * (lean - part.mean(product))
            return along <= sums(problem, of_intercept[None])

        inverse = state.kernel.inverse(problem, curvature, rows, ridge, columns)
        moved, product = self._inner(
            problem, state.kernel, part, kernel, ridge, goal, linear[rows], rises, inverse
        )
        change[rows] += moved
        if kernel is not state.kernel.design:
            everywhere = np.zeros_like(change)
            everywhere[rows] = moved
            product = state.kernel.product(everywhere)
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
        whole: RowKernel,
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
        for count in range(self.max_inner):
            whole.n_inner = count
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
            product = whole.product(moved, kernel)
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


def _of_constant(problem: Problem, state: _State) -> NDArray[np.float64]:
    """The norm of r of the best constant model."""
    start = np.zeros_like(state.y)
    if problem.fit_intercept:
        start += problem.initial()[-1]
    norm = state.norm(state.slopes_at(start))
    size = np.sqrt(sums(problem, state.weights * np.square(state.y)))
    return np.where(norm <= 4 * float(np.finfo(problem.dtype).eps) * size, np.inf, norm)


def _length(
    problem: Problem,
    state: _State,
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
        slope = sums(problem, state.slopes_at(u) * moved) / problem.n_rows
        value = state.losses(u) + 0.5 * square
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


def newton_for(problem: Problem) -> type[RowNewton] | type[NewtonCG]:
    """The form of Newton's method for a problem: by rows for kernel machines of all rows."""
    return RowNewton if is_by_rows(problem) else NewtonCG
