"""Papers whose experiments can be run again: ``PAPERS`` names them, ``get`` returns one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from importlib import import_module
from typing import Any, TypeVar

from mercer_studies.page import Page
from mercer_studies.runner import Stage

PAPERS: dict[str, str] = {
    "random-binning": "random_binning",
    "tefm": "tefm",
    "sparse-features": "sparse_features",
    "asydsskl": "asydsskl",
    "block-descent": "block_descent",
}
"""Names of papers, and the modules here that hold them."""

Scale = TypeVar("Scale", bound=Any)

_KIND = re.compile(r"bool|(tuple\[)?(int|float)(, \.\.\.\])?( \| None)?")  # that a text can set
_WORDS = {"yes": True, "no": False}


@dataclass(frozen=True)
class Selected:
    """Which part of a paper's experiments to run.

    ``figures``, ``tables``: both empty for all; ``settings``: fields of the scale by name, and the
    texts of their values.
    """

    scale: str = "laptop"
    protocols: tuple[str, ...] = ()  # empty for all
    figures: tuple[int, ...] = ()
    datasets: tuple[str, ...] = ()  # empty for those of the scale
    n_jobs: int | None = None
    tables: tuple[int, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def options(self) -> str:
        """Options of ``mercer reproduce`` that select this part, without the scale."""
        found = [f"--protocol {name}" for name in self.protocols]
        found += [f"--figure {number}" for number in self.figures]
        found += [f"--table {number}" for number in self.tables]
        if self.datasets:
            found.append(f"--datasets {','.join(self.datasets)}")
        return " ".join([*found, *(f"--set {name}={text}" for name, text in self.settings)])

    def scale_of(self, scales: Mapping[str, Scale]) -> Scale:
        """The scale with the fields that ``settings`` changes.

        ``scales``: the scales of the paper by name.
        """
        scale = scales[self.scale]
        kinds = {one.name: str(one.type) for one in fields(scale)}
        kinds = {name: kind for name, kind in kinds.items() if _KIND.fullmatch(kind)}
        changed = {}
        for name, text in self.settings:
            if name not in kinds:
                raise ValueError(f"--set has no {name!r}; {hint(name, list(kinds))}")
            changed[name] = _value(name, kinds[name], text)
        return replace(scale, **changed)


@dataclass(frozen=True)
class Paper:
    """The experiments of a paper.

    ``stages``: from a ``Selected``: the stages, and a sentence for everything that is left out by
    declaration.
    """

    name: str
    scales: tuple[str, ...]
    protocols: tuple[str, ...]
    figures: tuple[int, ...]  # numbers of the figures that can be drawn again
    datasets: tuple[str, ...]  # names of all data sets that have been declared for it
    stages: Callable[[Selected], tuple[list[Stage], list[str]]]
    tables: tuple[int, ...] = ()  # numbers of the tables that can be made again

    @property
    def page(self) -> Page:
        """Claims, tables and figures of its report."""
        page: Page = import_module(f"mercer_studies.{PAPERS[self.name]}.page").PAGE
        return page

    def check(self, selected: Selected) -> None:
        """Refuse what the paper does not have."""
        for option, given, known in (
            ("--scale", (selected.scale,), self.scales),
            ("--protocol", selected.protocols, self.protocols),
            ("--figure", selected.figures, self.figures),
            ("--table", selected.tables, self.tables),
            ("--datasets", selected.datasets, self.datasets),
        ):
            for value in given:
                if value not in known:
                    near = hint(value, known)
                    raise ValueError(f"{option} has no {value!r} for {self.name}; {near}")


def get(name: str) -> Paper:
    """A paper by its name."""
    if name not in PAPERS:
        raise ValueError(f"no paper is called {name!r}; {hint(name, list(PAPERS))}")
    return import_module(f"mercer_studies.{PAPERS[name]}").PAPER


def hint(given: object, known: Sequence[object]) -> str:
    """The known name that is nearest to a wrong one, or all of them.

    >>> hint("row", ["rows", "seeds"]), hint("x", ["rows", "seeds"])
    ('did you mean rows?', 'there are rows, seeds.')
    """
    near = get_close_matches(str(given), map(str, known), n=1, cutoff=0.5)
    names = ", ".join(map(str, known)) or "none"
    return f"did you mean {near[0]}?" if near else f"there are {names}."


def _value(name: str, kind: str, text: str) -> Any:
    """A field of a scale from text: "yes" or "no", or numbers; "all" is None."""
    if text == "all" and kind.endswith("| None"):
        return None
    if kind == "bool" and text in _WORDS:
        return _WORDS[text]
    many = kind.startswith("tuple")
    make = float if "float" in kind else int
    try:
        found = tuple(make(part) for part in text.split(",") if kind != "bool")
    except ValueError:
        found = ()
    if not found or (len(found) > 1 and not many):
        raise ValueError(f"--set {name} must be {kind}; got {text!r}.")
    return found if many else found[0]
