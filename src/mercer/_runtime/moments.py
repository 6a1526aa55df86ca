"""Weighted moments of the columns of rows: what scalers and kernels learn from all rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from mercer._runtime.arrays import row_chunks
from mercer._runtime.rows import bytes_per_row, is_sparse

__all__ = ["Moments"]

_WORKING_COPIES = 4.0  # float64 copies of a chunk of rows at one time


@dataclass(frozen=True)
class Moments:
    """Mean, spread and range of every column of some rows; the sum of two is that of all rows."""

    n_rows: int
    weight: float  # sum of the weights of the rows, 1 each without any
    mean: NDArray[np.float64]  # (d,), as all that follow
    squares: NDArray[np.float64]  # sums of squared differences from the mean
    low: NDArray[np.float64]  # least entries
    high: NDArray[np.float64]  # largest entries

    @classmethod
    def of(cls, X: Any, weights: NDArray | None = None) -> Moments:
        """Moments of the rows of an array, CSR or prepared rows, by weights (n,).

        A ValueError if there is no row.
        """
        width = 8.0 / X.dtype.itemsize * bytes_per_row(X)
        total: Moments | None = None
        for part in row_chunks(X.shape[0], _WORKING_COPIES * width):
            w = np.ones(part.stop - part.start) if weights is None else weights[part]
            x = X[part]
            piece = _of_sparse(x, w) if is_sparse(x) else _of_dense(x, w)
            total = piece if total is None else total + piece
        if total is None:
            raise ValueError("X must have at least one row; it has none.")
        return total

    def __add__(self, other: Moments) -> Moments:
        weight = self.weight + other.weight
        share = other.weight / weight if weight else 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            step = other.mean - self.mean
            # Chan, Golub and LeVeque: means that are far from 0 cost no digits of the spread.
            shift = np.square(step) * (self.weight * share)
            mean = self.mean + step * share
            squares = self.squares + other.squares + shift
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        return Moments(self.n_rows + other.n_rows, weight, mean, squares, low, high)

    def among(self, columns: NDArray[np.int64]) -> Moments:
        """Moments of some of the columns."""
        of_columns = (each[columns] for each in (self.mean, self.squares, self.low, self.high))
        return Moments(self.n_rows, self.weight, *of_columns)

    @property
    def varying(self) -> NDArray[np.int64] | None:
        """Columns of more than one value, None if all or none have."""
        columns = np.flatnonzero(self.low < self.high)
        return None if len(columns) in (0, len(self.low)) else columns

    @property
    def variance(self) -> NDArray[np.float64]:
        """Variance of every column, (d,)."""
        return self.squares / self.weight

    @property
    def deviation(self) -> float:
        """Standard deviation of all entries; 0 within the rounding error of a constant matrix."""
        centre = float(np.mean(self.mean))
        with np.errstate(over="ignore", invalid="ignore"):
            spread = float(np.sqrt(np.mean(self.variance + np.square(self.mean - centre))))
        if not np.isfinite(spread):
            raise ValueError("X is too large: its variance overflows; rescale it.")
        return 0.0 if spread <= 1e-14 * abs(centre) else spread

    def scaled(self, scaler: StandardScaler | MaxAbsScaler | None) -> Moments:
        """Moments of the columns after a scaler."""
        if scaler is None:
            return self
        centre = getattr(scaler, "mean_", 0.0)
        scale = scaler.scale_.astype(np.float64)
        low, high = (self.low - centre) / scale, (self.high - centre) / scale
        mean, squares = (self.mean - centre) / scale, self.squares / scale**2
        return Moments(self.n_rows, self.weight, mean, squares, low, high)

    def standard_scaler(self, weighted: bool) -> StandardScaler:
        """The scaler that is fitted to these rows."""
        scaler = StandardScaler()
        scaler.n_features_in_ = len(self.mean)
        n = scaler.n_samples_seen_ = self.weight if weighted else self.n_rows
        scaler.mean_, scaler.var_ = self.mean, self.variance
        # scikit-learn's rule for columns that are constant up to rounding.
        eps = np.finfo(np.float64).eps
        with np.errstate(over="ignore", invalid="ignore"):
            bound = n * eps * scaler.var_ + (n * scaler.mean_ * eps) ** 2
        constant = (scaler.var_ <= bound) & np.isfinite(scaler.var_)
        scaler.scale_ = np.where(constant, 1.0, np.sqrt(scaler.var_))
        return scaler

    def max_abs_scaler(self, dtype: np.dtype) -> MaxAbsScaler:
        """The scaler that is fitted to these rows, which are sparse and of that type."""
        largest = np.maximum(np.abs(self.low), np.abs(self.high)).astype(dtype)
        scaler = MaxAbsScaler().fit(largest[None, :])
        scaler.n_samples_seen_ = self.n_rows
        return scaler


def _of_dense(given: NDArray, w: NDArray[np.float64]) -> Moments:
    x = np.array(given, dtype=np.float64, order="C")  # sums by rows round alike in every layout
    weight, low, high = float(w.sum()), x.min(axis=0), x.max(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = w @ x / (weight or 1.0)
        x -= mean
        # Rounding of the mean matters for columns that are far from 0.
        step = w @ x / (weight or 1.0)
        x -= step
        squares = w @ np.square(x, out=x)
    return Moments(len(x), weight, mean + step, squares, low, high)


def _of_sparse(x: Any, w: NDArray[np.float64]) -> Moments:
    n, d = x.shape
    weight = float(w.sum())
    x = x.astype(np.float64)
    rows, stored = np.repeat(w, np.diff(x.indptr)), x.indices
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.bincount(stored, rows * x.data, minlength=d) / (weight or 1.0)
        apart = rows * np.square(x.data - mean[stored])
        squares = np.bincount(stored, apart, minlength=d).astype(np.float64, copy=False)
        zeros = np.maximum(weight - np.bincount(stored, rows, minlength=d), 0.0)
        zeros[np.bincount(stored, minlength=d) == n] = 0.0  # not the rounding of two sums
        squares += zeros * np.square(mean)
    low, high = (np.asarray(end.todense()).ravel() for end in (x.min(axis=0), x.max(axis=0)))
    return Moments(n, weight, mean, squares, low, high)
