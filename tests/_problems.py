"""Small problems of every kind, and their dense truth."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from mercer.designs import Binned, Dense, Sparse
from mercer.losses import Huber, Logistic, Multinomial, SmoothHinge, Squared, SquaredHinge
from mercer.penalties import L2
from mercer.problem import Problem
from mercer.solvers import Cholesky, ConjugateGradient, NewtonCG

LOSSES = [Squared(), Huber(0.7), Logistic(), SquaredHinge(), SmoothHinge(), Multinomial()]
SEPARABLE = [loss for loss in LOSSES if not loss.joint]
N, D = 30, 5


def targets(loss, n_outputs, rng, n=N):
    """y of shape (n,) for n_outputs = 0, else (n, n_outputs)."""
    shape = (n, n_outputs) if n_outputs else (n,)
    if loss.joint:
        return np.eye(n_outputs or 3)[rng.integers(n_outputs or 3, size=n)]
    if loss.is_classification:
        return rng.choice([-1.0, 1.0], size=shape)
    return rng.normal(size=shape) + 1.0


def make(loss, rng, n_outputs=0, alpha=0.1, weights=None, fit_intercept=True, dtype=np.float64):
    """A problem on dense data with a mean, and its data."""
    Z = (rng.normal(size=(N, D)) + 0.3).astype(dtype)
    y = targets(loss, n_outputs, rng)
    return Problem(Dense(Z), y, loss, L2(alpha), weights, fit_intercept)


def designs(rng, n=N, dtype=np.float64):
    """One design of every kind that holds its matrix."""
    Z = rng.normal(size=(n, D)).astype(dtype)
    Z[rng.random(Z.shape) < 0.4] = 0
    codes = rng.integers(3, size=(4, n)).astype(np.uint8)
    return [
        Dense(Z),
        Sparse(sparse.csr_array(Z)),
        Binned(codes, np.arange(5) * 3, scale=0.5, dtype=dtype),
    ]


def extended(problem):
    """The design's matrix with the intercept's column of ones, in float64."""
    Z = problem.design.toarray().astype(np.float64)
    return np.column_stack([Z, np.ones(len(Z))]) if problem.fit_intercept else Z


def dense_value(problem, theta):
    """F by its definition."""
    weights = np.ones(problem.n_rows) if problem.weights is None else problem.weights
    each = problem.loss.value(extended(problem) @ theta, problem.y.astype(np.float64))
    each = each if each.ndim == 1 else each.sum(1)
    w = theta[:-1] if problem.fit_intercept else theta
    return np.mean(weights * each) + 0.5 * problem.penalty.alpha * np.sum(w**2)


def dense_hessian(problem, theta):
    """The matrix of v -> curvature_product(theta, v) on flattened v."""
    units = np.eye(problem.n_variables).reshape(-1, *problem.shape)
    columns = [problem.curvature_product(theta, unit).ravel() for unit in units]
    return np.stack(columns, axis=1)


# Every way to solve a ridge problem, far beyond what the tests look at.
RIDGE = [
    Cholesky(tol=1e-9, form="primal"),
    Cholesky(tol=1e-9, form="dual"),
    ConjugateGradient(tol=1e-12, space="columns"),
    ConjugateGradient(tol=1e-12, space="columns", preconditioner=None),
    ConjugateGradient(tol=1e-12, space="columns", preconditioner="jacobi"),
    ConjugateGradient(tol=1e-12, space="rows"),
    NewtonCG(tol=1e-12),
]


def all_solvers(loss, tol):
    """The solvers for a loss."""
    if loss.quadratic:
        return [Cholesky(tol), ConjugateGradient(tol), NewtonCG(tol)]
    return [NewtonCG(tol)]


def ridge_solution(problem):
    """The minimiser by NumPy's solver for dense systems."""
    Z = extended(problem)
    s = np.ones(len(Z)) if problem.weights is None else problem.weights
    ridge = np.full(Z.shape[1], problem.n_rows * problem.penalty.alpha)
    if problem.fit_intercept:
        ridge[-1] = 0
    y = problem.y.astype(np.float64)
    return np.linalg.solve((Z.T * s) @ Z + np.diag(ridge), (Z.T * s) @ y)
