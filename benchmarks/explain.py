"""Seconds per row of Shapley values, beside packages that sample the model or walk trees.

A model of 20 000 rows x 20 columns (generated, Friedman's first function with noise) is explained
exactly by ``mercer.explain``; ``shap.PermutationExplainer`` estimates the values of the same model
for the same background rows; LightGBM of as many rows is explained by TreeSHAP. A local machine of
``--local`` rows, whose values are estimated, follows. Needs ``pip install shap lightgbm``.

    python benchmarks/explain.py --json explain.json
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import make_friedman1

from _side_by_side import environment
from mercer import AutoKernelRegressor, LocalKernelRegressor
from mercer.explain import shapley_values

N_BACKGROUND = 20  # rows: packages that sample the model take time proportional to them


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    found = call()
    return time.perf_counter() - start, found


def exact(n: int, d: int) -> list[dict[str, Any]]:
    """Exact values of an automatic model beside estimates of it, and TreeSHAP."""
    X, y = make_friedman1(n + 1000, n_features=d, noise=1.0, random_state=0)
    model = AutoKernelRegressor(random_state=0).fit(X[:n], y[:n])
    fresh, behind = X[n:], X[:N_BACKGROUND]
    seconds, found = timed(lambda: shapley_values(model, fresh))
    gap = found.values.sum(axis=1) + found.base_values - model.predict(fresh)
    runs = [
        {
            "what": f"mercer, {n} x {d}, independent columns",
            "rows": len(fresh),
            "ms_a_row": 1e3 * seconds / len(fresh),
            "largest_gap": float(np.abs(gap).max() / np.ptp(y)),
        }
    ]
    few = fresh[:3]
    seconds, truth = timed(lambda: shapley_values(model, few, behind, baseline="rows").values)
    runs.append({"what": "mercer, whole rows behind", "ms_a_row": 1e3 * seconds / len(few)})
    return runs + sampled(model, few, behind, truth) + trees(X[:n], y[:n], fresh)


def sampled(model: Any, rows: Any, behind: Any, truth: Any) -> list[dict[str, Any]]:
    """Estimates of shap's permutations, with ever more evaluations of the model."""
    import shap

    runs = []
    for permutations in (1, 10):
        explainer = shap.PermutationExplainer(
            model.predict, shap.maskers.Independent(behind, max_samples=len(behind)), seed=0
        )
        evaluations = permutations * (2 * rows.shape[1] + 1)
        seconds, found = timed(
            lambda explainer=explainer, evaluations=evaluations: (
                explainer(rows, max_evals=evaluations, silent=True).values
            )
        )
        runs.append(
            {
                "what": f"shap.PermutationExplainer, {permutations} permutations",
                "rows": len(rows),
                "ms_a_row": 1e3 * seconds / len(rows),
                "error": float(np.abs(found - truth).mean() / np.abs(truth).mean()),
            }
        )
    return runs


def trees(X: Any, y: Any, fresh: Any) -> list[dict[str, Any]]:
    """TreeSHAP of LightGBM's own predictor."""
    import lightgbm

    model = lightgbm.LGBMRegressor(verbose=-1, n_jobs=2).fit(X, y)
    seconds, _ = timed(lambda: model.predict(fresh, pred_contrib=True))
    what = "LightGBM's TreeSHAP, 100 trees"
    return [{"what": what, "rows": len(fresh), "ms_a_row": 1e3 * seconds / len(fresh)}]


def local(n: int, d: int) -> list[dict[str, Any]]:
    """Estimates of a local machine."""
    X, y = make_friedman1(n + 10, n_features=d, noise=1.0, random_state=0)
    model = LocalKernelRegressor(random_state=0).fit(X[:n], y[:n])
    runs = []
    for tolerance in (0.1, 0.03):
        seconds, found = timed(
            lambda tolerance=tolerance: shapley_values(model, X[n:], tolerance=tolerance)
        )
        runs.append(
            {
                "what": f"mercer, local machine of {n} x {d}, tolerance {tolerance:g}",
                "rows": 10,
                "ms_a_row": 1e3 * seconds / 10,
                "error": float(found.standard_errors.mean() / np.abs(found.values).mean()),
            }
        )
    return runs


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--local", type=int, default=100_000)
    parser.add_argument("--json", type=Path)
    settings = parser.parse_args()
    runs = [*exact(settings.rows, settings.columns), *local(settings.local, settings.columns)]
    for run in runs:
        facts = ", ".join(f"{name} {value:.3g}" for name, value in run.items() if name != "what")
        sys.stdout.write(f"{run['what']}: {facts}\n")
    if settings.json:
        record = {"environment": environment(), "data": "generated (Friedman 1)", "runs": runs}
        settings.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
