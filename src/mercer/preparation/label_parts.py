"""Treatments of a column of labels: indicators, codes, counts, numbers or features of its words."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from copy import copy
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.random import Slot, Streams
from mercer._runtime.state import State
from mercer.preparation.columns import Labels, TableColumns
from mercer.preparation.labels import Counts, OneHot, TargetCodes, target_columns
from mercer.preparation.numeric import (
    MOST_IDENTITIES,
    Numbers,
    quantile_rows,
    repeating_integers,
    repeats,
)
from mercer.preparation.quantities import Quantities
from mercer.preparation.texts import Texts, has_long_texts, has_words, is_prose

__all__ = [
    "LABELS",
    "LabelTreatment",
    "Once",
    "SampledLabels",
    "Several",
    "each_time",
    "fitted_part",
    "has_identities",
    "label_ways",
    "may_be_identities",
    "with_labels_apart",
]

# Calls a function, or returns what it returned for an equal key.
Once: TypeAlias = Callable[[Hashable, Callable[[], Any]], Any]

LABELS = ("codes", "numbers", "words", "plain")  # treatments

_FOLDS = 5  # of the rows, whose codes are computed without their own targets


def each_time(key: Hashable, make: Callable[[], Any]) -> Any:
    """Call a function: nothing is kept."""
    return make()


@dataclass(frozen=True)
class SampledLabels(Labels):
    """Labels of some rows of a table, beside those of all rows, from which codes are learned."""

    rows: NDArray[np.int64]  # numbers of these rows
    whole: Labels  # of all rows, as y, weights and groups
    y: Any
    weights: NDArray | None
    groups: NDArray | None
    made: list[NDArray] = field(default_factory=list)  # codes of all rows


@dataclass(frozen=True)
class LabelTreatment:
    """Settings of a ``TablePreparer`` for columns of labels."""

    labels: str
    max_labels: int
    target: str
    numbers: str
    indicators: bool
    identities: bool
    key: int


@dataclass
class Several:
    """Columns of several parts side by side."""

    parts: list[Any]

    def check_state(self) -> None:
        """Refuse attributes that no fit leaves."""
        state, kinds = State(self), (OneHot, Counts, TargetCodes, Texts, Quantities)
        parts = state.instance("parts", list)
        state.check("parts", "be parts of labels", all(isinstance(part, kinds) for part in parts))
        for part in parts:
            part.check_state()

    def transform(self, labels: Labels) -> NDArray[np.float64]:
        """(n, m) for the labels of n rows."""
        return np.hstack([part.transform(labels) for part in self.parts])

    def names(self, name: str) -> list[str]:
        """Names of the columns that the parts make."""
        return [made for part in self.parts for made in part.names(name)]


def with_labels_apart(preparer: Any) -> Any:
    """Return a ``TablePreparer`` that sets unknown labels apart from all labels of its fit."""
    other = copy(preparer)
    other.parts_ = [(place, _set_apart(part)) for place, part in getattr(other, "parts_", [])]
    return other


def _set_apart(part: Any) -> Any:
    if isinstance(part, Several):
        return Several([_set_apart(inner) for inner in part.parts])
    return part.apart() if isinstance(part, (OneHot, TargetCodes)) else part


def label_ways(parts: list[Any], is_sample: bool) -> list[str]:
    """Settings of ``labels`` worth trying, the likeliest first, by the parts of "numbers".

    Labels of which hardly two rows of a sample share one are texts to its trials, but may repeat in
    the whole table: "words" then gives the final model the columns of the trials, and so does
    "plain", with a code in place of many columns of words.
    """
    codes = ["codes"] * any(isinstance(part, Several) for part in parts)
    if is_sample and any(isinstance(part, Texts) for part in parts):
        return ["words", "plain", *codes]
    coded = [part for part in parts if isinstance(part, (Counts, TargetCodes))]
    has_words = any(has_long_texts(part.texts) for part in coded)
    return ["numbers", *["words"] * has_words, *codes]


def fitted_part(
    labels: Labels,
    y: Any,
    weights: NDArray | None,
    groups: NDArray | None,
    how: LabelTreatment,
    once: Once = each_time,
) -> tuple[Any, NDArray]:
    """The part that treats a column of labels, and the columns of its rows.

    ``once`` keeps what other treatments of the same labels, targets, weights and key share.
    """
    if isinstance(labels, SampledLabels) and not is_prose(labels.whole):
        beside = labels.y, labels.weights, labels.groups
        part, made = fitted_part(labels.whole, *beside, how)
        labels.made.append(made)
        return part, made[labels.rows]

    def texts() -> tuple[Any, NDArray]:
        return once("texts", lambda: _of_texts(labels, y, weights, groups, how))

    is_plain = how.labels == "plain"
    given = labels, y, weights, groups, how, texts
    found = [once(("labels", is_plain, how.max_labels), lambda: _of_labels(*given))]
    if how.labels != "codes":
        which = "quantities", how.numbers, how.indicators
        quantities = once(which, lambda: _of_quantities(labels, how))
        if quantities is not None:
            found.append(quantities)
    is_coded = isinstance(found[-1][0], (TargetCodes, Counts))
    if how.labels == "words" and is_coded and has_long_texts(labels.texts) and texts()[1].size:
        found.append(texts())
    if how.identities and may_be_identities(labels, how.max_labels):
        found.append(once("identities", lambda: _of_identities(labels)))
    if len(found) == 1:
        return found[0]
    return Several([part for part, _ in found]), np.hstack([columns for _, columns in found])


def has_identities(columns: TableColumns, max_labels: int) -> bool:
    """Whether whole numbers or labels of a table may each name somebody or something."""
    if repeating_integers(columns.places, columns.numbers):
        return True
    return any(may_be_identities(labels, max_labels) for labels in columns.labels.values())


def may_be_identities(labels: Labels, max_labels: int) -> bool:
    """Whether labels are too many for a column each, and most rows share theirs."""
    n_labels = len(np.unique(labels.codes[labels.codes >= 0]))
    return n_labels > max_labels and repeats(labels.codes)


def _of_labels(
    labels: Labels,
    y: Any,
    weights: NDArray | None,
    groups: NDArray | None,
    how: LabelTreatment,
    texts: Callable[[], tuple[Any, NDArray]],
) -> tuple[Any, NDArray]:
    """Indicators of few labels, columns of texts of which hardly two are equal, or else codes."""
    if len(np.unique(labels.codes)) <= how.max_labels + 1:
        part = OneHot().fit(labels, is_apart=y is None)
        if len(part.texts) <= how.max_labels:
            return part, part.transform(labels)
    is_text = how.labels != "plain" and is_prose(labels)
    if is_text and (y is not None or has_words(labels)) and (y is None or texts()[1].size):
        return texts()
    if y is None:
        counts = Counts().fit(labels)
        return counts, counts.transform(labels)
    codes = TargetCodes()
    return codes, codes.fit_transform(labels, *_targets(y, groups, how), weights)


def _of_quantities(labels: Labels, how: LabelTreatment) -> tuple[Any, NDArray] | None:
    """Numbers that are written in texts; None if most hold none."""
    quantities = Quantities(Numbers(how.numbers, how.indicators))
    columns = quantities.fit_transform(labels, quantile_rows(how.key, len(labels.codes)))
    return None if columns is None else (quantities, columns)


def _of_identities(labels: Labels) -> tuple[Any, NDArray]:
    """A column for each label that repeats."""
    same = OneHot().fit(labels, least=2, most=MOST_IDENTITIES)
    return same, same.transform(labels)


def _of_texts(
    labels: Labels, y: Any, weights: NDArray | None, groups: NDArray | None, how: LabelTreatment
) -> tuple[Any, NDArray]:
    """Columns of the words of texts."""
    texts = Texts()
    if y is None:
        return texts, texts.fit_transform(labels, None, [], None, how.key)
    columns = texts.fit_transform(labels, *_targets(y, groups, how), how.key, weights)
    return texts, columns


def _targets(
    y: Any, groups: NDArray | None, how: LabelTreatment
) -> tuple[NDArray, list[str], NDArray[np.int64]]:
    """Targets as numbers (n, k), names of the k columns, and the fold of every row."""
    targets, outputs = target_columns(y, how.target)
    places = np.arange(len(targets)) if groups is None else groups
    fold = Streams(how.key, places).uniform(1, Slot.PART)[:, 0]
    return targets, outputs, np.floor(_FOLDS * fold).astype(np.int64)
