"""The figures of the TEFM paper, drawn from records of our runs alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from mercer.plots.base import dress
from mercer_studies.lines import Look, draw_bars, draw_line, legend_key, legend_keys
from mercer_studies.panels import (
    about,
    columns,
    filled,
    grid,
    legend,
    log_axes,
    size_axis,
    thousands,
    titled,
)
from mercer_studies.queries import Record, error, over_seeds, select
from mercer_studies.tefm.grid import METHODS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOOKS = {
    name: Look(METHODS[name].label, *look)
    for name, *look in (
        ("rks", "#0072B2", "o"),
        ("quasi", "#56B4E9", "s"),
        ("comp", "#999999", "v"),
        ("fastfood", "#CC79A7", "^"),
        ("tefm-g", "#D55E00", "D"),
        ("tefm-s", "#E69F00", "P"),
        ("tefm-g0", "#D55E00", "X", ":"),
        ("orthogonal", "#0072B2", "h", ":"),
        ("nystroem", "#009E73", "p", ":"),
        ("rpcholesky", "#000000", "*", ":"),
    )
}
"""Looks of the methods: dotted is what the paper does not have."""

_COLUMNS = 3
_PHASES = {"features": "features", "solve": "solution"}
_PROVED = ("rks", "tefm-g", "tefm-s")
_NORMS = {"spectral": "spectral error, %", "frobenius": "Frobenius error, %"}


def figure1(records: Iterable[Record]) -> Figure:
    """Relative error of the kernel matrix against the number of features, in two norms."""
    runs = select(records, figure=1, protocol="fair")
    figure = columns(
        filled(runs, "figure 1"), _norms, width=3.5, heights=(2.7, 2.2), most=_COLUMNS, share_x=True
    )
    legend(figure, legend_keys(LOOKS, runs))
    return figure


def theorems(records: Iterable[Record]) -> Figure:
    """Kernel errors and excess losses as measured, dotted what theorems 1 to 3 allow."""
    runs = bounded_runs(records)
    figure = columns(
        filled(runs, "the theorems"),
        _beside_theorems,
        width=3.5,
        heights=(2.7, 2.7),
        most=_COLUMNS,
        share_x=True,
    )
    legend(figure, [*legend_keys(LOOKS, runs), legend_key("allowed", "#555555", "", linestyle=":")])
    return figure


def bounded_runs(records: Iterable[Record]) -> list[Record]:
    """The runs of figure 1 whose methods have a theorem.

    >>> bounded_runs([{"figures": [1]}])
    []
    """
    runs = select(records, figure=1, protocol="fair")
    return [
        run
        for run in runs
        if run["method"] in _PROVED and (run.get("theory") or {}).get("spectral")
    ]


def figure2(records: Iterable[Record]) -> Figure:
    """Relative error of ridge regression on the test part against the number of features."""
    return _errors(records, 2, _size, "features l")


def figure3(records: Iterable[Record]) -> Figure:
    """Error of :func:`figure2` against the seconds that features and training take."""
    return _errors(records, 3, lambda run: run["seconds"]["fit"], "features and training, s")


def table1(records: Iterable[Record]) -> Figure:
    """Seconds of features and of the solution, against what the paper's table counts them in."""
    found = list(records)
    if not timings(found, "n"):
        raise ValueError("records must hold times of features and solutions; got none.")
    figure, axes = grid(2, 3, width=3.4, heights=(2.5,))
    titles = {"n": "rows n", "d": "base features d", "l": "features l"}
    for column, (varied, label) in enumerate(titles.items()):
        runs = timings(found, varied)
        for panel, phase in zip(axes[:, column], _PHASES, strict=True):
            for method, look in LOOKS.items():
                own = [run for run in runs if run["method"] == method]
                look.draw(panel, [(_varied(run, varied), run["seconds"][phase]) for run in own])
            panel.set(xlabel=label, ylabel=f"{_PHASES[phase]}, s")
            log_axes(panel, "y")
            size_axis(panel, [_varied(run, varied) for run in runs])
            dress(panel)
    legend(figure, legend_keys(LOOKS, timings(found, "n")))
    return figure


def timings(records: Iterable[Record], varied: str) -> list[Record]:
    """The runs that vary one number for the sake of their times.

    ``varied``: "n", "d" or "l".

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


def _norms(panels: Sequence[Axes], name: str, everything: Sequence[Record]) -> None:
    """The two norms, one below the other."""
    own = _within_reach(everything)
    for panel, (norm, label) in zip(panels, _NORMS.items(), strict=True):
        _curves(panel, own, _size, partial(_kernel, norm=norm))
        panel.set_ylabel(label)
        log_axes(panel, "y")
    upper, lower = panels
    size_axis(lower, _ticks(own))
    upper.tick_params(labelbottom=False)
    lower.set_xlabel("features l")
    rows, data = own[0]["rows"], own[0]["data"]
    said = f"{thousands(rows)} rows, {data['d']} inputs, γ {own[0]['gamma']:.2g}"
    titled(upper, name, about(own[0], said))


def _beside_theorems(panels: Sequence[Axes], name: str, runs: Sequence[Record]) -> None:
    """The spectral norm above, the regularized loss below."""
    upper, lower = panels
    reads = (
        (upper, partial(_kernel, norm="spectral"), "spectral"),
        (lower, partial(_allowed, key="excess"), "allowed_excess"),
    )
    own = _within_reach(runs)
    for panel, measured, key in reads:
        _curves(panel, own, _size, measured)
        for method, look in LOOKS.items():
            mine = over_seeds(
                [run for run in own if run["method"] == method], partial(_allowed, key=key)
            )
            curve = [(float(size or 0), mean) for size, (mean, _, _) in mine.items()]
            draw_line(panel, curve, look.colour, "", ":")
        log_axes(panel, "y")
    upper.set_ylabel("spectral error, %")
    upper.tick_params(labelbottom=False)
    lower.set(xlabel="features l", ylabel="excess loss, %")
    size_axis(lower, _ticks(own))
    titled(upper, name, about(own[0], f"{thousands(own[0]['rows'])} rows"))


def _allowed(run: Record, key: str) -> float:
    return 100 * float(run["theory"][key])


def _errors(
    records: Iterable[Record], number: int, across: Callable[[Record], float], label: str
) -> Figure:
    runs = select(records, figure=number, protocol="fair")

    def draw(panels: Sequence[Axes], name: str, own: Sequence[Record]) -> None:
        [panel] = panels
        exact = [run for run in own if run["size"] is None]
        _curves(panel, own, across, lambda run: 100 * error(run))
        if exact:
            level = 100 * error(exact[0])
            panel.axhline(level, color="black", linestyle="-.", linewidth=1.1, zorder=1.8)
        panel.set(xlabel=label, ylabel="relative error, %")
        if number == 2:
            size_axis(panel, _ticks(own))
        log_axes(panel, "y" if number == 2 else "xy")
        titled(panel, name, about(own[0], _rows(own, exact)))

    found = filled(runs, f"figure {number}")
    figure = columns(found, draw, width=3.8, heights=(3.2,), most=_COLUMNS)
    keys = legend_keys(LOOKS, runs)
    if any(run["size"] is None for run in runs):
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
    for method, look in LOOKS.items():
        own = [run for run in runs if run["method"] == method and run["size"] is not None]
        if not own:
            continue
        xs, ys = over_seeds(own, across), over_seeds(own, up)
        curve = [(xs[size][0], ys[size][0]) for size in xs]
        draw_bars(axes, curve, [ys[size][1] for size in xs], look.colour)
        look.draw(axes, curve, ordered=False)


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
        for _, size in {(run["method"], run["size"]) for run in runs if run["method"] in LOOKS}
        if size is not None
    )
    usual = [size for size in counts if counts[size] >= max(counts.values()) / 2]
    return [*usual, max(counts)] if counts else []


def _rows(runs: Sequence[Record], exact: Sequence[Record]) -> str:
    """Number of training rows that were fitted."""
    n = runs[0]["data"]["n_train"]
    most = [run.get("rows") or n for run in (runs[0], *exact[:1])]
    said = f"{thousands(n)} training rows"
    if most[0] < n:
        said = f"{thousands(most[0])} of {said}"
    return said if most[-1] == most[0] else f"{said}, exact: {thousands(most[-1])}"
