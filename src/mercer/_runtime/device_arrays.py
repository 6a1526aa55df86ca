"""Arrays on a device that NumPy's functions take, so that solvers are written once.

NumPy hands its functions on to arrays that have its protocols (NEP 13 and NEP 18); a tensor of
PyTorch behind them serves code that was written for NumPy, and the code stays NumPy's own where
vectors are on the processor.

Vectors of solvers have an entry per row or column of a design, and a column per right-hand side.
All that is summed over the entries is a number per column and comes as a NumPy array; all else
stays on the device. Nothing becomes a NumPy array by itself: ``on_host`` is asked for that.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import DTypeLike, NDArray

from mercer._runtime.devices import Device, exact_float32

__all__ = [
    "DeviceArray",
    "contiguous",
    "copied",
    "device_of",
    "every_row",
    "inner",
    "like_kind",
    "on_host",
    "placed",
    "zeros",
]

# Names that PyTorch gives to ufuncs of other names.
_NAMES = {
    "absolute": "abs",
    "bitwise_and": "bitwise_and",
    "conjugate": "conj",
    "divide": "div",
    "equal": "eq",
    "greater": "gt",
    "greater_equal": "ge",
    "invert": "bitwise_not",
    "less": "lt",
    "less_equal": "le",
    "multiply": "mul",
    "negative": "neg",
    "not_equal": "ne",
    "power": "pow",
    "subtract": "sub",
}
_sent: dict[tuple[int, str], tuple[Any, Any]] = {}  # places on devices, while their arrays live
_IN_PLACE = {"add": "add_", "subtract": "sub_", "multiply": "mul_", "divide": "div_"}


class DeviceArray(NDArrayOperatorsMixin):
    """A tensor of one or two axes, not copied, behind the protocols of NumPy."""

    __slots__ = ("device", "flags", "tensor")

    def __init__(self, tensor: Any, device: Device):
        self.tensor, self.device = tensor, device
        self.flags = _Flags()

    # -- what arrays tell ------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape)

    @property
    def ndim(self) -> int:
        return int(self.tensor.ndim)

    @property
    def size(self) -> int:
        return int(self.tensor.numel())

    @property
    def nbytes(self) -> int:
        return int(self.tensor.nbytes)

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(str(self.tensor.dtype).removeprefix("torch."))

    @property
    def T(self) -> DeviceArray:
        return self._wrapped(self.tensor.T)

    def __len__(self) -> int:
        return len(self.tensor)

    def __repr__(self) -> str:
        return f"<DeviceArray {self.shape}, {self.dtype}, on '{self.device.name}'>"

    def __bool__(self) -> bool:
        return bool(self.tensor)

    def __array__(self, *args: Any, **kwargs: Any) -> NDArray:
        raise TypeError(f"an array on the device '{self.device.name}' is not copied by itself.")

    # -- arrays of the same entries --------------------------------------------------------------

    def astype(self, dtype: DTypeLike, copy: bool = True) -> DeviceArray:
        return self._wrapped(self.tensor.to(self._kind(dtype), copy=copy))

    def copy(self) -> DeviceArray:
        return self._wrapped(self.tensor.clone())

    def view(self) -> DeviceArray:
        return self._wrapped(self.tensor)

    def reshape(self, *shape: Any) -> DeviceArray:
        return self._wrapped(self.tensor.reshape(*shape))

    def diagonal(self) -> DeviceArray:
        return self._wrapped(self.tensor.diagonal())

    def __getitem__(self, key: Any) -> DeviceArray:
        return self._wrapped(self.tensor[self._key(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        given = value if np.isscalar(value) else self.device.array(value).to(self.tensor.dtype)
        self.tensor[self._key(key)] = given

    def _key(self, key: Any) -> Any:
        if isinstance(key, tuple):
            return tuple(map(self._key, key))
        if isinstance(key, (list, np.ndarray)):
            key = np.asarray(key)
            return _places(self.device, np.flatnonzero(key) if key.dtype == bool else key)
        return key.tensor if isinstance(key, DeviceArray) else key

    # -- numbers of columns ----------------------------------------------------------------------

    def sum(
        self, axis: int | None = None, dtype: DTypeLike | None = None, keepdims: bool = False
    ) -> Any:
        return self._reduced("sum", axis, keepdims, dtype)

    def mean(
        self, axis: int | None = None, dtype: DTypeLike | None = None, keepdims: bool = False
    ) -> Any:
        return self._reduced("mean", axis, keepdims, dtype)

    def max(self, axis: int | None = None, keepdims: bool = False, initial: Any = None) -> Any:
        return self._reduced("amax", axis, keepdims)

    def min(self, axis: int | None = None, keepdims: bool = False, initial: Any = None) -> Any:
        return self._reduced("amin", axis, keepdims)

    def argmax(self, axis: int) -> Any:
        return self._wrapped(self.tensor.argmax(dim=axis))

    def any(self, axis: int | None = None, keepdims: bool = False) -> Any:
        return self._reduced("any", axis, keepdims)

    def all(self, axis: int | None = None, keepdims: bool = False) -> Any:
        return self._reduced("all", axis, keepdims)

    def _reduced(
        self, name: str, axis: int | None, keepdims: bool = False, dtype: DTypeLike | None = None
    ) -> Any:
        """A reduction: over the entries a NumPy array or number, otherwise one on the device."""
        tensor = self.tensor if dtype is None else self.tensor.to(self._kind(dtype))
        axes = tuple(range(self.ndim)) if axis is None else (axis % self.ndim,)
        reduced = getattr(self.device.torch, name)(tensor, dim=axes, keepdim=keepdims)
        return self.device.host(reduced)[()] if 0 in axes else self._wrapped(reduced)

    # -- protocols -------------------------------------------------------------------------------

    def __array_namespace__(self, **_: Any) -> Any:
        """The module NumPy, whose functions take this array; SciPy asks for it."""
        return np

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out, where = kwargs.pop("out", (None,))[0], kwargs.pop("where", True)
        dtype = kwargs.pop("dtype", None)
        if method != "__call__" or kwargs or not (out is None or isinstance(out, DeviceArray)):
            return NotImplemented
        operands = [self._operand(value) for value in inputs]
        if dtype is not None:
            operands = [operand.to(self._kind(dtype)) for operand in operands]
        name = ufunc.__name__
        if out is not None and where is True and inputs[0] is out and name in _IN_PLACE:
            getattr(out.tensor, _IN_PLACE[name])(operands[1])
            return out
        function = getattr(self.device.torch, _NAMES.get(name, name), None)
        function = function or getattr(self.device.torch.special, name, None)
        if function is None:
            return NotImplemented
        with exact_float32(self.device.torch) if ufunc is np.matmul else nullcontext():
            result = function(*operands)
        if out is None:
            return self._wrapped(result)
        if where is not True:
            result = self.device.torch.where(self._operand(where), result, out.tensor)
        out.tensor.copy_(result)
        return out

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        function = _FUNCTIONS.get(func.__name__)
        return NotImplemented if function is None else function(self, *args, **kwargs)

    def _operand(self, value: Any) -> Any:
        """A tensor of an array, or of a number, which leaves the type of an array as it is."""
        if isinstance(value, DeviceArray):
            return value.tensor
        if isinstance(value, np.ndarray) and value.ndim:
            return self.device.array(value)
        number = value.item() if isinstance(value, (np.generic, np.ndarray)) else value
        kind = {bool: "bool", int: "int64"}.get(type(number), "float64")
        return self.device.torch.full((), number, dtype=self._kind(kind), device=self.device.name)

    def _wrapped(self, tensor: Any) -> DeviceArray:
        return DeviceArray(tensor, self.device)

    def _kind(self, dtype: DTypeLike) -> Any:
        return getattr(self.device.torch, np.dtype(dtype).name)

    def _filled(self, shape: Any, value: float, dtype: DTypeLike) -> DeviceArray:
        shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
        torch = self.device.torch
        return self._wrapped(
            torch.full(shape, value, dtype=self._kind(dtype), device=self.device.name)
        )

    def _together(self, name: str, arrays: Any, axis: int) -> DeviceArray:
        tensors = [self._operand(array) for array in arrays]
        kind = tensors[0].dtype
        for tensor in tensors:
            kind = self.device.torch.promote_types(kind, tensor.dtype)
        tensors = [tensor.to(kind) for tensor in tensors]
        return self._wrapped(getattr(self.device.torch, name)(tensors, dim=axis))


def _places(device: Device, key: NDArray) -> Any:
    """Places on a device; those of arrays that nobody writes to, such as blocks, are sent once."""
    if key.flags.writeable:
        return device.array(key)
    name = id(key), device.name
    known = _sent.get(name)
    if known is None or known[0]() is not key:
        forget = weakref.ref(key, lambda _: _sent.pop(name, None))
        known = _sent[name] = forget, device.array(key).clone()
    return known[1]


class _Flags:
    """Flags that NumPy code sets to protect an array; a tensor ignores them."""

    writeable = True


def _einsum(one: DeviceArray, subscripts: str, *arrays: Any, dtype: DTypeLike | None = None) -> Any:
    tensors = [one._operand(array) for array in arrays]
    if dtype is not None:
        tensors = [tensor.to(one._kind(dtype)) for tensor in tensors]
    with exact_float32(one.device.torch):
        result = one.device.torch.einsum(subscripts, *tensors)
    entries, _, left = subscripts.partition("->")
    over_entries = entries[0] not in left
    return one.device.host(result)[()] if over_entries else one._wrapped(result)


def _where(one: DeviceArray, mask: Any, yes: Any, no: Any) -> DeviceArray:
    return one._wrapped(one.device.torch.where(*(one._operand(v) for v in (mask, yes, no))))


def _clip(one: DeviceArray, array: Any, low: Any = None, high: Any = None) -> DeviceArray:
    array = array if low is None else np.maximum(array, low)
    return array if high is None else np.minimum(array, high)


def _equal(one: DeviceArray, left: Any, right: Any) -> bool:
    if np.shape(left) != np.shape(right):
        return False
    return bool(one.device.torch.equal(one._operand(left), one._operand(right)))


def _norm(one: DeviceArray, array: Any) -> float:
    return float(one.device.torch.linalg.norm(array.tensor))


def _qr(one: DeviceArray, array: DeviceArray) -> tuple[DeviceArray, DeviceArray]:
    q, r = one.device.torch.linalg.qr(array.tensor)
    return one._wrapped(q), one._wrapped(r)


def _like(value: float) -> Callable[..., DeviceArray]:
    def make(one: DeviceArray, array: Any, dtype: DTypeLike | None = None) -> DeviceArray:
        return one._filled(array.shape, value, array.dtype if dtype is None else dtype)

    return make


def _method(name: str) -> Callable[..., Any]:
    return lambda one, array, *args, **kwargs: getattr(array, name)(*args, **kwargs)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: _method(name) for name in ("sum", "mean", "max", "min", "any", "all")},
    "copy": lambda one, array, order="K": array.copy(),
    "reshape": _method("reshape"),
    "zeros_like": _like(0.0),
    "empty_like": _like(0.0),
    "ones_like": _like(1.0),
    "full_like": lambda one, array, value: one._filled(array.shape, value, array.dtype),
    "shape": lambda one, array: array.shape,
    "ndim": lambda one, array: array.ndim,
    "size": lambda one, array: array.size,
    "concatenate": lambda one, arrays, axis=0: one._together("cat", arrays, axis),
    "vstack": lambda one, arrays: one._together("cat", map(_row, arrays), 0),
    "hstack": lambda one, arrays: one._together("cat", arrays, 1),
    "stack": lambda one, arrays, axis=0: one._together("stack", arrays, axis),
    "tile": lambda one, array, repeats: one._wrapped(one.device.torch.tile(array.tensor, repeats)),
    "broadcast_to": lambda one, array, shape: one._wrapped(one._operand(array).expand(shape)),
    "count_nonzero": lambda one, array: int(one.device.torch.count_nonzero(array.tensor)),
    "atleast_1d": lambda one, array: array.reshape(-1) if array.ndim == 0 else array,
    "einsum": _einsum,
    "where": _where,
    "clip": _clip,
    "array_equal": _equal,
    "norm": _norm,
    "qr": _qr,
}


def _row(array: Any) -> Any:
    """An array of two axes; one of one axis is a row."""
    return array if np.ndim(array) > 1 else array[None]


def placed(values: Any, device: Device | None, dtype: DTypeLike | None = None) -> Any:
    """An array where vectors of a device live: itself, in a ``dtype`` if given, for None."""
    if device is None:
        return values if dtype is None else np.asarray(values, dtype=dtype)
    return DeviceArray(device.array(values, dtype), device)


def copied(values: Any, dtype: DTypeLike, device: Device | None) -> Any:
    """A copy where vectors of a device live."""
    if device is None:
        return np.array(values, dtype=dtype)
    return placed(values, device, dtype).copy()


def on_host(values: Any) -> Any:
    """A NumPy array of one on a device; all else as it is."""
    return values.device.host(values.tensor) if isinstance(values, DeviceArray) else values


def like_kind(tensor: Any, given: Any, device: Device) -> Any:
    """A tensor as ``given`` is: an array of NumPy, a tensor, or one behind NumPy's protocols."""
    if isinstance(given, DeviceArray):
        return DeviceArray(tensor, device)
    return device.host(tensor) if isinstance(given, np.ndarray) else tensor


def zeros(shape: tuple[int, ...], dtype: DTypeLike, like: Any) -> Any:
    """Zeros where another array is."""
    if isinstance(like, DeviceArray):
        return like._filled(shape, 0.0, dtype)
    return np.zeros(shape, dtype=dtype)


def device_of(array: Any) -> Device | None:
    """The device that an array is on; None for one of NumPy."""
    return array.device if isinstance(array, DeviceArray) else None


def every_row(row: NDArray, like: Any) -> Any:
    """A row, for every row of another array, where that is; not to be written to."""
    return np.broadcast_to(placed(row, device_of(like)), like.shape)


def contiguous(values: Any, dtype: DTypeLike | None = None) -> Any:
    """``np.ascontiguousarray``, also of arrays on a device."""
    if not isinstance(values, DeviceArray):
        return np.ascontiguousarray(values, dtype=dtype)
    values = values if dtype is None else values.astype(dtype, copy=False)
    return DeviceArray(values.tensor.contiguous(), values.device)


def inner(left: Any, right: Any) -> NDArray:
    """``left.T @ right``, a NumPy array of a number for each pair of columns."""
    product: NDArray = on_host(left.T @ right)
    return product
