"""Seconds of whole tasks by this tree and by an earlier revision, built beside it.

    python benchmarks/against_base.py main          # 1 if a task takes more than 1.3 times as long
    python benchmarks/against_base.py v0.4.0 --repeats 7 --only automatic

Both are built and run on one machine, each repeat in a process of its own, and take turns, since
times of one machine drift. The least seconds of each are compared: other programs only ever add.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
SLOWER = 1.3  # most seconds per second of the base; equal revisions differ by up to a tenth


def _task(name: str, n: int, warm: int) -> Callable[[], object]:
    """A task of ``whole_tasks.py``, after a small run that loads modules."""
    import whole_tasks

    run = getattr(whole_tasks, name)
    run(whole_tasks.OURS, warm)
    return lambda: run(whole_tasks.OURS, n)


def _automatic() -> Callable[[], object]:
    """Search, fit and predictions of two tables without words, of numbers and of classes."""
    import mercer
    from whole_tasks import friedman

    def run(n: int) -> None:
        (X, y), (new, _) = friedman(n, 1, 8), friedman(1000, 2, 8)
        mercer.AutoKernelRegressor(random_state=0).fit(X, y).predict(new)
        labels = y > np.median(y)
        mercer.AutoKernelClassifier(random_state=0).fit(X, labels).predict_proba(new)

    run(100)
    return lambda: run(1500)


TASKS: dict[str, Callable[[], Callable[[], object]]] = {
    "automatic, 1500 rows": _automatic,
    "automatic, numbers and words, 20 000 rows": lambda: _task("automatic", 20_000, 200),
    "exact kernel ridge, 5000 rows": lambda: _task("exact_ridge", 5000, 200),
    "ridge on 2000 cosines, 20 000 rows": lambda: _task("fourier_ridge", 20_000, 200),
    "exact bins of 256 grids, 200 000 rows": lambda: _task("bins", 200_000, 200),
}


def timed(name: str) -> float:
    """Wall seconds of a task in this process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = TASKS[name]()
        start = time.perf_counter()
        run()
        return time.perf_counter() - start


def seconds(name: str, folders: tuple[str, str], repeats: int) -> tuple[float, float]:
    """Least seconds of a task by the base and by this tree."""
    found: list[list[float]] = [[], []]
    for _ in range(repeats):
        for folder, times in zip(folders, found, strict=True):
            run = subprocess.run(
                [sys.executable, __file__, "--task", name, "-"],
                env={**os.environ, "PYTHONPATH": folder}, stdout=subprocess.PIPE, check=True,
            )  # fmt: skip
            times.append(json.loads(run.stdout))
    return min(found[0]), min(found[1])


def main() -> int:
    """Print a line for each task; 1 if one of them has become slower."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("revision", help="what git calls the base")
    parser.add_argument("--task", choices=TASKS, help=argparse.SUPPRESS)
    parser.add_argument("--only", default="", help="tasks whose name holds this text")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each (3)")
    options = parser.parse_args()
    if options.task:
        sys.stdout.write(f"{timed(options.task)}\n")
        return 0
    names = [name for name in TASKS if options.only in name]
    if not names:
        parser.error(f"--only must be in the name of a task; got {options.only!r}")
    if options.repeats < 1:
        parser.error(f"--repeats must be at least 1; got {options.repeats}")
    sys.path.insert(0, str(HERE.parent / "tests"))
    from golden import built_beside

    ratios = {}
    with built_beside(options.revision) as folders:
        for name in names:
            before, after = seconds(name, folders, options.repeats)
            ratios[name] = after / before
            told = f"{name}: {before:.2f} s by {options.revision}, {after:.2f} s now"
            late = f", more than {SLOWER}" if ratios[name] > SLOWER else ""
            sys.stdout.write(f"{told}: {ratios[name]:.2f} times{late}\n")
            sys.stdout.flush()
    sys.stdout.write(f"geometric mean: {statistics.geometric_mean(ratios.values()):.2f} times\n")
    return int(max(ratios.values()) > SLOWER)


if __name__ == "__main__":
    sys.exit(main())
