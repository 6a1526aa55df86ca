"""Values in sentences for people."""

from __future__ import annotations

import re
from reprlib import Repr
from typing import Any

__all__ = ["printable", "shown", "too_large"]

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but tabs and ends of lines
_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 80


def shown(value: Any) -> str:
    """``repr(value)`` on one line of at most some 100 characters; NumPy's scalars as Python's."""
    # Without an import of NumPy, for which ``mercer --help`` need not wait.
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        text = str(value)
        return repr(text) if value.dtype.kind == "U" else text
    try:
        return " ".join(_SHORT.repr(value).split())
    except ValueError:  # an integer of more digits than Python will write
        return f"one of type {type(value).__name__}"


def printable(text: str) -> str:
    """The text with control characters, on which a terminal acts, as escape sequences of Python."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def too_large(name: str, row: int, column: str) -> str:
    """A sentence about a number beyond the range of float64."""
    return (
        f"{name} must hold numbers up to 1.8e308, the largest of float64; row {row} of column "
        f"{column!r} holds a larger one: take logarithms of that column, or leave the row out."
    )
