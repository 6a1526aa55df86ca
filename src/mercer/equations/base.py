"""The base of normal and kernel equations: unknowns, strengths, parts of rows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer._runtime.arrays import available_memory
from mercer._runtime.device_arrays import contiguous, copied, on_host
from mercer._runtime.rows import Data
from mercer.designs import Design
from mercer.equations.block import EquationBlock
from mercer.equations.on_device import row_part
from mercer.equations.parts import RowPart
from mercer.equations.solves import BlockSolves
from mercer.problem import Problem

__all__ = ["Equations", "Functions", "Span"]

_EXAMPLES = 4  # rows of a lazy design whose entries identify its map or kernel

Arrays = dict[str, NDArray[np.float64]]


@dataclass(frozen=True)
class Functions:
    """Directions that lie across all blocks, orthogonal in the energy of every strength."""

    arrays: Arrays  # change of ``state`` along each direction, less what the strength multiplies
    energies: NDArray[np.float64]  # without a penalty, (r,)
    norm: float = 1.0  # the energy that a unit of strength adds to each of them


@dataclass(frozen=True)
class Span:
    """Energies, for one strength, of m changes of epochs and r functions, and slopes of F there."""

    gram: NDArray[np.float64]  # changesᵀ M changes, (m, m)
    slope: NDArray[np.float64]  # changesᵀ (r − M x), (m, width)
    cross: NDArray[np.float64]  # functionsᵀ M changes, (r, m)
    of_functions: NDArray[np.float64]  # functionsᵀ (r − M x), (r, width)


class Equations:
    """Linear equations M_c x_c = r_c, one column c for every strength and right-hand side.

    Columns are ordered by strength first. They share everything that touches the rows of the
    design; what they do not share is a number times one penalty. The rows of ``problem`` are split
    into ``n_parts`` parts whose contributions are summed.
    """

    knows_residual: ClassVar[bool] = False  # from the state, without a product
    spans_subspaces: ClassVar[bool] = True  # offers what ``Subspace`` needs
    n_machines: int = 1  # with memory of their own, over which the rows are spread
    in_pieces: bool = False  # columns of a block need not fit into memory for all rows together
    kind: np.dtype = np.dtype(np.float64)  # of arrays of the state with a number per row and column

    def __init__(self, problem: Problem, alphas: NDArray[np.float64], n_parts: int = 1):
        self.problem = problem
        self.alphas = alphas
        self.n_parts = n_parts
        # Receives the kind and the count of numbers that parts exchange.
        self.sent: Callable[[str, float], None] = lambda kind, words: None
        self.n_rows, self.n_outputs = problem.n_rows, problem.n_outputs
        # Columns of x for every strength: the outputs, and those that help to find the intercept.
        self.width = self.n_outputs
        self._take_rows()
        # The current point: "x", then "rows0", "rows1", ... with one row per row of each part. All
        # are affine functions of x, and can be computed anew from it.
        self.state: Arrays = {"x": np.zeros((0, 0))}
        # Changes of ``state`` by ``move`` since it was last set to zero, empty if nobody reads it:
        # a sum of changes keeps digits that a difference of sums has lost.
        self.journal: Arrays = {}
        self.changes: list[Arrays] = []  # of ``state`` in the last epochs
        # Makes a context that counts the seconds of "generate", "gram", "reduce" and "update".
        self.phase: Callable[[str], AbstractContextManager[None]] = lambda name: nullcontext()

    def _take_rows(self) -> None:
        """Set the targets of all rows, in the problem's dtype, and split the rows into parts."""
        self.y = self.problem.y.reshape(self.n_rows, -1)
        self.parts = _split(self.problem, self.n_parts)

    @property
    def shape(self) -> tuple[int, int]:
        """(unknowns, columns) of x."""
        raise NotImplementedError

    @property
    def x(self) -> NDArray[np.float64]:
        """The current unknowns."""
        return self.state["x"]

    def of(self, index: int) -> slice:
        """Columns of one strength."""
        return slice(index * self.width, (index + 1) * self.width)

    def strengths(self, columns: ArrayLike | None = None) -> NDArray[np.float64]:
        """The strength of every column, or of the columns named."""
        each = np.repeat(self.alphas, self.width)
        return each if columns is None else each[np.asarray(columns)]

    def from_theta(self, theta: NDArray) -> NDArray[np.float64]:
        """x of a θ of the problem, the same for every strength."""
        raise NotImplementedError

    def theta(self, x: NDArray[np.float64], index: int = 0) -> NDArray:
        """θ of the problem for strength number ``index``."""
        raise NotImplementedError

    # -- anywhere ----------------------------------------------------------------------------

    def product(self, V: NDArray, columns: ArrayLike | None = None) -> NDArray[np.float64]:
        """M_c V_c for the columns V, those of x or the ones named."""
        raise NotImplementedError

    def rhs(self) -> NDArray[np.float64]:
        """The right-hand sides."""
        return self.residual(np.zeros(self.shape))

    def residual(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """rhs − M x."""
        raise NotImplementedError

    def relative(
        self,
        residual: NDArray[np.float64],
        x: NDArray[np.float64] | None = None,
        index: NDArray | None = None,
    ) -> NDArray[np.float64]:
        """Norms of the residual at x relative to that of the best constant model: (q, outputs).

        x is the current point if it is not given. With ``index``, the residual has the columns of
        these strengths alone, and the result their rows.
        """
        raise NotImplementedError

    def relative_of_blocks(self, squares: NDArray[np.float64]) -> NDArray[np.float64]:
        """``relative`` of an epoch, from the squares (C,) of residuals before blocks moved."""
        return self.relative(np.sqrt(squares)[None])

    # -- at the current point ----------------------------------------------------------------

    def start(self, x: NDArray[np.float64], blocks: list[NDArray] | None = None) -> None:
        """Make x the current point, without the rounding of the moves that led there.

        Cached columns are used if all of ``blocks`` are cached.
        """
        raise NotImplementedError

    def block(self, J: NDArray, gram: bool = True) -> EquationBlock:
        """The equations of the columns J of the design at the current x.

        The columns are generated once, for the matrix, the right-hand side and the next ``move``.
        """
        raise NotImplementedError

    def move(self, block: EquationBlock, delta: NDArray[np.float64]) -> None:
        """Add ``delta`` (r, C) to the rows of a block."""
        raise NotImplementedError

    def current_residual(self, blocks: list[NDArray]) -> NDArray[np.float64]:
        """The residual at the current x, from the state, by blocks that cover all columns."""
        raise NotImplementedError

    def values(self) -> NDArray[np.float64]:
        """F of every strength and output at the current x: (q, outputs)."""
        raise NotImplementedError

    def keep(self, index: NDArray) -> None:
        """Keep the strengths at these indices, with their columns."""
        columns = (np.asarray(index)[:, None] * self.width + np.arange(self.width)).ravel()
        self.state, self.journal, *self.changes = (
            {name: contiguous(array[:, columns]) for name, array in arrays.items()}
            for arrays in (self.state, self.journal, *self.changes)
        )
        self.alphas = self.alphas[index]

    def saved(self) -> dict[str, NDArray]:
        """All arrays that later steps depend on, to the last bit; not copied."""
        return {name: on_host(array) for name, array in self.state.items()}

    def restore(self, saved: dict[str, NDArray]) -> None:
        """Go where ``saved`` was, to the last bit."""
        self.state = {
            name: copied(saved[name], array.dtype, self.problem.device)
            for name, array in self.state.items()
        }

    def cache(self, n_bytes: float, blocks: list[NDArray] | None = None) -> None:
        """Allow generated columns so many bytes of memory.

        Where all ``blocks`` fit and it saves work to generate them together, that is done now.
        """
        generators = self._generators()
        n_rows = sum(part.n_rows for part in generators)
        for part in generators:
            part.budget = n_bytes * part.n_rows / n_rows

    def hold(self, n_bytes: float) -> None:
        """Allow the generated columns of the block at work so many bytes of memory."""
        for part in self.parts:
            part.room = n_bytes * part.n_rows / self.n_rows

    def available_memory(self) -> int | None:
        """Bytes that can be taken on each machine, or None where the system does not tell."""
        device = self.problem.device
        return available_memory() if device is None else device.free_memory()

    def solves(self, budget: float) -> BlockSolves:
        """Solver of blocks of the equations, with a cache of so many bytes."""
        return BlockSolves(budget)

    def audit(self, epoch: int) -> None:
        """Compare a part of the state derived from x with a fresh one, once an epoch."""

    def close(self) -> None:
        """Free the equations' resources; they are not used again."""

    @property
    def cached(self) -> bool:
        """Whether no column has to be generated again."""
        return all(part.cached for part in self._generators())

    # -- what they are made of ---------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        """Facts other than data that identify the equations, as JSON values."""
        problem = self.problem
        return {
            "shape": [*problem.design.shape, *problem.shape],
            "dtype": np.dtype(problem.dtype).name,
            "designs": [type(design).__name__ for design in self._designs()],
            "penalty": [problem.penalty.name, getattr(problem.penalty, "jitter", 0.0)],
            "intercept": problem.fit_intercept,
            "parts": [part.n_rows for part in self.parts],
        }

    def data(self) -> tuple[list[Data], NDArray, NDArray | None]:
        """All data, to the last bit: sources of designs, targets and weights."""
        sources = [source for design in self._designs() for source in design.sources()]
        return sources, on_host(self.problem.y), on_host(self.problem.weights)

    def examples(self) -> NDArray:
        """A few rows of the lazy designs, which stand for kernels, maps and scalers.

        They are compared up to rounding, as two processors need not make them to the last bit.
        """
        examples = []
        for design in self._designs():
            if not design.nbytes:
                rows = np.unique(np.linspace(0, design.shape[0] - 1, _EXAMPLES).astype(int))
                rows_made = design.rows(rows).toarray()
                examples.append(rows_made.astype(self.problem.dtype).ravel())
        return np.concatenate([np.zeros(0, self.problem.dtype), *examples])

    def _designs(self) -> list[Design]:
        problem = self.problem
        matrix = getattr(problem.penalty, "matrix", None)
        return [problem.design] if matrix in (None, problem.design) else [problem.design, matrix]

    # -- subspaces ---------------------------------------------------------------------------

    def pairing(self, left: Arrays, right: Arrays, index: int) -> NDArray[np.float64]:
        """leftᵀ M right for two lists of directions and one strength.

        Directions are given by what they change in the arrays of ``state``; those on the left may
        lack the terms that the strength multiplies.
        """
        raise NotImplementedError

    def slope(self, directions: Arrays, index: int) -> NDArray[np.float64]:
        """directionsᵀ (r − M x) at the current x, of shape (d, width)."""
        raise NotImplementedError

    @property
    def n_anchors(self) -> int:
        """Number of rows, or landmarks, ``functions`` may choose from."""
        raise NotImplementedError

    def functions(self, anchors: NDArray, blocks: list[NDArray] | None) -> Functions:
        """The span of the kernel at some rows or landmarks: smooth, so that blocks are slow in it.

        Cached columns are used if all of ``blocks`` are cached.
        """
        raise NotImplementedError

    def begin_change(self) -> None:
        """Begin an epoch: set the journal to zero."""
        self.journal = {k: np.zeros_like(v) for k, v in self.state.items()}

    def end_change(self, depth: int) -> None:
        """End an epoch: its change is one of the last ``depth`` that can be combined."""
        self.changes = [*self.changes, self.journal][-depth:]

    def spans(self, functions: Functions | None) -> list[Span]:
        """Energies and slopes of the changes of the last epochs and of functions, by strengths."""
        spans = []
        for place in range(len(self.alphas)):
            basis = self._basis(place)
            gram, slope = self.pairing(basis, basis, place), self.slope(basis, place)
            cross, of_functions = np.zeros((0, len(gram))), np.zeros((0, self.width))
            if functions is not None:
                cross = self.pairing(functions.arrays, basis, place)
                of_functions = self.slope(functions.arrays, place)
            spans.append(Span(gram, slope, cross, of_functions))
        return spans

    def combine(
        self, functions: Functions | None, weights: list[tuple[NDArray[np.float64], NDArray]]
    ) -> None:
        """Add combinations of changes and functions to the current point and to the last change.

        ``weights`` are those of changes (m, width) and of functions (r, width), by strengths.
        """
        for place, pair in enumerate(weights):
            for name, change in self._combination(functions, *pair, place).items():
                self.state[name][:, self.of(place)] += change
                self.changes[-1][name][:, self.of(place)] += change

    def _basis(self, place: int) -> Arrays:
        """The changes of the last epochs, of one strength."""
        columns = self.of(place)
        if len(self.changes) == 1:
            return {name: array[:, columns] for name, array in self.changes[0].items()}
        return {
            name: np.hstack([change[name][:, columns] for change in self.changes])
            for name in self.changes[0]
        }

    def _combination(
        self, functions: Functions | None, weights: NDArray, of_functions: NDArray, place: int
    ) -> Arrays:
        """The change of the arrays of ``state`` by changes and functions, of one strength."""
        change = {name: array @ weights for name, array in self._basis(place).items()}
        if functions is None:
            return change
        others = self.change_by_functions(functions, of_functions, place)
        return {name: others[name] + array for name, array in change.items()}

    def change_by_functions(
        self, functions: Functions, weights: NDArray[np.float64], index: int
    ) -> Arrays:
        """The change of the arrays of ``state`` by a combination of functions."""
        return {name: array @ weights for name, array in functions.arrays.items()}

    # -- parts of rows -----------------------------------------------------------------------

    def _generators(self) -> list[RowPart]:
        """Everything that generates columns."""
        return self.parts

    def _rows(self, arrays: Arrays) -> list[NDArray[np.float64]]:
        """The arrays of ``state``, or their changes, that have one row per row of each part."""
        return [arrays[f"rows{m}"] for m in range(len(self.parts))]

    def _change(self, name: str, rows: Any, change: NDArray[np.float64]) -> None:
        """Add to rows of an array of ``state``, and to the journal."""
        self.state[name][rows] += change
        if self.journal:
            self.journal[name][rows] += change

    @property
    def _n_levels(self) -> int:
        """Rounds in which all parts are reached, or summed up, pair by pair."""
        return (len(self.parts) - 1).bit_length()

    def _sum(self, values: list[NDArray[np.float64]], kind: str) -> NDArray[np.float64]:
        """The sum over the parts, pair by pair."""
        self._send(kind, values[0].size * self._n_levels)
        values = list(values)
        while len(values) > 1:
            values = [sum(values[i + 1 : i + 2], values[i]) for i in range(0, len(values), 2)]
        return values[0]

    def _send(self, kind: str, words: float) -> None:
        """Count numbers that machines send each other."""
        self.sent(kind, words)


def _split(problem: Problem, n_parts: int) -> list[RowPart]:
    """The rows of a problem in parts of about the same size."""
    edges = np.linspace(0, problem.n_rows, n_parts + 1).astype(int)
    if n_parts == 1:
        return [row_part(problem.design, slice(0, problem.n_rows), problem.weights, problem.device)]
    parts = []
    for first, last in pairwise(edges.tolist()):
        rows = slice(first, last)
        weights = None if problem.weights is None else problem.weights[rows]
        parts.append(row_part(problem.design.rows(rows), rows, weights, problem.device))
    return parts
