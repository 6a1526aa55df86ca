"""Derivatives of exact kernel machines along their inputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mercer.kernels.distances import fill

__all__ = ["KernelFit"]

_TOGETHER = 50  # rows of a block, whose kernel stays in the cache
_HUGE = np.float32(2**80)  # times a difference of rows, which is then beyond 1 unless it is 0
_EQUAL = np.float32(1e-3)  # Euclidean distance up to which rows are equal but for rounding
_LEAST = np.float32(1e-37)  # whose logarithm is a number
_NUMBERS = 2**22  # derivatives of a block, at most: 32 MB


@dataclass
class KernelFit:
    """f(x) = Σ_i k(x, x_i) a_i with a kernel of gamma 1, of k outputs."""

    kernel: str  # "laplacian", "gaussian" or "exponential"
    rows: NDArray[np.float32]  # x_i, (n, d), of mean 0, about which derivatives round least
    coef: NDArray[np.float32]  # a_i, (n, k)

    def gradient_products(
        self,
        X: NDArray[np.float32],
        matrix: NDArray,
        full: bool,
        roots: NDArray[np.float32] | None = None,
    ) -> NDArray[np.float64]:
        """Sum of ∇f ∇fᵀ over the rows of X and all outputs, or its diagonal.

        Derivatives are along the inputs that ``matrix`` scaled, or turned, to make X, at kinks the
        mean of both sides. ``roots`` (n, 1) are those of the rows' weights.
        """
        d = X.shape[1]
        products = np.zeros((d, d) if full else d)
        step = int(np.clip(_NUMBERS // (d * self.coef.shape[1]), 1, _TOGETHER))
        for start in range(0, len(X), step):
            slopes = self.gradients(X[start : start + step]).astype(np.float64)
            if roots is not None:
                slopes *= roots[start : start + step, :, None]
            along = slopes.reshape(-1, d)
            along = along * matrix if matrix.ndim == 1 else along @ matrix.T
            products += along.T @ along if full else np.einsum("ij,ij->j", along, along)
        return products

    def gradients(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """∇f at some rows, (m, k, d)."""
        matrix = np.empty((len(X), len(self.rows)), dtype=np.float32)
        fill(matrix, self.kernel, X, self.rows, np.ones(X.shape[1]), n_jobs=1)
        slopes = np.empty((len(X), self.coef.shape[1], X.shape[1]), dtype=np.float32)
        if self.kernel != "laplacian":  # Σ_i r(x, x_i) a_i (x_i - x)
            rates = self._rates(matrix)
            values = rates @ self.coef
            for output, coef in enumerate(self.coef.T):
                slopes[:, output] = rates @ (coef[:, None] * self.rows)
                slopes[:, output] -= values[:, output, None] * X
            return slopes
        signs = np.empty_like(matrix)
        columns = np.ascontiguousarray(self.rows.T)
        for column, of_rows in enumerate(columns):  # Σ_i k(x, x_i) a_i sign(x_i - x)
            np.subtract(of_rows, X[:, column, None], out=signs)
            with np.errstate(over="ignore"):
                signs *= _HUGE
            np.clip(signs, -1, 1, out=signs)  # takes a quarter of the time of np.sign
            signs *= matrix
            slopes[:, :, column] = signs @ self.coef
        return slopes

    def _rates(self, matrix: NDArray[np.float32]) -> NDArray[np.float32]:
        """Slope of kernels of Euclidean distances towards other rows, divided by the distance."""
        if self.kernel == "gaussian":
            return 2 * matrix
        distances: NDArray[np.float32] = -np.log(np.maximum(matrix, _LEAST))
        distances[distances <= _EQUAL] = np.inf
        return matrix / distances
