"""Arrays of numbers that memory has no room to treat as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.arrays import available_memory
from mercer._runtime.random import RandomStateLike, Slot, distinct, key_from
from mercer._runtime.rows import PreparedRows, is_large

__all__ = ["COPIES", "by_pieces", "goes_by_pieces", "sampled"]

COPIES = 4  # of a table that are there at once while it is treated
_SAMPLE = 200_000  # rows that tell how the columns are treated


def goes_by_pieces(X: Any) -> bool:
    """True for numbers whose treated copy has no room in memory."""
    if not (isinstance(X, np.ndarray) and X.dtype.kind in "biuf" and is_large(X)):
        return False
    available = available_memory()
    return available is not None and COPIES * 8.0 * X.size > available


def sampled(n: int, random_state: RandomStateLike) -> NDArray[np.int64]:
    """Sorted rows that decide the treatment of columns: all of n where n is small."""
    if n <= _SAMPLE:
        return np.arange(n)
    return np.sort(distinct(key_from(random_state), n, _SAMPLE, Slot.PART))


def by_pieces(X: NDArray, treat: Callable[[NDArray], NDArray]) -> PreparedRows:
    """Rows that are treated when they are read."""
    some = treat(X[:1])
    return PreparedRows(X, treat, dtype=some.dtype, n_columns=some.shape[1])
