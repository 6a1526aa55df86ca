"""Prediction of sparse models against the dense ones they were chosen from.

The time should go with the number of features that are used: a sparse model regenerates those
alone. One strength of the penalty after the other makes models of fewer and fewer features; the
dense model has as many as were drawn. Sizes of the files stand beside.
"""

from __future__ import annotations

import os
import tempfile
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_classification

from _side_by_side import Benchmark, measure, table
from mercer import KernelClassifier, SparseKernelClassifier, persistence
from mercer.datasets import DataError, load
from mercer.maps import FeatureMap, RandomBinning, RandomFourier, RandomPerceptron

STRENGTHS = [0.1, 0.03, 0.01, 0.003]  # shares of the least that leaves no weights


def rows(quick: bool) -> tuple[str, NDArray, NDArray, NDArray]:
    """Rows to fit, their labels, rows to predict, and what to call them."""
    try:
        split = load("ijcnn1-train").split(random_state=0)
        name, parts = "ijcnn1-train", (split.X_train, split.y_train, split.X_test)
    except DataError:
        X, y = make_classification(26_000, 22, n_informative=10, random_state=0)
        name, parts = "generated, 22 inputs", (X[:20_000], y[:20_000], X[20_000:])
    X, y, new = parts
    n = 2000 if quick else 20_000
    return name, X[:n].astype(np.float32), y[:n], new.astype(np.float32)


def file_size(model: Any) -> int:
    with tempfile.TemporaryDirectory() as folder:
        return persistence.save(model, os.path.join(folder, "model.skops"))


def kinds(quick: bool) -> dict[str, FeatureMap]:
    n_columns, n_grids = (512, 32) if quick else (4096, 256)
    return {
        "fourier": RandomFourier(n_components=n_columns, scale=False),
        "perceptron": RandomPerceptron(n_components=n_columns, scale=False),
        "binning": RandomBinning(n_components=n_grids, scale=False),
    }


def main() -> None:
    benchmark = Benchmark("Prediction of sparse models and of dense ones.")
    name, X, y, new = rows(benchmark.quick)
    benchmark.write(f"{name}: {len(X)} rows to fit, {len(new)} to predict, float32")
    for title, feature_map in kinds(benchmark.quick).items():
        dense = KernelClassifier(feature_map, solver="cg", tol=0.1, random_state=0).fit(X, y)
        sparse = SparseKernelClassifier(feature_map, max_rounds=1, random_state=0)
        least = sparse.fit(X, y).alpha_ * 100  # the default is a hundredth of it
        models = sparse.path(X, y, [share * least for share in STRENGTHS])
        runs = {f"{m.n_features_active_}": partial(m.predict, new) for m in models}
        seconds = measure({"all": partial(dense.predict, new), **runs}, benchmark.repeats)
        total = dense.feature_map_.n_features_out_
        cases = [(total, dense, seconds["all"])]
        cases += [(m.n_features_active_, m, seconds[f"{m.n_features_active_}"]) for m in models]
        lines = []
        for used, model, took in cases:
            grids = {}
            if title == "binning":
                grids = {"grids": f"{model.feature_map_.n_components}"}
            lines.append(
                {
                    title: f"{used} features",
                    **grids,
                    "ms": f"{1e3 * took:.2f}",
                    "microseconds a row": f"{1e6 * took / len(new):.2f}",
                    "times fewer features": f"{total / max(used, 1):.1f}",
                    "times faster": f"{seconds['all'] / took:.1f}",
                    "kB": f"{file_size(model) / 1000:.1f}",
                    "training score": f"{model.score(X, y):.3f}",
                }
            )
        benchmark.write("\n" + table(lines))
        benchmark.note(
            f"{title}, medians",
            seconds_of_prediction={case: round(took, 6) for case, took in seconds.items()},
        )
    benchmark.finish()


if __name__ == "__main__":
    main()
