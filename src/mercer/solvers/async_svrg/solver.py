"""Asynchronous doubly stochastic steps with variance reduction."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.arrays import n_threads
from mercer._runtime.random import RandomStateLike, Slot, distinct, key_from
from mercer._runtime.validation import is_name, name_from, positive_integer, positive_number
from mercer.designs import Binned, Dense, Sparse
from mercer.losses import LOSSES
from mercer.problem import Point, Problem, dual_gaps
from mercer.solvers.async_svrg.inner import (
    IN_CORE,
    MARGINS,
    PRECISIONS,
    SAMPLINGS,
    Inner,
    Settings,
)
from mercer.solvers.async_svrg.models import LARGEST, nearer_minimum
from mercer.solvers.base import PERFECT, Clock, Solver, State

__all__ = ["AsyncSVRG"]

_TINY = float(np.finfo(np.float64).tiny)  # least reference value, to avoid division by 0
_SMALLEST = 1e-8  # step length, relative to that of the curvature, below which the solver stops
_IDLE = 3  # consecutive loops without a better snapshot that end the search
_NOISE = 16.0  # rounding error of F, in units of the dtype's precision
_GRID = tuple(10.0**-k for k in range(-2, 6))  # step lengths tried, 100 … 0.00001
_ROWS, _LOOPS = 2000, 2  # rows and inner loops of the trials of step lengths
# Loops with models: first and least step length, passes over the rows, least number of steps.
_FIRST, _SHORTEST = 0.3, 1e-3
_PASSES, _LEAST_STEPS = 2, 200


@dataclass(kw_only=True)
class _State(State):
    """The arrays but ``x``, which is that of ``best``, have one entry per output."""

    inner: Inner = field(repr=False)
    snapshot: Point = field(repr=False)
    best: Point = field(repr=False)  # of every output
    first: NDArray[np.float64]  # F of the constant model or at the start, whichever is larger
    bounds: NDArray[np.float64]  # lower bounds of the minima
    violations: NDArray[np.float64]  # of the optimality condition at ``best``
    reference: NDArray[np.float64]
    gammas: NDArray[np.float64]
    idle: NDArray[np.int64]
    stuck: NDArray[np.bool_]

    @property
    def objective(self) -> float:
        return self.best.value

    def excess(self) -> NDArray[np.float64]:
        """About how far F of every output is above its minimum."""
        if _has_gap(self.problem):
            return np.maximum(self.best.values - self.bounds, 0.0)
        return np.maximum(self.relative() ** 2, 1e-10) * self.best.values

    def relative(self) -> NDArray[np.float64]:
        """The criterion by output."""
        if _has_gap(self.problem):
            return np.maximum(self.best.values - self.bounds, 0.0) / self.reference
        return self.violations / self.reference


@dataclass
class AsyncSVRG(Solver):
    """Asynchronous stochastic steps along single coordinates, with variance reduction.

    ::

        repeat   w̃ ← w,  G ← ∇F(w̃)                                      (a snapshot, all rows)
                 n_inner times, shared by the threads, which wait for nobody:
                     rows B and a coordinate j at random
                     v = (1/|B|) Σ_{i∈B} s_i (ℓ'(y_i, z_iᵀw) − ℓ'(y_i, z_iᵀw̃)) z_ij + G_j
                     w_j ← prox of the penalty at w_j − (γ/L) v, for a step of γ/L

    Threads use no locks, so that a thread may read weights that are a few steps old. The loss need
    not be convex. Results are reproducible with one thread only.

    Such steps are slow if columns are strongly correlated, and steps that suit one thread are too
    long for several. With ``step_size="auto"`` and ``block_size="auto"``, dense designs of at most
    2048 columns (fewer with several outputs) therefore use a quadratic model with the Hessian
    H = (1/n) Σ h_i z_i z_iᵀ at the snapshot w̃, where h_i is the second derivative of the loss of
    row i. An inner loop starts near the minimum of the model, or at the lowest F on the way there.
    Its steps add H (w − w̃) to G and subtract h_i z_iᵀ(w − w̃) from the differences of the rows,
    which reduces their variance; a block moves to the minimum of its part of the model. If steps do
    not lower F, the loop returns to its start, so that F falls for any number of threads.

    ``solver="auto"`` never chooses this solver: for designs in memory ``CoordinateDescent`` is
    faster, and for a quadratic penalty ``NewtonCG`` (``benchmarks/async_svrg.py`` compares them).
    It runs on one machine only: over a network weights would be so old that the steps allowed by
    theory are too short.

    Parameters
    ----------
    tol : float, default=1e-4
        Tolerance: the solver stops when the duality gap at a snapshot proves that F is at most
        tol · F(best constant model) above its minimum for every output. For a loss that is not
        convex, or alpha = 0, it stops when the distance of 0 to the subdifferential is at most tol
        times the gradient of the constant model.
    max_iter : int, default=10
        Largest number of snapshots; the solver then stops with a ``ConvergenceWarning``.
    step_size : float or "auto", default="auto"
        Step length γ. "auto" tries 100, 10, …, 0.00001 on at most 2000 rows, then three times and a
        third of the best. Whenever F rises, γ is divided by 3 and the solver returns to the best
        snapshot. In loops with a model γ starts at 0.3; it is doubled, up to 1, if steps lower F,
        and divided by 3 if they do not. A number that lets F rise above F(best constant model) is
        refused. The convex start of a loss that is not convex takes "auto".
    batch_size : int, default=32
        Number of rows per step, drawn with replacement; all rows if there are no more.
    block_size : int or "auto", default="auto"
        Number of neighbouring coordinates that a step moves with one set of responses. "auto" is a
        quarter of the columns if responses are recomputed from dense rows, else 1.
    n_inner : int or None, default=None
        Number of steps between two snapshots, summed over the threads; None means the number of
        rows, or two passes over the rows in loops with a model.
    n_jobs : int or None, default=None
        Number of threads; None means those of the design.
    margins : {"auto", "recomputed", "kept"}, default="auto"
        Computation of the responses z_iᵀw: "recomputed" from the rows of each batch, or "kept" for
        all rows and updated after each step, which is cheap for sparse columns and slow for many
        dense rows. "auto" is "recomputed" for dense designs, else "kept".
    sampling : {"auto", "uniform", "column"}, default="auto"
        Sampling of the rows. "uniform": from all rows, with L the largest second derivative of the
        loss of one row along a coordinate. "column": from the rows where column j is not zero, with
        L_j the second derivative of the mean loss along j, so that rare columns converge as fast as
        others. "auto" is "column" if ``block_size`` allows it.
    precision : {"design", "float32", "bfloat16"}, default="design"
        Type of the rows that responses are recomputed from; smaller types are read faster.
        Snapshots use the design itself, so that the solver converges to its minimum (F to about
        1e-7 of it). "bfloat16" is for dense designs.
    random_state : int, RandomState, Generator or None, default=0
        Seed of the sampled rows and coordinates.

    References
    ----------
    Gu, Miao, Huo and Huang (2018), Asynchronous doubly stochastic sparse kernel learning, AAAI,
    algorithm 2: see ``AsyncSVRG.asydsskl``.
    Johnson and Zhang (2013), Accelerating stochastic gradient descent using predictive variance
    reduction. Gower, Le Roux and Bach (2018), Tracking the gradients using the Hessian: H as part
    of the correction.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import designs, losses, penalties, solvers
    >>> from mercer.problem import Problem
    >>> Z = np.random.default_rng(0).normal(size=(500, 3))
    >>> y = Z @ [1.0, 0.0, -1.0]
    >>> y[:100] += 50  # these targets are wrong
    >>> loss, penalty = losses.Correntropy(), penalties.L1(0.01)
    >>> problem = Problem(designs.Dense(Z), y, loss, penalty, fit_intercept=False)
    >>> solvers.AsyncSVRG(max_iter=50, n_jobs=1).solve(problem).coef.round(1)
    array([ 1.,  0., -1.])
    """

    max_iter: int = 10
    step_size: float | str = "auto"
    batch_size: int = 32
    block_size: int | str = "auto"
    n_inner: int | None = None
    n_jobs: int | None = None
    margins: str = "auto"
    sampling: str = "auto"
    precision: str = "design"
    random_state: RandomStateLike = 0

    name: ClassVar[str] = "async"
    requires: ClassVar[frozenset[str]] = frozenset(
        {"a loss of bounded curvature", "a loss without an offset"}
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.step_size, Real):
            self.step_size = positive_number(self.step_size, "step_size")
        elif not is_name(self.step_size, "auto"):
            raise ValueError(
                f"step_size must be a positive number or 'auto'; got {self.step_size!r}."
            )
        self.batch_size = positive_integer(self.batch_size, "batch_size")
        if not is_name(self.block_size, "auto"):
            self.block_size = positive_integer(self.block_size, "block_size")
        if self.n_inner is not None:
            self.n_inner = positive_integer(self.n_inner, "n_inner")
        n_threads(self.n_jobs)
        name_from(self.margins, ("auto", *MARGINS), "margins")
        name_from(self.sampling, ("auto", *SAMPLINGS), "sampling")
        name_from(self.precision, PRECISIONS, "precision")

    @classmethod
    def asydsskl(cls, **settings: Any) -> Self:
        """AsyDSSKL as algorithm 2 of Gu et al. (2018) has it.

        Steps move one coordinate each, recompute the responses of their rows, and are divided by
        the largest curvature of one row: ``margins="recomputed", sampling="uniform",
        block_size=1``.

        Parameters
        ----------
        **settings
            Other parameters of the solver, such as ``step_size`` (γ) and ``max_iter`` (S).

        Examples
        --------
        >>> from mercer.solvers import AsyncSVRG
        >>> AsyncSVRG.asydsskl(step_size=0.1).sampling
        'uniform'
        """
        return cls(margins="recomputed", sampling="uniform", block_size=1, **settings)

    def criterion(self, problem: Problem) -> str:
        return "duality gap" if _has_gap(problem) else "stationarity"

    def _for_start(self) -> Solver:
        # The surrogate's curvature may be larger than that of the loss that a length is given for.
        return replace(self, step_size="auto")

    def init(self, problem: Problem, theta: NDArray, clock: Clock) -> _State:
        settings = self._settings(problem)
        with clock.phase("rows"):
            inner = Inner(problem, settings)
        with clock.phase("snapshot"):
            initial, point = problem.at(problem.initial()), problem.at(theta)
            gap = _has_gap(problem)
            reference = initial.values if gap else problem.norm(initial.gradient)
            least = np.maximum(PERFECT * problem.mean_loss(np.zeros_like(problem.y)), _TINY)
            k = len(reference)
            state = _State(
                problem=problem,
                clock=clock,
                x=point.theta,
                inner=inner,
                snapshot=point,
                best=point,
                first=np.maximum(initial.values, point.values),
                bounds=np.full(k, -np.inf),
                violations=np.zeros(k),
                reference=np.maximum(reference, least),
                gammas=np.ones(k),
                idle=np.zeros(k, dtype=np.int64),
                stuck=np.zeros(k, dtype=bool),
            )
            self._judge(problem, state)
        if state.optimality > self.tol:
            with clock.phase("step size"):
                state.gammas[:] = self._first_length(problem, theta, settings)
        return state

    def step(self, problem: Problem, state: _State) -> None:
        snapshot = state.snapshot
        with state.clock.phase("snapshot"):
            gradient = state.inner.gradient(snapshot)
        at_work = (state.relative() > self.tol) & ~state.stuck
        models, start = state.inner.models, snapshot
        if models is not None:
            with state.clock.phase("model"):
                start = nearer_minimum(models, snapshot, gradient, state.excess(), at_work)
        theta = start.theta.copy()
        wide = theta.reshape(len(theta), -1)
        finite = np.ones(len(at_work), dtype=bool)
        with state.clock.phase("steps"):
            for k in np.flatnonzero(at_work):
                number = state.iteration * len(at_work) + int(k)
                w = state.inner.run(snapshot, gradient, int(k), state.gammas[k], number, start)
                if w is not None:
                    w = w.astype(problem.dtype)
                finite[k] = w is not None and bool(np.all(np.isfinite(w)))
                if finite[k]:
                    wide[:, k] = w
        with state.clock.phase("snapshot"):
            after = problem.at(theta)
            if models is not None:
                after = _lower(state, start, after, finite, at_work)
                finite = np.ones_like(finite)
            self._adopt(problem, state, after, finite, at_work)

    def _adopt(
        self,
        problem: Problem,
        state: _State,
        after: Point,
        finite: NDArray[np.bool_],
        at_work: NDArray[np.bool_],
    ) -> None:
        """Go on from the ends of the inner loops, for the outputs at work whose F allows it."""
        values = np.where(finite & np.isfinite(after.values), after.values, np.inf)
        best = state.best.values
        noise = _NOISE * float(np.finfo(problem.dtype).eps) * np.abs(best)
        better = at_work & (values < best)
        if isinstance(self.step_size, str):
            risen = values > best + noise
        else:
            risen = values > state.first + noise
            if np.any(risen):
                raise ValueError(self._refusal(problem, state))
        state.best = state.best.with_outputs(after, better)
        state.snapshot = state.best.with_outputs(after, ~risen)
        state.x = state.best.theta
        state.gammas[risen] /= 3
        state.idle = np.where(better | risen, 0, state.idle + 1)
        state.stuck |= (state.gammas < _SMALLEST) | (state.idle >= _IDLE)
        if np.any(better):
            self._judge(problem, state)
        if np.all(state.stuck | (state.relative() <= self.tol)) and state.optimality > self.tol:
            if np.any(state.gammas < _SMALLEST):
                state.stalled = "found no step_size that lets the objective fall"
            elif np.any(values > state.best.values + noise):
                state.stalled = f"no longer lowers the objective at step_size={self.step_size:g}"
            else:
                state.stalled = f"stalled at the limit of {problem.dtype}"

    def _judge(self, problem: Problem, state: _State) -> None:
        """Certificates of the best point."""
        gaps = dual_gaps(state.best) if _has_gap(problem) else None
        if gaps is None:
            state.violations = problem.norm(state.best.violation)
        else:
            state.bounds = np.maximum(state.bounds, state.best.values - gaps)
        state.optimality = float(np.max(state.relative()))

    def _settings(self, problem: Problem) -> Settings:
        margins, sampling, block_size = self.margins, self.sampling, self.block_size
        dense = isinstance(problem.design, Dense)
        if margins == "auto":
            margins = "recomputed" if dense else "kept"
        if isinstance(block_size, str):
            block_size = max(1, problem.shape[0] // 4) if dense and margins != "kept" else 1
        if sampling == "auto":
            sampling = "column" if dense or block_size == 1 else "uniform"
        curved = margins == "recomputed" and sampling == "column" and _fits_models(problem)
        curved = curved and isinstance(self.block_size, str) and isinstance(self.step_size, str)
        n_inner = problem.n_rows
        if curved:
            n_inner = max(_LEAST_STEPS, _PASSES * problem.n_rows // self.batch_size)
        threads = n_threads(self.n_jobs) if self.n_jobs else problem.design.n_threads
        return Settings(
            margins=margins,
            sampling=sampling,
            precision=self.precision,
            batch_size=self.batch_size,
            block_size=block_size,
            n_inner=self.n_inner or n_inner,
            n_threads=threads,
            key=key_from(self.random_state),
            curved=curved,
        )

    def _first_length(self, problem: Problem, theta: NDArray, settings: Settings) -> float:
        if not isinstance(self.step_size, str):
            return float(self.step_size)
        if settings.curved:
            return _FIRST
        reached = try_lengths(problem, theta, settings, _GRID)
        if not reached:
            return _GRID[-1]
        best = min(reached, key=lambda gamma: reached[gamma])
        reached |= try_lengths(problem, theta, settings, (3 * best, best / 3))
        return min(reached, key=lambda gamma: reached[gamma])

    def _refusal(self, problem: Problem, state: _State) -> str:
        """Sentence that refuses a step size, with one that lets the objective fall."""
        given = float(self.step_size)
        smaller = tuple(given / 10.0**k for k in range(1, 9))
        fine = try_lengths(problem, state.x, state.inner.settings, smaller)
        hint = f"{max(fine):g} is the largest tenth of it, or tenth of a tenth, that does"
        if not fine:
            hint = "none of its tenths down to 1e-8 of it does"
        return (
            f"step_size must let the objective fall; got {given:g}, and {hint}; step_size='auto' "
            f"chooses one, and a batch_size above {self.batch_size} allows longer steps."
        )

    def _check(self, problem: Problem) -> None:
        super()._check(problem)
        loss = problem.loss
        if type(loss) is not LOSSES.get(loss.name) or loss.name not in IN_CORE:
            known = ", ".join(map(repr, IN_CORE))
            raise ValueError(f"AsyncSVRG needs one of the losses {known}; got {loss.name!r}.")
        if not isinstance(problem.design, (Dense, Sparse, Binned)):
            raise ValueError(
                "AsyncSVRG needs a design that holds its matrix; got a "
                f"{type(problem.design).__name__} one."
            )
        if problem.n_rows >= 2**32:
            raise ValueError(f"AsyncSVRG needs fewer than 2**32 rows; got {problem.n_rows}.")


def _fits_models(problem: Problem) -> bool:
    """Whether there is room for a Hessian of every output."""
    q = problem.shape[0]
    return q > 1 and q * q * problem.n_outputs <= LARGEST**2


def _lower(
    state: _State,
    start: Point,
    after: Point,
    finite: NDArray[np.bool_],
    at_work: NDArray[np.bool_],
) -> Point:
    """The lower one of both ends of every loop; steps get shorter or longer with their success."""
    fell = finite & (after.values < start.values)
    gammas = np.where(fell, 2 * state.gammas, state.gammas / 3)
    state.gammas[at_work] = np.clip(gammas, _SHORTEST, 1.0)[at_work]
    return start.with_outputs(after, fell)


def _has_gap(problem: Problem) -> bool:
    return problem.loss.convex and problem.penalty.alpha > 0


def part(problem: Problem, key: int) -> Problem:
    """The problem on at most 2000 of its rows."""
    n = problem.n_rows
    if n <= _ROWS:
        return problem
    rows = np.sort(distinct(key, n, _ROWS, Slot.TRIAL))
    weights = None if problem.weights is None else problem.weights[rows]
    if weights is not None and not np.any(weights):
        weights = None
    design, y = problem.design.rows(rows), problem.y[rows]
    return Problem(design, y, problem.loss, problem.penalty, weights, problem.fit_intercept)


def try_lengths(
    problem: Problem, theta: NDArray, settings: Settings, gammas: tuple[float, ...]
) -> dict[float, float]:
    """F on at most 2000 rows after a few inner loops from θ, by γ that lowers it."""
    small = part(problem, settings.key)
    n_inner = min(settings.n_inner, small.n_rows)
    inner = Inner(small, replace(settings, n_inner=n_inner, n_threads=1, slot=Slot.TRIAL))
    start = small.at(theta)
    values = {gamma: _value_after(inner, start, gamma) for gamma in gammas}
    return {gamma: value for gamma, value in values.items() if value is not None}


def _value_after(inner: Inner, point: Point, gamma: float) -> float | None:
    """F after the loops, or None if it rose in one of them."""
    problem = inner.problem
    noise = 16 * float(np.finfo(problem.dtype).eps) * abs(point.value)
    for loop in range(_LOOPS):
        gradient, columns = inner.gradient(point), []
        for output in range(problem.n_outputs):
            w = inner.run(point, gradient, output, gamma, loop * problem.n_outputs + output)
            if w is None:
                return None
            columns.append(w)
        theta = np.stack(columns, axis=1).reshape(problem.shape).astype(problem.dtype)
        if not np.all(np.isfinite(theta)):
            return None
        before, point = point.value, problem.at(theta)
        if not point.value <= before + noise:
            return None
    return point.value
