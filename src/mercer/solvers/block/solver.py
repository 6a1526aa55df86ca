"""Block coordinate descent for ridge problems: columns generated, used and forgotten."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer._runtime.arrays import check_setting
from mercer._runtime.device_arrays import on_host
from mercer._runtime.random import RandomStateLike, key_from
from mercer._runtime.validation import flag, is_name, name_from, positive_integer
from mercer.equations import Equations, equations
from mercer.problem import Problem
from mercer.solvers.base import (
    Callback,
    Clock,
    Loop,
    Result,
    Solver,
    check_range,
    results_of,
    start_of,
)
from mercer.solvers.block.checkpoint import Checkpoint
from mercer.solvers.block.fingerprint import mark_of
from mercer.solvers.block.partition import (
    bytes_of_block,
    least_bytes_of_block,
    partition,
    permutation,
    size_of_blocks,
)
from mercer.solvers.block.state import BlockState
from mercer.solvers.block.subspace import Subspace, depth_of

__all__ = ["BlockCoordinateDescent"]

_CACHE = 0.5  # share of the available memory for the cache of columns, Gram matrices and factors
_FACTORS = 0.25  # share of the cache for Gram matrices and factors
_DEPTH = 5  # number of last epochs whose changes are minimised over together
_FUNCTIONS = 256  # most functions of few rows or landmarks in that minimisation
_SMALL = 0.05  # share of the available memory for these functions
# Numbers stored per row and column, without the changes of the last epochs: of equations that
# work on whole arrays, and of those that work in pieces of rows.
_VECTORS, _IN_PIECES = 5, 2
_HELD = 0.75  # share of the memory that the cache leaves for the columns of the block at work
_NEAR = 2.0  # block-wise residuals overestimate by up to 2x: compute the true one below 2·tol
_TRACES = ("epoch", "block")


@dataclass
class BlockCoordinateDescent(Solver):
    """Block coordinate descent: exact minimisation over one block of columns after the other.

    ::

        repeat for blocks J in random order
            generate Z_J,  G = (1/n) Z_Jᵀ S Z_J,  r = the residual of the equations at J
            (G + alpha P_JJ) Δ = r,   w_J += Δ,   y − Zw −= Z_J Δ

    A block is computed, used and discarded; the solver stores only vectors of one entry per row or
    column. Normal equations store them in float32 if the rows are float32 and there are 2²⁴ or more
    residuals, and generate some rows of a block again, piece by piece, where memory does not hold
    the block. Several outputs share a block and its factor, several strengths the block and G.
    For the kernel machine of all rows (``RKHSNorm`` with the design itself) the algorithm is
    Gauss-Seidel on (K + n alpha I) a = y − b: there is no Gram matrix, and the residual is known
    after each block. For other systems the trace has the norm of the block-wise residuals, each
    before its block moves, which is right to a factor of about two; the result has the true norm.

    Parameters
    ----------
    tol : float, default=1e-4
        Tolerance: the solver stops when the residual of the equations, relative to that of the best
        constant model, is at most ``tol`` for every output.
    max_iter : int, default=50
        Largest number of epochs.
    block_size : int or "auto", default="auto"
        Number of columns per block; "auto" balances the times of the factor and of the columns,
        within the memory.
    shuffle : bool, default=True
        Whether blocks are random, in a new random order at each epoch. Otherwise blocks are
        neighbouring columns, in order.
    accelerated : bool, default=True
        Whether to minimise, after each epoch, over the changes of the last epochs together and over
        smooth functions of a few rows or landmarks, which no single block contains. It needs
        products with these few columns only. Without it the algorithm is that of the paper. It is
        off for the kernel machine of all rows if the rows are on many machines.
    hold : int or "auto", default="auto"
        Size in bytes of the cache of blocks, Gram matrices and factors between epochs; "auto" is
        half of the available memory.
    trace : {"epoch", "block"}, default="epoch"
        Frequency of rows of the trace and of calls of the callback.
    checkpoint : str or path, default=None
        Folder for the state of the fit, from which an interrupted fit of the same problem resumes.
        The result is equal bit for bit if the memory again holds all blocks, or again does not; it
        is equal up to rounding if the rows are on many machines, on any number of them. The file is
        deleted at the end of the fit. A damaged file, or a file of other data or settings, raises
        an error.
    checkpoint_every : int, default=10
        Number of blocks between two checkpoints.
    random_state : int, RandomState, Generator or None, default=0
        Seed of the blocks and their order.

    References
    ----------
    Tu, Roelofs, Venkataraman and Recht (2016), Large scale kernel learning using block coordinate
    descent.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import designs, losses, penalties, solvers
    >>> from mercer.problem import Problem
    >>> design = designs.Dense(np.eye(2))
    >>> problem = Problem(design, [1.0, 3.0], losses.Squared(), penalties.L2(0.5))
    >>> solvers.BlockCoordinateDescent(tol=1e-10, block_size=1).solve(problem).coef.round(6)
    array([-0.5,  0.5,  2. ])
    """

    max_iter: int = 50
    block_size: int | str = "auto"
    shuffle: bool = True
    accelerated: bool = True
    hold: int | str = "auto"
    trace: str = "epoch"
    checkpoint: str | os.PathLike[str] | None = None
    checkpoint_every: int = 10
    random_state: RandomStateLike = 0

    name: ClassVar[str] = "block"
    follows_design: ClassVar[bool] = True
    requires: ClassVar[frozenset[str]] = frozenset({"a linear system"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_name(self.block_size, "auto"):
            self.block_size = positive_integer(self.block_size, "block_size")
        flag(self.shuffle, "shuffle")
        flag(self.accelerated, "accelerated")
        if not is_name(self.hold, "auto"):
            self.hold = _bytes(self.hold)
        self.checkpoint_every = positive_integer(self.checkpoint_every, "checkpoint_every")
        name_from(self.trace, _TRACES, "trace")

    def criterion(self, problem: Problem) -> str:
        return "residual"

    def _path(
        self, problem: Problem, alphas: list[float], start: ArrayLike | None, callback: Callback
    ) -> list[Result]:
        clock = Clock()
        with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
            system = equations(problem, alphas)
            try:
                state = self._begin_path(system, start, clock)
                with Loop(clock, callback) as loop:
                    while len(state.index) and state.iteration < self.max_iter and not loop.stopped:
                        self._epoch(state, loop)
                return self._results(state, loop)
            finally:
                system.close()

    def _begin_path(self, system: Equations, start: ArrayLike | None, clock: Clock) -> BlockState:
        problem, n_strengths = system.problem, len(system.alphas)
        key = key_from(self.random_state)
        system.phase = clock.phase
        theta = start_of(problem, start)
        size, room, of_block = self._plan(system)
        system.start(system.from_theta(theta))
        state = BlockState(
            problem=problem,
            clock=clock,
            x=theta,
            system=system,
            alphas=system.alphas.copy(),
            key=key,
            block_size=size,
            rank=0,
            blocks=partition(problem.design, size, key, self.shuffle),
            index=np.arange(n_strengths),
            relative=np.ones(n_strengths),
            n_iter=np.zeros(n_strengths, dtype=np.int64),
            traces=[[] for _ in range(n_strengths)],
            solves=system.solves(_FACTORS * room),
            subspace=Subspace(system, _DEPTH) if self._accelerates(system) else None,
        )
        resumed = self._resumed(state, start)
        for J in state.blocks:
            J.flags.writeable = False  # a device is told of them once
        # A trace by blocks shows the cost of every block: none is generated beforehand.
        system.hold(of_block)
        system.cache((1 - _FACTORS) * room, None if self.trace == "block" else state.blocks)
        # Only columns that are cached from the start count: a resumed fit has no others.
        state.cached = system.cached
        if resumed:
            return state
        state.rank = int(self._n_functions(system, state.cached))
        if start is not None or not state.blocks:
            state.relative = self._residuals(state)
        state.observe()
        self._leave(state)
        return state

    def _plan(self, system: Equations) -> tuple[int, float, float]:
        """Columns of a block, bytes of the cache, and bytes for the columns of a block at work."""
        design, n_machines = system.problem.design, system.n_machines
        n_long = system.n_rows / n_machines + 2.0 * system.shape[0]
        functions = 24.0 * n_long * self._n_functions(system, cached=True)
        n_vectors = _IN_PIECES if system.in_pieces else _VECTORS
        n_vectors += 2 * depth_of(system, _DEPTH) * self._accelerates(system)
        vectors = float(system.kind.itemsize) * system.shape[1] * n_long * n_vectors + functions
        available = system.available_memory()
        free = n_machines * _CACHE * ((available or 0) - vectors)
        room = float(self.hold) if self.hold != "auto" else free
        size = self.block_size
        if isinstance(size, str):
            size = size_of_blocks(system, vectors, _FACTORS * room)
        size = int(min(size, max(1, design.shape[1])))
        _check_block(system, size, vectors)
        if self.hold == "auto":
            room -= n_machines * _CACHE * bytes_of_block(system, size)
        if available is None:
            return size, room, np.inf
        return size, room, max(0.0, _HELD * (available - vectors - max(0.0, room)))

    def _accelerates(self, system: Equations) -> bool:
        return self.accelerated and system.spans_subspaces

    def _epoch(self, state: BlockState, loop: Loop) -> None:
        """Minimise over every block once, or until the callback ends the loop."""
        n_blocks = len(state.blocks)
        order = permutation(state.key, state.iteration, n_blocks)
        if not state.position:
            state.squares = np.zeros(state.system.shape[1])
            if state.subspace is not None:
                state.system.begin_change()
        while state.position < n_blocks:
            self._one_block(state, int(order[state.position]) if self.shuffle else state.position)
            in_epoch = self.trace == "block" and state.position < n_blocks
            if in_epoch:
                if state.system.knows_residual:
                    state.relative[state.index] = self._residuals(state)
                state.observe()
            if state.checkpoint is not None and not state.n_blocks % self.checkpoint_every:
                state.save()
            if in_epoch and loop.shows(state):
                return
        state.position = 0
        if state.subspace is not None and n_blocks > 1:
            with state.clock.phase("accelerate"):
                if state.iteration and state.subspace.functions is None:
                    self._draw_functions(state, state.subspace)
                state.subspace.improve(state.relative[state.index])
        state.iteration += 1
        state.n_iter[state.index] += 1
        self._judge(state)
        state.observe()
        state.system.audit(state.iteration)
        loop.shows(state)
        self._leave(state)

    def _draw_functions(self, state: BlockState, subspace: Subspace) -> None:
        """Directions across all blocks, from the second epoch on: easy problems need only one."""
        system = state.system
        if state.rank:
            anchors = permutation(state.key, -2, system.n_anchors)[: state.rank]
            blocks = state.blocks if state.cached else None
            subspace.functions = system.functions(np.sort(anchors), blocks)

    def _n_functions(self, system: Equations, cached: bool) -> int:
        """As many as memory allows, and as cost no more than a few epochs."""
        if not self._accelerates(system):
            return 0
        rank = min(_FUNCTIONS, system.n_rows // 8, system.problem.design.shape[1] // 8)
        available = system.available_memory()
        if available is not None:
            n_long = system.n_rows / system.n_machines + 2.0 * system.shape[0]
            rank = min(rank, int(_SMALL * available / (24.0 * n_long)))
        if not cached:
            inputs = getattr(system.problem.design, "n_inputs", 0)
            rank = min(rank, 2 * inputs + 20 + 2 * system.width)
        return rank

    def _one_block(self, state: BlockState, number: int) -> None:
        system = state.system
        block = system.block(state.blocks[number], state.solves.needs_gram(number))
        with state.clock.phase("solve"):
            columns = [system.of(place) for place in range(len(state.index))]
            delta = state.solves.solve(number, block, state.index, system.alphas, columns)
        check_range(state.problem, delta)
        system.move(block, delta)
        residual = block.rhs[: len(block.columns)]
        state.squares += np.einsum("ij,ij->j", residual, residual)
        state.position += 1
        state.n_blocks += 1

    def _judge(self, state: BlockState) -> None:
        """Set the residuals after an epoch.

        Block-wise residuals, each before its block moves, stand for that of the normal equations,
        which needs all columns once more; it is computed where they are small. The kernel machine's
        residual is part of the state. The state is computed anew before a strength leaves, if moves
        of the residual, or the state of normal equations, were rounded to float32.
        """
        system = state.system
        if system.knows_residual:
            relative = self._residuals(state)
            relative = self._confirmed(state, relative, state.problem.dtype)
            true = np.ones(len(relative), dtype=bool)
        else:
            relative = system.relative_of_blocks(state.squares).max(axis=1)
            true = relative <= _NEAR * self.tol
            if state.iteration == 1 and (state.cached or len(state.blocks) == 1):
                true[:] = True  # the first epoch may have solved it all
            if true.any():
                found = self._confirmed(state, self._residuals(state), system.kind)
                relative = np.where(true, found, relative)
        state.relative[state.index] = relative
        state.estimated = not true.all()

    def _confirmed(
        self, state: BlockState, relative: NDArray[np.float64], kind: np.dtype
    ) -> NDArray[np.float64]:
        """Residuals of a fresh state, if one of ``relative`` is small and moves have that dtype."""
        if kind != np.float32 or relative.min() > self.tol:
            return relative
        with state.clock.phase("reduce"):
            state.system.start(state.system.x, state.blocks if state.cached else None)
        return self._residuals(state)

    def _residuals(self, state: BlockState) -> NDArray[np.float64]:
        """The largest relative residual of every strength at work."""
        with state.clock.phase("reduce"):
            residual = state.system.current_residual(state.blocks)
            return state.system.relative(residual).max(axis=1)

    def _leave(self, state: BlockState) -> None:
        """Drop strengths that are solved."""
        stays = state.relative[state.index] > self.tol
        if stays.all():
            return
        for place in np.flatnonzero(~stays):
            theta = state.system.theta(state.system.x, int(place))
            state.finished[int(state.index[place])] = on_host(theta)
        state.keep(np.flatnonzero(stays))

    def _resumed(self, state: BlockState, start: ArrayLike | None) -> bool:
        """Prepare checkpoints, and go where the last one was, if there is one."""
        if self.checkpoint is None:
            return False
        settings = {
            "tol": self.tol,
            "block_size": self.block_size,  # "auto" is what it was when the fit began
            "shuffle": self.shuffle,
            "accelerated": self.accelerated,
            "trace": self.trace,
            "random_state": None if self.random_state is None else state.key,
        }
        system = state.system
        mark = mark_of(system, state.alphas, None if start is None else on_host(state.x), settings)
        state.checkpoint = Checkpoint(self.checkpoint, mark, state.system.examples())

        def restore(arrays: dict[str, NDArray], facts: dict[str, Any]) -> None:
            state.restore(arrays, facts)
            _check_block(system, state.block_size)
            design = state.problem.design
            state.blocks = partition(design, state.block_size, state.key, self.shuffle)

        return state.checkpoint.load(restore)

    def _results(self, state: BlockState, loop: Loop) -> list[Result]:
        whole = not (loop.stopped or loop.interrupted)
        if whole and len(state.index) and state.estimated:
            state.relative[state.index] = self._residuals(state)
        if whole and state.checkpoint is not None:
            state.checkpoint.remove()
        if whole and not np.all(state.relative <= self.tol):
            self._warn(replace(state, optimality=float(state.relative.max())))
        return results_of(
            state.coefs, state.n_iter, state.relative, self.tol, state.traces, loop.interrupted
        )


def _check_block(system: Equations, size: int, besides: float = 0.0) -> None:
    """Refuse blocks of a size for which there is no room."""
    check_setting(
        "block_size",
        size,
        lambda b: besides + least_bytes_of_block(system, b),
        f"block coordinate descent with blocks of {size} columns of {system.n_rows} rows",
        "take fewer rows, outputs or alphas",
    )


def _bytes(value: Any) -> int:
    if not isinstance(value, Integral) or isinstance(value, (bool, np.bool_)) or value < 0:
        raise ValueError(f"hold must be 'auto' or a number of bytes of at least 0; got {value!r}.")
    return int(value)
