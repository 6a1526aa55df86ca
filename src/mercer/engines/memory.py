"""Parts that a worker derives from its shards and keeps: never the truth, lost without harm."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from mercer._runtime.config import config_context
from mercer._runtime.machine import held_memory

__all__ = ["WORKER", "WorkerStore"]


_SHARE = 0.8  # of its limit that a worker may fill: the rest is for what comes and goes


class WorkerStore:
    """Parts of fits on one worker, by the identity of the fit and the number of the shard.

    Attributes
    ----------
    limit : int or None
        Bytes of the worker's process, beyond which it is ended; an engine that knows them sets it.
    """

    def __init__(self) -> None:
        self.limit: int | None = None
        self._parts: dict[tuple[str, int], Any] = {}
        self._lock = threading.Lock()

    def bounded(self) -> AbstractContextManager[None]:
        """A context in which work takes no more memory than the limit leaves.

        Features that would not fit are then made anew for every product, as on one machine.
        """
        if self.limit is None:
            return nullcontext()
        return config_context(max_memory=max(1, int(_SHARE * self.limit) - held_memory()))

    def part(self, run: str, number: int, make: Callable[[], Any]) -> Any:
        """The part of a fit of one shard, made the first time."""
        with self._lock:
            part = self._parts.get((run, number))
        if part is not None:
            return part
        made = make()  # outside the lock: it may take long, and other shards go on
        with self._lock:
            return self._parts.setdefault((run, number), made)

    def forget(self, run: str | None = None, number: int | None = None) -> None:
        """Drop the parts of a fit, or that of one of its shards; without a fit, all.

        Fits within a fit have its identity and a suffix after "/", and are dropped with it.
        """
        with self._lock:
            for key in list(self._parts):
                of_run = run is None or key[0] == run or key[0].startswith(f"{run}/")
                if of_run and number in (None, key[1]):
                    del self._parts[key]

    def runs(self) -> set[str]:
        """Identities of the fits that something is kept of."""
        with self._lock:
            return {run for run, _ in self._parts}


WORKER = WorkerStore()  # of a process that is a worker of an engine over many
