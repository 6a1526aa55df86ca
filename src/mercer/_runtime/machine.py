"""Cores and memory that the operating system, containers and callers leave to this process."""

from __future__ import annotations

import math
import os
import re
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

__all__ = ["cores", "free_memory", "group_memory", "held_memory"]

_ROOT = Path("/")  # below which systems like Linux tell about themselves

# Files of a control group that say its limit and its use, of the second version and of the first.
_QUOTA = (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us"))
_MEMORY = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
_NO_LIMIT = 2**62  # bytes, about which the first version says where there is none


# -- cores -----------------------------------------------------------------------------------


def cores() -> int:
    """Cores that this process, or this worker of joblib, may use.

    The least of its affinity, the quotas of its control groups, ``OMP_NUM_THREADS``, which joblib
    sets for processes, and ``LOKY_MAX_CPU_COUNT``. Threads of joblib, and processes without a
    share, have one core each, as siblings are at work on the others.
    """
    import joblib.parallel  # not needed for the help of the commands

    told = _number_in("OMP_NUM_THREADS")
    in_thread = threading.current_thread() is not threading.main_thread()
    nested = (joblib.parallel.get_active_backend()[0].nesting_level or 0) > 0
    if nested and (in_thread or told is None):
        return 1
    masked = hasattr(os, "sched_getaffinity")
    limits = [
        len(os.sched_getaffinity(0)) if masked else joblib.cpu_count(),
        told,
        _number_in("LOKY_MAX_CPU_COUNT"),
        *map(_quota, _limiting("cpu", _quota, _ROOT)),
    ]
    return max(1, min(limit for limit in limits if limit is not None))


def _number_in(variable: str) -> int | None:
    """The number of threads that a variable says, which may be a list with one for each level."""
    number = re.match(r"\s*(\d+)\s*(,|$)", os.environ.get(variable, ""))
    return int(number[1]) if number is not None and int(number[1]) > 0 else None


def _quota(group: Path) -> int | None:
    """Cores whose time a control group may use, where it has a limit."""
    for names in _QUOTA:
        try:
            words = " ".join((group / name).read_text(encoding="ascii") for name in names).split()
            quota, period = (int(word) for word in words)  # "max" is no limit
            return math.ceil(quota / period) if quota > 0 else None  # nor is -1
        except (OSError, ValueError, ZeroDivisionError):
            continue
    return None


# -- memory ----------------------------------------------------------------------------------


def free_memory() -> int | None:
    """Bytes that the machine has left; None on systems without the figure."""
    told = _kilobytes("proc/meminfo", "MemAvailable:")
    if told is not None:
        return told
    try:
        import psutil

        return int(psutil.virtual_memory().available)
    except (ImportError, OSError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def address_room() -> int | None:
    """Bytes that the limit of address space, ``ulimit -v``, leaves; None without such a limit."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit == resource.RLIM_INFINITY:
            return None
        with open(os.path.join(_ROOT, "proc/self/statm"), "rb", buffering=0) as table:
            pages = int(table.read().split()[0])
        return max(0, limit - pages * os.sysconf("SC_PAGE_SIZE"))
    except (ImportError, AttributeError, ValueError, IndexError, OSError):
        return None


def held_memory() -> int:
    """Bytes of private memory of this process; 0 on systems without the figure."""
    from mercer._runtime.pages import idle_bytes  # loads NumPy, which --help does without

    told = _kilobytes("proc/self/status", "RssAnon:")
    if told is not None:
        return max(0, told - idle_bytes())
    try:  # the same with what is mapped, for systems that do not tell them apart
        numbers = (_ROOT / "proc/self/statm").read_text(encoding="ascii")
        resident, shared = (int(part) for part in numbers.split()[1:3])
        return max(0, resident - shared) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        pass
    try:
        import psutil

        memory = psutil.Process().memory_info()
        return int(getattr(memory, "private", memory.rss))  # Windows tells what is not shared
    except (ImportError, OSError):
        return 0


def group_memory() -> int | None:
    """Bytes that the limits of a container or a batch system leave; None without such limits."""
    rooms = map(_room, _limiting("memory", _room, _ROOT))
    return min((room for room in rooms if room is not None), default=None)


def _room(group: Path) -> int | None:
    """Bytes that the limit of one control group leaves, where it has one."""
    for limit_in, use_in, given_back in _MEMORY:
        try:
            limit = int((group / limit_in).read_text(encoding="ascii"))  # "max" is no limit
            if limit >= _NO_LIMIT:
                return None
            used = int((group / use_in).read_text(encoding="ascii"))
            lines = (group / "memory.stat").read_text(encoding="ascii").splitlines()
            stat = dict(line.split() for line in lines)
            # Pages of files are given back when memory runs short.
            return max(0, limit - used + int(stat.get(given_back, 0)))
        except (OSError, ValueError):
            continue
    return None


def _kilobytes(file: str, name: str) -> int | None:
    """The number behind a name in a table of the system, in bytes."""
    try:
        # Asked for by every transform: a path of strings, as pathlib interns every part of its own.
        with open(os.path.join(_ROOT, file), "rb", buffering=0) as table:
            _, behind, rest = (b"\n" + (table.read() or b"")).partition(f"\n{name}".encode())
        return int(rest.split(maxsplit=1)[0]) * 1024 if behind else None
    except OSError:
        return None


# -- control groups --------------------------------------------------------------------------


@cache
def _limiting(
    controller: str, limit_of: Callable[[Path], int | None], root: Path
) -> tuple[Path, ...]:
    """The control groups around this process that limit memory or cpu, looked for once."""
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="ascii").splitlines()
        told = [line.split(":", 2)[1:] for line in lines]
        groups = [group for names, path in told for group in _around(controller, names, path, root)]
    except (OSError, ValueError):
        return ()
    return tuple(group for group in groups if limit_of(group) is not None)


def _around(controller: str, names: str, path: str, root: Path) -> Iterator[Path]:
    """A control group and those around it; a container may see its own as the outermost one."""
    mounts = root / "sys/fs/cgroup"
    if not names:  # the second version, alone or beside the first
        places = [mounts, mounts / "unified"]
    elif controller in names.split(","):
        places = [mounts / names, mounts / controller]
    else:
        return
    for place in dict.fromkeys(places):
        group = place / path.lstrip("/")
        yield from (folder for folder in (group, *group.parents) if folder.is_relative_to(place))
