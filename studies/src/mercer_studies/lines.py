"""Curves of a study's figures, and their entries in the legend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Curve = Sequence[tuple[float, float]]

AID: dict[str, Any] = {"color": "#c4c4c4", "linewidth": 3.5, "solid_capstyle": "butt", "zorder": 1}
"""The look of a broad line that others are measured by."""


class Look(NamedTuple):
    """Style of a method's curves.

    ``label``: in the legend.
    """

    label: str
    colour: str
    mark: str = ""
    dashes: Any = "-"

    def draw(self, axes: Axes, curve: Curve, **options: Any) -> Any:
        """A curve, by :func:`draw_line`."""
        return draw_line(axes, curve, self.colour, self.mark, self.dashes, **options)


def legend_keys(looks: Mapping[str, Look], runs: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Entries of the legend for the methods of some runs, a label once."""
    there = {run["method"] for run in runs}
    labelled: dict[str, Look] = {}
    for method, look in looks.items():
        if method in there:
            labelled.setdefault(look.label, look)
    return [
        legend_key(look.label, look.colour, look.mark, linestyle=look.dashes)
        for look in labelled.values()
    ]


def draw_line(
    axes: Axes,
    curve: Curve,
    colour: Any,
    mark: str,
    dashes: Any = "-",
    *,
    hollow: bool = False,
    ordered: bool = True,
) -> Any:
    """A curve through what is finite.

    ``hollow``: thin, with hollow marks: for the numbers of others; ``ordered``: whether points are
    joined from left to right, instead of as they come.
    """
    points = [point for point in curve if np.all(np.isfinite(point))]
    points = sorted(points) if ordered else points
    xs, ys = zip(*points, strict=True) if points else ((), ())
    look = _hollow(colour) if hollow else _solid(mark)
    (drawn,) = axes.plot(xs, ys, color=colour, marker=mark, linestyle=dashes, **look)
    return drawn


def draw_bars(axes: Axes, curve: Curve, deviations: Sequence[float], colour: Any) -> None:
    """Bars of a deviation up and down, short of zero for the sake of logarithmic axes."""
    xs, ys = zip(*curve, strict=True)
    sizes = [min(size, 0.9 * y) for size, y in zip(deviations, ys, strict=True)]
    axes.errorbar(xs, ys, sizes, fmt="none", ecolor=colour, elinewidth=1.2)


def legend_key(
    label: str, colour: str, mark: str, *, linestyle: Any = "-", hollow: bool = False
) -> Any:
    """An entry of the legend, drawn as :func:`draw_line` draws."""
    from matplotlib.lines import Line2D

    look = _hollow(colour) if hollow else _solid(mark)
    look.pop("zorder")
    return Line2D([], [], color=colour, marker=mark, linestyle=linestyle, label=label, **look)


def _hollow(colour: Any) -> dict[str, Any]:
    return {
        "linewidth": 0.9,
        "markersize": 4.5,
        "markerfacecolor": "white",
        "markeredgecolor": colour,
        "alpha": 0.75,
        "zorder": 2,
    }


def _solid(mark: str) -> dict[str, Any]:
    size = 11 if mark == "*" else 5.5
    edges = {"markeredgecolor": "white", "markeredgewidth": 0.6}
    return {"linewidth": 1.8, "markersize": size, "zorder": 3, **edges}
