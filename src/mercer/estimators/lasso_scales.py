"""Scales of many inputs, most of them 0: the sizes of the coefficients of a lasso."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from mercer.designs import Dense, Sparse
from mercer.losses import Squared
from mercer.penalties import L1
from mercer.problem import Problem
from mercer.solvers import CoordinateDescent

__all__ = ["lasso_scales"]

_FITTED_SHARE = 0.75  # of the rows, which strengths are fitted to; the others judge them
_STRENGTHS = 0.8 ** np.arange(1, 25)  # of the least strength without weights, down to 1/200
_WORSE = 3  # strengths in a row that do not lower the held-out error, after which the path ends
_TOL = 1e-3  # duality gap, in units of F without weights: scales need no more digits


def lasso_scales(X: Any, target: NDArray, weights: NDArray | None = None) -> NDArray[np.float64]:
    """Scale (d,) of every input: the size of its lasso coefficient, whose largest becomes 1.

    Rows are in random order; the strength has the least squared error on the last quarter. All
    scales are 1 if no input lowers that error.
    """
    n_fitted = max(1, int(_FITTED_SHARE * len(target)))
    first, last = slice(0, n_fitted), slice(n_fitted, None)
    own = None if weights is None else weights[first]
    best, coef = np.inf, np.zeros((X.shape[1], target.shape[1]))
    strength, since = None, 0
    of_held = None if weights is None else weights[last]
    for share, fitted in _path(X[first], target[first], own, _STRENGTHS):
        errors = np.square(X[last] @ fitted[:-1] + fitted[-1] - target[last]).mean(axis=1)
        error = float(np.average(errors, weights=of_held)) if len(errors) else np.inf
        since += 1
        if error < best:
            best, strength, since = error, share, 0
        if since >= _WORSE:
            break
    if strength is not None:
        for _, fitted in _path(X, target, weights, np.array([strength])):
            coef = fitted[:-1]
    sizes = np.sqrt(np.sum(np.square(coef, dtype=np.float64), axis=1))
    return sizes / sizes.max() if sizes.any() else np.ones(len(sizes))


def _path(X: Any, target: NDArray, weights: NDArray | None, shares: NDArray) -> Any:
    """Coefficients (d + 1, k), the constants last, for shares of the least strength without any."""
    design = Sparse(X) if sparse.issparse(X) else Dense(np.ascontiguousarray(X))
    problem = Problem(design, target.astype(X.dtype), Squared(), L1(1.0), weights, True)
    most = problem.alpha_max()
    if not 0 < most < np.inf:
        return
    solver, start = CoordinateDescent(tol=_TOL, n_jobs=1, method="descent"), None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for share in shares:
            at = problem.with_penalty(replace(problem.penalty, alpha=float(share * most)))
            start = solver.solve(at, start).coef
            yield share, start.reshape(X.shape[1] + 1, -1)
