"""Treatments of a column of labels: indicators, codes, counts, or features of its words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.random import Slot, Streams
from mercer.preparation.labels import Counts, Labels, OneHot, TargetCodes, target_columns
from mercer.preparation.texts import Texts, has_words, is_prose

__all__ = ["SampledLabels", "fitted_part"]

_FOLDS = 5  # of the rows, whose codes are computed without their own targets


@dataclass(frozen=True)
class SampledLabels(Labels):
    """Labels of some rows of a table, beside those of all rows, which codes are learned from.

    Attributes
    ----------
    rows : ndarray of int64
        Which rows these are.
    whole : Labels
        Of all rows, of which ``y``, ``weights`` and ``groups`` are.
    made : list
        What comes to be of all rows.
    """

    rows: NDArray[np.int64]
    whole: Labels
    y: Any
    weights: NDArray | None
    groups: NDArray | None
    made: list[NDArray] = field(default_factory=list)


def fitted_part(
    labels: Labels,
    y: Any,
    weights: NDArray | None,
    groups: NDArray | None,
    max_labels: int,
    target: str,
    key: int,
) -> tuple[Any, NDArray]:
    """The part of a preparer that treats a column of labels, and what it makes of its rows.

    ``y``, ``weights`` and ``groups`` of the rows may be None; ``target`` says what y holds, as a
    setting of ``TablePreparer``; rows of a group are in the same fold.
    """
    if isinstance(labels, SampledLabels) and not is_prose(labels.whole):
        beside = labels.y, labels.weights, labels.groups
        part, made = fitted_part(labels.whole, *beside, max_labels, target, key)
        labels.made.append(made)
        return part, made[labels.rows]
    if len(np.unique(labels.codes)) <= max_labels + 1:
        part = OneHot().fit(labels)
        if len(part.texts) <= max_labels:
            return part, part.transform(labels)
    prose = is_prose(labels)
    if y is None:
        if prose and has_words(labels):
            texts = Texts()
            return texts, texts.fit_transform(labels, None, [], None, key)
        counts = Counts().fit(labels)
        return counts, counts.transform(labels)
    targets, outputs = target_columns(y, target)
    places = np.arange(len(targets)) if groups is None else groups
    fold = Streams(key, places).uniform(1, Slot.PART)[:, 0]
    folds = np.floor(_FOLDS * fold).astype(np.int64)
    if prose:
        texts = Texts()
        columns = texts.fit_transform(labels, targets, outputs, folds, key, weights)
        if columns.shape[1]:
            return texts, columns
    codes = TargetCodes()
    return codes, codes.fit_transform(labels, targets, outputs, folds, weights)
