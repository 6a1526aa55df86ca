"""Threads, row chunks and memory: what every layer needs to know about the machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from numbers import Integral

# Working memory of one row chunk: large against overheads, small against RAM.
CHUNK_BYTES = 64 * 2**20


def n_threads(n_jobs: int | None = None) -> int:
    """Number of threads that ``n_jobs`` stands for.

    Parameters
    ----------
    n_jobs : int or None, default=None
        None and -1 mean every core this process may use; -2 all but one, and so on; a positive
        number means itself.

    Returns
    -------
    int
        At least 1.
    """
    if n_jobs is not None and (not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool)):
        raise TypeError(f"n_jobs must be an integer or None; got {n_jobs!r}.")
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0; use None or -1 for every core.")
    if n_jobs is not None and n_jobs > 0:
        return int(n_jobs)
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    return max(1, cores + 1 + (-1 if n_jobs is None else int(n_jobs)))


def row_chunks(n_rows: int, bytes_per_row: float, budget: int = CHUNK_BYTES) -> Iterator[slice]:
    """Consecutive slices of at least one row that each need about ``budget`` bytes.

    Parameters
    ----------
    n_rows : int
        Number of rows to cover.
    bytes_per_row : float
        What one row costs while its chunk is being worked on.
    budget : int, default=64 MiB
        Bytes a chunk may take.
    """
    step = max(1, int(budget // max(1.0, bytes_per_row)))
    for start in range(0, n_rows, step):
        yield slice(start, min(n_rows, start + step))


def available_memory() -> int | None:
    """Bytes that can be taken without swapping, or None where the system does not tell."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def format_bytes(n_bytes: float) -> str:
    """``n_bytes`` for people: 1536 -> '1.5 kB'."""
    units = ["B", "kB", "MB", "GB", "TB"]
    while abs(n_bytes) >= 1024 and len(units) > 1:
        n_bytes /= 1024
        units.pop(0)
    return f"{n_bytes:.{0 if units[0] == 'B' else 1}f} {units[0]}"


def check_memory(needed: float, what: str, remedy: str) -> None:
    """Refuse, before anything is taken, what would not fit.

    Parameters
    ----------
    needed : float
        Bytes about to be allocated.
    what : str
        What needs them, as the subject of the sentence.
    remedy : str
        What the caller can do, as an imperative.

    Raises
    ------
    MemoryError
        If fewer bytes than ``needed`` are available.
    """
    available = available_memory()
    if available is not None and needed > available:
        raise MemoryError(
            f"{what} needs {format_bytes(needed)} but {format_bytes(available)} are available; "
            f"{remedy}."
        )
