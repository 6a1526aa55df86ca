"""Rows of kernel matrices for solvers that ask for a few at a time; the matrix is never whole."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from mercer import _core
from mercer._array import Matrix, check_memory, n_threads
from mercer.kernels.base import Kernel, Stationary

__all__ = ["row_source", "scaled_rows"]

_LONG = 1e12  # lengths whose squares, summed over inputs, float32 holds
_AT_ONCE = 16  # rows that Python makes together: a call costs what many entries do


def scaled_rows(kernel: Kernel, X: Matrix) -> NDArray[np.float32] | None:
    """Rows in float32 that ``kernel.with_gamma(1.0)`` makes the kernel of X from, in the core.

    They are centred and scaled before they are rounded. None if the core does not make it, or the
    rows are so long that squares leave the range of float32.
    """
    if not isinstance(kernel, Stationary) or sparse.issparse(X) or len(X) == 0:
        return None
    if kernel._in_core() is None:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        rows = X - X.mean(axis=0, dtype=np.float64)
        rows *= kernel.input_scale(X.shape[1])
        longest = np.abs(rows).max(initial=0.0)
    return rows.astype(np.float32) if longest < _LONG else None


def row_source(
    kernel: Kernel,
    X: Matrix,
    dtype: DTypeLike = "float32",
    n_jobs: int | None = None,
    single: bool = False,
) -> _core.KernelRows:
    """A source of rows of ``kernel(X)`` for the core, any of them at any time.

    Dense rows of kernels that the core knows are made there, by threads side by side. Anything else
    is made in Python, where threads wait for each other. The kernel has its scale in numbers; X is
    checked, and must not change. Rows are cached in ``dtype``, float32 or float64, but computed in
    the precision that ``kernel(X)`` has. With ``single``, float32 numbers in the core are computed
    with in float32, which takes less time and has an error of up to 2e-5. MemoryError if the rows
    of X in the order of the core would not fit.
    """
    name = np.dtype(dtype).name
    if isinstance(kernel, Stationary) and not sparse.issparse(X):
        in_core = kernel._in_core()
        if in_core is not None:
            check_memory(
                1.1 * X.shape[0] * X.shape[1] * 8,
                f"{X.shape[0]} rows of {X.shape[1]} inputs in the order of the core",
                "use a feature map instead",
            )
            with np.errstate(over="ignore"):
                centre = X.mean(axis=0, dtype=np.float64)
            scale = kernel.input_scale(X.shape[1])
            return _core.KernelRows(
                in_core[0], X, centre, scale, in_core[1], name, n_threads(n_jobs), single
            )

    def rows(wanted: NDArray[np.int64], first: int, last: int) -> NDArray:
        columns = X if last - first == X.shape[0] else X[first:last]
        out = np.empty((len(wanted), last - first), dtype=X.dtype)
        kernel._fill(out, X[wanted], columns)
        return np.ascontiguousarray(out, dtype=name)

    return _core.KernelRows(X.shape[0], _AT_ONCE, rows, name)
