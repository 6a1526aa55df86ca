"""Figures of the block coordinate descent paper, from records alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.plots.base import STYLE
from mercer_studies.lines import Look, draw_line, legend_key, legend_keys
from mercer_studies.panels import (
    about,
    columns,
    filled,
    legend,
    log_axis,
    size_axis,
    thousands,
    titled,
    with_paper_name,
)
from mercer_studies.queries import Record, by_data, is_regression, of_task

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOOKS = {
    "exact": Look("full kernel", STYLE["exact"][0]),
    "nystroem": Look("Nyström", STYLE["nystroem"][0]),
    "features": Look("random features", STYLE["fourier"][0]),
}
"""Looks of the systems."""

PHASES = {
    "generate": ("generating the block", "#0072B2"),
    "gram": ("Gram matrix", "#E69F00"),
    "reduce": ("residual", "#56B4E9"),
    "solve": ("local solve", "#D55E00"),
    "update": ("update", "#009E73"),
    "other": ("other", "#999999"),
}
"""Phases of a block, and their colours."""

_EARLY = 5  # epochs after which Figure 2 looks


def long_runs(records: Iterable[Record]) -> list[Record]:
    """The runs over sizes that go on for Figure 4.

    >>> long_runs([{"task": "sizes", "figures": [2]}])
    []
    """
    return [run for run in of_task(records, "sizes") if 4 in run.get("figures", ())]


def unit(run: Record) -> str:
    """Unit of a run's errors: stars, or a share of wrong classes."""
    return "RMSE of stars" if is_regression(run) else "wrong classes"


def error_at(run: Record, epoch: float | None = None) -> float:
    """The test error of a curve after an epoch, or at its end; NaN if it does not get there."""
    course = run["course"]
    if epoch is None:
        return float(course["error"][-1])
    known = dict(zip(np.round(course["epoch"], 6), course["error"], strict=True))
    return float(known.get(epoch, np.nan))


def figure1(records: Iterable[Record]) -> Figure:
    """Test error against seconds after every block, stars where epochs end."""
    known = of_task(records, "curve")
    found = filled(known, "figure 1")
    figure = columns(found, _against_seconds, width=4.2, heights=(3.0,), most=2)
    legend(
        figure,
        [*legend_keys(LOOKS, known), legend_key("end of an epoch", "#000000", "*", linestyle="")],
    )
    return figure


def figure2(records: Iterable[Record]) -> Figure:
    """Test error after five epochs against the number of features, and of the full kernel."""
    known = list(records)
    sizes = of_task(known, "sizes")
    others = by_data(of_task(known, "curve", "linear"))

    def draw(panels: Sequence[Axes], name: str, runs: Sequence[Record]) -> None:
        [panel] = panels
        epoch = min(_EARLY, *(run["course"]["epoch"][-1] for run in runs))
        beside = [r for r in others.get(name, []) if r["method"] in ("exact", "linear")]
        _against_size(panel, runs, epoch, beside)
        _titled(panel, runs)

    figure = columns(filled(sizes, "figure 2"), draw, width=4.2, heights=(3.0,), most=3)
    keys = legend_keys(LOOKS, sizes)
    keys.append(legend_key("full kernel", LOOKS["exact"].colour, "", linestyle="--"))
    keys.append(legend_key("linear model", "#999999", "", linestyle=":"))
    legend(figure, keys)
    return figure


def figure3(records: Iterable[Record]) -> Figure:
    """Median seconds of a block by phase, in the first epoch and in later ones."""
    found = filled([run for run in of_task(records, "curve") if run.get("phases")], "figure 3")
    figure = columns(found, _stacks, width=4.2, heights=(3.0,), most=2)
    legend(figure, [_patch(label, colour) for label, colour in PHASES.values()])
    return figure


def figure4(records: Iterable[Record]) -> Figure:
    """Test error against epochs for two numbers of features, and at the end against all."""
    known = list(records)
    long = long_runs(known)
    exact = by_data([run for run in of_task(known, "curve") if run["method"] == "exact"])
    faster = by_data(of_task(known, "accelerated"))

    def draw(panels: Sequence[Axes], name: str, runs: Sequence[Record]) -> None:
        upper, lower = panels
        sizes = sorted({run["size"] for run in runs})
        shown = sorted({sizes[len(sizes) // 3], sizes[-1]})
        plain = [run for run in runs if run["size"] in shown]
        _against_epochs(upper, plain + faster.get(name, []), shown)
        epochs = min(run["course"]["epoch"][-1] for run in runs)
        _against_size(lower, runs, epochs, exact.get(name, [])[:1])
        said = " and ".join(map(thousands, shown))
        upper.set(xlabel=f"epochs, p = {said}", ylabel=unit(runs[0]))
        _titled(upper, runs)

    figure = columns(filled(long, "figure 4"), draw, width=4.2, heights=(2.9, 2.7))
    keys = legend_keys(LOOKS, long)
    keys.append(legend_key("above: the smaller p", "#777777", "", linestyle="--"))
    keys.append(legend_key("above: accelerated", "#777777", "", linestyle=":"))
    keys.append(legend_key("below: full kernel", LOOKS["exact"].colour, "", linestyle="--"))
    legend(figure, keys)
    return figure


# --- panels ----------------------------------------------------------------------------------


def _against_seconds(panels: Sequence[Axes], name: str, runs: Sequence[Record]) -> None:
    """A line for each system, a point for every block."""
    [panel] = panels
    seconds, errors, marked = [], [], []
    for run in _in_order(runs):
        look, course = LOOKS[run["method"]], run["course"]
        points = list(zip(course["seconds"], course["error"], strict=True))
        look.draw(panel, points)
        whole = np.isclose(np.mod(course["epoch"], 1.0), 0.0)
        ends = [point for point, star in zip(points, whole, strict=True) if star]
        look._replace(mark="*", dashes="").draw(panel, ends)
        seconds += course["seconds"]
        errors += course["error"]
        marked += [error for _, error in ends]
    log_axis(panel.xaxis, seconds)
    # The first blocks may be far above all others; ends of epochs are shown.
    most = max(6 * min(errors), *marked)
    _y_axis(panel, [error for error in errors if error <= most])
    panel.set(xlabel="seconds", ylabel=unit(runs[0]))
    _titled(panel, runs)


def _against_size(
    panel: Axes, runs: Sequence[Record], epoch: float, beside: Sequence[Record]
) -> None:
    """Means over the seeds after an epoch, and lines across for what has no size."""
    for method, look in LOOKS.items():
        own = [run for run in runs if run["method"] == method]
        sizes = sorted({run["size"] for run in own})
        values = [[error_at(run, epoch) for run in own if run["size"] == s] for s in sizes]
        points = [(s, float(np.mean(each))) for s, each in zip(sizes, values, strict=True)]
        if points:
            look._replace(mark="o").draw(panel, points)
    for run in beside:
        exact = run["method"] == "exact"
        colour, dashes = (LOOKS["exact"].colour, "--") if exact else ("#999999", ":")
        panel.axhline(_end(run), color=colour, linestyle=dashes, linewidth=1.2, zorder=1.8)
    size_axis(panel, [run["size"] for run in runs])
    _y_axis(panel, [error_at(run, epoch) for run in runs] + [_end(run) for run in beside])
    panel.set(xlabel="features p", ylabel=f"{unit(runs[0])}, {epoch:g} epochs")


def _against_epochs(panel: Axes, runs: Sequence[Record], sizes: Sequence[int]) -> None:
    """A line for each system and size; the smaller size is dashed."""
    epochs, errors = [], []
    for run in runs:
        if run["seed"]:
            continue
        course = run["course"]
        dashes = "--" if len(sizes) > 1 and run["size"] == sizes[0] else "-"
        if run["task"] == "accelerated":
            dashes = ":"
        points = list(zip(course["epoch"], course["error"], strict=True))
        draw_line(panel, points, LOOKS[run["method"]].colour, "", dashes)
        epochs += course["epoch"]
        errors += course["error"]
    log_axis(panel.xaxis, epochs)
    _y_axis(panel, errors)


def _stacks(panels: Sequence[Axes], name: str, runs: Sequence[Record]) -> None:
    """A bar for each system and part of the run."""
    [panel] = panels
    names: list[str] = []
    for run in _in_order(runs):
        for part, said in (("first", "epoch 1"), ("later", "later")):
            phases = run["phases"].get(part)
            if not phases:
                continue
            base = 0.0
            for phase, (_, colour) in PHASES.items():
                height = 1e3 * phases.get(phase, 0.0)
                panel.bar(len(names), height, 0.7, base, color=colour, zorder=2)
                base += height
            names.append(LOOKS[run["method"]].label.replace(" ", "\n") + f"\n{said}")
    panel.set_xticks(range(len(names)), names)
    panel.set_ylim(bottom=0)
    panel.set_ylabel("milliseconds of a block")
    _titled(panel, runs)


def _end(run: Record) -> float:
    if "course" in run:
        return error_at(run)
    return float(run["score"]["test"].get("rmse", 1.0 - run["score"]["test"].get("accuracy", 1.0)))


def _y_axis(panel: Axes, values: Iterable[float]) -> None:
    """Logarithmic, over what is shown; zeros are left out."""
    known = [value for value in values if np.isfinite(value) and value > 0]
    log_axis(panel.yaxis, known)
    if known and max(known) / min(known) >= 10**0.1:
        panel.set_ylim(min(known) / 1.06, max(known) * 1.06)


def _in_order(runs: Sequence[Record]) -> list[Record]:
    order = list(LOOKS)
    return sorted(runs, key=lambda run: order.index(run["method"]))


def _titled(panel: Axes, runs: Sequence[Record]) -> None:
    rows = f"{thousands(runs[0]['fitted_rows'])} training rows"
    sizes = {run["size"] for run in runs if run.get("size")}
    p = f"p = {thousands(min(sizes))}" if len(sizes) == 1 else ""
    titled(panel, with_paper_name(runs[0]), about(runs[0], rows, p))


def _patch(label: str, colour: str) -> Any:
    from matplotlib.patches import Patch

    return Patch(color=colour, label=label)
