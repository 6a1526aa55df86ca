"""The machines that are compared, alike for every figure: how each is built and asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.arrays import row_chunks
from mercer.designs import Design
from mercer.kernels import Gaussian
from mercer.losses import Loss
from mercer.maps import RandomFourier
from mercer.penalties import L1
from mercer.problem import Problem
from mercer.solvers import (
    AsyncSVRG,
    BoxDual,
    CoordinateDescent,
    Selection,
    Solver,
    Stream,
    WorkingSet,
)

BATCH, LOOPS = 32, 10  # rows of a step, and snapshots of a round
SPARSE = ("asydsskl", "asydsskl-own", "working-set", "squared")
"""Methods with few random features; the others have support vectors, or very many features."""

EPSILON = 0.1  # half the width of the tube of support vector regression
_TOLERANCE = 1e-2  # relative duality gap, or stationarity, that ends a round


def inner_solver(method: str, n_jobs: int | None, seed: int = 0, loops: int = LOOPS) -> Solver:
    """Solver of the problem of a round.

    ``method``: "asydsskl", "asydsskl-own", "working-set" or "squared", asynchronous steps in the
    paper's form, or as this library takes them by default; coordinate descent for the others.
    """
    if method in ("working-set", "squared"):
        return CoordinateDescent(tol=_TOLERANCE, max_iter=200, n_jobs=n_jobs)
    made = AsyncSVRG.asydsskl if method == "asydsskl" else AsyncSVRG
    return made(tol=_TOLERANCE, max_iter=loops, batch_size=BATCH, n_jobs=n_jobs, random_state=seed)


def selected(
    X: Any,
    y: NDArray,
    gamma: float,
    loss: Loss,
    alpha: float,
    inner: Solver,
    n_new: int,
    n_rounds: int,
    seed: int,
    start: Selection | None = None,
    callback: Callable[[Selection], bool | None] | None = None,
) -> Selection:
    """A sparse model: rounds of drawing Fourier features, solving, and dropping zeros.

    ``X``, ``y``: shape (n, d), array of shape (n,); ``alpha``: λ; ``n_new``, ``n_rounds``: R and M;
    ``seed``: of the features; ``start``, ``callback``: as those of ``WorkingSet.solve``.
    """
    map_ = RandomFourier("gaussian", gamma, 2, scale=False, random_state=seed)
    threads = getattr(inner, "n_jobs", None)
    source = Stream(map_.set_params(n_jobs=threads).fit(X), X)

    def problem_of(design: Design) -> Problem:
        return Problem(design, y, loss, L1(alpha))

    search = WorkingSet(inner, n_new, n_rounds, tol=0.0, patience=n_rounds)
    found = search.solve(source, problem_of, start, callback)
    if found.interrupted:
        raise KeyboardInterrupt
    return found


def responses_of(found: Selection, X: Any) -> NDArray:
    """Responses of a sparse model."""
    constant = float(found.coef[-1])
    if found.feature_map is None or not found.n_active:
        return np.full(X.shape[0], constant)
    return found.feature_map.design(X).matvec(found.coef[:-1]) + constant


def dual_of(task: str, y: NDArray, C: float, epsilon: float = EPSILON) -> BoxDual:
    """The dual of a support vector machine: hinge for classes, a tube of ε for numbers."""
    if task == "regression":
        return BoxDual.epsilon_insensitive(y, C, epsilon)
    return BoxDual.hinge(y, C)


def expansion(kernel: Gaussian, rows: Any, coef: NDArray, constant: float, X: Any) -> NDArray:
    """``kernel(X, rows) @ coef + constant``, a part of X at a time.

    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0]])
    >>> expansion(Gaussian(1.0), X[:1], np.array([2.0]), 1.0, X[:1]).tolist()
    [3.0]
    """
    out = np.full(X.shape[0], constant)
    if len(coef):
        for part in row_chunks(X.shape[0], 8.0 * len(coef) + 8.0 * X.shape[1]):
            out[part] += kernel(X[part], rows) @ coef
    return out
