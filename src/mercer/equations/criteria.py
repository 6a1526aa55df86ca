"""Criteria by which scales of the inputs and a ridge are chosen, with their gradients.

Rows have a stationary kernel K with one factor ``gamma`` per input and weights w of mean 1. Of
A = K + R, R_ii = ridge / w_i, one factor gives each criterion and its gradient. The marginal
likelihood is that of the Gaussian process

::

    y_k ~ N(b_k, s2_k A),    k = 1, …, q outputs,
    d log p / d t = -1/2 tr(W dA / dt),    W = q A⁻¹ - Σ_k a_k a_kᵀ / s2_k,

whose constants b and variances s2 maximise the likelihood for the other parameters. The left-out
errors belong to kernel ridge regression. With M = A⁻¹ less the part along the constant,

::

    a = M y,    e_g = M_gg⁻¹ a_g,    L = Σ_i w_i |e_i|² / (n q),
    dL / dA = M S M - (u aᵀ + a uᵀ) / 2,    u = M v,    v_g = M_gg⁻¹ ∂L/∂e_g,
    S_gg = Σ_k (e_gk v_gkᵀ + v_gk e_gkᵀ) / 2

where g is a group of rows that are left out together, by default each row alone.

Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, sections 5.4.1 and 5.4.2;
Allen, The relationship between variable selection and data augmentation, Technometrics 1974.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack, solve_triangular
from scipy.optimize import minimize

from mercer._runtime.arrays import check_memory
from mercer.equations.factor import lower
from mercer.kernels import Stationary
from mercer.kernels.distances import distances, scaled

__all__ = ["Criterion", "LeftOut", "Likelihood", "Parameters", "likes_own_scales", "optimum"]

_MATRICES = 7.0  # of the size of the kernel matrix in memory at once
# Bounds of the search: lengths of inputs in units of the first ones, and ridges in units of
# k(x, x), the least of which leaves a factor in float64.
_LENGTHS = (1 / 30, 1e4)
_RIDGES = (1e-6, 1e3)
_GAIN = 1e-6  # of the criterion per row, below which a step ends the search
_MOST_STEPS = 200
_TILE = 128  # rows and columns of differences that stay in the processor's cache


@dataclass(frozen=True)
class Parameters:
    """Parameters of a kernel machine or Gaussian process, and the value of their criterion."""

    gamma: NDArray[np.float64]  # (d,)
    ridge: float  # noise variance of a target of weight 1, in units of the prior variance
    value: float


@dataclass
class Criterion:
    """Function of log gamma (d,) and log ridge to maximise; a MemoryError if it is too large."""

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
            f"the choice of gamma and alpha by {n} rows",
            "give gamma and alpha, and leave out selection",
        )
        self._inputs = self.rows - self.rows.mean(axis=0)

    def __call__(self, logs: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """The criterion and its gradient (d + 1,)."""
        n = len(self.rows)
        kernel = self.kernel.with_gamma(np.exp(logs[:-1]))
        ridges = self._ridges(np.exp(logs[-1]))
        values = kernel(self._inputs)
        matrix = values.copy()
        matrix[np.diag_indices(n)] += ridges
        factor = lower(matrix)
        log_det = 2.0 * float(np.sum(np.log(np.diag(factor))))
        inverse = _inverse(factor)
        del matrix, factor
        value, slopes = self._of_inverse(inverse, log_det)
        of_ridge = slopes.diagonal() @ ridges
        return value, np.append(self._products(kernel, values, slopes), of_ridge)

    def _of_inverse(
        self, inverse: NDArray[np.float64], log_det: float
    ) -> tuple[float, NDArray[np.float64]]:
        """The criterion and its derivative by A, symmetric; the inverse (n, n) is overwritten."""
        raise NotImplementedError

    def score(self, found: Parameters, others: Criterion) -> float:
        """Value of predictions of the targets of other rows by these, the larger the better."""
        raise NotImplementedError

    def _predicted(
        self, found: Parameters, others: Criterion
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Errors (m, q) at other rows, variances there in prior units (m,) and prior ones (q,)."""
        kernel = self.kernel.with_gamma(found.gamma)
        n, m = len(self.rows), len(others.rows)
        matrix = kernel(self.rows)
        matrix[np.diag_indices(n)] += self._ridges(found.ridge)
        sides = np.column_stack([kernel(self.rows, others.rows), self.targets, np.ones(n)])
        whitened = solve_triangular(lower(matrix), sides, lower=True, check_finite=False)
        cross, y, ones = whitened[:, :m], whitened[:, m:-1], whitened[:, -1]
        constants = ones @ y / (ones @ ones) if self.fit_intercept else np.zeros(y.shape[1])
        y = y - np.outer(ones, constants)
        units = 1.0 - np.einsum("ij,ij->j", cross, cross) + others._ridges(found.ridge)
        return others.targets - constants - cross.T @ y, units, np.mean(np.square(y), axis=0)

    def taken(self, rows: NDArray[np.bool_], outputs: NDArray[np.bool_]) -> Self:
        """The criterion of some rows and outputs."""
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
        return _weighted_distances(matrix, x)


class Likelihood(Criterion):
    """Log marginal likelihood of the targets of a Gaussian process."""

    def _of_inverse(
        self, inverse: NDArray[np.float64], log_det: float
    ) -> tuple[float, NDArray[np.float64]]:
        n, q = self.targets.shape
        coef = inverse @ self.targets
        if self.fit_intercept:
            of_ones = inverse.sum(axis=1)
            coef -= np.outer(of_ones, coef.sum(axis=0) / of_ones.sum())
        variances = np.einsum("ik,ik->k", self.targets, coef) / n
        value = -0.5 * (n * np.sum(np.log(2 * np.pi * variances) + 1.0) + q * log_det)
        inverse *= -0.5 * q
        inverse += (0.5 * coef / variances) @ coef.T
        return float(value), inverse

    def score(self, found: Parameters, others: Criterion) -> float:
        errors, units, prior = self._predicted(found, others)
        variances = np.outer(units, prior)
        return -0.5 * float(np.sum(np.log(2 * np.pi * variances) + np.square(errors) / variances))


@dataclass
class LeftOut(Criterion):
    """-n/2 times the logarithm of the weighted mean squared error of left-out rows or groups."""

    groups: NDArray[np.int64] | None = None  # (n,), left out one after the other; None: each row

    def _of_inverse(
        self, inverse: NDArray[np.float64], log_det: float
    ) -> tuple[float, NDArray[np.float64]]:
        n = len(self.rows)
        if self.fit_intercept:
            of_ones = inverse.sum(axis=1)
            inverse -= np.outer(of_ones, of_ones / of_ones.sum())
        coef = inverse @ self.targets
        parts = self._parts()
        weights = np.ones(n) if self.weights is None else self.weights
        if parts is None:
            own = inverse.diagonal()[:, None]
            errors = coef / own
        else:
            blocks = [inverse[np.ix_(part, part)] for part in parts]
            errors = np.empty_like(coef)
            for part, block in zip(parts, blocks, strict=True):
                errors[part] = np.linalg.solve(block, coef[part])
        mean = float(np.mean(weights @ np.square(errors))) / n
        # of -n/2 log L by the errors
        slopes = -(weights[:, None] * errors) / (mean * self.targets.shape[1])
        if parts is None:
            slopes /= own
            moved = _congruent(inverse, np.einsum("ik,ik->i", errors, -slopes))
            np.negative(moved, out=moved)
        else:
            moved = np.empty_like(inverse)
            for part, block in zip(parts, blocks, strict=True):
                slopes[part] = np.linalg.solve(block, slopes[part])
                both = errors[part] @ slopes[part].T
                moved[part] = (0.5 * (both + both.T)) @ inverse[part]
            moved = inverse @ moved
        across = inverse @ slopes
        moved -= 0.5 * across @ coef.T
        moved -= 0.5 * coef @ across.T
        return -0.5 * n * float(np.log(mean)), moved

    def _parts(self) -> list[NDArray[np.intp]] | None:
        """Rows of every group; None if each row is one."""
        if self.groups is None:
            return None
        order = np.argsort(self.groups, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(self.groups[order])) + 1)

    def score(self, found: Parameters, others: Criterion) -> float:
        errors = np.square(self._predicted(found, others)[0]).mean(axis=1)
        return -float(np.average(errors, weights=others.weights))

    def taken(self, rows: NDArray[np.bool_], outputs: NDArray[np.bool_]) -> Self:
        groups = None if self.groups is None else self.groups[rows]
        return replace(super().taken(rows, outputs), groups=groups)


def optimum(
    criterion: Criterion, gamma: NDArray[np.float64], ridge: float, own_scales: bool = True
) -> Parameters:
    """The parameters of the largest criterion that a search from these reaches.

    With ``own_scales`` every input has its own gamma; without, one factor multiplies ``gamma``
    (d,). Lengths of the inputs stay within 1/30 and 10 000 times the first ones, the ridge within
    1e-6 and 1000. The search stops where a step gains less than 1e-6 per row. Units of the targets
    change neither the steps nor the result.
    """
    n, d = criterion.rows.shape
    weights = criterion.weights
    widest, narrowest = -criterion.kernel.power * np.log(_LENGTHS[::-1])
    least = np.log(_RIDGES[0] * (1.0 if weights is None else float(weights.max())))
    most = max(np.log(_RIDGES[1]), least)
    n_factors = d if own_scales else 1
    bounds = [(widest, narrowest)] * n_factors + [(least, most)]
    first = np.append(np.zeros(n_factors), np.clip(np.log(ridge), least, most))

    def logs_of(steps: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.append(np.log(gamma) + steps[:-1], steps[-1])

    at_first = criterion(logs_of(first))[0]

    def loss(steps: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        value, gradient = criterion(logs_of(steps))
        if not own_scales:
            gradient = np.array([gradient[:-1].sum(), gradient[-1]])
        return (at_first - value) / n, -gradient / n

    how = {"ftol": _GAIN, "maxiter": _MOST_STEPS}
    found = minimize(loss, first, jac=True, method="L-BFGS-B", bounds=bounds, options=how)
    best = np.exp(logs_of(found.x))
    return Parameters(best[:-1], float(best[-1]), float(at_first - n * found.fun))


def likes_own_scales(
    criterion: Criterion, gamma: NDArray[np.float64], ridge: float, half: NDArray[np.bool_]
) -> bool:
    """True if gammas per input beat a common factor in the score of held-out halves."""
    gain = 0.0
    for known in (half, ~half):
        outputs = np.ptp(criterion.targets[known], axis=0) > 0
        if not outputs.any():
            continue
        part, others = criterion.taken(known, outputs), criterion.taken(~known, outputs)
        own, common = (
            part.score(optimum(part, gamma, ridge, each), others) for each in (True, False)
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


def _congruent(matrix: NDArray[np.float64], diagonal: NDArray[np.float64]) -> NDArray[np.float64]:
    """M diag(s) M of a symmetric M and s of at least 0."""
    half = matrix * np.sqrt(diagonal)
    product = np.asarray(blas.dsyrk(1.0, half.T, trans=1, lower=1))
    product = np.tril(product)
    product += np.tril(product, -1).T
    return product


def _weighted_distances(matrix: NDArray[np.float64], x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Σ_ij matrix_ij |x_ia - x_ja| of a symmetric matrix, for every input a, (d,)."""
    sums = np.zeros(x.shape[1])
    for first in range(0, len(x), _TILE):
        rows = slice(first, first + _TILE)
        for start in range(first, len(x), _TILE):
            columns = slice(start, start + _TILE)
            tile = matrix[rows, columns].copy()
            if start > first:
                tile *= 2.0
            apart = np.empty_like(tile)
            for a in range(x.shape[1]):
                np.subtract(x[rows, a, None], x[None, columns, a], out=apart)
                sums[a] += np.vdot(tile, np.abs(apart, out=apart))
    return sums
