"""The tables and the figure of the sparse random features paper, drawn from records alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.plots.base import dress
from mercer_studies.lines import Curve, draw_line, legend_key
from mercer_studies.panels import grid, hide_empty, legend, log_axis, thousands, titled
from mercer_studies.queries import Record, by_data, data_kind, error, paper_name, select

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["bound", "chosen", "figure1", "level", "rms", "shown", "table"]

_KERNELS = {"gaussian": "#0072B2", "laplacian": "#009E73", "perceptron": "#D55E00"}
_FAMILIES = {"kernel": ("Kernel", "s"), "rf": ("RF", "o"), "sparse": ("Sparse-RF", "*")}
_SEARCHES = {
    "sparse-perceptron": ("Sparse-RF", "#0072B2", "o"),
    "boosting-perceptron": ("Boosting", "#D55E00", "s"),
}
_MARKS = 14  # of a curve at most
_HIGHEST = 4.0  # of a bound that is drawn; an empty model has 1


def bound(objective: float, norm: float, drawn: float, *, beta: float = 2.0) -> float:
    """What the paper's theorem allows the expected objective after so many draws.

    ``λ‖w*‖ + loss(w*) + 2 γ ‖w*‖² / (D - c)`` with γ = β B² for features of at most B in size and
    c = 2 (F(0) - F(w*)) / (γ ‖w*‖²); infinite for D <= c.

    Parameters
    ----------
    objective : float
        λ‖w*‖ + loss(w*) of the exact kernel machine w*; F(0) is 1, as of the squared hinge.
    norm : float
        ‖w*‖, > 0.
    drawn : float
        D.
    beta : float, default=2.0
        Largest curvature of the loss; B is 1, as of perceptrons.

    Examples
    --------
    >>> bound(0.25, 1.0, drawn=4.75)
    1.25
    """
    gamma = beta * norm**2
    left = drawn - 2.0 * max(1.0 - objective, 0.0) / gamma
    return objective + 2.0 * gamma / left if left > 0 else float("inf")


def chosen(runs: Iterable[Record], kernel: str) -> dict[str, Record]:
    """The runs of a kernel that stand in a table, by family.

    Of Sparse-RF it is the λ whose error is nearest to that of RF, as in the paper; among equals the
    largest.

    Parameters
    ----------
    runs : iterable of mapping
        Of one data set.
    kernel : str

    Examples
    --------
    >>> def run(family, lam_n, accuracy):
    ...     found = {"family": family, "kernel": "gaussian", "lam_n": lam_n}
    ...     return {**found, "score": {"test": {"accuracy": accuracy}}}
    >>> runs = [run("rf", 1, 0.9), run("sparse", 10, 0.91), run("sparse", 1, 0.95)]
    >>> chosen(runs, "gaussian")["sparse"]["lam_n"]
    10
    """
    own = [run for run in runs if run["kernel"] == kernel]
    found = {run["family"]: run for run in own if run["family"] != "sparse"}
    paths = [run for run in own if run["family"] == "sparse"]
    if paths:
        aim = error(found["rf"]) if "rf" in found else min(map(error, paths))
        found["sparse"] = min(
            paths, key=lambda run: (abs(error(run) - aim), -(run.get("lam_n") or 0))
        )
    return found


def rms(run: Record) -> float:
    """The root mean square error on responses between 0 and 1, or the share of wrong classes.

    The paper's RMSE comes nearest to it; where it is not known the relative error stands for it.

    Parameters
    ----------
    run : mapping

    Examples
    --------
    >>> rms({"score": {"test": {"relative_rmse": 0.5, "rmse": 0.25}}})
    0.25
    """
    return float(run["score"]["test"].get("rmse", error(run)))


def shown(records: Iterable[Record], number: int) -> list[Record]:
    """The runs that stand in a table.

    Parameters
    ----------
    records : iterable of mapping
    number : int
        Of the table.

    Examples
    --------
    >>> shown([], 1)
    []
    """
    return [
        run
        for runs in by_data(_of_table(records, number)).values()
        for kernel in _KERNELS
        for run in chosen(runs, kernel).values()
    ]


def table(
    records: Iterable[Record], number: int, reference: Iterable[Record] | None = None
) -> Figure:
    """A table as a figure: error and prediction time of every model against its size.

    Parameters
    ----------
    records : iterable of mapping
    number : {1, 2}
        Of the table.
    reference : iterable of mapping, optional
        The authors' cells, drawn hollow; a stand-in for their data has none.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ValueError
        If no record belongs to this table.

    Examples
    --------
    >>> run = {"figures": ["Table 1"], "protocol": "published", "family": "rf", "model_size": 9}
    >>> run |= {"method": "rf-gaussian", "kernel": "gaussian", "seconds": {"predict": 0.1}}
    >>> run |= {"data": {"name": "toy", "n_train": 90, "d": 2}, "rows": 90, "test_rows": 9}
    >>> run |= {"score": {"test": {"relative_rmse": 0.5}}}
    >>> table([run], 1).axes[0].get_ylabel()
    'RMS error, % of the range'
    """
    found = by_data(_of_table(records, number))
    if not found:
        raise ValueError(f"records must hold runs of Table {number}; got none.")
    theirs = _of_table(reference or (), number)
    figure, axes = grid(2, len(found), width=3.8, heights=(2.9, 2.3), share_x=True)
    label = "RMS error, % of the range" if number == 1 else "wrong classes, %"
    for pair, runs in zip(axes.T, found.values(), strict=True):
        others = _of_same_data(theirs, runs[0])
        for kernel, colour in _KERNELS.items():
            _models(pair, runs, others, kernel, colour)
        pair[0].set_ylabel(label)
        pair[1].set(xlabel="size of the model", ylabel="prediction, s")
        for panel in pair:
            for axis, span in (
                (panel.xaxis, panel.dataLim.intervalx),
                (panel.yaxis, panel.dataLim.intervaly),
            ):
                log_axis(axis, span)
            dress(panel)
        pair[0].tick_params(labelbottom=False)
        titled(pair[0], runs[0]["data"]["name"], _about(runs[0]))
    keys = [legend_key(kernel, colour, "") for kernel, colour in _KERNELS.items()]
    keys += [legend_key(name, "#555555", mark, linestyle="") for name, mark in _FAMILIES.values()]
    if any(_of_same_data(theirs, runs[0]) for runs in found.values()):
        keys.append(legend_key("the paper's", "#555555", "o", linestyle="", hollow=True))
    legend(figure, keys)
    return figure


def figure1(records: Iterable[Record]) -> Figure:
    """Objective and test error of Sparse-RF and of boosting as they draw features.

    Parameters
    ----------
    records : iterable of mapping

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ValueError
        If no record belongs to this figure.

    Examples
    --------
    >>> run = {"figures": [1], "protocol": "published", "method": "sparse-perceptron", "rows": 9}
    >>> run |= {"data": {"name": "toy", "n_train": 90}, "score": {"test": {"accuracy": 0.5}}}
    >>> run["course"] = {"drawn": [0, 5], "seconds": [0.0, 0.1], "objective": [1.0, 0.5]}
    >>> run["course"]["error"] = [0.5, 0.25]
    >>> [panel.get_xlabel() for panel in figure1([run]).axes]
    ['features drawn', 'features drawn', 'seconds']
    """
    found = by_data(select(records, figure=1))
    if not found:
        raise ValueError("records must hold runs of figure 1; got none.")
    figure, axes = grid(3, len(found), width=3.8, heights=(2.6, 2.3, 2.3))
    for panels, runs in zip(axes.T, found.values(), strict=True):
        for panel, across, up, label in (
            (panels[0], "drawn", "objective", "objective"),
            (panels[1], "drawn", "error", "wrong classes, %"),
            (panels[2], "seconds", "objective", "objective"),
        ):
            _courses(panel, runs, across, up)
            panel.set(xlabel="features drawn" if across == "drawn" else "seconds", ylabel=label)
            for axis, span in (
                (panel.xaxis, panel.dataLim.intervalx),
                (panel.yaxis, panel.dataLim.intervaly),
            ):
                log_axis(axis, span)
            dress(panel)
        titled(panels[0], runs[0]["data"]["name"], _about(runs[0]))
    hide_empty(axes, len(found), 3)
    keys = [legend_key(label, colour, mark) for label, colour, mark in _SEARCHES.values()]
    if any(level(runs) for runs in found.values()):
        keys.append(legend_key("exact kernel", "black", "", linestyle="--"))
    if any(_allowed(runs) for runs in found.values()):
        keys.append(legend_key("bound (22)", "#777777", "", linestyle=":"))
    legend(figure, keys)
    return figure


def level(runs: Iterable[Record]) -> Record | None:
    """The run of the exact kernel machine that the figure's dashed lines stand for.

    Examples
    --------
    >>> level([{"method": "sparse-perceptron"}]) is None
    True
    """
    return next((run for run in runs if run["method"] == "kernel-perceptron"), None)


# --- small parts -----------------------------------------------------------------------------


def _of_table(records: Iterable[Record], number: int) -> list[Record]:
    return select(records, figure=f"Table {number}")


def _of_same_data(theirs: Sequence[Record], ours: Record) -> list[Record]:
    """The authors' cells for the same data; those of a stand-in would mislead."""
    if ours["data"].get("kind") in ("stand-in", "generated"):
        return []
    return [point for point in theirs if paper_name(point) == paper_name(ours)]


def _models(
    pair: Sequence[Axes],
    runs: Sequence[Record],
    theirs: Sequence[Record],
    kernel: str,
    colour: str,
) -> None:
    """The models of one kernel: Sparse-RF as a curve over λ, with a star at the one chosen."""
    reads = (lambda run: 100 * rms(run), lambda run: run["seconds"].get("predict") or np.nan)
    paths = [run for run in runs if run["family"] == "sparse" and run["kernel"] == kernel]
    for panel, read in zip(pair, reads, strict=True):
        curve = [(run["model_size"], read(run)) for run in paths if run["model_size"]]
        draw_line(panel, curve, colour, ".", "-").set_markersize(9)
        for family, run in chosen(runs, kernel).items():
            if run["model_size"]:
                draw_line(panel, [(run["model_size"], read(run))], colour, _FAMILIES[family][1], "")
        for family, run in chosen(theirs, kernel).items():
            mark = _FAMILIES[family][1]
            point = (run.get("model_size", np.nan), read(run))
            if panel is pair[0]:  # their machine's seconds are no measure of ours
                draw_line(panel, [point], colour, mark, "", hollow=True)


def _courses(panel: Axes, runs: Sequence[Record], across: str, up: str) -> None:
    """The searches of one data set, the kernel's level and the bound."""
    factor = 100 if up == "error" else 1
    for method, (_, colour, mark) in _SEARCHES.items():
        for run in (run for run in runs if run["method"] == method):
            course = run["course"]
            curve = [
                (x, factor * y)
                for x, y in zip(course[across], course[up], strict=True)
                if x > 0 and y > 0
            ]
            line = draw_line(panel, curve, colour, mark)
            line.set_markevery(max(1, len(curve) // _MARKS))
    exact = level(runs)
    if exact is None:
        return
    height = exact["objective"] if up == "objective" else 100 * error(exact)
    panel.axhline(height, color="black", linestyle="--", linewidth=1.1, zorder=1)
    if across == "drawn" and up == "objective":
        draw_line(panel, _allowed(runs), "#777777", "", ":")


def _allowed(runs: Sequence[Record]) -> Curve:
    """What the bound allows after every draw, as far as that is of the size of the objectives."""
    exact = level(runs)
    if exact is None:
        return []
    searches = [run["course"] for run in runs if run["method"] == "sparse-perceptron"]
    drawn = [count for course in searches for count in course["drawn"]]
    allowed = [(count, bound(exact["objective"], exact["norm"], count)) for count in drawn]
    return [(count, value) for count, value in allowed if value <= _HIGHEST]


def _about(run: Mapping[str, Any]) -> str:
    said = f"{thousands(run['rows'])} of {thousands(run['data']['n_train'])} training rows"
    return ", ".join(part for part in (data_kind(run), said) if part)
