"""Calibration by held-out rows: bounds of scores that a given share of new rows keeps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.validation import real_number
from mercer.auto.targets import evened

__all__ = ["Conformal"]


@dataclass(frozen=True)
class Conformal:
    """Split-conformal bounds: a score that a given share of new rows does not exceed.

    Vovk, Gammerman and Shafer, Algorithmic learning in a random world, 2005.
    """

    scores: NDArray  # (m, ...) of held-out rows, sorted along the first axis

    @classmethod
    def of(cls, scores: NDArray, weights: NDArray | None = None) -> Conformal:
        """From scores in any order; weighted scores are resampled to their effective number."""
        return cls(np.sort(evened(scores, weights), axis=0))

    def bound(self, coverage: float) -> NDArray:
        """The least bound kept with probability ``coverage``; infinite for too few rows."""
        if not 0 < real_number(coverage, "coverage") < 1:
            raise ValueError(f"coverage must be above 0 and below 1; got {coverage!r}.")
        place = int(np.ceil(coverage * (len(self.scores) + 1) - 1e-9))
        if place > len(self.scores):
            return np.full(self.scores.shape[1:], np.inf)
        return self.scores[place - 1]
