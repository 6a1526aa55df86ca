"""``mercer report``: records of a study as one page with claims, verdicts and figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mercer.cli.options import Json, print_json, show_table, simple_table
from mercer.cli.outputs import PAGE, Force, Output, check_outputs

if TYPE_CHECKING:
    from mercer_studies.report import Report

__all__ = ["register"]

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
        "--out", metavar="FILE", help="The page; by default report.html beside the records."
    ),
]


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
    """Make one page of a study: what was claimed, what was measured, and whether it holds.

    The page holds its figures and needs no other file and no network.
    """
    first = records[0]
    path = out or (first if first.is_dir() else first.parent) / "report.html"
    from mercer_studies.report import build, load

    known = load(records)
    inputs = {f"RECORDS {number}": given for number, given in enumerate(records, start=1)}
    if reference is not None:
        inputs["--reference"] = reference
    check_outputs([Output("--out", path, PAGE)], inputs, force)
    made = build(known, reference)
    from mercer.persistence import write_atomically

    write_atomically(path, made.html)
    if as_json:
        print_json(_content(made, path))
        return
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
    failed = f" ({made.n_failed} more failed)" if made.n_failed else ""
    typer.echo(f"runs: {made.n_runs}{failed}\npage: {path}")


def _content(made: Report, path: Path) -> dict[str, Any]:
    return {
        "page": path,
        "runs": made.n_runs,
        "failed": made.n_failed,
        "claims": [
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
        ],
    }
