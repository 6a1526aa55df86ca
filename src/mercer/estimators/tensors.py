"""Predictions for rows that are on a device, which they do not leave."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from mercer._array import row_chunks
from mercer._device_array import DeviceArray, on_host, placed, zeros
from mercer.designs.tensors import design_of

__all__ = ["device_responses", "labels_of"]

_NUMBERS = 2**26  # of rows that are scaled together


def device_responses(model: Any, X: DeviceArray) -> Any:
    """``z(x)ᵀw + b`` of a fitted model for every row, on the device of X.

    Where the features are made on the processor, or something is wrong with X, the rows go there.
    """
    model._check_fitted()
    scaler, weights = model.scaler_, model.map_coef_.T
    sound = X.ndim == 2 and X.shape[1] == model.n_features_in_ and X.dtype.kind == "f"
    sound = sound and X.dtype.itemsize >= 4 and len(X) > 0 and bool(np.isfinite(X).all())
    if not sound or not (scaler is None or isinstance(scaler, StandardScaler)):
        return model._responses(on_host(X))
    feature_map, weights, _ = model._predictor(weights)
    dtype = X.dtype if weights.dtype == np.float32 else np.dtype(np.float64)
    there = placed(np.ascontiguousarray(weights), X.device)
    out = zeros((len(X), *weights.shape[1:]), X.dtype, X)
    n_missing = 0
    for rows in row_chunks(len(X), X.shape[1], _NUMBERS):
        design = design_of(feature_map, _scaled(scaler, X[rows]), dtype)
        if design is None:
            return model._responses(on_host(X))
        out[rows] = design.matvec(there) + model._intercept_
        n_missing += design.n_missing
    feature_map.warn_missing(n_missing, len(X))
    return out


def labels_of(classes: NDArray, places: Any) -> Any:
    """The labels at some places: on the device of these if they are numbers."""
    if isinstance(places, DeviceArray) and classes.dtype.kind in "biuf":
        return placed(classes, places.device)[places]
    return classes[on_host(places)]


def _scaled(scaler: StandardScaler | None, X: DeviceArray) -> DeviceArray:
    if scaler is None:
        return X
    scaled: DeviceArray = X - scaler.mean_.astype(X.dtype, copy=False)
    scaled /= scaler.scale_.astype(X.dtype, copy=False)
    return scaled
