"""How ranks wait for each other, when Ctrl-C is heard, and what each may use of its machine."""

from __future__ import annotations

import os
import platform
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from mercer._array import available_memory
from mercer._blas import blas_threads
from mercer._machine import cores, held_memory
from mercer.distributed.memory import WORKER

__all__ = ["deaf", "share_of_machine", "undisturbed", "wait"]

_PATIENCE = 200  # questions without a pause, some tenths of a millisecond
_PAUSE = 1e-3  # seconds at most between two later ones
_ENDINGS = ("SIGINT", "SIGTERM", "SIGHUP")


def wait(done: Callable[[], Any]) -> None:
    """Wait without taking the core from a rank that shares it; MPI itself would keep it busy."""
    for _ in range(_PATIENCE):
        if done():
            return
    pause = 0.0
    while not done():
        pause = min(_PAUSE, pause + 1e-5)
        time.sleep(pause)


def _handlers() -> dict[int, Any]:
    """Python's handlers of the signals that end a process, where this thread may change them."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    numbers = [getattr(signal, name) for name in _ENDINGS if hasattr(signal, name)]
    handlers = {number: signal.getsignal(number) for number in numbers}
    return {number: handler for number, handler in handlers.items() if callable(handler)}


@contextmanager
def undisturbed() -> Iterator[None]:
    """Let Ctrl-C wait for the end of a command: ranks that have done half of one never meet."""
    came: list[tuple[int, Any]] = []
    handlers = _handlers()
    for number in handlers:
        signal.signal(number, lambda *got: came.append(got))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number, frame in came[:1]:
            handlers[number](number, frame)


@contextmanager
def deaf() -> Iterator[None]:
    """Leave it to rank 0 to answer Ctrl-C, which launchers pass on to all ranks."""
    handlers = _handlers()
    for number in handlers:
        signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


@contextmanager
def share_of_machine(comm: Any) -> Iterator[None]:
    """Divide memory among the ranks of a machine, and cores among those that may use the same.

    What ``OMP_NUM_THREADS`` says is left as it is; :func:`~mercer._machine.cores` reads it.
    """
    masked = hasattr(os, "sched_getaffinity")
    mine = (platform.node(), tuple(sorted(os.sched_getaffinity(0))) if masked else ())
    ranks = comm.allgather(mine)
    here = sum(name == mine[0] for name, _ in ranks)
    free = available_memory()
    if here > 1 and free is not None:
        WORKER.limit = held_memory() + free // here
    told = "OMP_NUM_THREADS" in os.environ
    share = max(1, cores() // ranks.count(mine))
    try:
        with blas_threads(None if told else share):
            os.environ.setdefault("OMP_NUM_THREADS", str(share))
            yield
    finally:
        WORKER.limit = None
        if not told:
            os.environ.pop("OMP_NUM_THREADS", None)
