"""xRFM (kernel machines that learn which directions matter, in leaves of trees) as an estimator.

Its own defaults on the rows that its guide asks for: inputs standardized, a fifth of the rows kept
to choose the round, and targets standardized too. It takes dense rows of numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from xrfm import xRFM

HELD_OUT = 0.2


class _Peer(BaseEstimator):
    def __init__(self, random_state: int = 0):
        self.random_state = random_state

    def _fit(self, X: Any, target: NDArray, strata: NDArray | None) -> None:
        if hasattr(X, "toarray"):
            raise ValueError("takes no sparse rows.")
        self.inputs_ = StandardScaler().fit(X)
        rows = self.inputs_.transform(X).astype(np.float32)
        fitted, held, y, y_held = train_test_split(
            rows, target, test_size=HELD_OUT, random_state=self.random_state, stratify=strata
        )
        self.model_ = xRFM(verbose=False, random_state=self.random_state)
        self.model_.fit(fitted, y, held, y_held)

    def _predicted(self, X: Any) -> NDArray:
        return np.asarray(self.model_.predict(self.inputs_.transform(X).astype(np.float32)))


class XRFMRegressor(_Peer):
    """Numbers."""

    def fit(self, X: Any, y: NDArray) -> XRFMRegressor:
        self.centre_, self.spread_ = float(np.mean(y)), float(np.std(y)) or 1.0
        self._fit(X, ((y - self.centre_) / self.spread_).astype(np.float32), None)
        return self

    def predict(self, X: Any) -> NDArray:
        return self.centre_ + self.spread_ * self._predicted(X).ravel()


class XRFMClassifier(_Peer):
    """Classes 0, 1, … as the benchmark numbers them."""

    def fit(self, X: Any, y: NDArray) -> XRFMClassifier:
        several = np.bincount(y).min() > 1
        self._fit(X, np.asarray(y, dtype=np.int64), y if several else None)
        return self

    def predict(self, X: Any) -> NDArray:
        return self._predicted(X).ravel().astype(int)
