"""Normal equations whose rows are on workers: random features, bins, and landmarks (Nyström)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer._runtime.arrays import available_memory, row_chunks
from mercer.distributed.engine import Handle
from mercer.distributed.parts import DesignFacts
from mercer.distributed.remote import Columns, RemoteEquations, SettledPart
from mercer.distributed.run import Partial
from mercer.distributed.solves import RemoteBlock, packed, unpacked
from mercer.equations import NormalEquations, spans_all_rows
from mercer.equations.parts import RowPart
from mercer.penalties import RKHSNorm

__all__ = ["NormalFacts", "NormalPart", "RemoteNormalEquations", "remote_equations"]

_SHARE = 0.25  # share of the available memory for columns of a block, and for those that are kept
_COPIES = 3  # of the columns of a block while they are made and multiplied
_EXAMPLES = 4  # rows whose features stand for the map that makes them
_MOST_EXAMPLES = 256  # columns of these


def remote_equations(problem: Any, alphas: NDArray[np.float64]) -> RemoteEquations:
    """The linear equations of a ``RemoteProblem``, in the form that its penalty asks for."""
    if spans_all_rows(problem):
        from mercer.distributed.kernel import RemoteKernelEquations

        return RemoteKernelEquations(problem, alphas)
    return RemoteNormalEquations(problem, alphas)


@dataclass(frozen=True)
class NormalFacts(DesignFacts):
    """Facts that parts of normal equations are made with.

    Attributes
    ----------
    matrix : Design of shape (D, D) or None
        That of the norm of a kernel's space; each part multiplies some of its rows.
    n_shards : int
        Over which the rows of the matrix are spread.
    """

    matrix: Any = None
    n_shards: int = 1


class _State(NamedTuple):
    """Values that follow from x for the rows of a part, and for its rows of the penalty's M."""

    residual: NDArray[np.float64]  # y − Z w − b, (n_i, C)
    strengths: NDArray[np.float64]  # (C,)
    weights: NDArray[np.float64]  # w of these rows of M, (m_i, C)
    of_matrix: NDArray[np.float64]  # M w of these rows, (m_i, C)


class PiecewiseRows(RowPart):
    """Rows whose blocks of columns are made some rows at a time where memory is short.

    Such columns are made anew for every product.
    """

    def gram(self, J: NDArray, exact: bool = False) -> NDArray[np.float64]:
        pieces = self._pieces(J)
        if pieces is None:
            return super().gram(J, exact)
        total = np.zeros((len(J), len(J)))
        for rows in pieces:
            total += self._piece(rows).gram(J, exact)
        return total

    def project(self, J: NDArray, v: NDArray) -> NDArray[np.float64]:
        pieces = self._pieces(J)
        if pieces is None:
            return super().project(J, v)
        total = np.zeros((len(J), v.shape[1]))
        for rows in pieces:
            total += self._piece(rows).project(J, v[rows])
        return total

    def product(self, J: NDArray, delta: NDArray) -> NDArray[np.float64]:
        pieces = self._pieces(J)
        if pieces is None:
            return super().product(J, delta)
        return np.concatenate([self._piece(rows).product(J, delta) for rows in pieces])

    def _pieces(self, J: NDArray) -> Iterator[slice] | None:
        """Rows at a time; None where the columns are there, or there is room for all of them."""
        key, room = J.tobytes(), available_memory()
        there = key in self._cache or (self._last is not None and self._last[0] == key)
        row = _COPIES * self.design.dtype.itemsize * len(J)
        if there or room is None or row * self.n_rows <= _SHARE * room:
            return None
        self._last = None
        return row_chunks(self.n_rows, row)

    def _piece(self, rows: slice) -> RowPart:
        weights = None if self.weights is None else self.weights[rows]
        return RowPart(self.design.rows(rows), rows, weights)


class NormalPart(SettledPart):
    """The residual of the rows of a shard, and sums over these rows by blocks of columns."""

    facts: NormalFacts

    def __init__(self, shard: Any, number: int, facts: NormalFacts):
        super().__init__(shard, number, facts)
        self.n_rows = len(self.y)
        self._allowed = 0.0
        self.matrix: RowPart | None = None
        self.of = slice(0, 0)  # rows of the penalty's matrix that are this part's
        if facts.matrix is not None:
            edges = np.linspace(0, facts.matrix.shape[0], facts.n_shards + 1).astype(int)
            self.of = slice(int(edges[number]), int(edges[number + 1]))
            self.matrix = RowPart(facts.matrix.rows(self.of), self.of, None)

    @cached_property
    def rows(self) -> PiecewiseRows:
        """The design of the rows, which is made when something first needs it."""
        return PiecewiseRows(self.design, slice(0, self.n_rows), self.weights)

    @cached_property
    def target(self) -> NDArray[np.float64]:
        """Targets, (n_i, k)."""
        y = self.y if self.y.ndim == 2 else self.y[:, None]
        return y.astype(np.float64)

    # -- states ------------------------------------------------------------------------------

    def derived(self, truth: Any) -> _State:
        x, strengths = truth
        y = np.tile(self.target, (1, x.shape[1] // self.target.shape[1]))
        weights = self._weights_of(x)[self.of]
        of_matrix = np.zeros(weights.shape)
        if self.matrix is not None and len(weights):
            of_matrix = self.matrix.matvec(self._weights_of(x))
        return _State(y - self._forward(x), strengths, weights, of_matrix)

    def advanced(self, state: _State, update: Any) -> _State:
        J, delta, kept = update
        residual, strengths, weights, of_matrix = state
        if J is not None:
            b, columns = J.n, J.numbers()
            if self.n_rows:
                residual = residual - self.rows.product(columns, delta[:b])
            if self.facts.fit_intercept:
                residual = residual - delta[b]
            if self.matrix is not None and len(weights):
                of_matrix = of_matrix + self.matrix.product(columns, delta[:b])
                inside, local = self.matrix.locate(columns)
                weights = weights.copy()
                weights[local] += delta[inside]
        if kept is not None:
            residual, weights, of_matrix = (
                np.ascontiguousarray(array[:, kept]) for array in (residual, weights, of_matrix)
            )
            strengths = strengths[kept]
        return _State(residual, strengths, weights, of_matrix)

    def difference(self, state: Any, rebuilt: Any) -> float:
        if not isinstance(state, _State):
            return super().difference(state, rebuilt)
        # Moves leave their rounding, of the size of responses, in what is left of them.
        worst = 0.0
        size = float(np.abs(self.target).max(initial=0.0))
        for one, other, least in (
            (state.residual, rebuilt.residual, size),
            (state.weights, rebuilt.weights, 0.0),
            (state.of_matrix, rebuilt.of_matrix, 0.0),
        ):
            gap = float(np.abs(one - other).max(initial=0.0))
            unit = max(float(np.abs(other).max(initial=0.0)), least)
            worst = max(worst, gap / unit if unit else gap)
        return worst

    # -- answers -----------------------------------------------------------------------------

    def moments(self, state: None, mean: NDArray | None = None) -> NDArray[np.float64]:
        """Sums of the targets and of their squares, (2, k); of the targets less ``mean``."""
        y = self.target if mean is None else self.target - mean
        s = np.ones(self.n_rows) if self.weights is None else self.weights
        return np.stack([s @ y, s @ np.square(y)])

    def block(
        self, state: _State, J: Columns, mean: NDArray | None, bytes_per_row: float
    ) -> tuple[NDArray | None, ...]:
        """Z_Jᵀ S R and Σ S R, less what the matrix of the penalty gives; Z_Jᵀ S (y − mean)."""
        self._allow(bytes_per_row)
        columns = J.numbers()
        weighted = self.rows.weighted(state.residual)
        n_columns = weighted.shape[1]
        vectors = weighted
        if mean is not None:
            vectors = np.hstack([weighted, self.rows.weighted(self.target - mean)])
        sums = np.zeros((len(columns), vectors.shape[1]))
        if self.n_rows:
            sums = self.rows.project(columns, vectors)
        scale = None if mean is None else sums[:, n_columns:]
        rhs = sums[:, :n_columns]
        if self.matrix is not None:
            inside, local = self.matrix.locate(columns)
            rhs = rhs.copy()
            rhs[inside] -= self.facts.n_rows * state.strengths * state.of_matrix[local]
        return rhs, self._of_ones(weighted), scale

    def gram(self, state: None, J: Columns) -> tuple[NDArray, NDArray | None]:
        """A triangle of Z_Jᵀ S Z_J, and Z_Jᵀ S 1."""
        columns = J.numbers()
        b = len(columns)
        if not self.n_rows:
            return np.zeros(b * (b + 1) // 2), np.zeros(b) if self.facts.fit_intercept else None
        # The norm of a kernel's space hardly penalises what float32 rounds away.
        gram = self.rows.gram(columns, exact=self.matrix is not None)
        if not self.facts.fit_intercept:
            return packed(gram), None
        ones = self.rows.weighted(np.ones((self.n_rows, 1)))
        return packed(gram), self.rows.project(columns, ones)[:, 0]

    def everywhere(self, state: _State) -> tuple[NDArray, NDArray | None]:
        """``block`` of all columns."""
        weighted = self.rows.weighted(state.residual)
        sums = self._sums(weighted)
        if self.matrix is not None:
            sums[self.of] -= self.facts.n_rows * state.strengths * state.of_matrix
        return sums, self._of_ones(weighted)

    def scale(self, state: None, mean: NDArray) -> NDArray[np.float64]:
        """Zᵀ S (y − mean)."""
        return self._sums(self.rows.weighted(self.target - mean))

    def squares(self, state: _State) -> tuple[NDArray, NDArray]:
        """Sums of S R² and of wᵀ M w, (C,)."""
        weighted = self.rows.weighted(state.residual)
        norms = np.einsum("ij,ij->j", state.weights, state.of_matrix)
        return np.einsum("ij,ij->j", weighted, state.residual), norms

    def products(self, state: None, V: NDArray, strengths: NDArray) -> tuple[NDArray | None, ...]:
        """n times the matrix of the equations times V, less the identity of the penalty."""
        return self._product(self.rows.weighted(self._forward(V)), V, strengths)

    def rest(self, state: None, x: NDArray, strengths: NDArray) -> tuple[NDArray | None, ...]:
        """n times the residual of the equations at x, less the identity of the penalty."""
        y = np.tile(self.target, (1, x.shape[1] // self.target.shape[1]))
        return self._product(self.rows.weighted(y - self._forward(x)), x, -strengths)

    def examples(self, state: None, rows: NDArray, starts: NDArray, columns: NDArray) -> NDArray:
        """Some features of the rows numbered over all shards, 0 for those of other shards."""
        out = np.zeros((len(rows), len(columns)))
        local = rows - starts[self.number]
        inside = np.flatnonzero((local >= 0) & (local < self.n_rows))
        if len(inside):
            out[inside] = self.design.rows(local[inside]).block(columns)
        return out

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

    def _allow(self, bytes_per_row: float) -> None:
        """Let columns that are made be cached, in so many bytes for each row."""
        room = available_memory()
        allowed = bytes_per_row * self.n_rows
        if room is not None:  # shards may be uneven, and others may have taken memory since
            allowed = min(allowed, self._allowed + max(0.0, _SHARE * room - self.rows.budget))
        self.rows.budget += allowed - self._allowed
        self._allowed = allowed


class RemoteNormalEquations(RemoteEquations, NormalEquations):
    """The normal equations of a ``RemoteProblem``: sums over rows are sums over shards.

    A block is one request, which brings the move of the block before. Its Gram matrix stays on a
    worker, is summed there as triangles, and serves every strength; so do the factors, of whose
    solutions alone the numbers travel. The matrix of a kernel's norm is multiplied by rows, some by
    each part, and the landmarks need not be rows of any shard.

    References
    ----------
    Tu, Roelofs, Venkataraman and Recht (2016), Large scale kernel learning using block coordinate
    descent, algorithms 2 and 3.
    """

    def __init__(self, problem: Any, alphas: NDArray[np.float64]):
        penalty, engine = problem.penalty, problem.run.engine
        own = {field.name: getattr(problem.facts, field.name) for field in fields(DesignFacts)}
        matrix, self._jitter = None, 1.0
        if isinstance(penalty, RKHSNorm):
            matrix, self._jitter = penalty.matrix, penalty.jitter
        facts = NormalFacts(**own, matrix=matrix, n_shards=engine.n_shards)
        RemoteEquations.__init__(self, problem, alphas, NormalPart, facts)
        self._matrix = None  # its products are the workers'
        self._of_penalty: Handle = None if matrix is None else engine.share(matrix)
        n_columns = problem.design.shape[1]
        self._met = np.zeros(n_columns, dtype=bool)
        self._of_target = np.zeros((n_columns, self.n_outputs))
        sums, squares = self.run.total("moments") / self.n_rows
        self._mean = sums if problem.fit_intercept else np.zeros(self.n_outputs)
        left = self.run.total("moments", self._mean)[1] / self.n_rows
        eps = float(np.finfo(problem.dtype).eps)
        self._constant = np.sqrt(left) <= 4 * eps * np.sqrt(squares)

    # -- anywhere ----------------------------------------------------------------------------

    def product(self, V: NDArray, columns: ArrayLike | None = None) -> NDArray[np.float64]:
        strengths = self.strengths(columns)
        V = np.asarray(V, dtype=np.float64)
        out = self._mean_of(self.run.total("products", V, strengths))
        self.problem.weights_of(out)[...] += strengths * self._identity(V)
        return out

    def residual(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        strengths = self.strengths()
        out = self._mean_of(self.run.total("rest", x, strengths))
        self.problem.weights_of(out)[...] -= strengths * self._identity(x)
        return out

    def _identity(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """The penalty without its matrix, times the weights."""
        return self._jitter * self.problem.weights_of(x)

    def _mean_of(self, sums: tuple[NDArray, NDArray]) -> NDArray[np.float64]:
        """Sums over the rows for the columns and for the intercept, divided by n."""
        of_columns, of_ones = sums
        if self.problem.fit_intercept:
            of_columns = np.vstack([of_columns, of_ones])
        return of_columns / self.n_rows

    @property
    def _reference(self) -> NDArray[np.float64]:
        if not self._met.all():
            self._of_target = np.square(self.run.total("scale", self._mean) / self.n_rows)
            self._met[:] = True
        return super()._reference

    # -- at the current point ----------------------------------------------------------------

    def block(self, J: NDArray, gram: bool = True) -> RemoteBlock:
        columns = self._named(J)
        met = bool(self._met[J].all())
        with self.phase("reduce"):
            mean = None if met else self._mean
            rhs, sums, target = self._ask("block", columns, mean, self._bytes_per_row)
            if not met:
                self._of_target[J] = np.square(target / self.n_rows)
                self._met[J] = True
            rhs = rhs / self.n_rows - self.strengths() * self._jitter * self.x[J]
            rows = J
            if self.problem.fit_intercept:
                rows = np.append(J, len(self.x) - 1)
                rhs = np.vstack([rhs, sums / self.n_rows])
        self._send("right-hand sides", rhs.size * self._n_levels)
        block = RemoteBlock(rows, J, rhs)
        if gram:
            with self.phase("gram"):
                block.gram = self.run.kept("gram", columns)
            n_words = len(J) * (len(J) + 1) // 2 + len(J) * self.problem.fit_intercept
            self.run.words["received", "gram"] += n_words
            self._send("gram", n_words * self._n_levels)
            block.maker = _matrix
            shape = (self.n_rows, self.problem.fit_intercept, self._jitter)
            block.given = block.gram, columns, self._of_penalty, shape
        return block

    def move(self, block: Any, delta: NDArray[np.float64]) -> None:
        self._send("weights", delta.size * (self.run.engine.n_shards > 1))
        self._move(block.columns, block.rows, delta, delta)

    def current_residual(self, blocks: list[NDArray]) -> NDArray[np.float64]:
        residual = self._mean_of(self._ask("everywhere"))
        of_weights = self.problem.weights_of(residual)
        of_weights -= self.strengths() * self._identity(self.x)
        return residual

    def values(self) -> NDArray[np.float64]:
        squares, norms = self._ask("squares")
        w = self.problem.weights_of(self.x)
        norms = norms + self._jitter * np.einsum("ij,ij->j", w, w)
        values = 0.5 * (squares / self.n_rows + self.strengths() * norms)
        return values.reshape(-1, self.n_outputs)

    def examples(self) -> NDArray:
        rows = np.unique(np.linspace(0, self.n_rows - 1, _EXAMPLES).astype(np.int64))
        n_columns = self.problem.design.shape[1]
        columns = np.unique(np.linspace(0, n_columns - 1, _MOST_EXAMPLES).astype(np.int64))
        starts = np.cumsum(self.run.total("size")) - self.run.total("size")
        return self.run.total("examples", rows, starts, columns).astype(self.problem.dtype).ravel()


def _matrix(
    gram: Partial, J: Columns, of_penalty: Any, shape: tuple[int, bool, float], alpha: float
) -> NDArray[np.float64]:
    """The matrix of a block for one strength, on the worker that factorises it."""
    n_rows, fit_intercept, jitter = shape
    triangle, sums = gram.value
    columns = J.numbers()
    b = len(columns)
    matrix = np.ones((b + fit_intercept, b + fit_intercept))
    matrix[:b, :b] = unpacked(triangle / n_rows, b)
    if fit_intercept:
        matrix[:b, b] = matrix[b, :b] = sums / n_rows
    matrix[np.arange(b), np.arange(b)] += alpha * jitter
    if of_penalty is not None:
        matrix[:b, :b] += alpha * of_penalty.rows(columns).block(columns)
    return matrix
