"""Fits at the same time on one machine: processor seconds and wall seconds against a fit alone.

Each case is fitted alone, in two processes at once, by two workers of joblib and by two threads of
one process. Two fits at once should take at most 1.15 times the processor seconds of a fit alone,
and at most 2.2 times its wall seconds: so does work that only shares the cores. Threads that spin
while they wait break the first bound. Medians of ``--repeats`` rounds,
in which all ways take turns.
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
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import joblib
import numpy as np

from mercer import AutoKernelClassifier, AutoKernelRegressor, KernelClassifier, KernelRegressor

RECORD = Path(__file__).parent / "records" / "shared-machine.json"
PROCESSOR, WALL = 1.15, 2.2  # largest ratios of two fits at once to a fit alone


def rows(n: int) -> tuple[np.ndarray, np.ndarray]:
    """A smooth target of eight inputs with noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 8))
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n)


def _numbers(model: KernelRegressor | AutoKernelRegressor, n: int) -> None:
    X, y = rows(n)
    model.fit(X, y).predict(X)


def _classes(model: KernelClassifier | AutoKernelClassifier, n: int) -> None:
    X, y = rows(n)
    model.fit(X, y > 0).predict_proba(X)


CASES: dict[str, tuple[Callable[[int], None], int]] = {
    "automatic, 2000 rows": (lambda n: _numbers(AutoKernelRegressor(random_state=0), n), 2000),
    "automatic classes, 2000 rows": (
        lambda n: _classes(AutoKernelClassifier(random_state=0), n),
        2000,
    ),
    "exact, 5000 rows": (lambda n: _numbers(KernelRegressor("exact", alpha=1e-4), n), 5000),
    "exact classes, 5000 rows": (
        lambda n: _classes(KernelClassifier("exact", alpha=1e-4), n),
        5000,
    ),
    "left out, 5000 rows": (
        lambda n: _numbers(KernelRegressor("exact", alphas=[1e-5, 1e-4, 1e-3], selection="loo"), n),
        5000,
    ),
    "landmarks, 50 000 rows": (
        lambda n: _numbers(
            KernelRegressor("nystroem", n_components=1000, alpha=1e-5, random_state=0), n
        ),
        50_000,
    ),
    "exact, 14 000 rows": (lambda n: _numbers(KernelRegressor("exact", alpha=1e-4), n), 14_000),
}


def fitted(name: str) -> float:
    """Processor seconds of this process for a case, after a small one that loads modules."""
    fit, n = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit(300)
        start = time.process_time()
        fit(n)
        return time.process_time() - start


def in_processes(name: str, count: int) -> float:
    """Mean processor seconds of fits in processes of their own."""
    command = [sys.executable, __file__, "--fit", name]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(count)]
    return statistics.mean(float(process.communicate()[0]) for process in started)


def in_workers(name: str, count: int) -> float:
    """The same, in workers of joblib."""
    return statistics.mean(joblib.Parallel(n_jobs=count)([joblib.delayed(fitted)(name)] * count))


def in_threads(name: str, count: int) -> float:
    """The same, in threads of this process."""
    start = time.process_time()
    with ThreadPoolExecutor(count) as pool:
        list(pool.map(fitted, [name] * count))
    return (time.process_time() - start) / count


WAYS: dict[str, Callable[[str], float]] = {
    "alone": lambda name: in_processes(name, 1),
    "two processes": lambda name: in_processes(name, 2),
    "two workers of joblib": lambda name: in_workers(name, 2),
    "two threads": lambda name: in_threads(name, 2),
}


def measured(name: str, repeats: int) -> dict[str, dict[str, float]]:
    """Median processor and wall seconds of every way, and their ratios to a fit alone."""
    seconds: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    for _ in range(repeats):
        for way, run in WAYS.items():
            start = time.perf_counter()
            seconds[way].append((run(name), time.perf_counter() - start))
    found: dict[str, dict[str, float]] = {}
    for way, pairs in seconds.items():
        processor, wall = (statistics.median(each) for each in zip(*pairs, strict=True))
        alone = found.get("alone", {"processor": processor, "wall": wall})
        found[way] = {
            "processor": round(processor, 2),
            "wall": round(wall, 2),
            "processor ratio": round(processor / alone["processor"], 2),
            "wall ratio": round(wall / alone["wall"], 2),
        }
    return found


def report(name: str, found: dict[str, dict[str, float]]) -> Iterable[str]:
    """A line for each way."""
    for way, numbers in found.items():
        holds = numbers["processor ratio"] <= PROCESSOR and numbers["wall ratio"] <= WALL
        told = ", ".join(f"{key} {value:g}" for key, value in numbers.items())
        yield f"{name}, {way}: {told}{'' if holds else '  <- beyond the bounds'}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Fits at the same time on one machine.")
    parser.add_argument("--fit", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--only", default="", help="cases whose name holds this text")
    parser.add_argument("--repeats", type=int, default=3, help="rounds (3)")
    parser.add_argument("--record", action="store_true", help=f"write {RECORD.name}")
    options = parser.parse_args()
    if options.fit:
        sys.stdout.write(f"{fitted(options.fit)}\n")
        return
    cases = {}
    for name in CASES:
        if options.only in name:
            cases[name] = measured(name, options.repeats)
            sys.stdout.write("\n".join(report(name, cases[name])) + "\n")
            sys.stdout.flush()
            if options.record:
                about = {"cores": os.cpu_count(), "load": os.getloadavg()[0], "cases": cases}
                RECORD.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
