"""Statistics of rows in shards for scalers, kernels and maps: sums, and rows by number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from mercer._runtime.arrays import row_chunks
from mercer._runtime.rows import PreparedRows, is_sparse
from mercer.distributed.engine import Engine
from mercer.distributed.memory import Memory
from mercer.distributed.shards import Shard

__all__ = ["Columns", "RowsByNumber", "Summary", "columns_of", "summary_of"]


@dataclass(frozen=True)
class Columns:
    """Mean, spread and range of every column of some rows; added, of the rows of both.

    Parameters
    ----------
    n_rows : int
    weight : float
        Sum of the weights of the rows, 1 each without any.
    mean, squares, low, high : ndarray of shape (d,)
        Means, sums of squared differences from these, least and largest entries.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.distributed.statistics import columns_of
    >>> sum = columns_of(np.array([[1.0], [2.0]])) + columns_of(np.array([[6.0]]))
    >>> sum.mean, sum.variance, sum.high
    (array([3.]), array([4.66666667]), array([6.]))
    """

    n_rows: int
    weight: float
    mean: NDArray[np.float64]
    squares: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    def __add__(self, other: Columns) -> Columns:
        weight = self.weight + other.weight
        with np.errstate(over="ignore", invalid="ignore"):
            step = other.mean - self.mean
            # Chan, Golub and LeVeque: means that are far from 0 cost no digits of the spread.
            shift = np.square(step) * (self.weight * (other.weight / weight))
            mean = self.mean + step * (other.weight / weight)
            squares = self.squares + other.squares + shift
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        return Columns(self.n_rows + other.n_rows, weight, mean, squares, low, high)

    @property
    def variance(self) -> NDArray[np.float64]:
        """Variance of every column, (d,)."""
        return self.squares / self.weight

    @property
    def deviation(self) -> float:
        """The standard deviation of all entries, as ``distances.standard_deviation`` has it."""
        centre = float(np.mean(self.mean))
        with np.errstate(over="ignore", invalid="ignore"):
            spread = float(np.sqrt(np.mean(self.variance + np.square(self.mean - centre))))
        if not np.isfinite(spread):
            raise ValueError("X is too large: its variance overflows; rescale it.")
        return 0.0 if spread <= 1e-14 * abs(centre) else spread

    def scaled(self, scaler: StandardScaler | MaxAbsScaler | None) -> Columns:
        """Statistics of the columns after a scaler."""
        if scaler is None:
            return self
        centre = getattr(scaler, "mean_", 0.0)
        scale = scaler.scale_.astype(np.float64)
        low, high = (self.low - centre) / scale, (self.high - centre) / scale
        mean, squares = (self.mean - centre) / scale, self.squares / scale**2
        return Columns(self.n_rows, self.weight, mean, squares, low, high)

    def standard_scaler(self, weighted: bool) -> StandardScaler:
        """The scaler that is fitted to these rows."""
        scaler = StandardScaler()
        scaler.n_features_in_ = len(self.mean)
        n = scaler.n_samples_seen_ = self.weight if weighted else self.n_rows
        scaler.mean_, scaler.var_ = self.mean, self.variance
        # As scikit-learn tells columns that are constant up to rounding.
        eps = np.finfo(np.float64).eps
        constant = scaler.var_ <= n * eps * scaler.var_ + (n * scaler.mean_ * eps) ** 2
        scaler.scale_ = np.where(constant, 1.0, np.sqrt(scaler.var_))
        return scaler

    def max_abs_scaler(self, dtype: np.dtype) -> MaxAbsScaler:
        """The scaler that is fitted to these rows, which are sparse and of that type."""
        largest = np.maximum(np.abs(self.low), np.abs(self.high)).astype(dtype)
        scaler = MaxAbsScaler().fit(largest[None, :])
        scaler.n_samples_seen_ = self.n_rows
        return scaler


def columns_of(X: Any, weights: NDArray | None = None) -> Columns | None:
    """Statistics of the columns of rows, an array or CSR (n, d); None for no rows."""
    total: Columns | None = None
    for part in row_chunks(X.shape[0], 32.0 * X.shape[1]):
        w = np.ones(part.stop - part.start) if weights is None else weights[part]
        x = X[part].astype(np.float64)
        piece = (_of_sparse if is_sparse(x) else _of_dense)(x, w)
        total = piece if total is None else total + piece
    return total


def _of_dense(x: NDArray[np.float64], w: NDArray[np.float64]) -> Columns:
    weight, low, high = float(w.sum()), x.min(axis=0), x.max(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = w @ x / weight
        # Rounding of the mean matters for columns that are far from 0.
        mean += w @ (x - mean) / weight
        squares = w @ np.square(x - mean)
    return Columns(len(x), weight, mean, squares, low, high)


def _of_sparse(x: Any, w: NDArray[np.float64]) -> Columns:
    n, d = x.shape
    weight = float(w.sum())
    rows, stored = np.repeat(w, np.diff(x.indptr)), x.indices
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.bincount(stored, rows * x.data, minlength=d) / weight
        apart = rows * np.square(x.data - mean[stored])
        squares = np.bincount(stored, apart, minlength=d).astype(np.float64, copy=False)
        zeros = np.maximum(weight - np.bincount(stored, rows, minlength=d), 0.0)
        squares += zeros * np.square(mean)
    low, high = (np.asarray(end.todense()).ravel() for end in (x.min(axis=0), x.max(axis=0)))
    return Columns(n, weight, mean, squares, low, high)


@dataclass(frozen=True)
class Summary:
    """Results of one pass over checked shards.

    Added, of the rows of both; a shard without rows has None for what it does not know.
    """

    columns: Columns | None  # of X
    target: Columns | None  # of y, where these are numbers

    def __add__(self, other: Summary) -> Summary:
        pairs = ((self.columns, other.columns), (self.target, other.target))
        return Summary(*(a if b is None else b if a is None else a + b for a, b in pairs))


def summary_of(shard: Shard, of_target: bool) -> Summary:
    """The summary of a checked shard."""
    target = None
    if of_target and len(shard):
        y = np.asarray(shard.target, dtype=np.float64)
        target = columns_of(y.reshape(len(y), -1), shard.weights)
    return Summary(columns_of(shard.X, shard.weights), target)


class RowsByNumber:
    """The rows of all shards as a matrix from which rows are taken by their number, and brought.

    Parameters
    ----------
    engine : Engine
        Of checked shards.
    lengths : list of int
        Rows of each.
    n_columns : int
    dtype : dtype
    """

    ndim = 2

    def __init__(self, engine: Engine, lengths: list[int], n_columns: int, dtype: np.dtype):
        self.engine, self.dtype = engine, dtype
        self.ends = np.cumsum(lengths)
        self.shape = (int(self.ends[-1]), n_columns)

    @property
    def nbytes(self) -> int:
        """Bytes of the rows as an array, of which CSR takes a part."""
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> Any:
        numbers = np.arange(self.shape[0])[rows]
        homes = np.searchsorted(self.ends, numbers, side="right")
        used = np.unique(homes).tolist()
        starts = np.concatenate([[0], self.ends])
        own = {i: (numbers[homes == i] - starts[i],) for i in used}
        pieces = self.engine.fetch(self.engine.each(_rows_at, numbers=used, own=own))
        if not pieces:
            return np.empty((0, self.shape[1]), dtype=self.dtype)
        stacked = sparse.vstack(pieces, "csr") if is_sparse(pieces[0]) else np.concatenate(pieces)
        return stacked[np.argsort(np.argsort(homes, kind="stable"), kind="stable")]

    def prepared(self, prepare: Callable[[Any], Any] | None) -> PreparedRows:
        """The rows as a map takes them that reads few of them."""
        return PreparedRows(self, prepare)


def _rows_at(memory: Memory, number: int, shard: Shard, places: NDArray[np.int64]) -> Any:
    return shard.X[places]
