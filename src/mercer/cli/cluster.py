"""Rows of a folder of Parquet files on Dask workers, and the progress of their fit."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from mercer.cli.options import Task, waiting
from mercer.cli.roles import Roles

if TYPE_CHECKING:
    from mercer.cli.fit_options import FitOptions
    from mercer.cli.read import Labelled
    from mercer.distributed import Engine
    from mercer.distributed.parquet import ParquetPart

_OFTEN, _SELDOM = 0.2, 2.0  # seconds between two changes of the line, and between two lines


def planned(options: FitOptions, roles: Roles, automatic: bool) -> ParquetPart:
    """All rows of the files as one part, from metadata alone, for the roles of columns."""
    from mercer.cli.read import no_target
    from mercer.datasets import mapped
    from mercer.distributed.parquet import parquet_files, parquet_parts

    data = options.data
    path = Path(data)
    if not path.exists():
        raise FileNotFoundError(f"there is no file or folder {data}.")
    if path.is_file() and not mapped.is_parquet(path):
        raise ValueError(
            f"{options.workers_option} needs a folder of Parquet files; {data} is no such file."
        )
    (names,) = parquet_parts(parquet_files(path)[:1], 1)
    if roles.target is None:
        raise no_target(data, names.features)
    (whole,) = parquet_parts(path, 1, target=roles.target)
    inputs = roles.inputs(data, names.features, whole.target)
    (plan,) = parquet_parts(
        path, 1, target=whole.target, features=inputs, weights=roles.weights, raw=automatic
    )
    if plan.dtype is None and not automatic:
        raise ValueError(
            f"{data} holds more than numbers; leave out the options that say how to fit, or name "
            "columns of numbers with --features."
        )
    return plan


@contextmanager
def shards(options: FitOptions, plan: ParquetPart, raw: bool) -> Iterator[Engine]:
    """Shards that Dask workers read; the end closes the client and workers it started."""
    from mercer.dask.clusters import client_for
    from mercer.dask.intake import shards_of
    from mercer.dask.packages import package

    with ExitStack() as stack:
        address = options.scheduler
        if options.workers is not None:
            with waiting(f"starting {options.workers} processes"):
                cluster = package("distributed").LocalCluster(
                    n_workers=options.workers,
                    threads_per_worker=1,
                    host="127.0.0.1",
                    dashboard_address=":0",
                    silence_logs=logging.ERROR,
                )
            stack.callback(cluster.close)
            address = cluster.scheduler_address
        client = client_for(address)
        stack.callback(client.close)
        columns: dict[str, Any] = {"features": plan.features, "raw": raw}
        with waiting(f"reading {options.data}"):
            path = str(Path(options.data).absolute())
            engine = shards_of(client, path, plan.target, plan.weights, **columns)
        stack.callback(engine.close)
        yield engine


def labelled_over(data: str, plan: ParquetPart, engine: Engine, task: Task) -> Labelled:
    """Labelled rows whose inputs stay with the workers."""
    import numpy as np

    from mercer import datasets
    from mercer.cli.read import Labelled, task_of
    from mercer.distributed.targets import DISTINCT, outline_of

    outline = outline_of(engine)
    if not outline.n_rows:
        raise ValueError(f"{data} holds no row with a target.")
    distinct, counts = outline.distinct, outline.counts
    if outline.fraction is not None:
        distinct, counts = np.append(distinct, outline.fraction), np.append(counts, 1)
    many = len(outline.distinct) > DISTINCT
    if many and distinct.dtype.kind == "U" and task is Task.auto:
        raise ValueError(
            f"the target holds more than {DISTINCT} different texts, such as {distinct[0]!s:.40}: "
            "neither numbers nor classes; --task classification insists."
        )
    kind, note = task_of(distinct, counts, task)
    if many:
        note = note.replace(f" {DISTINCT + 1} ", f" more than {DISTINCT} ")
    name = Path(data).absolute().name.partition(".")[0]
    shape = SimpleNamespace(shape=(outline.n_rows, outline.n_inputs))
    held = datasets.Dataset(name, kind, shape, np.empty(0), feature_names=plan.features)
    return Labelled(held, plan.target, note, n_left_out=plan.n_rows - outline.n_rows)


# -- what is told of a fit as it goes -----------------------------------------------------------


@dataclass
class Counts:
    """Requests, bytes and misses of a fit over an engine."""

    requests: int = 0
    bytes_moved: int = 0  # between this process and workers
    missed: int = 0  # answers of workers that had lost what they need

    def in_words(self, n_workers: int) -> str:
        """As the line of a fit that goes on has it."""
        from mercer._runtime.arrays import format_bytes

        lost = f", {self.missed} shards made again" if self.missed else ""
        return f"{format_bytes(self.bytes_moved)} moved, {n_workers} workers{lost}"

    def see(self, value: Any) -> None:
        """Count one request's numbers sent or received."""
        if isinstance(value, (tuple, list)):
            for each in value:
                self.see(each)
        elif hasattr(value, "missed"):
            self.missed += len(value.missed)
            self.see(value.value)
        else:
            self.bytes_moved += int(getattr(value, "nbytes", 0))


@dataclass(frozen=True)
class Watched:
    """An engine that counts its requests."""

    engine: Any
    counts: Counts = field(default_factory=Counts)
    heard: Callable[[], None] = lambda: None  # called with every request

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "engine"), name)

    def share(self, value: Any) -> Any:
        """As the engine does."""
        self.counts.see(value)
        return self.engine.share(value)

    def each(self, work: Any, *args: Any, **which: Any) -> list[Any]:
        """As the engine does."""
        self.counts.requests += 1
        self.heard()
        self.counts.see(args)
        handles: list[Any] = self.engine.each(work, *args, **which)
        return handles

    def fetch(self, handles: Sequence[Any]) -> list[Any]:
        """As the engine does."""
        values: list[Any] = self.engine.fetch(handles)
        self.counts.see(values)
        return values

    def changed(self, work: Any, *args: Any, **own: Any) -> Watched:
        """As the engine does."""
        return replace(self, engine=self.engine.changed(work, *args, **own))

    def exchange(self, split: Any, n_shards: int, join: Any) -> Watched:
        """As the engine does."""
        return replace(self, engine=self.engine.exchange(split, n_shards, join))


class Progress:
    """Shows the progress of a fit: blocks, seconds, bytes, workers and losses."""

    def __init__(self, engine: Engine, show: Callable[[str], None], verbose: bool) -> None:
        self.counts = Counts()
        self.engine: Any = Watched(engine, self.counts, self.refresh)
        self._show, self._verbose = show, verbose
        self._state: Any = None
        self._n, self._start = 0, time.perf_counter()
        self._shown = self._told = self._start

    def __call__(self, state: Any) -> bool:
        """Take note of an iteration; the fit goes on."""
        self._state, self._n = state, self._n + 1
        self.refresh()
        return False

    def refresh(self) -> None:
        """Change the line, and add one where every stage is wanted, if it is time."""
        from mercer._runtime.progress import tell

        now = time.perf_counter()
        if now - self._shown >= _OFTEN:
            self._shown = now
            self._show(self.in_words(now - self._start))
        if self._verbose and now - self._told >= _SELDOM:
            self._told = now
            tell("%s", self.in_words(now - self._start))

    def in_words(self, seconds: float) -> str:
        """The line after so many seconds."""
        state, done = self._state, f"request {self.counts.requests}"
        if hasattr(state, "n_leaves"):
            done = f"{state.n_solved} of {state.n_leaves} leaves"
        elif state is not None:
            blocks = getattr(state, "n_blocks", 0)
            n = blocks or self._n
            done = f"{'block' if blocks else 'iteration'} {n}, {seconds / n:.2g} s each"
        optimality = getattr(state, "optimality", None)
        words = [
            done,
            f"optimality {optimality:.2g}" if isinstance(optimality, float) else "",
            f"{seconds:.0f} s",
            self.counts.in_words(self.engine.n_workers),
        ]
        return ", ".join(word for word in words if word)
