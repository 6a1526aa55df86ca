"""A study as one page: what was claimed, what was measured, and whether the claims hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from mercer.compare import records as files
from mercer_studies import html, sections
from mercer_studies.claims import Judgement, judge
from mercer_studies.page import Page
from mercer_studies.papers import PAPERS

__all__ = ["Report", "build", "load"]

Record = Mapping[str, Any]

_KIND = "mercer reproduce"


@dataclass(frozen=True)
class Report:
    """A page and what it says.

    Parameters
    ----------
    html : str
        The whole page; it needs no other file.
    judgements : list of Judgement
    protocols : tuple of str
        Those that the paper is run under.
    n_runs, n_failed : int
    """

    html: str
    judgements: list[Judgement]
    protocols: tuple[str, ...]
    n_runs: int
    n_failed: int


def load(paths: Iterable[str | Path]) -> list[dict[str, Any]]:
    """The records of some files, of which the last one of every run counts.

    Parameters
    ----------
    paths : iterable of str or path-like
        Files of JSON lines as ``mercer reproduce`` writes them, or folders that hold one or more.
        A last line that was cut off is left out.

    Returns
    -------
    list of dict

    Raises
    ------
    FileNotFoundError
        If a path is missing, or a folder holds no such file.
    ValueError
        If a file holds something else, or nothing.
    """
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for path in _files(paths):
        try:
            known = files.read(path, torn=True)
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} must hold JSON lines; it is no text.") from error
        if not known:
            raise ValueError(f"{path} must hold records of mercer reproduce; it is empty.")
        for number, record in enumerate(known):
            if record.get("record") != _KIND:
                raise ValueError(
                    f"{path} must hold records of mercer reproduce; it has one of "
                    f"{record.get('record')!r}."
                )
            key = record.get("key") or (str(path), number)
            found[record.get("paper"), key] = record
    return list(found.values())


def build(records: Sequence[Record], reference: str | Path | None = None) -> Report:
    """The page on one paper from its records.

    Parameters
    ----------
    records : sequence of mapping
        From ``load``.
    reference : str or path-like, optional
        File of the authors' points; they are drawn and compared with, and the claims are put to
        them too.

    Returns
    -------
    Report

    Raises
    ------
    ValueError
        If there are no records, records of several papers or of one that is not known, or if the
        reference is no such file.
    """
    page = _page_of(records)
    done = [record for record in records if "failed" not in record]
    theirs = _reference(page, reference)
    judgements = judge(page.claims, records)
    by_them = None if theirs is None else judge(page.claims, theirs)
    parts = [
        sections.opening(page, records, judgements),
        sections.claims(page, judgements, by_them),
        sections.beside(page, done, theirs),
        sections.measured(page, done),
        sections.figures(page.figures(done, theirs)),
        sections.data(records),
        sections.runs(records),
        sections.again(page, records, reference),
    ]
    text = html.document(page.title, *(part for part in parts if part))
    return Report(text, judgements, page.protocols, len(done), len(records) - len(done))


def _reference(page: Page, path: str | Path | None) -> list[dict[str, Any]] | None:
    """The authors' points, from a file or as they come along; None where there are none."""
    if path is None:
        return None if page.published is None else page.published()
    if page.read_reference is None:
        why = "authors gave no numbers" if page.published is None else "numbers are known"
        raise ValueError(f"reference must be left out for {page.paper}, whose {why}; got {path}.")
    return page.read_reference(path)


def _files(paths: Iterable[str | Path]) -> list[Path]:
    found: list[Path] = []
    for path in map(Path, paths):
        if not path.exists():
            raise FileNotFoundError(f"there is no file {path}.")
        inside = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        if not inside:
            raise FileNotFoundError(f"the folder {path} holds no records (*.jsonl).")
        found += inside
    return found


def _page_of(records: Sequence[Record]) -> Page:
    names = sorted({str(record.get("paper")) for record in records})
    if len(names) != 1:
        given = ", ".join(names) or "none"
        raise ValueError(f"records must be of one paper; got {given}.")
    if names[0] not in PAPERS:
        raise ValueError(f"records must be of a known paper; got {names[0]!r}.")
    return import_module(f"mercer_studies.{PAPERS[names[0]]}.page").PAGE
