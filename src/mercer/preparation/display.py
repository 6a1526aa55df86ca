"""What became of the columns of a table, beside the diagram of an estimator."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any, ClassVar

from numpy.typing import NDArray

__all__ = ["TellsColumns", "left_out"]

_TOLD = 5  # columns left out that a warning names

_ROWS = 100  # columns that are shown
_LETTERS = 120  # of the names of what a column became


class TellsColumns:
    """A fitted estimator whose ``columns_`` stand below its diagram in notebooks."""

    _fitted_by: ClassVar[str]

    @property
    def columns_(self) -> dict[str, NDArray]:
        """Columns of a table, of equal lengths, by their headings."""
        raise NotImplementedError

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
