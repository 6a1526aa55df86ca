"""Papers whose experiments can be run again: ``PAPERS`` names them, ``get`` returns one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module

from mercer_studies.page import Page
from mercer_studies.runner import Stage

__all__ = ["PAPERS", "Paper", "Selected", "get"]

PAPERS: dict[str, str] = {
    "random-binning": "random_binning",
    "tefm": "tefm",
    "sparse-features": "sparse_features",
    "asydsskl": "asydsskl",
    "block-descent": "block_descent",
}
"""Names of papers, and the modules here that hold them."""


@dataclass(frozen=True)
class Selected:
    """Which part of a paper's experiments to run.

    Parameters
    ----------
    scale : str, default="laptop"
    protocols : tuple of str, default=()
        Empty for all.
    figures, tables : tuple of int, default=()
        Both empty for all.
    datasets : tuple of str, default=()
        Empty for those of the scale.
    n_jobs : int or None, default=None
    """

    scale: str = "laptop"
    protocols: tuple[str, ...] = ()
    figures: tuple[int, ...] = ()
    datasets: tuple[str, ...] = ()
    n_jobs: int | None = None
    tables: tuple[int, ...] = ()


@dataclass(frozen=True)
class Paper:
    """The experiments of a paper.

    Parameters
    ----------
    name : str
    scales, protocols : tuple of str
    figures : tuple of int
        Numbers of the figures that can be drawn again.
    datasets : tuple of str
        Names of all data sets that have been declared for it.
    stages : callable
        From a ``Selected``: the stages, and a sentence for everything that is left out by
        declaration.
    tables : tuple of int, default=()
        Numbers of the tables that can be made again.
    """

    name: str
    scales: tuple[str, ...]
    protocols: tuple[str, ...]
    figures: tuple[int, ...]
    datasets: tuple[str, ...]
    stages: Callable[[Selected], tuple[list[Stage], list[str]]]
    tables: tuple[int, ...] = ()

    @property
    def page(self) -> Page:
        """Claims, tables and figures of its report."""
        page: Page = import_module(f"mercer_studies.{PAPERS[self.name]}.page").PAGE
        return page

    def check(self, selected: Selected) -> None:
        """Refuse what the paper does not have.

        Raises
        ------
        ValueError
            One sentence: what, what there is instead, and what was given.
        """
        for option, given, known in (
            ("--scale", (selected.scale,), self.scales),
            ("--protocol", selected.protocols, self.protocols),
            ("--figure", selected.figures, self.figures),
            ("--table", selected.tables, self.tables),
            ("--datasets", selected.datasets, self.datasets),
        ):
            for value in given:
                if value not in known:
                    near = get_close_matches(str(value), map(str, known), n=1, cutoff=0.5)
                    names = ", ".join(map(str, known)) or "none"
                    hint = f"did you mean {near[0]}?" if near else f"there are {names}."
                    raise ValueError(f"{option} has no {value!r} for {self.name}; {hint}")


def get(name: str) -> Paper:
    """A paper by its name.

    Raises
    ------
    ValueError
        If there is none of that name.

    Examples
    --------
    >>> get("random-binning").figures
    (2, 3, 4, 5, 6)
    """
    if name not in PAPERS:
        near = get_close_matches(name, PAPERS, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(PAPERS)}."
        raise ValueError(f"no paper is called {name!r}; {hint}")
    return import_module(f"mercer_studies.{PAPERS[name]}").PAPER
