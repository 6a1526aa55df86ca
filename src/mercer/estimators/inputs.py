"""Types of inputs, numbers and weights that estimators take."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._runtime.arrays import check_memory
from mercer._runtime.rows import is_large
from mercer._runtime.validation import check_weights, numbers

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
