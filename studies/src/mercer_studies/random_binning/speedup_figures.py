"""Figure 6 of the random binning paper: speed-up against processors, from records alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.plots.base import STYLE
from mercer_studies.lines import AID, Curve, draw_line, legend_key
from mercer_studies.panels import about, columns, filled, legend, thousands, threads_axis, titled
from mercer_studies.queries import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MODES = {
    "async": "without waiting",
    "auto": "a grid at a time",
    "safe": "safe steps",
    "plain": "plain steps",
}
"""How steps are taken at once, in words."""

_LOOKS = {"async": ("o", "-"), "auto": ("D", ":"), "safe": ("^", "--"), "plain": ("s", "-")}
_METHODS = {"binning": "random binning", "fourier": "random Fourier"}
_HEIGHTS = {"measured": 2.7, "simulated": 3.2}
_FLOOR = {"binning": 0.7, "fourier": 0.55}  # crosses there stand for runs that did not end


def curves(
    records: Iterable[Record], kind: str, method: str | None = None, mode: str | None = None
) -> list[Record]:
    """The runs of one kind that came to an end, of a method and a mode.

    ``kind``: "measured" or "simulated"; ``method``: "binning" or "fourier".
    """
    return [
        record
        for record in records
        if record.get("kind") == kind
        and "curve" in record
        and method in (None, record["method"])
        and mode in (None, record["mode"])
    ]


def speedups(run: Record) -> dict[int, float]:
    """Speed-up in seconds, or rounds, of every number of processors over one.

    Those that did not get to the goal are left out.
    """
    values = {point["tau"]: point.get("seconds", point.get("rounds")) for point in run["curve"]}
    known = {tau: value for tau, value in values.items() if value}
    return {tau: known[1] / value for tau, value in known.items()} if 1 in known else {}


def guaranteed(run: Record) -> dict[int, float]:
    """S(τ) of the theory for every number of processors.

    >>> guaranteed({"curve": [{"tau": 1}, {"tau": 8}], "predicted": [1.0, 5.0]})
    {1: 1.0, 8: 5.0}
    """
    taus = [point["tau"] for point in run["curve"]]
    return dict(zip(taus, run["predicted"], strict=True))


def kappa(run: Record) -> float:
    """κ̄: columns over the entries of a row, the most that S(τ) can be."""
    return float(run["n_features"] / run["omega"])


def figure6(records: Iterable[Record]) -> Figure:
    """Speed-up against threads as measured, and below it against processors that are simulated."""
    known = list(records)
    kinds = [kind for kind in _HEIGHTS if curves(known, kind)]
    runs = [run for kind in kinds for run in curves(known, kind)]
    draw, heights = partial(_speedups, kinds), tuple(_HEIGHTS[kind] for kind in kinds)
    figure = columns(filled(runs, "figure 6"), draw, width=3.8, heights=heights)
    legend(figure, _keys(known))
    return figure


def _speedups(
    kinds: Sequence[str], panels: Sequence[Axes], name: str, runs: Sequence[Record]
) -> None:
    """Threads as measured above, processors as simulated below; the first panel names the data."""
    for kind, panel in zip(kinds, panels, strict=True):
        own = curves(runs, kind)
        (_measured if kind == "measured" else _simulated)(panel, own)
        if panel is panels[0]:
            titled(panel, name, about(runs[0], *_sizes(own)))
        else:
            titled(panel, kind, ", ".join(_sizes(own)))


def _measured(panel: Axes, runs: Sequence[Record]) -> None:
    taus = sorted({point["tau"] for run in runs for point in run["curve"]})
    for run in runs:
        colour, (mark, dashes) = STYLE[run["method"]][0], _LOOKS[run["mode"]]
        draw_line(panel, _points(speedups(run)), colour, mark, dashes)
    threads_axis(panel, taus, "times faster, measured")


def _simulated(panel: Axes, runs: Sequence[Record]) -> None:
    taus = sorted({point["tau"] for run in runs for point in run["curve"]})
    for run in runs:
        colour, (mark, dashes) = STYLE[run["method"]][0], _LOOKS[run["mode"]]
        reached = speedups(run)
        draw_line(panel, _points(reached), colour, mark, dashes)
        lost = [(tau, _FLOOR[run["method"]]) for tau in taus if tau not in reached]
        panel.plot(*_columns(lost), color=colour, marker="x", linestyle="", zorder=4)
        if run["mode"] == "safe":
            draw_line(panel, _points(guaranteed(run)), colour, "", ":").set_linewidth(1.2)
    if taus:
        panel.plot(taus, taus, **AID)
        panel.set_xlim(taus[0] / 1.1, taus[-1] * 1.1)
    for axis in (panel.xaxis, panel.yaxis):
        (panel.set_xscale if axis is panel.xaxis else panel.set_yscale)("log", base=2)
        axis.set_major_formatter(lambda value, _: f"{value:g}")
    panel.set_ylim(bottom=min(_FLOOR.values()) / 1.2)
    panel.set(xlabel="processors τ", ylabel="times fewer rounds")


def _keys(records: Sequence[Record]) -> list[Any]:
    """Colours are methods, marks are ways to take steps at once."""
    from matplotlib.lines import Line2D

    modes = {run["mode"] for kind in ("measured", "simulated") for run in curves(records, kind)}
    keys = [legend_key(name, STYLE[method][0], "") for method, name in _METHODS.items()]
    for mode, name in MODES.items():
        if mode in modes:
            mark, dashes = _LOOKS[mode]
            keys.append(legend_key(name, "#555555", mark, linestyle=dashes))
    keys.append(legend_key("S(τ) of the theory", "#555555", "", linestyle=":"))
    keys.append(Line2D([], [], label="τ", **AID))
    runs = curves(records, "simulated")
    if any(len(speedups(run)) < len(run["curve"]) for run in runs):
        keys.append(Line2D([], [], color="#555555", marker="x", linestyle="", label="no end"))
    return keys


def _sizes(runs: Sequence[Record]) -> list[str]:
    """Rows, grids and κ̄ of random binning."""
    binned = [run for run in runs if run["method"] == "binning"]
    if not binned:
        return []
    run = binned[0]
    return [f"{thousands(run['rows'])} rows", f"{run['size']} grids, κ̄ {kappa(run):.3g}"]


def _points(values: dict[int, float]) -> Curve:
    return list(values.items())


def _columns(points: Curve) -> tuple[Any, Any]:
    both = np.array(points, dtype=float).reshape(-1, 2)
    return both[:, 0], both[:, 1]
