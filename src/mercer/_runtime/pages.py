"""Memory of large arrays that later arrays reuse, unless the system needs it first.

The first touch of memory takes the system up to 2 ms/MB on a virtual machine, longer than the
computation of the entries. Pages are therefore huge where the system has huge pages, and stay with
the process when their array is freed. Until another array reuses them, the system takes them away
when memory is short, and counts them as available.
"""

from __future__ import annotations

import mmap
import os
import weakref
from functools import cache

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = ["idle_bytes", "lent"]

_LEAST = 2**24  # bytes below which NumPy allocates: its allocator reuses small blocks
_MOST_SHARE = 8  # at most one in so many bytes of the machine's memory is idle
_LARGER = 4  # largest ratio of reused bytes to requested bytes: the rest is wasted

_Pages = NDArray[np.uint8]  # all of an anonymous map

_idle: dict[int, tuple[_Pages, mmap.mmap]] = {}  # by address


def lent(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray:
    """Array with unset entries, as from ``np.empty``, on reused pages if it is large."""
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    if size < _LEAST or not _most_idle():
        return np.empty(shape, dtype=dtype)
    pages = np.asarray(_Lent(*(_taken(size) or _made(size))))
    numbers: NDArray = pages[:size].view(dtype).reshape(shape)
    return numbers


def idle_bytes() -> int:
    """Bytes that this process holds and no array uses, in pages kept for reuse."""
    return sum(pages.nbytes for pages, _ in list(_idle.values()))


class _Lent:
    """Base of the arrays on lent pages; the pages are idle when its last view is freed."""

    def __init__(self, pages: _Pages, own_map: mmap.mmap):
        self.__array_interface__ = pages.__array_interface__
        weakref.finalize(self, _kept, pages, own_map).atexit = False


def _made(size: int) -> tuple[_Pages, mmap.mmap]:
    own_map = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        own_map.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(own_map, dtype=np.uint8), own_map


def _taken(size: int) -> tuple[_Pages, mmap.mmap] | None:
    """The least idle pages that suffice, if there are any."""
    fit = [
        (pages.nbytes, address)
        for address, (pages, _) in list(_idle.items())
        if size <= pages.nbytes <= _LARGER * size
    ]
    for _, address in sorted(fit):
        taken = _idle.pop(address, None)  # None if another thread was here first
        if taken is not None:
            return taken
    return None


def _kept(pages: _Pages, own_map: mmap.mmap) -> None:
    """Cache free pages for reuse; evict the pages longest idle if there are too many."""
    own_map.madvise(mmap.MADV_FREE)
    _idle[pages.ctypes.data] = pages, own_map
    while idle_bytes() > _most_idle():
        _idle.pop(next(iter(list(_idle)), 0), None)


@cache
def _most_idle() -> int:
    """Bytes that may be idle: none on systems that could not take them away."""
    if not hasattr(mmap, "MADV_FREE") or not hasattr(mmap.mmap, "madvise"):
        return 0
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // _MOST_SHARE
    except (OSError, ValueError):
        return 0
