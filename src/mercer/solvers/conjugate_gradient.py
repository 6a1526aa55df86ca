"""Conjugate gradients for ridge problems, all outputs at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer._random import key_from
from mercer._validation import is_name, name_from, positive_integer
from mercer.equations import RowSpace, equations, spans_all_rows
from mercer.problem import Problem
from mercer.problem.rows import add_scaled
from mercer.solvers import krylov
from mercer.solvers.base import Callback, Clock, Result, Solver, State, check_range, start_of

__all__ = ["ConjugateGradient"]

_COLUMNS_PER_ROW = 4  # from which pairs of vectors by rows are cheaper than vectors by columns
_DRIFT = 0.1  # share of the true residual that the recurrence may miss
_STRIKES = 3  # how often it may do so without the residual being halved
_TEMPERED = 0.25
_POWERS = {"tempered": _TEMPERED, "jacobi": 1.0}
_OF_ROWS, _OF_LANDMARKS = "rpcholesky", "falkon"

# Where few iterations are asked for, the diagonal takes 1.2 to 3 times less time than its fourth
# root on binned tables, for scores that differ by less than their noise.
_CRUDE = 1e-2


@dataclass(kw_only=True)
class _State(State):
    """``space`` is the problem, or its view by rows; ``x``, ``residual`` and ``direction`` live in
    it, the latter two with the columns of ``outputs`` alone, those still at work.
    """

    space: Problem | RowSpace
    precondition: Callable[[NDArray], NDArray]
    outputs: NDArray
    residual: NDArray
    direction: NDArray
    slope: NDArray  # rᵀ M⁻¹ r of every output at work
    relative: NDArray  # ‖r‖ of every output, in units of the reference
    best: NDArray  # the least of them that was true
    strikes: NDArray  # how often the recurrence has strayed since
    values: NDArray  # F of every output
    lost: NDArray  # outputs that rounding keeps from the goal

    @property
    def coef(self) -> NDArray:
        return self.space.lift(self.x) if isinstance(self.space, RowSpace) else self.x

    @property
    def objective(self) -> float:
        return float(np.sum(self.values))

    @property
    def n_nonzero(self) -> int:
        # By rows, no entry of θ is zero but by accident; looking would cost a product.
        by_rows = isinstance(self.space, RowSpace)
        return self.problem.n_variables if by_rows else int(np.count_nonzero(self.x))

    def keep(self, mask: NDArray) -> None:
        """Let the other outputs go."""
        self.outputs = self.outputs[mask]
        if mask.any():
            self.residual = _columns(self.residual, mask)
            self.direction = _columns(self.direction, mask)
            self.slope = self.slope[mask]


@dataclass
class ConjugateGradient(Solver):
    """Preconditioned conjugate gradients on ((1/n) Zᵀ S Z + alpha I) w = (1/n) Zᵀ S y.

    ::

        r = -∇F(θ), p = z = M⁻¹ r
        repeat   q = ∇²F p,  a = rᵀz / pᵀq,  θ += a p,  r -= a q
                 z = M⁻¹ r,  b = rᵀz / (the one before),  p = z + b p

    Every output has its own a and b, and leaves the products when it is done. The recurrence for r
    drifts away from the truth in finite precision: it is compared with -∇F(θ) every ``check_every``
    iterations and before an output is called solved, replaced by it, and started anew where the two
    differ much. An output that rounding keeps from its goal is given up, with a warning.

    All vectors are combinations of rows of Z. Where rows are few they are kept as such (see
    ``RowSpace``): the same iterates without vectors of D entries.

    With the norm of the function for a penalty (``RKHSNorm``) the equations are those of a kernel
    machine: (K + n alpha I) a = y − b for all rows, where several strengths share each product
    with K, or the normal equations in the span of landmarks. The kernel matrix is held in memory
    if it fits and that pays, and otherwise made anew for every product. Without a preconditioner
    such equations take hundreds of iterations.

    Parameters
    ----------
    tol : float, default=1e-4
        Stop when ‖r‖ ≤ tol · (‖r‖ of the best constant model) for every output.
    max_iter : int, default=1000
    space : {"auto", "columns", "rows"}, default="auto"
        What vectors have entries for. By rows only from the start w = 0 and without a
        preconditioner; "auto" does so where it may and 4 n ≤ D.
    preconditioner : "auto", "tempered", "jacobi", None or callable, default="auto"
        M is the fourth root of the diagonal of ∇²F, the diagonal, or nothing; or M⁻¹ is any
        symmetric positive definite linear function of residuals (D + 1,) or (D + 1, k), column by
        column. The diagonal itself speeds up the first iterations over columns of very unequal
        sizes, such as bins, and slows down the later ones; its fourth root keeps most of the one
        and avoids the other. "auto" is "jacobi" for a ``tol`` of a hundredth or more, else
        "tempered"; or nothing by rows.

        For a kernel machine: "rpcholesky" for all rows, FᵀF + n alpha I with the factor F of a
        randomly pivoted Cholesky factorisation of K; "falkon" for landmarks, the equations with the
        landmarks for rows; "auto" is the one that fits; None is nothing; a callable takes residuals
        (m, C) and the alpha of each column (C,).
    check_every : int, default=50
        Iterations between two looks at the true residual.
    rank : int or "auto", default="auto"
        Rows of F at most; there are fewer where alpha is so large that they serve it. "auto" is
        10 √n where the memory allows: F then costs about what some products with K do.
    hold : bool or "auto", default="auto"
        Whether to keep a kernel matrix in memory where it fits; "auto" does so unless products make
        it anew as fast: in float32, with few inputs and a kernel of the core.
    random_state : int, RandomState, Generator or None, default=0
        Of the pivots.

    References
    ----------
    Wu, Yen, Chen and Yan (2016), Revisiting random binning features, section 3.1. Díaz, Epperly,
    Frangella, Tropp and Webber (2023), Robust, randomized preconditioning for kernel ridge
    regression. Rudi, Carratino and Rosasco (2017), FALKON: an optimal large scale kernel method.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.designs import Dense
    >>> from mercer.losses import Squared
    >>> from mercer.penalties import L2
    >>> from mercer.problem import Problem
    >>> from mercer.solvers import ConjugateGradient
    >>> design = Dense(np.array([[1.0, 0.0], [0.0, 2.0]]))
    >>> problem = Problem(design, [1.0, 1.0], Squared(), L2(0.5), fit_intercept=False)
    >>> ConjugateGradient(tol=1e-10).solve(problem).coef.round(6)
    array([0.5, 0.4])
    """

    space: str = "auto"
    preconditioner: str | Callable[..., NDArray] | None = "auto"
    check_every: int = 50
    rank: int | str = "auto"
    hold: bool | str = "auto"
    random_state: Any = 0

    name: ClassVar[str] = "cg"
    requires: ClassVar[frozenset[str]] = frozenset(
        {"a quadratic loss", "a penalty of linear gradient"}
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_every = positive_integer(self.check_every, "check_every")
        name_from(self.space, ("auto", "columns", "rows"), "space")
        if not (self.preconditioner is None or callable(self.preconditioner)):
            kinds = ("auto", *_POWERS, _OF_ROWS, _OF_LANDMARKS)
            name_from(self.preconditioner, kinds, "preconditioner")
        if self.space == "rows" and self.preconditioner not in ("auto", None):
            raise ValueError(
                "preconditioner must be 'auto' or None with space='rows'; "
                f"got {self.preconditioner!r}."
            )
        if not is_name(self.rank, "auto"):
            self.rank = positive_integer(self.rank, "rank")
        if not is_name(self.hold, "auto") and not isinstance(self.hold, (bool, np.bool_)):
            raise TypeError(f"hold must be True, False or 'auto'; got {self.hold!r}.")

    def criterion(self, problem: Problem) -> str:
        return "gradient" if problem.penalty.quadratic else "residual"

    def _path(
        self,
        problem: Problem,
        alphas: list[float],
        start: ArrayLike | None,
        callback: Callback | None,
    ) -> list[Result]:
        if len(alphas) > 1 and not problem.penalty.quadratic:
            problem = krylov.held(problem, self.hold)
            if spans_all_rows(problem):
                return self._machines(problem, alphas, start, callback)
        return super()._path(problem, alphas, start, callback)

    def _minimise(
        self,
        problem: Problem,
        start: ArrayLike | None,
        callback: Callback | None,
        clock: Clock,
        shared: tuple[Any, ...],
    ) -> Result:
        if problem.penalty.quadratic:
            return super()._minimise(problem, start, callback, clock, shared)
        return self._machines(problem, [problem.penalty.alpha], start, callback)[0]

    def _check(self, problem: Problem) -> None:
        super()._check(problem)
        kind = self.preconditioner
        if kind is None or callable(kind) or kind == "auto":
            return
        if problem.penalty.quadratic:
            suits: tuple[str, ...] = tuple(_POWERS)
        else:
            of_rows = spans_all_rows(problem)
            suits = (_OF_ROWS,) if of_rows else (_OF_LANDMARKS,)
        if kind not in suits:
            raise ValueError(
                f"preconditioner must be 'auto', None or {' or '.join(map(repr, suits))} for this "
                f"problem; got {kind!r}."
            )

    def _machines(
        self,
        problem: Problem,
        alphas: list[float],
        start: ArrayLike | None,
        callback: Callback | None,
    ) -> list[Result]:
        """Solve a kernel machine for several strengths at once."""
        clock = Clock()
        theta = start_of(problem, start)
        stopped = interrupted = False
        with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
            with clock.phase("hold"):
                problem = krylov.held(problem, self.hold)
            system = equations(problem, alphas)
            with clock.phase("precondition"):
                key = key_from(self.random_state)
                inverse = krylov.preconditioner(system, self.preconditioner, self.rank, key)
            state = krylov.KrylovState.begin(problem, system, inverse, clock, theta)
            state.leave(self.tol)
            try:
                while len(state.index) and state.iteration < self.max_iter and not stopped:
                    self._advance(state)
                    with clock.pause():
                        stopped = callback is not None and bool(callback(state))
            except KeyboardInterrupt:
                interrupted = True
        lost = krylov.lost(state, theta)
        if lost or not (stopped or interrupted or np.all(state.relative <= self.tol)):
            worst = float(state.relative.max())
            stalled = lost or not len(state.index)
            limit = f"stalled at the limit of {problem.dtype}" if stalled else ""
            self._warn(replace(state, optimality=worst, stalled=limit))
        return state.results(self.tol, interrupted)

    def _advance(self, state: krylov.KrylovState) -> None:
        """One step for every strength at work."""
        state.advance(self.tol)
        seen = bool(np.any(state.relative[state.index] <= self.tol))
        restart = False
        if seen or state.iteration % self.check_every == 0:
            restart = state.verify(self.tol)
        state.observe()
        state.leave(self.tol)
        if len(state.index):
            state.turn(restart)

    def init(self, problem: Problem, theta: NDArray, clock: Clock) -> _State:
        space, x = self._space(problem, theta)
        with clock.phase("products"):
            residual = -space.gradient(x)
            relative = space.norm(residual) / space.reference()
        with clock.phase("vectors"):
            precondition = self._preconditioner(space)
            direction = np.array(precondition(residual))
        state = _State(
            problem=problem,
            clock=clock,
            optimality=float(relative.max()),
            space=space,
            x=x,
            precondition=precondition,
            outputs=np.arange(len(relative)),
            residual=residual,
            direction=direction,
            slope=space.dot(residual, direction),
            relative=relative,
            best=relative.copy(),
            strikes=np.zeros(len(relative)),
            values=space.values(x).copy(),
            lost=np.zeros(len(relative), dtype=bool),
        )
        state.keep(relative > self.tol)
        return state

    def step(self, problem: Problem, state: _State) -> None:
        space, outputs = state.space, state.outputs
        several = len(state.relative) > 1
        with state.clock.phase("products"):
            product = space.curvature_product(
                state.x, state.direction, outputs if several else None
            )
        with state.clock.phase("vectors"):
            curvature = space.curvature(state.direction, product)
            check_range(problem, curvature)
            usable = curvature > 0
            length = np.divide(state.slope, curvature, out=np.zeros_like(curvature), where=usable)
            state.values[outputs] -= 0.5 * length * state.slope
            length = length.astype(space.dtype)
            some = None if len(outputs) == len(state.relative) else outputs
            add_scaled(state.x, length, state.direction, some)
        with state.clock.phase("products"):
            space.subtract(state.residual, length, product)
        with state.clock.phase("vectors"):
            state.relative[outputs] = space.norm(state.residual) / space.reference()[outputs]
            state.lost[outputs] |= ~usable
        at_work = (state.relative[outputs] > self.tol) & usable
        restart = False
        if not at_work.any() or (state.iteration + 1) % self.check_every == 0:
            restart = self._verify(state)
        else:
            state.keep(at_work)
        state.optimality = float(state.relative.max())
        if len(state.outputs):
            self._turn(state, restart)
        elif state.optimality > self.tol:
            state.stalled = f"stalled at the limit of {problem.dtype}"

    def _turn(self, state: _State, restart: bool) -> None:
        """The next direction: conjugate to the ones before, or steepest descent."""
        with state.clock.phase("vectors"):
            steepest = state.precondition(state.residual)
            slope = state.space.dot(state.residual, steepest)
            if restart:
                state.direction = np.array(steepest)
            else:
                state.direction *= (slope / state.slope).astype(state.space.dtype)
                state.direction += steepest
            state.slope = slope

    def _verify(self, state: _State) -> bool:
        """Replace the recurrence by the truth; whether CG has to start anew from there."""
        space = state.space
        with state.clock.phase("products"):
            true = -space.gradient(state.x)
            norm = space.norm(true)
            relative = norm / space.reference()
        with state.clock.pause():
            state.values = space.values(state.x).copy()
        strayed = state.relative < (1 - _DRIFT) * relative
        at_work = np.isin(np.arange(len(relative)), state.outputs)
        drift = space.norm(_columns(true, at_work) - state.residual)
        strayed[state.outputs] |= drift > _DRIFT * norm[state.outputs]
        # Rounding rules where the recurrence strays again and again and the truth gets no better.
        better = relative <= 0.5 * state.best
        state.best = np.where(better, relative, state.best)
        state.strikes = np.where(better, 0, state.strikes + strayed)
        state.lost |= state.strikes >= _STRIKES
        state.relative = relative
        unsolved = (relative > self.tol) & ~state.lost
        if np.any(unsolved & at_work):
            state.keep(unsolved[state.outputs])
            state.residual = _columns(true, unsolved & at_work)
            return bool(np.any(strayed[state.outputs]))
        if isinstance(space, RowSpace) and not unsolved.any():
            # The last look is at θ itself; what it finds unsolved goes on by columns.
            state.x, state.space = state.coef, state.problem
            state.precondition = self._preconditioner(state.space)
            state.residual = -state.problem.gradient(state.x)
            state.outputs = np.arange(len(relative))
            state.best, state.strikes = np.full_like(relative, np.inf), np.zeros(len(relative))
            state.lost = np.zeros(len(relative), dtype=bool)
            self._verify(state)
            return True  # directions by rows do not go on by columns
        # Outputs that were let go too early come back.
        state.outputs = np.flatnonzero(unsolved)
        state.residual = _columns(true, unsolved)
        return True

    def finish(self, problem: Problem, state: _State) -> None:
        if state.optimality > self.tol and not state.stalled:
            state.x, state.space = state.coef, problem
            state.optimality = problem.optimality(state.x)

    def _space(self, problem: Problem, theta: NDArray) -> tuple[Problem | RowSpace, NDArray]:
        weights = theta[:-1] if problem.fit_intercept else theta
        possible = self.preconditioner in ("auto", None) and not np.any(weights)
        if self.space == "rows" and not possible:
            raise ValueError("space must be 'auto' or 'columns' with a start other than w = 0.")
        n, n_columns = problem.design.shape
        few = n_columns >= _COLUMNS_PER_ROW * n
        if self.space == "rows" or (self.space == "auto" and possible and few):
            space = RowSpace(problem)
            return space, space.initial()
        return problem, theta

    def _preconditioner(self, space: Problem | RowSpace) -> Callable[[NDArray], NDArray]:
        kind = self.preconditioner
        if kind is None or isinstance(space, RowSpace):
            return lambda residual: residual
        if callable(kind):
            return kind
        diagonal = space.diagonal(space.initial())
        if space.fit_intercept and len(diagonal) > 1:
            # The intercept's own entry is far above those of columns that add up to a constant.
            diagonal[-1] = diagonal[:-1].max()
        inverse = np.ones_like(diagonal)
        if kind == "auto":
            kind = "jacobi" if self.tol >= _CRUDE else "tempered"
        np.power(diagonal, -_POWERS[kind], out=inverse, where=diagonal > 0)
        inverse = inverse.astype(space.dtype)
        return lambda residual: inverse * residual


def _columns(array: NDArray, mask: NDArray) -> NDArray:
    return array if mask.all() or len(mask) == 1 else array[..., mask]
