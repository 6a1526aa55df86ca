"""The methods of five papers at the full shapes of their data, on generated rows.

A shape is the number of rows, inputs and classes of a data set; its rows are generated. Inputs are
a smooth image of six hidden numbers, with noise; the class is the largest of smooth functions of
the hidden numbers, and a tenth of the rows have a class drawn at random. Settings are those of the
papers, where they state them. Errors therefore say whether a method learns, not how well it does on
the data set that has the shape.

Every run has a process of its own, which ends at ``--limit`` seconds. Fits of fewer rows come
first. Seconds of a full shape that is not fitted are extrapolated by the power of the rows between
the two largest fits, in seconds of processors, and at least by the first power; the record says so.

    python benchmarks/paper_shapes.py --json benchmarks/records/paper-shapes.json
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from _side_by_side import environment
from mercer import KernelClassifier, SparseKernelClassifier, solvers
from mercer.maps import RandomBinning, RandomFourier, SubspaceEmbedding
from run import busy_share

HIDDEN, WAVES = 6, 40  # numbers behind the inputs of a row, and cosines of a class function
WRONG = 0.1  # share of the rows whose class is drawn at random
NEW_ROWS = LINEAR_ROWS = PIECE = 50_000  # to predict, of the linear model, and generated at a time
SHAPES = {
    "covtype": (581_012, 54, 2),
    "SUSY": (5_000_000, 18, 2),
    "mnist8m": (8_100_000, 784, 10),
    "TIMIT": (2_250_000, 440, 147),
}  # rows, inputs and classes


def generated(
    data: str, n: int, seed: int, start: int = 0
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """n rows of a shape from row ``start`` on; the functions are the same for every seed.

    ``start`` is a multiple of ``PIECE``.
    """
    fixed = np.random.default_rng(0)
    _, inputs, classes = SHAPES[data]
    spread = fixed.normal(size=(HIDDEN, inputs)).astype(np.float32) / HIDDEN**0.5
    waves = fixed.normal(size=(HIDDEN, WAVES)).astype(np.float32) * 0.6
    phases = fixed.uniform(0, 2 * np.pi, WAVES).astype(np.float32)
    heights = fixed.normal(size=(WAVES, classes)).astype(np.float32)
    X, y = np.empty((n, inputs), np.float32), np.empty(n, np.int64)
    for first in range(0, n, PIECE):
        rng = np.random.default_rng([seed, start + first])
        rows = slice(first, min(n, first + PIECE))
        count = rows.stop - first
        hidden = rng.standard_normal((count, HIDDEN), dtype=np.float32)
        np.tanh(hidden @ spread, out=X[rows])
        X[rows] += 0.2 * (rng.random((count, inputs), dtype=np.float32) - 0.5)
        y[rows] = (np.cos(hidden @ waves + phases) @ heights).argmax(axis=1)
        drawn = rng.random(count) < WRONG
        y[rows][drawn] = rng.integers(0, classes, int(drawn.sum()))
    return X, y


class Method(NamedTuple):
    """A method of a paper, its model for n rows, and the shares of the rows that are fitted."""

    paper: str
    name: str
    data: str
    model: Callable[[int], Any]
    shares: tuple[float, ...]
    told: str  # time that the paper states, and its machine
    pieces: bool = False  # whether partial_fit takes the rows, PIECE at a time


def binned(gamma: float) -> Callable[[int], Any]:
    """128 grids, λ n = 0.01, plain conjugate gradients to 1e-3 or 50 iterations."""
    cg = solvers.ConjugateGradient(tol=1e-3, max_iter=50, preconditioner=None)
    grids = RandomBinning(gamma=gamma, n_components=128, random_state=0)
    return lambda n: KernelClassifier(grids, alpha=0.01 / n, solver=cg, fit_intercept=False)


def embedded(n: int) -> Any:
    """TEFM-G: 256 features of a base of 1024 cosines and sines, one power.

    Rows come in pieces, and the first piece determines the subspace.
    """
    return KernelClassifier(SubspaceEmbedding("fourier", 256), scale=False, random_state=0)


def sparse(n: int) -> Any:
    """Squared hinge and λ n = 1000 on at most 10 000 cosines, 200 a round."""
    return SparseKernelClassifier(alpha=1000 / n, n_new=200, max_rounds=50, random_state=0)


def asynchronous(n: int) -> Any:
    """Logistic loss on 200 cosines a round, five rounds of ten snapshots."""
    steps = solvers.AsyncSVRG.asydsskl(tol=1e-2, max_iter=10, batch_size=32)
    rounds: dict[str, Any] = {"n_new": 200, "max_rounds": 5, "solver": steps, "tol": 1e-2}
    return SparseKernelClassifier(loss="logistic", alpha=1e-3, random_state=0, **rounds)


def blocks(n: int) -> Any:
    """One accelerated epoch over 4096 cosines in blocks of 1024."""
    descent = solvers.BlockCoordinateDescent(tol=0.0, max_iter=1, block_size=1024)
    cosines = RandomFourier(n_components=4096, random_state=0)
    return KernelClassifier(cosines, solver=descent, scale=False)


WU, CHEN, YEN, GU, TU = "Wu 2016", "Chen 2015", "Yen 2014", "Gu 2018", "Tu 2016"
SLICE = "not of this shape; up to 45 s for 53 500 × 384, 1 thread (Fig. 3)"
MINUTE = "mostly below 60 s, 16 cores (text)"
WHOLE = "2.5 h an epoch of the full kernel, 128 machines of 4 cores (text)"
QUARTERS, SOME, LESS = (1 / 16, 1 / 4, 1.0), (1 / 64, 1 / 16, 1 / 4), (1 / 256, 1 / 64, 1 / 16)
METHODS = (
    Method(WU, "random binning", "covtype", binned(0.2), QUARTERS, "about 75 s, 16 cores (Fig. 5)"),
    Method(WU, "random binning", "SUSY", binned(0.2), QUARTERS, "about 260 s, 16 cores (Fig. 5)"),
    Method(CHEN, "TEFM-G", "mnist8m", embedded, (1 / 16, 1.0), SLICE, pieces=True),
    Method(YEN, "sparse random features", "covtype", sparse, SOME, "6273 s (Table 2)"),
    Method(GU, "AsyDSSKL", "covtype", asynchronous, QUARTERS, MINUTE),
    Method(GU, "AsyDSSKL", "SUSY", asynchronous, LESS, MINUTE),
    Method(TU, "block descent", "TIMIT", blocks, QUARTERS, WHOLE),
)


def fitted(method: Method, n: int) -> tuple[Any, float, float]:
    """The model of n rows, and the seconds and processor seconds of its fit."""
    model, seconds, worked = method.model(n), 0.0, 0.0
    data, classes = method.data, np.arange(SHAPES[method.data][2])
    size = PIECE if method.pieces else n
    for first in range(0, n, size):
        X, y = generated(data, min(size, n - first), 1, first)
        start, before = time.perf_counter(), time.process_time()
        if method.pieces:
            model.partial_fit(X, y, classes=classes)
        else:
            model.fit(X, y)
        seconds += time.perf_counter() - start
        worked += time.process_time() - before
    start, before = time.perf_counter(), time.process_time()
    if method.pieces:
        model.predict(X[:1])  # solves the sums
    return model, seconds + time.perf_counter() - start, worked + time.process_time() - before


def one(number: int, share: float) -> dict[str, Any]:
    """Seconds, memory and errors of one fit in this process."""
    method = METHODS[number]
    n = round(SHAPES[method.data][0] * share)
    model, seconds, worked = fitted(method, n)
    new, y_new = generated(method.data, NEW_ROWS, 2)
    start = time.perf_counter()
    found = model.predict(new)
    predicted = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    linear = KernelClassifier("linear").fit(*generated(method.data, min(n, LINEAR_ROWS), 1))
    return {
        "rows": n,
        "fit": seconds,
        "processor_seconds": worked,
        "predict": predicted - start,
        "peak_mb": peak,
        "error": float(np.mean(found != y_new)),
        "linear": float(np.mean(linear.predict(new) != y_new)),
        "floor": WRONG * (1 - 1 / SHAPES[method.data][2]),
    }


def measured(number: int, share: float, limit: float) -> dict[str, Any]:
    """Facts of a run in a process of its own, or why there are none."""
    command = [sys.executable, __file__, "--one", str(number), str(share)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return {"note": f"ended at {limit:.0f} s"}
    if done.returncode:
        return {"note": f"{done.returncode}: {done.stderr.strip()[-200:]}"}
    facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in facts.items()}


def runs_of(number: int, limit: float) -> Iterator[dict[str, Any]]:
    """Runs of a method, the fewest rows first."""
    method = METHODS[number]
    rows, inputs, classes = SHAPES[method.data]
    data = f"generated, shape of {method.data}: {inputs} inputs, {classes} classes"
    for share in method.shares:
        run = {"paper": method.paper, "method": method.name, "data": data}
        run |= {"rows": round(rows * share), "others": busy_share()}
        yield run | measured(number, share, limit)


def whole(number: int, runs: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Seconds at the full shape beside those of the paper, given runs of at least two sizes."""
    fits = [run for run in runs if "fit" in run][-2:]
    if len(fits) < 2:
        return
    (before, last), rows = fits, SHAPES[METHODS[number].data][0]
    ratio = last["processor_seconds"] / before["processor_seconds"]
    power = math.log(ratio) / math.log(last["rows"] / before["rows"])
    times = max(1.0, rows / last["rows"]) ** max(1.0, power)
    run = {name: last[name] for name in ("paper", "method", "data")}
    run |= {"rows": rows, "power_of_n": round(power, 2)}
    run["fitted"] = last["rows"]
    for name in ("fit", "processor_seconds"):
        run[f"full_{name}"] = float(f"{last[name] * times:.4g}")
    yield run | {"told": METHODS[number].told}


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=float, default=600.0, help="seconds of a run")
    parser.add_argument("--only", type=int, nargs="+", help="numbers of methods, from 0")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        sys.stdout.write(json.dumps(one(int(options.one[0]), float(options.one[1]))) + "\n")
        return
    runs: list[dict[str, Any]] = []
    for number in options.only or range(len(METHODS)):
        first = len(runs)
        for run in runs_of(number, options.limit):
            runs.append(run)
            sys.stdout.write(", ".join(f"{k} {v}" for k, v in run.items()) + "\n")
            sys.stdout.flush()
        runs += whole(number, runs[first:])
        if options.json:  # finished methods stay on record if a later one fails
            record = {"environment": environment(), "limit": options.limit, "runs": runs}
            options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
