"""A study as one page: what was claimed, what was measured, and whether the claims hold."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mercer.experiments import html
from mercer.experiments import records as files
from mercer.experiments.claims import (
    HELD,
    NOT_HELD,
    NOT_TESTED,
    PARTLY,
    PROTOCOLS,
    Claim,
    Judgement,
    judge,
)
from mercer.experiments.html import Html

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Page", "Report", "Shown", "build", "load"]

Record = Mapping[str, Any]

_KIND = "mercer reproduce"
_BADGES = {HELD: "good", PARTLY: "fair", NOT_HELD: "bad", NOT_TESTED: "none"}
_NUMBER = re.compile(r"\d[\d.e+-]*")
_NEARNESS = {"near": "good", "better": "good", "worse": "bad"}


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
    tables : callable
        From records and reference points to tables: dicts of ``caption``, ``head``, ``rows``,
        ``numbers`` (columns set flush right) and ``verdict`` (the column that has one).
    tables_note : str
        How to read these tables.
    read_reference : callable
        From the path of the authors' points to what ``figures`` and ``tables`` take.
    """

    paper: str
    title: str
    about: str
    claims: tuple[Claim, ...]
    figures: Callable[[Sequence[Record], Sequence[Record] | None], list[Shown]]
    tables: Callable[[Sequence[Record], Sequence[Record]], list[dict[str, Any]]]
    tables_note: str
    read_reference: Callable[[Any], list[dict[str, Any]]]


@dataclass(frozen=True)
class Report:
    """A page and what it says.

    Parameters
    ----------
    html : str
        The whole page; it needs no other file.
    judgements : list of Judgement
    n_runs, n_failed : int
    """

    html: str
    judgements: list[Judgement]
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
    theirs = None if reference is None else page.read_reference(reference)
    judgements = judge(page.claims, records)
    by_them = None if theirs is None else judge(page.claims, theirs)
    parts = [
        _opening(page, records, judgements),
        _claims(judgements, by_them),
        _beside(page, done, theirs),
        _figures(page.figures(done, theirs)),
        _data(records),
        _runs(records),
        _again(page, records, reference),
    ]
    return Report(
        html.document(page.title, *parts), judgements, len(done), len(records) - len(done)
    )


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
    from mercer.experiments.papers import PAPERS

    names = sorted({str(record.get("paper")) for record in records})
    if len(names) != 1:
        given = ", ".join(names) or "none"
        raise ValueError(f"records must be of one paper; got {given}.")
    if names[0] not in PAPERS:
        raise ValueError(f"records must be of a known paper; got {names[0]!r}.")
    return import_module(f"mercer.experiments.papers.{PAPERS[names[0]]}.page").PAGE


# --- the parts of the page -------------------------------------------------------------------


def _opening(page: Page, records: Sequence[Record], judgements: Sequence[Judgement]) -> Html:
    verdicts = Counter(judged.verdict for judged in judgements)
    counts = "".join(
        f"<li>{html.badge(_BADGES[verdict], verdict)} {verdicts[verdict]}</li>"
        for verdict in _BADGES
        if verdicts[verdict]
    )
    names = _data_of(records)
    links = (
        ("claims", "Claims"),
        ("beside", "The authors' numbers"),
        ("figures", "Figures"),
        ("data", "Data"),
        ("runs", "Runs"),
        ("again", "Again"),
    )
    items = "".join(f'<li><a href="#{name}">{title}</a></li>' for name, title in links)
    measured = _data_of([record for record in records if record.get("protocol") != "example"])
    generated = all(data.get("kind") == "generated" for data in measured.values())
    return Html(
        f"<h1>{page.title}</h1>"
        + html.paragraph(page.about)
        + html.paragraph(
            f"{len(records)} runs on {len(names)} data sets, scale "
            f"{_listed(record.get('scale') for record in records)}. Of {len(judgements)} claims:"
        )
        + f'<ul class="counts">{counts}</ul>'
        + (
            html.paragraph(
                "All data are generated: this page shows that the study runs, not what it finds."
            )
            if generated and measured
            else ""
        )
        + f'<nav aria-label="Contents"><ul>{items}</ul></nav>'
    )


def _claims(judgements: Sequence[Judgement], by_them: Sequence[Judgement] | None) -> Html:
    head = ["claim", *(f"our runs, {words}" for words in PROTOCOLS.values())]
    rows = []
    for place, judged in enumerate(judgements):
        row: list[object] = [
            Html(
                f"{_escaped(judged.claim.text)}"
                f'<span class="rule">Rule: {_escaped(judged.claim.rule)}</span>'
            ),
            *(_tested(judged.under(protocol)) for protocol in PROTOCOLS),
        ]
        if by_them is not None:
            row.append(_tested(by_them[place]))
        rows.append([*row, judged.claim.figure])
    if by_them is not None:
        head.append("the authors' points")
    head.append("figure")
    shown = [
        html.details(
            Html(f"{html.badge(_BADGES[j.verdict], j.verdict)} {_escaped(j.claim.text)}"),
            html.table(
                f"Figure {j.claim.figure}: {j.claim.rule}",
                ["data", "protocol", "verdict", "numbers"],
                [
                    [f.data, PROTOCOLS[f.protocol], _verdict(f.verdict), f.numbers]
                    for f in j.findings
                ],
            ),
        )
        for j in judgements
        if j.findings
    ]
    return html.section(
        "claims",
        "What was claimed, and what was found",
        html.paragraph(
            "A claim is held when it is on four of five tested data sets, not held when it is on "
            "fewer than one in five, else held in part; a data set on which it is held in part "
            "counts half.",
            kind="soft",
        ),
        html.table("Claims of the paper, rules and verdicts", head, rows, [len(head) - 1]),
        Html("<h3>Data set by data set</h3>"),
        *shown,
    )


def _beside(page: Page, done: Sequence[Record], theirs: Sequence[Record] | None) -> Html:
    title = "Beside the authors' numbers"
    if theirs is None:
        said = "No file of the authors' points was given (--reference), so nothing is compared."
        return html.section("beside", title, html.paragraph(said))
    found = [table for table in page.tables(done, theirs) if table["rows"]]
    if not found:
        said = "None of these runs has a counterpart among the authors' points."
        return html.section("beside", title, html.paragraph(said))
    parts: list[Html] = []
    for table in found:
        at = table["verdict"]
        counts = Counter(row[at] for row in table["rows"])
        said = ", ".join(f"{counts[verdict]} {verdict}" for verdict in _NEARNESS)
        rows = [
            [*row[:at], html.badge(_NEARNESS[row[at]], row[at]), *row[at + 1 :]]
            for row in table["rows"]
        ]
        parts.append(
            html.table(f"{table['caption']}: {said}", table["head"], rows, table["numbers"])
        )
    return html.section("beside", title, html.paragraph(page.tables_note, kind="soft"), *parts)


def _figures(shown: Sequence[Shown]) -> Html:
    parts = [
        Html(f"<h3>{_escaped(one.title)}</h3>{html.image(one.figure, one.alt, one.caption)}")
        for one in shown
    ]
    return html.section(
        "figures", "Figures", *(parts or [html.paragraph("No run belongs to a figure.")])
    )


def _data(records: Sequence[Record]) -> Html:
    rows = [
        [
            name,
            data.get("paper_name") or "–",
            _kind(data),
            *(f"{data[key]:,}" if data.get(key) else "–" for key in ("n_train", "n_test", "d")),
            data.get("inputs") or "–",
            "; ".join(str(data[key]) for key in ("split", "note") if data.get(key)) or "–",
            data.get("source") or "–",
        ]
        for name, data in _data_of(records).items()
    ]
    head = ["data", "in the paper", "kind", "training rows", "test rows", "inputs"]
    head += ["scaling as published", "parts and remarks", "source"]
    return html.section(
        "data", "Data", html.table("The data sets of the runs", head, rows, numbers=(3, 4, 5))
    )


def _runs(records: Sequence[Record]) -> Html:
    machines = {str(record.get("machine")): record.get("machine") or {} for record in records}
    versions = {str(record.get("versions")): record.get("versions") or {} for record in records}
    times = sorted(str(record.get("run") or "")[:15] for record in records if record.get("run"))
    said: list[tuple[str, str]] = [
        ("protocols", _listed(record.get("protocol") for record in records)),
        ("λ as published", _listed(r.get("lam_n") for r in records if _published(r))),
        ("seeds", _listed(record.get("seed") for record in records)),
        ("started", " to ".join(dict.fromkeys(map(_time, times[:1] + times[-1:])))),
        ("time of all fits", f"{sum(map(_spent, records)):,.0f} s"),
        *(("machine", _machine(machine)) for machine in machines.values()),
        *(("software", _software(known)) for known in versions.values()),
    ]
    listed = "".join(
        f"<dt>{_escaped(name)}</dt><dd>{_escaped(text)}</dd>" for name, text in said if text
    )
    counts = Counter(
        (str(r.get("protocol")), str(r.get("label") or r.get("method")), "failed" in r)
        for r in records
    )
    methods = sorted({key[:2] for key in counts})
    parts: list[object] = [
        Html(f"<dl>{listed}</dl>"),
        html.table(
            "Runs by protocol and method",
            ["protocol", "method", "done", "failed"],
            [[*key, counts[*key, False], counts[*key, True]] for key in methods],
            numbers=(2, 3),
        ),
    ]
    failed = [[_what(r), r["failed"]] for r in records if "failed" in r]
    if failed:
        parts.append(html.table("Runs that failed", ["run", "why"], failed))
    warned = _warnings(records)
    if warned:
        title = "Warnings, those that differ in numbers alone as one"
        parts.append(html.table(title, ["for example", "times"], warned, numbers=(1,)))
    return html.section("runs", "Runs", *parts)


def _warnings(records: Sequence[Record]) -> list[list[object]]:
    """Kinds of warnings, the frequent ones first: an example and how often there was one."""
    texts = [str(text) for record in records for text in record.get("warnings") or ()]
    kinds = Counter(_NUMBER.sub("", text) for text in texts)
    examples = {_NUMBER.sub("", text): text for text in texts}
    return [[examples[kind], count] for kind, count in kinds.most_common()]


def _again(page: Page, records: Sequence[Record], reference: str | Path | None) -> Html:
    scales = sorted({str(record.get("scale")) for record in records})
    beside = " --reference POINTS.csv" if reference is not None else ""
    lines = [f"mercer reproduce {page.paper} --scale {scale} --out {scale}" for scale in scales]
    lines.append(f"mercer report {' '.join(scales)}{beside} --out report.html")
    return html.section(
        "again",
        "Running it again",
        Html("<pre>" + "\n".join(map(_escaped, lines)) + "</pre>"),
        html.paragraph(
            "The seeds are fixed: scores come out again up to rounding, times are those of the "
            "machine."
        ),
    )


# --- small parts -----------------------------------------------------------------------------


def _verdict(verdict: str) -> Html:
    return html.badge(_BADGES[verdict], verdict)


def _tested(judged: Judgement) -> Html:
    """The verdict, and on how many data sets it is what; nothing for what was not asked."""
    if not judged.findings:
        return Html("–")
    counts = Counter(finding.verdict for finding in judged.findings)
    said = ", ".join(f"{counts[verdict]} {verdict}" for verdict in _BADGES if counts[verdict])
    return Html(f'{_verdict(judged.verdict)} <span class="rule">{said}</span>')


def _data_of(records: Sequence[Record]) -> dict[str, Mapping[str, Any]]:
    """What the runs say of their data; as published where there is a choice."""
    found: dict[str, Mapping[str, Any]] = {}
    for record in sorted(records, key=lambda record: not _published(record)):
        if record.get("data"):
            found.setdefault(record["data"]["name"], record["data"])
    return found


def _kind(data: Mapping[str, Any]) -> str:
    other = data.get("stand_in_for") or "a larger set"
    names = {"sample": f"a sample of {other}", "stand-in": f"a stand-in for {other}"}
    return names.get(str(data.get("kind")), str(data.get("kind") or "–"))


def _published(record: Record) -> bool:
    return record.get("protocol") == "published"


def _machine(machine: Mapping[str, Any]) -> str:
    known = [machine.get(name) for name in ("processor", "system", "architecture")]
    threads = machine.get("threads")
    if threads:
        known.append("one thread" if threads == 1 else f"{threads} threads")
    return ", ".join(str(part) for part in known if part)


def _software(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _time(stamp: str) -> str:
    """20240607T101112 as people write it."""
    return f"{stamp[:4]}-{stamp[4:6]}-{stamp[6:8]} {stamp[9:11]}:{stamp[11:13]} UTC"


def _spent(record: Record) -> float:
    seconds = record.get("seconds") or {}
    return sum(seconds.get(name) or 0.0 for name in ("choose", "fit", "predict"))


def _what(record: Record) -> str:
    data = record.get("data_name") or (record.get("data") or {}).get("name")
    size = "" if record.get("size") is None else f" {record['size']}"
    method = record.get("label") or record.get("method")
    return f"{data}, {method}{size}, {record.get('protocol')}"


def _listed(values: Iterable[object]) -> str:
    return ", ".join(dict.fromkeys(str(value) for value in values if value is not None))


def _escaped(text: str) -> Html:
    return Html(html.paragraph(text)[3:-4])
