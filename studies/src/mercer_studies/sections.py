"""The parts of the page on a study."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mercer_studies import html
from mercer_studies.claims import HELD, NOT_HELD, NOT_TESTED, PARTLY, PROTOCOLS, Judgement
from mercer_studies.html import Html
from mercer_studies.page import Page, Shown

__all__ = ["again", "beside", "claims", "data", "figures", "measured", "opening", "runs"]

Record = Mapping[str, Any]

_BADGES = {HELD: "good", PARTLY: "fair", NOT_HELD: "bad", NOT_TESTED: "none"}
_NUMBER = re.compile(r"\d[\d.e+-]*")
_NEARNESS = {"near": "good", "better": "good", "worse": "bad"}


def opening(page: Page, records: Sequence[Record], judgements: Sequence[Judgement]) -> Html:
    """Title, what the paper did, how many claims hold, and the contents."""
    verdicts = Counter(judged.verdict for judged in judgements)
    counts = "".join(
        f"<li>{html.badge(_BADGES[verdict], verdict)} {verdicts[verdict]}</li>"
        for verdict in _BADGES
        if verdicts[verdict]
    )
    names = _data_of(records)
    links = {
        "claims": "Claims",
        "beside": "The authors' numbers" if page.read_reference or page.published else "",
        "measured": "Measured" if page.measured else "",
        "figures": "Figures",
        "data": "Data",
        "runs": "Runs",
        "again": "Again",
    }
    items = "".join(
        f'<li><a href="#{name}">{title}</a></li>' for name, title in links.items() if title
    )
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


def claims(
    page: Page, judgements: Sequence[Judgement], by_them: Sequence[Judgement] | None
) -> Html:
    """Every claim with its verdicts, and below them the data sets one by one."""
    head = ["claim", *(f"our runs, {PROTOCOLS[protocol]}" for protocol in page.protocols)]
    rows = []
    for place, judged in enumerate(judgements):
        row: list[object] = [
            Html(
                f"{_escaped(judged.claim.text)}"
                f'<span class="rule">Rule: {_escaped(judged.claim.rule)}</span>'
            ),
            *(_tested(judged.under(protocol)) for protocol in page.protocols),
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
                f"{j.claim.place}: {j.claim.rule}",
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
            "counts half. Two errors within 0.2 points of wrong classes, or 2 % of a regression's, "
            "are a tie: none is lower.",
            kind="soft",
        ),
        html.table("Claims of the paper, rules and verdicts", head, rows, [len(head) - 1]),
        Html("<h3>Data set by data set</h3>"),
        *shown,
    )


def beside(page: Page, done: Sequence[Record], theirs: Sequence[Record] | None) -> Html:
    """Our numbers next to the authors'; nothing for a paper that came without numbers."""
    title = "Beside the authors' numbers"
    if page.tables is None:
        return Html("")
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
            [*row[:at], html.badge(_NEARNESS.get(row[at], "none"), row[at]), *row[at + 1 :]]
            for row in table["rows"]
        ]
        parts.append(
            html.table(f"{table['caption']}: {said}", table["head"], rows, table["numbers"])
        )
    return html.section("beside", title, html.paragraph(page.tables_note, kind="soft"), *parts)


def measured(page: Page, done: Sequence[Record]) -> Html:
    """Tables of our own numbers, for a paper that has some."""
    found = [] if page.measured is None else page.measured(done)
    tables = [
        html.table(table["caption"], table["head"], table["rows"], table["numbers"])
        for table in found
        if table["rows"]
    ]
    if page.measured is None:
        return Html("")
    said = page.measured_note if tables else "No run belongs to a table."
    return html.section("measured", "Measured", html.paragraph(said, kind="soft"), *tables)


def figures(shown: Sequence[Shown]) -> Html:
    """All figures, each with a title, a text for those who do not see it, and how to read it."""
    parts = [
        Html(f"<h3>{_escaped(one.title)}</h3>{html.image(one.figure, one.alt, one.caption)}")
        for one in shown
    ]
    return html.section(
        "figures", "Figures", *(parts or [html.paragraph("No run belongs to a figure.")])
    )


def data(records: Sequence[Record]) -> Html:
    """What the runs say of their data."""
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
    return html.section(
        "data", "Data", html.table("The data sets of the runs", head, rows, numbers=(3, 4, 5))
    )


def runs(records: Sequence[Record]) -> Html:
    """Protocols, machine, versions, methods, and what failed or warned."""
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


def again(page: Page, records: Sequence[Record], reference: str | Path | None) -> Html:
    """The commands that make this page."""
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
