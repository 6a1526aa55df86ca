"""Normal equations: one unknown per column of the design."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from mercer._runtime.arrays import row_chunks
from mercer._runtime.device_arrays import inner, on_host, placed, zeros
from mercer.equations.base import Arrays, Equations, Functions
from mercer.equations.block import EquationBlock
from mercer.equations.on_device import row_part
from mercer.equations.parts import RowPart
from mercer.penalties import RKHSNorm
from mercer.problem import Problem

__all__ = ["NormalEquations", "diagonalised"]

# Numbers of a state from which that of a float32 problem is float32: as float64 it would take
# 128 MB, and so would each change of an epoch.
_LARGE = 2**24


class NormalEquations(Equations):
    """((1/n) Zᵀ S Z + α P) w = (1/n) Zᵀ S y, with the intercept as one more column of ones.

    P is the identity, or M + jitter I for ``RKHSNorm``. The state is the residual y − Z w − b of
    every row; with M, the products M w stand beside it, so that landmarks need not be rows. It is
    float64, except for large float32 problems; sums over rows are float64 in any case. All that has
    a number per row and output is worked on in chunks of rows.

    The intercept joins every block: it is best for the weights after each of them.

    References
    ----------
    Tu, Roelofs, Venkataraman and Recht (2016), Large scale kernel learning using block coordinate
    descent, equations (3) and (4).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.designs import Dense
    >>> from mercer.equations import equations
    >>> from mercer.losses import Squared
    >>> from mercer.penalties import L2
    >>> from mercer.problem import Problem
    >>> problem = Problem(Dense(np.eye(2)), [1.0, 3.0], Squared(), L2(), None, False)
    >>> system = equations(problem, [0.5, 1.5])
    >>> system.rhs()
    array([[0.5, 0.5],
           [1.5, 1.5]])
    >>> system.product(np.ones((2, 2)))
    array([[1., 2.],
           [1., 2.]])
    """

    def __init__(self, problem: Problem, alphas: NDArray[np.float64], n_parts: int = 1):
        super().__init__(problem, alphas, n_parts)
        penalty = problem.penalty
        self._matrix: RowPart | None = None
        self._jitter = 1.0
        if isinstance(penalty, RKHSNorm):
            every = slice(0, penalty.matrix.shape[0])
            self._matrix = row_part(penalty.matrix, every, None, problem.device)
            self._jitter = penalty.jitter
        n_columns = problem.design.shape[1]
        zero = np.zeros(self.n_outputs)
        self._mean = problem.row_mean(self.y) if problem.fit_intercept else zero
        size, left = np.sqrt(self._mean_squares(zero)), np.sqrt(self._mean_squares(self._mean))
        self._constant = left <= 4 * float(np.finfo(problem.dtype).eps) * size
        # Squares of the residual of the best constant model, column by column as blocks are met.
        self._met = np.zeros(n_columns, dtype=bool)
        self._of_target = np.zeros((n_columns, self.n_outputs))
        short = problem.device is None and problem.dtype == np.float32
        large = self.n_rows * self.shape[1] >= _LARGE
        self.kind = np.dtype(np.float32 if short and large else np.float64)
        self.in_pieces = problem.device is None

    def _mean_squares(self, centre: NDArray[np.float64]) -> NDArray[np.float64]:
        """(1/n) Σ s_i (y_i − centre)² of every output."""
        total = np.zeros(self.n_outputs)
        for part in self.parts:
            for rows in self._chunks(part):
                squares = np.square(self.y[part.rows][rows] - centre)
                total += part.weighted(squares, rows).sum(axis=0)
        return total / self.n_rows

    @property
    def shape(self) -> tuple[int, int]:
        return self.problem.shape[0], len(self.alphas) * self.n_outputs

    def from_theta(self, theta: NDArray) -> NDArray[np.float64]:
        columns = theta.reshape(len(theta), -1).astype(np.float64)
        return np.tile(columns, (1, len(self.alphas)))

    def theta(self, x: NDArray[np.float64], index: int = 0) -> NDArray:
        return x[:, self.of(index)].reshape(self.problem.shape).astype(self.problem.dtype)

    # -- anywhere ----------------------------------------------------------------------------

    def product(self, V: NDArray, columns: ArrayLike | None = None) -> NDArray[np.float64]:
        out = self._mean_rows([part.weighted(self._forward(part, V)) for part in self.parts])
        self.problem.weights_of(out)[...] += self.strengths(columns) * self._penalised(V)
        return out

    def residual(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        y = np.tile(self.y, (1, len(self.alphas)))
        states = [part.weighted(y[part.rows] - self._forward(part, x)) for part in self.parts]
        out = self._mean_rows(states)
        self.problem.weights_of(out)[...] -= self.strengths() * self._penalised(x)
        return out

    def relative(
        self,
        residual: NDArray[np.float64],
        x: NDArray[np.float64] | None = None,
        index: NDArray | None = None,
    ) -> NDArray[np.float64]:
        norms = np.sqrt(np.einsum("ij,ij->j", residual, residual))
        return norms.reshape(-1, self.n_outputs) / self._reference

    @property
    def _reference(self) -> NDArray[np.float64]:
        """Norm of the residual of the best constant model, infinite where that solves all."""
        if not self._met.all():
            return self.problem.reference()
        norms = np.sqrt(self._of_target.sum(axis=0))
        return np.where(self._constant | (norms == 0), np.inf, norms)

    # -- at the current point ----------------------------------------------------------------

    def start(self, x: NDArray[np.float64], blocks: list[NDArray] | None = None) -> None:
        self.state = {"x": x.astype(np.float64)}
        for m, part in enumerate(self.parts):
            state = self._forward(part, self.x, blocks, self.kind)
            for rows in self._chunks(part):
                y = np.tile(self.y[part.rows][rows], (1, len(self.alphas)))
                state[rows] = y - state[rows]
            self.state[f"rows{m}"] = state
        if self._matrix is not None:
            self.state["of_matrix"] = self._matrix.matvec(self.problem.weights_of(self.x), blocks)

    def block(self, J: NDArray, gram: bool = True) -> EquationBlock:
        if self._matrix is not None:
            with self.phase("generate"):
                self._matrix.columns(J)
        sums = [self._swept(m, J, gram) for m in range(len(self.parts))]
        block = EquationBlock(*self._residual_of(J, sums))
        if gram:
            block.gram = self._gram_of(J, sums)
            block.penalty = self._penalty_of(J)
        return block

    def _swept(self, number: int, J: NDArray, gram: bool = False) -> _Sums:
        """Sums over the rows of a part for the columns J, in one sweep over its pieces.

        Columns that are met for the first time are also projected on the targets.
        """
        part, state, met = self.parts[number], self.state[f"rows{number}"], self._met[J].all()
        # The norm of a kernel's space hardly penalises what float32 rounds away: with a rounded
        # Gram matrix the equations are indefinite, and steps diverge.
        exact = self._matrix is not None
        total = _Sums()
        for piece in part.pieces(J):
            with self.phase("generate"):
                piece.columns(J)
            with self.phase("reduce"):
                for rows in self._chunks(piece):
                    v = piece.weighted(state[_within(part, piece, rows)], rows)
                    total.add("of_ones", v.sum(axis=0, dtype=np.float64))
                    if not met:
                        target = self.y[piece.rows][rows] - self._mean
                        v = np.hstack([v, piece.weighted(target, rows)])
                    total.add("projected", piece.project(J, v, rows))
            if not gram:
                continue
            with self.phase("gram"):
                total.add("gram", piece.gram(J, exact))
                if self.problem.fit_intercept:
                    ones = np.ones_like(self.y[piece.rows, :1], dtype=np.float64)
                    total.add("ones", piece.project(J, piece.weighted(ones)))
        return total

    def _residual_of(
        self, J: NDArray, sums: list[_Sums], kind: str = "right-hand sides"
    ) -> tuple[NDArray, NDArray, NDArray[np.float64]]:
        """Rows of a block, its columns, and the residual there."""
        rhs = self._projected(J, sums, kind)
        rhs -= self.strengths() * self._jitter * self.x[J]
        if self._matrix is not None:
            rhs -= self.strengths() * self.state["of_matrix"][J]
        if not self.problem.fit_intercept:
            return J, J, rhs
        of_ones = self._sum([each["of_ones"] for each in sums], "intercept")
        return np.append(J, len(self.x) - 1), J, np.vstack([rhs, of_ones / self.n_rows])

    def _projected(self, J: NDArray, sums: list[_Sums], kind: str) -> NDArray[np.float64]:
        """Z_Jᵀ S (state) / n; the first time, its scale is computed beside it."""
        n_columns, projected = self.shape[1], [each["projected"] for each in sums]
        if projected[0].shape[1] > n_columns:
            target = self._sum([each[:, n_columns:] for each in projected], "scale") / self.n_rows
            self._of_target[J] = on_host(np.square(target))
            self._met[J] = True
        return self._sum([each[:, :n_columns] for each in projected], kind) / self.n_rows

    def _gram_of(self, J: NDArray, sums: list[_Sums]) -> NDArray[np.float64]:
        gram = self._sum([each["gram"] for each in sums], "gram") / self.n_rows
        if not self.problem.fit_intercept:
            return gram
        b, ones = len(J), self._sum([each["ones"] for each in sums], "intercept")
        matrix = zeros((b + 1, b + 1), np.float64, gram)
        matrix[b, b] = 1.0
        matrix[:b, :b] = gram
        matrix[:b, b] = matrix[b, :b] = ones[:, 0] / self.n_rows
        return matrix

    def _penalty_of(self, J: NDArray) -> NDArray[np.float64]:
        b, r = len(J), len(J) + self.problem.fit_intercept
        if self._matrix is None:
            return np.where(np.arange(r) < b, 1.0, 0.0)
        penalty = zeros((r, r), np.float64, self.y)
        penalty[:b, :b] = self._matrix.columns(J)[J]
        penalty[np.arange(b), np.arange(b)] += self._jitter
        return penalty

    def move(self, block: EquationBlock, delta: NDArray[np.float64]) -> None:
        J, b = block.columns, len(block.columns)
        self._send("weights", delta.size * (len(self.parts) > 1))
        with self.phase("update"):
            self._change("x", block.rows, delta)
            if self._matrix is not None:
                self._change("of_matrix", slice(None), self._matrix.product(J, delta[:b]))
        for m, part in enumerate(self.parts):
            for piece in part.pieces(J):
                with self.phase("generate"):
                    piece.columns(J)
                with self.phase("update"):
                    for rows in self._chunks(piece):
                        change = -piece.product(J, delta[:b], rows)
                        if self.problem.fit_intercept:
                            change -= delta[b]
                        self._change(f"rows{m}", _within(part, piece, rows), change)

    def current_residual(self, blocks: list[NDArray]) -> NDArray[np.float64]:
        residual = zeros(self.shape, np.float64, self.x)
        for J in blocks:
            sums = [self._swept(m, J) for m in range(len(self.parts))]
            rows, _, rhs = self._residual_of(J, sums, "residual")
            residual[rows] = rhs
        return residual

    def values(self) -> NDArray[np.float64]:
        squares = self._sum(
            [
                sum(np.einsum("ij,ij->j", sv, v) for v, sv in self._pairs(part, rows, rows))
                for part, rows in zip(self.parts, self._rows(self.state), strict=True)
            ],
            "values",
        )
        w = self.problem.weights_of(self.x)
        norms = self._jitter * np.einsum("ij,ij->j", w, w)
        if self._matrix is not None:
            norms += np.einsum("ij,ij->j", w, self.state["of_matrix"])
        values = 0.5 * (squares / self.n_rows + self.strengths() * norms)
        return values.reshape(-1, self.n_outputs)

    def saved(self) -> dict[str, NDArray]:
        # Columns that are met for the first time go through BLAS beside more vectors than others,
        # and the rounding of a product depends on their number.
        return {**super().saved(), "met": self._met, "of_target": self._of_target}

    def restore(self, saved: dict[str, NDArray]) -> None:
        super().restore(saved)
        self._met, self._of_target = np.array(saved["met"]), np.array(saved["of_target"])

    def _generators(self) -> list[RowPart]:
        return self.parts if self._matrix is None else [*self.parts, self._matrix]

    # -- subspaces ---------------------------------------------------------------------------

    def pairing(self, left: Arrays, right: Arrays, index: int) -> NDArray[np.float64]:
        triples = zip(self.parts, self._rows(left), self._rows(right), strict=True)
        sums = self._sum([self._inner(*each) for each in triples], "energy")
        norms = inner(self._norms(left), self.problem.weights_of(right["x"]))
        return sums / self.n_rows + self.alphas[index] * norms

    def slope(self, directions: Arrays, index: int) -> NDArray[np.float64]:
        columns = self.of(index)
        here = {name: array[:, columns] for name, array in self.state.items()}
        return -self.pairing(directions, here, index)

    def combine(
        self, functions: Functions | None, weights: list[tuple[NDArray[np.float64], NDArray]]
    ) -> None:
        for place, (of_changes, of_functions) in enumerate(weights):
            columns = self.of(place)
            for name, basis in self._basis(place).items():
                state, last = self.state[name][:, columns], self.changes[-1][name][:, columns]
                for rows in row_chunks(len(basis), 8.0 * self.width):
                    change = basis[rows] @ of_changes
                    if functions is not None:
                        change += functions.arrays[name][rows] @ of_functions
                    state[rows] += change
                    last[rows] += change

    def _inner(self, part: RowPart, left: NDArray, right: NDArray) -> NDArray[np.float64]:
        """leftᵀ S right of arrays with a row per row of a part."""
        total: NDArray[np.float64] = np.zeros((left.shape[1], right.shape[1]))
        for v, weighted in self._pairs(part, left, right):
            total += inner(v, weighted)
        return total

    def _norms(self, changes: Arrays) -> NDArray[np.float64]:
        """P times the weights of changes."""
        norms = self._jitter * self.problem.weights_of(changes["x"])
        return norms if self._matrix is None else norms + changes["of_matrix"]

    @property
    def n_anchors(self) -> int:
        return self.n_rows if self._matrix is None else self._matrix.n_rows

    def functions(self, anchors: NDArray, blocks: list[NDArray] | None) -> Functions:
        if self._matrix is None:
            w = np.concatenate([_features(part, anchors) for part in self.parts]).T
            w = placed(w, self.problem.device)
            rows = [part.matvec(w.astype(self.problem.dtype), blocks) for part in self.parts]
        else:
            w = zeros((self._matrix.n_rows, len(anchors)), np.float64, self.y)
            w[anchors, np.arange(len(anchors))] = 1.0
            rows = [part.block(anchors).astype(np.float64) for part in self.parts]
        self._send("functions", w.size * self._n_levels)
        x = zeros((self.shape[0], w.shape[1]), np.float64, w)
        self.problem.weights_of(x)[...] = w
        if self.problem.fit_intercept:
            sums = [p.weighted(v).sum(axis=0) for p, v in zip(self.parts, rows, strict=True)]
            x[-1] = -self._sum(sums, "functions") / self.n_rows
            rows = [v + x[-1] for v in rows]
        arrays = {"x": x, **{f"rows{m}": -v for m, v in enumerate(rows)}}
        if self._matrix is not None:
            arrays["of_matrix"] = self._matrix.block(anchors).astype(np.float64)
        grams = [inner(v, p.weighted(v)) for p, v in zip(self.parts, rows, strict=True)]
        of_rows = self._sum(grams, "functions") / self.n_rows
        # Smaller energies of float32 kernels are rounding that division would blow up.
        least = 30.0 * float(np.finfo(self.problem.dtype).eps) * len(anchors)
        energies, turn = diagonalised(of_rows, inner(w, self._norms(arrays)), least)
        return Functions({name: array @ turn for name, array in arrays.items()}, energies)

    # -- rows --------------------------------------------------------------------------------

    def _chunks(self, part: RowPart) -> Iterator[slice]:
        """Chunks of the rows of a part or piece, counted from its first row."""
        return row_chunks(part.n_rows, 8.0 * self.shape[1])

    def _pairs(
        self, part: RowPart, left: NDArray, right: NDArray
    ) -> Iterator[tuple[NDArray, NDArray]]:
        """Chunks of arrays with a row per row of a part in float64: v, and S v of the other."""
        for rows in self._chunks(part):
            wide = right[rows].astype(np.float64, copy=False)
            yield left[rows].astype(np.float64, copy=False), part.weighted(wide, rows)

    def _forward(
        self,
        part: RowPart,
        x: NDArray,
        blocks: list[NDArray] | None = None,
        kind: DTypeLike = np.float64,
    ) -> NDArray:
        """Z w + b, a fresh array of that kind."""
        responses = part.matvec(self.problem.weights_of(x), blocks, kind)
        if self.problem.fit_intercept:
            responses += x[-1]
        return responses

    def _mean_rows(self, weighted: list[NDArray]) -> NDArray[np.float64]:
        """(Z, 1)ᵀ v / n of v with its weights."""
        products = [p.rmatvec(v) for p, v in zip(self.parts, weighted, strict=True)]
        out = self._sum(products, "products")
        if self.problem.fit_intercept:
            out = np.vstack([out, self._sum([v.sum(axis=0) for v in weighted], "products")])
        return out / self.n_rows

    def _penalised(self, x: NDArray) -> NDArray[np.float64]:
        """P w."""
        w = self.problem.weights_of(x)
        if self._matrix is None:
            return w
        return self._matrix.matvec(w) + self._jitter * w


class _Sums(dict[str, NDArray]):
    """Sums over rows by name."""

    def add(self, name: str, term: NDArray) -> None:
        """Add a term, an array."""
        self[name] = self[name] + term if name in self else term


def _within(part: RowPart, piece: RowPart, rows: slice) -> slice:
    """Rows of a piece, counted from the first row of its part."""
    first = piece.rows.start - part.rows.start
    return slice(first + rows.start, first + rows.stop)


def _features(part: RowPart, rows: NDArray) -> NDArray[np.float64]:
    """Features of the numbered rows that lie in this part."""
    _, local = part.locate(rows)
    return np.asarray(part.design.rows(local).toarray(), dtype=np.float64)


def diagonalised(
    A: NDArray[np.float64], B: NDArray[np.float64], least: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """e and T with Tᵀ A T = diag(e) and Tᵀ B T = I, where B is above ``least`` of its largest."""
    values, vectors = np.linalg.eigh(0.5 * (B + B.T))
    kept = values > least * values.max(initial=0.0)
    vectors = vectors[:, kept] / np.sqrt(values[kept])
    energies, turn = np.linalg.eigh(vectors.T @ A @ vectors)
    return energies, vectors @ turn
