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
from scipy.linalg import blas, solve_triangular
from scipy.optimize import minimize

from mercer import _core
from mercer._runtime.arrays import check_memory, n_threads
from mercer._runtime.threads import (
    cholesky_in_place,
    inverse_of_factor_in_place,
    mirror_upper,
)
from mercer.equations.factor import lower
from mercer.kernels import Stationary
from mercer.kernels.distances import fill

__all__ = [
    "Criterion",
    "LeftOut",
    "LeftOutOfLabels",
    "Likelihood",
    "Parameters",
    "likes_own_scales",
    "optimum",
]

_MATRICES = 7.0  # of the size of the kernel matrix in memory at once
# Bounds of the search: lengths of inputs in units of the first ones, and ridges in units of
# k(x, x), the least of which leave a factor in float64 and in float32.
_LENGTHS = (1 / 30, 1e4)
_MOST_RIDGE, _LEAST_RIDGES = 1e3, {"d": 1e-6, "f": 1e-3}
_GAIN = 1e-6  # of the criterion per row, below which a step ends the search
_MOST_STEPS = 200
_MOST_AGAIN = 5  # evaluations beyond one a step


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
    rows: NDArray[np.floating]  # (n, d), float64, or float32 where ridges are not small
    targets: NDArray[np.floating]  # (n, q) in the type of the rows, none of them constant
    weights: NDArray[np.float64] | None = None  # (n,), above 0; None for ones
    fit_intercept: bool = True  # False for constants of 0
    _inputs: NDArray[np.floating] = field(init=False)

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
        kernel, ridges = self._at(logs)
        apart, values = self._entries(kernel)
        value, slopes = self._of_inverse(*self._inverse(values, ridges))
        of_ridge = slopes.diagonal() @ ridges
        of_distance = kernel.slope(apart, values)
        if of_distance is None:
            raise TypeError(f"kernel must be a function of a distance; got {kernel!r}.")
        slopes *= of_distance
        return value, np.append(self._along_inputs(kernel, slopes), of_ridge)

    def _at(self, logs: NDArray[np.float64]) -> tuple[Stationary, NDArray[np.float64]]:
        """The kernel of log gamma, and what log ridge adds to its diagonal (n,)."""
        return self.kernel.with_gamma(np.exp(logs[:-1])), self._ridges(np.exp(logs[-1]))

    def _entries(self, kernel: Stationary) -> tuple[NDArray, NDArray]:
        """Distances (n, n) of the rows in the metric of the kernel, and its values."""
        apart = self._distances(kernel)
        if kernel.metric == "euclidean":
            np.sqrt(apart, out=apart)
        return apart, kernel._profile(apart.copy())

    def _inverse(self, values: NDArray, ridges: NDArray[np.float64]) -> tuple[NDArray, float]:
        """Inverse of A, the values with ridges on their diagonal, and log det A."""
        matrix = values.copy()
        matrix[np.diag_indices(len(matrix))] += ridges.astype(values.dtype)
        if not cholesky_in_place(matrix):
            raise np.linalg.LinAlgError("the matrix is not positive definite to rounding.")
        log_det = 2.0 * float(np.sum(np.log(matrix.diagonal())))
        inverse_of_factor_in_place(matrix)
        return matrix, log_det

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

    def _distances(self, kernel: Stationary) -> NDArray:
        """Distances (n, n) of the rows in the metric of the kernel, Euclidean ones squared."""
        x = self._scaled(kernel)
        apart = np.zeros((len(x), len(x)), dtype=x.dtype)
        if not x.shape[1]:
            return apart
        fill(apart, _core_metric(kernel), x, x, np.ones(x.shape[1]))
        return apart

    def _scaled(self, kernel: Stationary) -> NDArray[np.floating]:
        """The inputs for which gamma is 1."""
        scales = kernel.input_scale(np.size(kernel.gamma))[: self._inputs.shape[1]]
        return self._inputs * scales.astype(self._inputs.dtype)

    def _along_inputs(
        self, kernel: Stationary, matrix: NDArray[np.floating]
    ) -> NDArray[np.float64]:
        """Sums by weights of the derivatives of distances, squared ones halved, by log gamma."""
        x = self._scaled(kernel)
        if not x.shape[1]:
            return np.zeros(0)
        if kernel.metric == "cityblock":
            return _weighted_distances(matrix, x)
        return _weighted_squares(matrix, x)


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
        n, parts = len(self.rows), self._parts()
        coef, blocks, errors, mean = self._left_out(inverse, parts)
        weights = np.ones(n) if self.weights is None else self.weights
        # of -n/2 log L by the errors
        slopes = -(weights[:, None] * errors) / (mean * self.targets.shape[1])
        slopes = slopes.astype(inverse.dtype, copy=False)  # or all that follows is in float64
        if parts is None:
            slopes /= inverse.diagonal()[:, None]
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
        moved -= np.hstack([across, coef]) @ (0.5 * np.hstack([coef, across])).T
        return -0.5 * n * float(np.log(mean)), moved

    def value(self, logs: NDArray[np.float64]) -> float:
        """The criterion without its gradient, in half of the time."""
        kernel, ridges = self._at(logs)
        inverse, _ = self._inverse(self._entries(kernel)[1], ridges)
        return -0.5 * len(inverse) * float(np.log(self._left_out(inverse, self._parts())[-1]))

    def _left_out(
        self, inverse: NDArray, parts: list[NDArray[np.intp]] | None
    ) -> tuple[NDArray, list[NDArray], NDArray, float]:
        """Coefficients (n, q), blocks of G of the parts, errors left out and their mean square.

        Of A⁻¹, overwritten by G = A⁻¹ − A⁻¹ 1 1ᵀ A⁻¹ / (1ᵀ A⁻¹ 1) with an intercept.
        """
        if self.fit_intercept:
            of_ones = inverse.sum(axis=1)
            inverse -= np.outer(of_ones, of_ones / of_ones.sum())
        coef = inverse @ self.targets
        blocks: list[NDArray] = []
        if parts is None:
            errors = coef / inverse.diagonal()[:, None]
        else:
            blocks = [inverse[np.ix_(part, part)] for part in parts]
            errors = np.empty_like(coef)
            for part, block in zip(parts, blocks, strict=True):
                errors[part] = np.linalg.solve(block, coef[part])
        weights = np.ones(len(inverse)) if self.weights is None else self.weights
        return coef, blocks, errors, float(np.mean(weights @ np.square(errors))) / len(inverse)

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


@dataclass
class LeftOutOfLabels(LeftOut):
    """The left-out error of rows that also have labels, whose columns have the last gammas.

    A column of labels stands for a column of 0 and 1 per label, which share a gamma.
    """

    labels: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 0), dtype=np.int64))
    # (n, l), -1 where a row has none of them

    def _distances(self, kernel: Stationary) -> NDArray:
        apart = super()._distances(kernel)
        scales = kernel.input_scale(self._inputs.shape[1] + self.labels.shape[1])
        power = 1 if kernel.metric == "cityblock" else 2
        for column, scale in zip(self.labels.T, scales[self._inputs.shape[1] :], strict=True):
            apart += apart.dtype.type(scale**power) * _apart(column, apart.dtype)
        return apart

    def _along_inputs(
        self, kernel: Stationary, matrix: NDArray[np.floating]
    ) -> NDArray[np.float64]:
        sums = super()._along_inputs(kernel, matrix)
        scales = kernel.input_scale(self._inputs.shape[1] + self.labels.shape[1])
        power = 1 if kernel.metric == "cityblock" else 2
        of_labels = [
            scale**power * float(np.vdot(matrix, _apart(column, matrix.dtype)))
            for column, scale in zip(self.labels.T, scales[self._inputs.shape[1] :], strict=True)
        ]
        return np.append(sums, of_labels)


def _apart(labels: NDArray[np.int64], dtype: np.dtype) -> NDArray[np.floating]:
    """Distances (n, n) of columns of 0 and 1: 2 between labels, 1 from a label to none of them."""
    known, short = labels >= 0, labels.astype(np.int32)
    differ: NDArray = (short[:, None] != short).astype(dtype)
    if known.all():
        differ *= 2
    else:
        differ *= known[:, None].astype(dtype) + known.astype(dtype)
    return differ


def _core_metric(kernel: Stationary) -> str:
    return "cityblock" if kernel.metric == "cityblock" else "sqeuclidean"


def optimum(
    criterion: Criterion,
    gamma: NDArray[np.float64],
    ridge: float,
    ties: NDArray[np.int64] | None = None,
    *,
    pull: float = 0.0,
    gain: float = _GAIN,
    most_steps: int = _MOST_STEPS,
) -> Parameters:
    """The parameters of the largest criterion that a search from these reaches.

    Inputs of equal numbers in ``ties`` (d,) keep the ratios that their gammas have in ``gamma``;
    None frees all of them, zeros none. Lengths of the inputs stay within 1/30 and 10 000 times the
    first ones, the ridge within 1e-6, or 1e-3 for float32, and 1000. The search stops after a step
    that gains less than ``gain`` per row, or after ``most_steps``. Of the criterion per row,
    ``pull`` times the mean squared logarithm of the factors of the first gammas is subtracted.
    Units of the targets change neither the steps nor the result.
    """
    n = len(criterion.rows)
    ties = np.arange(len(gamma)) if ties is None else ties
    weights, least = criterion.weights, _LEAST_RIDGES[criterion.rows.dtype.char]
    widest, narrowest = -criterion.kernel.power * np.log(_LENGTHS[::-1])
    lowest = np.log(least * (1.0 if weights is None else float(weights.max())))
    highest = max(np.log(_MOST_RIDGE), lowest)
    n_factors = int(ties.max()) + 1
    bounds = [(widest, narrowest)] * n_factors + [(lowest, highest)]
    first = np.append(np.zeros(n_factors), np.clip(np.log(ridge), lowest, highest))

    def logs_of(steps: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.append(np.log(gamma) + steps[ties], steps[-1])

    at_first, slopes_at_first = criterion(logs_of(first))

    def loss(steps: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        is_first = np.array_equal(steps, first)  # where the search begins
        value, gradient = (at_first, slopes_at_first) if is_first else criterion(logs_of(steps))
        of_factors = np.bincount(ties, gradient[:-1], minlength=n_factors)
        slopes = -np.append(of_factors, gradient[-1]) / n
        slopes[:-1] += 2.0 * pull * steps[:-1] / n_factors
        return (at_first - value) / n + pull * float(np.mean(np.square(steps[:-1]))), slopes

    # Rounding leaves little to gain at the end, which lines would be searched for in vain.
    how = {"ftol": gain, "maxiter": most_steps, "maxfun": most_steps + _MOST_AGAIN}
    found = minimize(loss, first, jac=True, method="L-BFGS-B", bounds=bounds, options=how)
    best = np.exp(logs_of(found.x))
    moved = pull * float(np.mean(np.square(found.x[:-1])))
    return Parameters(best[:-1], float(best[-1]), float(at_first - n * (found.fun - moved)))


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
        free, tied = np.arange(len(gamma)), np.zeros(len(gamma), dtype=np.int64)
        own, common = (
            part.score(optimum(part, gamma, ridge, ties), others) for ties in (free, tied)
        )
        gain += own - common
    return gain > 0


def _congruent(matrix: NDArray, diagonal: NDArray) -> NDArray:
    """M diag(s) M of a symmetric M and s of at least 0."""
    half = matrix * np.sqrt(diagonal).astype(matrix.dtype)
    (product_of,) = blas.get_blas_funcs(("syrk",), (half,))
    # The transpose of a C-ordered upper triangle is a lower one in the order of BLAS.
    product = np.asarray(product_of(1.0, half.T, trans=1, lower=1)).T
    mirror_upper(product)
    return product


def _weighted_squares(matrix: NDArray, x: NDArray) -> NDArray[np.float64]:
    """Σ_ij matrix_ij (x_ia - x_ja)² of a symmetric matrix, for every input a, (d,)."""
    sums = matrix.sum(axis=1) @ np.square(x) - np.einsum("ij,ij->j", x, matrix @ x)
    return 2.0 * sums.astype(np.float64)


def _weighted_distances(matrix: NDArray, x: NDArray) -> NDArray[np.float64]:
    """Σ_ij matrix_ij |x_ia - x_ja| of a symmetric matrix, for every input a, (d,).

    Of two values, the absolute difference is its square in other units.
    """
    low, spread = x.min(axis=0), np.ptp(x, axis=0)
    binary = ((x == low) | (x == low + spread)).all(axis=0)
    few, many = np.flatnonzero(binary & (spread > 0)), np.flatnonzero(~binary)
    sums = np.zeros(x.shape[1])
    sums[few] = _weighted_squares(matrix, x[:, few]) / spread[few]
    of_many = np.zeros(len(many))
    columns = np.ascontiguousarray(x.T[many])
    _core.distance_sums(np.ascontiguousarray(matrix), columns, of_many, n_threads(None))
    sums[many] = of_many
    return sums
