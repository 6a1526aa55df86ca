"""What every system of linear equations offers to solvers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer.problem.systems.parts import RowPart

if TYPE_CHECKING:
    from mercer.problem.objective import Problem

__all__ = ["Functions", "Meter", "System", "SystemBlock"]


@dataclass
class SystemBlock:
    """The equations of some unknowns, all others held: (gram + α penalty) Δ = rhs.

    Attributes
    ----------
    rows : int array of shape (r,)
        Rows of x that move: the block's own, and the intercept's if there is one.
    columns : int array of shape (b,)
        Columns of the design.
    rhs : ndarray of shape (r, C)
        Residual of these rows at the current x.
    gram : ndarray of shape (r, r) or None
        What all strengths share; None if it was not asked for.
    penalty : ndarray of shape (r,) or (r, r) or None
        What the strength multiplies, as a diagonal or in full.
    """

    rows: NDArray
    columns: NDArray
    rhs: NDArray[np.float64]
    gram: NDArray[np.float64] | None = None
    penalty: NDArray[np.float64] | None = None

    def matrix(self, alpha: float) -> NDArray[np.float64]:
        """gram + alpha · penalty."""
        if self.gram is None or self.penalty is None:
            raise ValueError("the block must be asked for with gram=True to have a matrix.")
        matrix = self.gram.copy()
        if self.penalty.ndim == 2:
            matrix += alpha * self.penalty
        else:
            matrix[np.diag_indices(len(matrix))] += alpha * self.penalty
        return matrix


@dataclass(frozen=True)
class Functions:
    """Directions that lie across all blocks, orthogonal in the energy of every strength.

    Attributes
    ----------
    arrays : dict of arrays with r columns
        What each changes in the arrays of ``state``, but for what the strength multiplies there.
    energies : ndarray of shape (r,)
        Their energies without a penalty.
    norm : float
        What a unit of strength adds to all of them.
    """

    arrays: dict[str, NDArray[np.float64]]
    energies: NDArray[np.float64]
    norm: float = 1.0


@dataclass
class Meter:
    """Counts the numbers that workers send each other, by what they are."""

    words: dict[str, float] = field(default_factory=dict)

    def add(self, kind: str, words: float) -> None:
        """Count some."""
        self.words[kind] = self.words.get(kind, 0.0) + words

    @property
    def total(self) -> float:
        """All of them."""
        return sum(self.words.values())


class System:
    """Linear equations M_c x_c = r_c, one column c for every strength and right-hand side.

    Columns are ordered by strength first. They share everything that touches the rows of the
    design; what they do not share is a number times one penalty. The n-long state follows from x
    and can be built anew from it.

    Parameters
    ----------
    problem : Problem
    alphas : array of shape (q,)

    Attributes
    ----------
    shape : tuple of int
        (unknowns, columns) of x.
    alphas : ndarray of shape (q,)
    n_outputs : int
        Outputs of the problem.
    width : int
        Columns of every strength; more than the outputs if some are there to help.
    n_columns : int
        Columns of the design, which blocks divide among them.
    knows_residual : bool
        Whether the state tells the residual without a product.
    journal : dict of arrays
        What moves have changed in the arrays of ``state`` since ``record``; empty before. Sums of
        changes keep digits that differences of sums have lost.
    phase : callable
        Makes a context that counts the seconds of "generate", "gram", "reduce" and "update".
    x : ndarray of shape ``shape``
        The current unknowns, float64.
    """

    knows_residual: ClassVar[bool] = False

    def __init__(self, problem: Problem, alphas: NDArray[np.float64]):
        self.problem = problem
        self.alphas = alphas
        self.n_outputs = problem.n_outputs
        self.n_rows = problem.n_rows
        self.y = problem.y.reshape(self.n_rows, -1).astype(np.float64)
        self.weights = problem.weights
        self.parts = [RowPart(problem.design, slice(0, self.n_rows), self.weights)]
        self.meter: Meter | None = None
        self.x: NDArray[np.float64] = np.zeros((0, 0))
        self.journal: dict[str, NDArray[np.float64]] = {}
        self.phase: Callable[[str], AbstractContextManager[None]] = lambda name: nullcontext()

    # -- unknowns ----------------------------------------------------------------------------

    @property
    def width(self) -> int:
        """Columns of every strength."""
        return self.n_outputs

    @property
    def n_columns(self) -> int:
        """Columns of the design."""
        return self.problem.design.shape[1]

    @property
    def shape(self) -> tuple[int, int]:
        """(unknowns, columns)."""
        raise NotImplementedError

    def of(self, index: int) -> slice:
        """Columns of one strength."""
        return slice(index * self.width, (index + 1) * self.width)

    def strengths(self, columns: ArrayLike | None = None) -> NDArray[np.float64]:
        """The strength that goes with every column, or with some."""
        each = np.repeat(self.alphas, self.width)
        return each if columns is None else each[np.asarray(columns)]

    def initial(self) -> NDArray[np.float64]:
        """x of the best constant model."""
        raise NotImplementedError

    def from_theta(self, theta: NDArray) -> NDArray[np.float64]:
        """x that stands for a θ of the problem, the same for every strength."""
        raise NotImplementedError

    def theta(self, x: NDArray[np.float64], index: int = 0) -> NDArray:
        """θ of the problem for strength number ``index``."""
        raise NotImplementedError

    # -- equations ---------------------------------------------------------------------------

    def product(self, V: NDArray, columns: ArrayLike | None = None) -> NDArray[np.float64]:
        """M_c V_c for the columns V, those of x or the ones named."""
        raise NotImplementedError

    def rhs(self) -> NDArray[np.float64]:
        """The right-hand sides."""
        return self.residual(np.zeros(self.shape))

    def residual(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """rhs − M x, anywhere."""
        raise NotImplementedError

    def relative(
        self, residual: NDArray[np.float64], x: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """Norms of the residual at x relative to that of the best constant model: (q, outputs).

        x is the current point if it is not given.
        """
        raise NotImplementedError

    # -- the current point -------------------------------------------------------------------

    def start(self, x: NDArray[np.float64]) -> None:
        """Make x the current point."""
        self.x = np.array(x, dtype=np.float64)
        self.rebuild()

    def rebuild(self, blocks: list[NDArray] | None = None) -> None:
        """Compute the state from x, without the rounding of many moves.

        Blocks that are kept are made use of.
        """
        raise NotImplementedError

    def block(self, J: NDArray, gram: bool = True) -> SystemBlock:
        """The equations of the columns J of the design at the current x.

        The columns are generated once, for the matrix, the right-hand side and the next ``move``.
        """
        raise NotImplementedError

    def move(self, block: SystemBlock, delta: NDArray[np.float64]) -> None:
        """Add ``delta`` (r, C) to the rows of a block."""
        raise NotImplementedError

    def current_residual(self, blocks: list[NDArray]) -> NDArray[np.float64]:
        """The residual at the current x, from the state, by blocks that cover all columns."""
        raise NotImplementedError

    def values(self) -> NDArray[np.float64]:
        """F of every strength and output at the current x: (q, outputs)."""
        raise NotImplementedError

    def keep(self, index: NDArray) -> None:
        """Let all strengths but those numbered go, with their columns."""
        columns = (np.asarray(index)[:, None] * self.width + np.arange(self.width)).ravel()
        self.x = _columns(self.x, columns)
        for part in self.parts:
            part.state = _columns(part.state, columns)
        self.journal = {name: _columns(array, columns) for name, array in self.journal.items()}
        self._keep(columns)
        self.alphas = self.alphas[index]

    def _keep(self, columns: NDArray) -> None:
        """What else has a number per column."""

    @property
    def _generators(self) -> list[RowPart]:
        """All that makes columns."""
        return self.parts

    @property
    def holds(self) -> float:
        """Share of the columns whose blocks are kept or need not be generated."""
        return min(part.share_kept for part in self._generators)

    def hold(self, n_bytes: float, blocks: list[NDArray] | None = None) -> None:
        """Keep generated blocks for as many bytes.

        Where all ``blocks`` fit and it saves work to make them together, that is done now.
        """
        n_rows = sum(part.n_rows for part in self._generators)
        for part in self._generators:
            part.budget = n_bytes * part.n_rows / n_rows

    def state(self) -> dict[str, NDArray[np.float64]]:
        """The arrays of one column per column of x that tell the current point, not copied.

        All of them are linear in x up to a constant.
        """
        return {"x": self.x, **{f"rows{m}": part.state for m, part in enumerate(self.parts)}}

    def saved(self) -> dict[str, NDArray]:
        """All arrays that what comes next depends on, to the last bit; not copied."""
        return dict(self.state())

    def restore(self, saved: dict[str, NDArray]) -> None:
        """Go where ``saved`` was, to the last bit."""
        self.x = np.array(saved["x"])
        for m, part in enumerate(self.parts):
            part.state = np.array(saved[f"rows{m}"])

    def record(self) -> None:
        """Begin the journal."""
        self.journal = {name: np.zeros_like(array) for name, array in self.state().items()}

    def _change(self, name: str, rows: Any, change: NDArray[np.float64]) -> None:
        """Add to some rows of an array of ``state``, and to the journal."""
        self.state()[name][rows] += change
        if self.journal:
            self.journal[name][rows] += change

    def energy(
        self, changes: dict[str, NDArray], index: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The quadratic that solutions minimise, along some directions from the current x.

        Parameters
        ----------
        changes : dict of arrays with d columns
            What each direction changes in the arrays of ``state``.
        index : int
            Number of the strength.

        Returns
        -------
        gram : ndarray of shape (d, d)
            Dᵀ M D.
        slope : ndarray of shape (d, width)
            Dᵀ (r − M x).
        """
        raise NotImplementedError

    # -- functions of a few rows -----------------------------------------------------------

    @property
    def n_anchors(self) -> int:
        """How many rows, or landmarks, ``functions`` may choose from."""
        raise NotImplementedError

    def functions(self, anchors: NDArray, blocks: list[NDArray] | None) -> Functions:
        """The span of the kernel at some rows or landmarks: what is smooth, and slow in blocks."""
        raise NotImplementedError

    def energy_of_functions(
        self, functions: Functions, changes: dict[str, NDArray], index: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Energies of functions with changes, (r, d), and their slopes, (r, width)."""
        raise NotImplementedError

    def change_by_functions(
        self, functions: Functions, weights: NDArray[np.float64], index: int
    ) -> dict[str, NDArray[np.float64]]:
        """What a combination of functions changes in the arrays of ``state``."""
        return {name: array @ weights for name, array in functions.arrays.items()}

    # -- machines ----------------------------------------------------------------------------

    def split(self, n_parts: int, meter: Meter | None = None) -> None:
        """Divide the rows among as many workers, who send what ``meter`` counts.

        To be called before ``start``.
        """
        edges = np.linspace(0, self.n_rows, n_parts + 1).astype(int)
        self.parts = []
        for first, last in pairwise(edges):
            rows = slice(int(first), int(last))
            weights = None if self.weights is None else self.weights[rows]
            self.parts.append(RowPart(self.problem.design.rows(rows), rows, weights))
        self.meter = meter

    @property
    def n_levels(self) -> int:
        """Rounds in which all parts are reached, or summed up, pair by pair."""
        return (len(self.parts) - 1).bit_length()

    def _sum(self, values: list[NDArray[np.float64]], kind: str) -> NDArray[np.float64]:
        """The sum over the parts, pair by pair."""
        self._send(kind, values[0].size * self.n_levels)
        values = list(values)
        while len(values) > 1:
            values = [sum(values[i + 1 : i + 2], values[i]) for i in range(0, len(values), 2)]
        return values[0]

    def _send(self, kind: str, words: float) -> None:
        if self.meter is not None:
            self.meter.add(kind, words)


def _columns(array: NDArray[np.float64], columns: NDArray) -> NDArray[np.float64]:
    """Some columns, row by row in memory as all are."""
    return np.ascontiguousarray(array[:, columns])
