"""Labels that the fit of a preparer has not met."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.preparation.columns import TableColumns
from mercer.preparation.label_parts import Several
from mercer.preparation.labels import Counts, OneHot, TargetCodes
from mercer.preparation.numeric import Values, rare_share, repeating_integers
from mercer.preparation.quantities import Quantities

__all__ = [
    "Unmet",
    "label_codes",
    "places_of_labels",
    "repeating_numbers",
    "unmet_labels",
    "with_labels_unmet",
]

_WHOLE = re.compile(r"([+-]?)0*(\d+)(?:\.0*)?")


@dataclass(frozen=True)
class Unmet:
    """Rows of a table whose label in a column is unknown to the fit."""

    rows: NDArray[np.bool_]  # (n,)
    share: float  # most probable one of such rows by chance, estimated by the fit
    example: str  # one of the labels
    alike: str | None  # label of the fit that the example equals but for its form


def places_of_labels(preparer: Any) -> list[int]:
    """Used columns of labels, and of whole numbers that have a column each.

    Columns of texts and of quantities are not among them: a new text has known words or numbers.
    """
    used = set(np.unique(preparer.origins_).tolist())
    return [place for place, part in preparer.parts_ if place in used and _of_labels(part)]


def repeating_numbers(preparer: Any, columns: TableColumns) -> dict[int, Values]:
    """Whole numbers of used columns that most rows share, by place, if no part knows them.

    They may name something, such as users, though the preparer takes them as quantities.
    """
    used = set(np.unique(preparer.origins_).tolist()) - {place for place, _ in preparer.parts_}
    found = {}
    for place in repeating_integers(columns.places, columns.numbers):
        if place in used:
            column = columns.number(place)
            values, counts = np.unique(column[~np.isnan(column)], return_counts=True)
            found[place] = Values(values.astype(np.float64), rare=rare_share(counts))
    return found


def unmet_labels(
    preparer: Any, columns: TableColumns, places: Collection[int], beside: Mapping[int, Values]
) -> dict[int, Unmet]:
    """Labels of a table that the fit has not met, by the place of their column, of some columns.

    ``beside`` has the values of columns of numbers that no part of the preparer knows.
    """
    parts = [(place, _of_labels(part)) for place, part in preparer.parts_ if place in places]
    found = {}
    for place, part in (*parts, *beside.items()):
        if isinstance(part, Values):
            numbers = columns.number(place)
            rows = ~(np.isnan(numbers) | np.isin(numbers, part.values))
            new = [f"{numbers[np.argmax(rows)]:.17g}"] if rows.any() else []
            known: Collection[str] = [f"{value:.17g}" for value in part.values] if new else []
        else:
            labels, known = columns.labels[place], part.number_of
            is_new = np.array([*(text not in known for text in labels.texts), False])
            new = [text for text in labels.texts if text not in known]
            rows = is_new[labels.codes]
        if rows.any():
            found[place] = Unmet(rows, part.rare, *_example(new, known))
    return found


def with_labels_unmet(preparer: Any, places: Collection[int]) -> Any:
    """Copy of a preparer that takes all labels of some columns as unknown to its fit."""
    other = copy(preparer)
    other.parts_ = [(i, _blank(part) if i in places else part) for i, part in other.parts_]
    return other


def label_codes(columns: TableColumns, place: int) -> NDArray[np.int64]:
    """Number of the label of every row, of a column of labels or whole numbers."""
    if place in columns.labels:
        return columns.labels[place].codes
    return np.unique(columns.number(place), return_inverse=True)[1]


def _of_labels(part: Any) -> Any:
    """The part that knows all labels of the fit; None for texts and quantities."""
    if isinstance(part, Several):
        has_numbers = any(isinstance(inner, Quantities) for inner in part.parts)
        return None if has_numbers else _of_labels(part.parts[0])
    return part if isinstance(part, (OneHot, TargetCodes, Counts, Values)) else None


def _blank(part: Any) -> Any:
    if isinstance(part, Several):
        return Several([_blank(inner) for inner in part.parts])
    if isinstance(part, Values):
        return replace(part, values=np.full_like(part.values, np.inf))
    if isinstance(part, (OneHot, TargetCodes, Counts)):
        return replace(part, texts=[f"\0{text}" for text in part.texts])  # as no table has them
    return part


def _example(new: list[str], known: Collection[str]) -> tuple[str, str | None]:
    """A new label and the known one that it equals but for its form, or the first and None."""
    known_forms = {_form(text): text for text in known}
    for text in new:
        if _form(text) in known_forms:
            return text, known_forms[_form(text)]
    return new[0], None


def _form(text: str) -> str:
    """A label without capitals, blanks around it and zeros that a whole number does without."""
    text = text.strip().casefold()
    whole = _WHOLE.fullmatch(text)
    return text if whole is None else whole[1] + whole[2]
