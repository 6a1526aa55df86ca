"""Devices that arrays may live on beside this machine's processor, by way of PyTorch.

PyTorch is imported when a device is asked for, and not before.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

from mercer._runtime.machine import free_memory
from mercer._runtime.messages import shown

if TYPE_CHECKING:  # settings are looked at by commands that need no numbers
    from numpy.typing import ArrayLike, DTypeLike, NDArray

__all__ = ["Device", "describe_devices", "device_named", "exact_float32"]

_RULE = "device must be None, 'cpu', 'cuda', 'cuda:<number>' or a torch.device"


@dataclass(frozen=True)
class Device:
    """A device of PyTorch: a GPU, or the processor where a ``torch.device`` says so."""

    name: str  # such as "cuda:0"

    @property
    def torch(self) -> Any:
        """The module PyTorch."""
        return importlib.import_module("torch")

    @property
    def is_gpu(self) -> bool:
        return self.name != "cpu"

    def array(self, values: Any, dtype: DTypeLike | None = None) -> Any:
        """A tensor, not to be written to: it shares the memory of the values where it can."""
        import numpy as np

        torch = self.torch
        values = getattr(values, "tensor", values)  # of a DeviceArray
        if isinstance(values, np.ndarray):
            values = np.ascontiguousarray(values, values.dtype.newbyteorder("="))
            with _no_warning_of_read_only(values):
                values = torch.as_tensor(values)
        kind = None if dtype is None else getattr(torch, np.dtype(dtype).name)
        return values.to(device=self.name, dtype=kind)

    def places(self, index: slice | ArrayLike) -> Any:
        """Index of rows on the device: a slice, or an array of numbers or flags."""
        import numpy as np

        return index if isinstance(index, slice) else self.array(np.asarray(index))

    def host(self, tensor: Any) -> NDArray:
        """An array of a tensor."""
        array: NDArray = tensor.detach().cpu().numpy()
        return array

    def free_memory(self) -> int | None:
        """Bytes that can be taken on the device, or None where it does not tell."""
        torch = self.torch
        if not self.name.startswith("cuda"):
            return free_memory()
        unused = torch.cuda.memory_reserved(self.name) - torch.cuda.memory_allocated(self.name)
        return int(torch.cuda.mem_get_info(self.name)[0] + unused)


def device_named(device: Any) -> Device | None:
    """The device of a name or a ``torch.device``; None for the processor without PyTorch.

    An ImportError without PyTorch; a ValueError or TypeError for a device this machine lacks.
    """
    is_name = isinstance(device, str)
    if device is None or (is_name and device == "cpu"):
        return None
    if not is_name and type(device).__module__ != "torch":
        raise TypeError(f"{_RULE}; got {shown(device)}.")
    if is_name and device.partition(":")[0] != "cuda":
        raise ValueError(f"{_RULE}; got {shown(device)}.")
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        raise ImportError(
            f"device={shown(device)} needs PyTorch; install mercer with its extra: mercer[gpu]."
        ) from error
    try:
        asked = torch.device(device)
    except RuntimeError:
        raise ValueError(f"{_RULE}; got {shown(device)}.") from None
    if asked.type == "cpu":
        return Device("cpu")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if asked.type != "cuda" or (asked.index or 0) >= count:
        there = ", ".join(f"'cuda:{i}'" for i in range(count)) or "none"
        raise ValueError(
            f"device must be a GPU that PyTorch finds here ({there}); got {shown(str(asked))}."
        )
    index = torch.cuda.current_device() if asked.index is None else asked.index
    return Device(f"cuda:{index}")


def describe_devices() -> list[str]:
    """A line for every GPU that PyTorch finds: its name, and its memory in bytes."""
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return []
    if not torch.cuda.is_available():
        return []
    of_each = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    return [
        f"cuda:{i}: {of.name}, {of.total_memory / 2**30:.0f} GB" for i, of in enumerate(of_each)
    ]


@contextmanager
def _no_warning_of_read_only(values: NDArray) -> Iterator[None]:
    """Silence PyTorch's warning of read-only arrays; nothing writes to them here."""
    import warnings

    if values.flags.writeable:  # filters are of the whole program, whose other threads go on
        yield
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        yield


class _Exact:
    """Open blocks of ``exact_float32``: their number, and the setting to restore after the last."""

    def __init__(self) -> None:
        self.lock, self.n_blocks = Lock(), 0
        self.put_back: Callable[[], Any]  # of the first block


_exact = _Exact()


@contextmanager
def exact_float32(torch: Any) -> Iterator[None]:
    """Products of float32 matrices in float32, whatever shorter type the program allows them.

    The setting is global: the first block entered in any thread sets it, the last restores it.
    """
    with _exact.lock:
        if not _exact.n_blocks:
            _exact.put_back = _allow_no_shorter_type(torch)
        _exact.n_blocks += 1
    try:
        yield
    finally:
        with _exact.lock:
            _exact.n_blocks -= 1
            if not _exact.n_blocks:
                _exact.put_back()


def _allow_no_shorter_type(torch: Any) -> Callable[[], Any]:
    """Compute float32 products in float32; return a function that restores the setting."""
    try:
        allowed = torch.get_float32_matmul_precision()
    except RuntimeError:  # as the program has set it in the newer way, of PyTorch 2.9
        return _allow_in_the_newer_way(torch, "ieee", "ieee")
    torch.set_float32_matmul_precision("highest")
    return partial(torch.set_float32_matmul_precision, allowed)


def _allow_in_the_newer_way(torch: Any, *precisions: str) -> Callable[[], Any]:
    parts = torch.backends.cuda.matmul, torch.backends.mkldnn.matmul
    before = [part.fp32_precision for part in parts]
    for part, precision in zip(parts, precisions, strict=True):
        part.fp32_precision = precision
    return partial(_allow_in_the_newer_way, torch, *before)
