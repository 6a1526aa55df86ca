"""The loop that solvers of dual kernel machines share, with its clock, its trace and its result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from mercer._runtime.arrays import Matrix, check_memory, n_threads
from mercer._runtime.rows import Data
from mercer._runtime.validation import (
    matrix,
    name_from,
    number_at_least_0,
    positive_integer,
    positive_number,
)
from mercer.designs import KernelColumns
from mercer.kernels import Kernel
from mercer.solvers.base import Clock, Loop, TraceRow, warn_unconverged
from mercer.solvers.dual.box import Arrays, BoxDual, Vector

__all__ = ["DualResult", "DualSolver", "Machine"]

_MEGABYTE = 2**20
_CHUNK = 256  # updates before the first evaluation of the objective
_SECONDS = 0.1  # seconds between later evaluations
_ROUNDED = 1.001  # factor on the tolerance for the rounding of sums in another order


@dataclass
class DualResult:
    """Solution of a dual kernel machine, with its convergence.

    Attributes
    ----------
    coef : ndarray of shape (n,)
        Coefficients of f(x) = sum_i coef_i k(x, x_i) + intercept.
    intercept : float
        Constant term of f.
    b : ndarray of shape (n,) or (2n,)
        Dual variables.
    sums : ndarray of shape (n,)
        Responses K coef of the rows, without the intercept.
    n_iter : int
        Number of updates of a variable, or of a pair.
    n_rows_made : int
        Number of kernel rows computed, summed over the threads.
    converged : bool
        Whether the solver reached ``tol``.
    optimality : float
        Value of the stopping criterion.
    objective : float
        Objective of the primal problem: ``|f|**2 / 2`` plus the losses.
    dual_gap : float
        Upper bound on the objective minus its minimum.
    trace : list of TraceRow
        Seconds, dual objective and optimality at several times of the fit.
    interrupted : bool
        Whether an interrupt of the user ended the solver.
    exact : bool
        Whether ``sums`` were computed from the kernel in float64 after the last update.
    """

    coef: NDArray[np.float64]
    intercept: float
    b: NDArray[np.float64]
    sums: NDArray[np.float64]
    n_iter: int
    n_rows_made: int
    converged: bool
    optimality: float
    objective: float
    dual_gap: float
    trace: list[TraceRow]
    interrupted: bool = False
    exact: bool = False


@dataclass
class DualState:
    """The state of a solver, which callbacks see, in the solver's order of the rows."""

    dual: BoxDual
    b: NDArray[np.float64]  # the variables
    sums: NDArray[np.float64]  # responses
    order: NDArray[np.int64]  # which rows the solver's are
    n_iter: int = 0
    n_rows_made: int = 0
    optimality: float = np.inf
    stalled: bool = False
    kept: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    true_optimality: float = np.inf  # by sums that were made anew
    exact: bool = False  # whether these are
    ended: bool = False  # True if the last descent stopped before it had made all updates asked for

    @property
    def coef(self) -> NDArray[np.float64]:
        """Coefficients of the kernels, in the order of the rows."""
        coef = np.empty(len(self.order))
        coef[self.order] = self.dual.coef(self.b)
        return coef


@dataclass
class DualSolver:
    """Settings of a solver of dual kernel machines, without the state of a fit.

    A subclass orders the rows and cuts them into parts (``_order``), makes the core's descent
    (``_descent``), and has the quantity of the stopping test and its limit (``_measure``,
    ``_limit``).
    """

    tol: float = 1e-3
    max_iter: int = 10_000_000
    cache_size: float = 200.0
    dtype: str = "float32"
    n_jobs: int | None = None

    name: ClassVar[str] = ""
    has_intercept: ClassVar[bool] = False

    def __post_init__(self) -> None:
        number_at_least_0(self.tol, "tol")
        self.max_iter = positive_integer(self.max_iter, "max_iter")
        self.cache_size = positive_number(self.cache_size, "cache_size")
        name_from(self.dtype, ("float32", "float64"), "dtype")
        n_threads(self.n_jobs)

    def prepare(self, kernel: Kernel | str, X: Data) -> Machine:
        """The solver with the rows of X, for any number of problems that share kernel rows.

        X is an array or CSR (n, d) and the kernel's scale in numbers, or X is the matrix (n, n) of
        a "precomputed" one.
        """
        return Machine(self, kernel, X)

    def solve(
        self,
        dual: BoxDual,
        kernel: Kernel | str,
        X: Data,
        callback: Callable[[DualState], bool | None] | None = None,
        start: ArrayLike | None = None,
    ) -> DualResult:
        """Minimise: ``prepare(kernel, X).solve(dual, callback, start)``.

        Parameters
        ----------
        dual : BoxDual
            Of as many rows as X.
        kernel, X
            As for ``prepare``.
        callback : callable, optional
            Called with the state several times a second; returning True stops the solver. Its time
            is not counted.
        start : array of the shape of ``DualResult.b``, default=None
            Variables to begin with: those of a like kernel's problem, or for another ``C`` what
            :meth:`BoxDual.start` makes of them. They are moved into the box. None means zeros.

        Raises
        ------
        ValueError
            If the problem or ``start`` is of another size, or numbers leave the range of floats.

        Warns
        -----
        ConvergenceWarning
            If it stops, by itself, short of ``tol``.
        """
        return self.prepare(kernel, X).solve(dual, callback, start)

    def _order(self, X: Data, precomputed: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The order of the rows, and where the parts of the threads begin in it."""
        n = X.shape[0]
        return np.arange(n), np.array([0, n])

    def _descent(self, kernel: Kernel | str, X: Matrix, starts: NDArray, cache: int) -> Any:
        """Solver in the core, shared by all problems of the rows."""
        raise NotImplementedError

    def _advance(
        self, descent: Any, state: DualState, arrays: Arrays, limit: float, n_updates: int
    ) -> tuple[int, int]:
        """Move the variables, the last two arrays; the numbers of updates and of rows made."""
        raise NotImplementedError

    def _is_exact(self, descent: Any) -> bool:
        """True if the cached sums are the kernel's."""
        return True

    def _limit(self, dual: BoxDual, b: NDArray, sums: NDArray) -> float:
        """The value of ``_measure`` at which to stop."""
        raise NotImplementedError

    def _measure(self, dual: BoxDual, b: NDArray, sums: NDArray) -> float:
        raise NotImplementedError


class Machine:
    """A solver with the rows of X and its cache of kernel rows: see ``DualSolver.prepare``."""

    def __init__(self, solver: DualSolver, kernel: Kernel | str, X: Data):
        X = matrix(X, "X")
        precomputed = isinstance(kernel, str)
        if isinstance(kernel, str):
            name_from(kernel, ("precomputed",), "kernel")
            if sparse.issparse(X) or X.shape[0] != X.shape[1]:
                raise ValueError(f"X must be a square array of kernels; got shape {X.shape}.")
        n = X.shape[0]
        cache = int(min(solver.cache_size * _MEGABYTE, 1.01 * n * (8.0 * n + 8.0)))
        check_memory(cache, "the cache of kernel rows", "lower cache_size")
        self.solver = solver
        self.order, starts = solver._order(X, precomputed)
        same = np.array_equal(self.order, np.arange(n))
        if isinstance(kernel, str):
            check_memory(0.0 if same else X.nbytes, "the kernel matrix in order", "set n_jobs=1")
            X = X if same else X[np.ix_(self.order, self.order)]
            self.diagonal = X.diagonal().astype(np.float64)
        else:
            X = X if same else X[self.order]
            self.diagonal = kernel.diag(X).astype(np.float64)
        self._X, self._kernel = X, kernel
        self._descent = solver._descent(kernel, X, starts, cache)

    def solve(
        self,
        dual: BoxDual,
        callback: Callable[[DualState], bool | None] | None = None,
        start: ArrayLike | None = None,
    ) -> DualResult:
        """As ``DualSolver.solve``."""
        n = len(self.order)
        if dual.n_rows != n:
            raise ValueError(f"dual must have {n} rows, as X does; got {dual.n_rows}.")
        clock, trace = Clock(), list[TraceRow]()
        dual = dual.take(self.order)
        state = DualState(dual, np.zeros(len(dual.linear)), np.zeros(n), self.order)
        limit = self.solver._limit(dual, state.b, state.sums)
        if start is not None:
            state.b = self._begin(dual, start)
            state.sums, state.exact = self._sums(dual.coef(state.b)), True
        self._look(state, clock, trace)
        with Loop(clock, callback) as loop:
            chunk = _CHUNK
            while not loop.stopped and self._goes_on(state, limit):
                before = clock.seconds
                self._advance(state, limit, min(chunk, self.solver.max_iter - state.n_iter))
                self._make_exact(state, limit)
                chunk *= 2 if clock.seconds - before < _SECONDS else 1
                self._look(state, clock, trace)
                loop.shows(state)
        if loop.interrupted or (loop.stopped and not self.solver._is_exact(self._descent)):
            state.sums, state.exact = self._sums(dual.coef(state.b)), True
            self._look(state, clock, trace)
        if not (state.optimality <= _ROUNDED * limit or loop.stopped or loop.interrupted):
            self._warn(state, limit)
        return self._result(state, trace, limit, loop.interrupted)

    def _goes_on(self, state: DualState, limit: float) -> bool:
        if state.stalled or state.n_iter >= self.solver.max_iter:
            return False
        # Sums of rounded rows are judged where a descent ends, not where the clock interrupts it:
        # the solution would depend on the speed of the machine.
        return state.optimality > limit or not (state.exact or self._is_judged(state))

    def _is_judged(self, state: DualState) -> bool:
        """True if the sums are the kernel's, or of no update yet."""
        return self.solver._is_exact(self._descent) or state.n_iter == 0

    def _advance(self, state: DualState, limit: float, n_updates: int) -> None:
        dual = state.dual
        curvature = dual.spread(self.diagonal) + dual.extra
        arrays = (dual.linear, dual.lower, dual.upper, dual.extra, curvature, state.b, state.sums)
        state.exact = False
        done, made = self.solver._advance(self._descent, state, arrays, limit, n_updates)
        state.ended = done < n_updates
        state.stalled = done == 0  # below the limit by the core's rounding, or as near as floats go
        state.n_iter += done
        state.n_rows_made += made

    def _make_exact(self, state: DualState, limit: float) -> None:
        """Compute the sums in float64 where a descent by rounded kernel rows has ended."""
        if self.solver._is_exact(self._descent):
            return
        if not (state.ended or state.n_iter >= self.solver.max_iter):
            return
        state.sums, state.exact = self._sums(state.dual.coef(state.b)), True
        true = self.solver._measure(state.dual, state.b, state.sums)
        # Violations that do not fall from exact sums to exact sums are those of rounded rows.
        state.stalled = limit < true and true > 0.9 * state.true_optimality
        state.true_optimality = true

    def _look(self, state: DualState, clock: Clock, trace: list[TraceRow]) -> None:
        with clock.pause():
            dual = state.dual
            state.optimality = self.solver._measure(dual, state.b, state.sums)
            value = dual.value(state.b, state.sums)
            if not np.isfinite([value, state.optimality]).all():
                raise ValueError(
                    "the kernel must have values small enough for sums of them; one is not finite."
                )
            n_nonzero = int(np.count_nonzero(dual.coef(state.b)))
        trace.append(TraceRow(clock.seconds, value, state.optimality, n_nonzero, {}))

    def _begin(self, dual: BoxDual, start: ArrayLike) -> Vector:
        """Variables near ``start``, in the solver's order, that the constraints allow."""
        start = np.asarray(start, dtype=np.float64)
        if start.shape != dual.linear.shape or not np.isfinite(start).all():
            raise ValueError(
                f"start must have {len(dual.linear)} finite entries, as the problem has variables; "
                f"got shape {start.shape}."
            )
        b = np.clip(
            start.reshape(-1, len(self.order))[:, self.order].ravel(), dual.lower, dual.upper
        )
        if self.solver.has_intercept:
            up, down = b[b > 0].sum(), -b[b < 0].sum()
            if up > down:
                b[b > 0] *= down / up
            elif down > up:
                b[b < 0] *= up / down
        return b

    def _sums(self, coef: Vector) -> Vector:
        """K coef, of a kernel matrix that is made again in float64."""
        used = np.flatnonzero(coef)
        if isinstance(self._kernel, str):
            return self._X[:, used].astype(np.float64) @ coef[used]
        if len(used) == 0:
            return np.zeros(len(coef))
        # Not by half the matrix of all rows, whose sums depend on the number of threads.
        settings = self._X[used], np.float64, None, self.solver.n_jobs
        return KernelColumns(self._X, self._kernel, *settings).matvec(coef[used])

    def _warn(self, state: DualState, limit: float) -> None:
        why = "cannot get" if state.stalled else f"stopped at max_iter={self.solver.max_iter}"
        warn_unconverged(
            f"{type(self.solver).__name__} {why} below an optimality of {state.optimality:.2g}, "
            f"which should be {limit:.2g}; raise max_iter or tol, or lower C."
        )

    def _result(
        self, state: DualState, trace: list[TraceRow], limit: float, interrupted: bool
    ) -> DualResult:
        dual, b, sums = state.dual, state.b, state.sums
        intercept = dual.intercept(b, sums) if self.solver.has_intercept else 0.0
        back = np.empty_like(self.order)
        back[self.order] = np.arange(len(self.order))
        fold = len(b) // len(back)
        return DualResult(
            coef=dual.coef(b)[back],
            intercept=intercept,
            b=b.reshape(fold, -1)[:, back].ravel(),
            sums=sums[back],
            n_iter=state.n_iter,
            n_rows_made=state.n_rows_made,
            converged=state.optimality <= _ROUNDED * limit,
            optimality=state.optimality,
            objective=dual.primal(b, sums, intercept),
            dual_gap=dual.gap(b, sums, intercept),
            trace=trace,
            interrupted=interrupted,
            exact=state.exact,
        )
