"""Random Fourier and Nyström features through the estimators' interface, against scikit-learn.

The same settings and the same data; threads are those that each library takes by itself. Never to
be slower is the target.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.kernel_approximation import Nystroem as TheirNystroem
from sklearn.kernel_approximation import RBFSampler

from _side_by_side import Benchmark, Target
from mercer.maps import Nystroem, RandomFourier

# rows, inputs, features
SHAPES = [(1000, 8, 100), (20_000, 8, 500), (20_000, 54, 500), (4000, 780, 500)]

Contenders = dict[str, Callable[[], object]]


def refit(feature_map: Any, X: Any) -> object:
    return feature_map.fit_transform(X)


def main() -> None:
    benchmark = Benchmark("Feature maps as transformers: fit and transform, and transform alone.")
    rng = np.random.default_rng(0)
    cases: dict[str, dict[str, Contenders]] = {}
    for n, d, m in SHAPES:
        n = max(500, n // 10) if benchmark.quick else n
        for dtype in (np.float32, np.float64):
            X = rng.normal(size=(n, d)).astype(dtype)
            settings = {"gamma": 1.0 / d, "n_components": m, "random_state": 0}
            name = f"n = {n}, d = {d}, {m} features, {dtype.__name__}"
            for title, ours, theirs in (
                ("Fourier", RandomFourier(**settings), RBFSampler(**settings)),
                ("Nyström", Nystroem(**settings), TheirNystroem(**settings)),
            ):
                ours.fit(X)
                theirs.fit(X)
                cases.setdefault(f"{title}, fit_transform", {})[name] = {
                    "mercer": partial(refit, ours, X),
                    "scikit-learn": partial(refit, theirs, X),
                }
                cases.setdefault(f"{title}, transform", {})[name] = {
                    "mercer": partial(ours.transform, X),
                    "scikit-learn": partial(theirs.transform, X),
                }
    for title, contenders in cases.items():
        benchmark.compare(title, contenders)
    benchmark.judge(
        Target(title, 1.0, {"the same threads": ("scikit-learn", "mercer")}) for title in cases
    )
    benchmark.finish()


if __name__ == "__main__":
    main()
