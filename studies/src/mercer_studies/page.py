"""What a paper contributes to the page on its study."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mercer_studies.blocks import Shown
from mercer_studies.claims import PROTOCOLS, Claim

__all__ = ["Page", "Shown"]

Record = Mapping[str, Any]


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
    shows : callable, optional
        From records to sentences on the numbers, which are computed from the records.
    remarks : tuple of str, default=()
        Sentences that give reasons and state no number of the records.
    data : tuple of str, default=()
        Names of the paper's data sets; those that no record is on are named as left out.
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
    shows: Callable[[Sequence[Record]], list[str]] | None = None
    remarks: tuple[str, ...] = ()
    data: tuple[str, ...] = ()

    def reference(self, path: Any = None) -> list[dict[str, Any]] | None:
        """The authors' points, from a file or as they come along; None if there are none.

        Raises
        ------
        ValueError
            If a file is given for a paper that needs none.
        """
        if path is None:
            return None if self.published is None else self.published()
        if self.read_reference is None:
            why = "authors gave no numbers" if self.published is None else "numbers are known"
            raise ValueError(
                f"--reference must be left out for {self.paper}, whose {why}; got {path}."
            )
        return self.read_reference(path)
