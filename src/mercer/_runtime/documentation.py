"""Docstrings whose entries several classes share, written once, and links to their pages."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from functools import cache
from importlib.metadata import PackageNotFoundError, metadata
from typing import TypeVar

__all__ = ["Linked", "documented", "entries"]

Documented = TypeVar("Documented")  # a class or a function

_PLACE = re.compile(r"^\{([\w, ]+)\}$", re.M)


def documented(texts: dict[str, str]) -> Callable[[Documented], Documented]:
    """A decorator that replaces lines such as ``{kernel, gamma}`` by the entries of the names."""

    def fill(owner: Documented) -> Documented:
        if owner.__doc__ is not None:  # ``python -OO`` has none
            owner.__doc__ = _PLACE.sub(
                lambda place: "\n".join(texts[name] for name in place[1].split(", ")),
                inspect.cleandoc(owner.__doc__),
            )
        return owner

    return fill


def entries(text: str) -> dict[str, str]:
    """Entries of a numpydoc section by the first word of each."""
    parts = re.split(r"\n(?=\S)", inspect.cleandoc(text))
    return {part[: re.match(r"\w+", part).end()]: part for part in parts}  # type: ignore[union-attr]


class Linked:
    """An estimator whose HTML diagram links to its page in the API reference."""

    _doc_link_module = "mercer"

    @property
    def _doc_link_template(self) -> str:
        page = _public_name(type(self))
        return f"{site()}api/generated/{page}.html" if page and site() else ""

    def _doc_link_url_param_generator(self) -> dict[str, str]:
        return {}


@cache
def site() -> str:
    """Address of the documentation, as the installed package states it; "" if it states none."""
    try:
        stated = metadata("mercer").get_all("Project-URL") or []
    except PackageNotFoundError:  # a source tree that was never installed
        return ""
    addresses = dict(line.split(", ", 1) for line in stated)
    address = addresses.get("Documentation", "")
    return f"{address.rstrip('/')}/" if address else ""


def _public_name(cls: type) -> str:
    """Where users import a class from, "" if it is not public."""
    home = ".".join(cls.__module__.split(".")[:2])
    for module in ("mercer", home):
        if cls.__name__ in getattr(sys.modules.get(module), "__all__", ()):
            return f"{module}.{cls.__name__}"
    return ""
