"""Figures of the block coordinate descent paper, from records alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.plots.base import STYLE, dress
from mercer_studies.lines import draw_line, legend_key
from mercer_studies.panels import grid, hide_empty, legend, log_axis, size_axis, thousands, titled
from mercer_studies.queries import Record, by_data, data_kind, is_regression, of_task, paper_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "LOOKS",
    "PHASES",
    "error_at",
    "figure1",
    "figure2",
    "figure3",
    "figure4",
    "long_runs",
    "unit",
]

LOOKS = {
    "exact": ("full kernel", STYLE["exact"][0], "-"),
    "nystroem": ("Nyström", STYLE["nystroem"][0], "-"),
    "features": ("random features", STYLE["fourier"][0], "-"),
}
"""What systems are called, their colours and lines."""

PHASES = {
    "generate": ("generating the block", "#0072B2"),
    "gram": ("Gram matrix", "#E69F00"),
    "reduce": ("residual", "#56B4E9"),
    "solve": ("local solve", "#D55E00"),
    "update": ("update", "#009E73"),
    "other": ("other", "#999999"),
}
"""Phases of a block, and their colours."""

_EARLY = 5
_MOST_ACROSS = 3


def long_runs(records: Iterable[Record]) -> list[Record]:
    """The runs over sizes that go on for Figure 4.

    Examples
    --------
    >>> long_runs([{"task": "sizes", "figures": [2]}])
    []
    """
    return [run for run in of_task(records, "sizes") if 4 in run.get("figures", ())]


def unit(run: Record) -> str:
    """What errors of a run are: of stars, or a share of wrong classes.

    Examples
    --------
    >>> unit({"score": {"test": {"accuracy": 0.9}}})
    'wrong classes'
    """
    return "RMSE of stars" if is_regression(run) else "wrong classes"


def error_at(run: Record, epoch: float | None = None) -> float:
    """The test error of a curve after an epoch, or at its end; NaN if it does not get there.

    Parameters
    ----------
    run : mapping
    epoch : float, optional

    Examples
    --------
    >>> run = {"course": {"epoch": [0.5, 1.0], "error": [0.3, 0.2]}}
    >>> error_at(run, 1), error_at(run)
    (0.2, 0.2)
    """
    course = run["course"]
    if epoch is None:
        return float(course["error"][-1])
    known = dict(zip(np.round(course["epoch"], 6), course["error"], strict=True))
    return float(known.get(epoch, np.nan))


def figure1(records: Iterable[Record]) -> Figure:
    """Test error against seconds after every block, stars where epochs end.

    Parameters
    ----------
    records : iterable of mapping

    Raises
    ------
    ValueError
        If no record belongs to this figure.

    Examples
    --------
    >>> run = {"task": "curve", "method": "exact", "fitted_rows": 90, "data": {"name": "toy"}}
    >>> run |= {"score": {"test": {"accuracy": 0.9}}, "n_features": 90}
    >>> run["course"] = {"epoch": [0.5, 1.0], "seconds": [0.1, 0.2], "error": [0.2, 0.1]}
    >>> [panel.get_xlabel() for panel in figure1([run]).axes]
    ['seconds']
    """
    found = _filled(of_task(records, "curve"), "figure 1")
    figure, axes = _panels(len(found), most=2)
    for panel, (name, runs) in zip(axes.flat, found.items(), strict=False):
        _against_seconds(panel, runs)
        panel.set(xlabel="seconds", ylabel=unit(runs[0]))
        titled(panel, _title(name, runs[0]), _about(runs))
        dress(panel)
    hide_empty(axes, len(found))
    legend(figure, [*_keys(found), legend_key("end of an epoch", "#000000", "*", linestyle="")])
    return figure


def figure2(records: Iterable[Record]) -> Figure:
    """Test error after five epochs against the number of features, and of the full kernel.

    Parameters
    ----------
    records : iterable of mapping

    Raises
    ------
    ValueError
        If no record belongs to this figure.

    Examples
    --------
    >>> run = {"task": "sizes", "method": "nystroem", "fitted_rows": 90, "data": {"name": "toy"}}
    >>> run |= {"score": {"test": {"accuracy": 0.9}}, "size": 8, "seed": 0, "figures": [2]}
    >>> run["course"] = {"epoch": [1.0], "seconds": [0.1], "error": [0.1]}
    >>> [panel.get_xlabel() for panel in figure2([run]).axes]
    ['features p']
    """
    known = list(records)
    found = _filled(of_task(known, "sizes"), "figure 2")
    others = by_data(of_task(known, "curve", "linear"))
    figure, axes = _panels(len(found))
    for panel, (name, runs) in zip(axes.flat, found.items(), strict=False):
        epoch = min(_EARLY, *(run["course"]["epoch"][-1] for run in runs))
        beside = [r for r in others.get(name, []) if r["method"] in ("exact", "linear")]
        _against_size(panel, runs, epoch)
        for run in beside:
            _level(panel, run)
        _y_axis(panel, [error_at(run, epoch) for run in runs] + [_end(run) for run in beside])
        panel.set(xlabel="features p", ylabel=f"{unit(runs[0])}, {epoch:g} epochs")
        titled(panel, _title(name, runs[0]), _about(runs))
        dress(panel)
    hide_empty(axes, len(found))
    keys = _keys(found)
    keys.append(legend_key("full kernel", LOOKS["exact"][1], "", linestyle="--"))
    keys.append(legend_key("linear model", "#999999", "", linestyle=":"))
    legend(figure, keys)
    return figure


def figure3(records: Iterable[Record]) -> Figure:
    """Median seconds of a block by phase, in the first epoch and in later ones.

    Parameters
    ----------
    records : iterable of mapping

    Raises
    ------
    ValueError
        If no record belongs to this figure.

    Examples
    --------
    >>> run = {"task": "curve", "method": "exact", "fitted_rows": 90, "data": {"name": "toy"}}
    >>> run |= {"phases": {"first": {"generate": 0.1, "solve": 0.2}, "later": None}}
    >>> len(figure3([run | {"n_features": 90}]).axes)
    1
    """
    found = _filled([run for run in of_task(records, "curve") if run.get("phases")], "figure 3")
    figure, axes = _panels(len(found), most=2)
    for panel, (name, runs) in zip(axes.flat, found.items(), strict=False):
        _stacks(panel, runs)
        panel.set(ylabel="milliseconds of a block")
        titled(panel, _title(name, runs[0]), _about(runs))
        dress(panel)
    hide_empty(axes, len(found))
    legend(figure, [_patch(label, colour) for label, colour in PHASES.values()])
    return figure


def figure4(records: Iterable[Record]) -> Figure:
    """Test error against epochs for two numbers of features, and at the end against all.

    Parameters
    ----------
    records : iterable of mapping

    Raises
    ------
    ValueError
        If no record belongs to this figure.

    Examples
    --------
    >>> run = {"task": "sizes", "method": "nystroem", "fitted_rows": 90, "data": {"name": "toy"}}
    >>> run |= {"score": {"test": {"accuracy": 0.9}}, "size": 8, "seed": 0, "figures": [2, 4]}
    >>> run["course"] = {"epoch": [1.0, 2.0], "seconds": [0.1, 0.2], "error": [0.2, 0.1]}
    >>> len(figure4([run]).axes)
    2
    """
    known = list(records)
    found = _filled(long_runs(known), "figure 4")
    exact = by_data([run for run in of_task(known, "curve") if run["method"] == "exact"])
    faster = by_data(of_task(known, "accelerated"))
    figure, axes = grid(2, len(found), width=4.2, heights=(2.9, 2.7))
    for (upper, lower), (name, runs) in zip(axes.T, found.items(), strict=True):
        sizes = sorted({run["size"] for run in runs})
        shown = sorted({sizes[len(sizes) // 3], sizes[-1]})
        plain = [run for run in runs if run["size"] in shown]
        _against_epochs(upper, plain + faster.get(name, []), shown)
        epochs = min(run["course"]["epoch"][-1] for run in runs)
        _against_size(lower, runs, epochs)
        for run in exact.get(name, [])[:1]:
            _level(lower, run)
        ends = [error_at(run, epochs) for run in runs]
        _y_axis(lower, ends + [_end(run) for run in exact.get(name, [])[:1]])
        said = " and ".join(map(thousands, shown))
        upper.set(xlabel=f"epochs, p = {said}", ylabel=unit(runs[0]))
        lower.set(xlabel="features p", ylabel=f"{unit(runs[0])}, {epochs:g} epochs")
        titled(upper, _title(name, runs[0]), _about(runs))
        dress(upper)
        dress(lower)
    keys = _keys(found)
    keys.append(legend_key("above: the smaller p", "#777777", "", linestyle="--"))
    keys.append(legend_key("above: accelerated", "#777777", "", linestyle=":"))
    keys.append(legend_key("below: full kernel", LOOKS["exact"][1], "", linestyle="--"))
    legend(figure, keys)
    return figure


# --- panels ----------------------------------------------------------------------------------


def _against_seconds(panel: Axes, runs: Sequence[Record]) -> None:
    """A line for each system, a point for every block."""
    seconds, errors = [], []
    for run in _in_order(runs):
        _, colour, dashes = LOOKS[run["method"]]
        course = run["course"]
        points = list(zip(course["seconds"], course["error"], strict=True))
        draw_line(panel, points, colour, "", dashes)
        whole = np.isclose(np.mod(course["epoch"], 1.0), 0.0)
        ends = [point for point, star in zip(points, whole, strict=True) if star]
        draw_line(panel, ends, colour, "*", "")
        seconds += course["seconds"]
        errors += course["error"]
    log_axis(panel.xaxis, seconds)
    low = min(errors)
    _y_axis(panel, [error for error in errors if error <= 6 * low])


def _against_size(panel: Axes, runs: Sequence[Record], epoch: float) -> None:
    """Mean over the seeds after an epoch."""
    for method, (_, colour, dashes) in LOOKS.items():
        own = [run for run in runs if run["method"] == method]
        sizes = sorted({run["size"] for run in own})
        values = [[error_at(run, epoch) for run in own if run["size"] == s] for s in sizes]
        points = [(s, float(np.mean(each))) for s, each in zip(sizes, values, strict=True)]
        if points:
            draw_line(panel, points, colour, "o", dashes)
    size_axis(panel, [run["size"] for run in runs])


def _against_epochs(panel: Axes, runs: Sequence[Record], sizes: Sequence[int]) -> None:
    """A line for each system and size; the smaller size is dashed."""
    epochs, errors = [], []
    for run in runs:
        if run["seed"]:
            continue
        _, colour, _ = LOOKS[run["method"]]
        course = run["course"]
        dashes = "--" if len(sizes) > 1 and run["size"] == sizes[0] else "-"
        if run["task"] == "accelerated":
            dashes = ":"
        points = list(zip(course["epoch"], course["error"], strict=True))
        draw_line(panel, points, colour, "", dashes)
        epochs += course["epoch"]
        errors += course["error"]
    log_axis(panel.xaxis, epochs)
    _y_axis(panel, errors)


def _level(panel: Axes, run: Record) -> None:
    """A line across for what has no size."""
    exact = run["method"] == "exact"
    colour, dashes = (LOOKS["exact"][1], "--") if exact else ("#999999", ":")
    panel.axhline(_end(run), color=colour, linestyle=dashes, linewidth=1.2, zorder=1)


def _stacks(panel: Axes, runs: Sequence[Record]) -> None:
    """A bar for each system and part of the run."""
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
            names.append(LOOKS[run["method"]][0].replace(" ", "\n") + f"\n{said}")
    panel.set_xticks(range(len(names)), names)
    panel.set_ylim(bottom=0)


# --- small parts -----------------------------------------------------------------------------


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


def _filled(records: Sequence[Record], what: str) -> dict[str, list[Record]]:
    if not records:
        raise ValueError(f"records must hold runs of {what}; got none.")
    return by_data(records)


def _panels(count: int, most: int = _MOST_ACROSS) -> tuple[Figure, np.ndarray]:
    across = min(count, most)
    return grid(-(-count // across), across, width=4.2, heights=(3.0,))


def _title(name: str, run: Record) -> str:
    theirs = paper_name(run)
    return name if theirs == name else f"{name}, for {theirs}"


def _about(runs: Sequence[Record]) -> str:
    rows = f"{thousands(runs[0]['fitted_rows'])} training rows"
    sizes = {run["size"] for run in runs if run.get("size")}
    p = f"p = {thousands(min(sizes))}" if len(sizes) == 1 else ""
    return ", ".join(part for part in (data_kind(runs[0]), rows, p) if part)


def _keys(found: dict[str, list[Record]]) -> list[Any]:
    there = {run["method"] for runs in found.values() for run in runs}
    return [
        legend_key(label, colour, "", linestyle=dashes)
        for method, (label, colour, dashes) in LOOKS.items()
        if method in there
    ]


def _patch(label: str, colour: str) -> Any:
    from matplotlib.patches import Patch

    return Patch(color=colour, label=label)
