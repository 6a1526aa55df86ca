"""Signs of given half-spaces: features that were chosen, not drawn."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer._runtime.arrays import Matrix, row_chunks
from mercer._runtime.rows import Data
from mercer._runtime.state import State
from mercer.maps.members import Excerpt

__all__ = ["Halfspaces"]


class Halfspaces(Excerpt):
    """Sides of given planes as features: +1 if direction . x >= threshold, else -1.

    Parameters
    ----------
    directions : array of shape (b, d)
        Normal vectors of the planes.
    thresholds : array of shape (b,)
        Thresholds of the inner products with the directions.

    Attributes
    ----------
    n_features_out_ : int
        Number of planes b.

    Examples
    --------
    >>> from mercer.maps import Halfspaces
    >>> Halfspaces([[1.0, 0.0]], [0.5]).fit_transform([[0.0, 9.0], [1.0, 9.0]])
    array([[-1.],
           [ 1.]])
    """

    _fitted_by: ClassVar[str] = "_thresholds"

    def __init__(self, directions: ArrayLike, thresholds: ArrayLike):
        self.directions = directions
        self.thresholds = thresholds

    def excerpt(self, columns: ArrayLike) -> Halfspaces:
        columns = np.asarray(columns, dtype=np.int64)
        return self._like(self._directions[columns], self._thresholds[columns])

    def followed_by(self, other: Halfspaces) -> Halfspaces:
        return self._like(
            np.concatenate([self._directions, other._directions]),
            np.concatenate([self._thresholds, other._thresholds]),
        )

    def addresses(self) -> NDArray[np.int64]:
        return np.column_stack([self._directions, self._thresholds]).view(np.int64)

    def _like(self, directions: NDArray, thresholds: NDArray) -> Halfspaces:
        other = Halfspaces(directions, thresholds)
        other._adopt(self.n_features_in_)
        return other

    def _fit(self, X: Data) -> None:
        self._adopt(X.shape[1])

    def _adopt(self, n_inputs: int) -> None:
        directions = _numbers(self.directions, "directions")
        thresholds = _numbers(self.thresholds, "thresholds")
        if thresholds.ndim != 1 or directions.shape != (len(thresholds), n_inputs):
            raise ValueError(
                f"directions must have shape (b, {n_inputs}) and thresholds (b,); got "
                f"{directions.shape} and {thresholds.shape}."
            )
        if not (np.isfinite(directions).all() and np.isfinite(thresholds).all()):
            raise ValueError("directions and thresholds must be finite; one of them is not.")
        self._directions, self._thresholds = directions, thresholds
        self.n_features_in_ = n_inputs

    @property
    def n_features_out_(self) -> int:  # type: ignore[override]
        return len(self._thresholds)

    def _check_state(self) -> None:
        state = State(self)
        n_inputs = state.integer("n_features_in_", 1)
        thresholds = state.array("_thresholds", (None,), "d")
        state.array("_directions", (len(thresholds), n_inputs), "d")

    def _block(self, X: Matrix, columns: NDArray[np.int64]) -> NDArray:
        across = np.ascontiguousarray(self._directions[columns].T)
        out = np.empty((X.shape[0], len(columns)), dtype=X.dtype)
        for rows in row_chunks(X.shape[0], 9.0 * len(columns) + 8.0 * X.shape[1]):
            # In float64 whatever the data are, as the planes were chosen.
            places = X[rows].astype(np.float64, copy=False) @ across
            np.multiply(places >= self._thresholds[columns], X.dtype.type(2), out=out[rows])
        out -= 1
        return out

    @property
    def _n_jobs(self) -> int | None:
        return None


def _numbers(values: Any, name: str) -> NDArray[np.float64]:
    numbers = np.asarray(values)
    if numbers.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be an array of numbers; got dtype {numbers.dtype}.")
    return numbers.astype(np.float64, copy=False)
