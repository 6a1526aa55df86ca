"""Kernel machines fitted over shards."""

from __future__ import annotations

from typing import Any

__all__ = ["fit_machine"]


def fit_machine(model: Any, engine: Any, *, callback: Any = None, checkpoint: Any = None) -> Any:
    """The model, fitted in place to the shards of an engine."""
    raise NotImplementedError
