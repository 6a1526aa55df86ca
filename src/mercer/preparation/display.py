"""Table of the columns and their treatments, beside the diagram of an estimator."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mercer.preparation.columns import TableColumns

__all__ = ["TellsColumns", "left_out", "reasons", "table_of_columns"]

_NAMED = 24  # columns made of one column that are named
_TOLD = 5  # columns left out that a warning names

_NOTHING = "nothing: "  # before the reason why a column is left out
_ROWS = 100  # columns that are shown
_LETTERS = 120  # of the names of what a column became


class TellsColumns:
    """A fitted estimator whose ``columns_`` stand below its diagram in notebooks."""

    _fitted_by: ClassVar[str]

    @property
    def columns_(self) -> dict[str, NDArray]:
        """Columns of a table, of equal lengths, by their headings."""
        raise NotImplementedError

    def _unused_columns(self) -> list[str]:
        """Names of the input columns that nothing is made of; rows may come without them."""
        columns = self.columns_
        became = zip(columns["column"], columns["became"], strict=True)
        return [str(name) for name, what in became if what.startswith(_NOTHING)]

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += self._columns_html()
        return bundle

    @property
    def _repr_html_(self) -> Callable[[], str]:
        diagram: Callable[[], str] = super()._repr_html_  # type: ignore[misc]
        return lambda: diagram() + self._columns_html()

    def _columns_html(self) -> str:
        """A table that opens with a click; nothing before the fit."""
        if not hasattr(self, self._fitted_by):
            return ""
        columns = self.columns_
        n = len(columns["column"])
        lines = ["<tr>" + "".join(f"<th>{escape(name)}</th>" for name in columns) + "</tr>"]
        for place in range(min(n, _ROWS)):
            cells = (_short(str(values[place])) for values in columns.values())
            lines.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
        if n > _ROWS:
            lines.append(f"<tr><td>and {n - _ROWS} more</td></tr>")
        title = f"{n} columns, and what became of them"
        return f"<details><summary>{title}</summary><table>{''.join(lines)}</table></details>"


def _short(text: str) -> str:
    return text if len(text) <= _LETTERS else text[:_LETTERS] + "…"


def left_out(names: list[str], reasons: list[str]) -> str:
    """A sentence on the columns that have a reason to be left out, "" if there is none."""
    told = [f"{name!r} {why}" for name, why in zip(names, reasons, strict=True) if why]
    more = f" and {len(told) - _TOLD} more" if len(told) > _TOLD else ""
    return f"columns are left out: {'; '.join(told[:_TOLD])}{more}." if told else ""


def table_of_columns(
    names: list[str],
    kinds: list[str],
    formats: list[str],
    left_out: list[str],
    made: NDArray,
    origins: NDArray[np.int64],
) -> dict[str, NDArray]:
    """Input columns by the headings "column", "kind", "format" and "became".

    ``made`` names output columns of ``origins``; ``left_out`` are reasons, or "".
    """
    became = [
        f"{_NOTHING}it {why}" if why else _listed(made[origins == place])
        for place, why in enumerate(left_out)
    ]
    found = {"column": names, "kind": kinds, "format": formats, "became": became}
    return {heading: np.array(values, dtype=object) for heading, values in found.items()}


def _listed(names: NDArray) -> str:
    """Names of columns, the first ones of many."""
    more = len(names) - _NAMED
    return ", ".join(names) if more <= 1 else f"{', '.join(names[:_NAMED])} and {more} more"


def reasons(out: NDArray, columns: TableColumns, origins: NDArray, kept: NDArray) -> list[str]:
    """Reason why each input column is left out of ``out`` (n, m), from ``origins``; or ""."""
    varies = out.min(axis=0) < out.max(axis=0)
    told = []
    for place, _ in enumerate(columns.names):
        own = origins == place
        if kept[own].any():
            told.append("")
        elif varies[own].any():
            first = np.flatnonzero(own & varies)[0]
            same = (k for k in np.flatnonzero(kept) if np.array_equal(out[:, k], out[:, first]))
            twin = next(same, None)
            other = "another column" if twin is None else repr(str(columns.names[origins[twin]]))
            told.append(f"repeats {other}")
        elif place in columns.labels and len(np.unique(columns.labels[place].codes)) > 1:
            told.append("tells every row apart and says nothing of the target")
        else:
            told.append("is empty" if _is_empty(columns, place) else "has one value")
    return told


def _is_empty(columns: TableColumns, place: int) -> bool:
    """True if a column has no cell that holds something."""
    if place in columns.labels:
        return bool((columns.labels[place].codes < 0).all())
    if place in columns.dates:
        return bool(np.isnat(columns.dates[place]).all())
    return bool(np.isnan(columns.numbers[:, columns.places == place]).all())
