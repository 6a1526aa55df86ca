"""Fits of sparse, dual and streaming machines at extreme settings, held to their own promises.

A sparse machine promises the stationarity of its coefficients, a dual one the optimality of its
margins, both as their own features or kernels have them; a streaming one promises no optimum, only
that float32 does what float64 does.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.optimize import brentq
from sklearn.exceptions import ConvergenceWarning

from _extremes import data
from mercer import (
    DoublySGDClassifier,
    DoublySGDRegressor,
    DualKernelSVC,
    SparseKernelClassifier,
    SparseKernelRegressor,
)

NEAR = 2e-2  # share of the first gradient, gap or spread; ten times what is asked of the solvers


def sparse(
    loss: str, map_: str, dtype: str, gamma: float, alpha: float, intercept: bool = True
) -> tuple[str, str]:
    """The verdict on a sparse machine of three rounds of 16 features, and its reason."""
    labels = loss != "squared"
    X, y, X_new, _ = data(0, dtype, labels)
    settings = {"gamma": gamma, "alpha": alpha, "fit_intercept": intercept, "scale": False}
    make = SparseKernelClassifier if labels else SparseKernelRegressor
    model = make(map_, loss=loss, n_new=16, max_rounds=3, n_jobs=1, random_state=0, **settings)
    kind, reason = _fitted(model, X, y, X_new)
    if kind != "fitted":
        return kind, reason
    Z = model.feature_map_.transform(X)
    Z = np.asarray(Z.toarray() if hasattr(Z, "toarray") else Z, dtype=np.longdouble)
    w, b = (
        np.ravel(model.map_coef_).astype(np.longdouble),
        np.longdouble(np.ravel(model.intercept_)[0]),
    )
    u = Z @ w + b
    pull = np.append(Z.T @ _slope(loss, u, y) / len(y) + alpha * np.sign(w), 0.0)
    pull[-1] = _slope(loss, u, y).mean() if intercept else 0.0
    start = _best_constant(loss, y) if intercept else 0.0
    first = Z.T @ _slope(loss, np.full(len(y), np.longdouble(start)), y) / len(y)
    # No weight is within the promise, too, where the penalty forbids any.
    violation = np.abs(pull).max() / max(np.abs(first).max(initial=0), alpha, 1e-300)
    off = np.sqrt(np.mean((u - _respond(model, X)) ** 2)) / np.std(y)
    return _verdict(max(float(violation), float(off)))


def dual(loss: str, dtype: str, gamma: float, C: float) -> tuple[str, str]:
    """The verdict on a support vector machine, and its reason."""
    X, y, X_new, _ = data(0, dtype, labels=True)
    model = DualKernelSVC(gamma=gamma, C=C, loss=loss, scale=False, n_jobs=1)
    kind, reason = _fitted(model.set_params(max_iter=10_000), X, y, X_new)
    if kind != "fitted":
        return kind, reason
    rows = X.astype(np.longdouble)
    squares = np.square(rows[:, None] - rows[None, model.support_]).sum(axis=2)
    K = np.exp(-np.longdouble(gamma) * squares)
    a = model.dual_coef_.astype(np.longdouble)
    responses = K @ a + np.longdouble(model.intercept_)
    alphas = np.zeros(len(y), dtype=np.longdouble)
    alphas[model.support_] = np.abs(a)
    short = 1 - y * responses
    if loss == "squared_hinge":
        short -= alphas / (2 * C)
    box = C if loss == "hinge" else np.inf
    steps = np.clip(alphas + short, 0, box) - alphas  # of a projected gradient
    violation = np.abs(steps).max() / min(1.0, box)
    off = np.sqrt(np.mean((responses - model.decision_function(X)) ** 2))
    return _verdict(max(float(violation), float(off)))


def streaming(loss: str, map_: str, gamma: float, alpha: float) -> tuple[str, str]:
    """The verdict on steps in float32 beside the same in float64, and its reason."""
    labels = loss != "squared"
    make = DoublySGDClassifier if labels else DoublySGDRegressor
    settings = {"gamma": gamma, "alpha": alpha, "loss": loss, "scale": False, "max_iter": 8}
    answers = []
    for dtype in ("float32", "float64"):
        X, y, X_new, _ = data(0, dtype, labels)
        model = make(map_, block_size=16, n_jobs=1, random_state=0, **settings)
        kind, reason = _fitted(model, X, y, X_new)
        if kind != "fitted":
            return kind, reason
        answers.append(_respond(model, X_new))
    narrow, wide = answers
    off = np.sqrt(np.mean((narrow - wide) ** 2)) / max(1.0, np.sqrt(np.mean(wide**2)))
    return _verdict(float(off))


def _fitted(model: Any, X: Any, y: Any, X_new: Any) -> tuple[str, str]:
    """Fit and predict; "fitted" if nothing was said and nothing leaked."""
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        try:
            model.fit(X, y)
        except (ValueError, MemoryError) as refusal:
            return "refused", str(refusal)
        finite = all(np.isfinite(_respond(model, rows)).all() for rows in (X, X_new))
    leaks = [str(one.message) for one in record if issubclass(one.category, RuntimeWarning)]
    warned = [str(one.message) for one in record if issubclass(one.category, UserWarning)]
    short = [one for one in record if issubclass(one.category, ConvergenceWarning)]
    if leaks or not finite:
        return "silent", leaks[0] if leaks else "a response is not finite"
    if hasattr(model, "converged_") and bool(short) == model.converged_:
        return "silent", f"converged_={model.converged_} with {len(short)} warnings"
    return ("warned", warned[0]) if warned else ("fitted", "")


def _respond(model: Any, X: Any) -> Any:
    return (getattr(model, "decision_function", None) or model.predict)(X)


def _verdict(error: float) -> tuple[str, str]:
    return ("right" if error <= NEAR else "silent"), f"{error:.2g}"


def _slope(loss: str, u: Any, y: Any) -> Any:
    if loss == "squared":
        return u - y
    if loss == "logistic":
        return -y / (1 + np.exp(y * u))
    return -2 * y * np.maximum(0, 1 - y * u)


def _best_constant(loss: str, y: Any) -> float:
    mean_slope = lambda b: float(_slope(loss, np.full(len(y), b), y.astype(np.float64)).mean())  # noqa: E731
    return float(brentq(mean_slope, -50, 50))
