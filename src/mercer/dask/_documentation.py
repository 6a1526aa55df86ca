"""Docstrings of the models over a Dask cluster, made from those of the local classes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import TypeVar

from mercer._runtime.documentation import entries

__all__ = ["REBUILT", "documented_as"]

Class = TypeVar("Class", bound=type)

_CLUSTER = entries(
    """
    client : distributed.Client or None, default=None
        Client of the cluster. None means the current client of this process or, if there is none, a
        cluster on the cores of this machine.
    checkpoint : str, path or None, default=None
        Folder for the state of block descent. An interrupted fit resumes from it, also in another
        process and with any number of workers.
    client_ : distributed.Client
        Client of the fit; copies and files do not include it.
    """
)
REBUILT = entries(
    """
    n_rebuilt_ : int
        Number of shards whose state was computed again after the loss of a worker.
    n_workers_ : int
        Number of workers at the end of the fit.
    """
)
_HEADING = re.compile(r"^([A-Z][\w ]+)\n-{3,}\n", re.M)


def documented_as(
    local: type, method: str, without: tuple[str, ...] = (), **changed: str
) -> Callable[[Class], Class]:
    """A decorator that puts the method and sections of a local class before the Examples.

    Parameters are those of the signature, attributes those of the local class but for ``without``;
    entries in ``changed`` replace or, of attributes, add to those of the local class.
    """

    def fill(cls: Class) -> Class:
        _, *parts = _HEADING.split(inspect.cleandoc(local.__doc__ or ""))
        if not parts:  # ``python -OO`` keeps no docstrings
            return cls
        sections = dict(zip(parts[::2], parts[1::2], strict=True))
        known = _CLUSTER | entries(sections["Parameters"]) | changed
        attributes = {"client_": _CLUSTER["client_"]} | entries(sections["Attributes"])
        attributes |= {name: text for name, text in changed.items() if name.endswith("_")}
        chosen = {
            "Parameters": [known[name] for name in inspect.signature(cls).parameters],
            "Attributes": [text for name, text in attributes.items() if name not in without],
        }
        kept = [name for name in ("Raises", "Warns", "See Also", "References") if name in sections]
        chosen |= {name: [sections[name].strip()] for name in kept}
        made = [
            "\n".join([name, "-" * len(name), *map(str.strip, texts)])
            for name, texts in chosen.items()
        ]
        summary, examples = inspect.cleandoc(cls.__doc__ or "").split("\n\n", 1)
        cls.__doc__ = "\n\n".join([summary, method, *made, examples])
        return cls

    return fill
