"""Scales of the inputs and the noise of a Gaussian process that make its targets most likely.

::

    y_k ~ N(b_k, s2_k (K + R)),    R_ii = ridge / w_i,    k = 1, …, q outputs

K is a stationary kernel with one factor ``gamma`` per input; w are weights of mean 1. The constants
b and the variances s2 are those of the largest likelihood for the other parameters. Outputs share
gamma and ridge, and their log likelihoods add up. The factor of K + R that gives the likelihood
also gives its gradient:

    d log p / d t = -1/2 tr(W dA / dt),    W = q A⁻¹ - Σ_k a_k a_kᵀ / s2_k,
    A = K + R,    a_k = A⁻¹ (y_k - b_k).

Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, section 5.4.1.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack, solve_triangular
from scipy.optimize import minimize

from mercer._runtime.arrays import check_memory
from mercer.equations.factor import lower
from mercer.kernels import Stationary
from mercer.kernels.distances import distances, scaled

__all__ = ["Likelihood", "Process", "likes_own_scales", "most_likely"]

_MATRICES = 7.0  # of the size of the kernel matrix in memory at once
# Bounds of the search: lengths of inputs in units of the first ones, and ridges in units of
# k(x, x), the least of which leaves a factor in float64.
_LENGTHS = (1 / 30, 1e4)
_RIDGES = (1e-6, 1e3)
_GAIN = 1e-6  # log likelihood per row below which a step ends the search
_MOST_STEPS = 200


@dataclass(frozen=True)
class Process:
    """Parameters of a Gaussian process and the log likelihood of its targets."""

    gamma: NDArray[np.float64]  # (d,)
    ridge: float  # noise variance of a target of weight 1, in units of the prior variance
    log_likelihood: float  # natural, of targets in their own units


@dataclass
class Likelihood:
    """Log likelihood and gradient in log gamma (d,) and log ridge; a MemoryError if too large."""

    kernel: Stationary  # with a slope
    rows: NDArray[np.float64]  # (n, d)
    targets: NDArray[np.float64]  # (n, q), none of them constant
    weights: NDArray[np.float64] | None = None  # (n,), above 0; None for ones
    fit_intercept: bool = True  # False for constants of 0
    _inputs: NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        n = len(self.rows)
        check_memory(
            _MATRICES * 8.0 * n**2,
            f"the likelihood of {n} rows",
            "give gamma and alpha, and leave out selection='evidence'",
        )
        self._inputs = self.rows - self.rows.mean(axis=0)

    def __call__(self, logs: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Log likelihood and its gradient (d + 1,)."""
        n, q = self.targets.shape
        kernel = self.kernel.with_gamma(np.exp(logs[:-1]))
        ridges = self._ridges(np.exp(logs[-1]))
        values = kernel(self._inputs)
        matrix = values.copy()
        matrix[np.diag_indices(n)] += ridges
        factor = lower(matrix)
        log_det = 2.0 * np.sum(np.log(np.diag(factor)))
        inverse = _inverse(factor)
        del matrix, factor
        coef = inverse @ self.targets
        if self.fit_intercept:
            of_ones = inverse.sum(axis=1)
            coef -= np.outer(of_ones, coef.sum(axis=0) / of_ones.sum())
        variances = np.einsum("ik,ik->k", self.targets, coef) / n
        value = -0.5 * (n * np.sum(np.log(2 * np.pi * variances) + 1.0) + q * log_det)
        inverse *= q
        inverse -= (coef / variances) @ coef.T
        of_ridge = -0.5 * (inverse.diagonal() @ ridges)
        of_gammas = -0.5 * self._products(kernel, values, inverse)
        return float(value), np.append(of_gammas, of_ridge)

    def density(self, process: Process, others: Likelihood) -> float:
        """Log density of the targets of each other row, given the targets of the process."""
        kernel = self.kernel.with_gamma(process.gamma)
        n, m = len(self.rows), len(others.rows)
        matrix = kernel(self.rows)
        matrix[np.diag_indices(n)] += self._ridges(process.ridge)
        sides = np.column_stack([kernel(self.rows, others.rows), self.targets, np.ones(n)])
        whitened = solve_triangular(lower(matrix), sides, lower=True, check_finite=False)
        cross, y, ones = whitened[:, :m], whitened[:, m:-1], whitened[:, -1]
        constants = ones @ y / (ones @ ones) if self.fit_intercept else np.zeros(y.shape[1])
        y = y - np.outer(ones, constants)
        units = 1.0 - np.einsum("ij,ij->j", cross, cross) + others._ridges(process.ridge)
        variances = np.outer(units, np.mean(np.square(y), axis=0))
        errors = others.targets - constants - cross.T @ y
        return -0.5 * float(np.sum(np.log(2 * np.pi * variances) + np.square(errors) / variances))

    def taken(self, rows: NDArray[np.bool_], outputs: NDArray[np.bool_]) -> Likelihood:
        """The likelihood of some rows and outputs."""
        weights = None if self.weights is None else self.weights[rows]
        targets = self.targets[rows][:, outputs]
        return replace(self, rows=self.rows[rows], targets=targets, weights=weights)

    def _ridges(self, ridge: float) -> NDArray[np.float64]:
        return ridge / (np.ones(len(self.rows)) if self.weights is None else self.weights)

    def _products(
        self, kernel: Stationary, values: NDArray[np.float64], matrix: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """tr(matrix dK / d log gamma_j) for every input j, (d,); ``matrix`` is overwritten."""
        x = scaled(self._inputs, kernel.input_scale(self._inputs.shape[1]))
        slope = kernel.slope(distances(kernel.metric, x, x), values)
        if slope is None:
            raise TypeError(f"kernel must be a function of a distance; got {kernel!r}.")
        matrix *= slope
        if kernel.metric != "cityblock":  # sums of squared differences are products of matrices
            sums = matrix.sum(axis=1) @ np.square(x) - np.einsum("ij,ij->j", x, matrix @ x)
            return 2.0 * sums
        apart = np.empty_like(matrix)
        sums = np.empty(x.shape[1])
        for j, column in enumerate(x.T):
            np.subtract(column[:, None], column, out=apart)
            sums[j] = np.vdot(matrix, np.abs(apart, out=apart))
        return sums


def most_likely(
    likelihood: Likelihood, gamma: NDArray[np.float64], ridge: float, own_scales: bool = True
) -> Process:
    """The process of the largest likelihood that a search from these parameters reaches.

    With ``own_scales`` every input has its own gamma; without, one factor multiplies ``gamma``
    (d,). Lengths of the inputs stay within 1/30 and 10 000 times the first ones, the ridge within
    1e-6 and 1000. The search stops where a step gains less than 1e-6 per row. Units of the targets
    change neither the steps nor the result.
    """
    n, d = likelihood.rows.shape
    weights = likelihood.weights
    widest, narrowest = -likelihood.kernel.power * np.log(_LENGTHS[::-1])
    least = np.log(_RIDGES[0] * (1.0 if weights is None else float(weights.max())))
    most = max(np.log(_RIDGES[1]), least)
    n_factors = d if own_scales else 1
    bounds = [(widest, narrowest)] * n_factors + [(least, most)]
    first = np.append(np.zeros(n_factors), np.clip(np.log(ridge), least, most))

    def logs_of(steps: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.append(np.log(gamma) + steps[:-1], steps[-1])

    at_first = likelihood(logs_of(first))[0]

    def loss(steps: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        value, gradient = likelihood(logs_of(steps))
        if not own_scales:
            gradient = np.array([gradient[:-1].sum(), gradient[-1]])
        return (at_first - value) / n, -gradient / n

    how = {"ftol": _GAIN, "maxiter": _MOST_STEPS}
    found = minimize(loss, first, jac=True, method="L-BFGS-B", bounds=bounds, options=how)
    best = np.exp(logs_of(found.x))
    return Process(best[:-1], float(best[-1]), float(at_first - n * found.fun))


def likes_own_scales(
    likelihood: Likelihood, gamma: NDArray[np.float64], ridge: float, half: NDArray[np.bool_]
) -> bool:
    """True if gammas per input beat a common factor in the density of held-out halves."""
    gain = 0.0
    for known in (half, ~half):
        outputs = np.ptp(likelihood.targets[known], axis=0) > 0
        if not outputs.any():
            continue
        part, others = likelihood.taken(known, outputs), likelihood.taken(~known, outputs)
        own, common = (
            part.density(most_likely(part, gamma, ridge, each), others) for each in (True, False)
        )
        gain += own - common
    return gain > 0


def _inverse(factor: NDArray[np.float64]) -> NDArray[np.float64]:
    """(L Lᵀ)⁻¹ of a C-ordered lower triangle L, which is overwritten."""
    # The transpose of a C-ordered lower triangle is an upper one in the order of LAPACK.
    upper, _ = lapack.dpotri(factor.T, lower=0, overwrite_c=1)
    inverse = np.tril(upper.T)
    inverse += np.tril(inverse, -1).T
    return inverse
