"""Commands that other distributions add, as entry points of the group ``mercer.commands``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

GROUP = "mercer.commands"


def additions() -> Iterator[Callable[[Any], None]]:
    """What adds commands to the application that it is given."""
    if not any(map(_names_group, sys.path)):
        return
    from importlib.metadata import entry_points  # half as long to import as all of this interface

    for addition in entry_points(group=GROUP):
        yield addition.load()


def _names_group(folder: str) -> bool:
    """Whether a distribution that is installed in a folder has entry points of the group."""
    try:
        names = os.listdir(folder or os.curdir)
    except OSError:  # no folder, or not for us
        return False
    for name in names:
        if name.endswith("-info"):
            try:
                with open(os.path.join(folder, name, "entry_points.txt"), encoding="utf-8") as file:
                    if f"[{GROUP}]" in file.read():
                        return True
            except (OSError, UnicodeDecodeError):  # most have none
                continue
    return False
