"""Kernel of rows that are given by their kernel matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.arrays import Matrix
from mercer._runtime.validation import matrix
from mercer.kernels.base import Kernel

__all__ = ["NEW", "Precomputed", "numbered"]

NEW = -1.0  # number of a row that is no row of the fit


@dataclass(frozen=True)
class Precomputed(Kernel):
    """Kernel of rows (k(x, x_1), ..., k(x, x_n), i) for the n rows x_i of a fit.

    The last column is the number of the row in the fit, from 0 on; ``NEW`` for other rows.
    """

    def diag(self, X: Matrix) -> NDArray:
        X = matrix(X, "X")
        numbers = X[:, -1].astype(np.int64)
        if (numbers < 0).any():
            raise ValueError(
                "k(x, x) of new rows, which standard deviations need, is missing in the matrix of "
                "kernel='precomputed': give a function of (X, Y) as kernel."
            )
        return X[np.arange(len(X)), numbers]

    def _fill(self, out: NDArray, X: Matrix, Y: Matrix) -> None:
        out[...] = X[:, Y[:, -1].astype(np.int64)]


def numbered(K: NDArray, numbers: NDArray | float) -> NDArray:
    """Rows of a kernel matrix (m, n) with their numbers in the fit as the last column."""
    out = np.empty((K.shape[0], K.shape[1] + 1), dtype=K.dtype)
    out[:, :-1], out[:, -1] = K, numbers
    return out
