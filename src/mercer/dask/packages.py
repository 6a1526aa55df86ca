"""The packages that only clusters need, imported when they are asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["package"]


def package(name: str) -> Any:
    """A module of dask or distributed; an ImportError in one sentence where it is missing."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise ImportError(
            f"mercer.dask needs {error.name}; pip install 'mercer[dask]' brings it."
        ) from error
