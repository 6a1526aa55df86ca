"""Sparse data: support vector machines of CSR rows, and hashed n-grams of texts.

Peers are scikit-learn's SVC, which makes kernel rows of sparse data in LIBSVM, one thread, and its
HashingVectorizer, one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.svm import SVC

from _side_by_side import Benchmark, Row, Target, rows_of_cases
from mercer.kernels import Gaussian
from mercer.maps import HashedNGrams
from mercer.solvers import BoxDual, PairwiseCD

THREADS = (1, 2)
MACHINES, GRAMS = "support vectors", "hashed n-grams"
TARGETS = [
    Target(MACHINES, 1.0, {"one thread": ("SVC", "mercer 1")}),
    Target(GRAMS, 3.0, {f"{t} threads": ("HashingVectorizer", f"mercer {t}") for t in THREADS}),
]


def texts(n: int) -> list[str]:
    """Texts of 50 to 400 words whose frequencies follow Zipf's law."""
    rng = np.random.default_rng(0)
    words = np.array([f"w{i:x}"[: 2 + i % 9] + "aeiou"[i % 5] * (i % 4) for i in range(50_000)])
    lengths = rng.integers(50, 400, n)
    drawn = words[np.minimum(rng.zipf(1.3, lengths.sum()), len(words)) - 1]
    return [" ".join(part) for part in np.split(drawn, np.cumsum(lengths)[:-1])]


def rows(n: int, d: int, per_row: int) -> tuple[sparse.csr_array, np.ndarray]:
    """CSR rows of length about 1, with a few numbers each, and two classes."""
    rng = np.random.default_rng(0)
    X = sparse.random_array((n, d), density=per_row / d, rng=rng, format="csr")
    X = sparse.csr_array(X / np.sqrt(per_row / 3.0))
    y = np.where(X @ rng.normal(size=d) + 0.1 * rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y


def all_cases(quick: bool) -> dict[str, dict[str, dict[str, Callable[[], object]]]]:
    """Contenders by title and case."""
    machines = {}
    for n, d, per_row in [(4000, 300, 12), (4000, 50_000, 150)]:
        X, y = rows(n // 10 if quick else n, d, per_row)
        case = {"SVC": partial(SVC(C=10.0, gamma=1.0, cache_size=500).fit, X, y)}
        for t in THREADS:
            solver = PairwiseCD(tol=1e-3, n_jobs=t, cache_size=500)
            case[f"mercer {t}"] = partial(solver.solve, BoxDual.hinge(y, 10.0), Gaussian(1.0), X)
        machines[f"{X.shape[0]} rows of {d} inputs, {per_row} stored"] = case
    grams = {}
    documents = texts(50 if quick else 3000)
    for analyzer, orders in (("word", (1,)), ("word", (1, 2, 3)), ("char", (3,))):
        settings = {"analyzer": analyzer, "ngram_range": (orders[0], orders[-1])}
        case = {"HashingVectorizer": partial(HashingVectorizer(**settings).transform, documents)}
        for t in THREADS:
            ours = HashedNGrams(2**20, orders, analyzer=analyzer, random_state=0, n_jobs=t)
            case[f"mercer {t}"] = partial(ours.fit(documents[:5]).transform, documents)
        grams[f"{analyzer}s, runs of {', '.join(map(str, orders))}"] = case
    return {MACHINES: machines, GRAMS: grams}


def speed_rows(quick: bool = False) -> Iterator[Row]:
    """Lines of the speed table."""
    return rows_of_cases(all_cases(quick), TARGETS, 2 if quick else 5)


def main() -> None:
    benchmark = Benchmark("Sparse data; 'mercer 2' is two threads, the peers have one.")
    for title, cases in all_cases(benchmark.quick).items():
        benchmark.compare(title, cases)
    benchmark.judge(TARGETS)
    benchmark.finish()


if __name__ == "__main__":
    main()
