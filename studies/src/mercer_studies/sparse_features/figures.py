"""The tables and the figure of the sparse random features paper, drawn from records alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mercer_studies.lines import Curve, Look, draw_line, legend_key, legend_keys
from mercer_studies.panels import about, columns, filled, legend, log_axes, thousands, titled
from mercer_studies.queries import Record, by_data, error, paper_name, select, training_rows
from mercer_studies.theory import draws_bound

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_KERNELS = {"gaussian": "#0072B2", "laplacian": "#009E73", "perceptron": "#D55E00"}
_FAMILIES = {"kernel": ("Kernel", "s"), "rf": ("RF", "o"), "sparse": ("Sparse-RF", "*")}
_SEARCHES = {
    "sparse-perceptron": Look("Sparse-RF", "#0072B2", "o"),
    "boosting-perceptron": Look("Boosting", "#D55E00", "s"),
}
_LIKELY = 0.05  # probability with which the bound of corollary 3 may fail
_MARKS = 14  # of a curve at most
_HIGHEST = 4.0  # of a bound that is drawn; an empty model has 1


def allowed(
    exact: Record, drawn: Sequence[float], failure: float | None = None
) -> NDArray[np.float64]:
    """The objective that the paper's corollaries allow after so many draws.

    ``exact``: the run of the exact kernel machine w*: its objective λ‖w*‖ + loss and its ``norm``.
    F(0) is 1, as of the squared hinge; ``drawn``: numbers of perceptrons; ``failure``: probability
    with which the bound may be exceeded; None bounds the mean over draws.
    """
    objective = exact["objective"]
    return objective + draws_bound(drawn, 1.0 - objective, exact["norm"], failure=failure)


def chosen(runs: Iterable[Record], kernel: str) -> dict[str, Record]:
    """The runs of a kernel that stand in a table, by family.

    Of Sparse-RF it is the λ whose error is nearest to that of RF, as in the paper; among equals the
    largest. ``runs``: of one data set.
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

    >>> rms({"score": {"test": {"relative_rmse": 0.5, "rmse": 0.25}}})
    0.25
    """
    return float(run["score"]["test"].get("rmse", error(run)))


def shown(records: Iterable[Record], number: int) -> list[Record]:
    """The runs that stand in a table.

    ``number``: of the table.
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

    ``number``: {1, 2}, of the table; ``reference``: the authors' cells, drawn hollow; a stand-in
    for their data has none.
    """
    runs = _of_table(records, number)
    theirs = _of_table(reference or (), number)
    label = "RMS error, % of the range" if number == 1 else "wrong classes, %"

    def draw(pair: Sequence[Axes], name: str, runs: Sequence[Record]) -> None:
        others = _of_same_data(theirs, runs[0])
        for kernel, colour in _KERNELS.items():
            _models(pair, runs, others, kernel, colour)
        pair[0].set_ylabel(label)
        pair[1].set(xlabel="size of the model", ylabel="prediction, s")
        for panel in pair:
            log_axes(panel)
        pair[0].tick_params(labelbottom=False)
        titled(pair[0], name, _rows(runs))

    found = filled(runs, f"Table {number}")
    figure = columns(found, draw, width=3.8, heights=(2.9, 2.3), share_x=True)
    keys = [legend_key(kernel, colour, "") for kernel, colour in _KERNELS.items()]
    keys += [legend_key(name, "#555555", mark, linestyle="") for name, mark in _FAMILIES.values()]
    if any(_of_same_data(theirs, runs[0]) for runs in found.values()):
        keys.append(legend_key("the paper's", "#555555", "o", linestyle="", hollow=True))
    legend(figure, keys)
    return figure


def figure1(records: Iterable[Record]) -> Figure:
    """Objective and test error of Sparse-RF and of boosting as they draw features."""
    found = filled(select(records, figure=1), "figure 1")
    figure = columns(found, _searches, width=3.8, heights=(2.6, 2.3, 2.3))
    keys = legend_keys(_SEARCHES, [{"method": name} for name in _SEARCHES])
    if any(level(runs) for runs in found.values()):
        keys.append(legend_key("exact kernel", "black", "", linestyle="--"))
    if any(_within_sight(runs, None) for runs in found.values()):
        keys.append(legend_key("bound (22), on the mean", "#777777", "", linestyle=":"))
    if any(_within_sight(runs, _LIKELY) for runs in found.values()):
        keys.append(legend_key("bound (23), 19 times of 20", "#bbbbbb", "", linestyle=":"))
    legend(figure, keys)
    return figure


def level(runs: Iterable[Record]) -> Record | None:
    """The run of the exact kernel machine that the figure's dashed lines stand for."""
    return next((run for run in runs if run["method"] == "kernel-perceptron"), None)


def _of_table(records: Iterable[Record], number: int) -> list[Record]:
    return select(records, figure=f"Table {number}")


def _of_same_data(theirs: Sequence[Record], ours: Record) -> list[Record]:
    """The authors' cells for the same data; those of a stand-in would mislead."""
    if ours["data"].get("kind") in ("stand-in", "generated"):
        return []
    return [point for point in theirs if paper_name(point) == paper_name(ours)]


def _models(
    pair: Sequence[Axes], runs: Sequence[Record], theirs: Sequence[Record], kernel: str, colour: str
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


def _searches(panels: Sequence[Axes], name: str, runs: Sequence[Record]) -> None:
    """Objective and error by features drawn, and the objective by seconds."""
    for panel, across, up, label in (
        (panels[0], "drawn", "objective", "objective"),
        (panels[1], "drawn", "error", "wrong classes, %"),
        (panels[2], "seconds", "objective", "objective"),
    ):
        _courses(panel, runs, across, up)
        panel.set(xlabel="features drawn" if across == "drawn" else "seconds", ylabel=label)
        log_axes(panel)
    titled(panels[0], name, _rows(runs))


def _courses(panel: Axes, runs: Sequence[Record], across: str, up: str) -> None:
    """The searches of one data set, the kernel's level and the bounds."""
    factor = 100 if up == "error" else 1
    for method, look in _SEARCHES.items():
        for run in (run for run in runs if run["method"] == method):
            course = run["course"]
            curve = [
                (x, factor * y)
                for x, y in zip(course[across], course[up], strict=True)
                if x > 0 and y > 0
            ]
            look.draw(panel, curve).set_markevery(max(1, len(curve) // _MARKS))
    exact = level(runs)
    if exact is None:
        return
    height = exact["objective"] if up == "objective" else 100 * error(exact)
    panel.axhline(height, color="black", linestyle="--", linewidth=1.1, zorder=1.8)
    if across == "drawn" and up == "objective":
        draw_line(panel, _within_sight(runs, None), "#777777", "", ":")
        draw_line(panel, _within_sight(runs, _LIKELY), "#bbbbbb", "", ":")


def _within_sight(runs: Sequence[Record], failure: float | None) -> Curve:
    """Bound after every draw, where it is of the size of the objectives."""
    exact = level(runs)
    if exact is None:
        return []
    searches = [run["course"] for run in runs if run["method"] == "sparse-perceptron"]
    drawn = [count for course in searches for count in course["drawn"]]
    bounds = zip(drawn, allowed(exact, drawn, failure).tolist(), strict=True)
    return [(count, bound) for count, bound in bounds if bound <= _HIGHEST]


def _rows(runs: Sequence[Record]) -> str:
    """Rows that are fitted, and those of the exact kernel if they are fewer."""
    fitted = [run["rows"] for run in runs if run.get("rows")]
    least, most, whole = (thousands(n) for n in (min(fitted), max(fitted), training_rows(runs)))
    few = f"exact: {least}" if least != most else ""
    return about(runs[0], f"{most} of {whole} training rows", few)
