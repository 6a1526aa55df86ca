"""Normal equations: one unknown per column of the design."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer._runtime.device_arrays import inner, on_host, placed, zeros
from mercer.equations.base import Arrays, Equations, Functions
from mercer.equations.block import EquationBlock
from mercer.equations.on_device import row_part
from mercer.equations.parts import RowPart
from mercer.penalties import RKHSNorm
from mercer.problem import Problem

__all__ = ["NormalEquations", "diagonalised"]


class NormalEquations(Equations):
    """((1/n) Zᵀ S Z + α P) w = (1/n) Zᵀ S y, with the intercept as one more column of ones.

    P is the identity, or M + jitter I for ``RKHSNorm``. The state is the residual y − Z w − b of
    every row; with M, the products M w stand beside it, so that landmarks need not be rows.

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
        mean = problem.row_mean(self.y) if problem.fit_intercept else np.zeros(self.n_outputs)
        self._target = self.y - mean
        size = np.sqrt(problem.row_mean(np.square(self.y)))
        left = np.sqrt(problem.row_mean(np.square(self._target)))
        self._constant = left <= 4 * float(np.finfo(problem.dtype).eps) * size
        # Squares of the residual of the best constant model, column by column as blocks are met.
        self._met = np.zeros(n_columns, dtype=bool)
        self._of_target = np.zeros((n_columns, self.n_outputs))

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
            y = np.tile(self.y[part.rows], (1, len(self.alphas)))
            self.state[f"rows{m}"] = y - self._forward(part, self.x, blocks)
        if self._matrix is not None:
            self.state["of_matrix"] = self._matrix.matvec(self.problem.weights_of(self.x), blocks)

    def block(self, J: NDArray, gram: bool = True) -> EquationBlock:
        with self.phase("generate"):
            for part in self._generators():
                part.columns(J)
        with self.phase("reduce"):
            rows, rhs = self._residual_of(J)
        block = EquationBlock(rows, J, rhs)
        if gram:
            with self.phase("gram"):
                block.gram = self._gram_of(J)
                block.penalty = self._penalty_of(J)
        return block

    def _residual_of(
        self, J: NDArray, kind: str = "right-hand sides"
    ) -> tuple[NDArray, NDArray[np.float64]]:
        """Rows of a block, and the residual there."""
        rhs = self._projected(J, kind)
        rhs -= self.strengths() * self._jitter * self.x[J]
        if self._matrix is not None:
            rhs -= self.strengths() * self.state["of_matrix"][J]
        if not self.problem.fit_intercept:
            return J, rhs
        sums = self._sum([v.sum(axis=0) for v in self._weighted(self.state)], "intercept")
        return np.append(J, len(self.x) - 1), np.vstack([rhs, sums / self.n_rows])

    def _projected(self, J: NDArray, kind: str) -> NDArray[np.float64]:
        """Z_Jᵀ S (state) / n; the first time, its scale is computed beside it."""
        n_columns, met = self.shape[1], self._met[J].all()
        vectors = [
            p.weighted(rows if met else np.hstack([rows, self._target[p.rows]]))
            for p, rows in zip(self.parts, self._rows(self.state), strict=True)
        ]
        sums = [part.project(J, v) for part, v in zip(self.parts, vectors, strict=True)]
        if not met:
            target = self._sum([each[:, n_columns:] for each in sums], "scale") / self.n_rows
            self._of_target[J] = on_host(np.square(target))
            self._met[J] = True
        return self._sum([each[:, :n_columns] for each in sums], kind) / self.n_rows

    def _gram_of(self, J: NDArray) -> NDArray[np.float64]:
        # The norm of a kernel's space hardly penalises what float32 rounds away: with a rounded
        # Gram matrix the equations are indefinite, and steps diverge.
        exact = self._matrix is not None
        gram = self._sum([part.gram(J, exact) for part in self.parts], "gram") / self.n_rows
        if not self.problem.fit_intercept:
            return gram
        b = len(J)
        ones = [part.weighted(np.ones_like(self.y[part.rows, :1])) for part in self.parts]
        projected = [p.project(J, v) for p, v in zip(self.parts, ones, strict=True)]
        sums = self._sum(projected, "intercept")
        matrix = zeros((b + 1, b + 1), np.float64, gram)
        matrix[b, b] = 1.0
        matrix[:b, :b] = gram
        matrix[:b, b] = matrix[b, :b] = sums[:, 0] / self.n_rows
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
            for m, part in enumerate(self.parts):
                change = -part.product(J, delta[:b])
                if self.problem.fit_intercept:
                    change -= delta[b]
                self._change(f"rows{m}", slice(None), change)
            if self._matrix is not None:
                self._change("of_matrix", slice(None), self._matrix.product(J, delta[:b]))

    def current_residual(self, blocks: list[NDArray]) -> NDArray[np.float64]:
        residual = zeros(self.shape, np.float64, self.x)
        for J in blocks:
            rows, rhs = self._residual_of(J, "residual")
            residual[rows] = rhs
        return residual

    def values(self) -> NDArray[np.float64]:
        pairs = zip(self._weighted(self.state), self._rows(self.state), strict=True)
        squares = self._sum([np.einsum("ij,ij->j", sv, v) for sv, v in pairs], "values")
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
        pairs = zip(self._rows(left), self._weighted(right), strict=True)
        sums = self._sum([inner(change, weighted) for change, weighted in pairs], "energy")
        norms = inner(self._norms(left), self.problem.weights_of(right["x"]))
        return sums / self.n_rows + self.alphas[index] * norms

    def slope(self, directions: Arrays, index: int) -> NDArray[np.float64]:
        columns = self.of(index)
        here = {name: array[:, columns] for name, array in self.state.items()}
        return -self.pairing(directions, here, index)

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

    def _weighted(self, arrays: Arrays) -> list[NDArray[np.float64]]:
        """S v of the arrays, or changes, that have one row per row of each part."""
        return [p.weighted(v) for p, v in zip(self.parts, self._rows(arrays), strict=True)]

    def _forward(
        self, part: RowPart, x: NDArray, blocks: list[NDArray] | None = None
    ) -> NDArray[np.float64]:
        """Z w + b."""
        responses = part.matvec(self.problem.weights_of(x), blocks)
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
