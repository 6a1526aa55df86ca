"""Block coordinate descent for ridge problems: columns generated, used and forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer._random import key_from
from mercer._validation import flag, name_from, positive_integer
from mercer.problem import Problem
from mercer.problem.systems import System, SystemBlock
from mercer.solvers.base import Clock, Result, Solver, State, TraceRow, check_range, start_of
from mercer.solvers.block.partition import partition, permutation, size_of_blocks
from mercer.solvers.factor import Factor

__all__ = ["BlockCoordinateDescent"]

_TRACES = ("epoch", "block")


@dataclass(kw_only=True)
class BlockState(State):
    """Where block coordinate descent stands, for all strengths at once.

    Attributes
    ----------
    alphas : ndarray of shape (q,)
        All strengths asked for.
    coefs : list of ndarray
        θ of every strength.
    n_blocks : int
        Blocks done so far, over all epochs.
    """

    system: System
    alphas: NDArray[np.float64]
    blocks: list[NDArray]
    index: NDArray[np.int64]  # numbers of the strengths at work
    relative: NDArray[np.float64]  # of every strength
    n_iter: NDArray[np.int64]
    traces: list[list[TraceRow]]
    finished: dict[int, NDArray] = field(default_factory=dict)
    n_blocks: int = 0

    @property
    def coefs(self) -> list[NDArray]:
        """θ of every strength."""
        places = {int(number): place for place, number in enumerate(self.index)}
        return [
            self.system.theta(self.system.x, places[number])
            if number in places
            else self.finished[number]
            for number in range(len(self.alphas))
        ]

    @property
    def coef(self) -> NDArray:
        """θ of the first strength."""
        return self.coefs[0]

    @property
    def objective(self) -> float:
        """F of the first strength."""
        return self.traces[0][-1].objective


@dataclass
class BlockCoordinateDescent(Solver):
    """Exact minimisation over one block of columns after the other.

    ::

        repeat for blocks J in random order
            generate Z_J,  G = (1/n) Z_Jᵀ S Z_J,  r = the residual of the equations at J
            (G + alpha P_JJ) Δ = r,   w_J += Δ,   y − Zw −= Z_J Δ

    A block is generated, used and forgotten; only vectors of one entry per row or column stay.
    Several outputs share a block and its factor, several strengths share the block and G. For the
    kernel machine of all rows (``RKHSNorm`` with the design itself) it is Gauss-Seidel on
    (K + n alpha I) a = y − b: no Gram matrix, and the residual is known after every block.

    Parameters
    ----------
    tol : float, default=1e-4
        Stop when the residual of the equations, relative to that of the best constant model, is at
        most this for every output.
    max_iter : int, default=50
        Most epochs.
    block_size : int or "auto", default="auto"
        Columns of a block; "auto" balances the factor against the columns and looks at the memory.
    shuffle : bool, default=True
        Random blocks in a fresh random order every epoch; else blocks of neighbours in order.
    trace : {"epoch", "block"}, default="epoch"
        When the trace gets a row and the callback is called.
    random_state : int, RandomState, Generator or None, default=0
        Of the blocks and their order.

    References
    ----------
    Tu, Roelofs, Venkataraman and Recht (2016), Large scale kernel learning using block coordinate
    descent.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.designs import Dense
    >>> from mercer.losses import Squared
    >>> from mercer.penalties import L2
    >>> from mercer.problem import Problem
    >>> from mercer.solvers import BlockCoordinateDescent
    >>> problem = Problem(Dense(np.eye(2)), [1.0, 3.0], Squared(), L2(0.5))
    >>> BlockCoordinateDescent(tol=1e-10, block_size=1).solve(problem).coef.round(6)
    array([-0.5,  0.5,  2. ])
    """

    max_iter: int = 50
    block_size: int | str = "auto"
    shuffle: bool = True
    trace: str = "epoch"
    random_state: Any = 0

    name: ClassVar[str] = "block"
    requires: ClassVar[frozenset[str]] = frozenset({"a linear system"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.block_size != "auto":
            self.block_size = positive_integer(self.block_size, "block_size")
        flag(self.shuffle, "shuffle")
        name_from(self.trace, _TRACES, "trace")

    def criterion(self, problem: Problem) -> str:
        return "residual"

    def solve(
        self,
        problem: Problem,
        start: ArrayLike | None = None,
        callback: Callable[[Any], bool | None] | None = None,
    ) -> Result:
        return self._solve(problem, [problem.penalty.alpha], start, callback)[0]

    def solve_path(
        self,
        problem: Problem,
        alphas: Iterable[float],
        callback: Callable[[Any], bool | None] | None = None,
    ) -> list[Result]:
        """Minimisers for several strengths, which share blocks and Gram matrices.

        Each is what ``solve`` returns for it alone, to rounding; a strength whose residual is small
        enough leaves.
        """
        return self._solve(problem, list(alphas), None, callback)

    def _solve(
        self,
        problem: Problem,
        alphas: list[float],
        start: ArrayLike | None,
        callback: Callable[[Any], bool | None] | None,
    ) -> list[Result]:
        self._check(problem)
        clock = Clock()
        stopped = interrupted = False
        with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
            state = self._begin_path(problem, alphas, start, clock)
            try:
                while len(state.index) and state.iteration < self.max_iter and not stopped:
                    stopped = self._epoch(state, callback)
            except KeyboardInterrupt:
                interrupted = True
        return self._results(state, stopped, interrupted)

    def _begin_path(
        self, problem: Problem, alphas: list[float], start: ArrayLike | None, clock: Clock
    ) -> BlockState:
        key = key_from(self.random_state)
        system = problem.system(alphas)
        system.phase = clock.phase
        theta = start_of(problem, start)
        system.start(system.from_theta(theta))
        size = self.block_size
        if size == "auto":
            size = size_of_blocks(problem.design, _inputs(problem.design))
        blocks = partition(problem.design, int(size), key, self.shuffle)
        q = len(alphas)
        state = BlockState(
            problem=problem,
            clock=clock,
            x=theta,
            system=system,
            alphas=system.alphas.copy(),
            blocks=blocks,
            index=np.arange(q),
            relative=np.ones(q),
            n_iter=np.zeros(q, dtype=np.int64),
            traces=[[] for _ in range(q)],
        )
        self._key = key
        if start is not None or not blocks:
            state.relative = self._residuals(state)
        self._observe_path(state)
        self._leave(state)
        return state

    def _epoch(self, state: BlockState, callback: Callable[[Any], bool | None] | None) -> bool:
        system = state.system
        n_blocks = len(state.blocks)
        order = permutation(self._key, state.iteration, n_blocks)
        squares = np.zeros(system.shape[1])
        for position, number in enumerate(order if self.shuffle else range(n_blocks)):
            block = system.block(state.blocks[number])
            with state.clock.phase("solve"):
                delta = self._local(system, block)
            system.move(block, delta)
            squares += np.einsum("ij,ij->j", block.rhs, block.rhs)
            state.n_blocks += 1
            if self.trace == "block" and position + 1 < n_blocks:
                if system.knows_residual:
                    state.relative[state.index] = self._residuals(state)
                self._observe_path(state)
                if self._stops(state, callback):
                    return True
        state.iteration += 1
        state.n_iter[state.index] += 1
        state.relative[state.index] = self._residuals(state)
        self._observe_path(state)
        stopped = self._stops(state, callback)
        self._leave(state)
        return stopped

    def _local(self, system: System, block: SystemBlock) -> NDArray[np.float64]:
        delta = np.empty_like(block.rhs)
        for place, alpha in enumerate(system.alphas):
            columns = system.of(place)
            delta[:, columns] = Factor(block.matrix(alpha)).solve(block.rhs[:, columns])
        return delta

    def _residuals(self, state: BlockState) -> NDArray[np.float64]:
        """The largest relative residual of every strength at work."""
        with state.clock.phase("reduce"):
            residual = state.system.current_residual(state.blocks)
            return state.system.relative(residual).max(axis=1)

    def _observe_path(self, state: BlockState) -> None:
        with state.clock.pause():
            values = state.system.values().sum(axis=1)
            check_range(state.problem, values)
            state.optimality = float(state.relative.max())
            for place, number in enumerate(state.index):
                row = TraceRow(
                    state.clock.seconds,
                    float(values[place]),
                    float(state.relative[number]),
                    int(np.count_nonzero(state.system.x[:, state.system.of(place)])),
                    dict(state.clock.phases),
                )
                state.traces[number].append(row)

    def _stops(self, state: BlockState, callback: Callable[[Any], bool | None] | None) -> bool:
        with state.clock.pause():
            return callback is not None and bool(callback(state))

    def _leave(self, state: BlockState) -> None:
        """Let strengths that are solved go."""
        stays = state.relative[state.index] > self.tol
        for place in np.flatnonzero(~stays):
            theta = state.system.theta(state.system.x, int(place))
            state.finished[int(state.index[place])] = theta
        if not stays.all():
            state.system.keep(np.flatnonzero(stays))
            state.index = state.index[stays]

    def _results(self, state: BlockState, stopped: bool, interrupted: bool) -> list[Result]:
        converged = state.relative <= self.tol
        if not (converged.all() or stopped or interrupted):
            worst = int(np.argmax(state.relative))
            shown = replace(state, optimality=float(state.relative[worst]))
            self._warn(shown, stacklevel=5)
        return [
            Result(
                coef,
                int(state.n_iter[number]),
                bool(converged[number]),
                float(state.relative[number]),
                state.traces[number],
                interrupted and not converged[number],
                self.criterion(state.problem),
            )
            for number, coef in enumerate(state.coefs)
        ]


def _inputs(design: Any) -> int:
    """Numbers that an entry of a generated design is made of."""
    X = getattr(design, "X", None)
    return int(X.shape[1]) if X is not None and len(X.shape) == 2 else 0
