"""Kernel machines on small data, and their dense truth."""

from __future__ import annotations

import numpy as np

from mercer.designs import KernelColumns
from mercer.kernels import Gaussian
from mercer.losses import Squared
from mercer.penalties import RKHSNorm
from mercer.problem import Problem

KERNEL = Gaussian(0.3)


def data(rng, n=40, n_outputs=0):
    """Rows, two of them alike, and targets with a mean."""
    X = rng.normal(size=(n, 3))
    X[7] = X[3]
    waves = np.sin(2 * X).sum(axis=1) + 2.0
    noise = rng.normal(size=(n, n_outputs) if n_outputs else n)
    return X, 0.3 * noise + (waves[:, None] if n_outputs else waves)


def exact(rng, n=40, n_outputs=0, alpha=1e-2, weights=None, fit_intercept=True, dtype=np.float64):
    """The kernel machine of all rows."""
    X, y = data(rng, n, n_outputs)
    design = KernelColumns(X.astype(dtype), KERNEL)
    return Problem(design, y, Squared(), RKHSNorm(alpha, design), weights, fit_intercept)


def restricted(
    rng, n=40, p=12, n_outputs=0, alpha=1e-2, weights=None, fit_intercept=True, jitter=0.0
):
    """The machine in the span of a few landmarks that are no rows."""
    X, y = data(rng, n, n_outputs)
    design = KernelColumns(X, KERNEL, landmarks=rng.normal(size=(p, 3)))
    penalty = RKHSNorm(alpha, design.landmark_design(), jitter)
    return Problem(design, y, Squared(), penalty, weights, fit_intercept)


def dense_responses(problem):
    """Zw + b at the minimiser, by least squares on the equations of its gradient."""
    Z = problem.design.toarray().astype(np.float64)
    n, p = Z.shape
    s = np.ones(n) if problem.weights is None else problem.weights
    ones = np.ones((n, 1)) if problem.fit_intercept else np.empty((n, 0))
    columns = np.hstack([Z, ones])
    side = columns.shape[1]
    ridge = np.zeros((side, side))
    ridge[:p, :p] = problem.penalty.matrix.toarray() + problem.penalty.jitter * np.eye(p)
    matrix = (columns.T * s) @ columns / n + problem.penalty.alpha * ridge
    theta = np.linalg.lstsq(matrix, (columns.T * s) @ problem.y / n)[0]
    return columns @ theta
