"""Class pages show what mercer wrote and name what scikit-learn's base classes add.

Docstrings are also read as plain text where reStructuredText sees markup: bars of absolute values
and fitted attributes such as ``coef_`` inside of shapes.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

from sphinx.application import Sphinx

_CONFIGURES = ("get_metadata_routing", "set_callbacks")  # beside set_*_request


def _owner(cls: type, name: str) -> str:
    for base in cls.__mro__:
        if name in vars(base):
            return base.__module__
    return ""


def _methods_of_scikit_learn(cls: type) -> list[str]:
    names = (name for name in dir(cls) if not name.startswith("_"))
    return sorted(
        name
        for name in names
        if _owner(cls, name).startswith("sklearn") and callable(getattr(cls, name, None))
    )


def _skip(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    module = getattr(obj, "__module__", None) or ""
    if inspect.isdatadescriptor(obj) and isinstance(obj, property):
        module = getattr(obj.fget, "__module__", "") or ""
    if module.startswith(("sklearn", "abc", "enum", "builtins")) or name in _CONFIGURES:
        return True
    return None


_LITERAL = re.compile(r"(``[^`]+``|:[\w:]+:`[^`]+`|`[^`]+`_?|^ *(?:>>>|\.\.\. ).*$)", re.M)
_MARKUP = re.compile(r"(?<![\\\w*])(\w+_)(?=[,)\s])|\|")


def _plain(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    text = "\n".join(lines)
    parts = _LITERAL.split(text)
    parts[::2] = [_MARKUP.sub(_escaped, part) for part in parts[::2]]
    lines[:] = "".join(parts).split("\n")


def _escaped(match: re.Match[str]) -> str:
    return f"{match[1][:-1]}\\_" if match[1] else r"\|"


def _tell(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    if what != "class":
        return
    methods = _methods_of_scikit_learn(obj)
    if methods:
        told = ", ".join(f"``{method}``" for method in methods)
        lines += ["", ".. rubric:: From scikit-learn's base classes", "", told + ".", ""]


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-skip-member", _skip)
    app.connect("autodoc-process-docstring", _plain, priority=800)
    app.connect("autodoc-process-docstring", _tell, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
