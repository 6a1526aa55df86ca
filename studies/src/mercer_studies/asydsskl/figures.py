"""Figures of the asynchronous doubly stochastic paper, and of wrong targets, from records alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from mercer_studies.lines import Curve, Look, draw_bars, draw_line, legend_key, legend_keys
from mercer_studies.panels import (
    about,
    columns,
    filled,
    legend,
    log_axes,
    log_axis,
    thousands,
    threads_axis,
    titled,
    with_paper_name,
)
from mercer_studies.queries import Record, error, is_regression, of_task

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOOKS = {
    "asydsskl": Look("AsyDSSKL", "#D55E00", "o"),
    "asydsskl-own": Look("AsyDSSKL, our steps", "#E69F00", "D"),
    "working-set": Look("coordinate descent", "#000000", "s"),
    "squared": Look("the same, squared loss", "#999999", "s"),
    "svc": Look("SVC, SVR", "#009E73", "^", "--"),
    "libsvm-p": Look("LIBSVM(P)", "#0072B2", "v", "--"),
    "asygcd": Look("AsyGCD", "#56B4E9", "P", "--"),
    "doubly": Look("DoubleSGD", "#CC79A7", "X", "--"),
}
"""Looks of the methods; solid ones have few features."""

_CONVEX = Look("convex: logistic, squared", "#555555", "s", "--")
_BOUNDED = Look("sigmoid, correntropy σ = 1", "#D55E00", "o")

LOSS_LOOKS = {
    "logistic": _CONVEX,
    "squared": _CONVEX,
    "sigmoid": _BOUNDED,
    "correntropy": _BOUNDED,
    "correntropy-wide": Look("correntropy σ = 3", "#E69F00", "D"),
}


def curves(records: Iterable[Record]) -> list[Record]:
    """The runs of Figure 1, a to f."""
    return of_task(records, "curve")


def unit(run: Record) -> str:
    """Unit of a run's errors: a mean squared error, or a share of wrong classes."""
    return "mean squared error" if is_regression(run) else "wrong classes"


def speedups(run: Record, name: str = "seconds") -> dict[int, float]:
    """Speed-up of every number of threads over one.

    ``name``: "seconds" or "pace", to the target, or for a loop of steps.
    """
    known = {point["tau"]: point[name] for point in run["curve"] if point.get(name)}
    return {tau: known[1] / value for tau, value in known.items()} if 1 in known else {}


def figure1(records: Iterable[Record]) -> Figure:
    """Test error against training seconds, a panel for each data set."""
    known = curves(records)
    figure = columns(filled(known, "figure 1"), _training, width=4.0, heights=(3.0,), most=3)
    legend(figure, legend_keys(LOOKS, known))
    return figure


def answers(records: Iterable[Record]) -> Figure:
    """Seconds of answers against rows asked, and against the size of the model."""
    known = of_task(records, "answers")
    found = filled(known, "figure 1, g and h")
    figure = columns(found, _answering, width=4.2, heights=(2.9, 2.7))
    legend(figure, legend_keys(LOOKS, known))
    return figure


def figure2(records: Iterable[Record]) -> Figure:
    """Speed-up against threads as measured, and loops against delays as simulated."""
    found = filled(of_task(records, "measured", "delayed"), "figure 2")
    proved = any(run.get("course") for run in of_task(records, "delayed"))
    heights = (2.7, 2.7, 2.7) if proved else (2.7, 2.7)
    figure = columns(found, _asynchronous, width=4.2, heights=heights)
    keys = legend_keys(LOOKS, of_task(records, "measured"))
    keys.append(legend_key("a loop of steps alone", "#555555", "", linestyle=":"))
    lengths = sorted({run["step_size"] for run in of_task(records, "delayed")}, reverse=True)
    looks = zip(lengths, _DELAYED, strict=False)
    keys += [legend_key(f"γ = {g:g}", colour, mark) for g, (colour, mark) in looks]
    if proved:
        keys.append(legend_key("rate (11) at such γ", "#555555", "", linestyle="--"))
        keys.append(legend_key("at the γ that is proved", "#bbbbbb", "", linestyle=":"))
    legend(figure, keys)
    return figure


def robustness(records: Iterable[Record]) -> Figure:
    """Test error against the share of wrong targets, mean and deviation over trials."""
    known = of_task(records, "robust")
    found = filled(known, "wrong targets")
    figure = columns(found, _mistaken, width=4.0, heights=(3.0,), most=2)
    legend(figure, legend_keys(LOSS_LOOKS, known))
    return figure


_APART = 1.15  # between crosses of one delay
_TITLE = "{paper}: {own}"
_DELAYED = (("#333333", "^"), ("#0072B2", "s"), ("#009E73", "v"))


def _training(panels: Sequence[Axes], name: str, runs: Sequence[Record]) -> None:
    """A line for every trial of every method, in one colour."""
    [panel] = panels
    seconds, errors = [], []
    for run in runs:
        look, course = LOOKS[run["method"]], run["course"]
        points = list(zip(course["seconds"], course["error"], strict=True))
        if run["seed"]:
            look._replace(mark="").draw(panel, points).set_linewidth(0.9)
        else:
            look.draw(panel, points)
        seconds += [max(value, 1e-3) for value in course["seconds"]]
        errors += course["error"]
    log_axis(panel.xaxis, seconds)
    log_axis(panel.yaxis, errors)
    panel.set(xlabel="seconds of training", ylabel=unit(runs[0]))
    _titled(panel, runs[0])


def _answering(panels: Sequence[Axes], name: str, runs: Sequence[Record]) -> None:
    """Seconds by rows asked above, microseconds of a row by the size of the model below."""
    upper, lower = panels
    for run in runs:
        look = LOOKS[run["method"]]
        look.draw(upper, [(point["n"], point["seconds"]) for point in run["curve"]])
        work = float(max(1, run["model_size"]) * run["data"]["d"])
        look._replace(dashes="").draw(lower, [(work, 1e6 * run["slope"])])
    for panel in panels:
        log_axes(panel)
    upper.set(xlabel="rows asked", ylabel="seconds")
    lower.set(xlabel="size of the model × inputs", ylabel="microseconds a row")
    _titled(upper, runs[0])


def _asynchronous(panels: Sequence[Axes], name: str, runs: Sequence[Record]) -> None:
    """Threads as measured, delays as simulated, and loops beside rate (11)."""
    upper, lower = panels[:2]
    measured, delayed = of_task(runs, "measured"), of_task(runs, "delayed")
    _threads(upper, measured)
    _delays(lower, delayed)
    titled(upper, with_paper_name(runs[0], _TITLE), _sizes((measured or runs)[0]))
    titled(lower, "simulated", _sizes((delayed or runs)[0]))
    for panel in panels[2:]:
        _rates(panel, [run for run in delayed if run.get("course")])


def _mistaken(panels: Sequence[Axes], name: str, runs: Sequence[Record]) -> None:
    """A line for every loss."""
    [panel] = panels
    for method, look in LOSS_LOOKS.items():
        curve, spreads = _over_trials([run for run in runs if run["method"] == method])
        if curve:
            look.draw(panel, curve)
            draw_bars(panel, curve, spreads, look.colour)
    panel.set_xlabel("wrong targets, %")
    if is_regression(runs[0]):
        panel.set_ylabel("relative error")
        log_axis(panel.yaxis, [error(run) for run in runs])
    else:
        panel.set_ylabel("wrong classes")
        panel.set_ylim(bottom=0)
    titled(panel, name, _rows(runs[0]))


def _threads(panel: Axes, runs: Sequence[Record]) -> None:
    taus = sorted({point["tau"] for run in runs for point in run["curve"]})
    for run in runs:
        look = LOOKS[run["method"]]
        look.draw(panel, list(speedups(run).items()))
        look._replace(mark="", dashes=":").draw(panel, list(speedups(run, "pace").items()))
    threads_axis(panel, taus, "times faster")


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


def _rates(panel: Axes, runs: Sequence[Record]) -> None:
    """F - F* after every loop without delay, and what rate (11) allows of convex losses."""
    ordered = sorted(runs, key=lambda run: -run["step_size"])
    for run, (colour, mark) in zip(ordered, _DELAYED, strict=False):
        course = run["course"]
        gaps = [gap if gap and gap > 0 else np.nan for gap in course["gap"]]
        draw_line(panel, list(enumerate(gaps)), colour, mark)
        if "allowed" in course:
            rate = draw_line(panel, list(enumerate(course["allowed"])), colour, "", "--")
            rate.set_linewidth(1.2)
            draw_line(panel, list(enumerate(course["allowed_short"])), "#bbbbbb", "", ":")
    if ordered:
        convex = "allowed" in ordered[0]["course"]
        proved = max(run["step_allowed"][0] for run in ordered)
        said = f"no delay; proved for γ up to {proved:.2g}" if convex else "no rate: not convex"
        titled(panel, "theorem 1", said)
        log_axes(panel, "y")
    panel.set(xlabel="loops", ylabel="objective above its minimum")


def _over_trials(runs: Sequence[Record]) -> tuple[Curve, list[float]]:
    """Mean errors by share in per cent, and their deviations."""
    shares = sorted({run["share"] for run in runs})
    values = [[error(run) for run in runs if run["share"] == share] for share in shares]
    curve = [(100 * s, float(np.mean(own))) for s, own in zip(shares, values, strict=True)]
    return curve, [float(np.std(own, ddof=1)) if len(own) > 1 else 0.0 for own in values]


def _titled(panel: Axes, run: Record) -> None:
    titled(panel, with_paper_name(run, _TITLE), _rows(run))


def _rows(run: Record) -> str:
    return about(run, f"{thousands(run['rows'])} training rows")


def _sizes(run: Record) -> str:
    features = run.get("n_features")
    return f"{thousands(run['rows'])} rows" + (f", {features} features" if features else "")
