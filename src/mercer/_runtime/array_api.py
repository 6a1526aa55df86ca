"""Arrays of other libraries in, and arrays of the same kind out: ``array_api_dispatch``.

scikit-learn's setting says whether estimators take arrays that follow the array API standard, such
as tensors of PyTorch, and give the same kind back on the same device. Here a model holds NumPy
arrays alone, so that it predicts on any machine; rows that it predicts stay where they are, if its
features can be made there.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

import numpy as np
from sklearn import get_config

from mercer._runtime.config import config_context, device_in_force
from mercer._runtime.device_arrays import DeviceArray, on_host
from mercer._runtime.devices import Device, device_named
from mercer._runtime.pairs import warn_of_other_order

__all__ = ["AnyArrays", "array_of", "fitted_anywhere", "of_any_kind"]

_FITS = ("fit", "fit_transform", "partial_fit")
_PREDICTS = (
    *("predict", "predict_proba", "decision_function", "transform"),
    *("predict_interval", "predict_log_proba", "predict_set", "sample_y"),
)


class AnyArrays:
    """A mixin for estimators: methods of rows take arrays of any kind where scikit-learn says so.

    Fits take NumPy arrays of what they are given; what a prediction returns is of the kind of its
    rows. Labels that are no numbers are NumPy arrays, as by scikit-learn's own estimators.
    """

    # Whether predictions take rows as a DeviceArray: the methods themselves, or in the place of
    # ``transform`` one of the name ``_transform_on_device``.
    _predicts_on_device: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        wraps = dict.fromkeys(_FITS, fitted_anywhere) | dict.fromkeys(_PREDICTS, of_any_kind)
        for name, wrap in (wraps | {"score": _paired}).items():
            method = vars(cls).get(name)
            if callable(method):
                setattr(cls, name, wrap(method))


def of_any_kind(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method that predicts rows, of an array of any kind; its result is of this kind."""

    names = _names_beside(method)

    @functools.wraps(method)
    def predicted(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        if type(X) is np.ndarray:
            return method(self, X, *args, **kwargs)
        if args or kwargs:
            warn_of_other_order(X, {**dict(zip(names, args, strict=False)), **kwargs})
        if not _is_foreign(X):
            return method(self, X, *args, **kwargs)
        stays = self._predicts_on_device and not (args or kwargs)
        device = _place(getattr(self, "device", None), _device_of(X))
        rows: Any = None
        if stays and device is not None and device == _device_of(X):
            rows = DeviceArray(_tensor(X, device), device)
        with _in_force(device):
            if rows is None:
                result = method(self, _to_host(X), *args, **kwargs)
            else:
                there = getattr(self, f"_{method.__name__}_on_device", None)
                result = method(self, rows) if there is None else there(rows)
        return _like(result, X)

    return predicted


def fitted_anywhere(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method that fits to arrays of any kind, and warns of rows in another order."""
    names = _names_beside(method)

    @functools.wraps(method)
    def fitted(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        given = (X, *args, *kwargs.values())
        if all(type(value) is np.ndarray for value in given):
            return method(self, X, *args, **kwargs)
        warn_of_other_order(X, {**dict(zip(names, args, strict=False)), **kwargs})
        if not any(map(_is_foreign, given)):
            return method(self, X, *args, **kwargs)
        device = _place(getattr(self, "device", None), _device_of(X))
        args = tuple(map(array_of, args))
        kwargs = {name: array_of(value) for name, value in kwargs.items()}
        with _in_force(device):
            result = method(self, array_of(X), *args, **kwargs)
        return _like(result, X) if _is_foreign(X) else result

    return fitted


def _paired(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method that warns of rows in another order."""
    names = _names_beside(method)

    @functools.wraps(method)
    def warned(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        if type(X) is not np.ndarray:
            warn_of_other_order(X, {**dict(zip(names, args, strict=False)), **kwargs})
        return method(self, X, *args, **kwargs)

    return warned


def _names_beside(method: Callable[..., Any]) -> list[str]:
    """Names of the parameters behind self and X."""
    return list(inspect.signature(method).parameters)[2:]


def array_of(values: Any) -> Any:
    """A NumPy array of one of another library, where scikit-learn's setting allows them."""
    return _to_host(values) if _is_foreign(values) else values


def _is_foreign(X: Any) -> bool:
    """Whether X is an array of another library, and scikit-learn's setting says to look."""
    if isinstance(X, np.ndarray) or not hasattr(X, "__dlpack__") or not hasattr(X, "shape"):
        return False
    return bool(get_config()["array_api_dispatch"])


def _library(X: Any) -> str:
    """The package of an array; "torch" for subclasses of its tensors, whosever they are."""
    packages = [cls.__module__.partition(".")[0] for cls in type(X).__mro__]
    return "torch" if "torch" in packages else packages[0]


def _device_of(X: Any) -> Device | None:
    """The device of an array; None for those on which nothing is computed here, such as "mps"."""
    if _library(X) == "torch":
        where = X.device
        names = {"cpu": "cpu", "cuda": f"cuda:{where.index or 0}"}
        return Device(names[where.type]) if where.type in names else None
    return Device(f"cuda:{X.device.id}") if _library(X) == "cupy" else None


def _place(asked: Any, of_rows: Device | None) -> Device | None:
    """Device of an estimator: its ``device``, the setting, or the device of the rows.

    None is the processor without PyTorch. A ValueError if rows are on another GPU.
    """
    if asked is None:
        device = device_in_force()
        if device is None and of_rows is not None and of_rows.is_gpu:
            device = of_rows
    else:
        try:
            device = device_named(asked)
        except (ImportError, ValueError):
            return None  # a fit says so; predictions are made where they can be
    if device is not None and of_rows is not None and of_rows.is_gpu and device != of_rows:
        raise ValueError(
            f"X must be on the device that computes, '{device.name}', or on the processor; "
            f"it is on '{of_rows.name}'."
        )
    return device


def _in_force(device: Device | None) -> AbstractContextManager[None]:
    if device is None:
        return nullcontext()
    return config_context(device=device.torch.device(device.name))


def _tensor(X: Any, device: Device) -> Any:
    if _library(X) == "torch":
        return _plain(X)
    return device.torch.from_dlpack(X)


def _plain(X: Any) -> Any:
    """A tensor without gradients in a dtype of NumPy; a TypeError if it is sparse."""
    if str(X.layout) != "torch.strided":
        raise TypeError(f"tensors must be dense; got one of the layout {X.layout}.")
    return (X.float() if str(X.dtype) == "torch.bfloat16" else X).detach()


def _to_host(X: Any) -> Any:
    if _library(X) == "torch":
        return _plain(X).cpu().numpy()
    return X.get() if _library(X) == "cupy" else np.from_dlpack(X)


def _like(result: Any, X: Any) -> Any:
    """Numbers as an array of the library of X, on its device; all else as it is."""
    if isinstance(result, tuple):
        return tuple(_like(part, X) for part in result)
    if isinstance(result, DeviceArray) and _library(X) == "torch":
        return result.tensor
    if not isinstance(result, (np.ndarray, DeviceArray)) or result.dtype.kind not in "biuf":
        return result
    if _library(X) == "torch":
        native = np.require(result, result.dtype.newbyteorder("="), ["C", "W"])
        return Device("cpu").torch.as_tensor(native, device=X.device)
    is_cupy = _library(X) == "cupy"  # its arrays do not name their namespace
    library = importlib.import_module("cupy") if is_cupy else X.__array_namespace__()
    if isinstance(result, DeviceArray):
        return library.from_dlpack(result.tensor)
    if is_cupy:  # which takes no device
        with X.device:
            return library.asarray(on_host(result))
    return library.asarray(on_host(result), device=X.device)
