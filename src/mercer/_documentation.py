"""Docstrings whose entries several classes share, written once."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import TypeVar

__all__ = ["documented", "entries"]

Class = TypeVar("Class", bound=type)

_PLACE = re.compile(r"^\{([\w, ]+)\}$", re.M)


def documented(texts: dict[str, str]) -> Callable[[Class], Class]:
    """A decorator that puts the entries of these names in the place of a line ``{kernel, gamma}``.

    That is done when the class is made: ``help``, documentation and HTML see whole docstrings. A
    name without an entry is a KeyError.
    """

    def fill(cls: Class) -> Class:
        if cls.__doc__ is not None:  # ``python -OO`` has none
            cls.__doc__ = _PLACE.sub(
                lambda place: "\n".join(texts[name] for name in place[1].split(", ")),
                inspect.cleandoc(cls.__doc__),
            )
        return cls

    return fill


def entries(text: str) -> dict[str, str]:
    """Entries of a numpydoc section by the first word of each."""
    parts = re.split(r"\n(?=\S)", inspect.cleandoc(text))
    return {part[: re.match(r"\w+", part).end()]: part for part in parts}  # type: ignore[union-attr]
