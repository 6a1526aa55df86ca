"""``mercer compare``: several methods, one table, one figure, one record file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mercer.cli.options import (
    DATA_PANEL,
    AsTask,
    Data,
    Drop,
    Features,
    Ids,
    Jobs,
    Json,
    Missing,
    Seed,
    Target,
    Task,
    echo,
    live,
    narrow,
    print_json,
    say,
    show_table,
    simple_table,
)
from mercer.cli.roles import Roles, names_in, words_in
from mercer.cli.write import (
    FIGURE,
    RECORDS,
    Force,
    Output,
    check_outputs,
    check_writable_folder,
)

if TYPE_CHECKING:
    from rich.table import Table

    from mercer.cli.read import Labelled
    from mercer.compare.comparison import Comparison, Plan
    from mercer.datasets.base import Dataset

Record = Mapping[str, Any]

Methods = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="linear, binning, fourier, nystroem, exact, auto and, of lightgbm, xgboost and "
        "catboost, those that are installed by default; others are "
        "fastfood, perceptron, fourier-orthogonal, fourier-qmc, tefm-g, tefm-s, "
        "nystroem-kmeans, nystroem-leverage and nystroem-rpcholesky. Commas between them.",
    ),
]
Sizes = Annotated[
    str | None, typer.Option(metavar="NUMBERS", help="Numbers of components, such as 64,256.")
]
TimeColumn = Annotated[
    str | None,
    typer.Option(
        "--time",
        metavar="NAME",
        help="Column of dates or numbers that orders the rows: the last quarter is the test part, "
        "and settings are judged on rows later than those fitted.",
        rich_help_panel=DATA_PANEL,
    ),
]
Fast = Annotated[
    bool, typer.Option("--fast", help="Few sizes, and few rows to choose settings on.")
]
Folder = Annotated[Path, typer.Option(metavar="FOLDER", help="Where figure and records go.")]


def compare(
    data: Data,
    target: Target = None,
    task: AsTask = Task.auto,
    features: Features = None,
    drop: Drop = None,
    id_: Ids = None,
    missing: Missing = None,
    time: TimeColumn = None,
    methods: Methods = None,
    sizes: Sizes = None,
    fast: Fast = False,
    seed: Seed = 0,
    n_jobs: Jobs = None,
    out: Folder = Path("mercer-results"),
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Train several methods on one table and print how they do.

    Kernel, gamma and alpha are chosen for every kernel method alike, on a validation part of the
    training data. Automatic models and rivals, packages of gradient boosting with their own
    defaults, stand beside them. The test part gives the scores in the table and nothing else. A
    figure (PNG) and a record (JSON lines, one line for a fit) are written to the folder.
    """
    plan = _plan(methods, sizes, fast, seed, n_jobs)
    check_writable_folder(out)
    from mercer import plots
    from mercer.cli.read import labelled

    columns = names_in(features), names_in(drop), names_in(id_)
    roles = Roles(target, *columns, time=time, missing=words_in(missing))
    rows = labelled(data, roles, task)
    rows.tell()
    if time is not None:
        rows.data = _in_order(rows.data, time)
    lines = out / f"compare-{rows.data.name}.jsonl"
    figure = lines.with_suffix(".png")
    if out.is_dir():
        outputs = [Output("--out", lines, RECORDS), Output("--out", figure, FIGURE)]
        check_outputs(outputs, {"DATA": Path(data)}, force)
    result = _run(_in_rows(rows), plan, lines)
    if not as_json:
        show_table(_table(result.records))
        for line in [*_remarks(result.records), *result.notes]:
            echo(line)
    plots.save_figure(plots.compare_figure(result.records), figure)
    if as_json:
        content = {"records": result.records, "notes": result.notes}
        print_json({**content, "record_file": lines, "figure": figure})
    else:
        echo(f"figure:  {figure}\nrecords: {lines} ({len(result.records)} lines added)")


def _in_order(data: Dataset, time: str) -> Dataset:
    """The rows in the order of a column, as a series, whose last rows are the test part."""
    import numpy as np

    from mercer.auto.order import time_codes
    from mercer.cli.scorers import rows_of
    from mercer.preparation.frames import frame_of

    frame = frame_of(data.X)
    column = time if frame is not None else list(data.feature_names or ()).index(time)
    order = np.argsort(time_codes(data.X if frame is None else frame, column), kind="stable")
    return replace(data, X=rows_of(data.X, order), y=data.y[order], is_series=True)


def _in_rows(rows: Labelled) -> Dataset:
    """The data with X as an array: one of objects where there is more than numbers."""
    data = rows.data
    if not rows.is_raw or not hasattr(data.X, "column_names"):
        return data
    from mercer.datasets.files import Input
    from mercer.datasets.tables import raw_matrix

    say("texts, dates and missing cells become numbers first, but for auto and rivals")
    X = raw_matrix(Input(Path(data.source)), data.X, list(data.X.column_names))
    return replace(data, X=X)


def _run(data: Dataset, plan: Plan, lines: Path) -> Comparison:
    """Compare, with a progress bar, and append each fit to the record file when it is done."""
    from mercer.compare import records
    from mercer.compare.comparison import compare as run

    def on_record(record: Record) -> None:
        records.append(lines, record)
        done.append(record)

    done: list[Record] = []
    try:
        with _progress() as on_progress:
            return run(data, plan, on_record=on_record, on_progress=on_progress)
    except KeyboardInterrupt:
        if done:
            say(f"{len(done)} fits that were done are in {lines}")
        raise


def _plan(
    methods: str | None, sizes: str | None, fast: bool, seed: int, n_jobs: int | None
) -> Plan:
    from mercer._runtime.arrays import n_threads
    from mercer.compare.comparison import Plan

    settings: dict[str, Any] = {"seed": seed, "n_jobs": n_jobs}
    from mercer.compare.rivals import AUTOMATIC, installed

    default = (*Plan().methods, AUTOMATIC.name, *installed())
    settings["methods"] = default if methods is None else tuple(_items(methods))
    if sizes is not None:
        try:
            settings["sizes"] = tuple(int(item) for item in _items(sizes))
        except ValueError:
            raise typer.BadParameter(
                f"--sizes must be whole numbers with commas between them; got {sizes!r}."
            ) from None
    n_threads(n_jobs)  # refuses what is no number of threads, before anything is done
    try:
        return Plan.fast(**settings) if fast else Plan(**settings)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


@contextmanager
def _progress() -> Iterator[Callable[[float, str], None]]:
    """A bar with the time left, on standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.progress import TimeRemainingColumn as TimeLeft

    console = Console(stderr=True)
    columns = (
        BarColumn(),
        TextColumn("{task.percentage:.0f} % in"),
        TimeElapsedColumn(),
        TextColumn("and about"),
        TimeLeft(),
        TextColumn("to go: {task.description}"),
    )
    with (
        Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar,
        live(console),
    ):
        task = bar.add_task("starting", total=1.0)
        last = ""

        def on_progress(share: float, text: str) -> None:
            nonlocal last
            bar.update(task, completed=share, description=text)
            if not console.is_terminal and text != last:
                console.print(f"{share:4.0%} {text}", highlight=False)
            last = text

        yield on_progress


def _table(records: Sequence[Record]) -> Table:
    from rich.markup import escape

    from mercer._runtime.messages import printable

    data = records[0]["data"]
    regression = data["task"] == "regression"
    name = escape(printable(data["name"]))
    table = simple_table(
        title=f"{name}: {data['n_train']} training and {data['n_test']} test rows, "
        f"{data['d']} inputs{_kind(data)}"
    )
    table.add_column("method", no_wrap=True)
    score = ("test\nerror*", "\nR²") if regression else ("test\naccuracy",)
    headings = ("size", "kernel", "γ", "α·n", *score, "fit\ns", "predict\ns", "model", "memory")
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "kernel" else "right", no_wrap=True)
    best = _best(records)
    for record, following in zip(records, [*records[1:], None], strict=True):
        last = following is None or following["method"] != record["method"]
        table.add_row(*_cells(record), end_section=last, style="bold" if record is best else None)
    return table


def _cells(record: Record) -> list[str]:
    settings, seconds, added = record["settings"], record["seconds"], record["memory"]["added"]
    return [
        record["method" if narrow() else "label"] + (" (rival)" if record.get("rival") else ""),
        "–" if record["size"] is None else str(record["size"]),
        settings["kernel"] or "–",
        "–" if settings["gamma"] is None else f"{settings['gamma']:.3g}",
        "–" if settings["alpha_multiple"] is None else f"{settings['alpha_multiple']:g}",
        *(_digits(value) for value in record["score"].values()),
        _seconds(seconds["fit"]),
        _seconds(seconds["predict"]),
        _bytes(record["model_bytes"]),
        "–" if added is None else _bytes(added),
    ]


def _best(records: Sequence[Record]) -> Record:
    if "accuracy" in records[0]["score"]:
        return max(records, key=lambda record: record["score"]["accuracy"])
    return min(records, key=lambda record: record["score"]["relative_rmse"])


def _digits(value: float) -> str:
    return f"{value:.4f}" if abs(value) >= 0.01 or value == 0 else f"{value:.3g}"


def _bytes(value: float) -> str:
    """Three digits and a unit."""
    from mercer._runtime.arrays import format_bytes

    number, unit = format_bytes(value).split()
    return f"{float(number):.3g} {unit}" if float(number) < 1000 else f"{float(number):.0f} {unit}"


def _seconds(value: float) -> str:
    return f"{value:.3f}" if value < 1 else f"{value:.2f}"


def _kind(data: Record) -> str:
    if data["kind"] == "sample":
        return f", a sample of {data['stand_in_for'] or 'a larger set'}"
    return f", a stand-in for {data['stand_in_for']}" if data["kind"] == "stand-in" else ""


def _fewer(records: Sequence[Record]) -> str:
    """Methods whose settings were chosen on fewer rows than those of others."""
    most = records[0]["selection"]["fitted_rows"]
    choices = {r["label"]: (r["choice"] or {}).get("n_fitted", most) for r in records}
    fewer = [f"{label}: {n}" for label, n in choices.items() if n < most]
    return f" ({', '.join(fewer)})" if fewer else ""


def _remarks(records: Sequence[Record]) -> Iterator[str]:
    """Remarks on the conditions of the numbers, for readers of the table alone."""
    first = records[0]
    chosen = first["selection"]
    if first["data"]["task"] == "regression":
        yield "* ‖y − ŷ‖ / ‖y‖, which is 1 for predicting zero."
    yield f"rows: {first['data']['split']}; bold: the best test score."
    yield (
        f"kernel, γ and α: the best on {chosen['validation_rows']} validation rows of the training "
        f"part after fitting {chosen['fitted_rows']} others{_fewer(records)}, one grid for all; "
        "γ for scaled inputs."
    )
    if first["data"]["note"]:
        yield f"about the data: {first['data']['note']}"
    yield (
        "times: the median of three runs where they are quick; of kernel methods without the "
        "calibration of probabilities."
    )
    yield f"squared loss of kernel methods; memory: {first['memory']['kind']}; model: its file."
    rivals = [r["label"] for r in records if r.get("rival")]
    if rivals:
        yield f"rivals: {', '.join(rivals)}, with their own defaults."
    unsettled = [r["label"] for r in records if not r["converged"]]
    if unsettled:
        yield f"stopped at the iteration limit: {', '.join(dict.fromkeys(unsettled))}."
