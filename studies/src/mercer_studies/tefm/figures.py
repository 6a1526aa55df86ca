"""The figures of the TEFM paper, drawn from records of our runs alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from mercer.plots.base import dress
from mercer_studies.lines import draw_bars, draw_line, legend_key
from mercer_studies.panels import grid, hide_empty, legend, log_axis, size_axis, thousands, titled
from mercer_studies.queries import Record, by_data, data_kind, error, over_seeds, select

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["STYLE", "figure1", "figure2", "figure3", "table1", "timings"]

STYLE: dict[str, tuple[str, str, Any]] = {
    "rks": ("#0072B2", "o", "-"),
    "quasi": ("#56B4E9", "s", "-"),
    "comp": ("#999999", "v", "-"),
    "fastfood": ("#CC79A7", "^", "-"),
    "tefm-g": ("#D55E00", "D", "-"),
    "tefm-s": ("#E69F00", "P", "-"),
    "tefm-g0": ("#D55E00", "X", ":"),
    "orthogonal": ("#0072B2", "h", ":"),
    "nystroem": ("#009E73", "p", ":"),
    "rpcholesky": ("#000000", "*", ":"),
}
"""Colour, mark and dashes of each method: dotted is what the paper does not have."""

_COLUMNS = 3
_PHASES = {"features": "features", "solve": "solution"}
_NORMS = {"spectral": "spectral error, %", "frobenius": "Frobenius error, %"}


def figure1(records: Iterable[Record]) -> Figure:
    """Relative error of the kernel matrix against the number of features, in two norms.

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
    >>> run = {"figures": [1], "protocol": "fair", "method": "rks", "size": 50, "rows": 90}
    >>> run |= {"data": {"name": "toy", "n_train": 90, "d": 2}, "label": "RKS", "gamma": 1.0}
    >>> run |= {"score": {"kernel": {"spectral": 0.1, "frobenius": 0.2}}}
    >>> [panel.get_ylabel() for panel in figure1([run]).axes]
    ['spectral error, %', 'Frobenius error, %']
    """
    found = by_data(_runs(records, 1))
    columns = min(_COLUMNS, len(found))
    bands = -(-len(found) // columns)
    figure, axes = grid(2 * bands, columns, heights=(2.7, 2.2), share_x=True)
    for place, everything in enumerate(found.values()):
        row, column = divmod(place, columns)
        own = _within_reach(everything)
        pair = axes[2 * row : 2 * row + 2, column]
        for panel, (norm, label) in zip(pair, _NORMS.items(), strict=True):
            _curves(panel, own, _size, partial(_kernel, norm=norm))
            panel.set_ylabel(label)
            log_axis(panel.yaxis, panel.dataLim.intervaly)
            dress(panel)
        size_axis(pair[1], _ticks(own))
        pair[0].tick_params(labelbottom=False)
        pair[1].set_xlabel("features l")
        about = own[0]["data"]
        said = f"{thousands(own[0]['rows'])} rows, {about['d']} inputs, γ {own[0]['gamma']:.2g}"
        titled(pair[0], about["name"], _with_kind(own[0], said))
    hide_empty(axes, len(found), 2)
    legend(figure, _keys(found))
    return figure


def figure2(records: Iterable[Record]) -> Figure:
    """Relative error of ridge regression on the test part against the number of features.

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
    >>> run = {"figures": [2], "protocol": "fair", "method": "rks", "size": 50, "label": "RKS"}
    >>> run |= {"data": {"name": "toy", "n_train": 90}, "seconds": {"fit": 0.1}}
    >>> run |= {"score": {"test": {"relative_rmse": 0.5}}}
    >>> figure2([run]).axes[0].get_xlabel()
    'features l'
    """
    return _errors(records, 2, _size, "features l")


def figure3(records: Iterable[Record]) -> Figure:
    """The same error against the seconds that features and training take.

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
    >>> run = {"figures": [3], "protocol": "fair", "method": "rks", "size": 50, "label": "RKS"}
    >>> run |= {"data": {"name": "toy", "n_train": 90}, "seconds": {"fit": 0.1}}
    >>> run |= {"score": {"test": {"relative_rmse": 0.5}}}
    >>> figure3([run]).axes[0].get_xlabel()
    'features and training, s'
    """
    return _errors(records, 3, lambda run: run["seconds"]["fit"], "features and training, s")


def table1(records: Iterable[Record]) -> Figure:
    """Seconds of features and of the solution, against what the paper's table counts them in.

    Parameters
    ----------
    records : iterable of mapping

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ValueError
        If no record holds such times.

    Examples
    --------
    >>> run = {"protocol": "timing", "method": "rks", "size": 8, "n_base": 32, "rows": 90}
    >>> run |= {"varied": "ndl", "label": "RKS", "seconds": {"features": 0.1, "solve": 0.2}}
    >>> [panel.get_xlabel() for panel in table1([run]).axes[:3]]
    ['rows n', 'base features d', 'features l']
    """
    found = list(records)
    if not timings(found, "n"):
        raise ValueError("records must hold times of features and solutions; got none.")
    figure, axes = grid(2, 3, width=3.4, heights=(2.5,))
    titles = {"n": "rows n", "d": "base features d", "l": "features l"}
    for column, (varied, label) in enumerate(titles.items()):
        runs = timings(found, varied)
        for panel, phase in zip(axes[:, column], _PHASES, strict=True):
            for method, (colour, mark, dashes) in STYLE.items():
                own = [run for run in runs if run["method"] == method]
                draw_line(
                    panel,
                    [(_varied(run, varied), run["seconds"][phase]) for run in own],
                    colour,
                    mark,
                    dashes,
                )
            panel.set(xlabel=label, ylabel=f"{_PHASES[phase]}, s")
            log_axis(panel.yaxis, panel.dataLim.intervaly)
            size_axis(panel, [_varied(run, varied) for run in runs])
            dress(panel)
    legend(figure, _keys({"": timings(found, "n")}))
    return figure


def timings(records: Iterable[Record], varied: str) -> list[Record]:
    """The runs that vary one number for the sake of their times.

    Parameters
    ----------
    records : iterable of mapping
    varied : {"n", "d", "l"}

    Returns
    -------
    list of mapping

    Examples
    --------
    >>> timings([{"protocol": "timing", "varied": "n"}, {"protocol": "fair"}], "n")
    [{'protocol': 'timing', 'varied': 'n'}]
    """
    return [
        record
        for record in records
        if record.get("protocol") == "timing"
        and "failed" not in record
        and varied in record["varied"]
    ]


# --- small parts -----------------------------------------------------------------------------


def _runs(records: Iterable[Record], number: int) -> list[Record]:
    found = select(records, figure=number, protocol="fair")
    if not found:
        raise ValueError(f"records must hold runs of figure {number}; got none.")
    return found


def _errors(
    records: Iterable[Record], number: int, across: Callable[[Record], float], label: str
) -> Figure:
    found = by_data(_runs(records, number))
    columns = min(_COLUMNS, len(found))
    rows = -(-len(found) // columns)
    figure, axes = grid(rows, columns, width=3.8, heights=(3.2,))
    for panel, own in zip(axes.ravel(), found.values(), strict=False):
        exact = [run for run in own if run["size"] is None]
        _curves(panel, own, across, lambda run: 100 * error(run))
        if exact:
            panel.axhline(
                100 * error(exact[0]), color="black", linestyle="-.", linewidth=1.1, zorder=1
            )
        panel.set(xlabel=label, ylabel="relative error, %")
        if number == 2:
            size_axis(panel, _ticks(own))
        else:
            log_axis(panel.xaxis, panel.dataLim.intervalx)
        log_axis(panel.yaxis, panel.dataLim.intervaly)
        titled(panel, own[0]["data"]["name"], _with_kind(own[0], _rows(own, exact)))
        dress(panel)
    hide_empty(axes, len(found))
    extra = [run for own in found.values() for run in own if run["size"] is None]
    keys = _keys(found)
    if extra:
        keys.append(legend_key("exact kernel", "black", "", linestyle="-."))
    legend(figure, keys)
    return figure


def _curves(
    axes: Axes,
    runs: Sequence[Record],
    across: Callable[[Record], float],
    up: Callable[[Record], float],
) -> None:
    """A curve for each method over its sizes: means over the seeds, and bars of a deviation."""
    for method, (colour, mark, dashes) in STYLE.items():
        own = [run for run in runs if run["method"] == method and run["size"] is not None]
        if not own:
            continue
        xs, ys = over_seeds(own, across), over_seeds(own, up)
        curve = [(xs[size][0], ys[size][0]) for size in xs]
        draw_bars(axes, curve, [ys[size][1] for size in xs], colour)
        draw_line(axes, curve, colour, mark, dashes, ordered=False)


def _size(run: Record) -> float:
    return float(run["size"])


def _kernel(run: Record, norm: str) -> float:
    return 100 * float(run["score"]["kernel"][norm])


def _varied(run: Record, varied: str) -> int:
    return int(run[{"n": "rows", "d": "n_base", "l": "size"}[varied]])


def _within_reach(runs: Sequence[Record]) -> list[Record]:
    """Without the squares: random Fourier features up to four times the others' largest size."""
    most = 4 * max((run["size"] for run in runs if run["method"] != "rks"), default=10**9)
    return [run for run in runs if run["size"] <= most]


def _ticks(runs: Iterable[Record]) -> list[int]:
    """The sizes of most methods, and the largest of all."""
    counts = Counter(
        size
        for _, size in {(run["method"], run["size"]) for run in runs if run["method"] in STYLE}
        if size is not None
    )
    usual = [size for size in counts if counts[size] >= max(counts.values()) / 2]
    return [*usual, max(counts)] if counts else []


def _with_kind(record: Record, said: str) -> str:
    return ", ".join(part for part in (data_kind(record), said) if part)


def _rows(runs: Sequence[Record], exact: Sequence[Record]) -> str:
    """How many of the training rows were fitted."""
    n = runs[0]["data"]["n_train"]
    most = [run.get("rows") or n for run in (runs[0], *exact[:1])]
    said = f"{thousands(n)} training rows"
    if most[0] < n:
        said = f"{thousands(most[0])} of {said}"
    return said if most[-1] == most[0] else f"{said}, exact: {thousands(most[-1])}"


def _keys(found: Mapping[str, Sequence[Record]]) -> list[Any]:
    labels = {run["method"]: run["label"] for own in found.values() for run in own}
    return [
        legend_key(labels[method], colour, mark, linestyle=dashes)
        for method, (colour, mark, dashes) in STYLE.items()
        if method in labels
    ]
