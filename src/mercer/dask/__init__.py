"""Models fitted over many machines with Dask: the parameters of the local ones, and a client.

>>> import mercer.dask
>>> "KernelRegressor" in mercer.dask.__all__
True
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "AutoKernelClassifier": "automatic",
    "AutoKernelRegressor": "automatic",
    "KernelClassifier": "estimators",
    "KernelRegressor": "estimators",
    "LocalKernelClassifier": "leaves",
    "LocalKernelRegressor": "leaves",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
