"""Numbers, weights and groups that stand beside rows."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d

from mercer._sparse import OF_DATES, holds_dates, refuse_foreign
from mercer._words import shown

__all__ = ["check_weights", "checked_weights", "group_codes", "numbers", "weighted_mean"]


def numbers(values: Any, name: str) -> Any:
    """``values``, as floats where they are objects, if they are numbers at all; None is left."""
    if values is None:
        return None
    refuse_foreign(values, name)
    array = np.asarray(values)
    if array.dtype.kind in "OUS":
        try:
            array = values = array.astype(np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            if holds_dates(array):
                raise TypeError(f"{name} must hold numbers; got dates: {OF_DATES}.") from None
            raise TypeError(f"{name} must hold numbers; {str(error).rstrip('.')}.") from None
    if not (array.ndim or isinstance(values, Real)):
        raise ValueError(f"{name} must have a dimension for the rows; got {values!r:.60}.")
    return values


def checked_weights(sample_weight: ArrayLike, n_rows: int) -> NDArray:
    """A copy of the weights in float64, refused if they are no weights of so many rows."""
    weights = np.array(sample_weight, dtype=np.float64)
    if weights.shape != (n_rows,):
        raise ValueError(
            f"sample_weight must have one entry for each of {n_rows} rows; "
            f"got shape {weights.shape}."
        )
    if not (np.all(np.isfinite(weights)) and np.all(weights >= 0) and np.any(weights > 0)):
        raise ValueError(
            "sample_weight must be finite, not negative and not all zero; "
            f"got values from {weights.min()} to {weights.max()}."
        )
    return weights


def check_weights(sample_weight: Any, X: Any) -> NDArray | None:
    """Weights as a float64 array, refused if negative or all zero, or None."""
    if sample_weight is None:
        return None
    sample_weight = numbers(sample_weight, "sample_weight")
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    if isinstance(sample_weight, Real):  # the same for all
        sample_weight = np.full(n_rows, sample_weight)
    weights = check_array(
        sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight"
    )
    return checked_weights(weights, n_rows)


def weighted_mean(values: NDArray, weights: NDArray | None) -> NDArray:
    """The mean of rows by their weights, or the plain one for None."""
    mean: NDArray = np.mean(values, axis=0) if weights is None else weights @ values / weights.sum()
    return mean


def group_codes(groups: Any, X: Any) -> NDArray[np.int64] | None:
    """The group of every row of X as a number from 0 on, or None.

    Raises
    ------
    ValueError, TypeError
        In one sentence, for groups that do not sort, are missing, or are not one for each row.
    """
    if groups is None:
        return None
    refuse_foreign(groups, "groups")
    labels = column_or_1d(groups, input_name="groups")
    check_consistent_length(X, labels)
    lacking = np.flatnonzero([label is None or label != label for label in labels.tolist()])
    if len(lacking):
        raise ValueError(f"groups must hold a group for every row; that of row {lacking[0]} lacks.")
    try:
        _, codes = np.unique(labels, return_inverse=True)
    except TypeError:
        raise TypeError(
            f"groups must hold labels that sort, all numbers or all texts; got {shown(groups)}."
        ) from None
    return codes
