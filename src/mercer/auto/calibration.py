"""Calibration by held-out rows: probabilities of classes, and how far predictions may be off."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mercer._validation import real_number
from mercer._weights import weighted_mean
from mercer.auto.targets import evened

__all__ = ["Conformal", "Probabilities"]

_FLOORS = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3)
_POWERS = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 4.0, 6.0)


@dataclass(frozen=True)
class Probabilities:
    """Probabilities of classes from responses between -1 and 1.

    A squared loss makes r = (1 + response) / 2 an estimate of the probability of a class. It is
    bounded from below, raised to a power and scaled to sum one: p ~ (floor + max(r, 0))**power. The
    likeliest class remains that of the largest response.

    Parameters
    ----------
    floor, power : float
        > 0; chosen for the least mean -log p of the true classes of held-out rows.
    """

    floor: float = 0.01
    power: float = 1.0

    @classmethod
    def fitted(
        cls, responses: NDArray, labels: NDArray, weights: NDArray | None = None
    ) -> Probabilities:
        """The best floor and power for held-out responses (n, k), or (n,) for two classes."""
        trials = [cls(floor, power) for floor in _FLOORS for power in _POWERS]
        rows = np.arange(len(labels))

        def loss(trial: Probabilities) -> float:
            return -float(weighted_mean(np.log(trial(responses)[rows, labels]), weights))

        return min(trials, key=loss)

    def __call__(self, responses: NDArray) -> NDArray[np.float64]:
        """Probabilities of shape (n, k)."""
        if responses.ndim == 1:
            responses = np.column_stack([-responses, responses])
        share = np.maximum(0.5 * (1 + responses.astype(np.float64)), 0)
        raised = (self.floor + share) ** self.power
        return raised / raised.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class Conformal:
    """Split-conformal bounds: a score that a given share of new rows does not exceed.

    Parameters
    ----------
    scores : ndarray of shape (m, ...)
        Of held-out rows, sorted along the first axis.

    References
    ----------
    Vovk, Gammerman and Shafer, Algorithmic learning in a random world, 2005.
    """

    scores: NDArray

    @classmethod
    def of(cls, scores: NDArray, weights: NDArray | None = None) -> Conformal:
        """From scores in any order; of weights, as many scores are kept as these are worth."""
        return cls(np.sort(evened(scores, weights), axis=0))

    def bound(self, coverage: float) -> NDArray:
        """The least bound that new rows keep with a probability of at least ``coverage``.

        Infinite where there are too few held-out rows for that.
        """
        if not 0 < real_number(coverage, "coverage") < 1:
            raise ValueError(f"coverage must be above 0 and below 1; got {coverage!r}.")
        place = int(np.ceil(coverage * (len(self.scores) + 1) - 1e-9))
        if place > len(self.scores):
            return np.full(self.scores.shape[1:], np.inf)
        return self.scores[place - 1]
