"""A page about the Shapley values of some rows."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.explain import ShapleyValues
from mercer.plots.base import thousands
from mercer.plots.page import Section, paragraph, write_html
from mercer.plots.shapley import ShapleyDisplay

__all__ = ["write_explanation"]

_COLUMNS, _ROWS = 4, 4  # columns and rows that have a figure each
_MEANING = (
    "A value is the mean change of the response when the entry of a column becomes known, over all "
    "orders in which the columns may become known; unknown entries are those of training rows. The "
    "values of a row sum to its response minus the mean response. They describe the model, not the "
    "causes of the target."
)


def write_explanation(
    explanation: ShapleyValues, path: str | os.PathLike[str], title: str | None = None
) -> None:
    """Write a page about Shapley values as one HTML file, atomically.

    The page has mean absolute values with intervals, all values, the effects of the most important
    columns, and the way to the responses of the first rows; for every output.

    Parameters
    ----------
    explanation : ShapleyValues
        Values without interactions.
    path : str or path-like
        File to write, usually with the ending ``.html``.
    title : str or None, default=None
        Title of the page.

    Raises
    ------
    ImportError
        If matplotlib is missing.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from mercer import KernelRegressor
    >>> from mercer.explain import shapley_values
    >>> from mercer.plots import write_explanation
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> model = KernelRegressor("exact").fit(X, np.sin(X[:, 1]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_explanation(shapley_values(model, X), f"{folder}/page.html", title="Tides")
    ...     "<h1>Tides</h1>" in pathlib.Path(folder, "page.html").read_text("utf-8")
    True
    """
    outputs = [explanation]
    if explanation.output_names is not None:
        outputs = [explanation.of_output(name) for name in explanation.output_names.tolist()]
    meaning = Section("What the values mean", paragraph(_MEANING))
    if explanation.base_values.ndim > (explanation.output_names is not None):
        meaning.add(
            paragraph("Responses have the offset of their row, added to the mean response.")
        )
    if not explanation.is_exact:
        error = float(explanation.standard_errors.mean())
        meaning.add(paragraph(f"Values are estimates; their mean standard error is {error:.2g}."))
    sections = [meaning, *(section for output in outputs for section in _sections(output))]
    n, d = explanation.values.shape[:2]
    cards = [("rows", thousands(n)), ("columns", thousands(d)), ("unit", explanation.unit)]
    write_html(path, "Explanation" if title is None else title, "Shapley values", cards, sections)


def _sections(explanation: ShapleyValues) -> list[Section]:
    """The sections about one output."""
    display = ShapleyDisplay(explanation)
    n, d = explanation.values.shape
    lines = 1.3 + 0.2 * max(min(d, 15), 3)
    unit = explanation.unit
    whole = Section(f"Which columns move the {unit}")
    effects = Section(f"Effects of single columns on the {unit}")
    rows = Section(f"The {unit} of single rows")
    mean = "Mean absolute values; lines hold the mean over all such rows with 90 % probability"
    whole.draw(_on_axes(display.bar), mean, width=4.8, height=lines)
    whole.draw(_on_axes(display.beeswarm), "A point per row", width=4.8, height=lines)
    for column in display.order[:_COLUMNS].tolist():
        if explanation.values[:, column].any():
            caption = f"Values of {explanation.feature_names[column]} against its entries"
            effects.draw(_on_axes(display.dependence, column), caption, width=4.8, height=3.2)
    for row in np.unique(np.linspace(0, n - 1, _ROWS).astype(int)).tolist():
        draw = _on_axes(display.waterfall, row)
        rows.draw(draw, f"Row {row + 1} of those explained", width=4.8, height=lines)
    return [whole, effects, rows]


def _on_axes(plot: Callable[..., Any], *args: Any) -> Callable[[Any], object]:
    """A method of a display as a function of the axes."""
    return lambda axes: plot(*args, ax=axes)
