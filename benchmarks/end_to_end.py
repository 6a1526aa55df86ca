"""Fit and predict of the whole classifier against scikit-learn's pipelines, scores beside times.

Synthetic tables of the shape of public ones, or the real ones where MERCER_DATA has them; every
row says which. Everybody gets scaled inputs, the same alpha and a bandwidth by the usual formula.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.datasets import make_classification
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from _side_by_side import Benchmark
from mercer import KernelClassifier
from mercer.datasets import DataError, load

SETS = {"letter": None, "ijcnn1-train": (35_000, 22, 2), "covtype-sample": (18_000, 54, 2)}
ALPHA = 0.3  # times 1/n for us, as it is for scikit-learn

Split = tuple[NDArray, NDArray, NDArray, NDArray]


def table(name: str, shape: tuple[int, int, int] | None, quick: bool) -> tuple[str, Split]:
    """The data in float32, and what to call them."""
    try:
        split = load(name).split(random_state=0)
        parts = split.X_train, split.y_train, split.X_test, split.y_test
    except DataError:
        if shape is None:
            raise
        n, d, n_classes = shape
        X, y = make_classification(
            n + n // 4, d, n_informative=d // 2, n_classes=n_classes, random_state=0
        )
        parts = X[:n].astype(np.float32), y[:n], X[n:].astype(np.float32), y[n:]
        name = f"generated, shaped as {name}"
    if quick:
        parts = parts[0][:3000], parts[1][:3000], parts[2][:1000], parts[3][:1000]
    return f"{name}, {len(parts[1])} rows", parts


def contenders(n: int) -> dict[str, ClassifierMixin]:
    """mercer's maps beside scikit-learn's, with ridge classification behind each."""
    ours = partial(KernelClassifier, alpha=ALPHA / n, random_state=0)
    ridge = RidgeClassifier(alpha=ALPHA)
    return {
        "mercer binning 256": ours(n_components=256),
        "mercer fourier 1000": ours("fourier", n_components=1000),
        "RBFSampler 1000": make_pipeline(
            StandardScaler(), RBFSampler(gamma="scale", n_components=1000, random_state=0), ridge
        ),
        "mercer nystroem 1000": ours("nystroem", n_components=1000),
        "Nystroem 1000": make_pipeline(
            StandardScaler(), Nystroem(n_components=1000, random_state=0), ridge
        ),
    }


def run(model: ClassifierMixin, split: Split) -> float:
    X, y, X_test, y_test = split
    return model.fit(X, y).score(X_test, y_test)


def main() -> None:
    benchmark = Benchmark("Whole classifiers: fit on the training part and score the test part.")
    for name, shape in SETS.items():
        label, split = table(name, shape, benchmark.quick)
        models = contenders(len(split[1]))
        runs: dict[str, Callable[[], object]] = {
            which: partial(run, model, split) for which, model in models.items()
        }
        benchmark.write(f"\n{label}")
        for which, model in models.items():
            benchmark.write(f"  {which:<22} test accuracy {run(model, split):.4f}")
        for peer, ours in (
            ("RBFSampler 1000", ("mercer binning 256", "mercer fourier 1000")),
            ("Nystroem 1000", ("mercer binning 256", "mercer nystroem 1000")),
        ):
            benchmark.compare(label, {"fit + score": {k: runs[k] for k in (*ours, peer)}})
    benchmark.finish()


if __name__ == "__main__":
    main()
