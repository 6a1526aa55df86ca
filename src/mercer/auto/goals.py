"""Targets as a ridge problem takes them, and how good predictions of them are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.auto.targets import log_shift, smeared
from mercer.estimators.targets import signs, winners

__all__ = ["Classes", "Encoding", "Numbers"]

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


def _encoded(transform: str, target: NDArray, alike: bool) -> Encoding:
    centre = target.mean(axis=0)
    spread = np.ones(target.shape[1]) if alike else target.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    return Encoding(transform, (target - centre) / spread, centre, spread)


class Numbers:
    """Numbers (n, k) to predict: the loss is the mean squared error, in units of the variance."""

    kind = "continuous"

    def __init__(self, y: NDArray):
        self.y = y
        low, middle, high = np.quantile(y, [0.25, 0.5, 0.75], axis=0)
        reach = np.abs(y - middle).max(axis=0)
        heavy = y.shape[1] == 1 and bool((reach > _HEAVY * (high - low)).all())
        # Targets of one sign, such as prices and counts, may vary by factors rather than amounts.
        positive = y.shape[1] == 1 and bool(y.min() >= 0) and y.min() < y.max()
        self.shift = log_shift(y[:, 0]) if heavy or positive else None
        self.variance = np.where(y.var(axis=0) > 0, y.var(axis=0), 1.0)

    def strata(self) -> NDArray | None:
        """Classes of which every part of the rows has its share, if there are any."""
        return None

    def encodings(self, rows: NDArray) -> Iterator[Encoding]:
        """The targets of some rows as they are, and as logarithms where that may help."""
        yield _encoded("identity", self.y[rows], alike=False)
        if self.shift is not None:
            yield _encoded("log", self.shift.forward(self.y[rows]), alike=False)

    def truth(self, rows: NDArray, transform: str) -> NDArray:
        """The responses to these rows that would be right."""
        if transform == "log" and self.shift is not None:
            return self.shift.forward(self.y[rows])
        return self.y[rows]

    def losses(self, responses: NDArray, rows: NDArray, transform: str) -> tuple[NDArray, float]:
        """Squared error of every row in units of the variance, and the root of their mean."""
        if transform == "log" and self.shift is not None:
            residuals = self.truth(rows, transform) - responses
            responses = smeared(self.shift, responses[:, 0], residuals[:, 0])[:, None]
        squares = np.mean(np.square(self.y[rows] - responses) / self.variance, axis=1)
        return squares, float(np.sqrt(np.mean(squares)))


class Classes:
    """Classes to predict, as places among them, (n,): the loss is the mean squared error of
    responses from -1 to 1."""

    kind = "classes"

    def __init__(self, labels: NDArray, n_classes: int):
        self.labels = labels
        self.n_classes = n_classes
        self.shift: Any = None

    def strata(self) -> NDArray | None:
        """Classes of which every part of the rows has its share, if there are any."""
        return self.labels

    def encodings(self, rows: NDArray) -> Iterator[Encoding]:
        """-1 and 1: in one column for two classes, else in a column for each."""
        yield _encoded("identity", self.truth(rows, "identity"), alike=True)

    def truth(self, rows: NDArray, transform: str) -> NDArray:
        """The responses to these rows that would be right."""
        return signs(self.labels[rows], self.n_classes).reshape(len(rows), -1)

    def losses(self, responses: NDArray, rows: NDArray, transform: str) -> tuple[NDArray, float]:
        """Mean squared error of every row's responses, and the share of wrong classes."""
        squares = np.mean(np.square(self.truth(rows, transform) - responses), axis=1)
        predicted = winners(responses[:, 0] if self.n_classes == 2 else responses)
        return squares, float(np.mean(predicted != self.labels[rows]))
