"""Prediction of one row and of many, by every kind of model, beside XGBoost and a linear model.

All models are fitted to the same rows and use one thread. One row is what a service answers with:
its time is that of checks and of Python; that of many rows is the core's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import Ridge

from _side_by_side import Benchmark, Row, measure, repeated, table
from mercer import AutoKernelRegressor, KernelRegressor, LocalKernelRegressor, SparseKernelRegressor

N_CALLS = 200  # of one row in a timing
ONE, MANY, RATIO = "one row, µs", "many, µs a row", "x XGBoost"
# Microseconds of one row that are aimed at.
GOALS = {"binned": 50.0, "sparse": 50.0, "local": 500.0}


def rows(n: int, d: int, seed: int) -> tuple[NDArray, NDArray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + np.abs(X[:, 3]) + 0.1 * rng.normal(size=n)
    return X, y


EXACT_ROWS = 2000  # of the fit of the exact machine


def models(n: int, seed: int) -> dict[str, Any]:
    made: dict[str, Any] = {
        "binned": KernelRegressor(n_components=256, n_jobs=1, random_state=seed),
        "fourier": KernelRegressor("fourier", n_components=512, random_state=seed),
        "sparse": SparseKernelRegressor(n_jobs=1, random_state=seed),
        "local": LocalKernelRegressor(n_jobs=1, random_state=seed),
        "exact": KernelRegressor("exact", n_jobs=1),
        "automatic": AutoKernelRegressor(n_jobs=1, random_state=seed),
        "ridge": Ridge(),
    }
    try:
        from xgboost import XGBRegressor
    except ImportError:
        return made
    return made | {"XGBoost": XGBRegressor(n_jobs=1, random_state=seed)}


def many_times(call: Callable[[], object]) -> None:
    for _ in range(N_CALLS):
        call()


def options(parser: Any) -> None:
    parser.add_argument("--only", nargs="*", help="kinds of models, such as binned local")
    parser.add_argument("--rows", type=int, default=20_000, help="rows of the fit")
    parser.add_argument("--exact-rows", type=int, default=EXACT_ROWS, help="of the exact machine")
    parser.add_argument("--new-rows", type=int, default=100_000, help="rows to predict")
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float64")
    parser.add_argument("--inputs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=100)


def speed_rows(quick: bool = False) -> Iterator[Row]:
    """Lines of the speed table."""
    n, n_new, repeats = (1000, 2000, 2) if quick else (20_000, 100_000, 5)
    (X, y), (new, _) = rows(n, 10, 100), rows(n_new, 10, 101)
    kinds = {kind: model for kind, model in models(n, 100).items() if kind != "ridge"}
    for kind, model in kinds.items():
        count = EXACT_ROWS if kind == "exact" else n
        model.fit(X[:count], y[:count])
    one = {k: partial(many_times, partial(m.predict, new[:1])) for k, m in kinds.items()}
    for kind, seconds in repeated({k: one[k] for k in GOALS}, repeats).items():
        each = [t / N_CALLS for t in seconds]
        yield Row.goal(f"prediction of one row, {kind}", each, 1e-6 * GOALS[kind])
    many = repeated({k: partial(m.predict, new) for k, m in kinds.items()}, repeats)
    theirs = many.pop("XGBoost", ())
    note = "" if theirs else "XGBoost is not installed"
    for kind, seconds in many.items():
        name = f"exact, {EXACT_ROWS} rows" if kind == "exact" else kind
        yield Row(f"prediction of {n_new} rows, {name}", seconds, "XGBoost", theirs, note=note)


def main() -> None:
    benchmark = Benchmark("Prediction of one row and of many, one thread.", options)
    chosen = benchmark.options
    n, n_new = (2000, 5000) if benchmark.quick else (chosen.rows, chosen.new_rows)
    X, y = rows(n, chosen.inputs, chosen.seed)
    new, _ = rows(n_new, chosen.inputs, chosen.seed + 1)
    X, new = X.astype(chosen.dtype), new.astype(chosen.dtype)
    kinds = models(n, chosen.seed)
    wanted = [*(chosen.only or kinds), "XGBoost", "ridge"]
    fitted = {}
    for kind in kinds.keys() & set(wanted):
        count = min(n, chosen.exact_rows) if kind == "exact" else n
        start = time.perf_counter()
        fitted[kind] = kinds[kind].fit(X[:count], y[:count])
        benchmark.keep(f"fit of {kind}", seconds_of_fit=round(time.perf_counter() - start, 3))
    fitted = {kind: fitted[kind] for kind in kinds if kind in fitted}
    one = {k: partial(many_times, partial(m.predict, new[:1])) for k, m in fitted.items()}
    ones = measure(one, benchmark.repeats)
    many = measure({k: partial(m.predict, new) for k, m in fitted.items()}, benchmark.repeats)
    lines = []
    for kind in fitted:
        line = {
            f"{n} rows of {chosen.inputs} inputs": kind,
            ONE: f"{1e6 * ones[kind] / N_CALLS:.0f}",
            "goal": f"{GOALS[kind]:.0f}" if kind in GOALS else "",
            MANY: f"{1e6 * many[kind] / n_new:.2f}",
        }
        if "XGBoost" in fitted:
            line[f"one, {RATIO}"] = f"{ones[kind] / ones['XGBoost']:.2f}"
            line[f"many, {RATIO}"] = f"{many[kind] / many['XGBoost']:.2f}"
        lines.append(line)
    benchmark.write("\n" + table(lines))
    benchmark.keep("prediction", seconds_of_calls=ones, seconds_of_many=many, rows=n, new=n_new)
    benchmark.finish()


if __name__ == "__main__":
    main()
