"""Local kernel machines of more rows than memory holds, through files.

A sample of the rows grows the first cuts of a tree. The rows are then read once, in their order,
and written to a file for each node that these cuts leave; a node's rows fit in memory, so that its
part of the tree is grown and its leaves are solved as those of any local kernel machine. The
model's arrays are written as they come: rows and coefficients leaf by leaf, mapped into memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.arrays import check_memory, format_bytes, row_chunks
from mercer._runtime.random import Slot, distinct
from mercer._runtime.rows import Data, bytes_per_row
from mercer.losses import Loss
from mercer.maps.grafting import grafted, top_of_tree
from mercer.maps.local import LocalKernel
from mercer.maps.partition import Members, Partition, forest, grown_in_core
from mercer.solvers.local import solve_leaves

__all__ = ["FileProgress", "FileSolution", "solve_through_files"]

_SAMPLE = 2**18  # rows sampled for the first cuts: medians are accurate to about 1 %
_SHARE = 0.5  # share of the memory for rows; the rest is for chunks, leaves and overhead
# Copies of the rows of a node in memory: from the file, as an array, and leaf by leaf.
_COPIES = 4.0
_OF_CUTS = 48.0  # bytes per row while it is projected and divided
_BOOKKEEPING = 100.0  # bytes per row for indices in leaves and float64 coefficients


@dataclass(frozen=True)
class FileProgress:
    """Progress for a listener: rows of the leaves solved so far, and about how many there will be.

    ``model()`` gives what is solved as a fitted map and its coefficients.
    """

    n_solved: int
    n_expected: int
    model: Callable[[], tuple[LocalKernel, NDArray]]


@dataclass(frozen=True)
class FileSolution:
    """A fitted map with coefficients (D, k), memory maps; the rest is of ``LocalSolution``."""

    map: LocalKernel
    coef: NDArray
    optimality: float
    n_iter: int
    stopped: bool
    interrupted: bool


@dataclass
class _Node:
    """A node of the first cuts: its number in the tree, its rows in a file, sums of its targets."""

    number: int
    path: Path
    n_rows: int = 0
    weight: float = 0.0
    target: Any = 0.0


def solve_through_files(
    map_: LocalKernel,
    X: Data,
    target: NDArray,
    weights: NDArray | None,
    loss: Loss,
    alpha: float,
    memory: float,
    *,
    fit_intercept: bool = True,
    tol: float = 1e-2,
    max_iter: int = 1000,
    listener: Callable[[FileProgress], bool] | None = None,
) -> FileSolution:
    """Solve every leaf of the trees, whose rows are written to temporary files.

    ``map_`` is not fitted and has a ``gamma`` in numbers; ``weights`` (n,) are above 0 and brought
    to mean 1 here; ``memory`` are the bytes that may be taken. The listener is called after every
    node and stops the work by True. The rest is as of ``solve_leaves``.

    Raises
    ------
    MemoryError
        If ``memory`` does not hold the rows of two leaves, or rows that are all alike.
    OSError
        If the files cannot be written.
    KeyboardInterrupt
        If the user stops before there is a first model; a later interruption ends the fit with the
        trees that are whole, or the first one with means for what is not solved of it.
    """
    target = np.asarray(target, dtype=np.float64).reshape(len(target), -1)
    weights = None if weights is None else weights / np.mean(weights)
    how = {"fit_intercept": fit_intercept, "tol": tol, "max_iter": max_iter}
    # The files are gone with the folder, on systems that let them be read while they are mapped.
    with tempfile.TemporaryDirectory(prefix="mercer-", ignore_cleanup_errors=True) as folder:
        work = _Work(map_, X, target, weights, loss, alpha, memory, how, Path(folder))
        stopped = interrupted = False
        try:
            stopped = work.solve(listener)
        except KeyboardInterrupt:
            if not work.nodes:
                raise
            stopped = interrupted = True
        optimality = work.optimality if work.whole[0] else 1.0  # what means leave
        return FileSolution(*work.model(), optimality, work.n_iter, stopped, interrupted)


@dataclass
class _Work:
    """A fit through files, and what is solved of it."""

    map: LocalKernel
    X: Data
    target: NDArray[np.float64]
    weights: NDArray | None
    loss: Loss
    alpha: float
    memory: float
    how: dict[str, Any]
    folder: Path
    # Whole trees, and how many parts they have been kept in: replaced in one go, so that they fit
    # each other whenever the user interrupts.
    whole: tuple[list[Partition], int] = field(default_factory=lambda: ([], 0))
    top: Partition | None = None  # of the tree at work
    parts: list[Partition] = field(default_factory=list)  # of the nodes that are solved
    nodes: list[_Node] = field(default_factory=list)
    optimality: float = 0.0
    n_iter: int = 1

    def __post_init__(self) -> None:
        n, d = self.X.shape
        self.leaf_size, self.n_trees, self.overlap = self.map.shape_for(n)
        self.key = self.map.settled()
        k = self.target.shape[1]
        numbers = (d,), (k,), ()
        kinds = self.X.dtype, np.float64, np.float64
        names = "X", "target", "weight"
        self.record = np.dtype(
            [(name, kind, size) for name, kind, size in zip(names, kinds, numbers, strict=True)]
        )
        of_row = _COPIES * self.record.itemsize + _BOOKKEEPING
        self.node_size = int(_SHARE * self.memory / of_row)
        if self.node_size < 2 * self.leaf_size:
            raise MemoryError(
                f"a node of two leaves of {self.leaf_size} rows needs "
                f"{format_bytes(2.0 * self.leaf_size * of_row / _SHARE)} but "
                f"{format_bytes(max(0.0, self.memory))} are available; "
                f"leaf_size={max(2, self.node_size // 2)} would fit."
            )
        self.kept = _Kept(self.folder, d, k, self.X.dtype)

    def solve(self, listener: Callable[[FileProgress], bool] | None) -> bool:
        """Solve tree by tree; whether the listener stopped before all were solved."""
        n_expected = int(self.map.expected_members(self.X.shape[0]))
        for number in range(self.n_trees):
            top, numbers = self._first_cuts(number)
            nodes = [_Node(node, self.folder / f"node-{i}") for i, node in enumerate(numbers)]
            self._divide(top, nodes)
            self.top, self.parts, self.nodes = top, [], nodes
            for node in nodes:
                self._solve_node(number, node)
                if node is nodes[-1]:
                    trees = [*self.whole[0], grafted(top, self.parts)]
                    self.whole = trees, len(self.kept.sizes)
                if listener is None:
                    continue
                progress = FileProgress(self.kept.n_rows, n_expected, self.model)
                if listener(progress):
                    return len(self.whole[0]) < self.n_trees
        return False

    def _first_cuts(self, number: int) -> tuple[Partition, list[int]]:
        """The first cuts of a tree, and the numbers of the nodes that they leave."""
        n = self.X.shape[0]
        of_row = 3.0 * bytes_per_row(self.X) + _OF_CUTS
        size = min(n, _SAMPLE, max(int(_SHARE * self.memory / of_row), 2))
        chosen = np.sort(distinct(self.key, n, size, Slot.BATCH))
        sample = np.ascontiguousarray(self.X[chosen])
        node_size = max(2, self.node_size * size // n)
        return top_of_tree(sample, node_size, number, self.overlap, self.key, self.map.n_jobs)

    def _divide(self, top: Partition, nodes: Sequence[_Node]) -> None:
        """Write the rows to the files of their nodes, in their order."""
        n = self.X.shape[0]
        for rows in row_chunks(n, 4.0 * self.record.itemsize):
            X = self.X[rows]
            target = self.target[rows]
            weights = np.ones(len(target)) if self.weights is None else self.weights[rows]
            for route in top.routes(X, self.map.n_jobs):
                records = np.empty(len(route.rows), self.record)
                records["X"], records["target"] = X[route.rows], target[route.rows]
                records["weight"] = weights[route.rows]
                node = nodes[route.leaf]
                node.n_rows += len(records)
                node.weight += float(records["weight"].sum())
                node.target += records["weight"] @ records["target"]
                with node.path.open("ab") as file:
                    records.tofile(file)

    def _solve_node(self, number: int, node: _Node) -> None:
        """Grow the part of the tree below a node, and solve and keep its leaves."""
        check_memory(
            node.n_rows * (_COPIES * self.record.itemsize + _BOOKKEEPING),
            f"a node of {node.n_rows} rows, which are too alike to be divided,",
            "leave out rows that are the same, and give the others weights",
        )
        records = np.fromfile(node.path, self.record)
        node.path.unlink()
        X, target = np.ascontiguousarray(records["X"]), np.ascontiguousarray(records["target"])
        weights = None if self.weights is None else np.ascontiguousarray(records["weight"])
        del records
        numbers, n_jobs = np.array([number]), self.map.n_jobs
        growth = self.leaf_size, numbers, self.overlap, self.key, n_jobs, node.number
        partition, members = grown_in_core(X, *growth)
        solution = solve_leaves(
            self.map.fitted_to(X, partition, members),
            target,
            weights,
            self.loss,
            [self.alpha],
            n_rows=self.X.shape[0],
            **self.how,
        )
        if solution.interrupted:
            raise KeyboardInterrupt
        self.kept.add(X, members, solution.coef[0])
        self.parts.append(partition)
        self.optimality = max(self.optimality, float(solution.optimality[0]))
        self.n_iter = max(self.n_iter, solution.n_iter)

    def model(self) -> tuple[LocalKernel, NDArray]:
        """The trees that are whole; of the first one also a part, and means for the rest."""
        trees, n_parts = self.whole
        if trees or self.top is None:
            landmarks, members, coef = self.kept.mapped(n_parts)
            return self.map.fitted_to(landmarks, forest(trees), members), coef
        left = self.nodes[len(self.parts) :]
        means = [node.target / node.weight * self.how["fit_intercept"] for node in left]
        tree = grafted(self.top, [*self.parts, *(_leaf(self.top) for _ in left)])
        landmarks, members, coef = self.kept.mapped(len(self.parts), means)
        return self.map.fitted_to(landmarks, tree, members), coef


def _leaf(like: Partition) -> Partition:
    """A tree of one leaf."""
    return Partition(
        like.directions[:0], like.low[:0], like.high[:0], like.children[:0], np.array([-1])
    )


class _Kept:
    """The arrays of the model in their files: rows and coefficients of leaf after leaf."""

    def __init__(self, folder: Path, d: int, k: int, dtype: np.dtype):
        self.landmarks = _ArrayFile(folder / "landmarks", (d,), dtype)
        self.order = _ArrayFile(folder / "order", (), np.dtype(np.int64))
        self.coef = _ArrayFile(folder / "coefficients", (k,), dtype)
        self.sizes: list[NDArray[np.int64]] = []  # of the leaves, part by part
        self.constants: list[NDArray] = []
        self.n_models = 0

    @property
    def n_rows(self) -> int:
        """Rows of all leaves."""
        return self.coef.n

    def add(self, X: NDArray, members: Members, coef: NDArray) -> None:
        """Keep the rows of some leaves and their coefficients, after which constants stand."""
        n, count = self.n_rows, len(members.order)
        self.landmarks.append(X[members.order])
        self.order.append(np.arange(n, n + count))
        self.coef.append(coef[:count])
        self.sizes.append(np.diff(members.starts))
        self.constants.append(coef[count:])

    def mapped(
        self, n_parts: int, means: Sequence[NDArray] = ()
    ) -> tuple[NDArray, Members, NDArray]:
        """Rows, leaves and coefficients of the first parts, and of a leaf for each of ``means``."""
        k, count = self.coef.shape[0], len(means)
        sizes = [*self.sizes[:n_parts], np.ones(count, np.int64)]  # one row, which does not count
        starts = np.cumsum(np.concatenate([[0], *sizes])).astype(np.int64)
        n = int(starts[-1]) - count
        self.n_models += 1
        coef = _ArrayFile(self.coef.path.with_suffix(f".{self.n_models}"), (k,), self.coef.dtype)
        if n:
            held = self.coef.mapped(n)
            for rows in row_chunks(n, held.itemsize * k):
                coef.append(held[rows])
        answers = np.reshape(means, (-1, k))
        coef.append(np.concatenate([np.zeros((count, k)), *self.constants[:n_parts], answers]))
        landmarks, order = self.landmarks, self.order
        if count:
            landmarks.write(n, np.zeros((count, *landmarks.shape)))
            order.write(n, np.arange(n, n + count))
        members, theta = Members(order.mapped(n + count), starts), coef.mapped()
        with suppress(OSError):  # goes with the model, where systems let files go that are mapped
            coef.path.unlink()
        return landmarks.mapped(n + count), members, theta


class _ArrayFile:
    """An array that grows in a file, without a header."""

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: np.dtype):
        self.path, self.shape, self.dtype = path, shape, dtype
        self.n = 0
        path.touch()

    def append(self, rows: NDArray) -> None:
        """Write rows after those that are there."""
        self.write(self.n, rows)
        self.n += len(rows)

    def write(self, first: int, rows: NDArray) -> None:
        """Write rows from a place on."""
        with self.path.open("r+b") as file:
            file.seek(first * int(np.prod(self.shape)) * self.dtype.itemsize)
            rows.astype(self.dtype, copy=False).tofile(file)

    def mapped(self, n: int | None = None) -> NDArray:
        """The first n rows, or all."""
        shape = self.n if n is None else n, *self.shape
        return np.asarray(np.memmap(self.path, self.dtype, "r", shape=shape))
