"""Bounds that the papers prove, to be drawn beside what runs measure.

Block coordinate descent has its own in ``simulators.block_rates``, and the steps for which
asynchronous descent is proved to converge are ``mercer.solvers.step_bounds``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import LinearOperator, eigsh

_FAILURE = 0.05  # probability with which bounds that hold with high probability may fail


# --- random draws as coordinate descent -----------------------------------------------------


def binning_bound(
    grids: ArrayLike, gap: float, norm: float, kappa: float, *, beta: float = 1.0
) -> NDArray[np.float64]:
    """Upper bound of E F(w) - F(w*) after R grids of random binning.

    ``2 β ‖w*‖² / (κ (R - c))`` with ``c = ⌈2 κ (F(0) - F(w*)) / (β ‖w*‖²)⌉``. The paper prints it
    without the factor 2, which its own recursion needs; its proof assumes that grids of little
    collision have large gradients. ``grids``: R >= 0; ``gap``: F(0) - F(w*) of a reference solution
    w*; ``norm``: ‖w*‖ > 0; ``kappa``: κ >= 1, the mean over grids of one over the share of rows in
    the fullest bin; ``beta``: largest curvature of the loss. Infinite for R <= c. Wu, Yen, Chen and
    Yan, Revisiting random binning features, KDD 2016, theorem 1.
    """
    curvature = beta * norm**2 / kappa
    return _after(grids, np.ceil(2.0 * max(gap, 0.0) / curvature), curvature)


def draws_bound(
    drawn: ArrayLike,
    gap: float,
    norm: float,
    *,
    beta: float = 2.0,
    size: float = 1.0,
    failure: float | None = None,
) -> NDArray[np.float64]:
    """Upper bound of F(w) - F(w*) after D random features were drawn.

    On average over the draws ``2 γ ‖w*‖² / (D - c)`` with γ = β B² and ``c = 2 (F(0) - F(w*)) / (γ
    ‖w*‖²)``; F(w) has λ‖w‖₁ and F(w*) has λ‖w*‖₂. ``drawn``: D >= 0; ``gap``: F(0) - F(w*);
    ``norm``: ‖w*‖ > 0; ``beta``: largest curvature of the loss; 2 for the squared hinge; ``size``:
    B, the largest value of a feature; 1 for perceptrons; ``failure``: in (0, 1): the bound that
    holds with probability 1 - ``failure``, not on average. It is proved where it is less than
    ``gap`` and 2 γ ‖w*‖². Infinite where too few were drawn for a bound. Yen, Lin, Lin, Ravikumar
    and Dhillon, Sparse random features, NIPS 2014, corollaries 1 and 3.
    """
    curvature = beta * (size * norm) ** 2
    wasted = 2.0 * max(gap, 0.0) / curvature
    if failure is None:
        return _after(drawn, wasted, curvature)
    if not wasted:  # an empty model is as good as the reference
        return np.zeros(np.shape(drawn))
    wasted += 2.0 - 4.0 / wasted
    bound = (1.0 + np.log(1.0 / failure)) * _after(drawn, wasted, curvature)
    return np.where(bound < min(gap, 2.0 * curvature), bound, np.inf)


def _after(drawn: ArrayLike, wasted: float, curvature: float) -> NDArray[np.float64]:
    """2 γ‖w*‖² over the draws beyond those that a large gap takes."""
    left = np.asarray(drawn, dtype=np.float64) - wasted
    with np.errstate(divide="ignore"):
        return np.where(left > 0, 2.0 * curvature / np.maximum(left, 0.0), np.inf)


# --- embedded features ----------------------------------------------------------------------


def spread_ratio(K: NDArray) -> float:
    """r = 2 tr(nK - K²) / ‖nK - K²‖, the dimension in which random Fourier features err.

    ``K``: shape (n, n), a kernel matrix with ones on its diagonal. At least 2, at most 2 n.
    """
    n = len(K)
    trace = n * float(np.trace(K)) - float(np.vdot(K, K))
    operator = LinearOperator((n, n), matvec=lambda v: n * (Kv := K @ v) - K @ Kv, dtype=np.float64)
    start = np.random.default_rng(0).normal(size=n)
    largest = eigsh(operator, k=1, which="LA", v0=start, tol=1e-3, return_eigenvectors=False)
    return 2.0 * trace / float(largest[0])


def fourier_bound(
    n_rows: int, n_features: ArrayLike, ratio: float, failure: float = _FAILURE
) -> NDArray[np.float64]:
    """Upper bound of ‖K - F Fᵀ‖ for n rows and d random Fourier features in pairs.

    ``ln θ (2n/(3a) + √(4n²/(9a²) + n²/(2 a ln θ)))`` with a = d/2 and θ = 4r/δ. ``n_features``: d;
    ``ratio``: r, from :func:`spread_ratio`; ``failure``: δ, the probability with which it may fail.
    Chen, Yang, King and Lyu, Training-efficient feature map for shift-invariant kernels, IJCAI
    2015, proof of theorem 1.
    """
    a = np.asarray(n_features, dtype=np.float64) / 2
    log = np.log(4.0 * ratio / failure)
    step = 2.0 / (3.0 * a)
    return n_rows * log * (step + np.sqrt(step**2 + 1.0 / (2.0 * a * log)))


def embedding_bound(
    n_rows: int,
    n_base: ArrayLike,
    n_features: ArrayLike,
    ratio: float,
    *,
    power: int = 1,
    failure: float = _FAILURE,
) -> NDArray[np.float64]:
    """Upper bound of ‖K - G Gᵀ‖ for l features that a Gaussian sketch draws from d.

    Sum of the base map's bound and ``(1 + t²)^(1/(2q+1)) n / (k + 1)`` for what the subspace loses,
    where t bounds the product of a Gaussian matrix and a pseudoinverse, and k < l makes it least.
    ``n_base``, ``n_features``: d, and l from 6 to d; ``ratio``: r, from :func:`spread_ratio`;
    ``power``: q; ``failure``: half of it is allowed to each part. Chen, Yang, King and Lyu, IJCAI
    2015, theorem 1, with the constants of Halko, Martinsson and Tropp, Finding structure with
    randomness, 2011, that it leaves out.
    """
    d, found = np.broadcast_arrays(n_base, n_features)
    lost = [
        _lost(float(base), int(size), power, failure / 2)
        for base, size in zip(d.flat, found.flat, strict=True)
    ]
    base_part = fourier_bound(n_rows, d, ratio, failure / 2)
    return base_part + n_rows * np.reshape(lost, d.shape)


def srht_bound(
    n_rows: int, n_base: ArrayLike, n_features: ArrayLike, ratio: float, failure: float = _FAILURE
) -> NDArray[np.float64]:
    """Upper bound of ‖K - G Gᵀ‖ for l features that a Hadamard sketch draws from d.

    Sum of the base map's bound and ``(1 + 7 d / l) n / (k + 1)`` with the largest k for which ``4
    (√k + √(8 ln(k d)))² ln k <= l``. The second part fails with a probability of order 1/k.
    ``n_rows``, ``n_base``, ``n_features``, ``ratio``, ``failure``: see :func:`embedding_bound`; q
    is 0. Chen, Yang, King and Lyu, IJCAI 2015, theorem 2, with the constants of Halko, Martinsson
    and Tropp, 2011, theorem 11.2.
    """
    d, found = np.broadcast_arrays(
        np.asarray(n_base, np.float64), np.asarray(n_features, np.float64)
    )
    kept = np.array([_kept(base, size) for base, size in zip(d.flat, found.flat, strict=True)])
    lost = n_rows * (1.0 + 7.0 * d / found) / (kept.reshape(d.shape) + 1.0)
    return fourier_bound(n_rows, d, ratio, failure) + lost


def learning_bound(
    kernel_error: ArrayLike, alpha: float, slope: ArrayLike, n_rows: int
) -> NDArray[np.float64]:
    """Bound of the loss added by inexact inner products: C² ‖K - G Gᵀ‖ / (2 λ n).

    ``kernel_error``: ‖K - G Gᵀ‖ in the spectral norm; ``alpha``: λ of ``λ/2 ‖w‖² + mean loss``;
    ``slope``: C, the largest derivative of the loss at the solution for G. Chen, Yang, King and
    Lyu, IJCAI 2015, theorem 3.
    """
    error, C = np.asarray(kernel_error, np.float64), np.asarray(slope, np.float64)
    return C**2 * error / (2.0 * alpha * n_rows)


def _lost(d: float, size: int, power: int, failure: float) -> float:
    """‖(I - QQᵀ) Fᵀ‖² / n of a Gaussian sketch, at the best k = l - p with p >= 4."""
    beyond = np.arange(4, size - 1)  # p
    k = size - beyond
    # Each of two events may fail with half the probability: t^-(p + 1), and exp(-u²/2).
    inverse = np.e * np.sqrt(size) / (beyond + 1) * (failure / 2) ** (-1.0 / (beyond + 1))
    norm = np.sqrt(np.maximum(d - k, 0)) + np.sqrt(size) + np.sqrt(2 * np.log(2 / failure))
    shares = (1.0 + (norm * inverse) ** 2) ** (1.0 / (2 * power + 1)) / (k + 1)
    return float(shares.min(initial=np.inf))


def _kept(d: float, size: float) -> int:
    """The largest k that a Hadamard sketch of this size is proved to keep."""
    k = np.arange(1, max(int(size), 1) + 1)
    needed = 4.0 * (np.sqrt(k) + np.sqrt(8.0 * np.log(np.maximum(k * d, 1.0)))) ** 2 * np.log(k)
    return int(k[needed <= size].max(initial=1))


# --- asynchronous steps ---------------------------------------------------------------------


def descent_bound(
    loops: ArrayLike,
    gap: float,
    distance: float,
    *,
    step_size: float,
    largest: float,
    n_coordinates: int,
    n_inner: int,
    strong: float = 0.0,
) -> NDArray[np.float64]:
    """Upper bound of E P(w) - P* after s loops of asynchronous doubly stochastic steps.

    ``(n L ‖w⁰ - w*‖² + 2 γ n (P(w⁰) - P*)) / (2 γ n + 2 m γ s)`` for convex losses; with optimal
    strong convexity ℓ also ``L/(2γ) (‖w⁰ - w*‖² + 2γ/L (P(w⁰) - P*))`` times ``(1 + m γ ℓ / (n (ℓ γ
    + L)))^-s``, and the less of both counts. Proved for steps γ up to
    ``mercer.solvers.step_bounds(...).convex``. ``loops``: s >= 0; ``gap``: P(w⁰) - P*;
    ``distance``: ‖w⁰ - w*‖; ``step_size``: γ > 0; ``largest``: L_max, ``step_bounds(...).largest``;
    ``n_coordinates``: n, the weights and the intercept; ``n_inner``: m, steps of a loop;
    ``strong``: ℓ. Gu, Miao, Huo and Huang, Asynchronous doubly stochastic sparse kernel learning,
    AAAI 2018, theorem 1, where both displays have the number (11).
    """
    s = np.asarray(loops, dtype=np.float64)
    n, m, gamma = n_coordinates, n_inner, step_size
    start = n * largest * distance**2 + 2 * gamma * n * gap
    bound = start / (2 * gamma * n + 2 * m * gamma * s)
    if strong > 0:
        rate = m * gamma * strong / (n * (strong * gamma + largest))
        bound = np.minimum(bound, start / (2 * gamma * n) * (1 + rate) ** -s)
    return bound
