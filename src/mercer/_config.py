"""The memory that may be taken: a setting of the whole program, or of a block of code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from mercer._machine import held_memory
from mercer._words import shown

__all__ = ["config_context", "get_config", "memory_left", "set_config"]

_UNITS = {unit: 1024**power for power, unit in enumerate(("", "K", "M", "G", "T"))}
_SIZE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([KMGT]?)I?B?\s*", re.IGNORECASE)


@dataclass(frozen=True)
class _Setting:
    max_memory: int | None = None
    held: int = 0  # by this process when the setting came into force


_everywhere = _Setting()
_here: ContextVar[_Setting | None] = ContextVar("mercer_config", default=None)


def set_config(*, max_memory: int | str | None = None) -> None:
    """Set, for the whole program, how much memory may be taken.

    Every estimate of what a fit or a prediction needs is held against it before the memory is
    taken, and what is worked on or kept in pieces is cut so that it fits.

    Parameters
    ----------
    max_memory : int, str or None, default=None
        What this process may take from now on besides what it holds already: bytes, or a size such
        as "500MB" or "8GB", in units of 1024. Files that are mapped do not count. None leaves the
        limit to the machine.

    Raises
    ------
    TypeError, ValueError
        If that is no size.

    See Also
    --------
    config_context : the same for a block of code.

    Examples
    --------
    >>> import mercer
    >>> mercer.set_config(max_memory="8GB")
    >>> mercer.get_config()
    {'max_memory': 8589934592}
    >>> mercer.set_config(max_memory=None)
    """
    global _everywhere
    _everywhere = _setting(max_memory)


@contextmanager
def config_context(*, max_memory: int | str | None = None) -> Iterator[None]:
    """Set how much memory may be taken inside a ``with`` block.

    It takes the place of what ``set_config`` or a block around it says. Other threads keep theirs.

    Parameters
    ----------
    max_memory : int, str or None, default=None
        As for ``set_config``, from the start of the block on.

    Raises
    ------
    TypeError, ValueError
        If that is no size.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> with mercer.config_context(max_memory="500MB"):
    ...     model = mercer.KernelRegressor(random_state=0).fit(X, X[:, 0])
    >>> model.predict(X).shape
    (500,)
    """
    token = _here.set(_setting(max_memory))
    try:
        yield
    finally:
        _here.reset(token)


def get_config() -> dict[str, Any]:
    """The settings in force.

    Returns
    -------
    dict
        ``max_memory`` in bytes, or None.

    Examples
    --------
    >>> import mercer
    >>> with mercer.config_context(max_memory="1.5kB"):
    ...     mercer.get_config()
    {'max_memory': 1536}
    """
    return {"max_memory": _current().max_memory}


def memory_left() -> int | None:
    """Bytes that the setting in force still allows; None where it sets no limit."""
    setting = _current()
    if setting.max_memory is None:
        return None
    return max(0, setting.max_memory - max(0, held_memory() - setting.held))


def _current() -> _Setting:
    return _here.get() or _everywhere


def _setting(max_memory: Any) -> _Setting:
    size = _as_bytes(max_memory)
    return _Setting(size, 0 if size is None else held_memory())


def _as_bytes(size: Any) -> int | None:
    if size is None:
        return None
    if isinstance(size, str):
        match = _SIZE.fullmatch(size)
        number = 0 if match is None else int(float(match[1]) * _UNITS[match[2].upper()])
    elif isinstance(size, Integral) and not isinstance(size, bool):
        number = int(size)
    else:
        raise TypeError(
            f"max_memory must be bytes, a size such as '8GB' or None; got {shown(size)}."
        )
    if number < 1:
        raise ValueError(
            "max_memory must be a positive number of bytes or a size such as '8GB'; "
            f"got {shown(size)}."
        )
    return number
