"""Errors of local machines as they are delivered, beside those of the leaves of a search."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from mercer.estimators.selection import random_order

__all__ = ["error_ratio"]

_LEAVES = 6  # neighbouring leaves of the first tree: a region with borders in proportion
_HELD_SHARE, _MOST_HELD = 0.1, 1500  # of the rows of the region
_LEAST_HELD = 100  # held-out rows of the search in the region, below which all of them are compared
_RANGE = 0.02, 1.5  # of the ratio


def error_ratio(
    machine: Any, target: NDArray, held: NDArray[np.int64], errors: NDArray, key: int
) -> float:
    """Error of a local machine on rows that it has not seen, per error of the leaves of a search.

    Leaves of a search are smaller than those of the model, and fewer answer for a row. The machine
    is fitted once more to a region of its rows, without a tenth of them.

    Parameters
    ----------
    machine : LocalKernelRegressor
        Fitted to all rows.
    target : ndarray of shape (n, k)
    held : ndarray of int64 of shape (h,)
        Held-out rows of the search.
    errors : ndarray of shape (h, k)
        Errors of the search on these rows.
    key : int
        Seed of the region and of the rows to hold out.

    Returns
    -------
    float
        1 where rows of the model are not in memory, or no error is above 0.
    """
    map_ = machine.feature_map_
    if not isinstance(map_.landmarks_, np.ndarray):
        return 1.0
    n_first = map_.partition_.first_trees(1).n_leaves
    first = key % max(1, n_first - _LEAVES + 1)
    leaves = range(first, min(first + _LEAVES, n_first))
    region = np.unique(np.concatenate([map_.members_.of(leaf) for leaf in leaves]))
    order = region[np.argsort(random_order(key, len(region)))]
    n_held = max(1, min(int(_HELD_SHARE * len(order)), _MOST_HELD))
    own, others = order[:n_held], order[n_held:]
    alpha = machine.alpha_ * len(target) / len(others)
    again = clone(machine).set_params(alpha=alpha, device=None)
    columns = slice(None) if target.shape[1] > 1 else 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit to all rows has said it
        again.fit(map_.landmarks_[others], target[others, columns])
    found = again.predict(map_.landmarks_[own]).reshape(n_held, -1)
    inside = np.isin(held, region)
    compared = errors[inside] if inside.sum() >= _LEAST_HELD else errors
    of_search = float(np.sqrt(np.mean(np.square(compared))))
    if not of_search > 0:
        return 1.0
    ratio = np.sqrt(np.mean(np.square(found - target[own]))) / of_search
    return float(np.clip(ratio, *_RANGE))
