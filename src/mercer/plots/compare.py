"""A comparison as a figure: score against fit time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.plots.base import OTHERS, STYLE, dress, new_figure, thousands

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["compare_figure"]

_ACCURACIES = (0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.985, 0.99)
_MOST_INSIDE = 6  # a legend of more methods has no room among the curves
_PARTS = {"sample": "a sample of", "stand-in": "a stand-in for"}
_TITLES = {"accuracy": "test accuracy", "relative_rmse": "test error ‖y − ŷ‖ / ‖y‖"}


def compare_figure(records: Iterable[Mapping[str, Any]]) -> Figure:
    """Score against fit time, one curve for each method over its sizes.

    Parameters
    ----------
    records : iterable of dict
        Records of one comparison on one data set.

    Raises
    ------
    ValueError
        If ``records`` is empty.
    ImportError
        If matplotlib is missing.

    Examples
    --------
    >>> data = {"name": "toy", "task": "regression", "n_train": 90, "n_test": 30, "d": 2}
    >>> fit = {"method": "linear", "label": "linear", "size": None, "data": data}
    >>> fit |= {"score": {"relative_rmse": 0.5, "r2": 0.75}, "seconds": {"fit": 0.01}}
    >>> figure = compare_figure([fit])
    >>> figure.axes[0].get_ylabel()
    'test error ‖y − ŷ‖ / ‖y‖'
    """
    records = list(records)
    if not records:
        raise ValueError("records must hold at least one fit; got none.")
    metric = next(iter(records[0]["score"]))
    methods = _by_method(records)
    many = len(methods) > _MOST_INSIDE
    figure = new_figure(9.4 if many else 7.2)
    axes = figure.add_subplot()
    others = iter(OTHERS * len(records))
    for method, fits in methods.items():
        colour, marker = STYLE.get(method) or next(others)
        _curve(axes, fits, metric, colour, marker)
    _dress(axes, records[0]["data"], metric)
    looks: dict[str, Any] = {"frameon": False, "title_fontsize": 8.5, "fontsize": 9}
    title = "numbers: components"
    if many:
        figure.legend(title=title, loc="outside right upper", **looks)
    else:
        axes.legend(title=title, **looks)
    return figure


def _by_method(records: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    methods: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        methods.setdefault(record["method"], []).append(record)
    return {name: sorted(fits, key=lambda fit: fit["size"] or 0) for name, fits in methods.items()}


def _curve(
    axes: Any, fits: Sequence[Mapping[str, Any]], metric: str, colour: str, marker: str
) -> None:
    from matplotlib.patheffects import withStroke

    seconds = [fit["seconds"]["fit"] for fit in fits]
    values = [fit["score"][metric] for fit in fits]
    sized = fits[0]["size"] is not None
    size = 12 if marker == "*" else 7
    mark: dict[str, Any] = {"marker": marker, "markersize": size, "clip_on": False}
    mark |= {"markeredgecolor": "white", "markeredgewidth": 0.8, "zorder": 3}
    line = {"color": colour, "linewidth": 2, "linestyle": "-" if sized else "none"}
    axes.plot(seconds, values, label=fits[0]["label"], **mark, **line)
    if sized:
        for fit, x, y in zip(fits, seconds, values, strict=True):
            off = (5, -11) if metric == "accuracy" else (5, 4)  # the curve
            place = {"xytext": off, "textcoords": "offset points", "zorder": 4}
            label = axes.annotate(str(fit["size"]), (x, y), fontsize=8, color=colour, **place)
            label.set_path_effects([withStroke(linewidth=2.5, foreground="white")])


def _dress(axes: Any, data: Mapping[str, Any], metric: str) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda seconds, _: f"{seconds:g}")
    axes.set_xlabel("fit time in seconds, log scale")
    axes.set_ylabel(_TITLES.get(metric, metric))
    if metric == "accuracy":
        _spread_towards_one(axes)
    part = _PARTS.get(data.get("kind", ""), "")
    if part:
        part = f", {part} {data.get('stand_in_for') or 'a larger set'}"
    rows, inputs = map(thousands, (data["n_train"], data["d"]))
    title = f"{data['name']}{part}: {rows} training rows, {inputs} inputs"
    axes.set_title(title, fontsize=11, loc="left")
    dress(axes, small=False)


def _spread_towards_one(axes: Any) -> None:
    """Give accuracies room by their error: 0.98 is as far from 0.99 as 0.8 from 0.9."""
    values = [value for line in axes.lines for value in line.get_ydata()]
    least = min((1 - value for value in values if value < 1), default=0.5) / 2

    def error(value: Any) -> Any:
        return -np.log(np.maximum(1 - np.asarray(value, dtype=float), least))

    axes.set_yscale("function", functions=(error, lambda depth: 1 - np.exp(-np.asarray(depth))))
    low, high = error(min(values)), error(max(values))
    margin = 0.06 * (high - low) or 0.1
    axes.set_ylim(1 - np.exp(-(low - margin)), 1 - np.exp(-(high + margin)))
    bottom, top = axes.get_ylim()
    ticks = [tick for tick in _ACCURACIES if bottom <= tick <= top]
    if len(ticks) > 2:
        axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
