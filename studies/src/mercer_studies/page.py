"""What a paper contributes to the page on its study."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mercer_studies.claims import PROTOCOLS, Claim

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Page", "Shown"]

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Shown:
    """A figure of the page.

    Parameters
    ----------
    title : str
    figure : matplotlib.figure.Figure
    alt : str
        What it shows, for those who do not see it.
    caption : str
        How to read it.
    """

    title: str
    figure: Figure
    alt: str
    caption: str


@dataclass(frozen=True)
class Page:
    """What the report on a paper consists of.

    Parameters
    ----------
    paper : str
        The name in its records.
    title, about : str
        A heading, and what the paper did.
    claims : tuple of Claim
    figures : callable
        From records, and reference points or None, to a list of ``Shown``.
    tables : callable, optional
        From records and reference points to tables: dicts of ``caption``, ``head``, ``rows``,
        ``numbers`` (columns set flush right) and ``verdict`` (the column that has one).
    tables_note : str, default=""
        How to read these tables.
    read_reference : callable, optional
        From the path of the authors' points to what ``figures`` and ``tables`` take.
    published : callable, optional
        The authors' points, where they come along. Where there is neither, the page has no word on
        them.
    protocols : tuple of str, default=all
        Those that the paper is run under.
    measured : callable, optional
        From records to tables of our own numbers, dicts as those of ``tables`` without ``verdict``.
    measured_note : str, default=""
        How to read these.
    """

    paper: str
    title: str
    about: str
    claims: tuple[Claim, ...]
    figures: Callable[[Sequence[Record], Sequence[Record] | None], list[Shown]]
    tables: Callable[[Sequence[Record], Sequence[Record]], list[dict[str, Any]]] | None = None
    tables_note: str = ""
    read_reference: Callable[[Any], list[dict[str, Any]]] | None = None
    protocols: tuple[str, ...] = tuple(PROTOCOLS)
    measured: Callable[[Sequence[Record]], list[dict[str, Any]]] | None = None
    measured_note: str = ""
    published: Callable[[], list[dict[str, Any]]] | None = None
