"""``mercer report``: records of a study as a page with claims, verdicts and figures."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mercer.cli.options import Json, print_json, show_table, simple_table
from mercer.cli.write import FIGURE, PAGE, Force, Kind, Output, check_outputs

if TYPE_CHECKING:
    from mercer_studies.report import Report

_RECORD = '{"record":"mercer reproduce"'  # start of a file of reduced records

Records = Annotated[
    list[Path],
    typer.Argument(
        metavar="RECORDS...",
        help="Record files (JSON lines) of mercer reproduce, or the folders they are in.",
    ),
]
Reference = Annotated[
    Path | None,
    typer.Option(
        "--reference",
        metavar="CSV",
        help="The authors' points: drawn beside ours and compared with.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FILE",
        help="The page, by default report.html beside the records; with the suffix .md Markdown "
        "and figures beside it, with .jsonl the entries alone of the records that a page needs.",
    ),
]


def _starts_with(start: str) -> Callable[[Path], bool]:
    def is_own(path: Path) -> bool:
        with path.open(encoding="utf-8") as file:
            return file.read(len(start)) == start

    return is_own


def _kind_of(path: Path) -> Kind:
    """Kind of file that the suffix stands for."""
    from mercer_studies.markdown import MARK

    kinds = {
        ".md": Kind("a report page", (".md",), _starts_with(MARK)),
        ".jsonl": Kind("a file of records", (".jsonl",), _starts_with(_RECORD)),
    }
    other = Kind(PAGE.name, (*PAGE.suffixes, *kinds), PAGE.is_own)
    return kinds.get(path.suffix.lower(), other)


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command("report", epilog="Example: mercer report mercer-results --out study.html")(report)


def report(
    records: Records,
    reference: Reference = None,
    out: Out = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Make a page of a study: claims, measurements, and a verdict on each claim.

    A web page holds its figures and needs no other file and no network; of a Markdown page the
    figures lie beside it. Reduced records (.jsonl) make the same page in a few per cent of the
    bytes.
    """
    first = records[0]
    path = out or (first if first.is_dir() else first.parent) / "report.html"
    from mercer.persistence import write_atomically
    from mercer_studies.report import build, load

    known = load(records)
    inputs = {f"RECORDS {number}": given for number, given in enumerate(records, start=1)}
    if reference is not None:
        inputs["--reference"] = reference
    check_outputs([Output("--out", path, _kind_of(path))], inputs, force)
    made = build(known, reference)
    if path.suffix.lower() == ".jsonl":
        _write_records(known, path)
    elif path.suffix.lower() == ".md":
        _write_markdown(made, path, force)
    else:
        write_atomically(path, made.html)
    if as_json:
        counts = {"runs": made.n_runs, "failed": made.n_failed}
        print_json({"page": path, **counts, "claims": claims_of(made)})
        return
    show_verdicts(made)
    failed = f" ({made.n_failed} more failed)" if made.n_failed else ""
    written = "records" if path.suffix.lower() == ".jsonl" else "page"
    typer.echo(f"runs: {made.n_runs}{failed}\n{written}: {path}")


def _write_records(known: list[dict[str, Any]], path: Path) -> None:
    from mercer.persistence import write_atomically
    from mercer_studies.report import reduced

    lines = (
        json.dumps(record, ensure_ascii=False, separators=(",", ":")) for record in reduced(known)
    )
    write_atomically(path, "".join(f"{line}\n" for line in lines))


def _write_markdown(made: Report, path: Path, force: bool) -> None:
    """Write the page and, beside it, its figures."""
    from mercer import plots
    from mercer.persistence import write_atomically

    prefix = f"{path.stem}-"
    figures = {path.with_name(f"{prefix}{name}.png"): one for name, one in made.figures.items()}
    check_outputs([Output("--out", figure, FIGURE) for figure in figures], {}, force)
    for file, figure in figures.items():
        plots.save_figure(figure, file)
    write_atomically(path, made.markdown(prefix))


def show_verdicts(made: Report) -> None:
    """Print a table of the claims with their verdicts."""
    from mercer_studies.claims import PROTOCOLS

    table = simple_table()
    protocols = [PROTOCOLS[name] for name in made.protocols]
    for heading in ("claim", "figure", *protocols, "what is claimed"):
        table.add_column(heading, justify="right" if heading == "figure" else "left")
    for judged in made.judgements:
        claim = judged.claim
        parts = [judged.under(protocol) for protocol in made.protocols]
        verdicts = [part.verdict if part.findings else "–" for part in parts]
        table.add_row(claim.name, str(claim.figure), *verdicts, claim.text)
    show_table(table)


def claims_of(made: Report) -> list[dict[str, Any]]:
    """The claims with their verdicts and findings, for JSON."""
    return [
        {
            "name": judged.claim.name,
            "figure": judged.claim.figure,
            "verdict": judged.verdict,
            "verdicts": {name: judged.under(name).verdict for name in made.protocols},
            "text": judged.claim.text,
            "rule": judged.claim.rule,
            "findings": [vars(finding) for finding in judged.findings],
        }
        for judged in made.judgements
    ]
