"""Values in sentences for people."""

from __future__ import annotations

from reprlib import Repr
from typing import Any

__all__ = ["shown"]

_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 80


def shown(value: Any) -> str:
    """``repr(value)`` on one line of at most some 100 characters."""
    try:
        return " ".join(_SHORT.repr(value).split())
    except ValueError:  # an integer of more digits than Python will write
        return f"one of type {type(value).__name__}"
