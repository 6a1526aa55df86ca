"""Rows of several tables that are paired by position."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from typing import Any

__all__ = ["warn_of_other_order"]

_FRAMES = 3  # calls from here to that of a method of a user's


def warn_of_other_order(X: Any, others: Mapping[str, Any]) -> None:
    """Warn if an index of pandas has the values of that of X in another order."""
    index = _index_of(X)
    if index is None or _is_inside(sys._getframe(2).f_globals.get("__name__", "")):
        return
    for name, values in others.items():
        other = _index_of(values)
        if other is None or len(other) != len(index) or other.equals(index):
            continue
        if index.is_unique and other.is_unique and other.isin(index).all():
            warnings.warn(
                f"X and {name} have the same index values in different orders, and rows are paired "
                f"by position; give {name}.loc[X.index] to pair them by index, or "
                f"{name}.to_numpy() if the order is meant.",
                UserWarning,
                stacklevel=_FRAMES,
            )


def _index_of(values: Any) -> Any:
    """The index of a frame or a series of pandas; None for all else."""
    is_pandas = type(values).__module__.partition(".")[0] == "pandas"
    return getattr(values, "index", None) if is_pandas else None


def _is_inside(module: str) -> bool:
    return module.partition(".")[0] == "mercer"
