"""Fits at extreme settings and data, judged: right, or warned, or refused with a sentence."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from _extended import exact, gaussian, logistic, product, ridge, solve
from mercer import KernelClassifier, KernelRegressor, maps

N, N_NEW, D = 30, 12, 3
GAMMAS = [10.0**power for power in range(-12, 13)]
ALPHAS = [10.0**power for power in range(-15, 7)]

# Responses of a ridge are conditioned well even where coefficients are not: float64 has them to a
# few thousandths wherever it does not warn. In units of the targets' spread.
NEAR = 2e-2

# Solvers that iterate are asked for a gradient or residual of this share of the first.
TIGHT = 1e-8

MAPS = {
    "exact": lambda g: maps.ExactKernel(gamma=g),
    "nystroem": lambda g: maps.Nystroem(gamma=g, n_components=10, random_state=0),
    "span": lambda g: maps.Nystroem(gamma=g, n_components=10, whiten=False, random_state=0),
    "binning": lambda g: maps.RandomBinning(gamma=g, n_components=16, random_state=0),
    "hashed": lambda g: maps.RandomBinning(gamma=g, n_components=16, bins=64, random_state=0),
    "fourier": lambda g: maps.RandomFourier(gamma=g, n_components=40, random_state=0),
    "few-fourier": lambda g: maps.RandomFourier(gamma=g, n_components=12, random_state=0),
    "fastfood": lambda g: maps.Fastfood(gamma=g, n_components=32, random_state=0),
    "tefm": lambda g: maps.SubspaceEmbedding(gamma=g, n_components=32, random_state=0),
    "perceptron": lambda g: maps.RandomPerceptron(n_components=32, random_state=0),
    "linear": lambda g: maps.IdentityMap(),
}
WITHOUT_GAMMA = ("perceptron", "linear")
SOLVERS = ("cholesky", "cg", "block")


@dataclass(frozen=True)
class Case:
    """One fit."""

    map: str
    dtype: str
    solver: str
    gamma: float
    alpha: float
    intercept: bool = True
    scale: bool = False
    weighted: bool = False
    loss: str = "squared"
    seed: int = 0


@dataclass
class Verdict:
    """What came of a case: "right", "warned", "to tol", "refused" or, which is wrong, "silent".

    A warned fit may be right all the same, or not; ``error`` says it.
    """

    case: Case
    kind: str
    error: float = np.nan
    words: str = ""


@dataclass
class References:
    """Kernel matrices of the last cases: they serve all strengths."""

    held: dict[Any, Any] = field(default_factory=dict)

    def kernels(self, case: Case, model: Any, X: Any, X_new: Any) -> tuple[Any, Any]:
        """The kernel that the map stands for, of the rows as the scaler leaves them, in 80 digits.

        The features of random maps are defined by their code: theirs in float64 are taken for it.
        """
        key = (case.map, case.dtype, case.gamma, case.scale, case.seed, case.weighted)
        if key not in self.held:
            if len(self.held) > 8:
                self.held.clear()
            rows = [model._preprocessing.scaled(part).astype(np.float64) for part in (X, X_new)]
            self.held[key] = self._kernels(case, model.feature_map_, *rows)
        return self.held[key]

    def _kernels(self, case: Case, map_: Any, X: Any, X_new: Any) -> tuple[Any, Any]:
        if case.map in ("exact", "span"):
            S, S_new = exact(X), exact(X_new)
            if case.map == "exact":
                return gaussian(S, S, case.gamma), gaussian(S_new, S, case.gamma)
            L = exact(map_.landmarks_)
            inner = gaussian(L, L, case.gamma)
            Z, Z_new = gaussian(S, L, case.gamma), gaussian(S_new, L, case.gamma)
            T = solve(inner, Z.T)
            return product(Z, T), product(Z_new, T)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            Z, Z_new = (_dense(map_.transform(part)) for part in (X, X_new))
        Z, Z_new = exact(Z), exact(Z_new)
        return product(Z, Z.T), product(Z_new, Z.T)


def data(seed: int, dtype: str, labels: bool = False) -> tuple[Any, Any, Any, Any]:
    """X, y, new rows and weights: a smooth function and noise, in float32 whatever the dtype."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N + N_NEW, D)).astype(np.float32)
    y = (np.sin(X).sum(axis=1) + 0.1 * rng.normal(size=len(X))).astype(np.float32)
    y = np.where(y > 0, 1.0, -1.0) if labels else y
    X, y = X.astype(dtype), y.astype(dtype)
    return X[:N], y[:N], X[N:], rng.uniform(0.5, 2.0, N)


def model_of(case: Case) -> Any:
    """The estimator."""
    settings = {
        "alpha": case.alpha,
        "solver": case.solver,
        "fit_intercept": case.intercept,
        "scale": case.scale,
        "tol": 1e-2 if case.solver in ("cholesky", "auto") else TIGHT,
        "n_jobs": 1,
    }
    map_ = MAPS[case.map](case.gamma)
    if case.loss == "squared":
        return KernelRegressor(map_, **settings)
    return KernelClassifier(map_, loss=case.loss, **settings)


def judged(case: Case, references: References) -> Verdict:
    """Fit, predict and compare."""
    labels = case.loss != "squared"
    X, y, X_new, weights = data(case.seed, case.dtype, labels)
    weights = weights if case.weighted else None
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            model = model_of(case).fit(X, y, sample_weight=weights)
        except (ValueError, MemoryError) as refusal:
            return Verdict(case, "refused", words=str(refusal))
        respond = model.decision_function if labels else model.predict
        found, found_new = respond(X), respond(X_new)
    leaks = [str(one.message) for one in said if issubclass(one.category, RuntimeWarning)]
    if leaks:
        return Verdict(case, "silent", words=f"RuntimeWarning: {leaks[0]}")
    words = [str(one.message) for one in said if issubclass(one.category, ConvergenceWarning)]
    if found.dtype != X.dtype or bool(words) == model.converged_:
        return Verdict(case, "silent", words=f"{found.dtype}, converged_={model.converged_}")
    kernels = references.kernels(case, model, X, X_new)
    if labels:
        right = logistic(*kernels, y, case.alpha, case.intercept, case.loss)
    else:
        right = ridge(*kernels, y, case.alpha, weights, case.intercept)
    spread = np.std(y, dtype=np.float64) if case.intercept and not labels else 1.0
    error = max(
        float(np.sqrt(np.mean(np.square(mine - theirs)))) / spread
        for mine, theirs in zip((found, found_new), right, strict=True)
    )
    if labels:
        error /= max(1.0, float(np.sqrt(np.mean(np.square(right[0])))))
    if words:
        return Verdict(case, "warned", error, words[0])
    if error <= NEAR:
        return Verdict(case, "right", error)
    if case.solver != "cholesky" and _keeps_its_word(case, model, X, y, weights):
        return Verdict(case, "to tol", error)
    return Verdict(case, "silent", error)


def _keeps_its_word(case: Case, model: Any, X: Any, y: Any, weights: Any) -> bool:
    """Whether the gradient at the stored coefficients is as small as a solver by gradients says."""
    if case.map == "exact" and case.loss == "squared":
        return False  # its equations are those of the rows
    rows = model._preprocessing.scaled(X).astype(np.float64)
    Z = _dense(model.feature_map_.transform(rows)).astype(np.longdouble)
    inner = np.eye(Z.shape[1])
    if case.map == "span":
        if case.solver == "cg":
            return False  # it bounds the distance of its responses
        inner = gaussian(*[exact(model.feature_map_.landmarks_)] * 2, case.gamma)
        inner = inner.astype(np.longdouble)
    s = np.ones(len(y)) if weights is None else weights / weights.mean()

    def gradient(w: Any, b: Any) -> Any:
        response = Z @ w + b
        slope = response - y if case.loss == "squared" else _slope(case.loss, response, y)
        pull = s * slope / len(y)
        parts = [Z.T @ pull + case.alpha * (inner @ w)]
        return np.concatenate([*parts, [pull.sum()]]) if case.intercept else parts[0]

    first = gradient(np.zeros(Z.shape[1]), np.average(y, weights=s) if case.intercept else 0.0)
    last = gradient(model.map_coef_.astype(np.longdouble), np.longdouble(model.intercept_))
    tol = 1e-2 if case.solver == "auto" else TIGHT
    tol += 4 * float(np.finfo(case.dtype).eps)  # the centred targets have that dtype
    return bool(np.linalg.norm(last.astype(float)) <= 2 * tol * np.linalg.norm(first.astype(float)))


def _slope(loss: str, response: Any, y: Any) -> Any:
    if loss == "logistic":
        return -y / (1 + np.exp(y * response))
    return -2 * y * np.maximum(0, 1 - y * response)


def _dense(Z: Any) -> Any:
    return Z.toarray() if hasattr(Z, "toarray") else np.asarray(Z)


def grid(
    names: Any = tuple(MAPS),
    gammas: Any = tuple(GAMMAS),
    alphas: Any = tuple(ALPHAS),
    solvers: Any = SOLVERS,
    forms: Any = ((True, False, False), (False, False, False), (True, True, True)),
) -> Any:
    """Cases of ridge machines, those that share a kernel matrix one after another.

    ``forms`` are intercept, scale and weights.
    """
    for name, dtype, form in itertools.product(names, ("float32", "float64"), forms):
        for gamma in gammas[:1] if name in WITHOUT_GAMMA else gammas:
            for solver, alpha in itertools.product(solvers, alphas):
                yield Case(name, dtype, solver, gamma, alpha, *form)
