"""Targets as a ridge problem takes them, and how good predictions of them are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.validation import weighted_mean
from mercer.auto.targets import evened, log_shift, smeared
from mercer.estimators.probabilities import SoftMax
from mercer.estimators.targets import signs, winners

__all__ = ["Classes", "Encoding", "Indicators", "Numbers"]

_HEAVY = 8.0  # largest distance from the median, in quartile ranges, of a target without long tails


@dataclass(frozen=True)
class Encoding:
    """Targets of mean 0 and spread 1 for some rows, and the way back."""

    transform: str  # "identity" or "log"
    target: NDArray  # (m, k)
    centre: NDArray  # (k,)
    spread: NDArray  # (k,)

    def responses(self, fitted: NDArray) -> NDArray:
        """Predictions of ``target`` as predictions of the transformed targets."""
        return fitted * self.spread + self.centre


class _Goal:
    """Targets of the rows of a table, their encodings, and the weights of the rows.

    ``weights`` (n,) are positive with mean 1; None weighs all rows alike. Rows of one of the
    ``groups`` (n,) are fitted, or held out, together; None: every row is a group.
    """

    places: NDArray[np.int64]  # (n,) of the rows in the data of ``fit``
    times: NDArray[np.int64] | None = None  # (n,) ranks in time, the last held out; None: any
    offset: NDArray[np.float64] | None = None  # (n,) part of the log odds of two classes

    def __init__(self, weights: NDArray | None, groups: NDArray | None):
        self.weights, self.groups = weights, groups

    @property
    def has_rule(self) -> bool:
        """True if groups or times, not chance alone, decide which rows are held out."""
        return self.groups is not None or self.times is not None

    def has_all_classes(self, rows: NDArray) -> bool:
        """True if every class, if there are any, has one of these rows."""
        return True

    def weights_of(self, rows: NDArray) -> NDArray | None:
        """Weights of some rows."""
        return None if self.weights is None else self.weights[rows]

    def offset_of(self, rows: NDArray) -> NDArray | None:
        """Offsets of some rows."""
        return None if self.offset is None else self.offset[rows]

    def _mean(self, values: NDArray, rows: NDArray) -> NDArray:
        return weighted_mean(values, self.weights_of(rows))

    def _deviation(self, values: NDArray, rows: NDArray) -> NDArray:
        if self.weights is None:
            return values.std(axis=0)
        return np.sqrt(self._mean(np.square(values - self._mean(values, rows)), rows))

    def _counted(self, values: NDArray, rows: NDArray) -> NDArray:
        """Values of some rows, so that their plain mean is the mean by weights."""
        if self.weights is None:
            return values
        weights = self.weights[rows]
        return values * (weights / weights.mean())

    def _encoded(self, transform: str, target: NDArray, rows: NDArray, alike: bool) -> Encoding:
        centre = self._mean(target, rows)
        spread = np.ones(target.shape[1]) if alike else self._deviation(target, rows)
        spread = np.where(spread > 0, spread, 1.0)
        return Encoding(transform, (target - centre) / spread, centre, spread)


class Numbers(_Goal):
    """Numbers (n, k) to predict: the loss is the mean squared error, in units of the variance."""

    kind = "continuous"

    def __init__(self, y: NDArray, weights: NDArray | None = None, groups: NDArray | None = None):
        super().__init__(weights, groups)
        self.y = y
        low, middle, high = np.quantile(y, [0.25, 0.5, 0.75], axis=0)
        reach = np.abs(y - middle).max(axis=0)
        heavy = y.shape[1] == 1 and bool((reach > _HEAVY * (high - low)).all())
        # Targets of one sign, such as prices and counts, may vary by factors rather than amounts.
        positive = y.shape[1] == 1 and bool(y.min() >= 0) and y.min() < y.max()
        self.shift = log_shift(y[:, 0]) if heavy or positive else None
        every = np.arange(len(y))
        variance = y.var(axis=0) if weights is None else np.square(self._deviation(y, every))
        self.variance = np.where(variance > 0, variance, 1.0)

    def strata(self) -> NDArray | None:
        """Labels for stratified splits; None for regression."""
        return None

    def encodings(self, rows: NDArray) -> Iterator[Encoding]:
        """The targets of some rows as they are, and as logarithms where that may help."""
        yield self._encoded("identity", self.y[rows], rows, alike=False)
        if self.shift is not None:
            yield self._encoded("log", self.shift.forward(self.y[rows]), rows, alike=False)

    def truth(self, rows: NDArray, transform: str) -> NDArray:
        """Responses to these rows of a model without error."""
        if transform == "log" and self.shift is not None:
            return self.shift.forward(self.y[rows])
        return self.y[rows]

    def predictions(self, responses: NDArray, rows: NDArray, transform: str) -> NDArray:
        """Targets (m, k) that responses to some rows stand for."""
        if transform != "log" or self.shift is None:
            return responses
        residuals = (self.truth(rows, transform) - responses)[:, 0]
        residuals = evened(residuals, self.weights_of(rows))
        return smeared(self.shift, responses[:, 0], residuals)[:, None]

    def losses(self, responses: NDArray, rows: NDArray, transform: str) -> tuple[NDArray, float]:
        """Squared error of every row in units of the variance, and the root of their mean."""
        predicted = self.predictions(responses, rows, transform)
        squares = np.mean(np.square(self.y[rows] - predicted) / self.variance, axis=1)
        squares = self._counted(squares, rows)
        return squares, float(np.sqrt(np.mean(squares)))

    def score(self, responses: NDArray, rows: NDArray, transform: str) -> float:
        """The coefficient of determination, its mean over targets; NaN for less than two rows."""
        if len(rows) < 2:
            return np.nan
        predicted = self.predictions(responses, rows, transform)
        from sklearn.metrics import r2_score  # which predictions do without

        return float(r2_score(self.y[rows], predicted, sample_weight=self.weights_of(rows)))


class Classes(_Goal):
    """Classes to predict, as places among them, (n,): the loss is the mean squared error of
    responses from -1 to 1."""

    kind = "classes"

    def __init__(
        self,
        labels: NDArray,
        n_classes: int,
        weights: NDArray | None = None,
        groups: NDArray | None = None,
    ):
        super().__init__(weights, groups)
        self.labels = labels
        self.n_classes = n_classes
        self.shift: Any = None

    def strata(self) -> NDArray | None:
        """Labels for stratified splits; None for regression."""
        return self.labels

    def has_all_classes(self, rows: NDArray) -> bool:
        return len(np.unique(self.labels[rows])) == self.n_classes

    def encodings(self, rows: NDArray) -> Iterator[Encoding]:
        """-1 and 1: in a column for two classes or for each label, else for each class."""
        yield self._encoded("identity", self.truth(rows, "identity"), rows, alike=True)

    def truth(self, rows: NDArray, transform: str) -> NDArray:
        """Responses to these rows of a model without error."""
        return signs(self.labels[rows], self.n_classes).reshape(len(rows), -1)

    def indicators(self, rows: NDArray) -> NDArray:
        """Targets of some rows as the loss of log odds takes them: -1 and 1, (m, k), of two
        classes or of labels, else 0 and 1."""
        truth = self.truth(rows, "identity")
        return truth if self.n_classes == 2 else (truth + 1.0) / 2.0

    def losses(self, responses: NDArray, rows: NDArray, transform: str) -> tuple[NDArray, float]:
        """Mean squared error of every row's responses, and the share of wrong classes.

        Of log odds, the responses are what their probabilities are from -1 to 1.
        """
        if transform == "log-odds":
            is_two = self.n_classes == 2
            responses = np.tanh(0.5 * responses) if is_two else 2.0 * SoftMax()(responses) - 1.0
        truth = self.truth(rows, transform)
        squares = self._counted(np.mean(np.square(truth - responses), axis=1), rows)
        return squares, float(np.mean(self._counted(self._is_wrong(responses, truth), rows)))

    def _is_wrong(self, responses: NDArray, truth: NDArray) -> NDArray[np.bool_]:
        """Rows whose class, or one of whose labels, responses miss; both (m, k)."""
        if self.n_classes == 2:
            return ((responses > 0) != (truth > 0)).any(axis=1)
        return winners(responses) != winners(truth)

    def score(self, responses: NDArray, rows: NDArray, transform: str) -> float:
        """The share of right classes; NaN for no rows."""
        return 1.0 - self.losses(responses, rows, transform)[1] if len(rows) else np.nan


class Indicators(Classes):
    """Several labels per row, (n, L) of 0 and 1: the loss is the mean over the labels, and a row is
    right if all its labels are."""

    def __init__(
        self, labels: NDArray, weights: NDArray | None = None, groups: NDArray | None = None
    ):
        super().__init__(labels, 2, weights, groups)  # two classes of each label

    def strata(self) -> NDArray[np.int64]:
        """The rarest label that a row has, so that the few rows of a label are dealt evenly.

        A label of more than half of the rows counts where a row lacks it.
        """
        has = self.labels == (self.labels.mean(axis=0) <= 0.5)
        order = np.argsort(has.sum(axis=0), kind="stable")
        rarest = np.where(has.any(axis=1), has[:, order].argmax(axis=1), len(order))
        return np.unique(rarest, return_inverse=True)[1]

    def has_all_classes(self, rows: NDArray) -> bool:
        """True: a label of one value among the rows has a constant response."""
        return True
