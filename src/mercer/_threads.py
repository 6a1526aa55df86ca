"""Calls side by side on threads, their results in turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

from mercer._array import n_threads

__all__ = ["side_by_side"]

Work = TypeVar("Work")
Result = TypeVar("Result")


def side_by_side(
    call: Callable[[Work], Result], works: Sequence[Work], n_jobs: int | None
) -> Generator[Result, None, None]:
    """Results of the calls, in turn; those not yet begun are dropped where nobody wants more.

    Threads gain where the calls leave Python's lock: in the core, in BLAS and in LAPACK.

    Examples
    --------
    >>> from mercer._threads import side_by_side
    >>> list(side_by_side(abs, [1, -2, 3], 2))
    [1, 2, 3]
    """
    threads = min(n_threads(n_jobs), len(works))
    if threads <= 1:
        yield from map(call, works)
        return
    pool = ThreadPoolExecutor(threads - 1)
    try:
        calls = deque((_submitted(pool, call, work), work) for work in works)
        while calls:
            # What no thread has begun is done here: memory may keep them all from beginning.
            future, work = calls.popleft()
            yield call(work) if future is None or future.cancel() else future.result()
            del future, work  # nobody else holds the result, which may be large
    finally:
        pool.shutdown(cancel_futures=True)


def _submitted(
    pool: ThreadPoolExecutor, call: Callable[[Work], Result], work: Work
) -> Future[Result] | None:
    """The call on a thread of the pool; None if the system has no thread, or no memory for one."""
    try:
        return pool.submit(copy_context().run, call, work)
    except RuntimeError:  # the pool still has the call, but nobody waits for its result
        return None
