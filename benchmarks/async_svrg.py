"""Asynchronous steps: against the memory they read, and against other ways to the same minimum.

Steps on dense float32 rows read a batch of them each; how many a second is compared with what the
memory delivers to plain reads of the same array on as many threads, and to reads of its rows in a
random order. The forms of AsyncSVRG and the
other solvers then minimise one problem, and the table says after how many seconds of solving F is
within a share of its start above the minimum. Rounds of a working set, each of which begins
where the one before ended, are timed on one and two threads beside coordinate descent. Repeats are
interleaved; medians are shown.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import threadpool_limits

from _side_by_side import environment, table
from mercer import SparseKernelClassifier, _core, datasets
from mercer.designs import Dense, Design
from mercer.losses import Logistic, Loss, Sigmoid, SquaredHinge
from mercer.maps import RandomBinning, RandomFourier
from mercer.penalties import L1, L2
from mercer.problem import Problem
from mercer.solvers import AsyncSVRG, CoordinateDescent, NewtonCG, Solver, TraceRow

LOSSES: dict[str, Loss] = {
    "logistic": Logistic(),
    "squared_hinge": SquaredHinge(),
    "sigmoid": Sigmoid(),
}
DATA = {"ijcnn1-train": 0.3, "cod-rna-train": 1.0, "covtype-sample": 1.0}
GOALS = (1e-1, 1e-2, 1e-3, 1e-4)
PAPER = {"margins": "recomputed", "sampling": "uniform", "block_size": 1}
FORMS: dict[str, dict[str, object]] = {
    "paper": PAPER,
    "own lengths": PAPER | {"sampling": "column"},
    "kept margins": {"margins": "kept", "sampling": "column"},
    "blocks of 32": {"block_size": 32},
    "blocks of 250": {"block_size": 250},
    "default": {},
    "bfloat16": {"precision": "bfloat16"},
}


# -- steps a second --------------------------------------------------------------------------------


def read(array: NDArray, n_threads: int) -> None:
    """One pass over the array by plain reads, a share of the rows on every thread."""
    ones = np.ones(array.shape[1], dtype=array.dtype)
    parts = np.array_split(np.arange(len(array)), n_threads)
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(lambda rows: array[rows[0] : rows[-1] + 1] @ ones, parts))


def random_reads(array: NDArray) -> Callable[[int], None]:
    """Reads of as many rows, and two numbers with each, in an order that nobody foresees."""
    n, p = array.shape
    order = np.random.default_rng(1).integers(n, size=n)
    first, second, ones = np.ones(n), np.ones(n), np.ones(p, dtype=array.dtype)
    size = max(1, 2**16 // p)  # of what stays in a core's cache

    def read_some(rows: NDArray) -> None:
        block = np.empty((size, p), dtype=array.dtype)
        for start in range(0, len(rows), size):
            some = rows[start : start + size]
            np.take(array, some, axis=0, out=block[: len(some)], mode="clip") @ ones
            _ = first[some], second[some]

    def read_all(n_threads: int) -> None:
        with threadpool_limits(1, "blas"), ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(read_some, np.array_split(order, n_threads)))

    return read_all


def steps(array: NDArray, halves: NDArray, batch: int, n_steps: int) -> dict[str, Callable]:
    """Runs of so many steps, by name, on one and two threads and on rows of half the bytes."""
    n, p = array.shape
    rng = np.random.default_rng(0)
    y = rng.choice([-1.0, 1.0], size=n)
    zeros, slopes = np.zeros(p), -0.5 * y

    def run(rows: NDArray, n_threads: int) -> Callable[[], object]:
        view = _core.AsyncSteps.dense(rows)
        given = (y, None, "logistic", 0.0, np.zeros(p), slopes, None)
        lengths = np.full(p, 1e-3)
        course = (1, 24, 0, n_steps, batch, 1)
        return lambda: view.walk(*given, zeros, lengths, zeros, zeros, *course, n_threads)

    return {
        "1 thread": run(array, 1),
        "2 threads": run(array, 2),
        "2 threads, bfloat16": run(halves, 2),
    }


Seconds = dict[str, list[float]]


def seconds_of_steps(
    n: int, p: int, batches: Sequence[int], repeats: int
) -> Iterator[tuple[int, int, NDArray, Seconds]]:
    """(Rows of a step, steps, the array, seconds of every repeat of reads and steps)."""
    rng = np.random.default_rng(0)
    array = rng.normal(size=(n, p)).astype(np.float32)
    halves = (array.view(np.uint32) >> 16).astype(np.uint16)
    at_random = random_reads(array)
    for batch in batches:
        n_steps = max(1, n // batch)
        runs: dict[str, Callable] = {
            "read 1": lambda: read(array, 1),
            "read 2": lambda: read(array, 2),
            "random 1": lambda: at_random(1),
            "random 2": lambda: at_random(2),
        }
        runs |= steps(array, halves, batch, n_steps)
        seconds: Seconds = {name: [] for name in runs}
        for _ in range(repeats):
            for name, run in runs.items():
                start = time.perf_counter()
                run()
                seconds[name].append(time.perf_counter() - start)
        yield batch, n_steps, array, seconds


def bandwidth(n: int, p: int, batches: Sequence[int], repeats: int) -> None:
    """Updates a second, and the share of the memory's speed that they take."""
    lines = []
    for batch, n_steps, array, seconds in seconds_of_steps(n, p, batches, repeats):
        t = {name: statistics.median(values) for name, values in seconds.items()}
        passes = n_steps * batch / n
        lines.append(
            {
                f"rows of {p} float32": f"batch {batch}",
                "memory, 1 and 2 threads": " ".join(
                    f"{array.nbytes / t[f'read {k}'] / 1e9:.1f} GB/s" for k in (1, 2)
                ),
                "updates/s, 1 thread": f"{n_steps / t['1 thread'] / 1e6:.3f} M",
                "2 threads": f"{n_steps / t['2 threads'] / 1e6:.3f} M",
                "speed-up": f"{t['1 thread'] / t['2 threads']:.2f}x",
                "of the memory's speed, 1": f"{passes * t['read 1'] / t['1 thread']:.0%}",
                "2": f"{passes * t['read 2'] / t['2 threads']:.0%}",
                "at random, 1": f"{passes * t['random 1'] / t['1 thread']:.0%}",
                "at random, 2": f"{passes * t['random 2'] / t['2 threads']:.0%}",
                "bfloat16 is": f"{t['2 threads'] / t['2 threads, bfloat16']:.2f}x",
            }
        )
    sys.stdout.write("\n" + table(lines) + "\n")


# -- seconds to a goal -----------------------------------------------------------------------------


def matrices(name: str, kind: str, n_rows: int) -> tuple[Design, NDArray]:
    """The design of one data set, and targets ±1."""
    data = datasets.load(name)
    X = data.X.toarray() if sparse.issparse(data.X) else np.asarray(data.X)
    X, labels = X[:n_rows].astype(np.float64), np.asarray(data.y)[:n_rows]
    y = np.where(labels == np.unique(labels)[-1], 1.0, -1.0)
    if kind == "binning":
        map_ = RandomBinning(gamma=DATA[name], n_components=128, scale=False, random_state=0)
        return map_.fit_design(X.astype(np.float32)), y
    fourier = RandomFourier(gamma=DATA[name], n_components=1000, scale=False, random_state=0)
    return Dense(fourier.fit_transform(X.astype(np.float32))), y


def others(problem: Problem, n_jobs: int) -> dict[str, Solver]:
    """The solvers to compare with."""
    if problem.penalty.quadratic:
        return {"NewtonCG": NewtonCG(tol=1e-6)}
    return {"CoordinateDescent": CoordinateDescent(tol=1e-6, n_jobs=n_jobs)}


def contenders(problem: Problem, n_jobs: int, loops: int) -> dict[str, Solver]:
    """Everybody who minimises the problem."""
    found = others(problem, n_jobs)
    for name, settings in FORMS.items():
        if isinstance(problem.design, Dense) or name in ("paper", "own lengths", "default"):
            found[name] = AsyncSVRG(0.0, loops, n_jobs=n_jobs, **settings)
    return found


def seconds_to(trace: Sequence[TraceRow], least: float, goal: float) -> float:
    """When F first was within the goal; infinite if never."""
    limit = least + goal * (trace[0].objective - least)
    return next((row.time for row in trace if row.objective <= limit), np.inf)


def race(title: str, problem: Problem, n_jobs: int, loops: int, repeats: int) -> None:
    """The table of one problem."""
    solvers = contenders(problem, n_jobs, loops)
    traces: dict[str, list[list[TraceRow]]] = {name: [] for name in solvers}
    for _ in range(repeats):
        for name, solver in solvers.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                traces[name].append(solver.solve(problem).trace)
    least = min(row.objective for runs in traces.values() for trace in runs for row in trace)
    lines = []
    for name, runs in traces.items():
        line = {title: name}
        for goal in GOALS:
            t = statistics.median(seconds_to(trace, least, goal) for trace in runs)
            line[f"to {goal:g}"] = f"{t:.2f} s" if np.isfinite(t) else "-"
        last = statistics.median(trace[-1].objective for trace in runs)
        line["reached"] = f"{(last - least) / (runs[0][0].objective - least):.0e}"
        line["after"] = f"{statistics.median(trace[-1].time for trace in runs):.2f} s"
        line["weights"] = str(runs[0][-1].n_nonzero)
        lines.append(line)
    sys.stdout.write("\n" + table(lines) + "\n")
    sys.stdout.flush()


# -- rounds of a working set -----------------------------------------------------------------------


WAYS = [(name, k) for name in ("async", "cd") for k in (1, 2)]


def fits_of_rounds(
    n_rows: int, tols: Sequence[float], repeats: int
) -> Iterator[tuple[float, dict, dict]]:
    """(Tolerance, seconds, gaps) of three rounds of 200 features on cod-rna, by way."""
    data = datasets.load("cod-rna-train")
    X = data.X.toarray() if sparse.issparse(data.X) else np.asarray(data.X)
    for tol in tols:
        seconds: dict[tuple[str, int], list[float]] = {way: [] for way in WAYS}
        gaps: dict[tuple[str, int], list[float]] = {way: [] for way in WAYS}
        for seed in range(100, 100 + repeats):
            rows = np.random.default_rng(seed).permutation(len(X))[:n_rows]
            for name, k in WAYS:
                fourier = RandomFourier("gaussian", 0.1)
                model = SparseKernelClassifier(
                    fourier, solver=name, loss="logistic", alpha=1e-4, n_new=200, max_rounds=3,
                    tol=tol, n_jobs=k, random_state=seed,
                )  # fmt: skip
                with threadpool_limits(k), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    start = time.perf_counter()
                    model.fit(X[rows], data.y[rows])
                seconds[name, k].append(time.perf_counter() - start)
                gaps[name, k].append(model.dual_gap_)
        yield tol, seconds, gaps


def rounds(n_rows: int, tols: Sequence[float], repeats: int) -> None:
    """Seconds of rounds, and the gap they end with."""
    lines = []
    for tol, seconds, gaps in fits_of_rounds(n_rows, tols, repeats):
        line = {f"{n_rows} rows of cod-rna": f"tol {tol:g}"}
        for name, k in WAYS:
            t, gap = statistics.median(seconds[name, k]), max(gaps[name, k])
            line[f"{name}, {k} thr."] = f"{t:.2f} s ({gap:.0e})"
        lines.append(line)
    sys.stdout.write("\n" + table(lines) + "\n")


# -- lines of the speed table ----------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=["ijcnn1-train"], choices=list(DATA))
    parser.add_argument("--features", nargs="+", default=["fourier", "binning"])
    parser.add_argument(
        "--losses", nargs="+", default=["logistic", "sigmoid"], choices=list(LOSSES)
    )
    parser.add_argument("--share", type=float, default=0.03, help="alpha, of what leaves no weight")
    parser.add_argument("--ridge", action="store_true", help="also a quadratic penalty")
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--loops", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--width", type=int, default=1024, help="columns of the rows of steps")
    parser.add_argument("--only", choices=["steps", "race", "rounds"])
    options = parser.parse_args()
    facts = ", ".join(f"{name} {value}" for name, value in environment().items() if value)
    sys.stdout.write(f"{__doc__.splitlines()[0]}\n{facts}\n")
    if options.only in (None, "rounds"):
        rounds(options.rows, (1e-2, 1e-3, 1e-4), options.repeats)
    if options.only in (None, "steps"):
        bandwidth(4 * 10**8 // (4 * options.width), options.width, (1, 8, 32), options.repeats)
    if options.only in ("steps", "rounds"):
        return
    for name in options.data:
        for kind in options.features:
            design, y = matrices(name, kind, options.rows)
            for loss in options.losses:
                problem = Problem(design, y, LOSSES[loss], L1(1.0))
                strength = options.share * problem.alpha_max()
                penalties = [L1(strength), L2(strength)] if options.ridge else [L1(strength)]
                for penalty in penalties:
                    for n_jobs in options.threads:
                        title = f"{name} {kind}, {loss}, {penalty.name}, {n_jobs} thr."
                        race(
                            title,
                            problem.with_penalty(penalty),
                            n_jobs,
                            options.loops,
                            options.repeats,
                        )


if __name__ == "__main__":
    main()
