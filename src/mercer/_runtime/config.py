"""Memory that may be taken, and the device: settings of the whole program, or of a block."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Final

from mercer._runtime.devices import Device, device_named
from mercer._runtime.machine import held_memory
from mercer._runtime.messages import shown

__all__ = [
    "config_context",
    "device_in_force",
    "get_config",
    "memory_left",
    "memory_limit",
    "set_config",
]

_UNITS = {unit: 1024**power for power, unit in enumerate(("", "K", "M", "G", "T"))}
_SIZE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([KMGT]?)I?B?\s*", re.IGNORECASE)


_AS_BEFORE: Final[Any] = "as before"  # leaves a setting as it is


@dataclass(frozen=True)
class _Setting:
    max_memory: int | None = None
    held: int = 0  # by this process when the setting came into force
    device: Device | None = None  # None is the processor


_everywhere = _Setting()
_here: ContextVar[_Setting | None] = ContextVar("mercer_config", default=None)


def set_config(*, max_memory: int | str | None = _AS_BEFORE, device: Any = _AS_BEFORE) -> None:
    """Set the memory limit and the device of kernels for the whole program.

    Fits and predictions estimate their memory before they allocate it, and work in pieces that fit
    the limit. A parameter that is left out keeps its value.

    Parameters
    ----------
    max_memory : int, str or None
        Memory that this process may take in addition to what it holds at this call: bytes, or a
        size such as "500MB" or "8GB", in units of 1024. Memory-mapped files do not count. None
        means the memory of the machine.
    device : {"cpu", "cuda", "cuda:<number>"}, torch.device or None
        Device that computes kernels: "cpu" or None is the processor, "cuda" a GPU, by PyTorch
        (``pip install 'mercer[gpu]'``). ``torch.device("cpu")`` is the processor, with PyTorch.

    Raises
    ------
    TypeError, ValueError
        If ``max_memory`` is no size, or this machine lacks the device.
    ImportError
        If a device is named and PyTorch is not installed.

    See Also
    --------
    config_context : the same for a block of code.

    Examples
    --------
    >>> import mercer
    >>> mercer.set_config(max_memory="8GB")
    >>> mercer.get_config()
    {'max_memory': 8589934592, 'device': 'cpu'}
    >>> mercer.set_config(max_memory=None)
    """
    global _everywhere
    _everywhere = _changed(_everywhere, max_memory, device)


@contextmanager
def config_context(
    *, max_memory: int | str | None = _AS_BEFORE, device: Any = _AS_BEFORE
) -> Iterator[None]:
    """Set the memory limit and the device of kernels inside a ``with`` block.

    The block overrides ``set_config`` and enclosing blocks. Other threads keep their settings.

    Parameters
    ----------
    max_memory : int, str or None
        As for ``set_config``, from the start of the block on.
    device : {"cpu", "cuda", "cuda:<number>"}, torch.device or None
        As for ``set_config``.

    Raises
    ------
    TypeError, ValueError, ImportError
        As by ``set_config``.

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
    token = _here.set(_changed(_current(), max_memory, device))
    try:
        yield
    finally:
        _here.reset(token)


def get_config() -> dict[str, Any]:
    """The settings in force.

    Returns
    -------
    dict
        ``max_memory`` in bytes, or None; ``device``, "cpu" or the name of a GPU, or a
        ``torch.device`` where PyTorch computes on the processor.

    Examples
    --------
    >>> import mercer
    >>> with mercer.config_context(max_memory="1.5kB"):
    ...     mercer.get_config()
    {'max_memory': 1536, 'device': 'cpu'}
    """
    setting = _current()
    device: Any = "cpu"
    if setting.device is not None:
        on_gpu = setting.device.is_gpu
        device = setting.device.name if on_gpu else setting.device.torch.device("cpu")
    return {"max_memory": setting.max_memory, "device": device}


def memory_limit() -> int | None:
    """Bytes of ``max_memory``, or None."""
    return _current().max_memory


def device_in_force() -> Device | None:
    """Device that computes kernels; None for the processor without PyTorch."""
    return _current().device


def memory_left() -> int | None:
    """Bytes that the setting in force still allows; None where it sets no limit."""
    setting = _current()
    if setting.max_memory is None:
        return None
    return max(0, setting.max_memory - max(0, held_memory() - setting.held))


def _current() -> _Setting:
    return _here.get() or _everywhere


def _changed(setting: _Setting, max_memory: Any, device: Any) -> _Setting:
    if device is not _AS_BEFORE:
        setting = replace(setting, device=device_named(device))
    if max_memory is not _AS_BEFORE:
        size = _as_bytes(max_memory)
        setting = replace(setting, max_memory=size, held=0 if size is None else held_memory())
    return setting


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
