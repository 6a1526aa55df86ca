"""Fits over processes of this machine: overhead, scaling, bytes of a block, 10^7 rows of Parquet.

Without ``--rows``: an epoch of block coordinate descent on random Fourier features of made-up rows,
float32, over 1, 2 and 4 processes with one thread each, every process with as many rows (weak
scaling) or with its share of them (strong). Workers note when they are at work: overhead is the
share of the wall time in which none works on rows or solves a block. With ``--rows``: fits from
Parquet files that are generated, and the peak memory of the workers. Each row is printed, then
written as one line of JSON.

    python cluster.py                                  # some minutes on two cores
    python cluster.py --rows 10000000 --columns 20     # some minutes and 1 GB of temporary files
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import _cluster_work as work
from _side_by_side import Benchmark, table
from mercer._runtime.machine import cores
from mercer.compare.records import quiet
from mercer.distributed import Run
from mercer.distributed.parts import Coding, DesignFacts, DesignPart
from mercer.distributed.problem import RemoteProblem
from mercer.estimators.preprocessing import Preprocessing
from mercer.losses import Squared
from mercer.penalties import L2
from mercer.problem import Problem
from mercer.solvers import BlockCoordinateDescent
from out_of_core import friedman

NEW_ROWS, NEW_SEED = 50_000, 10**6
CORES = cores()  # asked before a cluster sets variables of this process
MB = 1e6

Row = dict[str, Any]


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--rows-per-worker", type=int, default=100_000)
    parser.add_argument("--inputs", type=int, default=50)
    parser.add_argument("--block-size", type=int, default=2048)
    parser.add_argument("--blocks", type=int, default=3, help="of one epoch")
    parser.add_argument(
        "--local", action="store_true", help="weak scaling also by threads of one process"
    )
    parser.add_argument("--rows", type=int, help="fit so many rows of generated Parquet files")
    parser.add_argument("--columns", type=int, default=20, help="of these files, 5 or more")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--trees", type=int, default=1, help="of the local machine")
    parser.add_argument("--components", type=int, default=512, help="of the Fourier machine")
    parser.add_argument("--columns-at-once", type=int, default=64, help="its blocks")
    parser.add_argument("--memory-limit", default="8GB", help="of a worker that reads Parquet")


# --- overhead and scaling --------------------------------------------------------------------


def solver(block_size: int) -> BlockCoordinateDescent:
    """One epoch of the paper's algorithm, after which nothing need be kept."""
    return BlockCoordinateDescent(
        block_size=block_size,
        max_iter=1,
        tol=1e-12,
        trace="block",
        accelerated=False,
        hold=0,
    )


def problem_over(engine: Any, rows: int, inputs: int, n_features: int) -> RemoteProblem:
    """Ridge regression on random Fourier features of the rows of an engine."""
    map_ = work.Streamed(gamma=1 / inputs, n_components=n_features, random_state=100)
    map_.fit(np.zeros((1, inputs), dtype=np.float32))
    facts = DesignFacts(
        Preprocessing(None, map_), Coding.numbers(0.0), Squared(), rows, 1.0, np.float32, True
    )
    return RemoteProblem(Run(engine, DesignPart, facts), facts, L2(1e-4))


def one_epoch(client: Any, rows: int, inputs: int, block_size: int, blocks: int) -> Row:
    """An epoch over the workers of a client, each with so many rows, and what it took."""
    engine = work.engine_of(client, rows, inputs)
    n = sum(engine.fetch(engine.each(work.n_rows)))  # rows are made before the clock starts
    problem = problem_over(engine, n, inputs, block_size * blocks)
    engine.spans()
    sent, since = work.loopback(), time.perf_counter()
    with quiet():
        result = solver(block_size).solve(problem)
    seconds, sent = time.perf_counter() - since, work.loopback() - sent
    spans = [span for worker in engine.spans() for span in worker]
    peaks = engine.everywhere(work.peak_memory)
    engine.close()
    times = [row.time for row in result.trace]
    at_work = work.covered(spans, lambda name: name != "sum")
    on_rows = work.covered(spans, lambda name: name not in ("sum", "once"))
    return {
        "seconds": seconds,
        "block_seconds": (times[-1] - times[0]) / blocks,
        "local_block_seconds": None,
        "overhead": 1 - at_work / seconds,
        "overhead_and_solves": 1 - on_rows / seconds,
        "sent_per_block": sent / blocks,
        "peak_bytes": max(peaks),
    }


def by_threads(workers: int, rows: int, inputs: int, block_size: int, blocks: int) -> float:
    """Seconds of a block where the same rows are in this process, with as many threads."""
    shards = [work.smooth_shard(number, rows, inputs) for number in range(workers)]
    X, y = (np.concatenate([getattr(s, name) for s in shards]) for name in ("X", "target"))
    map_ = work.Streamed(gamma=1 / inputs, n_components=block_size * blocks, random_state=100)
    problem = Problem(map_.fit(X[:1]).design(X), y, Squared(), L2(1e-4))
    with threadpool_limits(workers), quiet():
        times = [row.time for row in solver(block_size).solve(problem).trace]
    return (times[-1] - times[0]) / blocks


def modelled(row: Row) -> Row:
    """Bytes of a block by the cost model: on the longest path, and over all links of a tree."""
    workers, b = row["workers"], row["block_size"]
    summed, weights = b**2 + b, b  # words of a Gram matrix and a right-hand side; of coefficients
    return {
        "model_per_block": 8 * (summed * np.log2(workers) + weights),
        "model_all_links": 8 * (summed * (workers - 1) + weights),
    }


def scaling(bench: Benchmark, options: argparse.Namespace) -> list[Row]:
    """Weak and strong scaling over the numbers of workers; one worker is the base of both."""
    found: list[Row] = []
    each = options.rows_per_worker
    for workers in options.workers:
        with work.cluster(workers) as client:
            one_epoch(client, 512, options.inputs, 64, 2)  # workers import what they need
            for kind in ("weak", "strong") if workers > 1 else ("weak",):
                rows = each if kind == "weak" else each // workers
                size = {"block_size": options.block_size, "blocks": options.blocks}
                row = {
                    "part": kind,
                    "workers": workers,
                    "cores": CORES,
                    "rows": rows * workers,
                    "inputs": options.inputs,
                    **size,
                    "data": "generated",
                }
                row |= one_epoch(client, rows, options.inputs, **size)
                row |= modelled(row)
                if options.local and kind == "weak" and workers <= CORES:
                    row["local_block_seconds"] = by_threads(workers, rows, options.inputs, **size)
                found.append(row)
    base = found[0]["block_seconds"] if found[0]["workers"] == 1 else None
    for row in found:
        at_once = min(row["workers"], CORES)  # more workers than cores take turns
        share = row["workers"] / at_once if row["part"] == "weak" else 1 / at_once
        row["efficiency"] = None if base is None else base * share / row["block_seconds"]
    bench.write("\n" + table(map(shown, found)))
    return found


def shown(row: Row) -> dict[str, str]:
    """One line of the table."""
    busy = "" if row["workers"] <= row["cores"] else " (more than cores)"
    efficiency, threads = row["efficiency"], row["local_block_seconds"]
    return {
        "scaling": f"{row['part']}, {row['workers']} workers{busy}",
        "rows": f"{row['rows']:,}",
        "s a block": f"{row['block_seconds']:.2f}",
        "by threads": "–" if threads is None else f"{threads:.2f}",
        "efficiency": "–" if efficiency is None else f"{100 * efficiency:.0f} %",
        "overhead": f"{100 * row['overhead']:.1f} %",
        "with solves": f"{100 * row['overhead_and_solves']:.1f} %",
        "MB a block": f"{row['sent_per_block'] / MB:.1f}",
        "model, path": f"{row['model_per_block'] / MB:.1f}",
        "model, links": f"{row['model_all_links'] / MB:.1f}",
        "peak MB": f"{row['peak_bytes'] / MB:.0f}",
    }


# --- Parquet ---------------------------------------------------------------------------------


def local(options: argparse.Namespace, client: Any) -> Any:
    from mercer.dask import LocalKernelRegressor

    return LocalKernelRegressor(client=client, n_trees=options.trees, random_state=100)


def by_blocks(options: argparse.Namespace, client: Any) -> Any:
    from mercer.dask import KernelRegressor

    return KernelRegressor(
        feature_map="fourier",
        gamma=0.01,
        n_components=options.components,
        alpha=1e-6,
        solver=solver(min(options.columns_at_once, options.components)),
        random_state=100,
        client=client,
    )


WAYS = {"local": local, "fourier": by_blocks}
"""Local kernel machines, and random Fourier features by an epoch of block coordinate descent."""


def from_parquet(bench: Benchmark, options: argparse.Namespace) -> list[Row]:
    """Fits of both kinds from files that are generated."""
    found: list[Row] = []
    workers = min(CORES, max(options.workers))
    with tempfile.TemporaryDirectory() as name:
        since = time.perf_counter()
        size = work.write_parquet(Path(name), options.rows, options.columns, rows_of(options))
        written = time.perf_counter() - since
        bench.write(f"\n{size / MB:.0f} MB of Parquet, generated in {written:.1f} s")
        for way in options.ways:
            row = {
                "part": "parquet",
                "way": way,
                "workers": workers,
                "cores": CORES,
                "rows": options.rows,
                "columns": options.columns,
                "data": "generated",
                "file_bytes": size,
                "memory_limit": options.memory_limit,
            }
            found.append(row | one_file_fit(name, way, workers, options))
    lines = [
        {
            "Parquet, generated": f"{row['way']}, {row['rows']:,} x {row['columns']}",
            "workers": str(row["workers"]),
            "s": f"{row['seconds']:.1f}",
            "of processors": f"{row['processor_seconds']:.1f}",
            "rows/s": f"{row['rows'] / row['seconds']:,.0f}",
            "peak MB of a worker": " ".join(f"{peak / MB:.0f}" for peak in row["peak_bytes"]),
            "before": f"{row['before_bytes'] / MB:.0f}",
            "client": f"{row['client_bytes'] / MB:.0f}",
            "error": f"{row['error']:.4f}",
        }
        for row in found
    ]
    bench.write("\n" + table(lines))
    return found


def rows_of(options: argparse.Namespace) -> Any:
    """Pieces of Friedman's function."""
    return lambda n, seed: friedman(n, seed, options.columns)


def one_file_fit(folder: str, way: str, workers: int, options: argparse.Namespace) -> Row:
    """A fit in a cluster of its own: seconds, memory, and the error on rows not seen."""
    with work.cluster(workers, options.memory_limit) as client:
        before = max(client.run(work.peak_memory).values())
        worked = sum(client.run(work.processor_seconds).values())
        model = WAYS[way](options, client)
        since = time.perf_counter()
        with quiet():
            model.fit(folder, "y")
        seconds = time.perf_counter() - since
        worked = sum(client.run(work.processor_seconds).values()) - worked
        peaks = sorted(client.run(work.peak_memory).values())
    new, truth = friedman(NEW_ROWS, NEW_SEED, options.columns)
    with quiet():  # of columns that have no names here
        answers = model.to_local().predict(new)
    return {
        "seconds": seconds,
        "processor_seconds": worked,
        "peak_bytes": peaks,
        "before_bytes": before,
        "client_bytes": work.peak_memory(),
        "error": float(np.sqrt(np.mean((answers - truth) ** 2))),
    }


def main() -> None:
    bench = Benchmark(
        "Fits over processes of this machine.",
        arguments,
        "Single runs: seconds are wall time, overhead is what no worker computes in.",
    )
    options = bench.options
    if options.quick:
        options.rows_per_worker = min(options.rows_per_worker, 4000)
        options.block_size = min(options.block_size, 256)
        options.components = min(options.components, 128)
    found = scaling(bench, options) if options.rows is None else from_parquet(bench, options)
    bench.write("")
    for row in found:
        bench.write(json.dumps(row))
        bench.keep(f"cluster, {row['part']}", **row)
    bench.finish()


if __name__ == "__main__":
    main()
