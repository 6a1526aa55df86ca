"""Parts that a paper contributes to the page on its study."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from mercer_studies.blocks import Shown
from mercer_studies.claims import PROTOCOLS, Claim
from mercer_studies.queries import Record, by_data

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Table = dict[str, Any]
"""Arguments of ``blocks.Table`` and, of one beside the authors', the column of the ``verdict``."""


def table(
    caption: str, head: list[str], rows: list[Any], numbers: Iterable[int], **verdict: int
) -> Table:
    """A table of a page; ``numbers`` are the columns set flush right."""
    return {"caption": caption, "head": head, "rows": rows, "numbers": tuple(numbers), **verdict}


class Drawing(NamedTuple):
    """A figure of a page; ``{data}`` in the text for readers who do not see it names the data."""

    title: str
    draw: Callable[[Sequence[Record]], Figure]
    runs: Callable[[Sequence[Record]], Sequence[Record]]
    alt: str
    caption: str


def drawn(
    drawings: Sequence[Drawing], records: Sequence[Record], reference: object = None
) -> list[Shown]:
    """The figures that the records hold runs of."""
    found = []
    for one in drawings:
        runs = one.runs(records)
        if runs:
            names = ", ".join(by_data(runs)) if "{data}" in one.alt else ""
            alt = one.alt.replace("{data}", names)
            found.append(Shown(one.title, one.draw(records), alt, one.caption))
    return found


@dataclass(frozen=True)
class Page:
    """Parts of the report on a paper.

    ``title``, ``about``: a heading, and what the paper did; ``figures``: from records, and
    reference points or None, to a list of ``Shown``; ``tables``: from records and reference points
    to tables: dicts of ``caption``, ``head``, ``rows``, ``numbers`` (columns set flush right) and
    ``verdict`` (the column that has one); ``read_reference``: from the path of the authors' points
    to what ``figures`` and ``tables`` take; ``published``: the authors' points, where they come
    along. Where there is neither, the page has no word on them; ``measured``: from records to
    tables of our own numbers, dicts as those of ``tables`` without ``verdict``; ``shows``: from
    records to sentences on the numbers, which are computed from the records; ``data``: names of the
    paper's data sets; those that no record is on are named as left out.
    """

    paper: str  # name in the records
    title: str
    about: str
    claims: tuple[Claim, ...]
    figures: Callable[[Sequence[Record], Sequence[Record] | None], list[Shown]]
    tables: Callable[[Sequence[Record], Sequence[Record]], list[Table]] | None = None
    tables_note: str = ""  # explanation of ``tables``
    read_reference: Callable[[Any], list[dict[str, Any]]] | None = None
    protocols: tuple[str, ...] = tuple(PROTOCOLS)  # of the paper's runs
    measured: Callable[[Sequence[Record]], list[Table]] | None = None
    measured_note: str = ""  # explanation of ``measured``
    published: Callable[[], list[dict[str, Any]]] | None = None
    shows: Callable[[Sequence[Record]], list[str]] | None = None
    remarks: tuple[str, ...] = ()  # sentences that give reasons and state no number of the records
    data: tuple[str, ...] = ()

    def reference(self, path: Any = None) -> list[dict[str, Any]] | None:
        """The authors' points, from a file or as they come along; None if there are none."""
        if path is None:
            return None if self.published is None else self.published()
        if self.read_reference is None:
            why = "authors gave no numbers" if self.published is None else "numbers are known"
            raise ValueError(
                f"--reference must be left out for {self.paper}, whose {why}; got {path}."
            )
        return self.read_reference(path)
