"""Components, clusters, outliers and two-sample tests on many rows, beside scikit-learn.

Rows are generated: ten Gaussian clusters in 20 dimensions. Every call has a process of its own and
all cores; peers that form n x n matrices run on as many rows as they finish in ``--limit``
seconds, to a factor of 1.4.

    python benchmarks/unsupervised.py --rows 1000000 --json unsupervised.json
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import sklearn.cluster
import sklearn.decomposition
import sklearn.svm
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score

from _side_by_side import environment
from mercer.statistics import mmd_test
from mercer.unsupervised import KernelKMeans, KernelPCA, OneClassKernel, SpectralClustering

GAMMA = 0.002  # of the Gaussian kernel


def rows_of(n: int) -> tuple[Any, Any]:
    X, y = make_blobs(n, 20, centers=10, cluster_std=4.0, random_state=0)
    return X.astype(np.float32), y


def ours() -> dict[str, Callable[[Any], Any]]:
    """Functions of rows, by the name of the method; those of clusters return labels."""
    as_given = {"scale": False, "random_state": 0}
    fourier = {"feature_map": "fourier", "n_features": 500, "gamma": GAMMA, **as_given}
    binned = {"n_features": 200, "gamma": 0.02, **as_given}
    return {
        "KernelPCA(10), fourier": lambda X: KernelPCA(10, **fourier).fit(X),
        "KernelKMeans(10), fourier": lambda X: KernelKMeans(10, n_init=1, **fourier).fit_predict(X),
        "SpectralClustering(10), binning": lambda X: SpectralClustering(10, **binned).fit_predict(
            X
        ),
        "OneClassKernel, fourier": lambda X: OneClassKernel(**fourier).fit(X),
        "mmd_test, halves": lambda X: mmd_test(X[::2], X[1::2], random_state=0),
    }


def peers() -> dict[str, Callable[[Any], Any]]:
    """The classes of scikit-learn that answer the same questions."""
    components = sklearn.decomposition.KernelPCA(10, kernel="rbf", gamma=GAMMA)
    spectral = sklearn.cluster.SpectralClustering(10, gamma=GAMMA, random_state=0)
    return {
        "scikit-learn KernelPCA(10)": components.fit,
        "scikit-learn SpectralClustering(10)": spectral.fit_predict,
        "scikit-learn OneClassSVM": sklearn.svm.OneClassSVM(gamma=GAMMA, nu=0.1).fit,
    }


def timed(name: str, n: int) -> dict[str, Any]:
    """Seconds of a call on n rows in this process, the memory that it has needed, the quality."""
    X, y = rows_of(n)
    call = (ours() | peers())[name]
    start = time.perf_counter()
    found = call(X)
    facts: dict[str, Any] = {"rows": n, "seconds": time.perf_counter() - start}
    facts["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if isinstance(found, np.ndarray):
        facts["ari"] = adjusted_rand_score(y, found)
    return facts


def apart(name: str, n: int) -> dict[str, Any]:
    """``timed`` in a process of its own, whose peak of memory is that of the call."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(timed, name, n).result()


def longest(name: str, limit: float) -> dict[str, Any]:
    """The run on the most rows whose seconds stay below a limit, as far as the runs before tell."""
    n, growth = 1000, 8.0  # of the seconds when rows double
    facts = apart(name, n)
    while facts["seconds"] * growth**0.5 < limit:
        before, n = facts, round(1.4142 * n)
        facts = apart(name, n)
        growth = (facts["seconds"] / before["seconds"]) ** 2
    return facts if facts["seconds"] < limit else before


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--limit", type=float, default=20.0)
    parser.add_argument("--json", type=Path)
    settings = parser.parse_args()
    runs = []

    def tell(name: str, facts: dict[str, Any]) -> None:
        runs.append({"method": name, **facts})
        told = ", ".join(f"{key} {value:.4g}" for key, value in facts.items())
        sys.stdout.write(f"{name}: {told}\n")
        sys.stdout.flush()

    for name in ours():
        small, large = (apart(name, n) for n in (settings.rows // 10, settings.rows))
        tell(name, small)
        power = np.log10(large["seconds"] / small["seconds"])
        tell(name, large | {"power_of_n": power})
    for name in peers():
        tell(name, longest(name, settings.limit))
    if settings.json:
        record = {"environment": environment(), "data": "generated (ten clusters)", "runs": runs}
        settings.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
