"""Tables and figures of stored benchmark runs (``benchmarks/records``)."""

from __future__ import annotations

import json
import math
import runpy
import statistics
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

RECORDS = Path(__file__).parents[2] / "benchmarks" / "records"
OURS = "mercer auto"
BOOSTERS = ("LightGBM", "XGBoost")


def read(name: str) -> dict[str, Any]:
    path = RECORDS / f"{name}.json"
    if path.exists():
        return json.loads(path.read_text(encoding="utf-8"))
    lines = path.with_suffix(".jsonl").read_text(encoding="utf-8").splitlines()
    environment, *runs = map(json.loads, lines)
    return {"environment": environment, "runs": runs}


def means(runs: list[dict[str, Any]], key: str) -> dict[str, dict[str, float]]:
    """Means over seeds, by data and contender; runs without a number are left out."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        if isinstance(run.get(key), (int, float)) and math.isfinite(run[key]):
            found[run["data"]][run["contender"]].append(run[key])
    return {
        data: {contender: statistics.fmean(values) for contender, values in row.items()}
        for data, row in found.items()
    }


def contenders(runs: list[dict[str, Any]]) -> list[str]:
    names = dict.fromkeys(run["contender"] for run in runs)
    return [OURS, *(name for name in names if name != OURS)]


def table_of(name: str) -> tuple[list[str], list[list[str]]]:
    """Header and rows of one record: the mean error of every contender, the lowest in bold."""
    runs = read(name)["runs"]
    errors, names = means(runs, "error"), contenders(runs)
    rows_of = {run["data"]: run["rows"] for run in runs}
    body = []
    for data, row in errors.items():
        lowest = min(row.values())
        cells = [f"{row[n]:.4f}" if n in row else "–" for n in names]
        cells = [
            f"**{cell}**" if n in row and row[n] == lowest else cell
            for n, cell in zip(names, cells, strict=True)
        ]
        body.append([data, f"{rows_of[data]:,}".replace(",", " "), *cells])
    return ["data", "training rows", *names], body


def seconds_of(name: str) -> tuple[list[str], list[list[str]]]:
    """Header and rows of one record: mean seconds of a fit."""
    runs = read(name)["runs"]
    seconds, names = means(runs, "fit_seconds"), contenders(runs)
    body = [
        [data, *(f"{row[n]:.2f}" if n in row else "–" for n in names)]
        for data, row in seconds.items()
    ]
    return ["data", *names], body


def runs_of(name: str, columns: list[str]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the runs of a record that have a number in the last column."""
    runs = [run for run in read(name)["runs"] if run.get(columns[-1]) is not None]
    return [_TITLES.get(c, c) for c in columns], [
        [_cell(run[c], c) for c in columns] for run in runs
    ]


def by_task(
    name: str, measure: str, best: Callable[..., float] | None
) -> tuple[list[str], list[list[str]]]:
    """Header and rows of one measure of a record: tasks by methods, the best in bold."""
    runs = [run for run in read(name)["runs"] if measure in run]
    methods = list(dict.fromkeys(run["method"] for run in runs))
    body = []
    for task in dict.fromkeys(run["task"] for run in runs):
        values = {run["method"]: run[measure] for run in runs if run["task"] == task}
        bold = best and best(values.values())
        cells = [f"{values[m]:.3f}" if m in values else "–" for m in methods]
        marked = [
            f"**{c}**" if values.get(m) == bold else c for m, c in zip(methods, cells, strict=True)
        ]
        body.append([task, *marked])
    return ["", *methods], body


_TITLES = {
    "peak_mb": "memory, GB",
    "power_of_n": "exponent of the rows",
    "fit": "fit, s",
    "processor_seconds": "processors, s",
    "predict": "predict, s",
    "linear": "error of a linear model",
    "fitted": "rows fitted",
    "full_fit": "fit of all rows, s",
    "full_processor_seconds": "processors, s",
    "told": "the paper's time",
}


def _cell(value: Any, column: str) -> str:
    if isinstance(value, str):
        return value
    value = value / 1000 if column == "peak_mb" else value
    whole = column == "rows" or value >= 1000
    return f"{value:,.0f}".replace(",", " ") if whole else f"{value:.3g}"


def wins_of(name: str) -> tuple[list[str], list[list[str]]]:
    """Header and rows of a record: on how many tables ours has the lower error, by rival."""
    runs = read(name)["runs"]
    errors, seconds = means(runs, "error"), means(runs, "fit_seconds")
    body = []
    for rival in contenders(runs)[1:]:
        tables = [data for data, row in errors.items() if OURS in row and rival in row]
        pairs = [(errors[data][OURS], errors[data][rival]) for data in tables]
        logarithms = [math.log(ours / theirs) for ours, theirs in pairs if ours and theirs]
        times = [seconds[data][OURS] / seconds[data][rival] for data in tables]
        body.append(
            [
                rival,
                f"{sum(ours < theirs for ours, theirs in pairs)} of {len(tables)}",
                f"{math.exp(statistics.fmean(logarithms)):.3f}",
                f"{statistics.median(times):.2g}",
            ]
        )
    return ["rival", "lower error", "ratio of errors, mean", "ratio of fit times, median"], body


def elo_table(*names: str) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the Elo ratings that ``benchmarks/elo.py`` computes of some records."""
    rated = runpy.run_path(str(RECORDS.parent / "elo.py"))["rated"]
    rows = rated(names) if names else rated()
    return list(rows[0]), [list(row.values()) for row in rows]


def summary(name: str) -> str:
    """How often ours has the lower error than the better of two boosters, and by how much."""
    errors = means(read(name)["runs"], "error")
    pairs = [
        (row[OURS], min(row[n] for n in BOOSTERS if n in row))
        for row in errors.values()
        if OURS in row and any(n in row for n in BOOSTERS)
    ]
    lower = sum(ours < rival for ours, rival in pairs)
    ratios = [math.log(ours / rival) for ours, rival in pairs if ours and rival]
    return (
        f"Lower than the better of LightGBM and XGBoost on {lower} of {len(pairs)} tables; the "
        f"geometric mean of the ratios of errors is {math.exp(statistics.fmean(ratios)):.3f} "
        f"({len(ratios)} tables where neither is 0)."
    )


def task_runs() -> list[dict[str, Any]]:
    """The last stored run of every task, size and method that a quiet machine measured."""
    path = RECORDS / "whole-tasks.jsonl"
    runs: dict[tuple[str, int, str], dict[str, Any]] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            run = json.loads(line)
        except ValueError:
            continue  # cut short: benchmarks/run.py names it
        if not run["busy"]:
            runs[run["task"], run["rows"], run["method"]] = run
    return list(runs.values())


def seconds_in_words(seconds: float | None) -> str:
    """Seconds in a unit that suits them."""
    if seconds is None:
        return "–"
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"


def task_table(task: str) -> tuple[list[str], list[list[str]]]:
    """Header and rows of one task, a run each."""
    body = []
    for run in task_runs():
        if run["task"] == task:
            error, memory = run.get("error"), run.get("peak_mb")
            body.append(
                [
                    f"{run['rows']:,}".replace(",", " "),
                    run["method"],
                    run.get("note") or seconds_in_words(run.get("fit")),
                    seconds_in_words(run.get("predict")),
                    "–" if error is None else f"{error:.4f}",
                    "–" if memory is None else f"{memory / 1000:.2f} GB",
                ]
            )
    return ["rows", "method", "fit", "predict", "error", "memory"], body


def task_ratios(task: str) -> list[str]:
    """A sentence on every peer beside which the task is measured."""
    runs = {(run["rows"], run["method"]): run for run in task_runs() if run["task"] == task}
    told = []
    for (rows, method), run in runs.items():
        for peer, _, measure in run["aims"]:
            ours, theirs = run.get(measure), runs.get((rows, peer), {}).get(measure)
            if ours is not None and theirs is not None:
                count = f"{rows:,}".replace(",", " ")
                what = {"fit": "time to fit", "predict": "time to predict"}.get(measure, measure)
                told.append(
                    f"{count} rows: {what} of {peer} is {theirs / ours:.3g} times that of {method}."
                )
    return told


def tasks_summary() -> str:
    """One sentence on all runs."""
    runs = task_runs()
    if not runs:
        return "No run is stored yet."
    dates = sorted({run["date"][:10] for run in runs})
    when = f"{dates[0]} to {dates[-1]}" if len(dates) > 1 else dates[0]
    versions = dict(sorted(runs[-1]["versions"].items()))
    return (
        f"{len(runs)} runs of {when}. "
        f"{runs[-1]['machine']}, {runs[-1]['cores']} cores, {runs[-1]['instruction_set']}; "
        + ", ".join(f"{name} {version}" for name, version in versions.items())
        + "."
    )


def draw_errors(name: str) -> None:
    """Errors of all contenders relative to the lowest, a line per table."""
    import matplotlib.pyplot as plt

    runs = read(name)["runs"]
    errors, names = means(runs, "error"), contenders(runs)
    errors = {data: row for data, row in errors.items() if min(row.values()) > 0}  # for ratios
    order = sorted(errors, key=lambda data: errors[data][OURS] / min(errors[data].values()))
    _, ax = plt.subplots(figsize=(7, 0.27 * len(order) + 1.2))
    for number, contender in enumerate(names):
        points = [
            (errors[data][contender] / min(errors[data].values()), place)
            for place, data in enumerate(order)
            if contender in errors[data]
        ]
        x, y = zip(*points, strict=True)
        ax.scatter(
            [min(value, 3) for value in x],
            y,
            s=36 if not number else 18,
            marker="os^Dv"[number % 5],
            label=contender,
            zorder=3 - number / 10,
        )
    ax.set_yticks(range(len(order)), order, fontsize=8)
    ax.set_xlabel("error relative to the lowest (3 and more at the edge)")
    ax.grid(axis="y", alpha=0.3)
    ax.legend(loc="lower right", fontsize=8)


def draw_errors_and_seconds(name: str) -> None:
    """Error relative to the lowest, geometric mean, against median seconds of a fit."""
    import matplotlib.pyplot as plt

    runs = read(name)["runs"]
    errors, seconds, names = means(runs, "error"), means(runs, "fit_seconds"), contenders(runs)
    shared = [
        data for data, row in errors.items() if set(names) <= set(row) and min(row.values()) > 0
    ]
    _, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
    for place, method in enumerate(names):
        ratios = [errors[data][method] / min(errors[data].values()) for data in shared]
        y = math.exp(statistics.fmean(map(math.log, ratios)))
        x = statistics.median(seconds[data][method] for data in shared)
        ax.scatter(x, y, s=70, marker="os^Dv"[place % 5], zorder=3)
        ax.annotate(method, (x, y), xytext=(8, -4), textcoords="offset points")
    ax.set_xscale("log")
    ax.margins(0.25, 0.15)
    ax.set_xlabel(f"seconds of a fit, median of {len(shared)} tables")
    ax.set_ylabel("error relative to the lowest")
    ax.grid(alpha=0.3)


def draw_learning_curves() -> None:
    import matplotlib.pyplot as plt
    from matplotlib.ticker import MaxNLocator, ScalarFormatter

    runs = read("learning-curves")["runs"]
    tables = list(dict.fromkeys(run["data"] for run in runs))
    n_rows = (len(tables) + 2) // 3
    _, axes = plt.subplots(n_rows, 3, figsize=(10, 3 * n_rows), squeeze=False, layout="constrained")
    for ax, data in zip(axes.flat, tables, strict=False):
        for contender in contenders(runs):
            points: dict[int, list[float]] = defaultdict(list)
            for run in runs:
                if run["data"] == data and run["contender"] == contender and run.get("error"):
                    points[run["rows"]].append(run["error"])
            if points:
                x = sorted(points)
                ax.loglog(x, [statistics.fmean(points[n]) for n in x], "o-", label=contender)
        ax.set(title=data, xlabel="training rows")
        ax.minorticks_off()
        # Errors span less than a decade, in which a logarithmic axis has a single number or none.
        ax.yaxis.set_major_locator(MaxNLocator(5))
        ax.yaxis.set_major_formatter(ScalarFormatter())
    for ax in list(axes.flat)[len(tables) :]:
        ax.axis("off")
    for ax in axes[:, 0]:
        ax.set_ylabel("error")
    axes[0, 0].legend(fontsize=8)


def draw_sizes(task: str) -> None:
    """Error, seconds and memory of one task against its rows, a line per method."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator

    runs = [run for run in task_runs() if run["task"] == task and "fit" in run]
    methods = sorted({run["method"] for run in runs}, key=lambda m: (m != "mercer", m))
    panels = {
        "error": "error, in units of the deviation",
        "fit": "seconds of a fit",
        "peak_mb": "memory, MB",
        "predict": "seconds to predict 100 000 rows",
        "predict_row": "seconds to predict one row",
    }
    _, axes = plt.subplots(2, 3, figsize=(10, 5.6), layout="constrained")
    for ax, (measure, title) in zip(axes.flat, panels.items(), strict=False):
        for place, method in enumerate(methods):
            own = [run for run in runs if run["method"] == method and measure in run]
            own.sort(key=lambda run: run["rows"])
            x, y = ([run[key] for run in own] for key in ("rows", measure))
            ax.loglog(x, y, "os^Dv"[place % 5] + "-", label=method)
        ax.set(title=title, xlabel="training rows")
        ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
        ax.yaxis.set_major_formatter("{x:g}")
        ax.minorticks_off()
        ax.grid(alpha=0.3)
    error = axes.flat[0]
    error.set_yscale("linear")
    axes.flat[-1].axis("off")
    axes.flat[-1].legend(*error.get_legend_handles_labels(), loc="center", fontsize=10)


def draw_out_of_core() -> None:
    import matplotlib.pyplot as plt

    records = read("out-of-core")["records"]
    _, (left, right) = plt.subplots(1, 2, figsize=(8.5, 3.4))
    for way in dict.fromkeys(record["way"] for record in records):
        chosen = [record for record in records if record["way"] == way]
        n = [record["n"] for record in chosen]
        left.loglog(n, [record["seconds"] for record in chosen], "o-", label=way)
        right.loglog(n, [record["peak_bytes"] / 2**30 for record in chosen], "o-", label=way)
    left.set(xlabel="rows", ylabel="seconds to fit")
    right.set(xlabel="rows", ylabel="memory of its own, GB")
    left.legend()
