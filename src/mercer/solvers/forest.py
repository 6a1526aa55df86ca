"""Forests of local kernel machines: rows are moved to nodes of first cuts, and solved there.

A sample of the rows, drawn by their numbers, grows the first cuts of every tree here; with all rows
in the sample they are those of any fit. Every shard of an engine then gives its rows to the nodes
that these cuts leave, and every node is a task: its part of the tree is grown and its leaves are
solved where its rows are. Where that is, in workers or in files, is the engine's matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mercer._runtime.arrays import check_memory, format_bytes
from mercer._runtime.random import Slot, distinct
from mercer.engines.engine import Engine
from mercer.engines.memory import WorkerStore
from mercer.engines.shards import NumberedRows, Shard
from mercer.losses import Loss
from mercer.maps.base import responses
from mercer.maps.grafting import grafted, top_of_tree
from mercer.maps.local import LocalKernel
from mercer.maps.partition import Members, Partition, forest, grown_in_core
from mercer.solvers.local import solve_leaves

__all__ = [
    "Forest",
    "ForestProgress",
    "ForestSolution",
    "Kept",
    "KeptHere",
    "Part",
    "bytes_per_row",
    "most_rows",
    "node_size",
]

SAMPLE = 2**18  # rows sampled for the first cuts: medians are accurate to about 1 %
# Nodes of a tree: enough for many workers, and few enough for every shard to give rows to all.
_FEW_NODES, _MANY_NODES = 64, 256
# Rows of a node: fewer are not worth a task, and more where there would be too many nodes.
_LEAST_ROWS, _NODE_ROWS = 2**11, 2**17
_NEWS = 8  # calls of a listener for a tree on several workers, about
SHARE = 0.5  # share of the memory for rows of a node; the rest is for leaves and overhead
# Copies of the rows of a node: as they come, joined and leaf by leaf; bytes of each row besides.
_COPIES, _BOOKKEEPING = 4.0, 100.0


def bytes_per_row(n_inputs: int, n_outputs: int, dtype: DTypeLike) -> float:
    """Bytes that a row takes while its node is solved."""
    return _COPIES * (np.dtype(dtype).itemsize * n_inputs + 8.0 * (n_outputs + 1)) + _BOOKKEEPING


def most_rows(room: float, of_row: float, leaf_size: int, who: str) -> int:
    """Rows of the largest node for which there is room; ``who`` has it.

    Raises
    ------
    MemoryError
        If these are fewer than two leaves.
    """
    most = int(SHARE * room / of_row)
    if most < 2 * leaf_size:
        raise MemoryError(
            f"a node of two leaves of {leaf_size} rows needs "
            f"{format_bytes(2.0 * leaf_size * of_row / SHARE)} but {who} {format_bytes(room)}; "
            f"leaf_size={max(2, most // 2)} would fit."
        )
    return most


def node_size(n: int, leaf_size: int) -> int:
    """Rows of a node that is a task of a worker, the same for any number of workers."""
    wanted = max(min(n // _FEW_NODES, _NODE_ROWS), n // _MANY_NODES)
    return max(2 * leaf_size, _LEAST_ROWS, wanted)


@dataclass(frozen=True)
class ForestProgress:
    """Progress for a listener: rows of the leaves solved so far, and their expected number.

    ``model()`` gives what is solved as a fitted map and its coefficients (D,) or (D, k).
    """

    n_solved: int
    n_expected: int
    model: Callable[[], tuple[LocalKernel, NDArray]]


@dataclass(frozen=True)
class ForestSolution:
    """A fitted map with coefficients (D,) or (D, k); the rest is of ``LocalSolution``."""

    map: LocalKernel
    coef: NDArray
    optimality: float
    n_iter: int
    stopped: bool
    interrupted: bool


@dataclass(frozen=True)
class Node(Shard):
    """The rows of a node, by increasing numbers, and held-out rows that it answers for."""

    numbers: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    asked: Any = None  # (m, d)
    asked_numbers: Any = None
    shares: Any = None  # of its answers


@dataclass(frozen=True)
class Part:
    """Solution of a node: its part of the tree, and the machines of its leaves.

    Attributes
    ----------
    order, sizes : ndarray of int64
        Numbers of the rows of the leaves, and how many there are in each.
    coef : ndarray of shape (q, len(order), k)
    constants : ndarray of shape (q, n_leaves, k)
    rows : ndarray of shape (len(order), d)
        Rows of the leaves where a model keeps them leaf by leaf, else of shape (0, d).
    answers : ndarray of shape (q, m, k) or None
        Answers to the held-out rows ``asked``, times their shares.
    """

    partition: Partition
    order: NDArray[np.int64]
    sizes: NDArray[np.int64]
    coef: NDArray
    constants: NDArray
    optimality: NDArray[np.float64]
    n_iter: int
    rows: NDArray
    asked: NDArray[np.int64] | None = None
    answers: NDArray[np.float64] | None = None


class Kept(Protocol):
    """Where the rows and coefficients of solved nodes are kept."""

    @property
    def n_rows(self) -> int:
        """Rows of the leaves of all parts."""
        ...

    def add(self, part: Part) -> None: ...

    def model(
        self, n_parts: int, means: Sequence[tuple[int, NDArray]]
    ) -> tuple[NDArray, Members, NDArray]:
        """Landmarks, leaves and coefficients of the first parts, then of constant leaves.

        Each of ``means`` is the number of a row of such a leaf and its constant (k,).
        """
        ...


class KeptHere:
    """Solved nodes in memory, beside the rows of all; ``landmarks`` brings these."""

    def __init__(self, landmarks: Callable[[], NDArray]):
        self.landmarks, self.parts = landmarks, list[Part]()
        self._rows: NDArray | None = None

    @property
    def n_rows(self) -> int:
        return sum(len(part.order) for part in self.parts)

    def add(self, part: Part) -> None:
        self.parts.append(part)

    def model(
        self, n_parts: int, means: Sequence[tuple[int, NDArray]]
    ) -> tuple[NDArray, Members, NDArray]:
        if self._rows is None:
            self._rows = self.landmarks()
        parts, dtype = self.parts[:n_parts], self._rows.dtype
        ones = np.ones(len(means), np.int64)
        order = [*(part.order for part in parts), np.array([row for row, _ in means], np.int64)]
        sizes = np.concatenate([*(part.sizes for part in parts), ones])
        k = (parts[0].coef[0] if parts else means[0][1][None]).shape[1]
        constants = np.reshape([mean for _, mean in means], (-1, k)).astype(dtype)
        coef = [part.coef[0] for part in parts] + [np.zeros((len(means), k), dtype)]
        coef += [part.constants[0] for part in parts] + [constants]
        members = Members(np.concatenate(order), np.concatenate([[0], np.cumsum(sizes)]))
        return self._rows, members, np.concatenate(coef)


@dataclass(frozen=True)
class _Plan:
    """Settings that a node is solved with besides its rows; sent to every worker once."""

    map: LocalKernel
    leaf_size: int
    overlap: float
    key: int
    n_rows: int
    loss: Loss
    alphas: list[float]
    how: dict[str, Any]
    of_row: float
    keeps_rows: bool


@dataclass
class Forest:
    """The trees of a local kernel machine whose rows are on the shards of an engine.

    Parameters
    ----------
    shards : Engine
        Of ``NumberedRows``.
    rows : matrix
        Rows of all shards, read by their numbers.
    map : LocalKernel
        Not fitted, with a ``gamma`` in numbers.
    loss : Loss
    alphas : list of float
    how : dict
        Further arguments of ``solve_leaves``.
    node_size : int
        Most rows of a node, as far as rows are not alike.
    kept : Kept
    of_row : float
        ``bytes_per_row`` of these rows.
    one_output : bool, default=False
        Whether coefficients are (D,).
    n_sampled : int
        Rows that first cuts are grown from.
    fitted : ndarray of int64 or None, default=None
        Numbers of the rows to fit to, the others being held out; None means all.
    threads : int or None, default=1
        Threads that solve a node.
    keeps_rows : bool, default=False
        Whether parts carry their rows.
    at_once : int or None, default=None
        Nodes waited for at a time; None takes an eighth of a tree, or one for each worker.
    """

    shards: Engine
    rows: Any
    map: LocalKernel
    loss: Loss
    alphas: list[float]
    how: dict[str, Any]
    node_size: int
    kept: Kept
    of_row: float
    one_output: bool = False
    n_sampled: int = SAMPLE
    fitted: NDArray[np.int64] | None = None
    threads: int | None = 1
    keeps_rows: bool = False
    at_once: int | None = None
    # Whole trees and the number of their parts: replaced in one go, so that they fit each other
    # whenever the user interrupts.
    whole: tuple[list[Partition], int] = field(init=False, default_factory=lambda: ([], 0))
    top: Partition | None = field(init=False, default=None)  # of the tree at work
    nodes: Engine | None = field(init=False, default=None)  # of the tree at work
    optimalities: list[float] = field(init=False, default_factory=list)  # part by part
    n_iter: int = field(init=False, default=1)

    def __post_init__(self) -> None:
        self.n = self.rows.shape[0] if self.fitted is None else len(self.fitted)
        self.leaf_size, self.n_trees, self.overlap = self.map.tree_settings(self.n)
        self.key = self.map.fix_key()
        self.tree: list[Partition] = []  # parts of the tree at work
        self.held: list[tuple[NDArray[np.int64], NDArray[np.float64]]] = []
        self.means: dict[int, tuple[int, NDArray]] = {}  # of the nodes of the tree at work
        map_ = copy(self.map)
        map_.n_jobs = self.threads
        settings = self.leaf_size, self.overlap, self.key, self.n
        plan = _Plan(
            map_, *settings, self.loss, self.alphas, self.how, self.of_row, self.keeps_rows
        )
        self.plan = self.shards.share(plan)

    def fit(self, listener: Callable[[ForestProgress], bool] | None) -> ForestSolution:
        """Solve all trees, or those that a listener or the user waits for.

        Raises
        ------
        KeyboardInterrupt
            If the user stops before there is a first model; a later interruption ends the fit with
            the trees that are whole, or the first one with means for what is not solved of it.
        """
        n_expected = int(self.map.expected_members(self.n))

        def tell() -> bool:
            progress = ForestProgress(self.kept.n_rows, n_expected, self.model)
            return listener is not None and bool(listener(progress))

        stopped = interrupted = False
        try:
            stopped = self.solve(tell)
        except KeyboardInterrupt:
            if self.top is None:
                raise
            stopped = interrupted = True
        return ForestSolution(*self.model(), self.optimality, self.n_iter, stopped, interrupted)

    def solve(self, tell: Callable[[], bool] | None = None) -> bool:
        """Solve tree by tree; True if ``tell`` stopped before all were solved."""
        for number, (top, places) in enumerate(self._first_cuts()):
            self.close()
            nodes = self.shards.exchange(_Split(top, self.threads), len(places), _join)
            self.top, self.nodes, self.tree, self.means = top, nodes, [], {}
            for _ in self._solved(nodes, number, places):
                if len(self.tree) == len(places):
                    trees, n_parts = self.whole
                    self.whole = [*trees, grafted(top, self.tree)], n_parts + len(places)
                if tell is not None and tell():
                    return len(self.whole[0]) < self.n_trees
        return False

    def close(self) -> None:
        """Forget the nodes of the tree at work; without them there is no model of a part of it."""
        if self.nodes is not None:
            self.nodes.close()
            self.nodes = None

    def _first_cuts(self) -> list[tuple[Partition, list[int]]]:
        """First cuts of every tree, from a sample of the rows, and numbers of their nodes."""
        chosen = np.sort(distinct(self.key, self.n, min(self.n, self.n_sampled), Slot.BATCH))
        rows = self.rows[chosen if self.fitted is None else self.fitted[chosen]]
        sample = np.ascontiguousarray(rows)
        size = max(2, self.node_size * len(sample) // self.n)
        how = self.overlap, self.key, self.map.n_jobs
        return [top_of_tree(sample, size, number, *how) for number in range(self.n_trees)]

    def _solved(self, nodes: Engine, number: int, places: list[int]) -> Iterator[None]:
        """Solve the nodes of a tree, a few of which are waited for at a time."""
        own = {i: (place,) for i, place in enumerate(places)}
        handles = nodes.each(_solve, self.plan, number, own=own)
        step = self.at_once or max(nodes.n_workers, -(-len(handles) // _NEWS))
        for first in range(0, len(handles), step):
            for part in nodes.fetch(handles[first : first + step]):
                self.kept.add(part)
                self.optimalities.append(float(part.optimality.max()))
                self.n_iter = max(self.n_iter, part.n_iter)
                if part.asked is not None and part.answers is not None:
                    self.held.append((part.asked, part.answers))
                self.tree.append(part.partition)
                nodes.done(
                    len(self.tree) - 1
                )  # last: an interruption asks for nodes not in the tree
            yield

    # -- what is solved ------------------------------------------------------------------------

    @property
    def optimality(self) -> float:
        """The largest of a leaf of whole trees; 1.0, which constant leaves have, without any."""
        return max(self.optimalities[: self.whole[1]], default=1.0)

    def model(self) -> tuple[LocalKernel, NDArray]:
        """The trees that are whole; of the first one also a part, and means for the rest."""
        trees, n_parts = self.whole
        if trees or self.top is None:
            partition, means = forest(trees), list[tuple[int, NDArray]]()
        else:
            means, n_parts = self._constants(), len(self.tree)
            partition = grafted(self.top, [*self.tree, *(_leaf(self.top) for _ in means)])
        landmarks, members, coef = self.kept.model(n_parts, means)
        fitted = self.map.fitted_to(landmarks, partition, members)
        return fitted, coef[:, 0] if self.one_output else coef

    def answers(self) -> NDArray[np.float64]:
        """Mean answers of the trees to all rows, (q, n, k); 0 for those fitted to."""
        k = self.held[0][1].shape[2]
        out = np.zeros((len(self.alphas), self.rows.shape[0], k))
        for asked, answers in self.held:
            out[:, asked] += answers  # a node is asked once for a row
        return out / len(self.whole[0])

    def _constants(self) -> list[tuple[int, NDArray]]:
        """For every node that is not solved the number of one of its rows, and its constant."""
        if self.nodes is None:
            return []
        left = range(len(self.tree), self.nodes.n_shards)
        if not self.means:
            found = self.nodes.fetch(self.nodes.each(_mean, numbers=left))
            fit_intercept = self.how.get("fit_intercept", True)
            self.means = {
                node: (number, mean * fit_intercept)
                for node, (number, mean) in zip(left, found, strict=True)
            }
        return [self.means[node] for node in left]


def _leaf(like: Partition) -> Partition:
    """A tree of one leaf."""
    return Partition(
        like.directions[:0], like.low[:0], like.high[:0], like.children[:0], np.array([-1])
    )


# -- where the rows are ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Split:
    """Gives the rows of a shard to the nodes that first cuts leave."""

    top: Partition
    threads: int | None

    def __call__(self, memory: WorkerStore, number: int, shard: NumberedRows) -> list[Node]:
        nodes = [_piece(shard, np.arange(0), np.ones(0))] * self.top.n_leaves
        if len(shard):
            for route in self.top.routes(shard.X, self.threads):
                nodes[route.leaf] = _piece(shard, route.rows, route.shares)
        return nodes


def _piece(shard: NumberedRows, rows: NDArray[np.int64], shares: NDArray[np.float64]) -> Node:
    """Some rows of a shard, of those held out with shares in the answers."""
    asked: tuple[Any, ...] = ()
    if shard.held is not None:
        held = shard.held[rows]
        away = rows[held]
        asked = shard.X[away], shard.numbers[away], shares[held]
        rows = rows[~held]
    weights = None if shard.weights is None else shard.weights[rows]
    return Node(shard.X[rows], shard.target[rows], weights, shard.numbers[rows], *asked)


def _join(*pieces: Node) -> Node:
    """The rows of a node, in the order of the shards."""
    names = ("X", "target", "weights", "numbers", "asked", "asked_numbers", "shares")
    columns: list[list[Any]] = [[getattr(piece, name) for piece in pieces] for name in names]
    joined: list[Any] = [None if own[0] is None else np.concatenate(own) for own in columns]
    return Node(*joined)


def _solve(
    memory: WorkerStore, number: int, node: Node, plan: _Plan, tree: int, place: int
) -> Part:
    """Grow the part of a tree below a node, and solve its leaves."""
    check_memory(
        len(node) * plan.of_row,
        f"a node of {len(node)} rows, which are too alike to be divided,",
        "leave out rows that are the same, and give the others weights",
    )
    growth = plan.leaf_size, np.array([tree]), plan.overlap, plan.key, plan.map.n_jobs, place
    partition, members = grown_in_core(node.X, *growth)
    fitted = plan.map.fitted_to(node.X, partition, members)
    solution = solve_leaves(
        fitted,
        node.target,
        node.weights,
        plan.loss,
        plan.alphas,
        n_rows=plan.n_rows,
        **plan.how,
    )
    if solution.interrupted:
        raise KeyboardInterrupt
    count = len(members.order)
    answers = None
    if node.asked is not None:
        answers = responses(fitted, solution.coef, False, node.asked)
        answers *= node.shares[:, None]
    return Part(
        partition,
        node.numbers[members.order],
        np.diff(members.starts),
        solution.coef[:, :count],
        solution.coef[:, count:],
        solution.optimality,
        solution.n_iter,
        node.X[members.order] if plan.keeps_rows else node.X[:0],
        node.asked_numbers,
        answers,
    )


def _mean(memory: WorkerStore, number: int, node: Node) -> tuple[int, NDArray[np.float64]]:
    """The number of a row of a node, and the mean target of all."""
    return int(node.numbers[0]), np.average(node.target, axis=0, weights=node.weights)
