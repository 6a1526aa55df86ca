"""Waiting for a Dask cluster some of whose workers may be hung."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from mercer._runtime.progress import tell

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["Watch", "check_running"]

_SILENT = 30.0  # seconds without a heartbeat after which a worker may be hung
_PATIENT = 10.0  # seconds that every work may take, and ...
_LONGER = 10.0  # ... times what the same work took so far


class Watch:
    """Waits for results, and removes from the cluster workers that hang: others do their work.

    A worker is hung if results have taken ``timeout`` seconds, or ten times as long as ever before,
    and it has been silent for half a minute; or if one task has taken it ``timeout`` seconds and
    ten times as long as equal work took others. Workers are never removed all at once; where
    there are none for ``timeout`` seconds, waiting ends with a RuntimeError.
    """

    def __init__(self, client: Client, timeout: float):
        self.client, self.timeout = client, timeout
        self.removed: list[str] = []
        self._longest: dict[str, float] = {}  # seconds, by name of work

    def result(self, call: Callable[[], Coroutine[Any, Any, Any]], name: str = "") -> Any:
        """Result of a coroutine that runs beside this thread."""

        async def called() -> Any:
            return await call()

        check_running(self.client)
        start, extra = time.monotonic(), 1.0
        loop: Any = self.client.loop
        pending = asyncio.run_coroutine_threadsafe(called(), loop.asyncio_loop)
        try:
            while True:
                try:
                    value = pending.result(self._patience(name) * extra)
                    break
                except TimeoutError:
                    if pending.done():
                        raise
                    if self._remove_hung(time.monotonic() - start, extra):
                        extra *= 2
        finally:
            pending.cancel()
        seconds = time.monotonic() - start
        self._longest[name] = max(seconds, self._longest.get(name, 0.0))
        return value

    def _patience(self, name: str) -> float:
        known = self._longest.get(name)
        return self.timeout if known is None else min(self.timeout, max(_PATIENT, _LONGER * known))

    def _remove_hung(self, waited: float, extra: float) -> bool:
        """Whether a worker was removed."""
        late = waited >= self.timeout * extra
        addresses, n_left = self.client.run_on_scheduler(
            _remove_hung,
            silent=min(_SILENT, self.timeout),
            busy=self.timeout * extra if late else None,
        )
        if late and not n_left:
            raise RuntimeError(
                f"No worker is left in the cluster, and none came within {self.timeout:g} seconds."
            )
        for address in addresses:
            tell("worker %s was hung and is removed from the cluster", address)
        self.removed += addresses
        return bool(addresses)


def check_running(client: Client) -> None:
    """Raise a RuntimeError where a client was closed or has lost its scheduler."""
    if client.status != "running":
        raise RuntimeError(
            "client must stay connected to Dask's scheduler until the work is done; its status is "
            f"{client.status!r}: make another client and call again."
        )


async def _remove_hung(
    dask_scheduler: Any, *, silent: float, busy: float | None
) -> tuple[list[str], int]:
    """Remove hung workers that have or make something of mercer's; their addresses, who is left."""
    hung, now = [], time.time()
    for address, state in dask_scheduler.workers.items():
        ours = [task for task in state.processing if _is_ours(task)]
        stuck = [task for task in ours if state.executing.get(task, 0.0) > _limit(task, busy)]
        is_silent = now - state.last_seen > silent
        if stuck or (is_silent and (ours or any(map(_is_ours, state.has_what)))):
            hung.append(address)
    if len(hung) == len(dask_scheduler.workers):
        return [], len(hung)
    for address in hung:
        await dask_scheduler.remove_worker(address, stimulus_id=f"mercer-hung-{now}")
    return hung, len(dask_scheduler.workers)


def _limit(task: Any, busy: float | None) -> float:
    """Seconds that work may take on a worker that sends heartbeats: never without others done."""
    average = task.prefix.duration_average
    return math.inf if busy is None or average < 0 else max(busy, _LONGER * average)


def _is_ours(task: Any) -> bool:
    return str(task.key).startswith("mercer-")
