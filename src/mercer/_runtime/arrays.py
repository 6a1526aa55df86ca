"""Threads, row chunks and memory: what every layer needs to know about the machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from numbers import Integral
from typing import TypeAlias

from numpy.typing import NDArray
from scipy import sparse

from mercer._runtime.config import memory_left, memory_limit
from mercer._runtime.machine import address_room, cores, free_memory, group_memory
from mercer._runtime.messages import shown

# Rows of numbers, or texts as an array of objects; and what selects rows.
Matrix: TypeAlias = NDArray | sparse.csr_array | sparse.csr_matrix
Index: TypeAlias = slice | NDArray | list[int]

# Working memory of one row chunk: large against overheads, small against RAM.
CHUNK_BYTES = 64 * 2**20
_LITTLE = 2**20  # bytes
_TOO_MANY = 2**31  # threads, what the core cannot count
_CHUNK_SHARE = 32  # chunks of which ``max_memory`` has room for: one is met in several forms


def n_threads(n_jobs: int | None = None) -> int:
    """Number of threads, at least 1, that ``n_jobs`` stands for.

    None and -1 mean every core that this process, or this worker of joblib, may use, see
    ``machine.cores``; -2 all but one of them, and so on; a positive number means itself.
    """
    if n_jobs is not None and (not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool)):
        raise TypeError(f"n_jobs must be an integer or None; got {shown(n_jobs)}.")
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0; use None or -1 for every core.")
    if n_jobs is not None and abs(n_jobs) >= _TOO_MANY:
        raise ValueError(f"n_jobs must be below 2**31 in size; got {shown(n_jobs)}.")
    if n_jobs is not None and n_jobs > 0:
        return int(n_jobs)
    return max(1, cores() + 1 + (-1 if n_jobs is None else int(n_jobs)))


def chunk_bytes() -> int:
    """Bytes that a chunk of rows may take: never more than a small share of ``max_memory``."""
    limit = memory_limit()
    return CHUNK_BYTES if limit is None else max(1, min(CHUNK_BYTES, limit // _CHUNK_SHARE))


def row_chunks(n_rows: int, bytes_per_row: float, budget: int | None = None) -> Iterator[slice]:
    """Consecutive slices of at least one row that each need about ``budget`` bytes."""
    budget = chunk_bytes() if budget is None else budget
    step = max(1, int(budget // max(1.0, bytes_per_row)))
    for start in range(0, n_rows, step):
        yield slice(start, min(n_rows, start + step))


def available_memory() -> int | None:
    """Bytes that can be taken without swapping, or None where the system does not tell.

    The least that the machine, the control group, the address space and ``max_memory`` leave.
    """
    rooms = [free_memory(), group_memory(), address_room(), memory_left()]
    return min((room for room in rooms if room is not None), default=None)


def format_bytes(n_bytes: float) -> str:
    """``n_bytes`` for people: 1536 -> '1.5 kB'."""
    units = ["B", "kB", "MB", "GB", "TB"]
    while abs(n_bytes) >= 1024 and len(units) > 1:
        n_bytes /= 1024
        units.pop(0)
    return f"{n_bytes:.{0 if units[0] == 'B' else 1}f} {units[0]}"


def is_little(needed: float) -> bool:
    """Whether so few bytes fit anyway: to ask how many are left takes 50 µs."""
    return needed < _LITTLE and memory_limit() is None


def check_memory(needed: float, what: str, remedy: str | Callable[[int], str]) -> None:
    """Raise a MemoryError if ``needed`` bytes for ``what`` would not fit.

    ``remedy`` is an imperative, or a function that makes one from the available bytes.
    """
    available = None if is_little(needed) else available_memory()
    if available is not None and needed > available:
        raise MemoryError(
            f"{what} needs {format_bytes(needed)} but {format_bytes(available)} are available; "
            f"{remedy(available) if callable(remedy) else remedy}."
        )


def largest_fitting(bytes_of: Callable[[int], float], at_most: int, room: float) -> int:
    """Largest number up to ``at_most`` whose ``bytes_of``, increasing, fit in ``room``; or 0."""
    fits, fails = 0, at_most + 1
    while fails - fits > 1:
        middle = (fits + fails) // 2
        if bytes_of(middle) <= room:
            fits = middle
        else:
            fails = middle
    return fits


def check_setting(
    setting: str, value: int, bytes_of: Callable[[int], float], what: str, otherwise: str
) -> None:
    """Raise as ``check_memory`` does for a setting, naming the largest value that would fit.

    ``bytes_of`` is increasing; ``otherwise`` is an imperative for when no value would fit.
    """

    def remedy(room: int) -> str:
        largest = largest_fitting(bytes_of, value - 1, room)
        return f"{setting}={largest} would fit" if largest else otherwise

    check_memory(bytes_of(value), what, remedy)
