"""The figures of the random binning paper, drawn from records of our runs alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.plots.base import STYLE, dress
from mercer_studies.lines import Curve, draw_bars, draw_line, legend_key
from mercer_studies.panels import (
    about,
    columns,
    filled,
    grid,
    hide_empty,
    legend,
    log_axes,
    log_axis,
    panel_title,
    size_axis,
    thousands,
    titled,
)
from mercer_studies.queries import (
    METHODS,
    Record,
    best,
    best_by_size,
    by_data,
    error,
    exact_kernel,
    gamma_sweep,
    is_regression,
    over_seeds,
    paper_name,
    select,
)
from mercer_studies.theory import binning_bound

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TEST, _TRAIN, _THEIRS = "#D55E00", "#0072B2", "#8c8c8c"
_COLUMNS, _MOST_CURVES = 3, 7
_HIGHEST = 2.0  # of a bound that is drawn; an empty model has 0.5


def figure2(records: Iterable[Record]) -> Figure:
    """The example: which bin each point falls into on every grid, and the kernel this makes.

    ``records``: among them the example; the first one is drawn.
    """
    record = next((r for r in records if r.get("example")), None)
    if record is None:
        raise ValueError("records must hold the example of figure 2; got none.")
    example = record["example"]
    indices = np.asarray(example["indices"], dtype=np.int64)
    n, grids = indices.shape
    gram = np.mean(indices[:, None, :] == indices[None, :, :], axis=2)
    order = _by_likeness(gram)
    figure, axes = grid(1, 2, width=5.0, heights=(3.6,))
    left, right = axes[0]
    rows = np.repeat(np.arange(n), grids)
    left.scatter(indices[order].ravel(), rows, s=3, c=STYLE["binning"][0], linewidths=0)
    for start in np.sort(indices.min(axis=0))[1:]:
        left.axvline(start - 0.5, color="#cccccc", linewidth=0.6, zorder=0)
    left.set(xlabel="bin", ylabel="point", xlim=(-1, example["D"]), ylim=(n, -1))
    left.set_title(
        f"Z: {n} points on {grids} grids, {example['D']} bins, {example['nnz']} ones",
        loc="left",
        fontsize=10.5,
    )
    image = right.imshow(gram[np.ix_(order, order)], cmap="magma", vmin=0, vmax=1)
    right.set(xlabel="point")
    right.set_title("ZZᵀ: share of grids that two points meet on", loc="left", fontsize=10.5)
    figure.colorbar(image, ax=right, shrink=0.85)
    for panel in (left, right):
        panel.tick_params(labelsize=8)
    return figure


def figure3(records: Iterable[Record], reference: Iterable[Record] | None = None) -> Figure:
    """Error and training time against γ at one number of grids, a column for each data set.

    ``reference``: the authors' points in the shape of records; drawn in grey.
    """
    records, theirs = list(records), list(reference or ())
    every = by_data(select(records, protocol="published"))

    def draw(panels: Sequence[Axes], name: str, runs: Sequence[Record]) -> None:
        exact = exact_kernel(every.get(name, []))
        _gamma_panels(panels, gamma_sweep(runs), _theirs(theirs, runs[0], 3), exact)

    found = _published(records, 3)
    figure = columns(found, draw, width=3.5, heights=(2.7, 1.5), most=_COLUMNS, share_x=True)
    handles = [
        legend_key("test error", _TEST, "o"),
        legend_key("training error", _TRAIN, "^", linestyle="--"),
        legend_key("best γ", "black", "s", linestyle="none"),
        legend_key("exact kernel", "black", "", linestyle="-."),
    ]
    legend(figure, handles + _their_key(theirs, found.values(), 3))
    return figure


def figure4(records: Iterable[Record], reference: Iterable[Record] | None = None) -> Figure:
    """Error against the number of grids, a curve for each of up to seven γ, test beside training.

    ``reference``: the authors' points in the shape of records; drawn hollow.
    """
    found = _published(records, 4)
    theirs = list(reference or ())
    across = min(2, len(found))
    blocks = -(-len(found) // across)
    figure, axes = grid(blocks, 2 * across, width=2.9, heights=(2.7,))
    for place, runs in enumerate(found.values()):
        row, column = divmod(place, across)
        pair = axes[row, 2 * column : 2 * column + 2]
        _grid_panels(pair, runs, _theirs(theirs, runs[0], 4))
    hide_empty(axes.reshape(blocks * across, 2).T, len(found), 2)
    if _their_key(theirs, found.values(), 4):
        ours = legend_key("ours, a colour for each γ", "#444444", "o")
        legend(figure, [ours, legend_key("the authors', same γ", "#444444", "o", hollow=True)])
    return figure


def figure5(
    records: Iterable[Record],
    reference: Iterable[Record] | None = None,
    *,
    protocol: str = "published",
) -> Figure:
    """Random binning beside its rivals, a row for each data set: error, time and memory.

    ``reference``: the authors' points in the shape of records; drawn hollow, and only for
    ``published``; ``protocol``: "published" or "fair", ``published``: the test error picks γ of
    random binning at each size, as in the paper. ``fair``: settings were chosen on a validation
    part; bars show the deviation over seeds.
    """
    runs = select(records, figure=5, protocol=protocol)
    if not runs:
        raise ValueError(f"records must hold {protocol} runs of figure 5; got none.")
    found = by_data(runs)
    theirs = list(reference or ()) if protocol == "published" else []
    figure, axes = grid(len(found), 4, width=3.0, heights=(2.55,))
    for row, own in zip(axes, found.values(), strict=True):
        _rival_panels(row, own, _theirs(theirs, own[0], 5))
    there = {run["method"] for run in runs}
    handles = [
        legend_key(METHODS[name], *STYLE[name], linestyle="-." if name == "exact" else "-")
        for name in METHODS
        if name in there
    ]
    legend(figure, handles + _their_key(theirs, found.values(), 5))
    return figure


def theorem_runs(records: Iterable[Record]) -> list[Record]:
    """The runs beside the bound of theorem 1.

    >>> theorem_runs([{"protocol": "theorem", "failed": "no memory."}])
    []
    """
    return [run for run in records if run.get("protocol") == "theorem" and not run.get("failed")]


def theorem1(records: Iterable[Record]) -> Figure:
    """The l1 objective as grids are drawn, and what theorem 1 allows its mean.

    >>> run = {"protocol": "theorem", "data": {"name": "toy"}, "rows": 90, "gamma": 1.0}
    >>> run |= {"start": 0.5, "kappa": 2.0, "exact": {"objective": 0.2, "norm": 1.0}}
    >>> run["course"] = {"grids": [1, 2], "objectives": [[0.4, 0.3]]}
    >>> [panel.get_xlabel() for panel in theorem1([run]).axes]
    ['grids R']
    """
    found = filled(theorem_runs(records), "theorem 1")
    figure = columns(found, _beside_theorem, width=3.5, heights=(2.7,), most=_COLUMNS)
    handles = [
        legend_key("mean over trials", _TEST, "o"),
        legend_key("exact kernel", "black", "", linestyle="--"),
        legend_key("theorem 1", "#777777", "", linestyle=":"),
    ]
    legend(figure, handles)
    return figure


# --- the panels of one data set --------------------------------------------------------------


def _gamma_panels(
    panels: Sequence[Axes], runs: list[Record], theirs: list[Record], exact: Record | None
) -> None:
    upper, lower = panels
    size = runs[0]["size"]
    other = [run for run in theirs if run["size"] == size and run["method"] == "binning"]
    for part, colour, mark, dashes in (("test", _TEST, "o", "-"), ("train", _TRAIN, "^", "--")):
        draw_line(upper, _over("gamma", other, part), _THEIRS, mark, dashes, hollow=True)
        draw_line(upper, _over("gamma", runs, part), colour, mark, dashes)
    top = best(runs)
    if exact is not None:
        upper.axhline(100 * error(exact), color="black", linestyle="-.", linewidth=1.1)
    upper.plot(top["gamma"], 100 * error(top), "s", color="black", markersize=8, zorder=5)
    upper.set_ylabel(f"{_what(runs[0])}, %")
    upper.set_ylim(bottom=0)
    upper.tick_params(labelbottom=False)
    draw_line(
        lower, [(run["gamma"], run["seconds"]["fit"]) for run in other], _THEIRS, "o", hollow=True
    )
    draw_line(lower, [(run["gamma"], run["seconds"]["fit"]) for run in runs], _TEST, "o")
    lower.plot(top["gamma"], top["seconds"]["fit"], "s", color="black", markersize=8, zorder=5)
    log_axis(upper.xaxis, [run["gamma"] for run in [*runs, *other]])
    log_axis(lower.yaxis, [run["seconds"]["fit"] for run in [*runs, *other]])
    lower.set(xlabel=f"γ ({size} grids)", ylabel="training, s")
    panel_title(upper, runs[0], exact)


def _beside_theorem(panels: Sequence[Axes], name: str, runs: Sequence[Record]) -> None:
    """One γ: every trial, their mean, the kernel machine and the bound."""
    [panel], run = panels, runs[0]
    grids, objectives = run["course"]["grids"], run["course"]["objectives"]
    for trial in objectives:
        draw_line(panel, list(zip(grids, trial, strict=True)), _TEST, "").set_alpha(0.35)
    mean = np.mean(objectives, axis=0)
    draw_line(panel, list(zip(grids, mean.tolist(), strict=True)), _TEST, "o")
    level, norm = run["exact"]["objective"], run["exact"]["norm"]
    panel.axhline(level, color="black", linestyle="--", linewidth=1.1, zorder=1.8)
    allowed = level + binning_bound(grids, run["start"] - level, norm, run["kappa"])
    bound = [point for point in zip(grids, allowed.tolist(), strict=True) if point[1] <= _HIGHEST]
    draw_line(panel, bound, "#777777", "", ":")
    log_axes(panel, "y")
    size_axis(panel, [size for size in grids if size & (size - 1) == 0])
    panel.set(xlabel="grids R", ylabel="λ‖w‖₁ + loss")
    said = f"{thousands(run['rows'])} rows, γ {run['gamma']:.3g}, κ̂ {run['kappa']:.3g}"
    titled(panel, name, about(run, said))


def _grid_panels(pair: Iterable[Axes], runs: list[Record], theirs: list[Record]) -> None:
    from matplotlib import colormaps

    pair = list(pair)
    gammas = sorted({run["gamma"] for run in runs})
    if len(gammas) > _MOST_CURVES:
        gammas = [gammas[i] for i in np.linspace(0, len(gammas) - 1, _MOST_CURVES).astype(int)]
    tints = colormaps["viridis"](np.linspace(0.0, 0.88, len(gammas)))
    lines = []
    for axes, part in zip(pair, ("test", "train"), strict=True):
        # A training part without a wrong row has no place on a logarithmic axis: half a row has.
        least = 50.0 / runs[0]["data"]["n_train"]
        drawn: list[float] = []
        for gamma, tint in zip(gammas, tints, strict=True):
            for source, hollow in ((theirs, True), (runs, False)):
                own = [run for run in source if np.isclose(run["gamma"] or 0.0, gamma, rtol=0.02)]
                curve = [
                    (x, max(y, least))
                    for x, y in _over("size", own, part)
                    if x in {run["size"] for run in runs}
                ]
                line = draw_line(axes, curve, tint, "o", ":" if hollow else "-", hollow=hollow)
                drawn += [y for _, y in curve]
            if part == "test":
                lines.append(line)
        log_axis(axes.yaxis, drawn)
        size_axis(axes, [run["size"] for run in runs])
        axes.set(xlabel="grids R", ylabel=f"{_PARTS[part]}, %")
        dress(axes)
    panel_title(pair[0], runs[0], spills=True)
    pair[1].legend(
        lines,
        [f"{gamma:g}" for gamma in gammas],
        title="γ",
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
        frameon=False,
        fontsize=8,
        title_fontsize=8,
        handlelength=1.4,
    )


def _rival_panels(row: Sequence[Axes], runs: list[Record], theirs: list[Record]) -> None:
    axes: list[tuple[Callable[[Record], float], Callable[[Record], float]]] = [
        (_size, _wrong),
        (_size, _seconds),
        (_seconds, _wrong),
        (_stored, _wrong),
    ]
    labels = ("components R", "training time, s", "numbers stored per row")
    names = ((0, None), (0, 1), (1, None), (2, None))
    what = _what(runs[0])
    for panel, (x, y), (across, up) in zip(row, axes, names, strict=True):
        for source, hollow in ((theirs, True), (runs, False)):
            for method, (colour, mark) in STYLE.items():
                own = [run for run in source if run["method"] == method]
                _rival_curve(panel, own, x, y, colour, mark, hollow)
        if x is _size:
            size_axis(panel, [run["size"] for run in [*theirs, *runs] if run["size"]])
            _level(panel, runs, y)
        else:
            log_axes(panel, "x")
        log_axes(panel, "y")
        panel.set(xlabel=labels[across], ylabel=f"{what}, %" if up is None else labels[up])
        dress(panel)
    panel_title(row[0], runs[0], exact_kernel(runs), spills=True)


def _rival_curve(
    axes: Axes,
    runs: list[Record],
    x: Callable[[Record], float],
    y: Callable[[Record], float],
    colour: str,
    mark: str,
    hollow: bool,
) -> None:
    """One method's curve; the exact kernel, which has no size, is a point."""
    if not runs or (x is _size and runs[0]["size"] is None):
        return
    if runs[0]["protocol"] == "fair":
        xs, ys = over_seeds(runs, x), over_seeds(runs, y)
        curve = [(xs[size][0], ys[size][0]) for size in xs]
        draw_bars(axes, curve, [ys[size][1] for size in xs], colour)
    elif (exact := exact_kernel(runs)) is not None:
        curve = [(x(exact), y(exact))]
    else:
        curve = [(x(run), y(run)) for run in best_by_size(runs).values()]
    if x is _seconds:  # along the sizes, whatever the clock says
        draw_line(axes, curve, colour, mark, hollow=hollow, ordered=False)
    else:
        draw_line(axes, curve, colour, mark, hollow=hollow)


def _level(axes: Axes, runs: list[Record], y: Callable[[Record], float]) -> None:
    """The exact kernel has no size: a line across."""
    exact = exact_kernel(runs)
    if exact is not None:
        own = [y(run) for run in runs if run["method"] == "exact"]
        # As published the runs differ in γ and the best counts; on equal terms they differ in seed.
        level = float(np.mean(own)) if exact["protocol"] == "fair" else y(exact)
        axes.axhline(level, color="black", linestyle="-.", linewidth=1.1, zorder=1.8)


_PARTS = {"test": "test error", "train": "training error"}


def _published(records: Iterable[Record], number: int) -> dict[str, list[Record]]:
    """Runs of random binning as published, by data set."""
    runs = select(records, figure=number, protocol="published", method="binning")
    return filled(runs, f"figure {number}")


def _their_key(reference: list[Record], found: Iterable[list[Record]], number: int) -> list[Any]:
    """A key for the authors' points, where some are drawn."""
    drawn = any(_theirs(reference, runs[0], number) for runs in found)
    return [legend_key("the authors'", _THEIRS, "o", hollow=True)] if drawn else []


def _theirs(reference: list[Record], ours: Record, number: int) -> list[Record]:
    """The authors' points for the same data; those of a stand-in would mislead."""
    if ours["data"].get("kind") in ("stand-in", "generated"):
        return []
    name = paper_name(ours)
    return [run for run in reference if paper_name(run) == name and number in run["figures"]]


def _over(key: str, runs: Iterable[Record], part: str) -> Curve:
    return [(run[key], 100 * error(run, part)) for run in runs]


def _what(record: Record) -> str:
    return "relative error" if is_regression(record) else "error"


def _size(record: Record) -> float:
    return float(record["size"])


def _seconds(record: Record) -> float:
    return float(record["seconds"]["fit"])


def _stored(record: Record) -> float:
    return float(record["stored_per_row"])


def _wrong(record: Record) -> float:
    return 100 * error(record)


def _by_likeness(gram: np.ndarray) -> np.ndarray:
    """An order in which points that meet often stand together: along an eigenvector of ZZᵀ."""
    centred = gram - gram.mean(axis=0) - gram.mean(axis=1)[:, None] + gram.mean()
    return np.argsort(np.linalg.eigh(centred)[1][:, -1], kind="stable")
