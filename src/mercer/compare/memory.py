"""Peak memory of a stretch of work, where the system can tell."""

from __future__ import annotations

import ctypes
import re
import sys
from pathlib import Path

__all__ = ["KIND", "PeakMemory"]

KIND = "highest resident memory while fitting, above what the process held before"
"""The measure of :class:`PeakMemory`, in words for the reader of a table."""

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


class PeakMemory:
    """Context manager that measures the memory its block takes on top of what is held already.

    On Linux the kernel keeps the highest resident size of a process; it is reset on entry and read
    on exit, so allocations of compiled code count and nothing is slowed down. ``peak`` is that size
    in bytes and ``added`` what it is above the size on entry; elsewhere both are None.

    >>> with PeakMemory() as memory:
    ...     block = bytes(10)
    >>> memory.added is None or memory.added >= 0
    True
    """

    def __init__(self) -> None:
        self.added: int | None = None
        self.peak: int | None = None
        self._before: int | None = None

    def __enter__(self) -> PeakMemory:
        _give_back_free_memory()
        self._before = _read("VmRSS") if _reset() else None
        return self

    def __exit__(self, *_: object) -> None:
        self.peak = None if self._before is None else _read("VmHWM")
        if self._before is not None and self.peak is not None:
            self.added = max(0, self.peak - self._before)


def _reset() -> bool:
    """Let the recorded peak start again from the present size; False where that is impossible."""
    try:
        _CLEAR.write_text("5", encoding="ascii")
    except OSError:
        return False
    return True


def _read(name: str) -> int | None:
    try:
        match = re.search(rf"^{name}:\s+(\d+) kB", _STATUS.read_text(encoding="ascii"), re.M)
    except OSError:
        return None
    return int(match[1]) * 1024 if match else None


def _give_back_free_memory() -> None:
    """Hand free heap pages back, or a block that uses them again would look cheaper than it is."""
    if not sys.platform.startswith("linux"):
        return
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc alone has it
    if trim is not None:
        trim(0)
