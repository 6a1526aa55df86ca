"""Random Fourier and Nyström features through the estimators' interface, against scikit-learn.

The same settings and the same data; threads are those that each library takes by itself. Never to
be slower is the target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn.kernel_approximation import Nystroem as TheirNystroem
from sklearn.kernel_approximation import RBFSampler

from _side_by_side import Benchmark, Row, Target, rows_of_cases
from mercer.maps import Nystroem, RandomFourier

# rows, inputs, features
SHAPES = [(1000, 8, 100), (20_000, 8, 500), (20_000, 54, 500), (4000, 780, 500)]

Contenders = dict[str, Callable[[], object]]


def refit(feature_map: Any, X: Any) -> object:
    return feature_map.fit_transform(X)


def all_cases(quick: bool) -> dict[str, dict[str, Contenders]]:
    """Contenders by title and case."""
    rng = np.random.default_rng(0)
    cases: dict[str, dict[str, Contenders]] = {}
    for n, d, m in SHAPES:
        n = max(500, n // 10) if quick else n
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
    return cases


def targets(cases: dict[str, dict[str, Contenders]]) -> list[Target]:
    pairs = {"the same threads": ("scikit-learn", "mercer")}
    return [Target(title, 1.0, pairs, threads=0) for title in cases]


def speed_rows(quick: bool = False) -> Iterator[Row]:
    """Lines of the speed table."""
    cases = all_cases(quick)
    return rows_of_cases(cases, targets(cases), 2 if quick else 5)


def main() -> None:
    benchmark = Benchmark("Feature maps as transformers: fit and transform, and transform alone.")
    cases = all_cases(benchmark.quick)
    for title, contenders in cases.items():
        benchmark.compare(title, contenders)
    benchmark.judge(targets(cases))
    benchmark.finish()


if __name__ == "__main__":
    main()
