"""Walsh-Hadamard transforms against memory, and Fastfood against random Fourier features.

A transform reads and writes its array once at the least, so what it is held against is a pass that
multiplies the same array by a number in place: its share of memory speed. The target is 75 % up to
4096 numbers. The features of both maps are made from the same number of columns.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from _side_by_side import Benchmark
from mercer import _core
from mercer.maps import Fastfood, RandomFourier

THREADS = (1, 2)


def butterflies(a: NDArray) -> None:
    """The transform in NumPy: one pass over the array per power of two."""
    length = a.shape[1]
    step = 1
    while step < length:
        pairs = a.reshape(len(a), -1, 2, step)
        low, high = pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]
        pairs[:, :, 0], pairs[:, :, 1] = low, high
        step *= 2


def transforms(benchmark: Benchmark) -> None:
    rows, columns = {}, {}
    n_bytes = 2**24 if benchmark.quick else 2**27
    for dtype in (np.float32, np.float64):
        for length in (64, 256, 1024, 4096, 2**16):
            # Zeros stay what they are however often they are transformed.
            a = np.zeros((n_bytes // (length * np.dtype(dtype).itemsize), length), dtype)
            name = f"L = {length}, {dtype.__name__}"
            memory = partial(np.multiply, a, dtype(0.5), out=a)
            rows[name] = {f"mercer {t}": partial(_core.hadamard, a, t) for t in THREADS} | {
                "memory": memory,
                "NumPy": partial(butterflies, a[: max(1, len(a) // 16)]),
            }
            b = a.reshape(length, -1)
            columns[name] = {
                f"mercer {t}": partial(_core.hadamard_columns, b, t) for t in THREADS
            } | {"memory": memory}
    benchmark.compare("rows (NumPy: a sixteenth of them)", rows)
    benchmark.compare("columns", columns)


def features(benchmark: Benchmark) -> None:
    cases = {}
    rng = np.random.default_rng(0)
    n_components = 4096
    for dtype in (np.float32, np.float64):
        for d in (64, 256, 1024, 4096) if benchmark.quick else (64, 256, 1024, 4096, 16_384):
            n = (2**26 if benchmark.quick else 2**30) // (d * n_components) + 64
            X = rng.normal(size=(n, d)).astype(dtype)
            cases[f"n = {n}, d = {d}, D = {n_components}, {dtype.__name__}"] = {
                name: partial(
                    kind(gamma=1.0 / d, n_components=n_components, random_state=0).fit(X).transform,
                    X,
                )
                for name, kind in (("Fourier", RandomFourier), ("mercer Fastfood", Fastfood))
            }
    benchmark.compare("features", cases)


def main() -> None:
    benchmark = Benchmark(
        "Walsh-Hadamard transforms in place. 'memory' is one in-place pass over the array by "
        "NumPy, one thread; its ratio to ours is our share of memory speed."
    )
    transforms(benchmark)
    features(benchmark)
    benchmark.finish()


if __name__ == "__main__":
    main()
