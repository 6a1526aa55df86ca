"""Coordinate descent for penalties that leave most weights exactly zero."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.arrays import n_threads
from mercer._runtime.validation import name_from
from mercer.designs import Lazy
from mercer.problem import Problem
from mercer.solvers.base import PERFECT, Clock, Result, Solver, State
from mercer.solvers.coordinate.columns import Columns, columns_of
from mercer.solvers.coordinate.descent import DescentSteps, step_work
from mercer.solvers.coordinate.gram import GramPool
from mercer.solvers.coordinate.output import Iterate, Output, look
from mercer.solvers.coordinate.steps import NewtonSteps, Steps, room_for

__all__ = ["CoordinateDescent", "path"]

METHODS = ("auto", "newton", "descent")
MODES = ("auto", "safe", "async")
_TINY = float(np.finfo(np.float64).tiny)  # least reference value, to avoid division by 0
_LEAST_EXCESS = 1e-10  # least accuracy of a model, relative to F: below it lies rounding
_LARGEST_GRAM = 8000  # columns of the largest working set with a Gram matrix (512 MB)
_SLOWER = 4.0  # factor on the expected cost of sweeps after they cost more than Newton steps
ORDERS = ("cyclic", "permuted", "random", "greedy-block")


@dataclass
class _OutputState:
    """One output, where it stands and which steps improve it."""

    output: Output
    at: Iterate
    reference: float  # unit of the criterion
    bound: float = -np.inf
    steps: Steps | None = None
    n_iter: int = 0
    stalled: bool = False
    toil: float = 1.0  # work of sweeps relative to its estimate, as far as they have shown

    @property
    def gap(self) -> float:
        """F less the best lower bound of its minimum so far, or an estimate if F is not convex."""
        if not self.output.loss.convex:
            return self._excess(self.relative)
        return max(self.at.objective - self.bound, 0.0)

    @property
    def relative(self) -> float:
        """The criterion."""
        if self.output.loss.convex:
            return self.gap / self.reference
        return self.output.violation(self.at) / self.reference

    def goal(self, tol: float) -> float:
        """The gap at which the criterion is at its goal."""
        return tol * self.reference if self.output.loss.convex else self._excess(tol)

    def _excess(self, violation: float) -> float:
        """Height of F above a stationary value that a relative violation, its root, stands for."""
        return max(violation**2, _LEAST_EXCESS) * self.at.objective

    def better(self, tol: float) -> Iterate | None:
        """The iterate after the next step, or None."""
        return None if self.steps is None else self.steps.step(self.at, self.gap, self.goal(tol))

    def move(self, to: Iterate) -> None:
        """Go on from there."""
        self.at, self.bound = to, max(self.bound, to.bound)


@dataclass(kw_only=True)
class _State(State):
    outputs: list[_OutputState]
    pool: GramPool = field(repr=False)

    @property
    def coef(self) -> NDArray:
        problem = self.problem
        theta = np.empty(problem.shape, dtype=problem.dtype)
        columns = theta.reshape(problem.shape[0], -1)
        for k, each in enumerate(self.outputs):
            problem.weights_of(columns)[:, k] = each.at.w
            if problem.fit_intercept:
                columns[-1, k] = each.at.intercept
        return theta

    @property
    def objective(self) -> float:
        return sum(each.at.objective for each in self.outputs)

    @property
    def n_nonzero(self) -> int:
        return sum(len(each.at.active) + (each.at.intercept != 0) for each in self.outputs)

    def judge(self) -> None:
        """Set ``optimality`` from the outputs."""
        self.optimality = max(each.relative for each in self.outputs)


@dataclass
class CoordinateDescent(Solver):
    """Coordinate descent with working sets, for penalties with an l1 part.

    The working set has the columns with weights and those with the largest gradients. A proximal
    Newton method replaces F on it by a quadratic model, whose Gram matrix is cached from one
    working set to the next (for binned designs it is counted in bitmaps). Sweeps of coordinate
    descent, followed by a semismooth Newton method, minimise the model. A working set too large for
    a Gram matrix is swept column by column, or grid by grid for binned designs: bins of one grid
    share no row, so that all of them are minimised at once exactly.

    Parameters
    ----------
    tol : float, default=1e-4
        Tolerance: the solver stops when the duality gap proves that F is at most
        tol · F(best constant model) above its minimum for every output. For a loss that is not
        convex it stops when the distance of 0 to the subdifferential is at most tol times the
        gradient of the loss of the best constant model.
    max_iter : int, default=1000
        Largest number of iterations per output, each of which ends with a pass over all columns;
        the solver then stops with a ``ConvergenceWarning``.
    n_jobs : int or None, default=None
        Number of threads, at most those of the design. None means the design's threads for
        products, Gram matrices and the modes "safe" and "async", and one thread for sweeps of the
        mode "auto": a group of columns is a few microseconds of work, about as long as threads wait
        for each other. With 10^5 rows and 200 grids two threads took 0.8 to 1.5 times as long as
        one.
    mode : {"auto", "safe", "async"}, default="auto"
        Parallelism of ``method="descent"``: "auto" is exact for any number of threads; "safe" moves
        several columns at once by steps that do not overshoot on average; with "async" each thread
        moves its own columns without synchronisation.
    order : {"cyclic", "permuted", "random", "greedy-block"}, default="cyclic"
        Order of the columns in a sweep of ``method="descent"``.
    method : {"auto", "newton", "descent"}, default="auto"
        Solution of the working sets: "newton" by Gram matrices, "descent" by sweeps and conjugate
        gradients. "auto" is "newton"; on bins it takes the cheaper method at each step by a count
        of operations, and it takes sweeps if the Gram matrix would be too large.

    References
    ----------
    Fercoq and Richtárik (2015), Accelerated, parallel and proximal coordinate descent.
    Massias, Gramfort and Salmon (2018), Celer: a fast solver for the lasso with dual extrapolation.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import designs, losses, penalties, solvers
    >>> from mercer.problem import Problem
    >>> design, y = designs.Dense(np.eye(3)), [3.0, 0.5, -2.0]
    >>> problem = Problem(design, y, losses.Squared(), penalties.L1(0.5), None, False)
    >>> solvers.CoordinateDescent(tol=1e-9).solve(problem).coef
    array([ 1.5,  0. , -0.5])
    """

    n_jobs: int | None = None
    mode: str = "auto"
    order: str = "cyclic"
    method: str = "auto"

    name: ClassVar[str] = "cd"
    requires: ClassVar[frozenset[str]] = frozenset({"a smooth loss", "a loss without an offset"})

    def __post_init__(self) -> None:
        super().__post_init__()
        n_threads(self.n_jobs)
        name_from(self.mode, list(MODES), "mode")
        name_from(self.order, list(ORDERS), "order")
        name_from(self.method, list(METHODS), "method")

    def share(self, problem: Problem, alphas: list[float], clock: Clock) -> tuple[GramPool]:
        """The columns in float64, and the Gram matrices of working sets."""
        with clock.phase("columns"):
            shared = problem.loss.quadratic and problem.n_outputs > 1
            return (GramPool(columns_of(problem.design), problem.fit_intercept, shared),)

    def criterion(self, problem: Problem) -> str:
        return "duality gap" if problem.loss.convex else "stationarity"

    def init(  # type: ignore[override]
        self, problem: Problem, theta: NDArray, clock: Clock, pool: GramPool
    ) -> _State:
        columns = pool.columns
        with clock.phase("rows"):
            outputs = [
                _start(problem, columns, k, theta.reshape(problem.shape[0], -1)[:, k])
                for k in range(problem.n_outputs)
            ]
            look(each.at for each in outputs)
            for each in outputs:
                each.bound = each.at.bound
        state = _State(problem=problem, clock=clock, x=theta, outputs=outputs, pool=pool)
        state.judge()
        return state

    def step(self, problem: Problem, state: _State) -> None:
        # Outputs go on together where they share the Gram matrix, else one after the other.
        at_work = [each for each in state.outputs if self._is_open(each)]
        at_work = at_work if state.pool.shared else at_work[:1]
        for each in at_work:
            each.steps = self._steps(state, each)
            each.n_iter += 1
        _hold(at_work)
        better = [each.better(self.tol) for each in at_work]
        with state.clock.phase("rows"):
            look(at for at in better if at is not None)
        for each, at in zip(at_work, better, strict=True):
            self._move(each, at)
            if isinstance(each.steps, DescentSteps) and not self._is_open(each):
                each.steps.held = None
        state.judge()
        if not any(map(self._is_open, state.outputs)) and any(o.stalled for o in state.outputs):
            state.stalled = f"stalled at the limit of {problem.dtype}"

    def _move(self, each: _OutputState, better: Iterate | None) -> None:
        """Go on from the iterate, or by steps of the other kind, or not at all."""
        steps = each.steps
        hands_over = isinstance(steps, DescentSteps) and np.isfinite(steps.budget)
        if isinstance(steps, DescentSteps) and hands_over:
            each.toil = np.inf if better is None else each.toil * (_SLOWER if steps.slow else 1.0)
        if better is None:
            each.stalled = not hands_over
        else:
            each.move(better)

    def _steps(self, state: _State, each: _OutputState) -> Steps:
        """The steps that improve an output from where it stands."""
        newton, budget = self._choice(each)
        steps = each.steps
        if not isinstance(steps, NewtonSteps if newton else DescentSteps):
            caution = 0.0 if steps is None else steps.caution
            common = (each.output, state.clock, caution)
            if newton:
                return NewtonSteps(*common, pool=state.pool)
            steps = DescentSteps(*common, mode=self.mode, order=self.order)
        if isinstance(steps, DescentSteps):
            shared = 1 if self.mode == "auto" else state.problem.design.n_threads
            threads = n_threads(self.n_jobs) if self.n_jobs else shared
            # Sums of several threads depend on their number, those of Newton steps do not.
            steps.n_threads, steps.budget = threads if np.isinf(budget) else 1, budget
        return steps

    def _choice(self, each: _OutputState) -> tuple[bool, float]:
        """True if Newton steps are next; else the budget of the sweeps before them."""
        n_active = len(each.at.active)
        crowded = 2 * n_active > _LARGEST_GRAM
        if self.method != "auto" or crowded:
            return self.method == "newton", np.inf
        n_wanted = min(n_active + room_for(n_active), len(each.at.w))
        newton, sweeps = step_work(each.output, each.at, n_wanted)
        return newton <= each.toil * sweeps, newton

    def _is_open(self, each: _OutputState) -> bool:
        return each.relative > self.tol and not each.stalled and each.n_iter < self.max_iter

    def _goes_on(self, state: _State) -> bool:
        return any(map(self._is_open, state.outputs))

    def _check(self, problem: Problem) -> None:
        super()._check(problem)
        if problem.loss.joint:
            raise ValueError(
                f"CoordinateDescent needs a loss that treats outputs alone; got loss "
                f"{problem.loss.name!r}."
            )
        if isinstance(problem.design, Lazy):
            raise ValueError(
                "CoordinateDescent needs a design that holds its columns; got a Lazy one."
            )


def _hold(outputs: list[_OutputState]) -> None:
    """Have the Gram matrix that several outputs share before they take a step each."""
    newton = [(each, each.steps) for each in outputs if isinstance(each.steps, NewtonSteps)]
    if len(newton) > 1:
        each, steps = newton[0]
        ids = np.concatenate([steps.candidates(each.at) for each, steps in newton])
        steps.hold(each.at, each.gap, np.unique(ids))


def _start(problem: Problem, columns: Columns, index: int, theta: NDArray) -> _OutputState:
    output = Output(problem, columns, index)
    w = np.array(problem.weights_of(theta), dtype=np.float64)
    least = PERFECT * float(output.problem.mean_loss(np.zeros(problem.n_rows)))
    if output.loss.convex and np.any(w):  # of the model without weights, F is enough
        at, nothing = output.at(w), np.zeros(problem.n_rows)
        without = output.objective(np.zeros(0), nothing, output.best_intercept(nothing))
        return _OutputState(output, at, max(_TINY, least, without))
    start = output.at(np.zeros(columns.n_columns))
    without = start.objective if output.loss.convex else float(np.linalg.norm(start.gradient))
    if problem.fit_intercept and not output.loss.convex:
        at = output.at(w, b=float(theta[-1]))
    else:
        at = output.at(w) if np.any(w) else start
    return _OutputState(output, at, max(_TINY, least, without))


def path(problem: Problem, alphas: Iterable[float], solver: Solver | None = None) -> list[Result]:
    """Minimisers for every alpha, in the order given: ``solver.solve_path(problem, alphas)``.

    Parameters
    ----------
    problem : Problem
        Problem to minimise; ``alphas`` replace the alpha of its penalty.
    alphas : iterable of float
        Strengths of the penalty; from ``problem.alpha_max()`` on all weights are zero.
    solver : Solver, optional
        Solver; the default ``CoordinateDescent()`` caches the Gram matrices of working sets along
        the path.

    Returns
    -------
    list of Result

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import designs, losses, penalties, solvers
    >>> from mercer.problem import Problem
    >>> design, y = designs.Dense(np.eye(2)), [4.0, 2.0]
    >>> problem = Problem(design, y, losses.Squared(), penalties.L1(), None, False)
    >>> [result.coef.round(6).tolist() for result in solvers.path(problem, [1.5, 0.5])]
    [[1.0, 0.0], [3.0, 1.0]]
    """
    return (solver or CoordinateDescent()).solve_path(problem, alphas)
