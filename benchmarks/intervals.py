"""Intervals of automatic regression: coverage, width and score, beside intervals of one width.

The tables of ``tables.py`` with numbers to predict, and two generated ones whose noise depends on
the row. Both kinds of intervals come from one fit and its held-out rows: those of
``predict_interval``, and the prediction plus and minus one bound, by ``conformal_``. Scores are
interval scores, width plus what targets outside lie off by 2 / (1 - coverage): the least one is
that of the true quantiles. Fifths of the test rows are by the width of the former.

    python benchmarks/intervals.py --seeds 100 101 102 --json benchmarks/records/intervals.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from _side_by_side import environment, table
from mercer import AutoKernelRegressor
from tables import GENERATED, NUMBERS, Split, sets

NAMES = [*NUMBERS, "diabetes", *GENERATED]
UNEVEN = ("wedge", "waves")


def uneven(name: str, seed: int) -> Split:
    """10 000 rows whose noise grows with an input, or is skew and comes in waves."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, size=(10_000, 6))
    mean = np.sin(6 * X[:, 0]) + 2 * X[:, 1] * X[:, 2]
    if name == "wedge":
        noise = (0.1 + X[:, 3]) * rng.normal(size=len(X))
    else:
        noise = (0.1 + np.square(np.sin(5 * X[:, 0]))) * (rng.gamma(2.0, 0.5, size=len(X)) - 1)
    y = mean + noise
    return X[:7500], y[:7500], X[7500:], y[7500:]


def splits(seed: int, rows: int) -> Iterator[tuple[str, Split]]:
    for name, task, split in sets(NAMES, seed, rows):
        if task == "regression":
            X, y, X_test, y_test = split
            if hasattr(X, "toarray"):
                X, X_test = X.toarray(), X_test.toarray()
            yield name, (X, y, X_test, y_test)
    for name in UNEVEN:
        yield name, uneven(name, seed)


def judged(ends: NDArray, y: NDArray, fifths: list[NDArray], coverage: float) -> dict[str, Any]:
    low, high = ends.T
    inside = (low <= y) & (y <= high)
    outside = np.maximum(low - y, 0) + np.maximum(y - high, 0)
    return {
        "coverage": float(inside.mean()),
        "fifths": [float(inside[rows].mean()) for rows in fifths],
        "width": float(np.mean(high - low)),
        "score": float(np.mean(high - low + 2 / (1 - coverage) * outside)),
    }


def run(split: Split, seed: int, coverage: float) -> dict[str, Any]:
    X, y, X_test, y_test = split
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        model = AutoKernelRegressor(random_state=seed).fit(X, y)
        seconds = time.process_time() - start
    ends = model.predict_interval(X_test, coverage)
    even = model._at_scores(
        X_test, model.conformal_.bound(coverage) * np.array([[-1.0], [1.0]]), True
    )
    fifths = np.array_split(np.argsort(np.ptp(ends, axis=1), kind="stable"), 5)
    found = judged(ends, y_test, fifths, coverage)
    constant = judged(even, y_test, fifths, coverage)
    quantiles = model.predict(X_test, quantiles=[0.1, 0.5, 0.9])
    return {
        "rows": len(y),
        "test_rows": len(y_test),
        "coverage": found["coverage"],
        "coverage_of_one_width": constant["coverage"],
        "fifths": found["fifths"],
        "fifths_of_one_width": constant["fifths"],
        "width": found["width"] / constant["width"],
        "score": found["score"] / constant["score"],
        "below_quantiles": (y_test[:, None] < quantiles).mean(axis=0).tolist(),
        "fit_cpu_seconds": seconds,
    }


def median_of(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians over the seeds, figure by figure."""
    return {
        name: [statistics.median(each) for each in zip(*(r[name] for r in runs), strict=True)]
        if isinstance(runs[0][name], list)
        else statistics.median(r[name] for r in runs)
        for name in runs[0]
    }


def shown(name: str, facts: dict[str, Any]) -> dict[str, str]:
    def span(fifths: list[float]) -> str:
        return f"{min(fifths):.2f} to {max(fifths):.2f}"

    return {
        "table": name,
        "rows": str(int(facts["rows"])),
        "coverage": f"{facts['coverage']:.3f}",
        "of fifths": span(facts["fifths"]),
        "one width": f"{facts['coverage_of_one_width']:.3f}",
        "its fifths": span(facts["fifths_of_one_width"]),
        "width": f"{facts['width']:.2f}",
        "score": f"{facts['score']:.2f}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--coverage", type=float, default=0.9)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    runs: dict[str, list[dict[str, Any]]] = {}
    for seed in options.seeds:
        for name, split in splits(seed, options.rows):
            runs.setdefault(name, []).append(run(split, seed, options.coverage))
    tables = {name: median_of(each) for name, each in runs.items()}
    sys.stdout.write(table(shown(name, facts) for name, facts in tables.items()) + "\n")
    if options.json:
        record = {
            "environment": environment(),
            "seeds": options.seeds,
            "nominal_coverage": options.coverage,
            "tables": tables,
        }
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
