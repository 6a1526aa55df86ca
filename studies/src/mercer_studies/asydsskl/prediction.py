"""Figure 1, g and h: how long models take to answer, against how many rows they are asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import SVC, SVR

from mercer.kernels import Gaussian
from mercer_studies.asydsskl.curves import doubly, dual_solver
from mercer_studies.asydsskl.data import Chosen, Loaded, Subset, error_of, score_of
from mercer_studies.asydsskl.machines import (
    EPSILON,
    SPARSE,
    dual_of,
    expansion,
    inner_solver,
    responses_of,
    selected,
)

_TURNS = 3
_STEPS = 20  # of doubly stochastic gradients


def answers(
    loaded: Loaded,
    *,
    method: str,
    rows: int | None,
    test_rows: int | None,
    fitted: int,
    n_new: int,
    n_rounds: int,
    counts: Sequence[int],
    seed: int,
) -> dict[str, Any]:
    """Seconds of answers to more and more rows.

    ``rows``, ``test_rows``: training rows, and rows that the error is measured on; ``n_new``,
    ``n_rounds``: R and M; ``counts``: of rows asked; the test rows come again where they are too
    few. Returns the results of a record: ``curve`` has ``n`` and ``seconds`` of every count, the
    median of three, ``model_size`` the features or support vectors, and ``slope`` seconds a row.
    """
    some = loaded.subset(rows, test_rows)
    model, size = _model(loaded, some, loaded.chosen(rows, fitted), method, n_new, n_rounds, seed)
    error = error_of(loaded.task, some, model(some.X_test))
    curve = []
    for n in counts:
        asked = some.X_test[np.arange(n) % some.X_test.shape[0]]
        seconds = []
        for _ in range(_TURNS):
            since = perf_counter()
            model(asked)
            seconds.append(perf_counter() - since)
        curve.append({"n": int(n), "seconds": float(np.median(seconds))})
    return {
        "data": loaded.describe(),
        "rows": len(some.y),
        "test_rows": len(some.y_test),
        "model_size": size,
        "score": {"test": score_of(loaded.task, some, error)},
        "seconds": {"predict": sum(point["seconds"] for point in curve)},
        "curve": curve,
        "slope": float(np.polyfit([p["n"] for p in curve], [p["seconds"] for p in curve], 1)[0]),
    }


def _model(
    loaded: Loaded, some: Subset, chosen: Chosen, method: str, n_new: int, n_rounds: int, seed: int
) -> tuple[Callable[[Any], NDArray], int]:
    """A fitted model as a function of rows, and its size."""
    if method in SPARSE:
        inner = inner_solver(method, loaded.n_jobs, seed)
        found = selected(
            some.X, some.y, chosen.gamma, loaded.loss, chosen.alpha, inner, n_new, n_rounds, seed
        )
        return lambda X: responses_of(found, X), found.n_active
    if method == "doubly":
        f = doubly(loaded, some, chosen, seed, max_iter=_STEPS)
        return f.responses, f.n_features
    if method == "svc":
        common = {"C": chosen.C, "gamma": chosen.gamma}
        model: Any = (
            SVR(epsilon=EPSILON, **common) if loaded.task == "regression" else SVC(**common)
        )
        model.fit(some.X.astype(np.float64), some.y)
        answer = model.predict if loaded.task == "regression" else model.decision_function
        return answer, len(model.support_)
    kernel = Gaussian(chosen.gamma)
    solver = dual_solver(method, loaded.n_jobs, seed)
    solved = solver.solve(dual_of(loaded.task, some.y, chosen.C), kernel, some.X)
    used = np.flatnonzero(solved.coef)
    rows, coef = some.X[used], solved.coef[used]
    return lambda X: expansion(kernel, rows, coef, solved.intercept, X), len(used)
