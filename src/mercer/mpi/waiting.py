"""How ranks wait for each other, when Ctrl-C is heard, and the cores that each may use."""

from __future__ import annotations

import os
import platform
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from mercer._blas import blas_threads
from mercer._machine import cores

__all__ = ["deaf", "share_of_cores", "undisturbed", "wait"]

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
def share_of_cores(comm: Any) -> Iterator[None]:
    """Divide cores among the ranks of a machine that may use the same ones.

    What ``OMP_NUM_THREADS`` says is left as it is; :func:`~mercer._machine.cores` reads it.
    """
    if "OMP_NUM_THREADS" in os.environ:
        yield
        return
    masked = hasattr(os, "sched_getaffinity")
    mine = (platform.node(), sorted(os.sched_getaffinity(0)) if masked else None)
    share = max(1, cores() // comm.allgather(mine).count(mine))
    os.environ["OMP_NUM_THREADS"] = str(share)
    try:
        with blas_threads(share):
            yield
    finally:
        os.environ.pop("OMP_NUM_THREADS", None)
