"""Figure 5: a block of the Gaussian kernel on one machine, on two, and on 128 that are simulated.

A machine is a process with one thread that holds rows of its own. One and two of them are measured
through the engine that fits over many machines use; so is what the engine takes to send and to hand
out tasks. More machines are simulated from that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from mercer.datasets import DataError
from mercer.distributed import Here, Shard
from mercer.engines.engine import Engine
from mercer.kernels import Gaussian
from mercer_studies.plans import called
from mercer_studies.runner import Cell, Stage
from mercer_studies.simulators import Link, simulate_block

FIGURE = 5
ENGINE = "the engine as measured"
NOTE = "Figure 5: one and two processes are measured, up to 128 machines are simulated."

Make = Callable[[int, int, int], Engine]
"""From a number of shards, their rows and inputs to an engine that holds them."""

_SHARDS = 32  # tasks in a round by which handing out is timed
_FEW = 2**17  # bytes that are sent as a value of their own; fewer may travel with tasks
_ROUNDS = 15  # of the engine's own times, of which the median counts


@dataclass(frozen=True)
class Shape:
    """Rows like those of one of the paper's data sets."""

    name: str
    paper_name: str
    inputs: int


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("generated-timit", "TIMIT", 440),
        Shape("generated-cifar-10", "CIFAR-10", 4096),
    )
}
"""Made-up rows with as many inputs as those that the paper scales."""


@dataclass(frozen=True)
class Scaling:
    """Sizes of the runs of Figure 5.

    ``bandwidth``, ``latency``: bytes and seconds of the network that is stated, 10 Gb/s; the
    latency comes on top of the engine's own.
    """

    rows: int = 16384  # of each machine, as in the paper
    block_size: int = 6144
    shrink: int = 1  # inputs are divided by it
    processes: tuple[int, ...] = (1, 2)  # machines that are measured; the first one is 1
    machines: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128)  # machines that are simulated
    repeats: int = 3  # of a block, after one that does not count; the median counts
    probe: int = 2**25  # bytes by which the bandwidth of the engine is measured
    bandwidth: float = 1.25e9
    latency: float = 1e-4


SCALINGS = {
    "tiny": Scaling(rows=512, block_size=128, shrink=10, repeats=1, probe=2**20),
    "laptop": Scaling(),
    "paper": Scaling(repeats=9),
}
"""By the scale of the study."""


def stages(wanted: Sequence[str], scale: str) -> list[Stage]:
    """A stage with a run for each shape of rows.

    ``wanted``: names of data sets; empty for all.
    """
    plan = SCALINGS[scale]
    return [
        Stage(f"{shape.name}, machines", partial(_cells, shape, plan), _need_dask)
        for shape in SHAPES.values()
        if not wanted or shape.name in wanted
    ]


def scaling(
    opened: Callable[[int], Any],
    *,
    rows: int,
    inputs: int,
    block_size: int,
    processes: Sequence[int],
    machines: Sequence[int],
    repeats: int,
    probe: int,
    network: dict[str, Any],
) -> dict[str, Any]:
    """Seconds of one block on machines that are there, and on more that are simulated.

    ``opened``: from a number of processes to a context manager whose value makes engines of them;
    ``rows``, ``inputs``, ``block_size``: of each machine; ``processes``, ``machines``: that are
    measured, one first; that are simulated; ``network``: ``name``, ``bandwidth`` and ``latency`` of
    a network that is stated. Returns the results of a record. ``curve`` has a row for every point,
    with ``simulated``, the ``link`` that it is of, and the parts of its ``seconds``.
    """
    since = time.perf_counter()
    with ExitStack() as stack:
        makers = {count: stack.enter_context(opened(count)) for count in processes}
        link = engine_link(makers[processes[0]], probe)
        engines = {count: make(count, rows, inputs) for count, make in makers.items()}
        times = _block_times(engines, inputs, block_size, repeats)
        for engine in engines.values():
            engine.close()
    curve: list[dict[str, Any]] = [
        {"machines": count, "simulated": False, "link": ENGINE, **_medians(laps), "runs": laps}
        for count, laps in times.items()
    ]
    base = curve[0]["seconds"]
    latency = link.latency + network["latency"]
    stated = Link(network["name"], latency, network["bandwidth"], link.dispatch)
    for each in (link, stated):
        size = {"rows": rows, "inputs": inputs, "block_size": block_size}
        for block in simulate_block(base, machines, each, **size):
            point = {"simulated": True, "link": each.name, "seconds": block.seconds}
            curve.append({**asdict(block), **point})
    return {
        "curve": curve,
        "links": [asdict(link), asdict(stated)],
        "seconds": {"fit": time.perf_counter() - since},
    }


def engine_link(make: Make, probe: int) -> Link:
    """Measured link of an engine: bandwidth, latency, and seconds to hand out one more task.

    Each time is a median over rounds that a worker has nothing to do in, of kinds that take turns.
    What two values add to a round, one of ``probe`` bytes and one of as few as an engine still
    sends by itself, gives bandwidth and latency; a task costs a share of what many shards add.
    """
    one, many = make(1, 1, 1), make(_SHARDS, 1, 1)
    sizes = _FEW, max(2 * _FEW, probe)
    idle, full, few, much = _medians_in_turn(
        lambda: one.fetch(one.each(touch)),
        lambda: many.fetch(many.each(touch)),
        *(partial(_sent, one, np.zeros(size // 8)) for size in sizes),
    )
    one.close()
    many.close()
    bandwidth = (sizes[1] - sizes[0]) / max(1e-9, much - few)  # no clock tells less
    return Link(
        ENGINE,
        latency=max(0.0, few - idle - sizes[0] / bandwidth),
        bandwidth=bandwidth,
        dispatch=max(0.0, (full - idle) / (_SHARDS - 1)),
    )


# --- on workers ------------------------------------------------------------------------------


def shard_of(number: int, rows: int, inputs: int) -> Shard:
    """Rows of one machine, made up from its number."""
    return Shard(np.random.default_rng(number).standard_normal((rows, inputs)))


def touch(memory: Any, number: int, shard: Shard, *values: Any) -> int:
    """Nothing, once all that is needed is there."""
    return len(values)


def make_block(memory: Any, number: int, shard: Shard, points: Any, gamma: float) -> float:
    """Seconds of the columns of some points in the rows of a shard."""
    with threadpool_limits(1):
        since = time.perf_counter()
        Gaussian(gamma)(shard.X, points)
        return time.perf_counter() - since


# --- engines ---------------------------------------------------------------------------------


@contextmanager
def here(processes: int) -> Iterator[Make]:
    """Engines of this process, whatever the number: for tests."""
    yield lambda n, rows, inputs: Here([shard_of(i, rows, inputs) for i in range(n)], processes)


@contextmanager
def dask_machines(processes: int) -> Iterator[Make]:
    """Engines of so many processes of this machine, with one thread each."""
    import logging

    from distributed import Client, LocalCluster

    from mercer.dask.engine import DaskEngine

    with (
        LocalCluster(
            n_workers=processes,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=":0",
            memory_limit=0,
            silence_logs=logging.ERROR,
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        client.wait_for_workers(processes, timeout=60)
        homes = sorted(client.nthreads())

        def make(n: int, rows: int, inputs: int) -> Engine:
            shards = [
                client.submit(
                    shard_of,
                    number,
                    rows,
                    inputs,
                    workers=[homes[number % processes]],
                    allow_other_workers=True,
                    pure=False,
                )
                for number in range(n)
            ]
            return DaskEngine(client, shards)

        yield make


def _need_dask() -> Callable[[int], Any]:
    try:
        import distributed  # noqa: F401
    except ImportError as error:
        raise DataError("Figure 5 needs Dask; pip install 'mercer[dask]'.") from error
    return dask_machines


def _cells(shape: Shape, plan: Scaling, found: Any) -> list[Cell]:
    inputs = shape.inputs // plan.shrink
    settings: dict[str, Any] = {
        "rows": plan.rows,
        "inputs": inputs,
        "block_size": plan.block_size,
        "processes": list(plan.processes),
        "machines": list(plan.machines),
        "repeats": plan.repeats,
        "probe": plan.probe,
        "network": {"name": "10 Gb/s", "bandwidth": plan.bandwidth, "latency": plan.latency},
    }
    about = {"protocol": "fair", "task": "scaling", "method": "exact", "data_name": shape.name}
    data = {
        "name": shape.name,
        "paper_name": shape.paper_name,
        "kind": "generated",
        "task": "none",
        "n_train": plan.rows,
        "d": inputs,
        "note": "standard normal rows; the numbers of rows are of one machine",
    }
    work = 2e-11 * plan.rows * plan.block_size * inputs
    return [
        Cell(
            {**about, **settings, "size": None, "seed": 0},
            called(scaling, settings),
            5.0 + (plan.repeats + 1) * len(plan.processes) * work,
            f"a block of the kernel on machines, {inputs} inputs",
            kind="scaling",
            notes={"label": "full kernel", "figures": [FIGURE], "data": data},
        )
    ]


def _block_times(
    engines: dict[int, Engine], inputs: int, block_size: int, repeats: int
) -> dict[int, dict[str, list[float]]]:
    """Seconds of a block by its parts; engines take turns, and the first turn does not count."""
    points = np.random.default_rng(10**6).standard_normal((block_size, inputs))
    found: dict[int, dict[str, list[float]]] = {
        count: {"seconds": [], "broadcast": [], "compute": []} for count in engines
    }
    for turn in range(repeats + 1):
        for count, engine in engines.items():
            laps = _one_block(engine, points, 1.0 / inputs)
            for name, seconds in laps.items():
                found[count][name] += [seconds] if turn else []
    return found


def _one_block(engine: Engine, points: Any, gamma: float) -> dict[str, float]:
    since = time.perf_counter()
    handle = engine.share(points)
    shared = time.perf_counter()
    spent = engine.fetch(engine.each(make_block, handle, gamma))
    done = time.perf_counter()
    return {"seconds": done - since, "broadcast": shared - since, "compute": max(spent)}


def _medians(laps: dict[str, list[float]]) -> dict[str, float]:
    return {name: float(np.median(values)) for name, values in laps.items()}


def _sent(engine: Engine, value: Any) -> None:
    """A round in which the workers need a value that is new to them."""
    engine.fetch(engine.each(touch, engine.share(value)))


def _medians_in_turn(*works: Callable[[], Any]) -> list[float]:
    """Seconds of each call, after one that does not count."""
    laps: list[list[float]] = [[] for _ in works]
    for turn in range(_ROUNDS + 1):
        for mine, work in zip(laps, works, strict=True):
            since = time.perf_counter()
            work()
            if turn:
                mine.append(time.perf_counter() - since)
    return [float(np.median(mine)) for mine in laps]
