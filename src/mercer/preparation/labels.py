"""Labels as numbers: a column for each, or what the targets of their rows are on average."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import type_of_target

from mercer._runtime.state import State
from mercer._runtime.validation import weighted_mean
from mercer.preparation.columns import Labels
from mercer.preparation.numeric import frequent_ones, rare_share

__all__ = ["Counts", "OneHot", "TargetCodes", "target_columns"]

_SHRINKAGE = 10.0  # rows that the mean of all counts for in the code of a label


class _KnowsLabels:
    """Part of a preparer that knows the labels of its fit."""

    texts: list[str]

    @property
    def number_of(self) -> dict[str, int]:
        """Place of every label in ``texts``; made once for each list, as 1000 labels take 50 µs."""
        texts, numbers = vars(self).get("_numbers", (None, {}))
        if texts is not self.texts:
            numbers = {text: i for i, text in enumerate(self.texts)}
            self.__dict__["_numbers"] = self.texts, numbers
        return numbers

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name != "_numbers"}


@dataclass
class OneHot(_KnowsLabels):
    """A column of 0 and 1 for each label; two labels need one column.

    Missing cells count as a label where the fit met some. Other missing cells and labels that the
    fit did not meet are unknown: they lie in the middle of the labels, or as far from each label
    as the labels from each other.
    """

    texts: list[str] = field(default_factory=list)
    missing: bool = False
    unknown: float = 0.0  # value of every column where the label is unknown
    rare: float = 1.0  # share of new rows whose label is unknown, at most, by ``rare_share``

    def check_state(self) -> None:
        """Refuse attributes that no fit leaves."""
        _check_texts(self, "texts")
        State(self).number("rare", 0.0)
        State(self).flag("missing")
        State(self).number("unknown")

    def fit(
        self, labels: Labels, is_apart: bool = False, least: int = 1, most: int | None = None
    ) -> OneHot:
        """Learn the labels; ``is_apart`` keeps unknown labels at a distance from all of them.

        Labels of fewer than ``least`` rows, and all but the ``most`` frequent ones, are taken as
        unknown.
        """
        met, counts = np.unique(labels.codes, return_counts=True)
        self.rare = rare_share(counts)
        met = met[frequent_ones(counts, least, most)]
        self.texts = sorted(labels.texts[code] for code in met if code >= 0)
        self.missing = bool(len(met)) and met[0] < 0
        self.unknown = self._apart() if is_apart else 0.5 if len(self.places()) == 1 else 0.0
        return self

    def places(self) -> list[int]:
        """Places of the labels that have a column, as ``transform`` numbers them."""
        n = len(self.texts)
        places = [*range(n), *([n + 1] if self.missing else [])]
        return places[1:] if len(places) == 2 else places

    def apart(self) -> OneHot:
        """Copy in which unknown labels are as far from each label as the labels from each other."""
        return replace(self, unknown=self._apart())

    def _apart(self) -> float:
        m = len(self.places())
        if m < 2:
            return -1.0
        # The vertex of the regular simplex whose other vertices are the unit vectors.
        return (1.0 - (1.0 + m) ** 0.5) / m

    def transform(self, labels: Labels) -> NDArray[np.float64]:
        """(n, m) for the labels of n rows."""
        n, numbers = len(self.texts), labels.numbered(self.number_of)
        if self.missing:
            numbers = np.where(numbers < 0, n + 1, numbers)
        out = (numbers[:, None] == np.array(self.places(), dtype=np.int64)).astype(np.float64)
        out[(numbers < 0) | (numbers == n)] = self.unknown
        return out

    def names(self, name: str) -> list[str]:
        """Names of the columns that the part makes."""
        texts = [*self.texts, *(["missing"] if self.missing else [])]
        return [f"{name}={text}" for text in (texts[1:] if len(texts) == 2 else texts)]


@dataclass
class TargetCodes(_KnowsLabels):
    """The mean target of the rows with a label, drawn towards that of all rows.

    A label of c rows with mean m gets (c m + 10 M) / (c + 10), M the mean of all; labels not met
    and missing ones get M. The rows of the fit get codes that their own targets, and those of a
    fifth of the other rows, have no part in. Codes are in units of their own spread. Rows count by
    their weights, of mean 1.
    """

    texts: list[str] = field(default_factory=list)
    codes: NDArray = field(default_factory=lambda: np.empty((0, 0)))
    unit: NDArray = field(default_factory=lambda: np.empty(0))
    outputs: list[str] = field(default_factory=list)
    rare: float = 1.0  # as of ``OneHot``

    def check_state(self) -> None:
        """Refuse attributes that no fit leaves."""
        state, k = State(self), _check_texts(self, "outputs")
        state.number("rare", 0.0)
        state.array("codes", (_check_texts(self, "texts") + 2, k), "d")
        state.check("unit", "be positive", (state.array("unit", (k,), "d") > 0).all())

    def fit_transform(
        self,
        labels: Labels,
        target: NDArray,
        outputs: list[str],
        fold: NDArray[np.int64],
        weights: NDArray | None = None,  # above 0
    ) -> NDArray[np.float64]:
        """Learn from targets (n, k) and code the rows of the fit, each fold by the others."""
        met, counts = np.unique(labels.codes, return_counts=True)
        self.texts, self.outputs = [labels.texts[code] for code in met if code >= 0], outputs
        self.rare = rare_share(counts)
        places = labels.numbered(self.number_of)
        weights = None if weights is None else weights / weights.mean()
        centre = weighted_mean(target, weights)
        self.codes = _shrunk(places, target - centre, len(self.texts), weights)
        out = np.zeros(target.shape)
        for which in np.unique(fold):
            others = fold != which
            own = None if weights is None else weights[others]
            middle = weighted_mean(target[others], own) if others.any() else centre
            codes = _shrunk(places[others], target[others] - middle, len(self.texts), own)
            out[~others] = codes[places[~others]]
        spread = np.sqrt(np.mean(np.square(out), axis=0))
        self.unit = np.where(spread > 0, spread, 1.0)
        return out / self.unit

    def apart(self) -> TargetCodes:
        """Copy in which unknown labels lie above all codes, by the spread of the codes."""
        known = self.codes[: len(self.texts)]
        if not len(known):
            return self
        beyond = known.max(axis=0) + np.ptp(known, axis=0)
        return replace(self, codes=np.concatenate([known, np.tile(beyond, (2, 1))]))

    def transform(self, labels: Labels) -> NDArray[np.float64]:
        """(n, k) for the labels of n rows."""
        return self.codes[labels.numbered(self.number_of)] / self.unit

    def names(self, name: str) -> list[str]:
        """Names of the columns that the part makes."""
        return [f"{name}:{output}" for output in self.outputs]


def target_columns(y: Any, kind: str) -> tuple[NDArray, list[str]]:
    """Targets as numbers (n, k), and the names of the k codes; "auto" looks at y."""
    y = np.asarray(y)
    kind = type_of_target(y) if kind == "auto" else kind
    if kind.startswith("continuous") or y.ndim == 2:
        target = y.reshape(len(y), -1).astype(np.float64)
        which = np.arange(target.shape[1])
    else:
        which = np.unique(y)
        which = which[1:] if len(which) == 2 else which
        target = (y[:, None] == which).astype(np.float64)
    return target, ["code"] if len(which) == 1 else [f"code {label}" for label in which]


def _check_texts(part: object, name: str) -> int:
    """Raise unless this is a list of texts; return their number."""
    state = State(part)
    texts = state.instance(name, list)
    state.check(name, "hold texts alone", all(isinstance(text, str) for text in texts))
    return len(texts)


def _shrunk(
    places: NDArray, target: NDArray, n_labels: int, weights: NDArray | None
) -> NDArray[np.float64]:
    """Codes of the labels, then of new labels and of missing cells (number -1)."""
    codes = np.zeros((n_labels + 2, target.shape[1]))
    known = (places >= 0) & (places < n_labels)
    own = None if weights is None else weights[known]
    counts = np.bincount(places[known], own, minlength=n_labels)
    target = target if weights is None else target * weights[:, None]
    for j, column in enumerate(target.T):
        sums = np.bincount(places[known], column[known], minlength=n_labels)
        codes[:n_labels, j] = sums / (counts + _SHRINKAGE)
    return codes


@dataclass
class Counts(_KnowsLabels):
    """Logarithm of a label's rows in the fit, without targets; 0 for new labels."""

    texts: list[str] = field(default_factory=list)
    codes: NDArray = field(default_factory=lambda: np.empty(0))
    rare: float = 1.0  # as of ``OneHot``

    def check_state(self) -> None:
        """Refuse attributes that no fit leaves."""
        State(self).number("rare", 0.0)
        State(self).array("codes", (_check_texts(self, "texts") + 2,), "d")

    def fit(self, labels: Labels) -> Counts:
        """Count the labels."""
        met, counts = np.unique(labels.codes, return_counts=True)
        self.texts = [labels.texts[code] for code in met if code >= 0]
        self.rare = rare_share(counts)
        codes = np.log1p(counts[met >= 0])
        centre, spread = (codes.mean(), codes.std()) if len(codes) else (0.0, 0.0)
        unknown = (0.0 - centre) / (spread or 1.0)
        self.codes = np.concatenate([(codes - centre) / (spread or 1.0), [unknown, 0.0]])
        return self

    def transform(self, labels: Labels) -> NDArray[np.float64]:
        """(n, 1) for the labels of n rows."""
        return self.codes[labels.numbered(self.number_of)][:, None]

    def names(self, name: str) -> list[str]:
        """Name of the column that the part makes."""
        return [f"{name}:count"]
