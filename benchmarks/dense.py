"""Random Fourier blocks against NumPy's product and cosine, kernel blocks against scikit-learn.

NumPy's OpenBLAS picks its kernels by processor; run with OPENBLAS_CORETYPE=SkylakeX in the
environment as well where it does not choose AVX-512 by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

from _side_by_side import Benchmark, Target
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


def kernel_blocks(quick: bool) -> dict[str, dict[str, Callable[[], object]]]:
    """Kernels of the core against scikit-learn's, which are of float64."""
    rng, cases = np.random.default_rng(1), {}
    peers = {"gaussian": rbf_kernel, "laplacian": laplacian_kernel}
    for name, peer in peers.items():
        for n, d, m in [(20_000, 8, 1000), (20_000, 54, 1000), (4_000, 780, 1000)]:
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


def main() -> None:
    benchmark = Benchmark(
        "Random Fourier features and kernels: product and function in one. 'mercer 2' is two "
        "threads; NumPy's product uses as many as its BLAS likes, its cosine one."
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
    targets = [Target("cosine block", 3.0, {"both threads": ("NumPy", "mercer 2")})]
    benchmark.compare("pairs of cosine and sine", pairs)
    of_kernel = kernel_blocks(benchmark.quick)
    for name, ratio in (("gaussian", 8.0), ("laplacian", 20.0)):
        title = f"{name} kernel block"
        benchmark.compare(title, {k: v for k, v in of_kernel.items() if k.startswith(name)})
        pair = ("scikit-learn", "mercer 64-bit 2"), ("scikit-learn", "mercer 32-bit 2")
        targets.append(Target(title, ratio, {"float64": pair[0], "float32": pair[1]}))
    benchmark.compare("gaussian kernel product", kernel_products(benchmark.quick))
    benchmark.judge(targets)
    benchmark.finish()


if __name__ == "__main__":
    main()
