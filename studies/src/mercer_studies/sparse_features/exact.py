"""Exact kernel machines with a constant term: ridge regression and the squared hinge."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from mercer.losses import SquaredHinge

_MOST_STEPS = 100


@dataclass(frozen=True)
class Machine:
    """A kernel expansion ``Σ_i coef_i k(x_i, x) + intercept``."""

    coef: NDArray  # shape (n,), exactly 0 for rows that are no support vectors
    intercept: float
    norm: float  # of the model in the space of the kernel
    n_steps: int = 1  # linear systems solved


def ridge(K: NDArray, y: NDArray, lam: float, fit_intercept: bool = True) -> Machine:
    """The minimum of ``lam/2 ‖f‖² + mean ½ (f(x_i) + b − y_i)²``.

    ``K``: shape (n, n); ``y``: shape (n,); ``lam``: > 0.
    """
    coef, intercept = _solved(K, y, lam * len(y), fit_intercept)
    return Machine(coef, intercept, float(np.sqrt(max(coef @ (K @ coef), 0.0))))


def squared_hinge(K: NDArray, y: NDArray, lam: float, fit_intercept: bool = True) -> Machine:
    """The minimum of ``lam/2 ‖f‖² + mean max(0, 1 − y_i (f(x_i) + b))²``.

    Newton's method on the coefficients, with a search along every step: the objective is piecewise
    quadratic, so that it ends with the exact solution. ``K``: shape (n, n); ``y``: shape (n,), ±1;
    ``lam``: > 0. Chapelle, Training a support vector machine in the primal, Neural Computation
    2007.
    """
    n = len(y)
    loss = SquaredHinge()
    coef, intercept = np.zeros(n), 0.0
    f = np.zeros(n)  # without the intercept
    value, n_steps = 1.0, 0
    while n_steps < _MOST_STEPS:
        n_steps += 1
        active = np.flatnonzero(y * (f + intercept) < 1)
        aim = np.zeros(n)
        some = K[np.ix_(active, active)]
        aim[active], b = _solved(some, y[active], 0.5 * lam * n, fit_intercept)
        d_coef, d_b = aim - coef, b - intercept
        d_f = K[:, active] @ aim[active] - f
        share = 1.0
        while share > 1e-8:
            tried = coef + share * d_coef
            u = f + share * d_f + intercept + share * d_b
            new = 0.5 * lam * tried @ (f + share * d_f) + loss.value(u, y).mean()
            if new <= value + 1e-14:
                break
            share *= 0.5
        gain, value = value - new, min(value, new)
        coef, f, intercept = tried, f + share * d_f, intercept + share * d_b
        same = np.array_equal(np.flatnonzero(y * (f + intercept) < 1), active)
        if share == 1.0 and (same or gain <= 1e-12 * value):
            break
    return Machine(coef, float(intercept), float(np.sqrt(max(float(coef @ f), 0.0))), n_steps)


def _solved(K: NDArray, y: NDArray, ridge_: float, fit_intercept: bool) -> tuple[NDArray, float]:
    """``(K + ridge I) a + b = y`` with ``Σ a = 0``, or without b."""
    if not len(y):
        return np.zeros(0), 0.0
    matrix = K + ridge_ * np.eye(len(y))
    sides = np.column_stack([y, np.ones(len(y))])
    found = linalg.solve(matrix, sides, assume_a="pos", overwrite_a=True, check_finite=False)
    if not fit_intercept:
        return found[:, 0], 0.0
    b = found[:, 0].sum() / found[:, 1].sum()
    return found[:, 0] - b * found[:, 1], float(b)
