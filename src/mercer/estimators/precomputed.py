"""Kernel matrices as X of kernel machines: checks of ``kernel="precomputed"``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from mercer import maps
from mercer._runtime.arrays import check_memory
from mercer._runtime.rows import is_large
from mercer._runtime.validation import is_name
from mercer.estimators.inputs import float_types, in_memory
from mercer.kernels.precomputed import NEW, Precomputed, numbered

__all__ = ["PRECOMPUTED", "has_matrix", "map_of_matrix", "new_rows", "rows_of_fit"]

PRECOMPUTED = "precomputed"


def has_matrix(model: Any) -> bool:
    """True if a fitted model takes rows of a kernel matrix."""
    map_ = vars(model).get("feature_map_")
    return isinstance(vars(map_).get("kernel_") if map_ is not None else None, Precomputed)


def map_of_matrix(feature_map: Any, rows_are_here: bool, **settings: Any) -> maps.FeatureMap:
    """The unfitted exact map of a kernel matrix; ``settings`` are those beside ``feature_map``."""
    if not (is_name(feature_map, "auto") or is_name(feature_map, "exact")):
        raise ValueError(
            "feature_map must be 'exact' or 'auto' for kernel='precomputed', which has no other "
            f"features; got {feature_map!r}."
        )
    if not rows_are_here:
        raise ValueError(
            "kernel must not be 'precomputed' for rows on several workers; give a function of "
            "(X, Y)."
        )
    return maps.get("exact", **settings | {"kernel": Precomputed()})


def rows_of_fit(K: NDArray) -> NDArray:
    """Rows of a checked kernel matrix as ``Precomputed`` takes them."""
    if is_large(K):
        check_memory(float(K.nbytes), "a copy of the kernel matrix", "use fewer rows")
    return numbered(K, np.arange(len(K)))


def new_rows(model: Any, X: Any) -> NDArray:
    """Rows of kernels at the rows of the fit as ``Precomputed`` takes them."""
    X = in_memory(X)
    return numbered(validate_data(model, X, dtype=float_types(X), order="C", reset=False), NEW)
