"""Panels of a study's figures: where they stand, what their axes say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.plots.base import dress, new_figure, thousands
from mercer_studies.lines import AID
from mercer_studies.queries import Record, by_data, data_kind, paper_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation

# Ticks within a decade, for axes of less than so many decades.
_TICKS = (
    (0.35, (1, 1.2, 1.4, 1.6, 1.8, 2, 2.2, 2.5, 2.8, 3, 3.5, 4, 4.5, 5, 5.5, 6, 7, 8, 9)),
    (0.8, (1, 1.5, 2, 3, 5, 7)),
    (2.0, (1, 2, 5)),
)
_EXTRA = 0.55  # inches above the panels, for title and legend
_DIGITS = 24  # digits and gaps that a narrow axis has room for
_KEY = 1.75  # inches that an entry of the legend takes


def grid(
    rows: int,
    columns: int,
    *,
    width: float = 3.5,
    heights: Sequence[float] = (2.5,),
    share_x: bool = False,
) -> tuple[Figure, np.ndarray]:
    """A figure of panels whose rows take these heights in turn.

    ``rows``, ``columns``: panels down and across; ``width``: of a panel, in inches; ``heights``: of
    the panels of a row, in inches, repeated over the rows; ``share_x``: whether the rows of one
    repetition share their horizontal axes. Returns ``axes``: shape (rows, columns).
    """
    tall = [heights[row % len(heights)] for row in range(rows)]
    figure = new_figure(width * columns, sum(tall) + _EXTRA)
    axes = np.empty((rows, columns), dtype=object)
    places = figure.add_gridspec(rows, columns, height_ratios=tall)
    for row in range(rows):
        for column in range(columns):
            first = row - row % len(heights)
            above = axes[first, column] if share_x and row > first else None
            axes[row, column] = figure.add_subplot(places[row, column], sharex=above)
    return figure, axes


def columns(
    found: Mapping[str, Sequence[Record]],
    draw: Callable[[Sequence[Axes], str, Sequence[Record]], None],
    *,
    width: float,
    heights: Sequence[float],
    most: int | None = None,
    share_x: bool = False,
) -> Figure:
    """A figure with a column of panels for each data set, in bands of at most so many columns.

    ``found``: runs by data set, at least one; ``draw``: takes the panels of a column from above,
    the name of the data and the runs; ``width``, ``heights``, one height for each panel of a
    column; ``most``: columns of a band; all in one by default.
    """
    across, step = min(most or len(found), len(found)), len(heights)
    bands = -(-len(found) // across)
    figure, axes = grid(step * bands, across, width=width, heights=heights, share_x=share_x)
    for place, (name, runs) in enumerate(found.items()):
        band, column = divmod(place, across)
        panels = list(axes[step * band : step * (band + 1), column])
        draw(panels, name, runs)
        for panel in panels:
            dress(panel)
    hide_empty(axes, len(found), step)
    return figure


def filled(records: Sequence[Record], named: str) -> dict[str, list[Record]]:
    """Runs by data set.

    >>> filled([], "figure 1")
    Traceback (most recent call last):
    ValueError: records must hold runs of figure 1; got none.
    """
    if not records:
        raise ValueError(f"records must hold runs of {named}; got none.")
    return by_data(records)


def about(run: Record, *said: str) -> str:
    """Line below a title: the data's relation to the paper's, and other remarks."""
    return ", ".join(part for part in (data_kind(run), *said) if part)


def with_paper_name(run: Record, form: str = "{own}, for {paper}") -> str:
    """The name of the data, with that in the paper where it is another."""
    own, theirs = str(run["data"]["name"]), paper_name(run)
    return own if theirs == own else form.format(own=own, paper=theirs)


def panel_title(
    axes: Axes, record: Record, exact: Record | None = None, *, spills: bool = False
) -> None:
    """Name of the data, and below it what they are of the paper's and how many rows train.

    ``record``: a run on the data; ``exact``: the run of the exact kernel; what it left out of the
    training rows is said; ``spills``: whether the text may reach over the panel to the right, which
    has no title.
    """
    data = record["data"]
    fitted = None if exact is None else exact.get("rows")
    fewer = f"exact: {thousands(fitted)}" if fitted and fitted < data["n_train"] else ""
    said = about(record, f"{thousands(data['n_train'])} training rows", fewer)
    titled(axes, data["name"], said).set_in_layout(not spills)


def titled(axes: Axes, title: str, said: str) -> Annotation:
    """A title in bold, and what there is to say about it below in small letters: the latter."""
    axes.set_title(title, fontsize=10.5, fontweight="bold", loc="left", pad=17)
    return axes.annotate(
        said,
        (0, 1),
        xycoords="axes fraction",
        xytext=(0, 4),
        textcoords="offset points",
        fontsize=8,
        color="#555555",
    )


def log_axis(axis: Any, values: Iterable[float]) -> None:
    """A logarithmic axis with plain numbers at 1, 2, 5 where it spans less than two decades."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    known = [value for value in values if np.isfinite(value) and value > 0]
    (axis.axes.set_xscale if axis.axis_name == "x" else axis.axes.set_yscale)("log")
    span = np.log10(max(known) / min(known)) if known else 1.0
    if known and span < 0.1:
        middle = np.sqrt(max(known) * min(known))
        low, high = middle / 1.2, middle * 1.2
        (axis.axes.set_xlim if axis.axis_name == "x" else axis.axes.set_ylim)(low, high)
    subs = next((subs for most, subs in _TICKS if span < most), (1.0,))
    axis.set_major_locator(LogLocator(subs=subs, numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def log_axes(panel: Axes, names: str = "xy") -> None:
    """Logarithmic axes over what is drawn and positive, by :func:`log_axis`."""
    drawn = panel.dataLim
    if "x" in names:
        log_axis(panel.xaxis, (drawn.minposx, drawn.x1))
    if "y" in names:
        log_axis(panel.yaxis, (drawn.minposy, drawn.y1))


def threads_axis(panel: Axes, taus: Sequence[int], text: str) -> None:
    """Numbers of threads across, speed-up upwards from 0, and the line of one for one."""
    if taus:
        panel.plot(taus, taus, **AID)
        panel.set_xticks(taus)
        panel.set_xlim(taus[0] - 0.1, taus[-1] + 0.1)
    panel.set_ylim(bottom=0)
    panel.set(xlabel="threads", ylabel=text)


def size_axis(axes: Axes, sizes: Iterable[int]) -> None:
    """A logarithmic horizontal axis with a tick at each size, or at as many as have room."""
    from matplotlib.ticker import NullLocator

    found = sorted(set(sizes))
    every = -(-sum(len(str(size)) + 1 for size in found) // _DIGITS)
    axes.set_xscale("log")
    axes.set_xticks(found[::every], [str(size) for size in found[::every]])
    axes.xaxis.set_minor_locator(NullLocator())


def legend(figure: Figure, handles: Sequence[Any]) -> None:
    """One legend for all panels, above them, in as many columns as the figure is wide for."""
    columns = max(1, int(figure.get_size_inches()[0] / _KEY))
    figure.legend(
        handles=handles,
        loc="outside upper left",
        ncols=min(columns, max(len(handles), 1)),
        frameon=False,
        fontsize=9,
        handlelength=2.2,
    )


def hide_empty(axes: np.ndarray, used: int, step: int = 1) -> None:
    """Make panels invisible that nothing fills.

    ``axes``: shape (rows, columns), ``step`` rows are one band of panels; ``used``: columns of
    bands that are filled, counted along one band after the other.
    """
    columns = axes.shape[1]
    for place in range(used, axes.shape[0] // step * columns):
        row, column = divmod(place, columns)
        for panel in axes[step * row : step * (row + 1), column]:
            panel.set_visible(False)
