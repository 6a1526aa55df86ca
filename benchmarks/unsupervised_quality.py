"""Clusters and outliers of real tables, beside scikit-learn, judged by labels that no method sees.

Clusters: normalised mutual information and adjusted Rand index with the classes, means of three
seeds. Outliers: machines are fitted to rows of one class and rank held-out rows of it above those
of other classes (area under the curve). Kernels have the factor "scale". Sets are read from the
folder MERCER_DATA; those that are not there are named and left out.

    MERCER_DATA=data python benchmarks/unsupervised_quality.py --json quality.json
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import cluster
from sklearn.ensemble import IsolationForest
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import SGDOneClassSVM
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM

from _side_by_side import environment
from mercer.unsupervised import KernelKMeans, OneClassKernel, SpectralClustering

SEEDS = range(3)
ROWS = 5000  # that scikit-learn's spectral clustering of a full kernel finishes in some seconds
CLUSTERED = ["pendigits", "letter", "mnist", "covtype_mult_first20k"]


def rows_of(name: str) -> tuple[Any, Any]:
    """Rows and classes; columns with units of their own are standardised."""
    with np.load(Path(os.environ.get("MERCER_DATA", ".")) / f"{name}.npz") as file:
        parts = [(file[f"X{end}"], file[f"y{end}"]) for end in ("", "_train") if f"X{end}" in file]
    X, y = parts[0]
    X = X.astype(np.float64)
    if name in ("covtype_mult_first20k", "kddcup10"):
        X = StandardScaler().fit_transform(X[:, X.std(axis=0) > 0])
    elif name != "letter":  # pixels and pens have one unit
        X /= X.max()
    return X, y


def scale(X: Any) -> float:
    return float(1 / (X.shape[1] * X.var()))


def clusterers(count: int, gamma: float, seed: int) -> dict[str, Any]:
    settings = {"random_state": seed}
    peer = cluster.SpectralClustering
    return {
        "SpectralClustering, binning": SpectralClustering(count, **settings),
        "SpectralClustering, binning, eigengap": SpectralClustering(
            count, gamma="eigengap", **settings
        ),
        "SpectralClustering, nystroem": SpectralClustering(
            count, feature_map="nystroem", n_features=500, **settings
        ),
        "KernelKMeans, nystroem": KernelKMeans(count, feature_map="nystroem", **settings),
        "scikit-learn SpectralClustering, kernel": peer(count, gamma=gamma, **settings),
        "scikit-learn SpectralClustering, neighbours": peer(
            count, affinity="nearest_neighbors", **settings
        ),
        "scikit-learn KMeans": cluster.KMeans(count, n_init=5, **settings),
    }


def detectors(gamma: float, n: int, seed: int) -> dict[str, Any]:
    count = min(500, n)
    landmarks = Nystroem(gamma=gamma, n_components=count, random_state=seed)
    return {
        "OneClassKernel, exact": OneClassKernel(),
        "OneClassKernel, nystroem": OneClassKernel(
            feature_map="nystroem", n_features=count, random_state=seed
        ),
        "OneClassKernel, binning": OneClassKernel(feature_map="binning", random_state=seed),
        "scikit-learn OneClassSVM": OneClassSVM(gamma=gamma, nu=0.1),
        "scikit-learn SGDOneClassSVM, Nystroem": make_pipeline(
            landmarks, SGDOneClassSVM(nu=0.1, random_state=seed)
        ),
        "scikit-learn IsolationForest": IsolationForest(random_state=seed),
    }


def cluster_runs(name: str, n: int) -> Iterator[dict[str, Any]]:
    X, y = rows_of(name)
    for seed in SEEDS:
        chosen = np.random.default_rng(seed).permutation(len(X))[:n]
        rows, labels = X[chosen], y[chosen]
        for method, model in clusterers(len(np.unique(y)), scale(rows), seed).items():
            start = time.perf_counter()
            found = model.fit_predict(rows)
            yield {
                "task": f"clusters of {name}",
                "method": method,
                "rows": len(rows),
                "seconds": time.perf_counter() - start,
                "nmi": normalized_mutual_info_score(labels, found),
                "ari": adjusted_rand_score(labels, found),
            }


def outlier_tasks() -> Iterator[tuple[str, Callable[[], Iterator[tuple[Any, Any, Any]]]]]:
    """Names, and rows of a fit, new rows and whether these are outliers."""

    def digits(name: str) -> Iterator[tuple[Any, Any, Any]]:
        X, y = rows_of(name)
        for digit in np.unique(y):
            yield split(X[y == digit], X[y != digit])

    def rare() -> Iterator[tuple[Any, Any, Any]]:
        X, y = rows_of("kddcup10")
        labels, counts = np.unique(y, return_counts=True)
        normal = labels[np.argsort(counts)[-3]]  # 97 277 rows; the two larger are attacks
        yield split(X[y == normal], X[np.isin(y, labels[counts < 5000])])

    def trees() -> Iterator[tuple[Any, Any, Any]]:
        X, y = rows_of("covtype_mult_first20k")
        yield split(X[y == 2], X[y == 4])

    yield "one digit of pendigits", lambda: digits("pendigits")
    yield "one digit of mnist", lambda: digits("mnist")
    yield "kddcup10, rare attacks among normal rows", rare
    yield "covtype, class 4 among class 2", trees


def split(inside: Any, outside: Any) -> tuple[Any, Any, Any]:
    """Half of the rows of a class, at most ROWS, for a fit; others and outliers, as many each."""
    rng = np.random.default_rng(0)
    inside, outside = rng.permutation(inside), rng.permutation(outside)
    half = min(len(inside) // 2, ROWS)
    new = min(half, len(outside))
    rows = np.concatenate([inside[half : half + new], outside[:new]])
    return inside[:half], rows, np.repeat([0, 1], new)


def outlier_runs(task: str, parts: Callable[[], Iterator[Any]]) -> Iterator[dict[str, Any]]:
    for rows, new, is_outlier in parts():
        for method, model in detectors(scale(rows), len(rows), seed=0).items():
            start = time.perf_counter()
            scores = model.fit(rows).score_samples(new)
            yield {
                "task": task,
                "method": method,
                "rows": len(rows),
                "seconds": time.perf_counter() - start,
                "auc": roc_auc_score(is_outlier, -scores),
            }


def means(runs: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """One entry for the runs of a task and method."""
    for key in dict.fromkeys((run["task"], run["method"]) for run in runs):
        same = [run for run in runs if (run["task"], run["method"]) == key]
        numbers = {k: float(np.mean([r[k] for r in same])) for k in same[0] if k not in _NAMES}
        yield dict(zip(_NAMES, key, strict=True)) | numbers


_NAMES = ("task", "method")


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=ROWS, help="of a set that are clustered")
    parser.add_argument("--json", type=Path)
    settings = parser.parse_args()
    found = []
    sources = [cluster_runs(name, settings.rows) for name in CLUSTERED]
    for runs in [*sources, *(outlier_runs(*task) for task in outlier_tasks())]:
        try:
            entries = list(means(list(runs)))
        except FileNotFoundError as error:
            sys.stdout.write(f"left out: {error}\n")
            continue
        for entry in entries:
            sys.stdout.write(
                ", ".join(
                    f"{k} {v:.4g}" if isinstance(v, float) else str(v) for k, v in entry.items()
                )
                + "\n"
            )
        sys.stdout.flush()
        found += entries
    if settings.json:
        record = {"environment": environment(), "data": "real sets", "runs": found}
        settings.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
