"""Predicted distributions at defaults: quantiles, 90 % intervals and probabilities, beside peers.

Regression: ten quantiles of every test row, .05 to .95, give the continuous ranked probability
score (CRPS, here the mean of twice their pinball losses, in units of the deviation of the targets),
and the outermost ones an interval, whose coverage is also told by thirds of the predicted median.
Classification: log loss, and the calibration error, the mean distance between the probability of
the predicted class and the share of rows where it is right, over ten groups of rows.

The tables are those of ``tables.py`` and two generated ones whose noise depends on the row. Peers
that are not installed are left out.

    python benchmarks/intervals.py --json benchmarks/records/intervals.json
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import log_loss

from _side_by_side import environment, table
from mercer import AutoKernelClassifier, AutoKernelRegressor
from tables import GENERATED, NUMBERS, Split, sets

LEVELS = (np.arange(10) + 0.5) / 10
UNEVEN = ("wedge", "waves")
ROWS = 6000


def uneven(name: str, seed: int) -> Split:
    """Rows whose noise grows with an input, or is skew and comes in waves."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, size=(2 * ROWS, 6))
    mean = np.sin(6 * X[:, 0]) + 2 * X[:, 1] * X[:, 2]
    if name == "wedge":
        noise = (0.1 + X[:, 3]) * rng.normal(size=len(X))
    else:
        noise = (0.1 + np.square(np.sin(5 * X[:, 0]))) * (rng.gamma(2.0, 0.5, size=len(X)) - 1)
    y = mean + noise
    return X[:ROWS], y[:ROWS], X[ROWS:], y[ROWS:]


# -- quantiles ---------------------------------------------------------------------------------


def of_mercer(X: NDArray, y: NDArray, new: NDArray) -> NDArray:
    return AutoKernelRegressor(random_state=0).fit(X, y).predict(new, quantiles=LEVELS.tolist())


def of_catboost(X: NDArray, y: NDArray, new: NDArray) -> NDArray:
    from catboost import CatBoostRegressor

    levels = ",".join(f"{level:g}" for level in LEVELS)
    model = CatBoostRegressor(
        loss_function=f"MultiQuantile:alpha={levels}", verbose=False, allow_writing_files=False
    )
    return np.sort(model.fit(X, y).predict(new), axis=1)


def of_uncertain_catboost(X: NDArray, y: NDArray, new: NDArray) -> NDArray:
    from catboost import CatBoostRegressor
    from scipy.stats import norm

    model = CatBoostRegressor(
        loss_function="RMSEWithUncertainty", verbose=False, allow_writing_files=False
    )
    mean, variance = model.fit(X, y).predict(new).T
    return mean[:, None] + np.sqrt(variance)[:, None] * norm.ppf(LEVELS)


def of_lightgbm(X: NDArray, y: NDArray, new: NDArray) -> NDArray:
    from lightgbm import LGBMRegressor

    found = [
        LGBMRegressor(objective="quantile", alpha=level, n_jobs=1, verbose=-1)
        .fit(X, y)
        .predict(new)
        for level in LEVELS
    ]
    return np.sort(np.transpose(found), axis=1)


def of_ngboost(X: NDArray, y: NDArray, new: NDArray) -> NDArray:
    from ngboost import NGBRegressor

    found = NGBRegressor(verbose=False, random_state=0).fit(X, y).pred_dist(new)
    return np.transpose([found.ppf(level) for level in LEVELS])


def of_mapie(X: NDArray, y: NDArray, new: NDArray) -> NDArray:
    """The ends of intervals: conformalised quantiles of LightGBM."""
    from lightgbm import LGBMRegressor
    from mapie.regression import ConformalizedQuantileRegressor

    base = LGBMRegressor(objective="quantile", alpha=0.5, n_jobs=1, verbose=-1)
    model = ConformalizedQuantileRegressor(base, confidence_level=0.9)
    held = np.random.default_rng(0).random(len(y)) < 0.2
    model.fit(X[~held], y[~held]).conformalize(X[held], y[held])
    median, ends = model.predict_interval(new)
    return np.column_stack([ends[:, 0, 0], median, ends[:, 1, 0]])


REGRESSORS: dict[str, tuple[str, Callable[..., NDArray]]] = {
    "mercer": ("mercer", of_mercer),
    "CatBoost, quantiles": ("catboost", of_catboost),
    "CatBoost with uncertainty": ("catboost", of_uncertain_catboost),
    "LightGBM, quantiles": ("lightgbm", of_lightgbm),
    "NGBoost": ("ngboost", of_ngboost),
    "MAPIE on LightGBM": ("mapie", of_mapie),
}


def judged(quantiles: NDArray, y: NDArray) -> dict[str, float]:
    """Scores of quantiles (n, 10), or of the ends and the median of intervals (n, 3)."""
    low, high, middle = quantiles[:, 0], quantiles[:, -1], np.median(quantiles, axis=1)
    inside = (low <= y) & (y <= high)
    facts = {"coverage": float(inside.mean()), "width": float(np.mean(high - low) / y.std())}
    thirds = np.array_split(np.argsort(middle, kind="stable"), 3)
    for name, rows in zip(("low", "middle", "high"), thirds, strict=True):
        facts[f"coverage, {name}"] = float(inside[rows].mean())
    if quantiles.shape[1] == len(LEVELS):
        beyond = y[:, None] - quantiles
        pinball = np.maximum(LEVELS * beyond, (LEVELS - 1) * beyond)
        facts["crps"] = float(2 * pinball.mean() / y.std())
    return facts


# -- probabilities -----------------------------------------------------------------------------


def classifier(method: str) -> Any:
    if method == "mercer":
        return AutoKernelClassifier(random_state=0)
    if method == "CatBoost":
        from catboost import CatBoostClassifier

        return CatBoostClassifier(verbose=False, allow_writing_files=False)
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_jobs=1, verbose=-1)


CLASSIFIERS = {"mercer": "mercer", "CatBoost": "catboost", "LightGBM": "lightgbm"}


def calibration_error(proba: NDArray, right: NDArray) -> float:
    order = np.argsort(proba, kind="stable")
    groups = np.array_split(order, 10)
    return float(np.mean([abs(proba[rows].mean() - right[rows].mean()) for rows in groups]))


# -- runs --------------------------------------------------------------------------------------


def dense(split: Split) -> Split:
    X, y, X_test, y_test = split
    return tuple(a.toarray() if hasattr(a, "toarray") else a for a in (X, y, X_test, y_test))


def tables(seed: int) -> Iterator[tuple[str, str, Split]]:
    names = [
        *NUMBERS,
        "diabetes",
        *GENERATED,
        "letter",
        "pendigits",
        "covtype-sample",
        "susy-sample",
    ]
    for name, task, split in sets(names, seed, ROWS):
        yield name, task, dense(split)
    for name in UNEVEN:
        yield name, "regression", uneven(name, seed)


def runs_of(name: str, task: str, split: Split) -> Iterator[dict[str, Any]]:
    X, y, new, y_new = split
    methods = REGRESSORS if task == "regression" else CLASSIFIERS
    for method, how in methods.items():
        module = how[0] if task == "regression" else how
        if importlib.util.find_spec(module) is None:
            continue
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if task == "regression":
                facts = judged(np.asarray(how[1](X, y, new)), y_new)
            else:
                classes, codes = np.unique(y, return_inverse=True)
                proba = classifier(method).fit(X, codes).predict_proba(new)
                truth = np.searchsorted(classes, y_new)
                likely = proba.argmax(axis=1)
                facts = {
                    "log loss": float(log_loss(truth, proba, labels=range(len(classes)))),
                    "calibration error": calibration_error(proba.max(axis=1), likely == truth),
                }
        facts["seconds"] = time.perf_counter() - start
        rounded = {key: round(value, 4) for key, value in facts.items()}
        yield {"task": name, "method": method, "rows": len(y), **rounded}


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="of the splits")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = []
    for name, task, split in tables(options.seed):
        for run in runs_of(name, task, split):
            found.append(run)
            sys.stdout.write(", ".join(f"{k} {v}" for k, v in run.items()) + "\n")
            sys.stdout.flush()
            if options.json:  # what was run is kept whatever happens to the rest
                record = {"environment": environment(), "seed": options.seed, "runs": found}
                options.json.write_text(json.dumps(record, indent=1) + "\n")
    shown = [{k: str(v) for k, v in run.items()} for run in found]
    sys.stdout.write(table(shown) + "\n")


if __name__ == "__main__":
    main()
