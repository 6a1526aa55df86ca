"""Rows of kernel matrices for solvers that ask for a few at a time; the matrix is never whole."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from mercer import _core
from mercer._runtime.arrays import Matrix, check_memory, n_threads
from mercer.kernels.base import Kernel, Stationary
from mercer.kernels.distances import scaled

__all__ = ["row_source", "scaled_rows"]

_LONG = 1e12  # lengths whose squares, summed over inputs, float32 holds
_AT_ONCE = 16  # rows that Python makes together: a call costs what many entries do


def scaled_rows(kernel: Kernel, X: Matrix) -> NDArray[np.float32] | None:
    """Float32 rows X', centred and scaled in float64, with ``kernel.with_gamma(1.0)(X')`` = k(X).

    None if the core does not make it, or squares leave the range of float32.
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

    Dense and CSR rows of kernels that the core knows are made there, by threads side by side;
    anything else, the Cauchy kernel of CSR rows included, in Python, where threads wait for each
    other. The kernel has its scale in numbers; X is checked, and must not change. Rows are cached
    in ``dtype``, float32 or float64, but computed in the precision that ``kernel(X)`` has. With
    ``single``, float32 numbers in the core are computed with in float32, which takes less time and
    has an error of up to 2e-5. MemoryError if the rows of X in the order of the core would not fit.
    """
    name = np.dtype(dtype).name
    in_core = kernel._in_core() if isinstance(kernel, Stationary) else None
    if isinstance(kernel, Stationary) and in_core is not None:
        if not sparse.issparse(X):
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
        if in_core[0] != "cauchy" and X.shape[1] <= np.iinfo(np.uint32).max:
            return _sparse_source(in_core, scaled(X, kernel.input_scale(X.shape[1])), name)

    def rows(wanted: NDArray[np.int64], first: int, last: int) -> NDArray:
        columns = X if last - first == X.shape[0] else X[first:last]
        out = np.empty((len(wanted), last - first), dtype=X.dtype)
        kernel._fill(out, X[wanted], columns)
        return np.ascontiguousarray(out, dtype=name)

    return _core.KernelRows(X.shape[0], _AT_ONCE, rows, name)


def _sparse_source(in_core: tuple[str, float], x: sparse.csr_array, name: str) -> _core.KernelRows:
    """The source of scaled CSR rows of a kernel of the core."""
    kernel, parameter = in_core
    needed = 64.0 * x.shape[1] + 12.0 * x.nnz
    check_memory(needed, f"rows of {x.shape[1]} sparse inputs", "use a feature map instead")
    if not x.has_canonical_format:
        x = x.copy()
        x.sum_duplicates()
    parts = x.data, x.indices.astype(np.uint32), x.indptr.astype(np.int64)
    return _core.KernelRows(kernel, *parts, x.shape[1], parameter, name)
