"""Local clusters for benchmarks, and an engine whose workers note when they are at work.

It is a module of its own because workers import what they are asked to do.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.distributed import Shard
from mercer.engines.memory import WORKER
from mercer.maps import RandomFourier

Span = tuple[str, float, float]  # what was done, and from when to when by the clock of the machine

_SPANS: list[Span] = []


# --- on workers ------------------------------------------------------------------------------


def timed(memory: Any, number: int, shard: Any, work: Callable[..., Any], *args: Any) -> Any:
    """``work`` on a shard, noted by what is asked of a part or by its own name."""
    asked = next((arg for arg in args if isinstance(arg, str)), None)
    since = time.time()
    try:
        return work(memory, number, shard, *args)
    finally:
        _SPANS.append((asked or getattr(work, "__name__", "work"), since, time.time()))


def timed_once(work: Callable[..., Any], *args: Any) -> Any:
    """``work`` that needs no shard, noted as a solve."""
    since = time.time()
    try:
        return work(*args)
    finally:
        _SPANS.append(("once", since, time.time()))


@dataclass(frozen=True)
class TimedSum:
    """An addition that is noted."""

    add: Callable[[Any, Any], Any]

    def __call__(self, left: Any, right: Any) -> Any:
        since = time.time()
        try:
            return self.add(left, right)
        finally:
            _SPANS.append(("sum", since, time.time()))


def take_spans(memory: Any = None) -> list[Span]:
    """What this worker has noted since it was last asked."""
    taken = _SPANS.copy()
    _SPANS.clear()
    return taken


def peak_memory(memory: Any = None) -> int:
    """Bytes of memory that this process has held at most; 0 where nobody tells."""
    try:
        told = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return 0
    match = re.search(r"^VmHWM:\s+(\d+) kB", told, re.M)
    return 1024 * int(match[1]) if match else 0


def processor_seconds(memory: Any = None) -> float:
    """Of this process so far."""
    return time.process_time()


def note_limit(dask_worker: Any) -> None:
    """Tell fits on this worker how much memory its process may take, if it has a limit."""
    WORKER.limit = dask_worker.memory_manager.memory_limit


def n_rows(memory: Any, number: int, shard: Shard) -> int:
    """Rows of a shard."""
    return len(shard)


def smooth_shard(number: int, rows: int, inputs: int) -> Shard:
    """Standard normal rows and a smooth function of them with noise, made up from a number."""
    rng = np.random.default_rng(number)
    X = rng.standard_normal((rows, inputs), dtype=np.float32)
    y = np.sin(X[:, 0]) + np.cos(X[:, 1] * X[:, 2]) + 0.1 * rng.standard_normal(rows)
    return Shard(X, y.astype(np.float32))


class Streamed(RandomFourier):
    """Features that are never held whole, whatever memory there is: as where rows are many."""

    def _is_too_large(self, X: Any) -> bool:
        return True


# --- on the client ---------------------------------------------------------------------------


class Timed:
    """An engine that asks its workers to note when they are at work.

    Parameters
    ----------
    engine : Engine
    """

    def __init__(self, engine: Any):
        self.engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def each(
        self,
        work: Callable[..., Any],
        *args: Any,
        numbers: Sequence[int] | None = None,
        own: Mapping[int, tuple[Any, ...]] | None = None,
    ) -> Any:
        return self.engine.each(timed, work, *args, numbers=numbers, own=own)

    def once(self, work: Callable[..., Any], *args: Any) -> Any:
        return self.engine.once(timed_once, work, *args)

    def total(self, handles: Sequence[Any], add: Callable[[Any, Any], Any]) -> Any:
        return self.engine.total(handles, TimedSum(add))

    def changed(self, work: Callable[..., Any], *args: Any, own: Any = None) -> Timed:
        return Timed(self.engine.changed(timed, work, *args, own=own))

    def exchange(self, split: Any, n_shards: int, join: Any) -> Timed:
        return Timed(self.engine.exchange(split, n_shards, join))

    def spans(self) -> list[list[Span]]:
        """What each worker has noted since it was last asked."""
        return self.engine.everywhere(take_spans)


def covered(spans: Sequence[Span], names: Callable[[str], bool]) -> float:
    """Seconds in which at least one of the spans of some names was going on."""
    total, reached = 0.0, -np.inf
    for _, start, end in sorted((s for s in spans if names(s[0])), key=lambda s: s[1]):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


@contextmanager
def cluster(workers: int, memory_limit: Any = 0) -> Iterator[Any]:
    """A client of so many processes of this machine, with one thread each and without spilling."""
    import dask
    from distributed import Client, LocalCluster

    own = dict(os.environ)  # Dask sets the threads of its workers in this process, too
    kept = {f"distributed.worker.memory.{name}": False for name in ("target", "spill", "pause")}
    with (
        dask.config.set(kept),
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=":0",
            memory_limit=memory_limit,
            silence_logs=logging.ERROR,
        ) as local,
        Client(local, set_as_default=False) as client,
    ):
        os.environ.clear()
        os.environ.update(own)
        client.wait_for_workers(workers, timeout=60)
        client.run(note_limit)
        yield client


def engine_of(client: Any, rows: int, inputs: int) -> Timed:
    """An engine of one made-up shard of so many rows on every worker."""
    from mercer.dask.engine import DaskEngine

    homes = sorted(client.nthreads())
    where = ({"workers": [home], "allow_other_workers": True} for home in homes)
    made = [
        client.submit(smooth_shard, number, rows, inputs, pure=False, **place)
        for number, place in enumerate(where)
    ]
    return Timed(DaskEngine(client, made))


def loopback() -> int:
    """Bytes that processes of this machine have sent each other, all of them; 0 if unknown."""
    try:
        lines = Path("/proc/net/dev").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    told = next((line for line in lines if line.strip().startswith("lo:")), None)
    return int(told.split(":")[1].split()[8]) if told else 0


# --- files -----------------------------------------------------------------------------------


def write_parquet(
    folder: Path, n: int, columns: int, rows_of: Callable[[int, int], tuple[NDArray, NDArray]]
) -> int:
    """Files of 10^6 rows with the columns x0, x1, … and y, made piece by piece; bytes in all."""
    import pyarrow as pa
    from pyarrow import parquet

    piece = 10**6
    for place, first in enumerate(range(0, n, piece)):
        X, y = rows_of(min(piece, n - first), place)
        table = pa.table({f"x{j}": X[:, j] for j in range(columns)} | {"y": y})
        parquet.write_table(table, folder / f"part-{place:04d}.parquet", row_group_size=2**17)
    return sum(path.stat().st_size for path in folder.iterdir())
