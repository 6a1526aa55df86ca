"""Clusters of this machine for tests, and hard limits of time for whatever waits for them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

import dask
from distributed import Client, LocalCluster

from mercer.dask.clusters import ONE_THREAD

_SETTINGS = {f"distributed.worker.memory.{name}": False for name in ("target", "spill", "pause")}
_SETTINGS["distributed.nanny.pre-spawn-environ"] = {}  # nannies would set it for this process too
_SLACK = 3.0  # of limits of time, on machines where much else runs


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Fail what takes longer on an idle machine, or ``_SLACK`` times as long on a busy one.

    A context or a decorator, in the main thread: what hangs does so for ever.
    """
    seconds *= _SLACK
    if not hasattr(signal, "SIGALRM"):
        yield
        return

    def fail(*_: object) -> None:
        raise AssertionError(f"it took longer than {seconds} seconds")

    before = signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class _Cluster(LocalCluster):
    """A cluster that ends also while a worker that was killed comes back.

    It is told of the end of that worker before its own list has it, which ``distributed`` takes for
    an error.
    """

    def _update_worker_status(self, op, msg):
        if op != "remove" or msg in self.scheduler_info["workers"]:
            super()._update_worker_status(op, msg)


@contextmanager
def cluster(n_workers: int = 2, memory: str = "1GB", **options) -> Iterator[Client]:
    """The client of a cluster of processes that nannies watch, with no spilling."""
    arguments = {
        "n_workers": n_workers,
        "threads_per_worker": 1,
        "processes": True,
        "host": "127.0.0.1",
        "dashboard_address": ":0",
        "memory_limit": memory,
        "silence_logs": 50,
        "env": ONE_THREAD,
        **options,
    }
    with (
        dask.config.set(_SETTINGS),
        _Cluster(**arguments) as made,
        Client(made, set_as_default=False) as client,
    ):
        if n_workers:
            client.wait_for_workers(n_workers, timeout=60)
        yield client


@contextmanager
def bare_cluster(n_workers: int) -> Iterator[Client]:
    """As ``cluster``, of workers without nannies: they do not come back."""
    path = os.pathsep.join(sys.path)  # workers import functions of test files by name
    with cluster(0) as client:
        command = [sys.executable, "-m", "distributed.cli.dask_worker", client.scheduler.address]
        command += ["--no-nanny", "--nthreads", "1", "--no-dashboard", "--memory-limit", "1GB"]
        workers = [
            subprocess.Popen(
                command, env=os.environ | {"PYTHONPATH": path}, stderr=subprocess.DEVNULL
            )
            for _ in range(n_workers)
        ]
        try:
            client.wait_for_workers(n_workers, timeout=60)
            yield client
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()


def mend(client: Client, n_workers: int) -> None:
    """Wait until there are so many workers; new ones come for those that do not come back."""
    try:
        client.wait_for_workers(n_workers, timeout=15)
    except TimeoutError:
        missing = n_workers - len(client.nthreads())
        client.cluster.scale(len(client.cluster.worker_spec) + missing)
        client.wait_for_workers(n_workers, timeout=60)


def pids(client: Client) -> dict[str, int]:
    """Processes of workers by address."""
    return client.run(os.getpid)


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Send a signal to a worker of a cluster of this machine."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def n_tasks(client: Client) -> int:
    """Tasks that the scheduler knows, when it has forgotten those that nobody wants."""
    counts = [-1, -2]
    while counts[-1] != counts[-2]:
        time.sleep(0.2)
        counts.append(client.run_on_scheduler(_n_tasks))
    return counts[-1]


def _n_tasks(dask_scheduler) -> int:
    return len(dask_scheduler.tasks)


def kept_runs(client: Client) -> list[set[str]]:
    """Fits of which workers keep something."""
    return list(client.run(partial(_runs)).values())


def _runs() -> set[str]:
    from mercer.engines.memory import WORKER

    return WORKER.runs()
