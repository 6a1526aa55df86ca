"""Data in the form that the core bins, and codes of bins in narrower types."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.arrays import Matrix
from mercer._runtime.rows import is_sparse

__all__ = ["buffers", "check_codes", "in_bytes"]

_SPREAD = 0.4  # smooth edges multiply the variance of a grid by about exp(_SPREAD * taper * d)
_MOST_CODES = 2.0**31  # codes on either side of 0: the core clamps them to int32
_MUCH_SPREAD = 10.0  # factor of that variance from which a warning is issued


def buffers(X: Matrix) -> Any:
    """X as the core takes it: the array, or the parts of a CSR matrix and its number of columns."""
    if not is_sparse(X):
        return X
    index = np.result_type(X.indices, X.indptr)
    indices, indptr = (part.astype(index, copy=False) for part in (X.indices, X.indptr))
    return X.data, indices, indptr, X.shape[1]


def in_bytes(codes: NDArray) -> NDArray:
    """uint16 codes below 256 as uint8, in the first half of their memory; the other half is freed.

    A copy would for a moment take as much again.
    """
    n_grids, n = codes.shape
    narrow = codes.reshape(-1).view(np.uint8)
    for grid in range(n_grids):  # what is overwritten was read before
        narrow[grid * n : (grid + 1) * n] = codes[grid].astype(np.uint8)
    del narrow
    codes.resize((codes.size + 1) // 2, refcheck=False)  # nobody else has seen this array
    return codes.view(np.uint8)[: n_grids * n].reshape(n_grids, n)


def check_codes(low: NDArray, high: NDArray, inverse_widths: NDArray) -> None:
    """Refuse inputs so far from 0 that all of their rows share a bin in most grids.

    Codes are 32-bit integers: those beyond are the last one.

    Parameters
    ----------
    low, high : ndarray of shape (d,)
        Range of the inputs.
    inverse_widths : ndarray of shape (grids, d)
    """
    nearest = np.maximum(np.maximum(low, -high), 0.0).astype(np.float64)
    least = np.median(inverse_widths, axis=0)
    far = (nearest * least >= _MOST_CODES) & (low < high)
    if far.any():
        j = int(np.argmax(far))
        raise ValueError(
            f"X must lie within 2**31 bin widths of 0; input {j} has values from {low[j]:.6g} to "
            f"{high[j]:.6g} and bins of width {1 / least[j]:.3g}: scale=True, or a scaler before "
            "the map that subtracts the mean, brings it near 0."
        )
