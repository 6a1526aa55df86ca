"""The division of columns into blocks, and the order of the blocks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.arrays import largest_fitting
from mercer._runtime.random import Slot, Streams
from mercer.designs import Design
from mercer.equations import Equations, KernelEquations

__all__ = ["bytes_of_block", "least_bytes_of_block", "partition", "permutation", "size_of_blocks"]

_SMALLEST, _LARGEST = 512, 6144  # least and largest number of columns of a block
_ALONE = 4000  # columns up to which one block of all columns takes seconds
_EPOCHS = 10.0  # typical number of epochs that use cached factors and Gram matrices
_MOST_INPUTS = 1000  # most inputs counted as work: CSR rows and word counts have mostly zeros
_SHARE = 0.2  # share of the available memory for one block of columns


def permutation(key: int, epoch: int, n: int) -> NDArray[np.int64]:
    """A random order of n items, another one in every epoch."""
    if not n:
        return np.zeros(0, dtype=np.int64)
    draws = Streams(key, np.array([epoch])).bits(n, Slot.SHUFFLE)[0]
    return np.argsort(draws, kind="stable")


def bytes_of_block(system: Equations, size: int) -> float:
    """Bytes of a machine for work on one block: columns twice, a Gram matrix, a factor, copies."""
    n_rows = system.n_rows / system.n_machines
    return 2.0 * system.problem.design.dtype.itemsize * n_rows * size + 48.0 * size**2


def least_bytes_of_block(system: Equations, size: int) -> float:
    """``bytes_of_block`` without the columns where they are worked on in pieces of rows."""
    return 48.0 * size**2 if system.in_pieces else bytes_of_block(system, size)


def size_of_blocks(system: Equations, vectors: float = 0.0, cache: float = np.inf) -> int:
    """Columns of a block: as many as memory and the work on a block alone allow.

    Larger blocks need fewer epochs. Their factor (b³/3 operations for the kernel machine) or Gram
    matrix (n b² for normal equations) may cost as much as the columns of ten epochs if it is
    cached, of one if not. ``vectors`` bytes are taken, ``cache`` bytes hold factors and Gram
    matrices between epochs.
    """
    size = _balanced(system, _EPOCHS)
    design = system.problem.design
    n_columns = design.shape[1]
    if 8.0 * n_columns * size * len(system.alphas) > cache:
        size = _balanced(system, 1.0)
    available = system.available_memory()
    if available is not None:
        room = max(0.0, _SHARE * (available - vectors))
        size = max(1, largest_fitting(lambda b: bytes_of_block(system, b), size, room))
    n_blocks = int(np.ceil(n_columns / size))
    return int(np.ceil(n_columns / n_blocks)) if n_blocks else 1


def _balanced(system: Equations, n_epochs: float) -> int:
    """The block size whose factor or Gram matrix costs as much as its columns in so many epochs."""
    design = system.problem.design
    n, n_columns = system.n_rows / system.n_machines, design.shape[1]
    inputs = min(getattr(design, "n_inputs", 0), _MOST_INPUTS)
    entry = 2.0 * inputs + 20.0 + 4.0 * system.shape[1]  # operations per entry and epoch
    if isinstance(system, KernelEquations):
        balanced = int(np.sqrt(3.0 * n_epochs * n * entry))
    else:
        balanced = int(n_epochs * entry)
    if n_columns <= _ALONE:
        return max(1, n_columns)
    return min(max(balanced, _SMALLEST), _LARGEST)


def partition(design: Design, size: int, key: int, shuffle: bool) -> list[NDArray[np.int64]]:
    """Columns in blocks of ``size``, the last maybe smaller; a kernel's are shuffled."""
    n_columns = design.shape[1]
    columns = np.arange(n_columns)
    if shuffle and not design.shuffled:
        columns = permutation(key, -1, n_columns)
    return [np.sort(columns[start : start + size]) for start in range(0, n_columns, size)]
