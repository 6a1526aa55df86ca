"""Random binning codes and products with the binned matrix, against NumPy, SciPy and plain C++."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from _side_by_side import Benchmark
from mercer import _core

THREADS = (1, 2)


def covtype_shaped(rng: np.random.Generator, n: int) -> NDArray[np.float32]:
    """10 numbers, 4 wilderness areas and 40 soil types, most of them rare."""
    X = np.zeros((n, 54), np.float32)
    X[:, :10] = rng.normal(size=(n, 10))
    X[np.arange(n), 10 + rng.choice(4, n, p=[0.45, 0.05, 0.43, 0.07])] = 1
    soil = 1 / np.arange(1, 41) ** 1.5
    X[np.arange(n), 14 + rng.choice(40, n, p=soil / soil.sum())] = 1
    return X


def mnist_shaped(rng: np.random.Generator, n: int) -> NDArray[np.float32]:
    """780 pixels, four fifths of them nearly always dark."""
    X = rng.random((n, 780)).astype(np.float32)
    X[:, rng.random(780) < 0.8] *= rng.random((n, 1)) < 0.05
    return X


def dense_shaped(d: int, rng: np.random.Generator, n: int) -> NDArray[np.float32]:
    return rng.normal(size=(n, d)).astype(np.float32)


class Grids:
    def __init__(self, rng: np.random.Generator, n_grids: int, d: int, gamma: float):
        self.widths = rng.gamma(2.0, 1.0 / gamma, (n_grids, d))
        self.shifts = rng.random((n_grids, d))
        self.multipliers = rng.integers(0, 2**64, (n_grids, d), dtype=np.uint64)
        self.arguments = (1 / self.widths, self.shifts, self.multipliers)


def mercer_codes(X: NDArray, grids: Grids, codes: NDArray, n_threads: int) -> None:
    if not _core.BinTable(len(codes)).insert(0, X, *grids.arguments, codes, n_threads):
        raise RuntimeError("more bins than codes")


def numpy_codes(X: NDArray, grids: Grids) -> list[NDArray]:
    codes = []
    for inverse_widths, shifts, multipliers in zip(*grids.arguments, strict=True):
        boxes = np.floor(X * inverse_widths - shifts).astype(np.int64).astype(np.uint64)
        codes.append(np.unique(boxes @ multipliers, return_inverse=True)[1])
    return codes


def compiled_port() -> Callable[..., None] | None:
    """naive_binning.cpp as a function, if there is a compiler."""
    if shutil.which("c++") is None:
        return None
    library = Path(tempfile.mkdtemp()) / "naive.so"
    source = Path(__file__).with_name("naive_binning.cpp")
    flags = ["-std=c++20", "-O3", "-shared", "-fPIC", "-pthread"]
    subprocess.run(["c++", *flags, str(source), "-o", str(library)], check=True)
    function = ctypes.CDLL(str(library)).naive_codes
    size, pointer = ctypes.c_size_t, ctypes.c_void_p
    function.argtypes = [pointer, size, size, size, *[pointer] * 4, ctypes.c_int]

    def run(X: NDArray, grids: Grids, codes: NDArray, n_threads: int) -> None:
        offsets = grids.shifts * grids.widths
        arrays = [grids.widths, offsets, grids.multipliers, codes]
        pointers = [array.ctypes.data for array in arrays]
        function(X.ctypes.data, *X.shape, len(grids.widths), *pointers, n_threads)

    return run


def bench_codes(benchmark: Benchmark) -> None:
    rng = np.random.default_rng(0)
    port = compiled_port()
    n_grids, shrink = 64, 10 if benchmark.quick else 1
    shapes = {
        "covtype-shaped, d = 54": (covtype_shaped, 20_000 // shrink, 0.15),
        "mnist-shaped, d = 780": (mnist_shaped, 4_000 // shrink, 0.01),
        "d = 22": (partial(dense_shaped, 22), 50_000 // shrink, 0.1),
        "d = 8": (partial(dense_shaped, 8), 50_000 // shrink, 0.5),
    }
    exact, hashed = {}, {}
    for name, (make, n, gamma) in shapes.items():
        X = make(rng, n)
        grids = Grids(rng, n_grids, X.shape[1], gamma)
        codes, wide = np.empty((n_grids, n), np.uint16), np.empty((n, n_grids), np.uint32)
        title = f"{name}, n = {n}, R = {n_grids}"
        exact[title] = {
            f"mercer {t}": partial(mercer_codes, X, grids, codes, t) for t in THREADS
        } | {"NumPy": partial(numpy_codes, X, grids)}
        hashed[title] = {
            f"mercer {t}": partial(_core.bin_hashed, X, *grids.arguments, 4096, codes, t)
            for t in THREADS
        }
        if port is not None:
            plain = {f"C++ {t}": partial(port, X, grids, wide, t) for t in THREADS}
            exact[title] |= plain
            hashed[title] |= plain
    benchmark.compare("codes, exact bins", exact)
    benchmark.compare("codes, 4096 hashed bins", hashed)


def bench_sparse_codes(benchmark: Benchmark) -> None:
    rng = np.random.default_rng(0)
    n, d = (500 if benchmark.quick else 5_000), 20_000
    S = sparse.random_array((n, d), density=0.003, format="csr", dtype=np.float32, rng=rng)
    grids = Grids(rng, 32, d, 0.01)
    codes = np.empty((32, n), np.uint16)
    parts = S.data, S.indices.astype(np.int32), S.indptr.astype(np.int32), d

    def mercer_sparse(n_threads: int) -> None:
        _core.BinTable(32).insert(0, *parts, *grids.arguments, codes, n_threads)

    def scipy_sparse() -> None:
        for inverse_widths, shifts, multipliers in zip(*grids.arguments, strict=True):
            at_zero = np.floor(-shifts)
            moved = np.floor(S.data * inverse_widths[S.indices] - shifts[S.indices])
            moved = (moved - at_zero[S.indices]).astype(np.int64).astype(np.uint64)
            changes = sparse.csr_array((moved, S.indices, S.indptr), shape=S.shape)
            np.unique(changes @ multipliers, return_inverse=True)

    contenders = {f"mercer {t}": partial(mercer_sparse, t) for t in THREADS}
    name = f"CSR, n = {n}, d = {d}, 60 entries a row, R = 32"
    benchmark.compare("codes, exact bins", {name: contenders | {"SciPy": scipy_sparse}})


def bench_products(benchmark: Benchmark) -> None:
    rng = np.random.default_rng(0)
    shrink = 10 if benchmark.quick else 1
    shapes = [(20_000, 256, 400), (50_000, 256, 3_000), (372_000, 64, 3_000), (100_000, 64, 20_000)]
    products: dict[str, dict] = {"Z w": {}, "Z' v": {}, "Z (Z' v)": {}}
    for n, n_grids, bins in shapes:
        n //= shrink
        weights = 1 / np.arange(1, bins + 1) ** 0.8
        draws = rng.choice(bins, (n_grids, n), p=weights / weights.sum())
        codes, offsets = draws.astype(np.uint16), np.arange(n_grids + 1) * bins
        columns = (codes.T + offsets[:-1].astype(np.int32)).astype(np.int32).ravel()
        starts = np.arange(0, n * n_grids + 1, n_grids)
        for dtype, k in [(np.float32, 1), (np.float64, 1), (np.float32, 10)]:
            if k > 1 and n * n_grids > 10_000_000:
                continue
            values = np.full(n * n_grids, 0.1, dtype)
            Z = sparse.csr_array((values, columns, starts), shape=(n, n_grids * bins))
            tail = () if k == 1 else (k,)
            w = rng.normal(size=(n_grids * bins, *tail)).astype(dtype)
            v = rng.normal(size=(n, *tail)).astype(dtype)
            name = f"n = {n}, R = {n_grids}, {bins} bins, {dtype.__name__}, {k} outputs"
            cases = {
                "Z w": (_core.binned_matvec, w, np.empty_like(v), lambda Z=Z, w=w: Z @ w),
                "Z' v": (_core.binned_rmatvec, v, np.empty_like(w), lambda Z=Z, v=v: Z.T @ v),
                "Z (Z' v)": (
                    _core.binned_gram_matvec,
                    v,
                    np.empty_like(v),
                    lambda Z=Z, v=v: Z @ (Z.T @ v),
                ),
            }
            for product, (function, operand, out, peer) in cases.items():
                arguments = codes, offsets, operand, out, 0.1, False
                contenders = {f"mercer {t}": partial(function, *arguments, t) for t in THREADS}
                products[product][name] = contenders | {"SciPy": peer}
    for product, cases in products.items():
        benchmark.compare(product, cases)


if __name__ == "__main__":
    run = Benchmark("Random binning: codes and products. 'mercer 2' is two threads; SciPy has one.")
    bench_codes(run)
    bench_sparse_codes(run)
    bench_products(run)
    run.finish()
