"""The equations of the kernel machine of all rows: one unknown per row."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer._runtime.device_arrays import inner, on_host, zeros
from mercer.equations.base import Arrays, Equations, Functions
from mercer.equations.block import EquationBlock
from mercer.problem import Problem

__all__ = ["KernelEquations"]


class KernelEquations(Equations):
    """(√S K √S + n α I) β = √S (y − b), with coefficients a = √S β and an exact intercept b.

    Without weights this is (K + n α I) a = y − b. At the minimum the coefficients add up to zero:
    with an intercept, another column of every strength solves the equations for the right-hand side
    √S 1, and a combination of the two has both.

    The state is the residual of the equations; the diagonal n α has no 1/n in front of the kernel.

    References
    ----------
    Tu, Roelofs, Venkataraman and Recht (2016), Large scale kernel learning using block coordinate
    descent, algorithm 1, with n λ in the systems of the blocks.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.designs import KernelColumns
    >>> from mercer.equations import equations
    >>> from mercer.kernels import Gaussian
    >>> from mercer.losses import Squared
    >>> from mercer.penalties import RKHSNorm
    >>> from mercer.problem import Problem
    >>> kernel = KernelColumns(np.array([[0.0], [9.0]]), Gaussian(1.0))
    >>> problem = Problem(kernel, [1.0, 3.0], Squared(), RKHSNorm(0.5, kernel))
    >>> system = equations(problem)
    >>> system.start(system.from_theta(problem.initial()))
    >>> block = system.block(np.array([0, 1]))
    >>> system.move(block, np.linalg.solve(block.matrix(0.5), block.rhs))
    >>> system.theta(system.x)  # coefficients that add up to zero, and the intercept
    array([-0.5,  0.5,  2. ])
    """

    knows_residual: ClassVar[bool] = True

    def __init__(self, problem: Problem, alphas: NDArray[np.float64], n_parts: int = 1):
        super().__init__(problem, alphas, n_parts)
        self._measure(problem.weights, np.atleast_1d(problem.row_mean(self.y)))

    def _measure(self, weights: NDArray | None, mean: NDArray[np.float64]) -> None:
        """Set quantities that follow from the weights and the mean of the targets."""
        problem, alphas = self.problem, self.alphas
        self.width = self.n_outputs + problem.fit_intercept
        self._root = None if weights is None else np.sqrt(weights)[:, None]
        centre = mean if problem.fit_intercept else np.zeros(self.n_outputs)
        self._centre = np.tile(centre, (len(alphas), 1))
        norms = np.sqrt(np.sum(np.square(self._scaled(self.y - centre)), axis=0))
        size = np.sqrt(np.sum(np.square(self._scaled(self.y)), axis=0))
        eps = float(np.finfo(problem.dtype).eps)
        self._reference = np.where(norms <= 4 * eps * size, np.inf, norms)

    def _take_rows(self) -> None:
        super()._take_rows()
        self.y = self.y.astype(np.float64)

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_rows, len(self.alphas) * self.width

    def from_theta(self, theta: NDArray) -> NDArray[np.float64]:
        columns = theta.reshape(len(theta), -1).astype(np.float64)
        x = zeros(self.shape, np.float64, theta)
        weights = self.problem.weights_of(columns)
        if self._root is not None:
            weights = np.divide(
                weights, self._root, out=np.zeros_like(weights), where=self._root > 0
            )
        for index in range(len(self.alphas)):
            x[:, self.of(index)][:, : self.n_outputs] = weights
            if self.problem.fit_intercept:
                self._centre[index] = on_host(columns[-1])
        return x

    def theta(self, x: NDArray[np.float64], index: int = 0) -> NDArray:
        shift = self._shift(x, index)
        theta = zeros((self.problem.shape[0], self.n_outputs), np.float64, x)
        self.problem.weights_of(theta)[...] = self._scaled(
            self._combined(x[:, self.of(index)], shift)
        )
        if self.problem.fit_intercept:
            theta[-1] = self._centre[index] + shift
        return theta.reshape(self.problem.shape).astype(self.problem.dtype)

    # -- anywhere ----------------------------------------------------------------------------

    def product(self, V: NDArray, columns: ArrayLike | None = None, exact: bool = False) -> NDArray:
        """M_c V_c, where products with the kernel are in the dtype of V.

        ``exact`` demands entries that are not rounded.
        """
        scaled = self._scaled(V).astype(V.dtype, copy=False)
        parts = [part.exact(scaled) if exact else part.matvec(scaled) for part in self.parts]
        out = self._scaled(np.concatenate(parts))
        out += self.n_rows * self.strengths(columns) * V
        return out

    def rhs(self) -> NDArray[np.float64]:
        columns = []
        for centre in self._centre:
            columns.append(self._scaled(self.y - centre))
            if self.problem.fit_intercept:
                columns.append(self._scaled(np.ones_like(self.y[:, :1])))
        return np.hstack(columns)

    def residual(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.rhs() - self.product(x, exact=True)

    def residual_of(self, rows: NDArray[np.int64], x: NDArray[np.float64]) -> NDArray[np.float64]:
        """The entries of ``residual`` that belong to some rows."""
        product = self.problem.design.rows(rows).matvec(self._scaled(x))
        if self._root is not None:
            product *= self._root[rows]
        return self.rhs()[rows] - product - self.n_rows * self.strengths() * x[rows]

    def relative(
        self,
        residual: NDArray[np.float64],
        x: NDArray[np.float64] | None = None,
        index: NDArray | None = None,
    ) -> NDArray[np.float64]:
        x = self.x if x is None else x
        index = np.arange(len(self.alphas)) if index is None else index
        norms = np.empty((len(index), self.n_outputs))
        for place, number in enumerate(index):
            combined = self._combined(residual[:, self.of(place)], self._shift(x, number))
            norms[place] = np.sqrt(np.einsum("ij,ij->j", combined, combined))
        return norms / self._reference

    # -- at the current point ----------------------------------------------------------------

    def start(self, x: NDArray[np.float64], blocks: list[NDArray] | None = None) -> None:
        self.state = {"x": x.astype(np.float64)}
        scaled = self._scaled(self.x)
        residual = self.rhs() - self.n_rows * self.strengths() * self.x
        for m, part in enumerate(self.parts):
            product = part.matvec(scaled, blocks)
            if self._root is not None:
                product *= self._root[part.rows]
            self.state[f"rows{m}"] = residual[part.rows] - product

    def current_residual(self, blocks: list[NDArray] | None = None) -> NDArray[np.float64]:
        rows = self._rows(self.state)
        return rows[0] if len(rows) == 1 else np.concatenate(rows)

    def block(self, J: NDArray, gram: bool = True) -> EquationBlock:
        places = [part.locate(J) for part in self.parts]
        several = len(self.parts) > 1
        self._send("data", len(J) * getattr(self.problem.design, "n_inputs", 0) * self._n_levels)
        with self.phase("generate"):
            for part in self.parts:
                part.columns(J)
        with self.phase("reduce"):
            rhs = zeros((len(J), self.shape[1]), np.float64, self.y)
            self._send("right-hand sides", rhs.size * several)
            for rows, (inside, local) in zip(self._rows(self.state), places, strict=True):
                rhs[inside] = rows[local]
        block = EquationBlock(J, J, rhs)
        if gram:
            with self.phase("gram"):
                matrix = zeros((len(J), len(J)), np.float64, self.y)
                self._send("gram", matrix.size * several)
                for part, (inside, local) in zip(self.parts, places, strict=True):
                    matrix[inside] = part.columns(J)[local]
                if self._root is not None:
                    matrix *= self._root[J] * self._root[J].T
                block.gram, block.penalty = matrix, np.full(len(J), float(self.n_rows))
        return block

    def move(self, block: EquationBlock, delta: NDArray[np.float64]) -> None:
        J = block.columns
        self._send("weights", delta.size * self._n_levels)
        with self.phase("update"):
            self._change("x", J, delta)
            scaled = delta if self._root is None else self._root[J] * delta
            of_diagonal = self.n_rows * self.strengths() * delta
            for m, part in enumerate(self.parts):
                change = -part.product(J, scaled)
                if self._root is not None:
                    change *= self._root[part.rows]
                inside, local = part.locate(J)
                change[local] -= of_diagonal[inside]
                self._change(f"rows{m}", slice(None), change)

    def values(self) -> NDArray[np.float64]:
        return self.values_at(self.x, self.current_residual(), np.arange(len(self.alphas)))

    def values_at(
        self, x: NDArray[np.float64], residual: NDArray[np.float64], index: NDArray
    ) -> NDArray[np.float64]:
        """F of some strengths, given x of all and the residual of them."""
        values = np.empty((len(index), self.n_outputs))
        for place, number in enumerate(index):
            shift, alpha = self._shift(x, number), self.alphas[number]
            beta = self._combined(x[:, self.of(number)], shift)
            target = self._scaled(self.y - (self._centre[number] + shift))
            # √S (y − b − K a), from the equations and their residual
            misfit = self._combined(residual[:, self.of(place)], shift)
            misfit = misfit + self.n_rows * alpha * beta
            norm = np.einsum("ij,ij->j", beta, target - misfit)
            values[place] = np.einsum("ij,ij->j", misfit, misfit) / self.n_rows + alpha * norm
        return 0.5 * values

    def keep(self, index: NDArray) -> None:
        super().keep(index)
        self._centre = self._centre[index]

    def cache(self, n_bytes: float, blocks: list[NDArray] | None = None) -> None:
        super().cache(n_bytes)
        if blocks is not None and len(self.parts) == 1:
            with self.phase("generate"):
                self.parts[0].fill_symmetric(blocks)

    # -- subspaces ---------------------------------------------------------------------------

    def pairing(self, left: Arrays, right: Arrays, index: int) -> NDArray[np.float64]:
        rows = zip(self.parts, self._rows(right), strict=True)
        return self._sum([-inner(left["x"][part.rows], change) for part, change in rows], "energy")

    def slope(self, directions: Arrays, index: int) -> NDArray[np.float64]:
        rows, x, columns = self._rows(self.state), directions["x"], self.of(index)
        slopes = [inner(x[p.rows], r[:, columns]) for p, r in zip(self.parts, rows, strict=True)]
        return self._sum(slopes, "energy")

    @property
    def n_anchors(self) -> int:
        return self.n_rows

    def functions(self, anchors: NDArray, blocks: list[NDArray] | None) -> Functions:
        columns = np.concatenate([part.block(anchors) for part in self.parts])
        self._send("functions", columns.size * self._n_levels)
        x = np.linalg.qr(self._scaled(columns.astype(np.float64)))[0]
        single = self._scaled(x).astype(self.problem.dtype)
        product = np.concatenate([part.matvec(single, blocks) for part in self.parts])
        product = self._scaled(product)
        energies, turn = np.linalg.eigh(inner(x, product))
        product = product @ turn
        rows = {f"rows{m}": -product[part.rows] for m, part in enumerate(self.parts)}
        return Functions({"x": x @ turn, **rows}, energies, float(self.n_rows))

    def change_by_functions(
        self, functions: Functions, weights: NDArray[np.float64], index: int
    ) -> Arrays:
        change = super().change_by_functions(functions, weights, index)
        of_diagonal = self.n_rows * self.alphas[index] * change["x"]
        for rows, part in zip(self._rows(change), self.parts, strict=True):
            rows -= of_diagonal[part.rows]
        return change

    # -- intercept ---------------------------------------------------------------------------

    def _scaled(self, v: NDArray) -> NDArray[np.float64]:
        """√S v."""
        return v if self._root is None else self._root * v

    def _shift(self, x: NDArray[np.float64], index: int) -> NDArray[np.float64]:
        """The intercept minus the centre for which the coefficients add up to zero."""
        columns = self._scaled(x[:, self.of(index)])
        sums = columns.sum(axis=0)
        if not self.problem.fit_intercept or sums[-1] <= 0:
            return np.zeros(self.n_outputs)
        return sums[:-1] / sums[-1]

    def _combined(
        self, columns: NDArray[np.float64], shift: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """The columns of one strength for the outputs with their intercepts."""
        if not self.problem.fit_intercept:
            return columns
        return columns[:, :-1] - shift * columns[:, -1:]
