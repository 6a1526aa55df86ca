"""What all estimators do with their inputs: types, scales and weights."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.utils.validation import _check_sample_weight

__all__ = ["ScaledInputs", "check_weights", "float_types"]

_UNEVEN = 100.0  # ratio of input scales from which an unscaled fit deserves a word


class ScaledInputs:
    """An estimator with a parameter ``scale`` and, once fitted, a ``scaler_``."""

    scale: bool
    scaler_: Any

    def _fit_scaler(self, X: Any, weights: NDArray | None) -> Any:
        if X.ndim == 1:  # texts
            return None
        if not self.scale:
            _warn_uneven(X)
            return None
        scaler = MaxAbsScaler() if sparse.issparse(X) else StandardScaler()
        with np.errstate(over="ignore", invalid="ignore"):
            if isinstance(scaler, StandardScaler):
                scaler.fit(X, sample_weight=weights)
            else:
                scaler.fit(X)
        bad = ~np.isfinite(scaler.scale_)
        if bad.any():
            raise ValueError(
                f"X must have values small enough to be scaled in {X.dtype}; column "
                f"{int(np.flatnonzero(bad)[0])} is too large."
            )
        return scaler

    def _scaled(self, X: Any) -> Any:
        return X if self.scaler_ is None else self.scaler_.transform(X)


def _warn_uneven(X: Any) -> None:
    """Say so when unscaled inputs live on very different scales: kernels see the largest only."""
    spread = np.asarray(abs(X).max(axis=0).todense() if sparse.issparse(X) else X.std(axis=0))
    spread = spread.ravel()[spread.ravel() > 0]
    if len(spread) and spread.max() > _UNEVEN * spread.min():
        warnings.warn(
            f"the inputs' scales differ by a factor of {spread.max() / spread.min():.3g}, so the "
            "kernel sees little but the largest; scale=True or a scaler before the model helps.",
            UserWarning,
            stacklevel=4,
        )


def float_types(X: Any) -> Any:
    """The types X may have inside: float32 holds small integers exactly in half the memory."""
    dtype = getattr(X, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind in "iufb" and dtype.itemsize <= 2:
        return np.float32
    return [np.float64, np.float32]


def check_weights(sample_weight: Any, X: Any) -> NDArray | None:
    """Weights as a float64 array, refused if negative or all zero, or None."""
    if sample_weight is None:
        return None
    return _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
