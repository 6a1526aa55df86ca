"""How near work comes to what the processor allows: the share of a limit that it meets.

A limit is measured beside the work, one thread each, by bare loops on near memory
(``limits.cpp``): the arithmetic of the same sums and functions without anything to load, check or
store, the loads and stores that a product with a binned matrix cannot do without, or plain writes
of the result. It is the seconds of one resource, or of several that share it, and is no promise
that all of it can be had. The formulas of functions are mercer's own.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dgemm, sgemm

from _shapes import SHAPES, Grids, binned
from _side_by_side import Benchmark, Row, repeated
from binning import many_bins, mercer_codes
from mercer import _core

REACHED = 0.8  # the share of a limit that leaves little to gain
GEMM = {np.float32: sgemm, np.float64: dgemm}
BITS = {np.float32: "f32", np.float64: "f64"}


@dataclass(frozen=True)
class Work:
    """A function, and the parts of its limit, whose seconds add up; ``limit`` says which."""

    name: str
    run: Callable[[], object]
    limit: str
    parts: tuple[Callable[[], object], ...]


def bare_loops() -> ctypes.CDLL | None:
    """limits.cpp for this very processor, if there is a compiler that knows it."""
    if shutil.which("c++") is None:
        return None
    library, here = Path(tempfile.mkdtemp()) / "limits.so", Path(__file__).resolve()
    flags = ["-std=c++20", "-O3", "-march=native", "-shared", "-fPIC", f"-I{here.parents[1]}/cpp"]
    command = ["c++", *flags, str(here.with_suffix(".cpp")), "-o", str(library)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        return None
    return ctypes.CDLL(str(library))


def loop(bare: ctypes.CDLL, name: str, *arguments: int | NDArray) -> Callable[[], object]:
    """A call of a bare loop; arrays among its arguments live as long as it does."""

    def run() -> None:
        bare[name](
            *(
                ctypes.c_size_t(value)
                if isinstance(value, int)
                else ctypes.c_void_p(value.ctypes.data)
                for value in arguments
            )
        )

    return run


def codes(bare: ctypes.CDLL, shrink: int) -> Iterator[Work]:
    """Codes of few inputs: float32 arithmetic, and for exact bins one read of a dictionary."""
    n_grids = 64
    for shape in (shape for shape in SHAPES if shape.d == 8):
        n = shape.n // shrink
        X, grids = shape.table(n), Grids(n_grids, shape.d, shape.gamma)
        out, pairs = np.empty((n_grids, n), np.uint16), n * n_grids
        arithmetic = loop(bare, "codes_f32", pairs, shape.d)
        name = f"{shape.name}-shaped, d = {shape.d}, n = {n}, R = {n_grids}"
        hashed = partial(_core.bin_hashed, X, *grids.arguments, 4096, out, 1)
        yield Work(f"codes, 4096 hashed bins: {name}", hashed, "arithmetic of codes", (arithmetic,))
        exact = partial(mercer_codes, X, grids, out, 1)
        read = visits(bare, "read_f32", (np.arange(pairs) % 512).astype(np.uint16), 1)
        yield Work(f"codes, exact bins: {name}", exact, "the same and a read", (arithmetic, read))


def visits(
    bare: ctypes.CDLL, name: str, codes: NDArray[np.uint16], numbers: int
) -> Callable[[], object]:
    """Reads of, or additions to, the entries of a table that the codes name, of some numbers each.

    Entries are whole vectors where they are no single numbers, as those of mercer's tables are.
    """
    item = 8 if name.startswith("add") else 4
    single, size = numbers == 1, bare.vector_bytes()
    vectors = 1 if single else -(-item * numbers // size)
    table = np.zeros((int(codes.max()) + 1) * (item if single else vectors * size) + size, np.uint8)
    table = table[-table.ctypes.data % size :]
    return loop(bare, name, codes.size, vectors, codes, table)


def products(bare: ctypes.CDLL, shrink: int) -> Iterator[Work]:
    """Products with binned matrices: reads of codes, reads of and additions to entries.

    Entries of few bins are visited in turn, so that none waits for the one before; those of many
    as the codes have it.
    """
    covtype = SHAPES[0]
    matrices = {
        "covtype-shaped": binned(covtype, covtype.n // shrink, 128),
        "20 000 bins a grid": many_bins(50_000 // shrink, 32, 20_000),
    }
    rng = np.random.default_rng(0)
    for title, (matrix, offsets) in matrices.items():
        n, bins = matrix.shape[1], int(offsets[-1]) // len(matrix)
        few = (np.arange(matrix.size) % bins).astype(np.uint16)
        visited = few if bins < 1000 else matrix.ravel()
        for k in (1, 10):
            tail = () if k == 1 else (k,)
            w = rng.normal(size=(offsets[-1], *tail)).astype(np.float32)
            v = rng.normal(size=(n, *tail)).astype(np.float32)
            kind = "" if k == 1 else "vectors"
            read = visits(bare, f"read_{kind or 'f32'}", visited, k)
            add = visits(bare, f"add_{kind or 'f64'}", visited, k)
            name = f"{title}, float32, {k} output{'s' * (k > 1)}"
            for product, function, operand, out, limit, parts in (
                ("Z w", _core.binned_matvec, w, np.empty_like(v), "reads", (read,)),
                ("Z' v", _core.binned_rmatvec, v, np.empty_like(w), "additions", (add,)),
                ("Z (Z' v)", _core.binned_gram_matvec, v, np.empty_like(v), "both", (add, read)),
            ):
                run = partial(function, matrix, offsets, operand, out, 0.1, False, 1)
                yield Work(f"{product}: {name}", run, limit, parts)


def dense(bare: ctypes.CDLL, shrink: int) -> Iterator[Work]:
    """Blocks of sums over inputs and a function of each: multiply-adds and the function."""
    rng = np.random.default_rng(1)
    for n, d, m in [(50_000, 8, 500), (20_000, 54, 1000), (4_000, 780, 1000)]:
        n = n // 2 // shrink
        for dtype in (np.float32, np.float64):
            X, Y = (rng.normal(size=(rows, d)).astype(dtype) for rows in (n, m))
            bits, out = BITS[dtype], np.empty((n, m), dtype)
            shape = f"n = {n}, d = {d}, m = {m}, {dtype.__name__}"
            sums = loop(bare, f"multiply_add_{bits}", n * m * d)
            decays = loop(bare, f"decays_{bits}", n * m)
            centre, scale = np.zeros(d), np.full(d, d**-0.5)
            points = X, Y, centre, scale, 1.0
            block = partial(_core.kernel_block, "gaussian", *points, out, 1)
            limit = "multiply-adds and exponentials"
            if d > 8:
                yield Work(f"gaussian kernel block: {shape}", block, limit, (sums, decays))
                weights, result = np.ones((m, 1), dtype), np.zeros((n, 1))
                given = weights, result, None, None, 1, True
                product = partial(_core.kernel_product, "gaussian", *points, *given)
                yield Work(f"gaussian kernel product: {shape}", product, limit, (sums, decays))
                blas = partial(GEMM[dtype], 1.0, Y, X, trans_a=False, trans_b=True)
                title = "gaussian kernel block against a product alone"
                yield Work(f"{title}: {shape}", block, "BLAS", (blas,))
            if dtype is np.float32:
                phases = rng.uniform(0, 6, m).astype(dtype)
                cosines = partial(_core.cosine_block, X, Y, phases, 0.1, out, 1)
                functions = loop(bare, "cosines_f32", n * m)
                limit = "multiply-adds and cosines"
                yield Work(f"cosine block: {shape}", cosines, limit, (sums, functions))
                writes = partial(out.fill, 0.5)
                yield Work(f"cosine block: {shape}", cosines, "writes of the result", (writes,))


def all_work(quick: bool) -> Iterator[Work]:
    bare = bare_loops()
    if bare is None:
        return
    for part in (codes, products, dense):
        yield from part(bare, 10 if quick else 1)


def row_of(work: Work, repeats: int) -> Row:
    """Seconds of the limit as a peer's: the ratio is the share of the limit that is reached."""
    parts: Mapping[str, Callable[[], object]] = {str(i): run for i, run in enumerate(work.parts)}
    seconds = repeated({"work": work.run, **parts}, repeats)
    ours = seconds.pop("work")
    limits = tuple(map(sum, zip(*seconds.values(), strict=True)))
    return Row(f"{work.name}, share of its limit", ours, work.limit, limits, REACHED, 1)


def speed_rows(quick: bool = False) -> Iterator[Row]:
    """Lines of the speed table."""
    for work in all_work(quick):
        yield row_of(work, 2 if quick else 3)


def print_rows(benchmark: Benchmark, rows: Iterable[Row]) -> None:
    for row in rows:
        share = f"{row.ratio or 0:.0%} of the limit"
        benchmark.note(row.work, share=share, limit=row.peer, seconds=min(row.ours))


def main() -> None:
    benchmark = Benchmark(__doc__.splitlines()[0])
    print_rows(benchmark, (row_of(work, benchmark.repeats) for work in all_work(benchmark.quick)))
    benchmark.finish()


if __name__ == "__main__":
    main()
