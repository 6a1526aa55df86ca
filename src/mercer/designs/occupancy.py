"""Sizes of the bins of random grids."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Occupancy"]


@dataclass(frozen=True, eq=False)
class Occupancy:
    """Sizes of the bins of all grids, as numbers of rows.

    Parameters
    ----------
    largest : ndarray of shape (R,), int64
        Number of rows in the fullest bin of each grid.
    counts : ndarray of shape (m,), int64
        Sizes that occur, ascending, each at least 1: empty columns are no bins.
    n_bins : ndarray of shape (m,), int64
        Number of bins of each size, summed over the grids.
    n_rows : int
        Number of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.maps import RandomBinning
    >>> X = np.array([[0.0], [0.0], [9.0]])
    >>> RandomBinning(gamma=50.0, n_components=2, random_state=0).fit(X).occupancy_
    Occupancy(largest=array([2, 2]), counts=array([1, 2]), n_bins=array([2, 2]), n_rows=3)
    """

    largest: NDArray[np.int64]
    counts: NDArray[np.int64]
    n_bins: NDArray[np.int64]
    n_rows: int
