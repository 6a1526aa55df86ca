"""How columns are divided into blocks, and in which order blocks come."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mercer._array import available_memory, largest_fitting
from mercer._random import Slot, Streams
from mercer.designs import Design, Lazy

__all__ = ["bytes_of_block", "partition", "permutation", "size_of_blocks"]

_SMALLEST, _LARGEST = 512, 6144
_ALONE = 4000  # columns that are solved as one block: seconds
_MOST_INPUTS = 1000  # CSR and counts of words have more, but few that are not zero
_SHARE = 0.2  # of the memory for one generated block


def permutation(key: int, epoch: int, n: int) -> NDArray[np.int64]:
    """A random order of n things, another one in every epoch."""
    if not n:
        return np.zeros(0, dtype=np.int64)
    draws = Streams(key, np.array([epoch])).bits(n, Slot.SHUFFLE)[0]
    return np.argsort(draws, kind="stable")


def bytes_of_block(design: Design, size: int) -> float:
    """Memory at work on one block: its columns, its Gram matrix, a factor and a copy."""
    return float(design.dtype.itemsize) * design.shape[0] * size + 32.0 * size**2


def size_of_blocks(design: Design, vectors: float = 0.0) -> int:
    """A block size that costs little memory and no more for its factor than for its columns.

    Parameters
    ----------
    design : Design of shape (n, D)
    vectors : float, default=0.0
        Bytes that are taken besides the blocks.
    """
    n, n_columns = design.shape
    inputs = getattr(design, "n_inputs", 0)
    # A factor takes b³/3 operations; a block of the full kernel, about 2 n b (inputs + 20).
    balanced = int(np.sqrt(6.0 * n * (min(inputs, _MOST_INPUTS) + 20)))
    size = min(max(balanced, _SMALLEST), _LARGEST) if n_columns > _ALONE else max(1, n_columns)
    available = available_memory()
    if available is not None:
        room = max(0.0, _SHARE * (available - vectors))
        size = max(1, largest_fitting(lambda b: bytes_of_block(design, b), size, room))
    n_blocks = int(np.ceil(n_columns / size))
    return int(np.ceil(n_columns / n_blocks)) if n_blocks else 1


def partition(design: Design, size: int, key: int, shuffle: bool) -> list[NDArray[np.int64]]:
    """Columns in blocks of ``size``, the last of which may be smaller.

    Rows of data may be sorted, so that the columns of a kernel are shuffled. Those of a ``Lazy``
    map are random already, and some maps generate neighbours together.
    """
    n_columns = design.shape[1]
    columns = np.arange(n_columns)
    if shuffle and not isinstance(design, Lazy):
        columns = permutation(key, -1, n_columns)
    return [np.sort(columns[start : start + size]) for start in range(0, n_columns, size)]
