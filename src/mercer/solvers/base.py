"""The loop that all solvers share, with its clock, its trace and its warnings."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from mercer._runtime.device_arrays import copied, on_host
from mercer._runtime.threads import one_blas_thread
from mercer._runtime.validation import number_at_least_0, positive_integer
from mercer.problem import Problem
from mercer.problem.place import at_design

__all__ = ["NEAR", "PERFECT", "Clock", "Loop", "OutOfRange", "Result"]
__all__ += ["Solver", "State", "TraceRow"]

# Objective, relative to the loss of the response 0, that counts as a perfect fit: independent of
# the unit of the targets, and reached for labels of one class by the intercept alone.
PERFECT = 1e-30
NEAR = 1e-2  # relative distance of responses from the minimiser that counts as converged


@dataclass(frozen=True)
class TraceRow:
    """One line of a convergence curve.

    Attributes
    ----------
    time : float
        Seconds of solving so far, without evaluation and callbacks.
    objective : float
        Objective F, summed over the outputs.
    optimality : float
        Value of the stopping criterion.
    n_nonzero : int
        Number of non-zero entries of θ.
    phases : dict of str to float
        Seconds so far per phase.
    """

    time: float
    objective: float
    optimality: float
    n_nonzero: int
    phases: dict[str, float]


@dataclass
class Result:
    """Solution returned by ``Solver.solve``, with its convergence.

    Attributes
    ----------
    coef : ndarray
        Solution θ, in the shape of the problem's variable.
    n_iter : int
        Number of iterations.
    converged : bool
        Whether ``optimality`` reached ``tol`` without a loss of accuracy by rounding.
    optimality : float
        Value of the stopping criterion ``criterion``, the largest over the outputs.
    trace : list of TraceRow
        One row for the start and one per iteration.
    interrupted : bool
        Whether an interrupt of the user ended the solver; ``coef`` is then the last iterate.
    criterion : {"gradient", "duality gap", "stationarity", "residual", "subgradients"}
        Stopping criterion: the norm of the gradient relative to
        ``Problem.reference``; the duality gap relative to F at the best constant model; the
        distance of 0 to the subdifferential relative to the gradient of the loss of the best
        constant model; the residual of the linear equations relative to that of the best constant
        model; or the mean ε of ε-subgradients relative to F at the best constant model.
    stopped : bool
        Whether a callback ended the solver.
    """

    coef: NDArray
    n_iter: int
    converged: bool
    optimality: float
    trace: list[TraceRow]
    interrupted: bool = False
    criterion: str = "gradient"
    stopped: bool = False


class Clock:
    """Seconds of solving, by phase; stopped while anything is evaluated."""

    def __init__(self) -> None:
        self.phases: dict[str, float] = {}
        self._started = perf_counter()
        self._paused = 0.0

    @property
    def seconds(self) -> float:
        """Seconds so far, without the pauses."""
        return perf_counter() - self._started - self._paused

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the time of the block under ``name``."""
        before = self.seconds
        try:
            yield
        finally:
            self.phases[name] = self.phases.get(name, 0.0) + self.seconds - before

    def go_on(self, seconds: float, phases: dict[str, float]) -> None:
        """Count on from ``seconds`` and ``phases`` of an earlier run."""
        self._paused -= seconds - self.seconds
        self.phases.clear()
        self.phases.update(phases)

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Do not count the time of the block."""
        stopped = perf_counter()
        try:
            yield
        finally:
            self._paused += perf_counter() - stopped


Callback = Callable[[Any], bool | None] | None


class Loop:
    """Context of a loop of steps, which the user's callback or an interrupt ends.

    A KeyboardInterrupt leaves the context and goes no further.
    """

    def __init__(self, clock: Clock, callback: Callback):
        self.stopped = self.interrupted = False
        self._clock, self._callback = clock, callback

    def __enter__(self) -> Loop:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        self.interrupted = kind is not None and issubclass(kind, KeyboardInterrupt)
        return self.interrupted

    def shows(self, state: object) -> bool:
        """Call the callback with the state, while the clock pauses; True if it ends the loop."""
        if self._callback is not None:
            with self._clock.pause():
                self.stopped = bool(self._callback(state))
        return self.stopped


@dataclass(kw_only=True)
class State:
    """The state of a solver, which callbacks see; solvers add what they carry between steps."""

    problem: Problem
    clock: Clock
    x: NDArray  # the variable of the iteration, θ itself unless the solver says otherwise
    optimality: float = np.inf  # the quantity of the stopping test at θ
    iteration: int = 0  # steps done
    stalled: str = ""  # why no further step can help; empty while it can
    # How far the responses may be from those of the minimiser, as a share of the spread of the
    # targets; 0 where the solver does not bound it.
    distance: float = 0.0

    @property
    def coef(self) -> NDArray:
        """θ."""
        return on_host(self.x)

    @property
    def objective(self) -> float:
        """F at θ, computed on access."""
        return self.problem.value(self.coef)

    @property
    def n_nonzero(self) -> int:
        """Non-zero entries of θ."""
        return int(np.count_nonzero(self.coef))


@dataclass
class Solver:
    """An algorithm and its settings, without the state of a fit.

    A subclass defines ``init``, which returns the state, and ``step``, which improves the state and
    sets ``state.optimality``. ``finish`` may correct the last values, outside the trace. ``share``
    prepares data that all strengths of a path use. A solver that treats all strengths at once
    overrides the loop over them, ``_path``.

    Parameters
    ----------
    tol : float, default=1e-4
        Tolerance: the solver stops when the norm of the gradient, relative to that of the best
        constant model, is at most ``tol`` for every output.
    max_iter : int, default=1000
        Largest number of iterations; the solver then stops with a ``ConvergenceWarning``.
    """

    tol: float = 1e-4
    max_iter: int = 1000

    name: ClassVar[str] = ""
    requires: ClassVar[frozenset[str]] = frozenset()
    follows_design: ClassVar[bool] = False  # to the device where the design lives

    def __post_init__(self) -> None:
        number_at_least_0(self.tol, "tol")
        self.max_iter = positive_integer(self.max_iter, "max_iter")

    def init(self, problem: Problem, theta: NDArray, clock: Clock) -> Any:
        """The state at the start θ, which is the solver's to write to.

        Further arguments are those that ``share`` returns.
        """
        raise NotImplementedError

    def step(self, problem: Problem, state: Any) -> None:
        """One iteration, in place."""
        raise NotImplementedError

    def finish(self, problem: Problem, state: Any) -> None:
        """Make ``state.optimality`` the true one where steps only estimate it."""

    def share(self, problem: Problem, alphas: list[float], clock: Clock) -> tuple[Any, ...]:
        """Further arguments of ``init`` that serve the problem at each of these strengths."""
        return ()

    def criterion(self, problem: Problem) -> str:
        """Name of the quantity that ``optimality`` is."""
        return "gradient"

    def solve(
        self, problem: Problem, start: ArrayLike | None = None, callback: Callback = None
    ) -> Result:
        """Minimise the problem.

        Parameters
        ----------
        problem : Problem
            Problem to minimise.
        start : array of the shape of θ, optional
            First iterate. The default is the best constant model or, for a loss that is not convex,
            the minimiser of the convex ``loss.surrogate``.
        callback : callable, optional
            Function called with the state after each iteration (``coef``, ``iteration``,
            ``objective``, ``optimality``); the solver stops if it returns True. Its time does not
            count.

        Raises
        ------
        ValueError
            If the solver does not support the problem, the shape of ``start`` is wrong, or numbers
            exceed the range of the dtype.

        Warns
        -----
        ConvergenceWarning
            If the solver stops before it reaches ``tol``, unless the callback stopped it.
        """
        self._check(problem)
        with one_blas_thread(problem.design.n_threads):
            return self._path(self._placed(problem), [problem.penalty.alpha], start, callback)[0]

    def solve_path(
        self, problem: Problem, alphas: Iterable[float], callback: Callback = None
    ) -> list[Result]:
        """Minimise the problem for several strengths of its penalty.

        Strengths are solved from the largest to the smallest, each from the solution before.
        ``BlockCoordinateDescent``, and ``ConjugateGradient`` for a kernel machine of all rows,
        solve all at once: strengths share each block or product until they converge.

        Parameters
        ----------
        problem : Problem
            Problem to minimise; ``alphas`` replace the alpha of its penalty.
        alphas : iterable of float
            Strengths of the penalty.
        callback : callable, optional
            As in ``solve``; returning True ends the current strength. If all strengths are solved
            at once, the state has ``coefs``, one θ per strength, and True stops all of them.

        Returns
        -------
        list of Result
            One result per strength, in the order of ``alphas``. After an interrupt, strengths that
            were not begun have the weights of the last one.
        """
        self._check(problem)
        strengths = [float(alpha) for alpha in alphas]
        with one_blas_thread(problem.design.n_threads):
            return self._path(self._placed(problem), strengths, None, callback)

    def _placed(self, problem: Problem) -> Problem:
        """The problem with its vectors where the solver works on them."""
        return at_design(problem) if self.follows_design else problem

    def _path(
        self, problem: Problem, alphas: list[float], start: ArrayLike | None, callback: Callback
    ) -> list[Result]:
        """Results for every strength; the first begins at ``start``, each other at the last θ."""
        clock = Clock()
        shared = self.share(problem, alphas, clock)
        results: dict[int, Result] = {}
        last: Result | None = None
        for number in sorted(range(len(alphas)), key=lambda number: -alphas[number]):
            if last is not None and last.interrupted:
                last = Result(last.coef, 0, False, np.inf, [], True, last.criterion)
            else:
                at = problem
                if alphas[number] != problem.penalty.alpha:
                    at = problem.with_penalty(replace(problem.penalty, alpha=alphas[number]))
                last = self._minimise(at, start, callback, clock, shared)
                clock = Clock()
            start = last.coef if np.any(problem.weights_of(last.coef)) else None
            results[number] = last
        return [results[number] for number in range(len(alphas))]

    def _for_start(self) -> Solver:
        """The solver of the convex surrogate that a loss without convexity starts from."""
        return self

    def _minimise(
        self,
        problem: Problem,
        start: ArrayLike | None,
        callback: Callback,
        clock: Clock,
        shared: Any,
    ) -> Result:
        """The loop of steps at one strength."""
        started = True
        if start is None and problem.loss.surrogate is not None:
            # Without weights a loss that is not convex may be flat: begin where a convex one ends.
            easier = self._placed(problem.easier())
            with clock.phase("start"), warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                convex = self._for_start()._minimise(easier, None, None, Clock(), shared)
            start, started = convex.coef, not convex.interrupted
        theta = start_of(problem, start)
        trace: list[TraceRow] = []
        with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
            state = self.init(problem, theta, clock, *shared)
            with Loop(clock, callback) as loop:
                trace.append(self._observe(state))
                while started and self._goes_on(state) and not loop.stopped:
                    self.step(problem, state)
                    state.iteration += 1
                    trace.append(self._observe(state))
                    loop.shows(state)
                self.finish(problem, state)
        interrupted = loop.interrupted or not started
        converged = bool(state.optimality <= self.tol and state.distance <= NEAR)
        if not (converged or loop.stopped or interrupted):
            self._warn(state)
        coef, criterion = np.array(on_host(state.coef)), self.criterion(problem)
        values = converged, state.optimality, trace, interrupted, criterion, loop.stopped
        return Result(coef, state.iteration, *values)

    def _goes_on(self, state: Any) -> bool:
        return state.optimality > self.tol and state.iteration < self.max_iter and not state.stalled

    def _observe(self, state: Any) -> TraceRow:
        """The row of the trace that tells the state."""
        with state.clock.pause():
            objective = state.objective
            check_range(state.problem, objective, state.optimality)
            n_nonzero = state.n_nonzero
        phases = dict(state.clock.phases)
        return TraceRow(state.clock.seconds, objective, state.optimality, n_nonzero, phases)

    def _warn(self, state: Any) -> None:
        quantity = self.criterion(state.problem)
        quantity = "residual" if quantity == "gradient" else quantity
        reached = f"relative {quantity} {state.optimality:.2g}, above tol={self.tol:g}"
        if state.distance > NEAR:
            reached = f"responses up to {state.distance:.2g} of the targets' spread from the best"
        where = state.stalled or f"stopped at max_iter={self.max_iter}"
        remedy = "loosen tol" if state.stalled else "raise max_iter or loosen tol"
        warn_unconverged(f"{type(self).__name__} {where} with {reached}; {remedy}, or raise alpha.")

    def _check(self, problem: Problem) -> None:
        missing = sorted(self.requires - problem.capabilities)
        if missing:
            raise ValueError(
                f"{type(self).__name__} needs {' and '.join(missing)}; got loss "
                f"{problem.loss.name!r} and penalty {problem.penalty.name!r}."
            )


def warn_unconverged(message: str) -> None:
    """A ``ConvergenceWarning`` at the line that called the solvers."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("mercer.solvers"):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, ConvergenceWarning, stacklevel=level)


class OutOfRange(ValueError):
    """Numbers have left the range of a problem's dtype."""


def check_range(problem: Problem, *numbers: ArrayLike) -> None:
    """Refuse to go on with sums that have left the range of the problem's dtype."""
    if not all(np.all(np.isfinite(number)) for number in numbers):
        raise OutOfRange(
            f"the features must be small enough for products in {problem.dtype}, and alpha large "
            "enough for those of coefficients; one of them is not finite."
        )


def start_of(problem: Problem, start: ArrayLike | None) -> NDArray:
    """A new array of the θ to begin with."""
    if start is None:
        return problem.initial()
    theta = copied(start, problem.dtype, problem.device)
    if theta.shape != problem.shape:
        raise ValueError(f"start must have shape {problem.shape}; got {theta.shape}.")
    if not np.all(np.isfinite(start)):
        raise ValueError("start must be finite; it holds NaN or infinity.")
    return theta


def add_rows(
    state: State,
    traces: list[list[TraceRow]],
    seconds: float,
    numbers: NDArray[np.int64],
    values: NDArray[np.float64],
    relative: NDArray[np.float64],
    unknowns: Iterable[NDArray],
) -> None:
    """Write a row into the trace of each of the numbered strengths, for that time."""
    check_range(state.problem, values)
    for number, value, residual, x in zip(numbers, values, relative, unknowns, strict=True):
        n_nonzero = int(np.count_nonzero(x))
        row = TraceRow(seconds, float(value), float(residual), n_nonzero, dict(state.clock.phases))
        traces[number].append(row)


def results_of(
    coefs: list[NDArray],
    n_iter: Sequence[int] | NDArray[np.int64],
    relative: NDArray[np.float64],
    tol: float,
    traces: list[list[TraceRow]],
    interrupted: bool,
) -> list[Result]:
    """One result per strength; an interrupt marks the unsolved ones."""
    return [
        Result(
            coef,
            int(n_iter[number]),
            bool(relative[number] <= tol),
            float(relative[number]),
            traces[number],
            interrupted and bool(relative[number] > tol),
            "residual",
        )
        for number, coef in enumerate(coefs)
    ]
