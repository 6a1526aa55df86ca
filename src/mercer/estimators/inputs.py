"""What all estimators do with their inputs: types, scales and weights."""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.utils.validation import _check_sample_weight

from mercer._array import check_memory, row_chunks
from mercer._rows import PreparedRows, bytes_per_row, is_large, is_sparse
from mercer._sparse import refuse_foreign

__all__ = ["ScaledInputs", "check_weights", "float_types", "numbers"]

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
        scaler = MaxAbsScaler() if is_sparse(X) else StandardScaler()
        with np.errstate(over="ignore", invalid="ignore"):
            _fit_by_rows(scaler, X, weights)
        bad = ~np.isfinite(scaler.scale_)
        if bad.any():
            raise ValueError(
                f"X must have values small enough to be scaled in {X.dtype}; column "
                f"{int(np.flatnonzero(bad)[0])} is too large."
            )
        return scaler

    def _scaled(self, X: Any) -> Any:
        if self.scaler_ is None:
            return X
        if is_large(X):
            check_memory(
                X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes,
                f"a scaled copy of {X.shape[0]} rows of {X.shape[1]} inputs",
                "scale the data beforehand and say scale=False",
            )
        return self.scaler_.transform(X)

    def _scaled_rows(self, X: Any) -> Any:
        """X scaled, or its rows that will be when they are read if X is large."""
        if not is_large(X):
            return self._scaled(X)
        return (X if isinstance(X, PreparedRows) else PreparedRows(X)).then(self._scaled)


def _fit_by_rows(scaler: Any, X: Any, weights: NDArray | None = None) -> None:
    """Fit a scaler to X, a number of rows at a time where X is large."""
    n = X.shape[0]
    # Scalers hold what they look at two or three times over in float64.
    pieces = row_chunks(n, 4.0 * bytes_per_row(X)) if is_large(X) else [slice(0, n)]
    for rows in pieces:
        if weights is None or isinstance(scaler, MaxAbsScaler):
            scaler.partial_fit(X[rows])
        else:
            scaler.partial_fit(X[rows], sample_weight=weights[rows])


def _warn_uneven(X: Any) -> None:
    """Say so when unscaled inputs live on very different scales: kernels see the largest only."""
    scaler = MaxAbsScaler() if is_sparse(X) else StandardScaler()
    with np.errstate(over="ignore", invalid="ignore"):
        _fit_by_rows(scaler, X)
    spread = scaler.max_abs_ if is_sparse(X) else np.sqrt(scaler.var_)
    spread = spread[spread > 0]
    if len(spread) and spread.max() > _UNEVEN * spread.min():
        warnings.warn(
            f"the inputs' scales differ by a factor of {spread.max() / spread.min():.3g}, so the "
            "kernel sees little but the largest; scale=True or a scaler before the model helps.",
            UserWarning,
            stacklevel=4,
        )


def float_types(X: Any) -> Any:
    """The types X may have inside: float32 holds small integers exactly in half the memory.

    Raises
    ------
    MemoryError
        If X has none of them and a copy that has would not fit.
    """
    dtype = getattr(X, "dtype", None)
    is_small = isinstance(dtype, np.dtype) and dtype.kind in "iufb" and dtype.itemsize <= 2
    if is_large(X) and dtype not in (np.float64, np.float32):
        check_memory(
            (4.0 if is_small else 8.0) * getattr(X, "nnz", X.size),
            f"a copy of X, whose numbers are {dtype}, in floating point",
            "store X as float32 or float64, which is taken as it is",
        )
    return np.float32 if is_small else [np.float64, np.float32]


def numbers(values: Any, name: str) -> Any:
    """``values``, as floats where they are objects, if they are numbers at all; None is left."""
    if values is None:
        return None
    refuse_foreign(values, name)
    found = np.asarray(values)
    if found.dtype.kind in "OUS":
        try:
            found = values = found.astype(np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise TypeError(f"{name} must hold numbers; {error}.") from None
    if not (found.ndim or isinstance(values, Real)):
        raise ValueError(f"{name} must have a dimension for the rows; got {values!r:.60}.")
    return values


def check_weights(sample_weight: Any, X: Any) -> NDArray | None:
    """Weights as a float64 array, refused if negative or all zero, or None."""
    if sample_weight is None:
        return None
    sample_weight = numbers(sample_weight, "sample_weight")
    return _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
