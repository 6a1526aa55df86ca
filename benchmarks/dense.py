"""Random Fourier blocks against NumPy's product and cosine, kernel blocks against scikit-learn.

NumPy's OpenBLAS picks its kernels by processor; run with OPENBLAS_CORETYPE=SkylakeX in the
environment as well where it does not choose AVX-512 by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

from _side_by_side import Benchmark, Row, Target, rows_of_cases
from mercer import _core

THREADS = (1, 2)
BLOCKS, PAIRS, PRODUCTS = "cosine block", "pairs of cosine and sine", "gaussian kernel product"
FLOATS = {"float64": ("scikit-learn", "mercer 64-bit 2")}  # scikit-learn computes in float64
TARGETS = [
    Target(BLOCKS, 3.0, {"both threads": ("NumPy", "mercer 2")}),
    Target("gaussian kernel block", 8.0, FLOATS),
    Target("laplacian kernel block", 20.0, FLOATS),
    Target(PRODUCTS, 2.0, FLOATS),
]


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


def kernel_blocks(quick: bool) -> dict[str, dict[str, Callable[[], object]]]:
    """Kernels of the core against scikit-learn's, which are of float64."""
    rng, cases = np.random.default_rng(1), {}
    peers = {"gaussian": rbf_kernel, "laplacian": laplacian_kernel}
    for name, peer in peers.items():
        for n, d, m in [(20_000, 54, 1000), (4_000, 780, 1000)]:
            n = n // 10 if quick else n
            X, Y = rng.normal(size=(n, d)), rng.normal(size=(m, d))
            centre, scale = Y.mean(axis=0), np.full(d, 1 / d if name == "laplacian" else d**-0.5)
            case = {}
            for dtype in (np.float64, np.float32):
                x, y, out = X.astype(dtype), Y.astype(dtype), np.empty((n, m), dtype)
                for t in THREADS:
                    case[f"mercer {dtype.__name__[5:]}-bit {t}"] = partial(
                        _core.kernel_block, name, x, y, centre, scale, 1.0, out, t
                    )
            case["scikit-learn"] = partial(peer, X, Y, gamma=1 / d)
            cases[f"{name}, n = {n}, d = {d}, m = {m}"] = case
    return cases


def kernel_products(quick: bool) -> dict[str, dict[str, Callable[[], object]]]:
    """The Gaussian kernel matrix times a vector, never held, against scikit-learn's that is."""
    rng, cases = np.random.default_rng(2), {}
    for n, d, m in [(8000, 54, 1000), (2000, 780, 1000)]:
        n = n // 10 if quick else n
        X, Y, w = rng.normal(size=(n, d)), rng.normal(size=(m, d)), rng.normal(size=(m, 1))
        centre, scale, out = Y.mean(axis=0), np.full(d, d**-0.5), np.zeros((n, 1))
        case: dict[str, Callable[[], object]] = {}
        for dtype in (np.float64, np.float32):
            rows = X.astype(dtype), Y.astype(dtype)
            weights = w.astype(dtype), out, None, None
            for t in THREADS:
                case[f"mercer {dtype.__name__[5:]}-bit {t}"] = partial(
                    _core.kernel_product, "gaussian", *rows, centre, scale, 1.0, *weights, t, True
                )
        case["scikit-learn"] = lambda X=X, Y=Y, w=w, d=d: rbf_kernel(X, Y, gamma=1 / d) @ w
        cases[f"n = {n}, d = {d}, m = {m}"] = case
    return cases


def cosines(quick: bool) -> dict[str, dict[str, dict[str, Callable[[], object]]]]:
    """Cosines, and pairs of cosines and sines, against NumPy's product and functions."""
    rng = np.random.default_rng(0)
    blocks, pairs = {}, {}
    for dtype in (np.float32, np.float64):
        for n, d, m in [(20_000, 54, 1000), (6_000, 780, 1000)]:
            n = n // 10 if quick else n
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
    return {BLOCKS: blocks, PAIRS: pairs}


def all_cases(quick: bool) -> dict[str, dict[str, dict[str, Callable[[], object]]]]:
    """Contenders by title and case."""
    cases, of_kernel = cosines(quick), kernel_blocks(quick)
    for name in ("gaussian", "laplacian"):
        of_name = {case: runs for case, runs in of_kernel.items() if case.startswith(name)}
        cases[f"{name} kernel block"] = of_name
    return cases | {PRODUCTS: kernel_products(quick)}


def speed_rows(quick: bool = False) -> Iterator[Row]:
    """Lines of the speed table: cosines in float32, kernels in the float64 of scikit-learn."""
    cases = all_cases(quick)
    cases[BLOCKS] = {case: runs for case, runs in cases[BLOCKS].items() if "float32" in case}
    return rows_of_cases(cases, TARGETS, 2 if quick else 5)


def main() -> None:
    benchmark = Benchmark(
        "Random Fourier features and kernels: product and function in one. 'mercer 2' is two "
        "threads; NumPy's product uses as many as its BLAS likes, its cosine one."
    )
    for title, cases in all_cases(benchmark.quick).items():
        benchmark.compare(title, cases)
    benchmark.judge(TARGETS)
    benchmark.finish()


if __name__ == "__main__":
    main()
