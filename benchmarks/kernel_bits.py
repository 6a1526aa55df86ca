"""Held kernel matrices in 32 and 16 bits an entry: memory, products, their errors, and fits.

Errors of products K v are relative to float64, of 512 rows and a random v. Those of float16 and
bfloat16 are what rounding of entries alone gives, with exact sums: such matrices would hold whole
rows, in half the memory of float32. Fits are conjugate gradients to the tolerance, whose residual
is computed afresh in float64, with n·alpha = 0.01 and the default preconditioner.

With ``--landmarks p`` alone the span of p landmarks of 3 p rows is fitted instead, from rows in
float32 and float64: seconds, memory in units of p² bytes, and how far F is above its minimum.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from _side_by_side import Benchmark, Row, measure, repeated, table
from mercer.datasets import load
from mercer.designs import FixedPointKernel, KernelColumns
from mercer.kernels import Gaussian, Kernel, Laplacian
from mercer.losses import Squared
from mercer.penalties import RKHSNorm
from mercer.problem import Problem
from mercer.solvers import Cholesky, ConjugateGradient

KERNELS = {"gaussian": Gaussian, "laplacian": Laplacian}
N_ROWS = {"quick": 4000, "full": 20_000}
SAMPLE = 512
_RIDGE = 0.01  # n·alpha
LARGEST_DIRECT = 4000  # landmarks up to which the minimum is computed


def rows_of(name: str, n: int, seed: int) -> tuple[NDArray, NDArray]:
    """Standardised rows in float32, and targets ±1."""
    data = load(name)
    X = data.X.toarray() if hasattr(data.X, "toarray") else np.asarray(data.X)
    order = np.random.default_rng(seed).permutation(len(X))[:n]
    X = X[order].astype(np.float64)
    X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9)
    y = np.where(np.asarray(data.y)[order] == np.max(data.y), 1.0, -1.0)
    return X.astype(np.float32), y - y.mean()


def bfloat16(matrix: NDArray[np.float32]) -> NDArray[np.float32]:
    """The nearest numbers of 8 significant bits."""
    bits = matrix.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def errors(kernel: Kernel, X: NDArray, products: dict[str, NDArray], v: NDArray) -> dict[str, str]:
    """Relative errors of products, and of those with rounded entries, of some rows."""
    rows = np.arange(0, len(X), max(1, len(X) // SAMPLE))
    K = kernel(X[rows].astype(np.float64), X.astype(np.float64))
    truth = K @ v.astype(np.float64)
    found = {name: product[rows] for name, product in products.items()}
    single = K.astype(np.float32)
    found["float16 (rounding alone)"] = single.astype(np.float16).astype(np.float64) @ v
    found["bfloat16 (rounding alone)"] = bfloat16(single).astype(np.float64) @ v
    return {
        name: f"{np.linalg.norm(product - truth) / np.linalg.norm(truth):.1e}"
        for name, product in found.items()
    }


def fit(
    X: NDArray, y: NDArray, kernel: Kernel, tol: float, hold: str, n_jobs: int
) -> tuple[float, int, float]:
    """Seconds, iterations and the true relative residual of a machine by conjugate gradients."""
    n = len(y)
    design = KernelColumns(X, kernel, n_jobs=n_jobs)
    problem = Problem(
        design, y.astype(np.float32), Squared(), RKHSNorm(_RIDGE / n, design), None, False
    )
    start = time.perf_counter()
    result = ConjugateGradient(tol=tol, hold={"yes": True, "no": False}.get(hold, hold)).solve(
        problem
    )
    seconds = time.perf_counter() - start
    coef = np.asarray(result.coef, dtype=np.float64).reshape(n)
    left = y - design.matvec(coef) - _RIDGE * coef
    return seconds, result.n_iter, float(np.linalg.norm(left) / np.linalg.norm(y))


def landmark_row(X: NDArray, y: NDArray, kernel: Kernel, p: int, dtype: str, hold: bool) -> dict:
    """A fit in the span of the first p rows, by conjugate gradients to a residual of 1e-3."""
    problems = []
    for each in (dtype, "float64"):
        Z = X.astype(each)
        design = KernelColumns(Z, kernel, landmarks=Z[:p], n_jobs=1)
        norm = RKHSNorm(1e-6, design.landmark_design())
        problems.append(Problem(design, y.astype(each), Squared(), norm))
    tracemalloc.start()
    start = time.perf_counter()
    result = ConjugateGradient(tol=1e-3, hold=hold).solve(problems[0])
    seconds = time.perf_counter() - start
    peak = tracemalloc.get_traced_memory()[1] / p**2
    tracemalloc.stop()
    entries = {"fit": f"{p} landmarks, {dtype}, {'held' if hold else 'made anew'}"}
    entries |= {"seconds": f"{seconds:.2f}", "iterations": str(result.n_iter)}
    entries["memory / p^2"] = f"{peak:.1f}"
    if p <= LARGEST_DIRECT:
        least = problems[1].value(Cholesky().solve(problems[1]).coef)
        value = problems[1].value(result.coef.astype(np.float64))
        entries["F above its minimum"] = f"{value / least - 1:.1e}"
    return entries


def landmarks(options: argparse.Namespace) -> str:
    """Fits from both types of rows, with matrices made anew and held."""
    X, y = rows_of(options.data, 3 * options.landmarks, options.seed)
    kernel = Gaussian(options.gamma or 1.0 / X.shape[1])
    cases = ((dtype, hold) for dtype in ("float32", "float64") for hold in (False, True))
    with threadpool_limits(options.jobs):
        return table(landmark_row(X, y, kernel, options.landmarks, *case) for case in cases)


def speed_rows(quick: bool = False) -> Iterator[Row]:
    """Lines of the speed table."""
    n, data = (500 if quick else 10_000), "covtype-sample"
    X, _ = rows_of(data, n, 100)
    v = np.random.default_rng(100).normal(size=len(X)).astype(np.float32)
    for name, kernel in KERNELS.items():
        design = KernelColumns(X, kernel(1.0 / X.shape[1]), n_jobs=1)
        work = {
            "16 bits": partial(FixedPointKernel(design).matvec, v),
            "32 bits": partial(design.held().matvec, v),
        }
        seconds = repeated(work, 5)
        title = f"product with a held {name} matrix in 16 bits, {len(X)} rows of {data}"
        yield Row(title, seconds["16 bits"], "32 bits", seconds["32 bits"], 1.0)


def main() -> None:
    def arguments(parser):
        parser.add_argument("--data", default="covtype-sample")
        parser.add_argument("--kernel", nargs="+", default=list(KERNELS), choices=list(KERNELS))
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("--jobs", type=int, default=1)
        parser.add_argument("--tol", type=float, nargs="+", default=[1e-3])
        parser.add_argument("--landmarks", type=int)
        parser.add_argument("--gamma", type=float, help="1 / inputs by default")

    benchmark = Benchmark(__doc__.splitlines()[0], arguments)
    options = benchmark.options
    if options.landmarks:
        benchmark.write(landmarks(options))
        benchmark.finish()
        return
    X, y = rows_of(options.data, N_ROWS["quick" if benchmark.quick else "full"], options.seed)
    n, d = X.shape
    v = np.random.default_rng(options.seed).normal(size=n).astype(np.float32)
    for kernel in (KERNELS[name](1.0 / d) for name in options.kernel):
        design = KernelColumns(X, kernel, n_jobs=options.jobs)
        start = time.perf_counter()
        fixed = FixedPointKernel(design)
        made = {"16 bits, half": time.perf_counter() - start}
        start = time.perf_counter()
        held = design.held()
        made["float32"] = time.perf_counter() - start
        designs = {"float32": held, "16 bits, half": fixed, "made anew": design}
        work: dict[str, Callable[[], NDArray]] = {
            name: partial(matrix.matvec, v) for name, matrix in designs.items()
        }
        seconds = measure(work, benchmark.repeats)
        wrong = errors(kernel, X, {name: run() for name, run in work.items()}, v)
        sizes = {"float32": held.matrix.nbytes, "16 bits, half": fixed._numbers.nbytes}
        del held, fixed, designs, work
        case = f"{options.data}, {n} rows, {kernel!r}"
        benchmark.write("\n" + table(
            {
                case: name,
                "memory": f"{sizes[name] / 1e9:.2f} GB" if name in sizes else "",
                "made in": f"{made[name]:.2f} s" if name in made else "",
                "product": f"{1e3 * seconds[name]:.1f} ms" if name in seconds else "",
                "error": wrong[name],
            }
            for name in wrong
        ))  # fmt: skip
        rows = []
        for tol in options.tol:
            for hold, label in (("yes", "float32"), ("auto", "auto"), ("no", "made anew")):
                took, n_iter, residual = fit(X, y, kernel, tol, hold, options.jobs)
                rows.append({
                    f"fit, {case}": f"tol {tol:g}, {label}", "seconds": f"{took:.2f}",
                    "iterations": str(n_iter), "true residual": f"{residual:.1e}",
                })  # fmt: skip
        benchmark.write("\n" + table(rows))
    benchmark.finish()


if __name__ == "__main__":
    main()
