"""The runs of the study, and what each of them puts into a record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer import kernels
from mercer._runtime.arrays import check_memory
from mercer.compare.metrics import scores
from mercer.estimators import SparseKernelClassifier, SparseKernelRegressor
from mercer.losses import Squared, SquaredHinge
from mercer_studies import timing
from mercer_studies.sparse_features import exact
from mercer_studies.sparse_features.data import Loaded, Subset, dense_model, feature_map
from mercer_studies.timing import Stopwatch, repeated

TOLERANCE = 1e-3  # of the sparse solver: the gap, relative to the loss of a constant
_TEST_BYTES = 2.0**28
_CALLS = 7


@dataclass
class _Fit:
    """Predictions on the test part, the size of the model, and how long the phases took."""

    test: NDArray
    size: int
    seconds: dict[str, float]
    details: dict[str, Any]


def table(
    loaded: Loaded,
    *,
    family: str,
    kernel: str,
    size: int | None,
    seed: int,
    lam_n: float,
    rows: int | None,
    test_rows: int | None,
    n_new: int,
    width_rows: int,
    width_size: int,
) -> dict[str, Any]:
    """A cell of the tables: model size, error, seconds and memory.

    ``family``: "kernel", "rf" or "sparse"; ``kernel``: "gaussian", "laplacian" or "perceptron";
    ``size``: features D that are drawn; None for the exact kernel; ``lam_n``: n λ; ``n_new``:
    features drawn at a time; ``width_rows``, ``width_size``: rows and features with which γ is
    chosen.
    """
    some = loaded.subset(rows, test_rows)
    width = loaded.width(kernel, rows, width_rows, width_size)
    lam = lam_n / len(some.y)

    def fit() -> _Fit:
        if family == "kernel":
            return _exactly(some, loaded.task, kernel, width.gamma, lam)
        map_ = feature_map(kernel, width.gamma, size or 0, seed, loaded.n_jobs)
        if family == "rf":
            return _predicted(dense_model(map_, loaded.task, len(some.y), loaded.n_jobs), some)
        return _predicted(_sparse_model(loaded, map_, size or 0, lam, n_new), some)

    found = repeated(fit)
    score = scores(loaded.task, some.y_test, found.fit.test)
    if loaded.task == "regression":
        score["rmse"] = float(np.sqrt(np.mean((found.fit.test - some.y_test) ** 2)))
    return {
        "data": loaded.describe(),
        "rows": len(some.y),
        "test_rows": len(some.y_test),
        "gamma": width.gamma,
        "width": asdict(width),
        "model_size": found.fit.size,
        "score": {"test": score},
        "seconds": {**found.seconds, "choose": width.seconds},
        "runs": found.runs,
        "memory": found.memory,
        **found.fit.details,
    }


def kernel_machine(
    some: Subset, task: str, kernel: str, gamma: float | None, lam: float, fit_intercept: bool
) -> tuple[Any, exact.Machine, float]:
    """The exact kernel machine, its kernel and the mean loss on the training rows."""
    resolved = kernels.get(kernel, "scale" if gamma is None else gamma).resolve(some.X)
    n = len(some.y)
    check_memory(16.0 * n * n, "the kernel matrix and its factor", "use fewer rows")
    K = resolved(some.X.astype(np.float64))
    solve, loss = (
        (exact.ridge, Squared()) if task == "regression" else (exact.squared_hinge, SquaredHinge())
    )
    machine = solve(K, some.y, lam, fit_intercept)
    responses = K @ machine.coef + machine.intercept
    return resolved, machine, float(loss.value(responses, some.y).mean())


def expansion(kernel: Any, machine: exact.Machine, some: Subset) -> NDArray:
    """Responses of a kernel machine on the test part, some rows at a time."""
    used = np.flatnonzero(machine.coef)
    X = some.X[used].astype(np.float64)
    step = max(1, int(_TEST_BYTES / (8.0 * max(len(used), 1))))
    found = [
        kernel(some.X_test[first : first + step].astype(np.float64), X) @ machine.coef[used]
        for first in range(0, len(some.y_test), step)
    ]
    return np.concatenate(found) + machine.intercept


def _exactly(some: Subset, task: str, kernel: str, gamma: float | None, lam: float) -> _Fit:
    clock = Stopwatch()
    resolved, machine, loss = kernel_machine(some, task, kernel, gamma, lam, True)
    clock.lap("fit")
    test, clock.phases["predict"] = _timed(lambda: expansion(resolved, machine, some))
    if task == "classification":
        test = np.where(test > 0, 1.0, -1.0)
    details = {"norm": machine.norm, "loss": loss, "n_steps": machine.n_steps}
    return _Fit(test, int(np.count_nonzero(machine.coef)), clock.phases, details)


def _predicted(model: Any, some: Subset) -> _Fit:
    clock = Stopwatch()
    model.fit(some.X, some.y)
    clock.lap("fit")
    test, clock.phases["predict"] = _timed(lambda: model.predict(some.X_test))
    sparse = hasattr(model, "n_features_active_")
    size = model.n_features_active_ if sparse else model.feature_map_.n_features_out_
    details = {"n_drawn": model.n_drawn_, "dual_gap": model.dual_gap_} if sparse else {}
    return _Fit(test, int(size), clock.phases, details)


def _timed(predict: Callable[[], NDArray]) -> tuple[NDArray, float]:
    """Predictions, and the median seconds of some equal calls while they are quick."""
    laps: list[float] = []
    while True:
        since = perf_counter()
        found = predict()
        laps.append(perf_counter() - since)
        if len(laps) == _CALLS or sum(laps) >= timing.QUICK:
            return found, float(np.median(laps))


def _sparse_model(loaded: Loaded, map_: Any, size: int, lam: float, n_new: int) -> Any:
    estimator = SparseKernelRegressor if loaded.task == "regression" else SparseKernelClassifier
    return estimator(
        map_,
        loss="squared" if loaded.task == "regression" else "squared_hinge",
        alpha=lam,
        n_new=n_new,
        max_rounds=-(-size // n_new),
        tol=TOLERANCE,
        scale=False,
        n_jobs=loaded.n_jobs,
    )
