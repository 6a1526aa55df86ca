"""Predictions for rows that are on a device, which they do not leave."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from mercer._runtime.arrays import row_chunks
from mercer._runtime.device_arrays import DeviceArray, on_host, placed, zeros
from mercer.designs.tensors import example_of

__all__ = ["device_responses", "labels_of"]

_NUMBERS = 2**26  # of rows that are scaled and binned together


def device_responses(model: Any, X: DeviceArray) -> Any:
    """``z(x)ᵀw + b`` on the device of X; bad rows, or no features there: on the processor."""
    model._check_fitted()
    if not _is_sound(model, X):
        return model._responses(on_host(X))
    feature_map, weights, _ = model._predictor(model.map_coef_.T)
    dtype = X.dtype if weights.dtype == np.float32 else np.dtype(np.float64)
    example = example_of(feature_map, X, dtype)
    if example is None:
        return model._responses(on_host(X))
    there = placed(np.ascontiguousarray(weights), X.device)
    out = zeros((len(X), *weights.shape[1:]), model._response_type(X.dtype), X)
    width = X.shape[1] + getattr(example, "n_grids", 0)
    n_missing = 0
    for rows in row_chunks(len(X), width, _NUMBERS):
        scaled = _scaled(model.scaler_, X[rows])
        if not np.isfinite(scaled).all():
            return model._responses(on_host(X))
        design = example.with_rows(scaled.astype(dtype, copy=False).tensor)
        out[rows] = design.matvec(there).astype(out.dtype, copy=False) + model._intercept_
        n_missing += design.n_missing
    feature_map.warn_missing(n_missing, len(X))
    return out


def _is_sound(model: Any, X: DeviceArray) -> bool:
    """Whether X may be rows for a model whose scaler works on a device."""
    is_table = X.ndim == 2 and X.shape[1] == getattr(model, "n_features_in_", None) and len(X) > 0
    is_of_floats = X.dtype in (np.float32, np.float64)
    return is_table and is_of_floats and isinstance(model.scaler_, StandardScaler | None)


def labels_of(classes: NDArray, places: Any) -> Any:
    """The labels at some places: on the device of these if they are numbers that it can index."""
    is_wide_unsigned = classes.dtype.kind == "u" and classes.dtype.itemsize > 1
    if isinstance(places, DeviceArray) and classes.dtype.kind in "biuf" and not is_wide_unsigned:
        return placed(classes, places.device)[places]
    return classes[on_host(places)]


def _scaled(scaler: StandardScaler | None, X: DeviceArray) -> DeviceArray:
    if scaler is None:
        return X
    scaled: DeviceArray = X - scaler.mean_.astype(X.dtype, copy=False)
    scaled /= scaler.scale_.astype(X.dtype, copy=False)
    return scaled
