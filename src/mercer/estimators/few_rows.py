"""Responses to few rows, by a model that has not changed since it was checked.

A row takes a model a few microseconds; to look at settings, devices, memory and state takes ten
times as long. What these looks find is kept with the state that they saw, and one look at that
state stands for all of them.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.arrays import chunk_bytes
from mercer._runtime.config import nothing_is_set
from mercer._runtime.validation import is_plain
from mercer.maps import FeatureMap

__all__ = ["responses_of_few"]


def responses_of_few(model: Any, X: Any) -> NDArray | None:
    """``model._responses(X)``, bit for bit, of few plain rows by a model that was checked.

    None where there is more to look at: then whoever asks looks.
    """
    if type(X) is not np.ndarray or not nothing_is_set():
        return None
    seen = model._seen()
    if seen is None or not is_plain(X, model):
        return None
    known = seen.made.get(X.dtype.char)
    if known is None:
        known = seen.made[X.dtype.char] = FewRows(model, X.dtype)
    responses: NDArray | None = known.responses(X)
    return responses


class FewRows:
    """Arrays by which a fitted model predicts few rows of one type, without the model.

    Arrays are kept as they are, so that whoever writes into one is heeded.
    """

    def __init__(self, model: Any, dtype: np.dtype):
        weights = model.map_coef_.T
        feature_map, exact_weights, _ = model._predictor(weights)
        self._map: FeatureMap = model.feature_map_
        self._dtype, self._intercept = dtype, model._intercept_
        # Weights so large that they cancel want features, and so rows, in float64.
        self._wide = dtype if exact_weights.dtype == np.float32 else np.dtype(np.float64)
        self._scaled = model._preprocessing.scaled_few
        self._most_rows = 0.0  # all take the long way
        on_processor = getattr(model, "device", None) in (None, "cpu")
        # What is folded is made of arrays that may be written into.
        if on_processor and not self._map.takes_text and feature_map is self._map:
            self._most_rows = chunk_bytes() / max(1.0, self._map.bytes_per_row(dtype))
            self._product = self._map._product_of_few(self._wide, weights)

    def responses(self, X: NDArray) -> NDArray | None:
        """Responses (n,) or (n, k) to rows; None where these are too many, or too large."""
        if len(X) > self._most_rows:
            return None
        scaled = self._scaled(X).astype(self._wide, copy=False)
        if not isfinite(np.vdot(scaled, scaled)):
            return None
        product, n_missing = self._product(scaled)
        self._map.warn_missing(n_missing, len(X))
        return (product + self._intercept).astype(self._dtype, copy=False)
