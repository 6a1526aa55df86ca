"""Figures of the asynchronous doubly stochastic paper, and of wrong targets, from records alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.plots.base import dress
from mercer_studies.lines import Curve, draw_bars, draw_line, legend_key
from mercer_studies.panels import grid, hide_empty, legend, log_axis, thousands, titled
from mercer_studies.queries import (
    Record,
    by_data,
    data_kind,
    error,
    is_regression,
    of_task,
    paper_name,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "LOOKS",
    "LOSS_LOOKS",
    "answers",
    "curves",
    "figure1",
    "figure2",
    "robustness",
    "speedups",
    "unit",
]

LOOKS = {
    "asydsskl": ("AsyDSSKL", "#D55E00", "o", "-"),
    "asydsskl-own": ("AsyDSSKL, our steps", "#E69F00", "D", "-"),
    "working-set": ("coordinate descent", "#000000", "s", "-"),
    "squared": ("the same, squared loss", "#999999", "s", "-"),
    "svc": ("SVC, SVR", "#009E73", "^", "--"),
    "libsvm-p": ("LIBSVM(P)", "#0072B2", "v", "--"),
    "asygcd": ("AsyGCD", "#56B4E9", "P", "--"),
    "doubly": ("DoubleSGD", "#CC79A7", "X", "--"),
}
"""What methods are called, their colours, marks and lines; solid ones have few features."""

LOSS_LOOKS = {
    "logistic": ("convex: logistic, squared", "#555555", "s", "--"),
    "squared": ("convex: logistic, squared", "#555555", "s", "--"),
    "sigmoid": ("sigmoid, correntropy σ = 1", "#D55E00", "o", "-"),
    "correntropy": ("sigmoid, correntropy σ = 1", "#D55E00", "o", "-"),
    "correntropy-wide": ("correntropy σ = 3", "#E69F00", "D", "-"),
}
_AID: dict[str, Any] = {"color": "#c4c4c4", "linewidth": 3.5, "solid_capstyle": "butt", "zorder": 1}
_MOST_ACROSS = 3


def curves(records: Iterable[Record]) -> list[Record]:
    """The runs of Figure 1, a to f.

    Examples
    --------
    >>> curves([{"task": "robust"}])
    []
    """
    return of_task(records, "curve")


def unit(run: Record) -> str:
    """What errors of a run are: a mean squared error, or a share of wrong classes.

    Examples
    --------
    >>> unit({"score": {"test": {"accuracy": 0.9}}})
    'wrong classes'
    """
    return "mean squared error" if is_regression(run) else "wrong classes"


def speedups(run: Record, name: str = "seconds") -> dict[int, float]:
    """How many times faster every number of threads is than one.

    Parameters
    ----------
    run : mapping
    name : {"seconds", "pace"}, default="seconds"
        To the target, or for a loop of steps.

    Examples
    --------
    >>> seconds = {1: 3.0, 2: 2.0, 4: None}
    >>> speedups({"curve": [{"tau": tau, "seconds": s} for tau, s in seconds.items()]})
    {1: 1.0, 2: 1.5}
    """
    known = {point["tau"]: point[name] for point in run["curve"] if point.get(name)}
    return {tau: known[1] / value for tau, value in known.items()} if 1 in known else {}


def figure1(records: Iterable[Record]) -> Figure:
    """Test error against training seconds, a panel for each data set.

    Parameters
    ----------
    records : iterable of mapping

    Raises
    ------
    ValueError
        If no record belongs to this figure.

    Examples
    --------
    >>> run = {"task": "curve", "method": "svc", "seed": 0, "rows": 90, "data": {"name": "toy"}}
    >>> run["score"] = {"test": {"accuracy": 0.9}}
    >>> run["course"] = {"seconds": [0.1, 0.2], "error": [0.2, 0.1], "size": [5, 9]}
    >>> [panel.get_xlabel() for panel in figure1([run]).axes]
    ['seconds of training']
    """
    found = _filled(curves(records), "figure 1")
    figure, axes = _panels(len(found))
    for panel, (name, runs) in zip(axes.flat, found.items(), strict=False):
        _training(panel, runs)
        panel.set(xlabel="seconds of training", ylabel=unit(runs[0]))
        titled(panel, _title(name, runs[0]), _about(runs[0]))
        dress(panel)
    hide_empty(axes, len(found))
    legend(figure, _keys(LOOKS, {run["method"] for runs in found.values() for run in runs}))
    return figure


def answers(records: Iterable[Record]) -> Figure:
    """Seconds of answers against rows asked, and against the size of the model.

    Parameters
    ----------
    records : iterable of mapping

    Raises
    ------
    ValueError
        If no record belongs to this figure.

    Examples
    --------
    >>> run = {"task": "answers", "method": "svc", "rows": 90, "data": {"name": "toy", "d": 2}}
    >>> run |= {"model_size": 5, "slope": 1e-6, "score": {"test": {"accuracy": 0.9}}}
    >>> run["curve"] = [{"n": 10, "seconds": 1e-5}, {"n": 20, "seconds": 2e-5}]
    >>> len(answers([run]).axes)
    2
    """
    found = _filled(of_task(records, "answers"), "figure 1, g and h")
    figure, axes = grid(2, len(found), width=4.2, heights=(2.9, 2.7))
    for (upper, lower), (name, runs) in zip(axes.T, found.items(), strict=True):
        for run in runs:
            _, colour, mark, dashes = LOOKS[run["method"]]
            points = [(point["n"], point["seconds"]) for point in run["curve"]]
            draw_line(upper, points, colour, mark, dashes)
            draw_line(lower, [(_work(run), 1e6 * run["slope"])], colour, mark, "")
        log_axis(upper.xaxis, [point["n"] for run in runs for point in run["curve"]])
        log_axis(upper.yaxis, [point["seconds"] for run in runs for point in run["curve"]])
        log_axis(lower.xaxis, [_work(run) for run in runs])
        log_axis(lower.yaxis, [1e6 * run["slope"] for run in runs])
        upper.set(xlabel="rows asked", ylabel="seconds")
        lower.set(xlabel="size of the model × inputs", ylabel="microseconds a row")
        titled(upper, _title(name, runs[0]), _about(runs[0]))
        dress(upper)
        dress(lower)
    legend(figure, _keys(LOOKS, {run["method"] for runs in found.values() for run in runs}))
    return figure


def figure2(records: Iterable[Record]) -> Figure:
    """Speed-up against threads as measured, and loops against delays as simulated.

    Parameters
    ----------
    records : iterable of mapping

    Raises
    ------
    ValueError
        If no record belongs to this figure.

    Examples
    --------
    >>> run = {"task": "measured", "method": "asydsskl", "rows": 90, "data": {"name": "toy"}}
    >>> run["curve"] = [{"tau": 1, "seconds": 0.4, "pace": 0.1}]
    >>> [panel.get_xlabel() for panel in figure2([run]).axes]
    ['threads', 'delay τ, in steps']
    """
    found = _filled(of_task(records, "measured", "delayed"), "figure 2")
    figure, axes = grid(2, len(found), width=4.2, heights=(2.7, 2.7))
    for (upper, lower), (name, runs) in zip(axes.T, found.items(), strict=True):
        measured, delayed = of_task(runs, "measured"), of_task(runs, "delayed")
        _threads(upper, measured)
        _delays(lower, delayed)
        titled(upper, _title(name, runs[0]), _sizes((measured or runs)[0]))
        titled(lower, "simulated", _sizes((delayed or runs)[0]))
    methods = {run["method"] for run in of_task(records, "measured")}
    keys = _keys(LOOKS, methods)
    keys.append(legend_key("a loop of steps alone", "#555555", "", linestyle=":"))
    lengths = sorted({run["step_size"] for run in of_task(records, "delayed")}, reverse=True)
    looks = zip(lengths, _DELAYED, strict=False)
    keys += [legend_key(f"γ = {g:g}", colour, mark) for g, (colour, mark) in looks]
    legend(figure, keys)
    return figure


def robustness(records: Iterable[Record]) -> Figure:
    """Test error against the share of wrong targets, mean and deviation over trials.

    Parameters
    ----------
    records : iterable of mapping

    Raises
    ------
    ValueError
        If no record belongs to this figure.

    Examples
    --------
    >>> run = {"task": "robust", "method": "sigmoid", "share": 0.1, "rows": 90}
    >>> run |= {"data": {"name": "toy"}, "score": {"test": {"accuracy": 0.9}}}
    >>> len(robustness([run]).axes)
    1
    """
    found = _filled(of_task(records, "robust"), "wrong targets")
    figure, axes = _panels(len(found), most=2)
    for panel, (name, runs) in zip(axes.flat, found.items(), strict=False):
        for method, (_, colour, mark, dashes) in LOSS_LOOKS.items():
            curve, spreads = _over_trials([run for run in runs if run["method"] == method])
            if curve:
                draw_line(panel, curve, colour, mark, dashes)
                draw_bars(panel, curve, spreads, colour)
        ylabel = "relative error" if is_regression(runs[0]) else "wrong classes"
        panel.set(xlabel="wrong targets, %", ylabel=ylabel)
        if is_regression(runs[0]):
            log_axis(panel.yaxis, [error(run) for run in runs])
        else:
            panel.set_ylim(bottom=0)
        titled(panel, name, _about(runs[0]))
        dress(panel)
    hide_empty(axes, len(found))
    there = {run["method"] for runs in found.values() for run in runs}
    keys, seen = [], set()
    for method, (label, colour, mark, dashes) in LOSS_LOOKS.items():
        if method in there and label not in seen:
            seen.add(label)
            keys.append(legend_key(label, colour, mark, linestyle=dashes))
    legend(figure, keys)
    return figure


# --- small parts -----------------------------------------------------------------------------

_APART = 1.15  # between crosses of one delay
_DELAYED = (("#333333", "^"), ("#0072B2", "s"), ("#009E73", "v"))


def _training(panel: Axes, runs: Sequence[Record]) -> None:
    """A line for every trial of every method, in one colour."""
    seconds, errors = [], []
    for run in runs:
        _, colour, mark, dashes = LOOKS[run["method"]]
        course = run["course"]
        points = list(zip(course["seconds"], course["error"], strict=True))
        line = draw_line(panel, points, colour, mark if run["seed"] == 0 else "", dashes)
        if run["seed"]:
            line.set_linewidth(0.9)
        seconds += [max(value, 1e-3) for value in course["seconds"]]
        errors += course["error"]
    log_axis(panel.xaxis, seconds)
    log_axis(panel.yaxis, errors)


def _threads(panel: Axes, runs: Sequence[Record]) -> None:
    taus = sorted({point["tau"] for run in runs for point in run["curve"]})
    for run in runs:
        _, colour, mark, _ = LOOKS[run["method"]]
        draw_line(panel, list(speedups(run).items()), colour, mark, "-")
        draw_line(panel, list(speedups(run, "pace").items()), colour, "", ":")
    if taus:
        panel.plot(taus, taus, **_AID)
        panel.set_xticks(taus)
        panel.set_xlim(taus[0] - 0.1, taus[-1] + 0.1)
    panel.set_ylim(bottom=0)
    panel.set(xlabel="threads", ylabel="times faster")
    dress(panel)


def _delays(panel: Axes, runs: Sequence[Record]) -> None:
    """Loops to the target; crosses at the top where none got there."""
    ordered = sorted(runs, key=lambda run: -run["step_size"])
    known = [p["loops"] for run in ordered for p in run["curve"] if p["loops"]]
    top = 1.6 * max(known, default=1.0)
    for place, (run, (colour, mark)) in enumerate(zip(ordered, _DELAYED, strict=False)):
        points = [(p["tau"], p["loops"]) for p in run["curve"] if p["loops"]]
        lost = [p["tau"] for p in run["curve"] if not p["loops"]]
        draw_line(panel, points, colour, mark, "-")
        panel.plot(
            lost,
            [top * _APART**place] * len(lost),
            color=colour,
            marker="x",
            linestyle="",
            zorder=4,
        )
    panel.set_xscale("symlog", linthresh=1, base=2)
    panel.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    if known:
        log_axis(panel.yaxis, [*known, top])
        panel.set_ylim(top=top * _APART ** len(ordered))
    panel.set(xlabel="delay τ, in steps", ylabel="loops to the target")
    dress(panel)


def _over_trials(runs: Sequence[Record]) -> tuple[Curve, list[float]]:
    """Mean errors by share in per cent, and their deviations."""
    shares = sorted({run["share"] for run in runs})
    values = [[error(run) for run in runs if run["share"] == share] for share in shares]
    curve = [(100 * s, float(np.mean(own))) for s, own in zip(shares, values, strict=True)]
    return curve, [float(np.std(own, ddof=1)) if len(own) > 1 else 0.0 for own in values]


def _work(run: Record) -> float:
    return float(max(1, run["model_size"]) * run["data"]["d"])


def _filled(records: Sequence[Record], what: str) -> dict[str, list[Record]]:
    if not records:
        raise ValueError(f"records must hold runs of {what}; got none.")
    return by_data(records)


def _panels(count: int, most: int = _MOST_ACROSS) -> tuple[Figure, np.ndarray]:
    across = min(count, most)
    return grid(-(-count // across), across, width=4.0, heights=(3.0,))


def _title(name: str, run: Record) -> str:
    """The data, and what they have the place of in the paper."""
    theirs = paper_name(run)
    return name if theirs == name else f"{theirs}: {name}"


def _about(run: Record) -> str:
    parts = (data_kind(run), f"{thousands(run['rows'])} training rows")
    return ", ".join(part for part in parts if part)


def _sizes(run: Record) -> str:
    features = run.get("n_features")
    return f"{thousands(run['rows'])} rows" + (f", {features} features" if features else "")


def _keys(looks: dict[str, tuple[str, str, str, str]], there: set[str]) -> list[Any]:
    return [
        legend_key(label, colour, mark, linestyle=dashes)
        for method, (label, colour, mark, dashes) in looks.items()
        if method in there
    ]
