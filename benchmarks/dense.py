"""Random Fourier blocks against NumPy's product and cosine.

NumPy's OpenBLAS picks its kernels by processor; run with OPENBLAS_CORETYPE=SkylakeX in the
environment as well where it does not choose AVX-512 by itself.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from _side_by_side import Benchmark
from mercer import _core

THREADS = (1, 2)


def numpy_block(X: NDArray, frequencies: NDArray, phases: NDArray, out: NDArray) -> None:
    np.matmul(X, frequencies.T, out=out)
    out += phases
    np.cos(out, out=out)
    out *= X.dtype.type(0.1)


def numpy_pairs(X: NDArray, frequencies: NDArray, out: NDArray) -> None:
    products = X @ frequencies.T
    np.cos(products, out=out[:, ::2])
    np.sin(products, out=out[:, 1::2])
    out *= X.dtype.type(0.1)


def main() -> None:
    benchmark = Benchmark(
        "Random Fourier features: product and cosine in one. 'mercer 2' is two threads; NumPy's "
        "product uses as many as its BLAS likes, its cosine one."
    )
    rng = np.random.default_rng(0)
    blocks, pairs = {}, {}
    for dtype in (np.float32, np.float64):
        for n, d, m in [(20_000, 54, 1000), (6_000, 780, 1000), (50_000, 8, 500)]:
            n = n // 10 if benchmark.quick else n
            X = rng.normal(size=(n, d)).astype(dtype)
            frequencies = rng.normal(size=(m, d)).astype(dtype)
            phases = rng.uniform(0, 2 * np.pi, m).astype(dtype)
            out, wide = np.empty((n, m), dtype), np.empty((n, 2 * m), dtype)
            name = f"n = {n}, d = {d}, m = {m}, {dtype.__name__}"
            blocks[name] = {
                f"mercer {t}": partial(_core.cosine_block, X, frequencies, phases, 0.1, out, t)
                for t in THREADS
            } | {"NumPy": partial(numpy_block, X, frequencies, phases, out)}
            pairs[name] = {
                f"mercer {t}": partial(_core.cosine_pairs, X, frequencies, 0.1, wide, t)
                for t in THREADS
            } | {"NumPy": partial(numpy_pairs, X, frequencies, wide)}
    benchmark.compare("cosine block", blocks)
    benchmark.compare("pairs of cosine and sine", pairs)
    benchmark.finish()


if __name__ == "__main__":
    main()
