"""The parts of the report on a study."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mercer_studies.blocks import (
    Badge,
    Code,
    Details,
    Facts,
    Heading,
    Items,
    Paragraph,
    Section,
    Shown,
    Small,
    Table,
)
from mercer_studies.claims import HELD, NOT_HELD, NOT_TESTED, PARTLY, PROTOCOLS, Judgement
from mercer_studies.page import Page
from mercer_studies.queries import Record

_BADGES = {HELD: "good", PARTLY: "fair", NOT_HELD: "bad", NOT_TESTED: "none"}
_NUMBER = re.compile(r"\d[\d.e+-]*")
_NEARNESS = {"near": "good", "better": "good", "worse": "bad"}


def opening(page: Page, records: Sequence[Record], judgements: Sequence[Judgement]) -> list[object]:
    """Summary of the paper, how many claims hold, and data sets that the runs lack."""
    verdicts = Counter(judged.verdict for judged in judgements)
    counts = [(_verdict(name), verdicts[name]) for name in _BADGES if verdicts[name]]
    names = _data_of(records)
    scales = _listed(record.get("scale") for record in records)
    measured = _data_of([record for record in records if record.get("protocol") != "example"])
    generated = all(data.get("kind") == "generated" for data in measured.values())
    said: list[object] = [
        Paragraph(page.about),
        Paragraph(
            f"{len(records)} runs on {len(names)} data sets, scale {scales}. Of "
            f"{len(judgements)} claims:"
        ),
        Items(counts, in_a_row=True),
    ]
    if generated and measured:
        text = "All data are generated: this page shows that the study runs, not what it finds."
        return [*said, Paragraph(text)]
    known = {data.get("paper_name") for data in names.values()}
    missing = [name for name in page.data if name not in known]
    if missing:
        text = f"Of the paper's data, not at hand or not run: {', '.join(missing)}."
        said.append(Paragraph(text))
    return said


def claims(
    page: Page, judgements: Sequence[Judgement], by_them: Sequence[Judgement] | None
) -> Section:
    """Every claim with its verdicts, and below them the data sets one by one."""
    head = ["claim", *(f"our runs, {PROTOCOLS[protocol]}" for protocol in page.protocols)]
    rows = []
    for place, judged in enumerate(judgements):
        row: list[object] = [
            (judged.claim.text, Small(f"Rule: {judged.claim.rule}")),
            *(_tested(judged.under(protocol)) for protocol in page.protocols),
        ]
        if by_them is not None:
            row.append(_tested(by_them[place]))
        rows.append([*row, judged.claim.figure])
    if by_them is not None:
        head.append("the authors' points")
    head.append("figure")
    shown = [
        Details(
            (_verdict(j.verdict), j.claim.text),
            [
                Table(
                    f"{j.claim.place}: {j.claim.rule}",
                    ["data", "protocol", "verdict", "numbers"],
                    [
                        [f.data, PROTOCOLS[f.protocol], _verdict(f.verdict), f.numbers]
                        for f in j.findings
                    ],
                )
            ],
        )
        for j in judgements
        if j.findings
    ]
    rule = (
        "A claim is held when it is on four of five tested data sets, not held when it is on "
        "fewer than one in five, else held in part; a data set on which it is held in part "
        "counts half. Two errors within 0.2 points of wrong classes, or 2 % of a regression's, "
        "are a tie: none is lower."
    )
    parts = [
        Paragraph(rule, soft=True),
        Table("Claims of the paper, rules and verdicts", head, rows, [len(head) - 1]),
        Heading("Data set by data set"),
        *shown,
    ]
    return Section("claims", "What was claimed, and what was found", parts)


def shows(page: Page, done: Sequence[Record]) -> Section | None:
    """Sentences on the numbers, and reasons, for a paper that has some."""
    said = [*(page.shows(done) if page.shows and done else ()), *(page.remarks if done else ())]
    return Section("shows", "What it shows", [Items(said)]) if said else None


def beside(page: Page, done: Sequence[Record], theirs: Sequence[Record] | None) -> Section | None:
    """Our numbers next to the authors'; None for a paper that came without numbers."""
    title = "Beside the authors' numbers"
    if page.tables is None:
        return None
    if theirs is None:
        said = "No file of the authors' points was given (--reference), so nothing is compared."
        return Section("beside", title, [Paragraph(said)])
    found = [table for table in page.tables(done, theirs) if table["rows"]]
    if not found:
        said = "None of these runs has a counterpart among the authors' points."
        return Section("beside", title, [Paragraph(said)])
    parts: list[object] = []
    for table in found:
        at = table["verdict"]
        counts = Counter(row[at] for row in table["rows"])
        said = ", ".join(f"{counts[verdict]} {verdict}" for verdict in _NEARNESS)
        rows = [
            [*row[:at], Badge(_NEARNESS.get(row[at], "none"), row[at]), *row[at + 1 :]]
            for row in table["rows"]
        ]
        parts.append(Table(f"{table['caption']}: {said}", table["head"], rows, table["numbers"]))
    return Section("beside", title, [Paragraph(page.tables_note, soft=True), *parts])


def measured(page: Page, done: Sequence[Record]) -> Section | None:
    """Tables of our own numbers, for a paper that has some."""
    if page.measured is None:
        return None
    tables = [Table(**table) for table in page.measured(done) if table["rows"]]
    said = page.measured_note if tables else "No run belongs to a table."
    remarks = _listed(record.get("remark") for record in done)
    if tables and remarks:
        said += f" The times are those of a machine {remarks}."
    return Section("measured", "Measured", [Paragraph(said, soft=True), *tables])


def figures(shown: Sequence[Shown]) -> Section:
    """All figures, each with a title, a text for those who do not see it, and how to read it."""
    parts: Sequence[object] = shown or [Paragraph("No run belongs to a figure.")]
    return Section("figures", "Figures", parts)


def data(records: Sequence[Record]) -> Section:
    """Entries of the runs on their data."""
    rows = [
        [
            name,
            about.get("paper_name") or "–",
            _kind(about),
            *(f"{about[key]:,}" if about.get(key) else "–" for key in ("n_train", "n_test", "d")),
            about.get("inputs") or "–",
            "; ".join(str(about[key]) for key in ("split", "note") if about.get(key)) or "–",
            about.get("source") or "–",
        ]
        for name, about in _data_of(records).items()
    ]
    head = ["data", "in the paper", "kind", "training rows", "test rows", "inputs"]
    head += ["scaling as published" if any(map(_published, records)) else "scaling"]
    head += ["parts and remarks", "source"]
    return Section("data", "Data", [Table("The data sets of the runs", head, rows, (3, 4, 5))])


def runs(records: Sequence[Record]) -> Section:
    """Protocols, machine, versions, methods, and what failed or warned."""
    machines, versions = (
        list(dict.fromkeys(form(r[name]) for r in records if r.get(name)))
        for name, form in (("machine", _machine), ("versions", _software))
    )
    times = sorted(str(record.get("run") or "")[:15] for record in records if record.get("run"))
    spent = sum((record.get("seconds") or {}).get("fit") or 0.0 for record in records)
    said: list[tuple[str, str]] = [
        ("protocols", _listed(record.get("protocol") for record in records)),
        ("λ as published", _listed(r.get("lam_n") for r in records if _published(r))),
        ("seeds", _listed(record.get("seed") for record in records)),
        ("started", " to ".join(dict.fromkeys(map(_time, times[:1] + times[-1:])))),
        ("time of all fits", f"{spent:,.0f} s"),
        *(("machine", machine) for machine in machines),
        ("remark", _listed(record.get("remark") for record in records)),
        *(("software", known) for known in versions),
    ]
    counts = Counter(
        (str(r.get("protocol")), str(r.get("label") or r.get("method")), "failed" in r)
        for r in records
    )
    methods = sorted({key[:2] for key in counts})
    parts: list[object] = [
        Facts([(name, text) for name, text in said if text]),
        Table(
            "Runs by protocol and method",
            ["protocol", "method", "done", "failed"],
            [[*key, counts[*key, False], counts[*key, True]] for key in methods],
            numbers=(2, 3),
        ),
    ]
    failed = [[_what(r), r["failed"]] for r in records if "failed" in r]
    if failed:
        parts.append(Table("Runs that failed", ["run", "why"], failed))
    warned = _warnings(records)
    if warned:
        title = "Warnings, those that differ in numbers alone as one"
        parts.append(Table(title, ["for example", "times"], warned, numbers=(1,)))
    return Section("runs", "Runs", parts)


def _warnings(records: Sequence[Record]) -> list[list[object]]:
    """Kinds of warnings, the frequent ones first: an example and how often there was one."""
    texts = [str(text) for record in records for text in record.get("warnings") or ()]
    kinds = Counter(_NUMBER.sub("", text) for text in texts)
    examples = {_NUMBER.sub("", text): text for text in texts}
    return [[examples[kind], count] for kind, count in kinds.most_common()]


def again(page: Page, records: Sequence[Record], reference: str | Path | None) -> Section:
    """The commands that make this page."""
    chosen = sorted({(str(r.get("scale")), str(r.get("options") or "")) for r in records})
    scales = list(dict.fromkeys(scale for scale, _ in chosen))
    beside = " --reference POINTS.csv" if reference is not None else ""
    lines = []
    for place, (scale, options) in enumerate(chosen):
        resume = ["--resume"] if place and chosen[place - 1][0] == scale else []
        words = [page.paper, f"--scale {scale}", options, f"--out {scale}", *resume]
        lines.append(f"mercer reproduce {' '.join(word for word in words if word)}")
    lines.append(f"mercer report {' '.join(scales)}{beside} --out report.html")
    text = (
        "The seeds are fixed: scores come out again up to rounding, times are those of the machine."
    )
    return Section("again", "Running it again", [Code(lines), Paragraph(text)])


def _verdict(verdict: str) -> Badge:
    return Badge(_BADGES[verdict], verdict)


def _tested(judged: Judgement) -> object:
    """The verdict, and on how many data sets it is what; nothing for what was not asked."""
    if not judged.findings:
        return "–"
    counts = Counter(finding.verdict for finding in judged.findings)
    said = ", ".join(f"{counts[verdict]} {verdict}" for verdict in _BADGES if counts[verdict])
    return _verdict(judged.verdict), Small(said)


def _data_of(records: Sequence[Record]) -> dict[str, Mapping[str, Any]]:
    """Entries of the runs on their data; as published where there is a choice."""
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


def _what(record: Record) -> str:
    data = record.get("data_name") or (record.get("data") or {}).get("name")
    size = "" if record.get("size") is None else f" {record['size']}"
    method = record.get("label") or record.get("method")
    return f"{data}, {method}{size}, {record.get('protocol')}"


def _listed(values: Iterable[object]) -> str:
    return ", ".join(dict.fromkeys(str(value) for value in values if value is not None))
