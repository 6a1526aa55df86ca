"""Random binning codes and products with the binned matrix, against NumPy, SciPy and plain C++.

Tables are generated in the shape of public ones (``_shapes.py``). The last table sets what was
reached against the targets of the project, always at equal numbers of threads; SciPy has one.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from _shapes import SHAPES, Grids, Shape, as_csr, binned
from _side_by_side import Benchmark, Cases, Row, Target, rows_of_cases
from mercer import KernelRegressor, _core
from mercer.compare.memory import PeakMemory

THREADS = (1, 2)
EXACT, HASHED = "codes, exact bins", "codes, 4096 hashed bins"
EQUAL = {f"{t} threads": (f"C++ {t}", f"mercer {t}") for t in THREADS}
AGAINST_SCIPY = {"1 threads against SciPy": ("SciPy", "mercer 1")}
TARGETS = [
    Target(EXACT, 10, EQUAL),
    Target(HASHED, 25, EQUAL),
    Target("Z w", 4, AGAINST_SCIPY),
    Target("Z' v", 4, AGAINST_SCIPY),
    Target("Z (Z' v)", 5, AGAINST_SCIPY),
]


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


def cases_of_codes(quick: bool, shapes: list[Shape]) -> dict[str, Cases]:
    """Contenders by title and case; those of plain C++ need a compiler."""
    port = compiled_port()
    n_grids, shrink = 64, 10 if quick else 1
    exact, hashed = {}, {}
    for shape in shapes:
        n = shape.n // shrink
        X, grids = shape.table(n), Grids(n_grids, shape.d, shape.gamma)
        codes, wide = np.empty((n_grids, n), np.uint16), np.empty((n, n_grids), np.uint32)
        title = f"{shape.name}-shaped, d = {shape.d}, n = {n}, R = {n_grids}"
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
    return {EXACT: exact, HASHED: hashed}


def bench_sparse_codes(benchmark: Benchmark) -> None:
    rng = np.random.default_rng(0)
    n, d = (500 if benchmark.quick else 5_000), 20_000
    S = sparse.random_array((n, d), density=0.003, format="csr", dtype=np.float32, rng=rng)
    grids = Grids(32, d, 0.01)
    codes = np.empty((32, n), np.uint16)
    parts = S.data, S.indices.astype(np.int32), S.indptr.astype(np.int32), d

    def mercer_sparse(n_threads: int) -> None:
        _core.BinTable(32).insert(0, parts, *grids.arguments, codes, n_threads)

    def scipy_sparse() -> None:
        for inverse_widths, shifts, multipliers in zip(*grids.arguments, strict=True):
            at_zero = np.floor(-shifts)
            moved = np.floor(S.data * inverse_widths[S.indices] - shifts[S.indices])
            moved = (moved - at_zero[S.indices]).astype(np.int64).astype(np.uint64)
            changes = sparse.csr_array((moved, S.indices, S.indptr), shape=S.shape)
            np.unique(changes @ multipliers, return_inverse=True)

    contenders = {f"mercer {t}": partial(mercer_sparse, t) for t in THREADS}
    name = f"CSR, n = {n}, d = {d}, 60 entries a row, R = 32"
    benchmark.compare("codes of sparse rows", {name: contenders | {"SciPy": scipy_sparse}})


def many_bins(n: int, n_grids: int, bins: int) -> tuple[NDArray, NDArray]:
    """Codes of grids whose bins are many and get rarer slowly."""
    weights = 1 / np.arange(1, bins + 1) ** 0.8
    draws = np.random.default_rng(0).choice(bins, (n_grids, n), p=weights / weights.sum())
    return draws.astype(np.uint16), np.arange(n_grids + 1) * bins


Matrices = dict[str, Callable[[], tuple[NDArray, NDArray[np.int64]]]]


def matrices_of(quick: bool, shapes: list[Shape]) -> Matrices:
    """Functions by title: codes of 128 grids and the first column of every grid."""
    shrink = 10 if quick else 1
    return {f"{s.name}-shaped": partial(binned, s, s.n // shrink, 128) for s in shapes}


def cases_of_products(matrices: Matrices, operands: list[tuple[type, int]]) -> dict[str, Cases]:
    """Contenders by product and matrix, for each dtype and number of outputs."""
    rng = np.random.default_rng(0)
    products: dict[str, dict] = {"Z w": {}, "Z' v": {}, "Z (Z' v)": {}}
    for title, make in matrices.items():
        codes, offsets = make()
        n = codes.shape[1]
        for dtype, k in operands:
            Z = as_csr(codes, offsets, 0.1, dtype)
            tail = () if k == 1 else (k,)
            w = rng.normal(size=(Z.shape[1], *tail)).astype(dtype)
            v = rng.normal(size=(n, *tail)).astype(dtype)
            outputs = "1 output" if k == 1 else f"{k} outputs"
            name = f"{title}, {Z.shape[1] // len(codes)} bins, {dtype.__name__}, {outputs}"
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
    return products


def bench_fit(benchmark: Benchmark) -> None:
    """The regressor on as many rows as the paper's covtype has."""
    n, n_grids = (5_000 if benchmark.quick else 465_000), 256
    shape: Shape = SHAPES[0]
    X = shape.table(n)
    y = np.sin(X[:, 0]) * X[:, 1] + X[:, 10] - np.abs(X[:, 2]) + 0.5 * X[:, 15]
    model = KernelRegressor(n_components=n_grids, alpha=1 / n, random_state=0)
    with PeakMemory() as memory:
        start = perf_counter()
        model.fit(X, y)
        total = perf_counter() - start
    last = model.trace_[-1]
    phases = {"features": total - last.time, **last.phases}
    codes = model.feature_map_.design(model.scaler_.transform(X) if model.scaler_ else X).codes
    rows = f"{n} x {shape.d} float32, R = {n_grids}"
    benchmark.note(
        f"fit of KernelRegressor, covtype-shaped, {rows}",
        seconds_in_all=round(total, 2),
        seconds_by_phase={name: round(seconds, 2) for name, seconds in phases.items()},
        iterations=model.n_iter_,
        columns=model.feature_map_.n_features_out_,
        megabytes_above_the_data=None if memory.added is None else memory.added // 10**6,
        bytes_per_code=codes.itemsize,
        peak_bytes_per_code=None
        if memory.added is None
        else f"{memory.added / codes.size:.2f} (target: below 3)",
    )


def speed_rows(quick: bool = False) -> Iterator[Row]:
    """Lines of the speed table: two shapes of tables, products with one float32 vector."""
    shapes = [shape for shape in SHAPES if shape.name in ("covtype", "cod-rna")]
    repeats = 2 if quick else 3
    yield from rows_of_cases(cases_of_codes(quick, shapes), TARGETS, repeats)
    matrices = matrices_of(quick, shapes)
    products = cases_of_products(matrices, [(np.float32, 1)])
    yield from rows_of_cases(products, TARGETS, repeats)


def main() -> None:
    benchmark = Benchmark(
        "Random binning: codes and products. 'mercer 2' is two threads; SciPy has one."
    )
    for title, cases in cases_of_codes(benchmark.quick, SHAPES).items():
        benchmark.compare(title, cases)
    bench_sparse_codes(benchmark)
    matrices = matrices_of(benchmark.quick, SHAPES)
    n = 5_000 if benchmark.quick else 50_000
    matrices["20 000 bins a grid"] = partial(many_bins, n, 32, 20_000)
    operands = [(np.float32, 1), (np.float64, 1), (np.float32, 10)]
    for title, cases in cases_of_products(matrices, operands).items():
        benchmark.compare(title, cases)
    bench_fit(benchmark)
    benchmark.judge(TARGETS)
    benchmark.finish()


if __name__ == "__main__":
    main()
