"""Small problems with linear equations of every kind, and their dense truth."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from mercer.designs import Dense, KernelColumns
from mercer.kernels import Gaussian
from mercer.losses import Squared
from mercer.penalties import L2, RKHSNorm
from mercer.problem import Problem
from mercer.solvers import BlockCoordinateDescent

KINDS = ("features", "nystroem", "exact")
KERNEL = Gaussian(0.3)
N, P = 44, 15
ALPHAS = [0.3, 0.03, 0.1]


def make(kind, rng, alpha=0.02, weights=None, fit_intercept=True, n_outputs=0, dtype=np.float64):
    """A problem of a kind; landmarks of "nystroem" are no rows."""
    X = rng.normal(size=(N, 3)).astype(dtype)
    shape = (N, n_outputs) if n_outputs else (N,)
    y = rng.normal(size=shape) + 1.5
    if kind == "features":
        design = Dense((rng.normal(size=(N, P)) + 0.4).astype(dtype))
        penalty = L2(alpha)
    elif kind == "nystroem":
        design = KernelColumns(X, KERNEL, rng.normal(size=(P, 3)).astype(dtype))
        penalty = RKHSNorm(alpha, design.landmark_design(), 0.1)
    else:
        design = KernelColumns(X, KERNEL)
        penalty = RKHSNorm(alpha, design)
    return Problem(design, y, Squared(), penalty, weights, fit_intercept)


def parts(problem):
    """(Z, 1), the matrix of the penalty with the intercept's zeros, and the weights of the rows."""
    Z = problem.design.toarray().astype(np.float64)
    P = np.eye(Z.shape[1])
    if isinstance(problem.penalty, RKHSNorm):
        P = problem.penalty.matrix.toarray() + problem.penalty.jitter * P
    if problem.fit_intercept:
        Z = np.column_stack([Z, np.ones(len(Z))])
        P = np.pad(P, (0, 1))
    s = np.ones(len(Z)) if problem.weights is None else problem.weights
    return Z, P, s


def dense_solution(problem, alpha=None):
    """The minimiser by dense equations; for the kernel machine those of its coefficients."""
    alpha = problem.penalty.alpha if alpha is None else alpha
    Z, P, s = parts(problem)
    n, y = len(Z), problem.y.astype(np.float64)
    if problem.penalty.name == "rkhs" and problem.penalty.matrix is problem.design:
        return _kernel_solution(problem, alpha, s)
    return np.linalg.solve((Z.T * s) @ Z / n + alpha * P, (Z.T * s) @ y / n)


def _kernel_solution(problem, alpha, s):
    """S (K a + b) + n α a = S y, and the coefficients add up to zero."""
    K = problem.design.toarray().astype(np.float64)
    n, y = len(K), problem.y.astype(np.float64)
    matrix = s[:, None] * K + n * alpha * np.eye(n)
    rhs = s * y if y.ndim == 1 else s[:, None] * y
    if not problem.fit_intercept:
        return np.linalg.solve(matrix, rhs)
    matrix = np.block([[matrix, s[:, None]], [np.ones((1, n)), np.zeros((1, 1))]])
    return np.linalg.solve(matrix, np.concatenate([rhs, np.zeros((1, *y.shape[1:]))]))


def exactly(block_size=8, tol=1e-9, max_iter=6000, **settings):
    return BlockCoordinateDescent(tol, max_iter, block_size=block_size, **settings)


def epochs(n, block_size=8, **settings):
    """The plain form for so many epochs."""
    settings = {"tol": 0.0, "accelerated": False} | settings
    return BlockCoordinateDescent(max_iter=n, block_size=block_size, **settings)


def quietly(solver, problem, **arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return solver.solve(problem, **arguments)


def distance(problem, theta, other):
    """How far the responses of two models are apart: coefficients may be ill-determined."""
    return np.abs(problem.responses(theta) - problem.responses(other)).max()
