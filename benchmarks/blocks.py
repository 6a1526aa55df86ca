"""What block coordinate descent and kernel machines that hold no matrix are made of: blocks of
kernel columns, products with the kernel matrix, Gram matrices.

PyTorch takes part where it is installed. NumPy's OpenBLAS picks its kernels by processor; run with
OPENBLAS_CORETYPE=SkylakeX in the environment as well where it does not choose AVX-512 by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

from _side_by_side import Benchmark, Target
from mercer import _core
from mercer.designs import KernelColumns
from mercer.kernels import Gaussian

THREADS = 2
CHUNK = 2048  # rows that the peers work on at a time: their intermediate matrices have to fit

Case = dict[str, Callable[[], object]]


def scale_of(name: str, d: int) -> NDArray[np.float64]:
    """Scale of the inputs at which standard normal rows are neither all alike nor all apart."""
    return np.full(d, 1 / d if name in ("laplacian", "cauchy") else d**-0.5)


def peer_of(name: str) -> Callable[[NDArray, NDArray, float], NDArray]:
    """The kernel matrix of scaled rows as scikit-learn or SciPy make it."""
    root_5 = np.sqrt(5.0)

    def exponential(X: NDArray, Y: NDArray, gamma: float) -> NDArray:
        return np.exp(-cdist(X, Y))

    def matern(X: NDArray, Y: NDArray, gamma: float) -> NDArray:
        r = root_5 * cdist(X, Y)
        return (1 + r + r**2 / 3) * np.exp(-r)

    def cauchy(X: NDArray, Y: NDArray, gamma: float) -> NDArray:
        out = np.ones((len(X), len(Y)))
        for x, y in zip(X.T, Y.T, strict=True):
            out *= 1 + np.subtract.outer(x, y) ** 2
        return 1 / out

    return {
        "gaussian": rbf_kernel,
        "laplacian": laplacian_kernel,
        "exponential": exponential,
        "matern_5_2": matern,
        "cauchy": cauchy,
    }[name]


def kernel_blocks(quick: bool) -> dict[str, Case]:
    """Columns of the kernel matrix, as a block of descent needs them."""
    rng, cases = np.random.default_rng(0), {}
    for name in ("gaussian", "laplacian", "exponential", "matern_5_2", "cauchy"):
        for n, d, m in [(20_000, 8, 500), (10_000, 54, 500), (4_000, 780, 500)]:
            n = n // 10 if quick else n
            n = n // 5 if name == "cauchy" else n  # which has no peer but NumPy, input by input
            X, Y, scale = rng.normal(size=(n, d)), rng.normal(size=(m, d)), scale_of(name, d)
            case: Case = {}
            for dtype in (np.float32, np.float64):
                x, y, out = X.astype(dtype), Y.astype(dtype), np.empty((n, m), dtype)
                case[f"mercer {dtype.__name__[5:]}-bit"] = partial(
                    *(
                        _core.kernel_block,
                        name,
                        x,
                        y,
                        Y.mean(axis=0),
                        scale,
                        1.0,
                        out,
                        THREADS,
                        True,
                    )
                )
            case["peer"] = partial(peer_of(name), X * scale, Y * scale, 1.0)
            cases[f"{name}, n = {n}, d = {d}, b = {m}"] = case
    return cases


def block_then_product(X: NDArray, scale: NDArray, w: NDArray) -> NDArray:
    """Blocks as the core makes them, written to memory, times w."""
    out = np.empty((len(X), w.shape[1]), dtype=X.dtype)
    centre = X.mean(axis=0, dtype=np.float64)
    for start in range(0, len(X), CHUNK):
        x = X[start : start + CHUNK]
        block = np.empty((len(x), len(X)), dtype=X.dtype)
        _core.kernel_block("gaussian", x, X, centre, scale, 1.0, block, THREADS, True)
        np.matmul(block, w, out=out[start : start + CHUNK])
    return out


def torch_product(X: NDArray, scale: NDArray, w: NDArray) -> Callable[[], object]:
    """Chunks of the kernel matrix by PyTorch: a product, squares beside it, exp, a product."""
    import torch

    torch.set_num_threads(THREADS)
    x, weights = torch.from_numpy((X * scale).astype(X.dtype)), torch.from_numpy(w)
    squares = (x * x).sum(dim=1)

    def run() -> object:
        parts = []
        for start in range(0, len(x), CHUNK):
            chunk = slice(start, start + CHUNK)
            distance = torch.addmm(squares, x[chunk], x.T, alpha=-2)
            distance += squares[chunk, None]
            parts.append(distance.clamp_(min=0).neg_().exp_() @ weights)
        return torch.cat(parts)

    return run


def products(quick: bool) -> dict[str, Case]:
    """The Gaussian kernel matrix, which is not held, times weights."""
    rng, cases = np.random.default_rng(1), {}
    for d, n in [(8, 16_000), (54, 12_000), (780, 6_000)]:
        n = n // 8 if quick else n
        X, scale = rng.normal(size=(n, d)).astype(np.float32), scale_of("gaussian", d)
        for k in (1, 10, 100):
            w = rng.normal(size=(n, k)).astype(np.float32)
            design = KernelColumns(X, Gaussian(gamma=1 / d), n_jobs=THREADS)
            case: Case = {
                "mercer": partial(design.matvec, w),
                "mercer, 64-bit weights": partial(design.matvec, w.astype(np.float64)),
            }
            case["block, then product"] = partial(block_then_product, X, scale, w)
            if find_spec("torch") is not None:
                case["PyTorch"] = torch_product(X, scale, w)
            cases[f"n = {n}, d = {d}, k = {k}"] = case
    return cases


def grams(quick: bool) -> dict[str, Case]:
    """Z.T @ Z, which NumPy knows to be symmetric."""
    rng, cases = np.random.default_rng(2), {}
    for dtype in (np.float32, np.float64):
        for n, d in [(60_000, 256), (30_000, 500), (20_000, 1000), (10_000, 2000)]:
            n = n // 10 if quick else n
            Z, out = rng.normal(size=(n, d)).astype(dtype), np.zeros((d, d))
            weights = rng.random(n)
            case: Case = {
                "mercer": partial(_core.gram, Z, False, None, out, THREADS),
                "NumPy": partial(np.dot, Z.T, Z),
            }
            if find_spec("torch") is not None:
                import torch

                torch.set_num_threads(THREADS)
                z = torch.from_numpy(Z)
                case["PyTorch"] = partial(torch.matmul, z.T, z)
            title = f"n = {n}, d = {d}, {dtype.__name__}"
            cases[title] = case
            cases[f"{title}, weighted"] = {
                "mercer": partial(_core.gram, Z, False, weights, out, THREADS),
                "NumPy": partial(_weighted, Z, weights),
            }
    return cases


def _weighted(Z: NDArray, weights: NDArray) -> NDArray:
    return Z.T @ (Z * weights[:, None].astype(Z.dtype))


def main() -> None:
    benchmark = Benchmark(
        f"Kernel blocks, products and Gram matrices, {THREADS} threads each. The peers of kernel "
        "blocks are scikit-learn, or SciPy's distances and NumPy's functions, in float64."
    )
    blocks = kernel_blocks(benchmark.quick)
    targets = []
    for name, ratio in (("gaussian", 8.0), ("laplacian", 20.0), *_OTHERS):
        title = f"{name} block"
        benchmark.compare(title, {k: v for k, v in blocks.items() if k.startswith(name)})
        lines = {bits: ("peer", f"mercer {bits}") for bits in ("32-bit", "64-bit")}
        targets.append(Target(title, ratio, lines))
    benchmark.compare("product", products(benchmark.quick))
    peers = {peer: (peer, "mercer") for peer in ("block, then product", "PyTorch")}
    targets.append(Target("product", 2.0, peers))
    benchmark.compare("Gram matrix", grams(benchmark.quick))
    targets.append(Target("Gram matrix", 1.0, {"NumPy": ("NumPy", "mercer")}))
    benchmark.judge(targets)
    benchmark.finish()


_OTHERS = (("exponential", 8.0), ("matern_5_2", 8.0), ("cauchy", 8.0))

if __name__ == "__main__":
    main()
