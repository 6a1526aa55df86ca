"""Trees of local kernel machines over many machines: rows are moved to nodes, and solved there.

A sample of the rows, drawn by their numbers, grows the first cuts of a tree here, as it does where
a fit goes through files; with all rows in the sample they are those of any fit. Every shard then
gives its rows to the nodes that these cuts leave, and every node is a task: its part of the tree is
grown and its leaves are solved where its rows are. What comes here are cuts, numbers of rows and
coefficients, and the rows once, which the model keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.arrays import available_memory, check_memory, format_bytes
from mercer._runtime.random import Slot, distinct
from mercer._runtime.threads import blas_threads
from mercer.distributed.engine import Engine, Handle
from mercer.distributed.memory import Memory
from mercer.distributed.shards import Shard, gathered
from mercer.distributed.tables import FarTable, NumberedRows
from mercer.estimators.selection import responses
from mercer.losses import Loss
from mercer.maps.grafting import grafted, top_of_tree
from mercer.maps.local import LocalKernel
from mercer.maps.partition import Members, Partition, forest, grown_in_core
from mercer.solvers.local import solve_leaves

__all__ = ["Forest"]

_SAMPLE = 2**18  # rows that the first cuts are drawn from: medians are right to a percent or so
# Nodes of a tree: enough for many workers, and few enough for every shard to give rows to all.
_FEW_NODES, _MANY_NODES = 64, 256
# Rows of a node: fewer are not worth a task, and more where there would be too many nodes.
_LEAST_ROWS, _NODE_ROWS = 2**11, 2**17
_NEWS = 8  # times that a listener is told of a tree, or so
_SHARE = 0.5  # of a worker's memory, that the rows of a node may take
_COPIES, _BOOKKEEPING = 4.0, 100.0  # times that these are held, and bytes of each of them besides


@dataclass(frozen=True)
class _Node(Shard):
    """The rows of a node, by increasing numbers, and rows held out that it answers for."""

    numbers: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    asked: Any = None  # (m, d)
    asked_numbers: Any = None
    shares: Any = None  # of its answers


@dataclass(frozen=True)
class _Part:
    """Solution of a node: its part of the tree, and the machines of its leaves.

    Attributes
    ----------
    order, sizes : ndarray of int64
        Numbers of the rows of the leaves, and how many there are in each.
    coef : ndarray of shape (q, len(order), k)
    constants : ndarray of shape (q, n_leaves, k)
    answers : ndarray of shape (q, m, k) or None
        To the rows held out, of the numbers ``asked``, by their shares.
    """

    partition: Partition
    order: NDArray[np.int64]
    sizes: NDArray[np.int64]
    coef: NDArray
    constants: NDArray
    optimality: NDArray[np.float64]
    n_iter: int
    asked: NDArray[np.int64] | None = None
    answers: NDArray[np.float64] | None = None


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


@dataclass
class Forest:
    """The trees of a local kernel machine whose rows are on shards.

    Parameters
    ----------
    shards : Engine
        Of ``NumberedRows``.
    rows : FarTable
        The same.
    map : LocalKernel
        Not fitted, with a ``gamma`` in numbers.
    loss : Loss
    alphas : list of float
    how : dict
        Further arguments of ``solve_leaves``.
    fitted : ndarray of int64 or None, default=None
        Numbers of the rows to fit to, the others being held out; None means all.
    """

    shards: Engine
    rows: FarTable
    map: LocalKernel
    loss: Loss
    alphas: list[float]
    how: dict[str, Any]
    fitted: NDArray[np.int64] | None = None
    trees: list[Partition] = field(init=False, default_factory=list)  # that are whole
    parts: list[_Part] = field(init=False, default_factory=list)  # and of the tree at work
    n_whole: int = field(init=False, default=0)  # of them, those of whole trees
    top: Partition | None = field(init=False, default=None)  # of the tree at work
    nodes: Engine | None = field(init=False, default=None)  # of that

    def __post_init__(self) -> None:
        self.n = self.rows.shape[0] if self.fitted is None else len(self.fitted)
        self.leaf_size, self.n_trees, self.overlap = self.map.shape_for(self.n)
        self.key = self.map.settled()
        map_ = copy(self.map)
        map_.n_jobs = 1  # a node is a thread's work
        settings = self.leaf_size, self.overlap, self.key, self.n
        plan = _Plan(map_, *settings, self.loss, self.alphas, self.how)
        self.plan = self.shards.share(plan)
        self.node_size = self._node_size()

    def solve(self, listener: Callable[[Forest], bool] | None) -> bool:
        """Solve tree by tree; whether the listener stopped before all were solved."""
        sample = self._sample()
        for number in range(self.n_trees):
            size = max(2, self.node_size * len(sample) // self.n)
            cuts = self.overlap, self.key, self.map.n_jobs
            self.top, places = top_of_tree(sample, size, number, *cuts)
            self.close()
            self.nodes = self.shards.exchange(_Split(self.top), len(places), _join)
            for _ in self._solved(self.nodes, number, places):
                if len(self.parts) - self.n_whole == len(places):
                    partitions = [part.partition for part in self.parts[self.n_whole :]]
                    self.trees.append(grafted(self.top, partitions))
                    self.n_whole = len(self.parts)
                if listener is not None and listener(self):
                    return len(self.trees) < self.n_trees
        return False

    def close(self) -> None:
        """Forget the nodes of the tree at work; without them there is no model of a part of it."""
        if self.nodes is not None:
            self.nodes.close()
            self.nodes = None

    def _solved(self, nodes: Engine, number: int, places: list[int]) -> Iterator[None]:
        """Solve the nodes of a tree, a few of which are waited for at a time."""
        own = {i: (place,) for i, place in enumerate(places)}
        handles: list[Handle] = nodes.each(_solve, self.plan, number, own=own)
        step = max(nodes.n_workers, -(-len(handles) // _NEWS))
        for first in range(0, len(handles), step):
            self.parts += nodes.fetch(handles[first : first + step])
            yield

    def _sample(self) -> NDArray:
        """The rows that first cuts are grown from."""
        chosen = np.sort(distinct(self.key, self.n, min(self.n, _SAMPLE), Slot.BATCH))
        rows = self.rows[chosen if self.fitted is None else self.fitted[chosen]]
        return np.ascontiguousarray(rows)

    def _node_size(self) -> int:
        """Rows of a node: the same for any number of workers that have the memory."""
        wanted = max(min(self.n // _FEW_NODES, _NODE_ROWS), self.n // _MANY_NODES)
        size = max(2 * self.leaf_size, _LEAST_ROWS, wanted)
        rooms = [room for room in self.shards.everywhere(_room) if room is not None]
        of_row = _bytes_of_row(self.rows)
        most = int(_SHARE * min(rooms) / of_row) if rooms else size
        if most < 2 * self.leaf_size:
            raise MemoryError(
                f"a node of two leaves of {self.leaf_size} rows needs "
                f"{format_bytes(2.0 * self.leaf_size * of_row / _SHARE)} but a worker has "
                f"{format_bytes(min(rooms))}; leaf_size={max(2, most // 2)} would fit."
            )
        return min(size, most)

    # -- what is solved ------------------------------------------------------------------------

    @property
    def n_solved(self) -> int:
        """Rows of the leaves that are solved."""
        return sum(len(part.order) for part in self.parts)

    @property
    def optimality(self) -> float:
        """The largest of a leaf of whole trees; 1.0, which means leave, if there is none."""
        whole = self.parts[: self.n_whole]
        return float(max((part.optimality.max() for part in whole), default=1.0))

    @property
    def n_iter(self) -> int:
        """Most steps of a leaf."""
        return max((part.n_iter for part in self.parts), default=1)

    def model(self, landmarks: NDArray) -> tuple[LocalKernel, NDArray]:
        """The trees that are whole; of the first one also a part, and means for the rest."""
        parts = self.parts[: self.n_whole]
        tree = forest(self.trees) if self.trees else None
        if tree is None and self.top is not None:
            parts = [*self.parts, *self._means(len(self.parts))]
            tree = grafted(self.top, [part.partition for part in parts])
        if tree is None:
            raise KeyboardInterrupt
        order = np.concatenate([part.order for part in parts])
        starts = np.cumsum([0, *np.concatenate([part.sizes for part in parts])])
        coef = np.concatenate(
            [*(part.coef[0] for part in parts), *(part.constants[0] for part in parts)]
        )
        return self.map.fitted_to(landmarks, tree, Members(order, starts)), coef

    def answers(self) -> NDArray[np.float64]:
        """Mean answers of the trees to all rows, (q, n, k); 0 for those fitted to."""
        k = self.parts[0].coef.shape[2]
        out = np.zeros((len(self.alphas), self.rows.shape[0], k))
        for part in self.parts:
            if part.asked is not None and part.answers is not None:
                out[:, part.asked] += part.answers  # a node is asked once for a row
        return out / len(self.trees)

    def _means(self, first: int) -> list[_Part]:
        """A leaf for every node from the first on, with the mean target of its rows."""
        if self.nodes is None or self.top is None or self.nodes.n_shards <= first:
            return []
        fit_intercept = self.how.get("fit_intercept", True)
        like, dtype = self.top, self.rows.dtype
        leaf = Partition(
            like.directions[:0], like.low[:0], like.high[:0], like.children[:0], np.array([-1])
        )
        one, all_left = np.ones(1, np.int64), np.ones(1)
        return [
            _Part(
                leaf,
                number,
                one,
                np.zeros((1, 1, len(mean)), dtype),
                mean[None, None],
                all_left,
                1,
            )
            for number, mean in (
                (number, (mean * fit_intercept).astype(dtype))
                for number, mean in gathered(self.nodes, _mean)[first:]
            )
        ]


# -- on workers ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Split:
    """Gives the rows of a shard to the nodes that first cuts leave."""

    top: Partition

    def __call__(self, memory: Memory, number: int, shard: NumberedRows) -> list[_Node]:
        nodes = [_piece(shard, np.arange(0), np.ones(0))] * self.top.n_leaves
        if len(shard):
            for route in self.top.routes(shard.X, 1):
                nodes[route.leaf] = _piece(shard, route.rows, route.shares)
        return nodes


def _piece(shard: NumberedRows, rows: NDArray[np.int64], shares: NDArray[np.float64]) -> _Node:
    """Some rows of a shard, of those held out with shares in the answers."""
    asked: tuple[Any, ...] = ()
    if shard.held is not None:
        held = shard.held[rows]
        away = rows[held]
        asked = shard.X[away], shard.numbers[away], shares[held]
        rows = rows[~held]
    weights = None if shard.weights is None else shard.weights[rows]
    return _Node(shard.X[rows], shard.target[rows], weights, shard.numbers[rows], *asked)


def _join(*pieces: _Node) -> _Node:
    """The rows of a node, in the order of the shards."""
    names = ("X", "target", "weights", "numbers", "asked", "asked_numbers", "shares")
    columns: list[list[Any]] = [[getattr(piece, name) for piece in pieces] for name in names]
    joined: list[Any] = [None if own[0] is None else np.concatenate(own) for own in columns]
    return _Node(*joined)


def _solve(memory: Memory, number: int, node: _Node, plan: _Plan, tree: int, place: int) -> _Part:
    """Grow the part of a tree below a node, and solve its leaves."""
    check_memory(
        len(node) * _bytes_of_row(node.X),
        f"a node of {len(node)} rows, which are too alike to be divided,",
        "leave out rows that are the same, and give the others weights",
    )
    numbers = np.array([tree])
    growth = plan.leaf_size, numbers, plan.overlap, plan.key, 1, place
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
        with blas_threads(1):
            answers = responses(fitted, solution.coef, False, node.asked)
        answers *= node.shares[:, None]
    return _Part(
        partition,
        node.numbers[members.order],
        np.diff(members.starts),
        solution.coef[:, :count],
        solution.coef[:, count:],
        solution.optimality,
        solution.n_iter,
        node.asked_numbers,
        answers,
    )


def _mean(node: _Node) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The number of a row of a node, and the mean target of all."""
    return node.numbers[:1], np.average(node.target, axis=0, weights=node.weights)


def _room(memory: Memory) -> int | None:
    return available_memory()


def _bytes_of_row(X: Any) -> float:
    return _COPIES * X.dtype.itemsize * (X.shape[1] + 2) + _BOOKKEEPING
