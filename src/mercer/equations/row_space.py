"""A ridge problem seen through its rows: vectors of one entry per row instead of one per column."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.device_arrays import zeros
from mercer.problem import Point, Problem
from mercer.problem.rows import add_scaled, as_rows

__all__ = ["RowSpace", "point_of_rows"]


def point_of_rows(problem: Problem, a: NDArray) -> Point:
    """The weights Zᵀa with the intercept that is best for them under a quadratic loss."""
    theta = zeros(problem.shape, problem.dtype, problem.y)
    weights = problem.weights_of(theta)
    weights[...] = problem.design.rmatvec(a.astype(problem.dtype))
    if np.any(weights):
        responses = problem.design.matvec(weights)
    else:
        responses = zeros(problem.y.shape, problem.dtype, problem.y)
    if problem.fit_intercept:
        theta[-1] = problem.row_mean(problem.y - responses)
        responses += theta[-1]
    return problem.at(theta, responses)


class RowSpace:
    """The weights w = Z̄ᵀa of a ridge problem by their coefficients a, Z̄ = Z − 1z̄ᵀ.

    The minimiser has this form, and so has every gradient met on the way from w = 0. Such a vector
    is the pair x = (a, K a) with K = Z̄Z̄ᵀ, of shape (2, n) or (2, n, k): then the inner product of
    two weight vectors is aᵀ(K a'), one product with K advances a conjugate-gradient step, and
    nothing has D rows. Centring eliminates the intercept; without one Z̄ = Z.

    It answers as ``Problem`` does, with x in the place of θ, and all numbers are the same: norms
    are those of the weights.
    """

    def __init__(self, problem: Problem):
        self.problem = problem
        self.dtype = np.dtype(np.float64)
        target = problem.y.astype(np.float64)
        if problem.fit_intercept:
            target -= problem.row_mean(target)
        self._target = target
        self._row_scale: NDArray | float = 1.0 / problem.n_rows
        if problem.weights is not None:
            self._row_scale = as_rows(problem.weights / problem.n_rows, target)

    def initial(self) -> NDArray:
        """w = 0."""
        return zeros((2, *self._target.shape), self.dtype, self._target)

    def lift(self, x: NDArray) -> NDArray:
        """θ of x, with the best intercept."""
        return self.point(x).theta.copy()

    def point(self, x: NDArray) -> Point:
        """The problem's point at ``lift(x)``."""
        return point_of_rows(self.problem, self._balanced(x[0].copy()))

    def reference(self) -> NDArray[np.float64]:
        """As the problem's."""
        return self.problem.reference()

    def dot(self, x: NDArray, y: NDArray) -> NDArray[np.float64]:
        """Inner products of the weights: (k,), one per output, or (1,)."""
        return self._pairing(x[1], y[0])

    def norm(self, x: NDArray) -> NDArray[np.float64]:
        """Norms of the weights."""
        return np.sqrt(np.maximum(self.dot(x, x), 0))

    def values(self, x: NDArray) -> NDArray[np.float64]:
        """F, from the responses in x."""
        loss = self.problem.row_mean(self.problem.loss.value(x[1], self._target))
        return np.atleast_1d(loss) + 0.5 * self.problem.penalty.alpha * self.dot(x, x)

    def gradient(self, x: NDArray) -> NDArray:
        """The gradient of F; the responses in x, which may have drifted, are computed anew."""
        x[1] = self._responses(x[0])
        residual = x[1] - self._target
        residual *= self._row_scale
        residual += self.problem.penalty.alpha * x[0]
        return self._vector(self._balanced(residual))

    def curvature_product(self, x: NDArray, v: NDArray, outputs: NDArray | None = None) -> NDArray:
        """The coefficients of ∇²F v, without their product with K; x and the outputs are alike."""
        return self._row_scale * v[1] + self.problem.penalty.alpha * v[0]

    def curvature(self, v: NDArray, product: NDArray) -> NDArray[np.float64]:
        """Inner product of v and ``product``, a curvature product."""
        return self._pairing(v[1], product)

    def subtract(self, v: NDArray, scale: NDArray, product: NDArray) -> None:
        """Subtract a multiple of a curvature product from v.

        The product with K is taken of the difference: the difference of two products would lose
        its digits as v gets small.
        """
        add_scaled(v[0], -scale, product)
        v[1] = self._responses(v[0])

    @staticmethod
    def _pairing(responses: NDArray, a: NDArray) -> NDArray[np.float64]:
        return np.atleast_1d(np.einsum("i...,i...->...", responses, a, dtype=np.float64))

    def _vector(self, a: NDArray) -> NDArray:
        return np.stack([a, self._responses(a)])

    def _responses(self, a: NDArray) -> NDArray:
        """K a."""
        if not np.any(a):
            return np.zeros_like(a)
        responses = self.problem.design.gram_matvec(a).astype(np.float64, copy=False)
        if self.problem.fit_intercept:
            responses -= self.problem.row_mean(responses)
        return responses

    def _balanced(self, a: NDArray) -> NDArray:
        """a without the part that centring ignores, which is rounding; in place."""
        if self.problem.fit_intercept:
            excess = np.sum(a, axis=0, dtype=np.float64)
            a -= self._row_scale * excess
        return a
