"""``mercer reproduce``: the experiments of a paper, run again on this machine."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mercer.cli.options import Jobs, Json, print_json, say
from mercer.cli.write import FIGURE, Force, Output, check_outputs, check_writable_folder
from mercer_studies.cli.report import claims_of, show_verdicts

if TYPE_CHECKING:
    from mercer_studies.papers import Paper, Selected
    from mercer_studies.report import Report
    from mercer_studies.runner import Outcome, Progress

Record = Mapping[str, Any]

PaperName = Annotated[
    str,
    typer.Argument(
        metavar="PAPER", help="random-binning, tefm, sparse-features, asydsskl or block-descent."
    ),
]
Figures = Annotated[
    list[int] | None,
    typer.Option("--figure", metavar="NUMBER", help="Only what this figure needs; repeatable."),
]
Tables = Annotated[
    list[int] | None,
    typer.Option("--table", metavar="NUMBER", help="Only what this table needs; repeatable."),
]
Scale = Annotated[
    str,
    typer.Option(
        "--scale",
        help="tiny: made-up rows, seconds; laptop: real data, within an hour on two cores; "
        "paper: everything, days.",
    ),
]
Protocol = Annotated[
    str | None,
    typer.Option(
        "--protocol",
        help="published: settings picked by the test part, as in the paper; fair: picked on a "
        "validation part, alike for every method; robustness: asydsskl with wrong targets. All "
        "by default.",
    ),
]
DataFolder = Annotated[
    Path | None,
    typer.Option("--data", metavar="FOLDER", help="Folder of data files; else MERCER_DATA's."),
]
Datasets = Annotated[
    str | None,
    typer.Option("--datasets", metavar="NAMES", help="Some data sets, with commas between them."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="A number, or numbers with commas between them, in place of the scale's: rows=9000, "
        "seeds=0,1; all for no limit, yes or no for a switch; repeatable.",
    ),
]
Remark = Annotated[
    str | None,
    typer.Option(
        "--remark",
        metavar="TEXT",
        help='Condition of the machine, shown beside the times: "shared with other work".',
    ),
]
Reference = Annotated[
    Path | None,
    typer.Option("--reference", metavar="CSV", help="The authors' points, drawn beside ours."),
]
Folder = Annotated[
    Path, typer.Option("--out", metavar="FOLDER", help="Where figures and records go.")
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on with the records that are in the folder.")
]


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command("reproduce", epilog="Example: mercer reproduce random-binning --scale tiny")(
        reproduce
    )


def reproduce(
    paper: PaperName,
    figure: Figures = None,
    table: Tables = None,
    scale: Scale = "laptop",
    protocol: Protocol = None,
    data: DataFolder = None,
    datasets: Datasets = None,
    settings: Settings = None,
    remark: Remark = None,
    reference: Reference = None,
    out: Folder = Path("mercer-results"),
    resume: Resume = False,
    force: Force = False,
    n_jobs: Jobs = None,
    as_json: Json = False,
) -> None:
    """Run the experiments of a paper again, draw its figures and judge its claims.

    Every run is a line of a record file (JSON lines) as soon as it is done. What was interrupted
    goes on with --resume: nothing is done twice. Data sets that are neither at hand nor to be
    fetched are named in one sentence before the first run, and the others are run.
    """
    from mercer._runtime.arrays import n_threads
    from mercer_studies import papers
    from mercer_studies.report import build

    n_threads(n_jobs)  # refuses what is no number of threads, before anything is done
    try:
        found = papers.get(paper)
        selected = papers.Selected(
            scale=scale,
            protocols=() if protocol is None else (protocol,),
            figures=tuple(dict.fromkeys(figure or ())),
            datasets=_names(datasets),
            n_jobs=n_jobs,
            tables=tuple(dict.fromkeys(table or ())),
            settings=_settings(settings),
        )
        found.check(selected)
        if reference is not None and found.page.read_reference is None:
            found.page.reference(reference)  # refuses it
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    found.page.reference(reference)  # a wrong file is refused before the runs
    check_writable_folder(out)
    lines = out / f"{found.name}-{scale}.jsonl"
    # The record file is appended to, and the runner refuses one that is not of this study.
    drawn_before = sorted(out.glob(f"{glob.escape(lines.stem)}-*.png"))
    outputs = [Output("--out", path, FIGURE) for path in drawn_before]
    check_outputs(outputs, {} if reference is None else {"--reference": reference}, force)
    with _data_folder(data):
        outcome, limits = _run(found, selected, lines, resume, remark)
    made = build(outcome.records, reference)
    drawn = _draw(made, selected.figures, lines)
    if as_json:
        counts = {"n_records": len(outcome.records), "n_new": outcome.n_new}
        counts["n_failed"] = made.n_failed
        said = {"figures": drawn, "claims": claims_of(made), "left_out": outcome.notes}
        print_json({"record_file": lines, **counts, **said, "limits": limits})
        return
    show_verdicts(made)
    for line in [*_remarks(outcome, limits), *(f"figure:  {path}" for path in drawn)]:
        typer.echo(line)
    new, runs = _count(outcome.n_new, "line"), _count(len(outcome.records), "run")
    typer.echo(f"records: {lines} ({new} added, {runs})")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _names(text: str | None) -> tuple[str, ...]:
    if text is None:
        return ()
    names = [item.strip().lower().replace("_", "-") for item in text.split(",")]
    found = tuple(dict.fromkeys(name for name in names if name))
    if not found:
        raise ValueError(f"--datasets must name at least one data set; got {text!r}.")
    return found


def _settings(given: list[str] | None) -> tuple[tuple[str, str], ...]:
    """Fields and values of ``--set``; of a repeated field the last value."""
    found = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"--set must be NAME=VALUE; got {text!r}.")
        found[name.strip().replace("-", "_")] = value.strip()
    return tuple(found.items())


@contextmanager
def _data_folder(folder: Path | None) -> Iterator[None]:
    """Let data be looked for in a folder while the study runs."""
    if folder is None:
        yield
        return
    from mercer.datasets.cache import VARIABLE

    if not folder.is_dir():
        raise NotADirectoryError(f"--data must be a folder; got {folder}.")
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def _run(
    paper: Paper, selected: Selected, lines: Path, resume: bool, remark: str | None
) -> tuple[Outcome, list[str]]:
    """Do what is still to be done, with a progress bar."""
    from mercer_studies import runner

    stages, limits = paper.stages(selected)
    common = {"scale": selected.scale, "options": selected.options, "remark": remark}
    written = 0

    def on_record(record: Record) -> None:
        nonlocal written
        written += 1

    try:
        with _progress() as on_progress:
            outcome = runner.run(
                paper.name,
                stages,
                lines,
                resume=resume,
                n_jobs=selected.n_jobs,
                common={name: text for name, text in common.items() if text},
                on_record=on_record,
                on_progress=on_progress,
                on_note=lambda note: say(f"left out: {note}"),
            )
    except KeyboardInterrupt:
        were = "was" if written == 1 else "were"
        added = f"{_count(written, 'run')} {were} added to {lines}"
        say(f"{added}; the same command with --resume goes on.")
        raise
    if not outcome.records:
        nothing = "no run of the study is on these data sets, figures, tables and protocols."
        raise ValueError(outcome.notes[0] if outcome.notes else nothing)
    return outcome, limits


def _draw(made: Report, figures: Sequence[int], lines: Path) -> list[Path]:
    """Draw what the records have runs for; of numbered figures those of ``figures``, or all."""
    from mercer import plots

    drawn = []
    for name, figure in made.figures.items():
        number = re.match(r"figure-(\d+)", name)
        if not figures or number is None or int(number[1]) in figures:
            drawn.append(lines.with_name(f"{lines.stem}-{name}.png"))
            plots.save_figure(figure, drawn[-1])
    return drawn


@contextmanager
def _progress() -> Iterator[Callable[[Progress], None]]:
    """A bar with the time left on a terminal, else a line for every data set."""
    from rich.console import Console
    from rich.progress import BarColumn, ProgressColumn, Task, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar
    from rich.table import Column
    from rich.text import Text

    from mercer_studies.measures import duration

    class Doing(ProgressColumn):
        """Column of the run's description, which shrinks on a narrow terminal."""

        def render(self, task: Task) -> Text:
            return Text(task.description, no_wrap=True, overflow="ellipsis")

    console = Console(stderr=True)
    columns = (
        BarColumn(20, table_column=Column(no_wrap=True)),
        TextColumn("{task.percentage:.0f} % in"),
        TimeElapsedColumn(table_column=Column(no_wrap=True)),
        TextColumn("and about {task.fields[left]} to go:"),
        Doing(),
    )
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("starting", total=1.0, left="?")
        last = ""

        def on_progress(progress: Progress) -> None:
            nonlocal last
            left = duration(progress.left)
            bar.update(task, completed=progress.share, description=progress.text, left=left)
            stage = progress.text.partition(":")[0]
            if not console.is_terminal and stage != last:
                console.print(f"{progress.share:4.0%} {stage}, about {left} to go", highlight=False)
            last = stage

        yield on_progress


def _remarks(outcome: Outcome, limits: Sequence[str]) -> Iterator[str]:
    yield from limits
    for note in outcome.notes:
        yield f"left out: {note}"
    failed = [record for record in outcome.records if "failed" in record]
    if failed:
        first = failed[0]
        yield (
            f"{len(failed)} runs failed and are retried by --resume, first "
            f"{first['label']} on {first['data_name']}: {first['failed']}"
        )
