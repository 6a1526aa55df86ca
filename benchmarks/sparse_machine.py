"""Rounds of SparseKernelClassifier on Fourier features of ijcnn1, at a strength that keeps most.

Squared hinge, γ = 2 on inputs as they come, rounds of 200 features, alpha = 1/n. A table tells
seconds, objective and columns with a weight after every round, with one thread and with two; the
linear algebra has as many.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator

import numpy as np
from threadpoolctl import threadpool_limits

from _side_by_side import Row, environment, table
from mercer import SparseKernelClassifier
from mercer.datasets import load

GOAL = 15.0  # seconds of ten rounds


def fitted(threads: int, rounds: int, share: float, seed: int) -> SparseKernelClassifier:
    data = load("ijcnn1-train")
    X, y = np.asarray(data.X, dtype=np.float32), np.asarray(data.y)
    model = SparseKernelClassifier(
        gamma=2.0,
        n_new=200,
        max_rounds=rounds,
        alpha=share / len(y),
        random_state=seed,
        n_jobs=threads,
    )
    with threadpool_limits(threads):
        return model.fit(X, y)


def speed_rows(quick: bool = False) -> Iterator[Row]:
    """Lines of the speed table."""
    rounds = 1 if quick else 10
    for threads in (1, 2):
        start = time.perf_counter()
        fitted(threads, rounds, 1.0, 100)
        seconds = time.perf_counter() - start
        work = f"SparseKernelClassifier, ijcnn1, {rounds} rounds of 200 features, alpha = 1/n"
        yield Row.goal(work, [seconds], GOAL, threads)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--share", type=float, default=1.0, help="alpha in units of 1/n")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    options = parser.parse_args()
    facts = ", ".join(f"{name} {value}" for name, value in environment().items() if value)
    sys.stdout.write(f"{__doc__.splitlines()[0]}\n{facts}\n")
    lines: dict[int, dict[str, str]] = {}
    for threads in options.threads:
        rounds = fitted(threads, options.rounds, options.share, options.seed).rounds_
        for k, seconds in enumerate(rounds["time"]):
            line = lines.setdefault(k, {"drawn": str(rounds["n_drawn"][k])})
            line[f"seconds, {threads} threads"] = f"{seconds:.2f}"
            line[f"objective, {threads}"] = f"{rounds['objective'][k]:.8f}"
            line[f"columns, {threads}"] = str(rounds["n_active"][k])
    sys.stdout.write(table(lines.values()) + "\n")


if __name__ == "__main__":
    main()
