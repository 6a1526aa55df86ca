"""The kernel machine of all rows, where the rows are on workers."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from mercer._runtime.arrays import Matrix, row_chunks
from mercer.designs import Dense, Design, KernelColumns
from mercer.distributed.parts import DesignFacts
from mercer.distributed.remote import BlockIndices, RemoteEquations, SettledPart
from mercer.distributed.solves import RemoteBlock
from mercer.equations import KernelEquations
from mercer.kernels import Kernel

__all__ = ["KernelFacts", "KernelPart", "RemoteKernelEquations"]

_ROWS = 1024  # gathered at a time, for products that go through all of them
_EXAMPLES = 8  # rows whose kernel stands for it


@dataclass(frozen=True)
class KernelFacts(DesignFacts):
    """Facts that parts of kernel equations are made with; ``n_shards`` is their number."""

    n_shards: int = 1


class _State(NamedTuple):
    start: int  # number of the first row of the part among all rows
    coef: NDArray[np.float64]  # √S β of the rows of the part, (n_i, C)


class KernelPart(SettledPart):
    """The rows of a shard and their coefficients; the kernel of its rows is made and forgotten."""

    facts: KernelFacts
    _columns: KernelColumns | None = None  # against all rows, in memory where they fit

    @cached_property
    def design(self) -> Design:
        facts = self.facts
        if not len(self.y):
            return Dense(np.zeros((0, 0), dtype=facts.dtype))
        scaled = facts.preprocessing.scaled_rows(self._inputs())
        kernel = facts.preprocessing.feature_map.kernel_
        return KernelColumns(scaled, kernel, n_jobs=facts.n_threads)

    # -- states ------------------------------------------------------------------------------

    def derived(self, truth: Any) -> _State:
        return _State(*truth)

    def advanced(self, state: _State, update: Any) -> _State:
        J, delta, _, _, kept, _ = update
        coef = state.coef
        if J is not None:
            inside, local = self._inside(state, J)
            coef = coef.copy()
            coef[local] += delta[inside]
        return _State(state.start, coef if kept is None else np.ascontiguousarray(coef[:, kept]))

    def difference(self, state: Any, rebuilt: Any) -> float:
        if not isinstance(state, _State):
            return super().difference(state, rebuilt)
        same = state.start == rebuilt.start and state.coef.shape == rebuilt.coef.shape
        return super().difference(state.coef, rebuilt.coef) if same else np.inf

    # -- answers -----------------------------------------------------------------------------

    def size(self, state: None) -> NDArray[np.int64]:
        """The number of rows, at the place of this shard."""
        sizes = np.zeros(self.facts.n_shards, dtype=np.int64)
        sizes[self.number] = len(self.y)
        return sizes

    def given(self, state: None, starts: NDArray[np.int64]) -> tuple[NDArray, NDArray | None]:
        """Targets (n, k) and weights (n,), 0 for rows of other shards."""
        rows = slice(starts[self.number], starts[self.number] + len(self.y))
        columns = self.y if self.y.ndim == 2 else self.y[:, None]
        y = np.zeros((self.facts.n_rows, columns.shape[1]))
        y[rows] = columns
        if self.weights is None:
            return y, None
        weights = np.zeros(self.facts.n_rows)
        weights[rows] = self.weights
        return y, weights

    def rows(self, state: _State, J: BlockIndices) -> Matrix | None:
        """The rows J as the kernel takes them, (b, d), 0 for rows of other shards."""
        inside, local = self._inside(state, J)
        if not len(inside):
            return None
        points = self.design.rows(local).points()  # type: ignore[attr-defined]
        if sparse.issparse(points):
            lengths = np.zeros(J.n, dtype=np.int64)
            lengths[inside] = np.diff(points.indptr)
            indptr = np.concatenate([[0], np.cumsum(lengths)])
            shape = (J.n, points.shape[1])
            return sparse.csr_array((points.data, points.indices, indptr), shape=shape)
        rows = np.zeros((J.n, points.shape[1]), dtype=points.dtype)
        rows[inside] = points
        return rows

    def against(self, state: _State, X: Matrix) -> NDArray[np.float64]:
        """k(X, rows of the part) times their coefficients."""
        return self._against(X, state.coef)

    def product(self, state: Any, X: Matrix, V: NDArray) -> NDArray[np.float64]:  # type: ignore[override]
        """k(X, rows of the part) times the entries of V that are theirs."""
        return self._against(X, V[state.start : state.start + len(self.y)])

    def product_of_rows(
        self, state: None, X: Matrix, V: NDArray, starts: NDArray[np.int64], hold: bool
    ) -> NDArray:
        """k(rows of the part, X) V at their places, (n, C), 0 elsewhere; ``hold`` caches k."""
        product = np.zeros(V.shape, dtype=V.dtype)
        if len(self.y):
            if self._columns is None:
                points, kernel = self.design.points(), self.design.kernel  # type: ignore[attr-defined]
                form = {"dtype": self.facts.dtype, "n_jobs": self.facts.n_threads}
                columns = KernelColumns(points, kernel, X, **form)
                self._columns = columns.held() if hold else columns
            start = starts[self.number]
            product[start : start + len(self.y)] = self._columns.matvec(V)
        return product

    def _against(self, X: Matrix, coef: NDArray[np.float64]) -> NDArray[np.float64]:
        if not len(self.y):
            return np.zeros((X.shape[0], coef.shape[1]))
        return _columns(self.design.points(), self.design.kernel, X, self.facts).rmatvec(coef)  # type: ignore[attr-defined]

    def _inside(self, state: _State, J: BlockIndices) -> tuple[NDArray, NDArray]:
        """Positions in J of the rows of this part, and their numbers within the part."""
        local = J.numbers() - state.start
        inside = np.flatnonzero((local >= 0) & (local < len(self.y)))
        return inside, local[inside]


def _columns(points: Matrix, kernel: Kernel, X: Matrix | None, facts: DesignFacts) -> KernelColumns:
    """The kernel of points against X, or against each other."""
    return KernelColumns(points, kernel, X, dtype=facts.dtype, n_jobs=facts.n_threads)


class RemoteKernelEquations(RemoteEquations, KernelEquations):
    """The equations of the kernel machine of all rows of a ``RemoteProblem``.

    ::

        repeat for blocks J of random rows, wherever they are
            gather X_J (b x d) and send it to all workers
            r_J = y_J − n alpha a_J − Σ_i k(X_J, X_i) a_i, summed over the shards i
            on one worker: (k(X_J, X_J) + n alpha I) Δ = r_J;   a_J += Δ

    A worker's state is the coefficients of its rows, so that rebuilding it needs no rows of others.
    The residual is known before each block moves, as of normal equations, and all of it is computed
    once that part is small. The coefficients, the targets and the last residuals, of one entry per
    row, are with the client. Tu, Roelofs, Venkataraman and Recht (2016), Large scale kernel
    learning using block coordinate descent, algorithm 1.
    """

    knows_residual: ClassVar[bool] = False

    def __init__(self, problem: Any, alphas: NDArray[np.float64]):
        own = {field.name: getattr(problem.facts, field.name) for field in fields(DesignFacts)}
        feature_map = copy(own["preprocessing"].feature_map)
        if feature_map.takes_text:
            raise ValueError(
                "kernel must be one of numbers where the full kernel is on many machines; got "
                f"{feature_map.kernel_!r}."
            )
        vars(feature_map).pop("landmarks_", None)  # all rows, where they are here
        own["preprocessing"] = replace(own["preprocessing"], feature_map=feature_map)
        facts = KernelFacts(**own, n_shards=problem.run.engine.n_shards)
        RemoteEquations.__init__(self, problem, alphas, KernelPart, facts)
        sizes = self.run.total("size")
        self._edges = np.concatenate([[0], np.cumsum(sizes)])
        self.y, weights = self.run.total("given", self._edges[:-1])
        s = np.ones(self.n_rows) if weights is None else weights
        if weights is not None and np.all(weights == 1):
            weights = None
        self.weights = weights
        self._measure(weights, s @ self.y / self.n_rows)
        self._rhs: NDArray[np.float64] | None = None
        self._seen = np.zeros((0, 0))  # residuals of rows, each when its block was last asked for

    def _truth(self, number: int) -> Any:
        if self._truth_here is None:
            self._truth_here = (self._scaled(self.x),)
        first, last = self._edges[number : number + 2]
        return int(first), self._truth_here[0][first:last]

    # -- anywhere ----------------------------------------------------------------------------

    def product(
        self, V: NDArray, columns: ArrayLike | None = None, exact: bool = False
    ) -> NDArray[np.float64]:
        # Workers never round entries: ``exact`` changes nothing.
        V = np.asarray(V, dtype=np.float64)
        scaled = self.run.engine.share(np.ascontiguousarray(self._scaled(V)))
        out = np.empty(V.shape)
        for rows in row_chunks(self.n_rows, 1.0, _ROWS):
            J = BlockIndices(np.arange(rows.start, rows.stop))
            out[rows] = self._ask("product", self._gathered(J), scaled)
        return self._scaled(out) + self.n_rows * self.strengths(columns) * V

    def product_of_rows(self, X: Any, V: NDArray, hold: bool) -> NDArray:
        """K V of all rows, whose handle is X; each worker makes, or holds, the rows of its part."""
        self._send("products", V.size * self._n_levels)
        given = X, np.ascontiguousarray(V), self._edges[:-1], hold
        return self.run.total("product_of_rows", *given)

    def _gathered(self, J: Any) -> Any:
        """The rows J, sent to all workers."""
        return self.shared(self._ask("rows", J))

    def shared(self, X: Matrix) -> Any:
        """Rows of data, sent to all workers."""
        self._send("data", X.size * self._n_levels)
        return self.run.engine.share(X)

    # -- at the current point ----------------------------------------------------------------

    def start(self, x: NDArray[np.float64], blocks: list[NDArray] | None = None) -> None:
        super().start(x)
        self._seen = self.rhs() if not np.any(x) else np.full(self.shape, np.nan)

    def keep(self, index: NDArray) -> None:
        columns = (np.asarray(index)[:, None] * self.width + np.arange(self.width)).ravel()
        self._seen, self._rhs = np.ascontiguousarray(self._seen[:, columns]), None
        super().keep(index)

    def block(self, J: NDArray, gram: bool = True) -> RemoteBlock:
        with self.phase("generate"):
            X = self._gathered(self._named(J))
        with self.phase("reduce"):
            rhs = self._residual_at(J, X)
        block = RemoteBlock(J, J, rhs)
        if gram:
            kernel = self.run.facts.preprocessing.feature_map.kernel_
            root = None if self._root is None else self._root[J]
            block.gram = self.run.engine.once(_kernel_of, X, kernel, self._dtype_and_threads, root)
            block.maker, block.given = _matrix, (block.gram, float(self.n_rows))
        return block

    @property
    def _dtype_and_threads(self) -> tuple[str, int | None]:
        return np.dtype(self.run.facts.dtype).name, self.run.facts.n_threads

    def _residual_at(self, J: NDArray, X: Any) -> NDArray[np.float64]:
        """The residual of the rows J, whose data are X."""
        product = self._ask("against", X)
        self._send("right-hand sides", product.size * self._n_levels)
        if self._root is not None:
            product = product * self._root[J]
        if self._rhs is None:
            self._rhs = self.rhs()
        residual = self._rhs[J] - product - self.n_rows * self.strengths() * self.x[J]
        self._seen[J] = residual
        return residual

    def move(self, block: Any, delta: NDArray[np.float64]) -> None:
        self._send("weights", delta.size * self._n_levels)
        J = block.columns
        sent = delta if self._root is None else self._root[J] * delta
        self._move(J, J, delta, sent)

    def current_residual(self, blocks: list[NDArray] | None = None) -> NDArray[np.float64]:
        if blocks is None:
            chunks = row_chunks(self.n_rows, 1.0, _ROWS)
            blocks = [np.arange(rows.start, rows.stop) for rows in chunks]
        for J in blocks:
            self._residual_at(J, self._gathered(self._named(J)))
        return self._seen

    def relative_of_blocks(self, squares: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.relative(self._seen)

    def values(self) -> NDArray[np.float64]:
        """F at the current x from residuals when they were last known: exact at the solution."""
        return self.values_at(self.x, self._seen, np.arange(len(self.alphas)))

    def saved(self) -> dict[str, NDArray]:
        return {**super().saved(), "seen": self._seen}

    def restore(self, saved: dict[str, NDArray]) -> None:
        super().restore(saved)
        self._seen = np.array(saved["seen"])

    def examples(self) -> NDArray:
        rows = np.unique(np.linspace(0, self.n_rows - 1, _EXAMPLES).astype(np.int64))
        X = self._ask("rows", BlockIndices(rows))
        kernel = self.run.facts.preprocessing.feature_map.kernel_
        return _columns(X, kernel, None, self.run.facts).block(np.arange(len(rows))).ravel()


def _kernel_of(
    X: Matrix, kernel: Kernel, form: tuple[str, int | None], root: NDArray | None
) -> NDArray[np.float64]:
    """√S k(X, X) √S, on the worker that factorises it."""
    columns = KernelColumns(X, kernel, dtype=form[0], n_jobs=form[1])
    matrix = columns.block(np.arange(X.shape[0])).astype(np.float64)
    return matrix if root is None else matrix * root * root.T


def _matrix(gram: NDArray[np.float64], n_rows: float, alpha: float) -> NDArray[np.float64]:
    """The matrix of a block for one strength."""
    matrix = gram.copy()
    matrix[np.diag_indices(len(matrix))] += alpha * n_rows
    return matrix
