"""The rows of a shard in normal equations: random features, bins, and landmarks (Nyström)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.arrays import available_memory
from mercer.distributed.parts import DesignFacts
from mercer.distributed.remote import BlockIndices, SettledPart
from mercer.distributed.solves import packed
from mercer.equations.parts import RowPart

__all__ = ["Across", "NormalFacts", "NormalPart"]

_SHARE = 0.25  # share of the available memory for columns of a block, and for those that are kept
_COPIES = 3  # of the columns of a block while they are made and multiplied


@dataclass(frozen=True)
class NormalFacts(DesignFacts):
    """Facts that parts of normal equations are made with."""

    matrix: Any = None  # design (D, D) of the norm of a kernel's space; a part has some rows
    n_shards: int = 1  # over which the rows of the matrix are spread


@dataclass(frozen=True)
class Across:
    """Changes of x along functions across all blocks, (unknowns, r), sent once."""

    x: NDArray[np.float64]


class _Values(NamedTuple):
    """Values that are linear in x up to the targets, for the rows of a part and its rows of M."""

    residual: NDArray[np.float64]  # y − Z w − b, (n_i, C)
    weights: NDArray[np.float64]  # w of these rows of M, (m_i, C)
    of_matrix: NDArray[np.float64]  # M w of these rows, (m_i, C)

    def plus(self, other: _Values) -> _Values:
        return _Values(*(a + b for a, b in zip(self, other, strict=True)))

    def taken(self, columns: Any) -> _Values:
        return _Values(*(np.ascontiguousarray(array[:, columns]) for array in self))


class _State(NamedTuple):
    """Values at the current x; changes of values as ``Equations`` defines them for its state."""

    here: _Values
    strengths: NDArray[np.float64]  # (C,)
    journal: _Values | None  # None: solved without acceleration
    changes: tuple[_Values, ...]


def _stacked(values: list[_Values]) -> _Values:
    """Columns of all values side by side."""
    return _Values(*map(np.hstack, zip(*values, strict=True)))


class NormalPart(SettledPart):
    """The residual of the rows of a shard, and sums over them by blocks of columns."""

    facts: NormalFacts

    def __init__(self, shard: Any, number: int, facts: NormalFacts):
        super().__init__(shard, number, facts)
        self.n_rows = len(self.y)
        self._allowed = 0.0
        self._functions: _Values | None = None
        self.matrix: RowPart | None = None
        self.of = slice(0, 0)  # rows of the penalty's matrix that are this part's
        if facts.matrix is not None:
            edges = np.linspace(0, facts.matrix.shape[0], facts.n_shards + 1).astype(int)
            self.of = slice(int(edges[number]), int(edges[number + 1]))
            self.matrix = RowPart(facts.matrix.rows(self.of), self.of, None)

    @cached_property
    def rows(self) -> RowPart:
        """The design of the rows, which is made when something first needs it."""
        return RowPart(self.design, slice(0, self.n_rows), self.weights)

    @cached_property
    def target(self) -> NDArray[np.float64]:
        """Targets, (n_i, k)."""
        y = self.y if self.y.ndim == 2 else self.y[:, None]
        return y.astype(np.float64)

    # -- states ------------------------------------------------------------------------------

    def derived(self, truth: Any) -> _State:
        x, strengths, journal, changes = truth
        points = [x, *changes] if journal is None else [x, *changes, journal]
        values, width = self._linear(np.hstack(points)), x.shape[1]
        here, *others = (
            values.taken(slice(i * width, (i + 1) * width)) for i in range(len(points))
        )
        y = np.tile(self.target, (1, width // self.target.shape[1]))
        last = None if journal is None else others.pop()
        here = here._replace(residual=y + here.residual)
        return _State(here, strengths, last, tuple(others))

    def advanced(self, state: _State, update: Any) -> _State:
        J, delta, ended, combined, kept, begins = update
        here, strengths, journal, changes = state
        if J is not None:
            change = self._of_move(here, J, delta)
            here, journal = here.plus(change), None if journal is None else journal.plus(change)
        if ended is not None and journal is not None:
            changes = (*changes, journal)[-ended:]
        if combined is not None:
            change = self._of_combination(state, *combined)
            here, journal = here.plus(change), changes[-1].plus(change)
            changes = (*changes[:-1], journal)
        if kept is not None:
            here, strengths = here.taken(kept), strengths[kept]
            changes = tuple(change.taken(kept) for change in changes)
            journal = None if journal is None else journal.taken(kept)
        if begins:
            journal = _Values(*map(np.zeros_like, here))
        return _State(here, strengths, journal, changes)

    def _linear(self, x: NDArray) -> _Values:
        """The values at x of rows whose targets are 0."""
        weights = self._weights_of(x)[self.of]
        of_matrix = np.zeros(weights.shape)
        if self.matrix is not None and len(weights):
            of_matrix = self.matrix.matvec(self._weights_of(x))
        return _Values(-self._forward(x), weights, of_matrix)

    def _of_move(self, here: _Values, J: BlockIndices, delta: NDArray) -> _Values:
        """The change of the values by a move of the columns J."""
        b, columns = J.n, J.numbers()
        residual, weights, of_matrix = map(np.zeros_like, here)
        for piece in self._pieces(columns):
            residual[piece.rows] = -piece.product(columns, delta[:b])
        if self.facts.fit_intercept:
            residual = residual - delta[b]
        if self.matrix is not None and len(weights):
            of_matrix = self.matrix.product(columns, delta[:b])
            inside, local = self.matrix.locate(columns)
            weights[local] = delta[inside]
        return _Values(residual, weights, of_matrix)

    # -- changes of epochs -------------------------------------------------------------------

    def _basis(self, state: _State, functions: Across | None) -> Iterator[_Values]:
        """Directions of one strength after the other: changes of the last epochs, functions."""
        of_functions = [] if functions is None else [self._of_functions(functions.x)]
        width = self.target.shape[1]
        for first in range(0, len(state.strengths), width):
            columns = slice(first, first + width)
            changes = [change.taken(columns) for change in state.changes]
            yield _stacked([*changes, *of_functions])

    def _of_functions(self, x: NDArray) -> _Values:
        """The change of the values by functions, which are the same in all requests of a run."""
        if self._functions is None:
            self._functions = self._linear(x)
        return self._functions

    def _of_combination(self, state: _State, functions: Across | None, weights: NDArray) -> _Values:
        """The change of the values by directions of each strength times their weights."""
        pairs = zip(self._basis(state, functions), weights, strict=True)
        return _stacked([_Values(*(array @ w for array in basis)) for basis, w in pairs])

    def difference(self, state: Any, rebuilt: Any) -> float:
        if not isinstance(state, _State):
            return super().difference(state, rebuilt)
        # Moves leave their rounding, of the size of responses, in what is left of them.
        worst = 0.0
        least = (float(np.abs(self.target).max(initial=0.0)), 0.0, 0.0)
        for one, other, size in zip(state.here, rebuilt.here, least, strict=True):
            gap = float(np.abs(one - other).max(initial=0.0))
            unit = max(float(np.abs(other).max(initial=0.0)), size)
            worst = max(worst, gap / unit if unit else gap)
        return worst

    # -- answers -----------------------------------------------------------------------------

    def moments(self, state: None, mean: NDArray | None = None) -> NDArray[np.float64]:
        """Sums of the targets and of their squares, (2, k); of the targets less ``mean``."""
        y = self.target if mean is None else self.target - mean
        s = np.ones(self.n_rows) if self.weights is None else self.weights
        return np.stack([s @ y, s @ np.square(y)])

    def block(
        self, state: _State, J: BlockIndices, mean: NDArray | None, bytes_per_row: float
    ) -> tuple[NDArray | None, ...]:
        """Z_Jᵀ S R and Σ S R, less what the matrix of the penalty gives; Z_Jᵀ S (y − mean)."""
        self._allow(bytes_per_row)
        columns = J.numbers()
        weighted = self.rows.weighted(state.here.residual)
        n_columns = weighted.shape[1]
        vectors = weighted
        if mean is not None:
            vectors = np.hstack([weighted, self.rows.weighted(self.target - mean)])
        sums = np.zeros((len(columns), vectors.shape[1]))
        for piece in self._pieces(columns):
            sums += piece.project(columns, vectors[piece.rows])
        scale = None if mean is None else sums[:, n_columns:]
        rhs = sums[:, :n_columns]
        if self.matrix is not None:
            inside, local = self.matrix.locate(columns)
            rhs = rhs.copy()
            rhs[inside] -= self.facts.n_rows * state.strengths * state.here.of_matrix[local]
        return rhs, self._of_ones(weighted), scale

    def gram(self, state: None, J: BlockIndices) -> tuple[NDArray, NDArray | None]:
        """A triangle of Z_Jᵀ S Z_J, and Z_Jᵀ S 1."""
        columns = J.numbers()
        b = len(columns)
        gram, of_ones = np.zeros((b, b)), np.zeros(b) if self.facts.fit_intercept else None
        for piece in self._pieces(columns):
            # The norm of a kernel's space hardly penalises what float32 rounds away.
            gram += piece.gram(columns, exact=self.matrix is not None)
            if of_ones is not None:
                ones = piece.weighted(np.ones((piece.n_rows, 1)))
                of_ones += piece.project(columns, ones)[:, 0]
        return packed(gram), of_ones

    def everywhere(self, state: _State) -> tuple[NDArray, NDArray | None]:
        """``block`` of all columns."""
        weighted = self.rows.weighted(state.here.residual)
        sums = self._sums(weighted)
        if self.matrix is not None:
            sums[self.of] -= self.facts.n_rows * state.strengths * state.here.of_matrix
        return sums, self._of_ones(weighted)

    def scale(self, state: None, mean: NDArray) -> NDArray[np.float64]:
        """Zᵀ S (y − mean)."""
        return self._sums(self.rows.weighted(self.target - mean))

    def squares(self, state: _State) -> tuple[NDArray, NDArray]:
        """Sums of S R² and of wᵀ M w, (C,)."""
        weighted = self.rows.weighted(state.here.residual)
        norms = np.einsum("ij,ij->j", state.here.weights, state.here.of_matrix)
        return np.einsum("ij,ij->j", weighted, state.here.residual), norms

    def span(
        self, state: _State, functions: Across | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Products of directions with changes and current values, per strength: S, and M."""
        sums, norms = [], []
        width = self.target.shape[1]
        m = width * len(state.changes)
        for place, basis in enumerate(self._basis(state, functions)):
            here = state.here.taken(slice(place * width, (place + 1) * width))
            right = _stacked([basis.taken(slice(m)), here])
            sums.append(basis.residual.T @ self.rows.weighted(right.residual))
            norms.append(basis.of_matrix.T @ right.weights)
        return np.stack(sums), np.stack(norms)

    def energies(self, state: None, functions: Across) -> tuple[NDArray, NDArray]:
        """functionsᵀ of functions: S between them, and M."""
        residual, weights, of_matrix = self._of_functions(functions.x)
        return residual.T @ self.rows.weighted(residual), of_matrix.T @ weights

    def products(self, state: None, V: NDArray, strengths: NDArray) -> tuple[NDArray | None, ...]:
        """n times the matrix of the equations times V, less the identity of the penalty."""
        return self._product(self.rows.weighted(self._forward(V)), V, strengths)

    def rest(self, state: None, x: NDArray, strengths: NDArray) -> tuple[NDArray | None, ...]:
        """n times the residual of the equations at x, less the identity of the penalty."""
        y = np.tile(self.target, (1, x.shape[1] // self.target.shape[1]))
        return self._product(self.rows.weighted(y - self._forward(x)), x, -strengths)

    def examples(self, state: None, rows: NDArray, starts: NDArray, columns: NDArray) -> NDArray:
        """Some features of rows by their numbers over all shards, 0 for rows of other shards."""
        out = np.zeros((len(rows), len(columns)))
        local = rows - starts[self.number]
        inside = np.flatnonzero((local >= 0) & (local < self.n_rows))
        if len(inside):
            out[inside] = self.design.rows(local[inside]).block(columns)
        return out

    def nbytes(self, state: None) -> int:
        """Bytes of the design if it is stored, 0 if its columns are made when they are needed."""
        return self.design.nbytes

    def size(self, state: None) -> NDArray[np.int64]:
        """The number of rows, at the place of this shard."""
        sizes = np.zeros(self.facts.n_shards, dtype=np.int64)
        sizes[self.number] = self.n_rows
        return sizes

    # -- rows --------------------------------------------------------------------------------

    def _weights_of(self, x: NDArray) -> NDArray:
        return x[:-1] if self.facts.fit_intercept else x

    def _forward(self, x: NDArray) -> NDArray[np.float64]:
        """Z w + b."""
        if not self.n_rows:
            return np.zeros((0, x.shape[1]))
        responses = self.rows.matvec(self._weights_of(x))
        return responses + x[-1] if self.facts.fit_intercept else responses

    def _sums(self, weighted: NDArray[np.float64]) -> NDArray[np.float64]:
        """Zᵀ v."""
        if not self.n_rows:
            return np.zeros((self.design.shape[1], weighted.shape[1]))
        return self.rows.rmatvec(weighted)

    def _product(
        self, weighted: NDArray, V: NDArray, strengths: NDArray
    ) -> tuple[NDArray | None, ...]:
        sums = self._sums(weighted)
        if self.matrix is not None and self.of.stop > self.of.start:
            of_matrix = self.matrix.matvec(self._weights_of(V))
            sums[self.of] += self.facts.n_rows * strengths * of_matrix
        return sums, self._of_ones(weighted)

    def _of_ones(self, weighted: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """1ᵀ v, for the intercept if there is one."""
        return weighted.sum(axis=0) if self.facts.fit_intercept else None

    def _pieces(self, J: NDArray) -> Iterator[RowPart]:
        """Pieces of the rows for products with columns: one for all where there is memory."""
        if not self.n_rows:
            return iter(())
        available = available_memory()
        fits = available is None or (
            _COPIES * self.design.dtype.itemsize * len(J) * self.n_rows <= _SHARE * available
        )
        self.rows.room = np.inf if fits else 0.0
        return self.rows.pieces(J)

    def _allow(self, bytes_per_row: float) -> None:
        """Let columns that are made be cached, in so many bytes for each row."""
        room = available_memory()
        allowed = bytes_per_row * self.n_rows
        if room is not None:  # shards may be uneven, and others may have taken memory since
            allowed = min(allowed, self._allowed + max(0.0, _SHARE * room - self.rows.budget))
        self.rows.budget += allowed - self._allowed
        self._allowed = allowed
