"""Predictions of one row: processor milliseconds of a call, beside boosted trees.

A table of 11 numbers as a frame of pandas or Polars and as an array, and one of ten mixed columns:
numbers, labels, a date, a boolean and a text of six words. Models are fitted to 3000 rows and
predict one row at a time, on one thread. Contenders take turns; the figure is the median over
repeats of the mean of some calls. LightGBM and CatBoost are left out where they are not installed.
Trees get the numbers, and of the mixed columns those that they take: no text and no date.

    python benchmarks/latency.py --json benchmarks/records/latency.json
"""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import sys
import time
import warnings
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # before NumPy reads them

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from _side_by_side import environment, table
from mercer import AutoKernelClassifier, AutoKernelRegressor

WORDS = ("oak", "elm", "ash", "fir", "yew", "box", "river", "hill", "stone", "house")
CALLS = 25  # of a repeat
GOALS = {  # milliseconds
    ("11 numbers, pandas", "mercer, predict"): 0.9,
    ("11 numbers, pandas", "mercer, predict_proba"): 0.9,
    ("11 numbers, pandas", "mercer, predict_interval"): 1.3,
    ("10 mixed columns, pandas", "mercer, predict"): 2.0,
    ("11 numbers, array", "mercer, predict"): 0.4,
}
Calls = dict[str, Callable[[], Any]]


def numbers(n: int) -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(n, 11)), columns=[f"c{j}" for j in range(11)])
    return X, X["c0"] * X["c1"] + np.sin(X["c2"]) + 0.3 * rng.normal(size=n)


def mixed(n: int) -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"]).assign(
        count=rng.integers(0, 50, n),
        colour=rng.choice(["red", "green", "blue"], n),
        shop=rng.choice([f"shop {i}" for i in range(40)], n),
        grade=pd.Categorical(rng.choice(["x", "y"], n)),
        note=[" ".join(rng.choice(WORDS, 6)) for _ in range(n)],
        sold=pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 10**8, n), "s"),
        free=rng.random(n) < 0.5,
    )
    y = 2 * X["a"] + X["colour"].eq("red") + X["count"] / 20 + 0.7 * X["note"].str.contains("oak")
    return X, y + 0.3 * rng.normal(size=n)


def of_mercer(X: Any, y: Any, row: Any) -> Calls:
    """Predictions of automatic models."""
    regressor = AutoKernelRegressor(random_state=0, n_jobs=1).fit(X, y)
    classifier = AutoKernelClassifier(random_state=0, n_jobs=1).fit(X, y > y.median())
    return {
        "mercer, predict": lambda: regressor.predict(row),
        "mercer, predict_interval": lambda: regressor.predict_interval(row),
        "mercer, predict_proba": lambda: classifier.predict_proba(row),
    }


def of_trees(X: Any, y: Any, row: Any) -> Calls:
    """Predictions of boosted trees, of the columns that they take."""
    if isinstance(X, pd.DataFrame):
        X = X.drop(columns=["note", "sold"], errors="ignore")
        X = X.astype({c: "category" for c in X.columns if X[c].dtype.kind not in "biuf"})
        row = row[X.columns].astype(X.dtypes)
    labels, models = y > y.median(), {}
    histogram = HistGradientBoostingRegressor().fit(X, y)
    proba = HistGradientBoostingClassifier().fit(X, labels)
    models["scikit-learn, predict"] = lambda: histogram.predict(row)
    models["scikit-learn, predict_proba"] = lambda: proba.predict_proba(row)
    if importlib.util.find_spec("lightgbm"):
        import lightgbm

        light = lightgbm.LGBMRegressor(n_jobs=1, verbose=-1).fit(X, y)
        models["LightGBM, predict"] = lambda: light.predict(row)
    if importlib.util.find_spec("catboost"):
        import catboost

        own = [] if not isinstance(X, pd.DataFrame) else [*X.select_dtypes("category").columns]
        cat = catboost.CatBoostRegressor(thread_count=1, verbose=False, cat_features=own).fit(X, y)
        models["CatBoost, predict"] = lambda: cat.predict(row, thread_count=1)
    return models


def cases(n: int) -> Iterator[tuple[str, Calls]]:
    """Calls by the kind of the table."""
    X, y = numbers(n)
    yield "11 numbers, pandas", of_mercer(X, y, X[7:8]) | of_trees(X, y, X[7:8])
    if importlib.util.find_spec("polars"):
        import polars

        yield "11 numbers, Polars", of_mercer(X, y, polars.from_pandas(X[7:8]))
    values = X.to_numpy()
    yield "11 numbers, array", of_mercer(values, y, values[7:8]) | of_trees(values, y, values[7:8])
    X, y = mixed(n)
    yield "10 mixed columns, pandas", of_mercer(X, y, X[7:8]) | of_trees(X, y, X[7:8])


def measured(calls: Calls, repeats: int) -> dict[str, float]:
    """Median over repeats, in turn, of the processor milliseconds of a call."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.process_time()
            for _ in range(CALLS):
                call()
            found[name].append(1e3 * (time.process_time() - start) / CALLS)
    return {name: statistics.median(values) for name, values in found.items()}


def main() -> None:
    """Measure and print."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=3000, help="rows of the fit")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options, runs = parser.parse_args(), []
    warnings.simplefilter("ignore")
    for case, calls in cases(options.rows):
        for name, ms in measured(calls, options.repeats).items():
            goal = GOALS.get((case, name))
            runs.append({"table": case, "call": name, "ms": round(ms, 3), "goal": goal})
    text = [{name: "" if v is None else str(v) for name, v in run.items()} for run in runs]
    sys.stdout.write(table(text) + "\n")
    if options.json:
        record = {"environment": environment(), "rows": options.rows, "runs": runs}
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
