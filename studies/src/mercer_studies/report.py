"""A study as one page: what was claimed, what was measured, and whether the claims hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mercer.compare import records as files
from mercer_studies import html, markdown, sections
from mercer_studies.blocks import Section, Shown
from mercer_studies.claims import Judgement, judge
from mercer_studies.page import Page
from mercer_studies.papers import PAPERS, get
from mercer_studies.queries import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_KIND = "mercer reproduce"
_DIGITS = 6  # significant digits of a reduced record: claims and tables show at most four
_REPEATED = (
    *("record", "paper", "scale", "options", "run", "versions", "machine", "remark"),
    *("protocol", "label", "figures", "data"),
)
"""Entries that a reduced record has only where they differ from those of the line before; null
stands for none."""


@dataclass(frozen=True)
class Report:
    """A page and what it says."""

    title: str
    parts: list[object]  # blocks
    judgements: list[Judgement]
    protocols: tuple[str, ...]  # of the paper's runs
    n_runs: int
    n_failed: int

    @cached_property
    def html(self) -> str:
        """A web page that needs no other file."""
        return html.document(self.title, self.parts)

    def markdown(self, prefix: str = "") -> str:
        """The page as Markdown; its figures are files whose names begin with ``prefix``."""
        return markdown.document(self.title, self.parts, prefix)

    @property
    def figures(self) -> dict[str, Figure]:
        """The figures by name."""
        sections = (part for part in self.parts if isinstance(part, Section))
        shown = (part for one in sections for part in one.parts if isinstance(part, Shown))
        return {markdown.figure_name(one): one.figure for one in shown}


def load(paths: Iterable[str | Path]) -> list[dict[str, Any]]:
    """The records of some files, of which the last one of every run counts.

    ``paths``: files of JSON lines as ``mercer reproduce`` writes them, or folders that hold one or
    more. A last line that was cut off is left out.
    """
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for path in _files(paths):
        try:
            known = files.read(path, torn=True)
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} must hold JSON lines; it is no text.") from error
        if not known:
            raise ValueError(f"{path} must hold records of mercer reproduce; it is empty.")
        for number, record in enumerate(_completed(known)):
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

    ``records``: from ``load``; ``reference``: file of the authors' points; they are drawn and
    compared with, and the claims are put to them too.
    """
    page = _page_of(records)
    done = [record for record in records if "failed" not in record]
    theirs = page.reference(reference)
    judgements = judge(page.claims, records)
    by_them = None if theirs is None else judge(page.claims, theirs)
    parts = [
        *sections.opening(page, records, judgements),
        sections.claims(page, judgements, by_them),
        sections.shows(page, done),
        sections.beside(page, done, theirs),
        sections.measured(page, done),
        sections.figures(page.figures(done, theirs)),
        sections.data(records),
        sections.runs(records),
        sections.again(page, records, reference),
    ]
    parts = [part for part in parts if part is not None]
    n_failed = len(records) - len(done)
    return Report(page.title, parts, judgements, page.protocols, len(done), n_failed)


def reduced(records: Sequence[Record]) -> list[dict[str, Any]]:
    """The records with the entries alone that the report reads, and rounded numbers.

    ``records``: from ``load``. The report on these records has the same claims, tables and figures,
    up to rounding.
    """
    noted = [_Noted(record) for record in records]
    made = build(noted)
    made.markdown()
    before: dict[str, Any] = {}
    found = []
    for record in noted:
        few = record.used()
        few.pop("key", None)  # a line with one is not reduced
        now = {name: few.pop(name, None) for name in _REPEATED}
        found.append({name: now[name] for name in now if now[name] != before.get(name)} | few)
        before = now
    return found


def _completed(records: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Records with the entries that ``reduced`` leaves out where they repeat."""
    before: dict[str, Any] = {}
    for record in records:
        if "key" in record:  # it is not reduced
            yield record
            continue
        before |= {name: record[name] for name in _REPEATED if name in record}
        yield {name: value for name, value in before.items() if value is not None} | {
            name: value for name, value in record.items() if name not in _REPEATED
        }


class _Noted(Mapping[str, Any]):
    """A record, or a mapping in one, that notes which of its entries are read."""

    def __init__(self, record: Record):
        self._read = {"record", "paper"}.intersection(record)
        self._record = {
            name: _Noted(value) if isinstance(value, Mapping) else value
            for name, value in record.items()
        }

    def __getitem__(self, name: str) -> Any:
        value = self._record[name]
        self._read.add(name)
        return value

    def __iter__(self) -> Iterator[str]:
        self._read.update(self._record)
        return iter(self._record)

    def __len__(self) -> int:
        return len(self._record)

    def __eq__(self, other: object) -> bool:
        """Equality of contents, which counts as no reading."""
        return isinstance(other, _Noted) and self._record == other._record

    def used(self) -> dict[str, Any]:
        """The entries that were read, with rounded numbers; no empty list of warnings."""
        return {
            name: value.used() if isinstance(value, _Noted) else _rounded(value)
            for name, value in self._record.items()
            if name in self._read and (name != "warnings" or value)
        }


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, Mapping):
        return {name: _rounded(part) for name, part in value.items()}
    return [_rounded(part) for part in value] if isinstance(value, (list, tuple)) else value


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
    return get(names[0]).page
