"""The runs of the study, and what each of them puts into a record."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.compare.metrics import scores
from mercer.designs import Design
from mercer.diagnostics import kernel_error
from mercer.losses import Squared
from mercer.maps import FeatureMap
from mercer.penalties import L2
from mercer.problem import Problem
from mercer.solvers import Cholesky
from mercer_studies.tefm.data import Loaded, Spectrum, Subset
from mercer_studies.tefm.grid import KERNEL, method_at
from mercer_studies.theory import embedding_bound, fourier_bound, learning_bound, srht_bound
from mercer_studies.timing import Stopwatch, repeated

EXACT = "blocks"
"""The method that is the exact kernel: one block of all rows."""


@dataclass
class _Fit:
    """Responses on both parts, and how long the phases took."""

    train: NDArray
    test: NDArray
    seconds: dict[str, float]
    n_features: int | None = None


def approximation(
    loaded: Loaded, *, method: str, size: int, seed: int, rows: int | None
) -> dict[str, Any]:
    """Distance of a map's inner products from the kernel matrix.

    ``method``: one of ``grid.METHODS``, not the exact kernel; ``size``: number of features l;
    ``rows``: rows of the kernel matrix; None takes all. Returns the results of a record: ``score``
    has the relative errors in the spectral and in the Frobenius norm under ``kernel``; ``theory``
    what the theorems allow: see ``_theory``.
    """
    kernel, X, K = loaded.kernel_matrix(rows)
    map_ = _feature_map(method, float(kernel.gamma), size, seed, loaded.n_jobs)
    clock = Stopwatch()
    design = map_.fit_design(X)
    clock.lap("features")
    error = kernel_error(K, design)
    n_base = _n_base(map_)
    return {
        "data": loaded.describe(),
        "rows": len(X),
        "gamma": float(kernel.gamma),
        "n_features": map_.n_features_out_,
        "n_base": n_base,
        "score": {"kernel": {"spectral": error.spectral, "frobenius": error.frobenius}},
        "theory": _theory(loaded.spectrum(rows), design, error.spectral, method, size, n_base),
        "seconds": clock.phases | {"fit": clock.phases["features"]},
    }


def ridge(
    loaded: Loaded,
    *,
    method: str,
    size: int | None,
    seed: int,
    rows: int | None,
    reference: int,
    selection_rows: int,
) -> dict[str, Any]:
    """Ridge regression on the features of a map.

    γ and λ are chosen at one size of the method, on a validation part and with the seed 0, and
    serve at every size and with every seed. ``size``: number of features l; None for the exact
    kernel; ``reference``: number of features at which γ and λ are chosen; ``selection_rows``: at
    most so many rows are fitted, and as many validated on, while choosing.
    """
    some = loaded.subset(rows)
    known = method_at(method, size)
    chosen = known if method == EXACT else replace(known, reference=reference)
    choice = loaded.choice(chosen, rows, selection_rows)
    lam = choice.alpha_multiple / len(some.y)
    found = repeated(lambda: _fitted(some, method, size, choice.gamma, lam, seed, loaded.n_jobs))
    return {
        "data": loaded.describe(),
        "rows": len(some.y),
        "gamma": choice.gamma,
        "alpha": lam,
        "lam_n": choice.alpha_multiple,
        "n_features": found.fit.n_features,
        "score": {
            "train": scores("regression", some.y, found.fit.train),
            "test": scores("regression", some.y_test, found.fit.test),
        },
        "seconds": {**found.seconds, "choose": choice.seconds},
        "runs": found.runs,
        "stored_per_row": len(some.y) if size is None else size,
        "memory": found.memory,
        "choice": asdict(choice),
    }


def times(
    *, method: str, rows: int, n_base: int, size: int, inputs: int, seed: int, n_jobs: int | None
) -> dict[str, Any]:
    """Seconds of features and solution on generated rows.

    ``method``: "rks", "tefm-g" or "tefm-s", the features of ``rks`` are ``size`` alone, without a
    base.
    """
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, inputs))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(rows)
    some = Subset(X, y, X[:1], y[:1])

    def fit() -> _Fit:
        map_ = _feature_map(method, 0.5 / inputs, size, seed, n_jobs)
        if method != "rks":
            map_.set_params(n_base=n_base)
        return _by_map(some, map_, 0.1 / rows)

    found = repeated(fit)
    return {
        "data": {"name": "generated rows", "kind": "generated", "task": "regression", "d": inputs},
        "rows": rows,
        "n_features": found.fit.n_features,
        "seconds": found.seconds,
        "runs": found.runs,
        "memory": found.memory,
    }


def _feature_map(
    method: str, gamma: float | None, size: int | None, seed: int, n_jobs: int | None
) -> FeatureMap:
    map_ = method_at(method, size).feature_map(KERNEL, gamma, size)
    return map_.set_params(random_state=seed, n_jobs=n_jobs)


def _fitted(
    some: Subset,
    method: str,
    size: int | None,
    gamma: float | None,
    lam: float,
    seed: int,
    n_jobs: int | None,
) -> _Fit:
    if method == EXACT:
        return _exactly(some, gamma, lam, n_jobs)
    return _by_map(some, _feature_map(method, gamma, size, seed, n_jobs), lam)


def _by_map(some: Subset, map_: FeatureMap, lam: float) -> _Fit:
    """Features, then a Cholesky factorisation for the centred responses."""
    centre = some.y.mean()
    clock = Stopwatch()
    design = map_.fit_design(some.X)
    clock.lap("features")
    problem = Problem(design, some.y - centre, Squared(), L2(lam), fit_intercept=False)
    result = Cholesky().solve(problem)
    clock.lap("solve")
    if result.interrupted:
        raise KeyboardInterrupt
    test = np.empty(len(some.y_test))
    for rows, piece in map_.designs(some.X_test):
        test[rows] = piece.matvec(result.coef)
    clock.lap("predict")
    train = design.matvec(result.coef)
    return _Fit(train + centre, test + centre, clock.phases, map_.n_features_out_)


def _exactly(some: Subset, gamma: float | None, lam: float, n_jobs: int | None) -> _Fit:
    model = method_at(EXACT, None).estimator(
        "regression",
        size=len(some.y),
        kernel=KERNEL,
        gamma=gamma,
        alpha=lam,
        seed=0,
        n_jobs=n_jobs,
        scale=False,
    )
    clock = Stopwatch()
    model.fit(some.X, some.y)
    clock.lap("fit")
    test = model.predict(some.X_test)
    clock.lap("predict")
    return _Fit(model.predict_training(), test, clock.phases)


def _theory(
    known: Spectrum, design: Design, spectral: float, method: str, size: int, n_base: int | None
) -> dict[str, float | None]:
    """Bounds of theorems 1 to 3, beside the excess loss of theorem 3.

    ``spectral``, relative to ‖K‖, is the bound of the kernel error, None for methods without one;
    ``excess`` is how much more than with the kernel itself the least regularized loss is with these
    features, and ``allowed_excess`` what theorem 3 makes of the measured error, both relative.
    """
    n = len(known.y)
    bound = None
    if method == "rks":
        bound = fourier_bound(n, size, known.ratio)
    elif method == "tefm-s" and n_base:
        bound = srht_bound(n, n_base, size, known.ratio)
    elif method.startswith("tefm") and n_base:
        power = int(method_at(method, size).settings["power"])
        bound = embedding_bound(n, n_base, size, known.ratio, power=power)
    problem = Problem(design, known.y, Squared(), L2(known.alpha), fit_intercept=False)
    coef = Cholesky().solve(problem).coef
    slope = float(np.abs(design.matvec(coef) - known.y).max())
    allowed = learning_bound(spectral * known.norm, known.alpha, slope, n)
    return {
        "spectral": None if bound is None else float(bound) / known.norm,
        "excess": problem.value(coef) / known.least - 1.0,
        "allowed_excess": float(allowed) / known.least,
    }


def _n_base(map_: FeatureMap) -> int | None:
    """Features of the map below, for one that has one."""
    base = getattr(map_, "base_", None)
    return None if base is None else int(base.n_features_out_)
