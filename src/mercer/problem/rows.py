"""Targets, weights, vectors and matrices of a problem: checks and sums."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer._runtime.arrays import row_chunks
from mercer._runtime.device_arrays import DeviceArray
from mercer._runtime.validation import checked_weights
from mercer.designs import Dense, Design

_PIECE = 2**18  # bytes of one operand: a few of them fit into the second-level cache


def checked_target(y: ArrayLike, n_rows: int, dtype: np.dtype) -> NDArray:
    """y as an array of that dtype, finite and as long as the design."""
    y = np.ascontiguousarray(y, dtype=dtype)
    if n_rows < 1:
        raise ValueError(f"the design must have at least one row; got {n_rows}.")
    if y.ndim not in (1, 2) or y.shape[0] != n_rows:
        raise ValueError(
            f"y must have {n_rows} rows, as the design, and one or two dimensions; "
            f"got shape {y.shape}."
        )
    if not np.all(np.isfinite(y)):
        raise ValueError("y must be finite; it holds NaN or infinity.")
    return y


def normalised_weights(sample_weight: ArrayLike | None, n_rows: int) -> NDArray | None:
    """Weights of mean 1, or None where all are equal."""
    if sample_weight is None:
        return None
    weights = checked_weights(sample_weight, n_rows)
    weights /= weights.max()
    weights /= weights.mean()
    return None if np.all(weights == 1) else weights


def as_rows(weights: NDArray, like: NDArray) -> NDArray:
    """Weights (n,) ready to multiply the rows of (n,) or (n, k)."""
    return weights if like.ndim == 1 else weights[:, None]


def pieces(array: NDArray) -> Iterator[slice]:
    """Slices of rows small enough for temporaries of their size to stay in the cache."""
    if isinstance(array, DeviceArray):  # where a piece is a start of a loop
        return iter((slice(0, len(array)),))
    return row_chunks(len(array), float(array[:1].nbytes), _PIECE)


def add_scaled(
    array: NDArray, scale: NDArray, change: NDArray, outputs: NDArray | None = None
) -> None:
    """``array += scale * change``, in the columns ``outputs`` alone if they are given."""
    for rows in pieces(array):
        if outputs is None:
            array[rows] += scale * change[rows]
        else:
            array[rows][..., outputs] += scale * change[rows]


def kernel_matrix(design: Design) -> NDArray[np.float64]:
    """Z Zᵀ, of shape (n, n)."""
    n, n_columns = design.shape
    kernel = np.zeros((n, n))
    if isinstance(design, Dense):
        for columns in row_chunks(n_columns, 8.0 * n):
            z = design.array[:, columns].astype(np.float64, copy=False)
            kernel += z @ z.T
        return kernel
    for rows in row_chunks(n, float(design.dtype.itemsize) * (n + n_columns)):
        unit = np.zeros((n, rows.stop - rows.start), dtype=design.dtype)
        unit[np.arange(rows.start, rows.stop), np.arange(unit.shape[1])] = 1
        kernel[:, rows] = design.gram_matvec(unit)
    return 0.5 * (kernel + kernel.T)
