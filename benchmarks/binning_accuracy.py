"""What hashed bins and weighted bins cost or gain in accuracy, on public tables.

Hashed bins are compared with exact ones under the default settings, on the same rows and, seed by
seed, on the same grids: the difference of scores is paired. Weighted bins are compared with plain
ones after gamma and alpha, and for the weighted shape and taper, have been chosen on a validation
part, alike for both; exact kernel ridge on the same rows stands beside them. Scores are shares of
correct labels or coefficients of determination, in per cent; errors are standard errors over seeds.
Tables come from ``mercer.datasets``; those that MERCER_DATA lacks are left out, by name. "wave" is
generated: a smooth function of two inputs.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from sklearn.preprocessing import StandardScaler

from _side_by_side import table
from mercer import KernelClassifier, KernelRegressor
from mercer.datasets import DataError, load
from mercer.kernels import Gaussian, Kernel, Laplacian, Smooth
from mercer.maps import RandomBinning

HASHED_SETS = ("letter", "cadata", "ijcnn1-train", "cod-rna-train", "covtype-sample")
HASHED = (4096, 65536)
WEIGHTED_SETS = ("cadata", "cpu", "cod-rna-train", "wave")
WINDOWS = ((2.0, 0.2), (3.0, 0.2), (4.0, 0.5), (4.0, 1.0))  # shape and taper
SCALES = (0.25, 0.5, 1.0, 2.0)  # times the default gamma
ALPHAS = (0.3, 0.03)  # times 1 / n


@dataclass(frozen=True, eq=False)
class Parts:
    """Rows to train on and to be scored on, standardised."""

    X: NDArray
    y: NDArray
    X_test: NDArray
    y_test: NDArray
    task: str

    def for_choice(self) -> Parts:
        """A quarter of the training rows, held out to choose by."""
        cut = 3 * len(self.X) // 4
        X, y = self.X, self.y
        return replace(self, X=X[:cut], y=y[:cut], X_test=X[cut:], y_test=y[cut:])

    def score(self, feature_map: RandomBinning, alpha: float | None = None) -> float:
        """Per cent correct or explained by a machine on these features."""
        model = KernelRegressor if self.task == "regression" else KernelClassifier
        fitted = model(feature_map, scale=False, alpha=alpha).fit(self.X, self.y)
        return 100.0 * fitted.score(self.X_test, self.y_test)


def parts(name: str, n_rows: int, seed: int) -> Parts:
    """At most ``n_rows`` training and as many test rows, drawn with ``seed``."""
    if name == "wave":  # generated: a smooth function of two inputs, no noise
        X = np.random.default_rng(seed).uniform(-1, 1, size=(2 * n_rows, 2))
        y, task, n = np.sin(5 * X[:, 0] + 2) * np.cos(4 * X[:, 1]), "regression", n_rows
    else:
        data = load(name)
        order = np.random.default_rng(seed).permutation(len(data.y))[: 2 * n_rows]
        X, y, task, n = data.X[order], data.y[order], data.task, len(order) // 2
    scaler = StandardScaler().fit(X[:n])
    X = scaler.transform(X).astype(np.float32)
    return Parts(X[:n], y[:n], X[n:], y[n:], task)


def mean_and_error(values: Iterable[float]) -> str:
    values = np.asarray(list(values))
    return f"{values.mean():.2f} ± {values.std(ddof=1) / np.sqrt(len(values)):.2f}"


def hashed_against_exact(options: argparse.Namespace) -> Iterator[dict[str, str]]:
    for name in available(HASHED_SETS):
        scores: dict[Any, list[float]] = {bins: [] for bins in ("exact", *HASHED)}
        for seed in range(options.seeds):
            rows = parts(name, options.rows, seed)
            for bins, found in scores.items():
                map_ = RandomBinning(n_components=options.grids, bins=bins, random_state=seed)
                found.append(rows.score(map_))
        row = {"table": f"{name}, {len(rows.X)} rows", "exact": mean_and_error(scores["exact"])}
        for bins in HASHED:
            differences = np.subtract(scores[bins], scores["exact"])
            row[f"{bins} less exact"] = mean_and_error(differences)
        yield row


def weighted_against_plain(options: argparse.Namespace) -> Iterator[dict[str, str]]:
    windows = [Smooth(shape=shape, taper=taper) for shape, taper in WINDOWS]
    for name in available(WEIGHTED_SETS):
        found: dict[str, list[float]] = {}
        chosen = []
        for seed in range(options.seeds):
            rows = parts(name, options.rows, seed)

            def binning(rows: Parts, kernel: Kernel, alpha: float, seed: int = seed) -> float:
                map_ = RandomBinning(kernel, n_components=options.grids, random_state=seed)
                return rows.score(map_, alpha)

            cases: dict[str, tuple[Callable[..., float], list[Any]]] = {
                "plain": (binning, [Laplacian()]),
                "weighted": (binning, windows),
                "exact Laplacian": (exact, [Laplacian()]),
                "exact Gaussian": (exact, [Gaussian()]),
            }
            for label, (score, kernels) in cases.items():
                kernel, alpha = best(rows.for_choice(), kernels, score)
                found.setdefault(label, []).append(score(rows, kernel, alpha))
                if label == "weighted":
                    chosen.append(kernel)
                    found.setdefault("exact of it", []).append(exact(rows, kernel, alpha))
        row = {"table": f"{name}, {len(rows.X)} rows"}
        row |= {label: mean_and_error(scores) for label, scores in found.items()}
        difference = np.subtract(found["weighted"], found["plain"])
        row["weighted less plain"] = mean_and_error(difference)
        row["shape, taper"] = "; ".join(
            sorted({f"{kernel.shape:g}, {kernel.taper:g}" for kernel in chosen})
        )
        yield row


def best(rows: Parts, kernels: list[Any], score: Callable[..., float]) -> tuple[Any, float]:
    """The kernel and alpha of the highest score."""
    candidates = []
    for kernel, factor, alpha in product(kernels, SCALES, ALPHAS):
        gamma = kernel.resolve(rows.X).gamma * factor**kernel.power
        candidates.append((kernel.with_gamma(gamma), alpha / len(rows.X)))
    return max(candidates, key=lambda pair: score(rows, *pair))


def exact(rows: Parts, kernel: Kernel, alpha: float) -> float:
    """Per cent correct or explained by ridge regression with the kernel matrix itself."""
    X, X_test = rows.X.astype(np.float64), rows.X_test.astype(np.float64)
    labels = rows.task != "regression"
    target = np.where(rows.y == rows.y.max(), 1.0, -1.0) if labels else rows.y
    K = kernel(X)
    K[np.diag_indices_from(K)] += alpha * len(X)
    dual = linalg.solve(K, target - target.mean(), assume_a="pos", overwrite_a=True)
    response = kernel(X_test, X) @ dual + target.mean()
    if labels:
        return 100.0 * float(np.mean((response > 0) == (rows.y_test == rows.y.max())))
    left = np.square(response - rows.y_test).sum()
    return 100.0 * float(1.0 - left / np.square(rows.y_test - rows.y_test.mean()).sum())


def available(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        try:
            if name != "wave":
                load(name)
        except DataError as error:
            sys.stdout.write(f"{name} is left out: {error}\n")
        else:
            yield name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=("hashed", "weighted"), help="one of the two tables")
    parser.add_argument("--rows", type=int, default=4000, help="training rows, and test rows")
    parser.add_argument("--grids", type=int, default=128, help="number of grids")
    parser.add_argument("--seeds", type=int, default=5, help="splits and draws")
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)  # unseen bins are part of what is measured
    studies = {"hashed": hashed_against_exact, "weighted": weighted_against_plain}
    for name, study in studies.items():
        if options.part in (None, name):
            sys.stdout.write(f"\n{name} bins, {options.grids} grids, {options.seeds} seeds\n")
            sys.stdout.write(table(study(options)) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
