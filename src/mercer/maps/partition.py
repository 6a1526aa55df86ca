"""Trees of cuts that divide rows into leaves of bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer import _core
from mercer._runtime.arrays import n_threads, row_chunks
from mercer._runtime.random import Slot, Streams
from mercer._runtime.rows import bytes_per_row
from mercer._runtime.state import State
from mercer._runtime.threads import side_by_side

__all__ = [
    "MOST_GROWTH",
    "Members",
    "Partition",
    "Route",
    "expected_growth",
    "forest",
    "grown",
    "grown_in_core",
    "moved",
    "usual_overlap",
]

# The same as in growth.hpp, which cuts arrays; CSR is cut here.
_SAMPLE = 1000  # rows of a node that determine the covariance of a cut direction
_DRAWS = 4  # directions tried if many rows lie on the cut
_EXCESS = 0.1  # largest excess of a side, as a share of the rows, unless all draws fail
_NARROWEST = 1e-5  # least width of a blend in units of the spread, above float32 rounding
_USUAL_OVERLAP = 0.05  # default share of the rows on each side of a cut in both sides
MOST_GROWTH = 1.6  # largest ratio of the leaves' rows to the rows of the data
_GATHERED_BYTES = 2**20  # bytes of rows projected together


@dataclass(frozen=True)
class Route:
    """The rows that a leaf answers for, and its share in the answer."""

    leaf: int
    rows: NDArray[np.int64]
    shares: NDArray[np.float64]


@dataclass(frozen=True)
class Members:
    """The rows that every leaf is fitted to: those of leaf l are order[starts[l]:starts[l + 1]]."""

    order: NDArray[np.int64]
    starts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def of(self, leaf: int) -> NDArray[np.int64]:
        """The rows of a leaf, in increasing order."""
        return self.order[self.places(leaf)]

    def places(self, leaf: int) -> slice:
        """Where they stand in ``order``."""
        return slice(int(self.starts[leaf]), int(self.starts[leaf + 1]))


@dataclass(frozen=True)
class Partition:
    """Several trees of cuts; a cut compares a projection of a row with two numbers.

    A row whose projection is at most ``low`` goes to the left, at least ``high`` to the right, and
    in between to both, in shares that change linearly. A row too large to be projected goes to both
    in equal shares.

    Attributes
    ----------
    directions : ndarray of shape (n_cuts, d), float32
    low, high : ndarray of shape (n_cuts,), float64
    children : ndarray of shape (n_cuts, 2), int64
        Left and right: number of a cut, or ~leaf.
    roots : ndarray of shape (n_trees,), int64
        The same for every tree.
    """

    directions: NDArray[np.float32]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    children: NDArray[np.int64]
    roots: NDArray[np.int64]

    @property
    def n_leaves(self) -> int:
        """Leaves of all trees, which are numbered tree by tree."""
        return len(self.low) + len(self.roots)

    def routes(self, X: Any, n_jobs: int | None = 1) -> Iterator[Route]:
        """The leaves that rows of X lie in, in increasing order, with shares that sum to one."""
        if isinstance(X, np.ndarray):
            yield from self._routes_in_core(X, n_jobs)
            return
        self.check(X.shape[1])  # a cycle of cuts would have no end; the core checks its own
        n = X.shape[0]
        reached: list[Route] = []
        for root in self.roots:
            shares = np.full(n, 1.0 / len(self.roots))
            pending = [(int(root), np.arange(n), shares)]
            while pending:
                node, rows, shares = pending.pop()
                if node < 0:
                    reached.append(Route(~node, rows, shares))
                    continue
                to_left = self._left_shares(node, X, rows)
                for child, part in zip(self.children[node], (to_left, 1 - to_left), strict=True):
                    goes = part > 0
                    if goes.any():
                        pending.append((int(child), rows[goes], shares[goes] * part[goes]))
        yield from sorted(reached, key=lambda route: route.leaf)

    def _routes_in_core(self, X: NDArray, n_jobs: int | None) -> Iterator[Route]:
        trees = self.directions, self.low, self.high, self.children, self.roots
        rows, leaves, shares = _core.route_rows(X, *trees, n_threads(n_jobs))
        ends = [*np.flatnonzero(np.diff(leaves)) + 1, len(leaves)] if len(leaves) else []
        for start, end in zip([0, *ends], ends, strict=False):
            yield Route(int(leaves[start]), rows[start:end], shares[start:end])

    def _left_shares(self, node: int, X: Any, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        values = projections(X, rows, self.directions[node])
        with np.errstate(over="ignore", invalid="ignore"):
            shares = (self.high[node] - values) / (self.high[node] - self.low[node])
        return np.clip(np.nan_to_num(shares, nan=0.5), 0.0, 1.0)

    def first_trees(self, count: int) -> Partition:
        """The partition of the first trees alone."""
        later = [int(root) for root in self.roots[count:] if root >= 0]
        cuts = min(later, default=len(self.low))  # they are numbered tree by tree
        return Partition(
            self.directions[:cuts],
            self.low[:cuts],
            self.high[:cuts],
            self.children[:cuts],
            self.roots[:count],
        )

    def check(self, d: int) -> None:
        """Refuse arrays that no growth leaves, so that every walk ends in a leaf."""
        state = State(self)
        cuts = len(state.array("low", (None,), "d"))
        high = state.array("high", (cuts,), "d")
        state.check("high", "be above low", np.all(high > self.low))
        state.array("directions", (cuts, d), "f")
        roots = state.array("roots", (None,), "l")
        state.check("roots", "hold at least one tree", len(roots))
        state.array("children", (cuts, 2), "l")
        state.check("children", "make trees", self._makes_trees())

    def _makes_trees(self) -> bool:
        """Whether a child comes after its parent, and every cut and leaf is met once."""
        cuts = np.arange(len(self.low))
        met = np.concatenate([self.roots, self.children.ravel()])
        whole = np.array_equal(np.sort(met), np.arange(-self.n_leaves, len(cuts)))
        later = np.where(self.children >= 0, self.children > cuts[:, None], True).all()
        return bool(whole and later)


def projections(X: Any, rows: NDArray[np.int64], direction: NDArray) -> NDArray[np.float64]:
    """Inner products of some rows with a direction, (len(rows),)."""
    out = np.empty(len(rows))
    direction = direction.astype(X.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        for part in row_chunks(len(rows), bytes_per_row(X), _GATHERED_BYTES):
            out[part] = X[rows[part]] @ direction
    return out


def usual_overlap(n: int, leaf_size: int) -> float:
    """0.05, and less where the leaves of a tree would have more than 1.6 times the rows.

    More rows than that lengthen a fit more than they improve it, and a constant overlap makes its
    time grow with the power 1.16 of n.
    """
    depth = max(1.0, float(np.log2(n / leaf_size)))
    return float(min(_USUAL_OVERLAP, (MOST_GROWTH ** (1 / depth) - 1) / 2))


def expected_growth(n: int, leaf_size: int, overlap: float) -> float:
    """About how many rows the leaves of a tree of n rows have together, in units of n."""
    depth = np.ceil(max(0.0, np.log(n / leaf_size) / -np.log(0.5 + overlap)))
    return float((1 + 2 * overlap) ** depth)


def grown(
    X: Any, leaf_size: int, n_trees: int, overlap: float, key: int, n_jobs: int | None
) -> tuple[Partition, Members]:
    """Trees whose leaves have at most ``leaf_size`` of the rows, and the rows of the leaves.

    A node is cut at the middle of a projection of its rows to a random direction. Directions are
    sums of many rows with random weights and so have the covariance of the rows: long sides are cut
    more often than short ones. Both sides are given the share ``overlap`` of the rows to either
    side of the cut.

    Parameters
    ----------
    X : array or CSR of shape (n, d)
    leaf_size : int
    n_trees : int
    overlap : float
        At least 0 and at most 0.25.
    key : int
        Fixes all random numbers.
    n_jobs : int or None
        Threads; they change nothing.
    """
    if isinstance(X, np.ndarray):
        return grown_in_core(X, leaf_size, np.arange(n_trees), overlap, key, n_jobs)
    growers = [_Tree(X, leaf_size, overlap, key, number) for number in range(n_trees)]
    for _ in side_by_side(_Tree.grow, growers, n_jobs):
        pass
    partition = forest([tree.partition() for tree in growers])
    of_leaves = [rows for tree in growers for rows in tree.leaves]
    starts = np.cumsum([0, *map(len, of_leaves)])
    return partition, Members(np.concatenate(of_leaves), starts)


def grown_in_core(
    X: NDArray,
    leaf_size: int,
    numbers: NDArray[np.int64],
    overlap: float,
    key: int,
    n_jobs: int | None,
    node: int = 1,
    divides_alike: bool = True,
) -> tuple[Partition, Members]:
    """Trees of these numbers, from the node of that number down, as ``grown`` gives all of them.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    leaf_size, overlap, key, n_jobs :
        As for ``grown``.
    numbers : ndarray of int64
        Of the trees.
    node : int, default=1
        Number of the root, where the nodes below node i are 2 i and 2 i + 1.
    divides_alike : bool, default=True
        Whether rows that no direction tells apart are divided.
    """
    slots = int(Slot.PIVOT), int(Slot.SKETCH)
    settings = key, *slots, numbers, node, divides_alike, n_threads(n_jobs)
    arrays = _core.grow_trees(X, leaf_size, overlap, *settings)
    return Partition(*arrays[:5]), Members(*arrays[5:])


def forest(trees: Sequence[Partition]) -> Partition:
    """Several trees as one partition, cuts and leaves numbered tree by tree."""
    cuts = np.cumsum([0, *(len(tree.low) for tree in trees)])
    leaves = np.cumsum([0, *(tree.n_leaves for tree in trees)])
    return Partition(
        np.concatenate([tree.directions for tree in trees]),
        np.concatenate([tree.low for tree in trees]),
        np.concatenate([tree.high for tree in trees]),
        np.concatenate([moved(t.children, cuts[i], leaves[i]) for i, t in enumerate(trees)]),
        np.concatenate([moved(t.roots, cuts[i], leaves[i]) for i, t in enumerate(trees)]),
    )


def moved(nodes: NDArray[np.int64], first_cut: int, first_leaf: int) -> NDArray[np.int64]:
    """Nodes of a tree among others that come before it."""
    return np.where(nodes >= 0, nodes + first_cut, nodes - first_leaf)


class _Tree:
    """One tree of CSR rows while it grows, cuts and leaves numbered from 0."""

    def __init__(self, X: Any, leaf_size: int, overlap: float, key: int, number: int):
        self.X, self.leaf_size, self.overlap, self.key = X, leaf_size, overlap, key
        self.number = number
        self.directions: list[NDArray[np.float32]] = []
        self.low: list[float] = []
        self.high: list[float] = []
        self.children: list[list[int]] = []
        self.leaves: list[NDArray[np.int64]] = []
        self.root = 0

    def grow(self) -> None:
        """Cut until no leaf is too large, depth first and left first."""
        # Rows, the number of the node among all possible ones, and whose child it is.
        pending = [(np.arange(self.X.shape[0]), 1, -1, 0)]
        while pending:
            rows, node, parent, side = pending.pop()
            if len(rows) <= self.leaf_size:
                child = ~len(self.leaves)
                self.leaves.append(rows)
            else:
                child = len(self.low)
                left, right = self._cut(rows, node)
                pending += [(right, 2 * node + 1, child, 1), (left, 2 * node, child, 0)]
            if parent < 0:
                self.root = child
            else:
                self.children[parent][side] = child

    def partition(self) -> Partition:
        """The cuts."""
        return Partition(
            np.reshape(self.directions, (-1, self.X.shape[1])).astype(np.float32),
            np.array(self.low, dtype=np.float64),
            np.array(self.high, dtype=np.float64),
            np.reshape(np.array(self.children, dtype=np.int64), (-1, 2)),
            np.array([self.root], dtype=np.int64),
        )

    def _cut(self, rows: NDArray[np.int64], node: int) -> tuple[NDArray, NDArray]:
        """Rows of the left and of the right side of a new cut."""
        streams = Streams(self.key, np.array([self.number << 32 | node % 2**32]))
        most = min((0.5 + self.overlap + _EXCESS) * len(rows) + 1, len(rows) - 1)
        for draw in range(_DRAWS):
            direction = self._direction(rows, streams, draw)
            values = projections(self.X, rows, direction)
            low, high = _ends(values, self.overlap)
            left, right = values < high, values > low
            if max(left.sum(), right.sum()) <= most:
                break
        else:  # rows are alike: each of those on the cut is fitted on one side
            left = _half(values <= low, left & right)
            right = ~left
            # The left side answers for them: many leaves would if both did at every such cut.
            low, high = high, high + (high - low)
        self.directions.append(direction)
        self.low.append(low)
        self.high.append(high)
        self.children.append([0, 0])
        return rows[left], rows[right]

    def _direction(
        self, rows: NDArray[np.int64], streams: Streams, draw: int
    ) -> NDArray[np.float32]:
        places = (streams.bits(_SAMPLE, Slot.PIVOT + 32 * draw)[0] % len(rows)).astype(np.int64)
        sample = self.X[rows[places]]
        weights = streams.uniform(_SAMPLE, Slot.SKETCH + 32 * draw)[0]
        # The weights sum to zero, so that the sample need not be centred.
        with np.errstate(over="ignore", invalid="ignore"):
            direction = np.asarray((weights - weights.mean()) @ sample, dtype=np.float64)
        length = float(np.linalg.norm(direction))
        if not 0 < length < np.inf:
            direction, length = np.ones(len(direction)), float(len(direction)) ** 0.5
        return (direction / length).astype(np.float32)


def _ends(values: NDArray[np.float64], overlap: float) -> tuple[float, float]:
    """Between which projections both sides of a cut answer, around the median."""
    if not np.isfinite(values.max() - values.min()):
        raise ValueError("X is too large to be cut: projections overflow; rescale it.")
    n = len(values)
    places = [int((0.5 - overlap) * n), n // 2 - 1, n // 2, int((0.5 + overlap) * n)]
    low, below, above, high = np.partition(values, np.unique(places))[places].tolist()
    middle = below + (above - below) / 2
    spread = float(values.max() - values.min()) or max(1.0, abs(middle))
    least = max(_NARROWEST * spread, 4 * float(np.spacing(abs(middle))))
    if high - low < least:
        low, high = middle - least / 2, middle + least / 2
    return low, high


def _half(first: NDArray[np.bool_], either: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Rows of one half: the ``first``, and so many of the others, evenly taken, as fill it."""
    wanted = min(max(len(first) // 2 - int(first.sum()), 0), int(either.sum()))
    marks = np.arange(either.sum() + 1) * wanted // max(either.sum(), 1)
    half = first.copy()
    half[either] = np.diff(marks) > 0
    return half
