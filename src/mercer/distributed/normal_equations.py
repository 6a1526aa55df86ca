"""Normal equations whose rows are on workers: random features, bins, and landmarks (Nyström)."""

from __future__ import annotations

from dataclasses import fields
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer.distributed.normal import Across, NormalFacts, NormalPart
from mercer.distributed.parts import DesignFacts
from mercer.distributed.remote import BlockIndices, RemoteEquations
from mercer.distributed.run import Partial
from mercer.distributed.solves import RemoteBlock, unpacked
from mercer.engines.engine import Handle
from mercer.equations import Functions, NormalEquations, Span, spans_all_rows
from mercer.equations.normal import diagonalised
from mercer.penalties import RKHSNorm

__all__ = ["RemoteNormalEquations", "remote_equations"]

_EXAMPLES = 4  # rows whose features stand for the map that makes them
_MOST_EXAMPLES = 256  # columns of these


def remote_equations(problem: Any, alphas: NDArray[np.float64]) -> RemoteEquations:
    """The linear equations of a ``RemoteProblem``, in the form that its penalty asks for."""
    if spans_all_rows(problem):
        from mercer.distributed.kernel import RemoteKernelEquations

        return RemoteKernelEquations(problem, alphas)
    return RemoteNormalEquations(problem, alphas)


class RemoteNormalEquations(RemoteEquations, NormalEquations):
    """The normal equations of a ``RemoteProblem``: sums over rows are sums over shards.

    A block is one request, which brings the move of the block before. Its Gram matrix stays on a
    worker, is summed there as triangles, and serves every strength; so do the factors, of whose
    solutions alone the numbers travel. The matrix of a kernel's norm is multiplied by rows, some by
    each part, and the landmarks need not be rows of any shard.

    Changes of x in the last epochs, and functions across all blocks, are here; workers hold the
    changes of their rows. One request an epoch sums the products between them. Tu, Roelofs,
    Venkataraman and Recht (2016), Large scale kernel learning using block coordinate descent,
    algorithms 2 and 3.
    """

    spans_subspaces: ClassVar[bool] = True

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
        self._functions: tuple[Handle, NDArray[np.float64]] = None, np.zeros((0, 0))
        self._met = np.zeros(n_columns, dtype=bool)
        self._of_target = np.zeros((n_columns, self.n_outputs))
        sums, squares = self.run.total("moments") / self.n_rows
        self._mean = sums if problem.fit_intercept else np.zeros(self.n_outputs)
        left = self.run.total("moments", self._mean)[1] / self.n_rows
        eps = float(np.finfo(problem.dtype).eps)
        self._constant = np.sqrt(left) <= 4 * eps * np.sqrt(squares)

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        """Numbers of the first rows of the shards."""
        sizes = self.run.total("size")
        return np.cumsum(sizes) - sizes

    @cached_property
    def cached(self) -> bool:
        """Whether workers store the columns, as those of a linear map or of bins."""
        return bool(self.run.total("nbytes"))

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
        examples = self.run.total("examples", rows, self._starts, columns)
        return examples.astype(self.problem.dtype).ravel()

    # -- subspaces ---------------------------------------------------------------------------

    def _truth(self, number: int) -> Any:
        if self._truth_here is None:
            journal = self.journal.get("x")
            changes = tuple(change["x"] for change in self.changes)
            self._truth_here = self.x, self.strengths(), journal, changes
        return self._truth_here

    def _truth_at_x(self, number: int) -> Any:
        # A wrong change makes the residual wrong in the next combination: that is looked at.
        return self.x, self.strengths(), None, ()

    def begin_change(self) -> None:
        super().begin_change()
        self._update(begins=True)

    def end_change(self, depth: int) -> None:
        super().end_change(depth)
        self._update(ended=depth)

    @property
    def n_anchors(self) -> int:
        return self.n_rows if self._of_penalty is None else self.problem.design.shape[1]

    def functions(self, anchors: NDArray, blocks: list[NDArray] | None) -> Functions:
        n_columns, r = self.problem.design.shape[1], len(anchors)
        # Workers hold functions as they are, and a constant; what combines them to orthogonal ones
        # of mean 0 is here.
        x = np.zeros((self.shape[0], r + self.problem.fit_intercept))
        if self._of_penalty is None:
            every = np.arange(n_columns)
            x[:n_columns, :r] = self.run.total("examples", anchors, self._starts, every).T
        else:
            x[anchors, np.arange(r)] = 1.0
        if self.problem.fit_intercept:
            x[-1, -1] = 1.0
        handle = self.run.engine.share(Across(x))
        self.run.words["sent", "functions"] += x.size
        self._send("functions", x.size * self._n_levels)
        of_rows, norms = self.run.total("energies", handle)
        of_rows, turn = of_rows / self.n_rows, np.eye(r)
        if self.problem.fit_intercept:
            turn = np.vstack([turn, -of_rows[-1:, :r]])
        w = x[:n_columns, :r]
        least = 30.0 * float(np.finfo(self.problem.dtype).eps) * r
        norms = norms[:r, :r] + self._jitter * (w.T @ w)
        energies, rotation = diagonalised(turn.T @ of_rows @ turn, norms, least)
        self._functions = handle, turn @ rotation
        return Functions({"x": x @ self._functions[1]}, energies)

    def spans(self, functions: Functions | None) -> list[Span]:
        handle, turn = (None, np.zeros((0, 0))) if functions is None else self._functions
        sums, norms = self._ask("span", handle)
        spans = []
        for place, alpha in enumerate(self.alphas):
            energy = sums[place] / self.n_rows + alpha * norms[place]
            left = right = self.problem.weights_of(self._basis(place)["x"])
            m = left.shape[1]
            if functions is not None:
                energy = np.vstack([energy[:m], turn.T @ energy[m:]])
                left = np.hstack([left, self.problem.weights_of(functions.arrays["x"])])
            right = np.hstack([right, self.problem.weights_of(self.x[:, self.of(place)])])
            energy += alpha * self._jitter * (left.T @ right)
            parts = energy[:m, :m], -energy[:m, m:], energy[m:, :m], -energy[m:, m:]
            spans.append(Span(*parts))
        return spans

    def combine(
        self, functions: Functions | None, weights: list[tuple[NDArray[np.float64], NDArray]]
    ) -> None:
        handle, turn = (None, np.zeros((0, 0))) if functions is None else self._functions
        change = np.hstack(
            [self._combination(functions, *p, i)["x"] for i, p in enumerate(weights)]
        )
        sent = np.stack([w if functions is None else np.vstack([w, turn @ f]) for w, f in weights])
        self._update(combined=(handle, sent))
        self.state = {"x": self.x + change}
        self.changes[-1] = self.journal = {"x": self.changes[-1]["x"] + change}


def _matrix(
    gram: Partial, J: BlockIndices, of_penalty: Any, shape: tuple[int, bool, float], alpha: float
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
