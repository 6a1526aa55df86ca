"""The packages that only exports need, imported when they are asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["package"]


def package(name: str) -> Any:
    """A module of an optional package; an ImportError in one sentence where it is missing."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0]:
            raise
        raise ImportError(
            f"export to ONNX needs {error.name}; pip install 'mercer[onnx]' brings it."
        ) from error
