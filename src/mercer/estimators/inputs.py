"""Types of inputs, numbers and weights that estimators take."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array

from mercer._array import check_memory
from mercer._rows import is_large
from mercer._sparse import refuse_foreign
from mercer.problem.rows import checked_weights

__all__ = ["check_weights", "float_types", "numbers"]


def float_types(X: Any) -> Any:
    """The types X may have inside: float32 holds small integers exactly in half the memory.

    A MemoryError if X has none of them and a copy that has would not fit.
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
    array = np.asarray(values)
    if array.dtype.kind in "OUS":
        try:
            array = values = array.astype(np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise TypeError(f"{name} must hold numbers; {error}.") from None
    if not (array.ndim or isinstance(values, Real)):
        raise ValueError(f"{name} must have a dimension for the rows; got {values!r:.60}.")
    return values


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
