"""Gains of two threads: what the machine has, and what the L1 solvers make of it.

Processors that are hyperthreads of one core share its arithmetic units, caches and ports: two
threads then gain on code that waits and next to nothing on code that computes. Two threads that
have nothing to do with each other, each with data of its own, show what can be had at most: fused
multiply-adds (products of matrices in the cache), gathers (numbers of a table in the second cache),
streaming (sums of arrays in memory). Below them, L1 problems on bins and Fourier features.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from threadpoolctl import threadpool_limits

from _side_by_side import environment, table
from mercer.designs import Dense
from mercer.losses import SquaredHinge
from mercer.maps import RandomBinning, RandomFourier
from mercer.penalties import L1
from mercer.problem import Problem
from mercer.solvers import CoordinateDescent

Run = Callable[[], object]


def independent() -> dict[str, Callable[[], Run]]:
    """What a thread does, made anew for each of them."""
    rng = np.random.default_rng(0)

    def multiply_adds() -> Run:
        a, out = rng.normal(size=(128, 128)), np.empty((128, 128))
        return lambda: [np.matmul(a, a, out=out) for _ in range(300)]

    def gathers() -> Run:
        numbers, places = rng.normal(size=2**15), rng.integers(2**15, size=2**17)
        out = np.empty(2**17)
        return lambda: [np.take(numbers, places, out=out, mode="clip") for _ in range(100)]

    def streaming() -> Run:
        a, out = np.ones(2**23), np.empty(2**23)
        return lambda: [np.add(a, 1.0, out=out) for _ in range(5)]

    return {"multiply-adds": multiply_adds, "gathers": gathers, "streaming": streaming}


def seconds(run: Run) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def of_the_machine(make: Callable[[], Run], repeats: int) -> float:
    """Work of two threads relative to that of one in the same time."""
    one, other = make(), make()
    with ThreadPoolExecutor(2) as pool, threadpool_limits(1):

        def both() -> None:
            for waiting in [pool.submit(one), pool.submit(other)]:
                waiting.result()

        both()
        pairs = [(seconds(one), seconds(both)) for _ in range(repeats)]
    alone, together = np.min(pairs, axis=0)
    return float(2 * alone / together)


def of_the_solver(kind: str, n: int, repeats: int) -> float:
    """Seconds of one thread relative to those of two."""
    X = np.random.default_rng(1).normal(size=(n, 8))
    y = np.where(np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] > 0, 1.0, -1.0)
    if kind == "bins":
        design = RandomBinning(n_components=64, gamma=0.3, random_state=100).fit_design(X)
    else:
        fourier = RandomFourier(n_components=300, gamma=0.3, random_state=100)
        design = Dense(fourier.fit_transform(X))
    alpha = 0.03 * Problem(design, y, SquaredHinge(), L1(1.0)).alpha_max()

    def solve(threads: int) -> None:
        made = Dense(design.array, threads) if isinstance(design, Dense) else design
        if made is design:
            design.n_threads = threads
        with threadpool_limits(threads):
            CoordinateDescent(tol=1e-4).solve(Problem(made, y, SquaredHinge(), L1(alpha)))

    solve(1)
    pairs = [(seconds(lambda: solve(1)), seconds(lambda: solve(2))) for _ in range(repeats)]
    one, two = np.min(pairs, axis=0)
    return float(one / two)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rows", type=int, default=100_000, help="of the L1 problems")
    options = parser.parse_args()
    facts = ", ".join(f"{name} {value}" for name, value in environment().items() if value)
    sys.stdout.write(f"{__doc__.splitlines()[0]}\n{facts}\n")
    gains = {name: of_the_machine(make, options.repeats) for name, make in independent().items()}
    lines = [{"what": name, "gain": f"{gain:.2f}x"} for name, gain in gains.items()]
    most = max(gains.values())
    for kind in ("bins", "Fourier features"):
        gain = of_the_solver(kind, options.rows, min(options.repeats, 3))
        share = f"{gain / most:.0%} of the most above"
        lines.append({"what": f"L1 on {kind}", "gain": f"{gain:.2f}x", "share": share})
    sys.stdout.write(table(lines) + "\n")


if __name__ == "__main__":
    main()
