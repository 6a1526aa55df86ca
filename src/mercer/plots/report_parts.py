"""Parts of a report that are counted or drawn from predictions."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import (
    ConfusionMatrixDisplay,
    PredictionErrorDisplay,
    confusion_matrix,
    roc_curve,
)

from mercer.plots.base import AIDS, BLUE, dress, label_of, thousands

__all__ = [
    "confusions",
    "draw_confusions",
    "draw_errors",
    "draw_learning_curve",
    "draw_residuals",
    "draw_roc",
    "n_bytes",
]

_NUMBERED_CLASSES = 8  # up to which confusions have numbers
_CONFUSIONS = 8  # that are listed
_LETTERS = 54  # of all names of classes that have room beside each other
_POINTS = {"alpha": 0.4, "s": 9, "color": "#2f8fd0", "rasterized": True, "linewidths": 0}


def n_bytes(model: Any) -> int:
    """Size of a model in memory, arrays counted but not copied."""
    arrays: list[pickle.PickleBuffer] = []
    rest = pickle.dumps(model, protocol=5, buffer_callback=arrays.append)
    return len(rest) + sum(each.raw().nbytes for each in arrays)


def confusions(y: Any, predicted: Any, labels: NDArray) -> list[list[Any]]:
    """The pairs of classes that are confused most often, with counts and shares."""
    counts = confusion_matrix(y, predicted, labels=labels)
    totals = counts.sum(axis=1)
    np.fill_diagonal(counts, 0)
    order = np.argsort(-counts, axis=None, kind="stable")[:_CONFUSIONS]
    pairs = zip(*np.unravel_index(order, counts.shape), strict=True)
    return [
        [str(labels[i]), str(labels[j]), int(counts[i, j]), float(counts[i, j] / totals[i])]
        for i, j in pairs
        if counts[i, j]
    ]


def draw_confusions(axes: Any, y: Any, predicted: Any, labels: NDArray) -> None:
    """Shares of the rows of every true class, by predicted class."""
    names = [label_of(label, 14) for label in labels]
    long = max(map(len, names)) * len(names) > _LETTERS
    counts = confusion_matrix(y, predicted, labels=labels)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    ConfusionMatrixDisplay(shares, display_labels=names).plot(
        include_values=len(labels) <= _NUMBERED_CLASSES,
        values_format=".2f",
        cmap="Blues",
        colorbar=False,
        xticks_rotation="vertical" if long else "horizontal",
        im_kw={"vmin": 0, "vmax": 1},
        text_kw={"fontsize": 8},
        ax=axes,
    )
    dress(axes)
    axes.grid(visible=False)
    axes.set(xlabel="predicted", ylabel="true")
    for label in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        label.set_parse_math(False)
        label.set_fontsize(8 if len(labels) <= 16 else 6)


def draw_errors(axes: Any, y: NDArray, predicted: NDArray) -> None:
    """True targets against predictions, at most 2000 of them."""
    _draw_predictions(axes, y, predicted, "actual_vs_predicted", "true")


def draw_residuals(axes: Any, y: NDArray, predicted: NDArray) -> None:
    """Errors of predictions against predictions, at most 2000 of them."""
    _draw_predictions(axes, y, predicted, "residual_vs_predicted", "true − predicted")


def draw_roc(axes: Any, y: Any, probabilities: NDArray, label: Any) -> None:
    """ROC curve of the probabilities of one class of two."""
    others, found, _ = roc_curve(np.asarray(y) == label, probabilities)
    axes.plot([0, 1], [0, 1], color=AIDS, linewidth=1, linestyle="--")
    axes.plot(others, found, color=BLUE, linewidth=2, zorder=3)
    name = label_of(label, 14)
    axes.set_xlabel(f"others taken for {name}", parse_math=False)
    axes.set_ylabel(f"share of {name} found", parse_math=False)
    axes.set_aspect("equal")
    dress(axes)


def _draw_predictions(axes: Any, y: NDArray, predicted: NDArray, kind: str, name: str) -> None:
    from matplotlib.ticker import MaxNLocator, ScalarFormatter

    how: dict[str, Any] = {"kind": kind, "subsample": 2000, "random_state": 0}
    PredictionErrorDisplay.from_predictions(y, predicted, ax=axes, scatter_kwargs=_POINTS, **how)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(5))
        axis.set_major_formatter(ScalarFormatter())
    axes.set(xlabel="predicted", ylabel=name)
    dress(axes)


def draw_learning_curve(
    axes: Any, sizes: NDArray, errors: list[float], is_classifier: bool
) -> None:
    """Errors against the numbers of rows."""
    axes.plot(sizes, errors, marker="o", markersize=5, linewidth=2, color=BLUE, zorder=3)
    axes.set_xscale("log")
    axes.set_xticks(sizes, [thousands(int(size)) for size in sizes])
    axes.minorticks_off()
    axes.set_xlabel("rows fitted to")
    axes.set_ylabel("share of wrong classes" if is_classifier else "error, in units of the spread")
    axes.set_ylim(0, 1.1 * max(errors) or 1.0)
    dress(axes)
