"""What scalers of inputs share: rows and targets to learn from, and rows in their scales."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import validate_data

from mercer._runtime.random import Slot, shuffled
from mercer._runtime.rows import PreparedRows
from mercer._runtime.sparse import canonical_csr
from mercer._runtime.state import Checked, State
from mercer._runtime.threads import one_blas_thread
from mercer._runtime.validation import check_weights, is_plain, weighted_mean
from mercer.estimators.targets import signs

__all__ = ["METRICS", "InputScaler", "as_columns", "at_unit_distance", "sampled", "scaled"]

METRICS = ("cityblock", "euclidean", "sqeuclidean")
_MOST_DENSE = 2000  # inputs up to which rows are dense where others were left out
_PAIRED, _OTHERS = 400, 6  # rows of the median distance, each to one fewer than _OTHERS others


class InputScaler(Checked, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Base of transformers that multiply each input by a scale, or rows by a matrix."""

    power: float

    _fitted_by: ClassVar[str] = "matrix_"

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = self.power != 0
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the scales.

        Parameters
        ----------
        X : array or CSR of shape (n, d)
            Inputs of comparable size, such as the output of TablePreparer.
        y : array of shape (n,) or (n, k)
            Targets or labels; not needed with ``power=0``.
        sample_weight : array of shape (n,), default=None
            Weight per row, >= 0, of its error and its derivatives. The median distance is over all
            rows of positive weight, unweighted.

        Returns
        -------
        self
        """
        self._check_settings()
        X, options = canonical_csr(X), {"accept_sparse": "csr", "dtype": (np.float64, np.float32)}
        if isinstance(X, PreparedRows):  # checked by whoever prepares them
            self.n_features_in_ = X.shape[1]
        elif self.power == 0:
            X = validate_data(self, X, **options)
        else:
            X, y = validate_data(self, X, y, multi_output=True, **options)
        weights = check_weights(sample_weight, X)
        if weights is not None and not weights.all():
            kept = np.flatnonzero(weights)
            X, y, weights = X[kept], None if y is None else np.asarray(y)[kept], weights[kept]
        with one_blas_thread():
            matrix, self.matrix_ = self._matrices(X, y, weights)
        lengths = np.abs(matrix) if matrix.ndim == 1 else np.sqrt(np.sum(matrix**2, axis=1))
        self.scales_ = lengths / lengths.max()
        return self

    def _check_settings(self) -> None:
        """Refuse invalid settings."""
        raise NotImplementedError

    def _matrices(self, X: Any, y: Any, weights: NDArray | None) -> tuple[NDArray, NDArray]:
        """Scales or a matrix in any unit, and ``matrix_``, from checked rows of weights above 0."""
        raise NotImplementedError

    def transform(self, X: Any) -> Any:
        """Rows in the scaled inputs.

        Parameters
        ----------
        X : array or CSR of shape (n, d)

        Returns
        -------
        array or CSR of shape (n, d'), in the dtype of X
            Columns of the inputs whose scale is not 0.

        Raises
        ------
        ValueError
            If a scaled input exceeds the range of the dtype of X.
        """
        self._check_fitted()
        if isinstance(X, PreparedRows):
            return X.then(self.transform)
        if not is_plain(X, self):
            X, options = (
                canonical_csr(X),
                {"accept_sparse": "csr", "dtype": (np.float64, np.float32)},
            )
            X = validate_data(self, X, reset=False, **options)
        with np.errstate(over="ignore", invalid="ignore"):
            rows = scaled(X, self.matrix_)
            values = rows.data if sparse.issparse(rows) else rows
            in_range = np.isfinite(values.sum()) or np.isfinite(values).all()
        if not in_range:
            raise ValueError(f"X must have scaled inputs within the range of {X.dtype}.")
        return rows

    def get_feature_names_out(self, input_features: Any = None) -> NDArray:
        """Names of the columns of ``transform``: inputs whose scale is not 0.

        Parameters
        ----------
        input_features : array of str of shape (d,) or None, default=None
            Names of the inputs; by default those of the fit.

        Returns
        -------
        ndarray of str of shape (d',)
        """
        self._check_fitted()
        names: NDArray = super().get_feature_names_out(input_features)
        return names[self.scales_ != 0]

    def _check_state(self) -> None:
        state, d = State(self), State(self).integer("n_features_in_", 1)
        is_flat = np.ndim(state.value("matrix_")) == 1
        state.array("matrix_", (d,) if is_flat else (d, d))


def sampled(X: Any, key: int, most: int) -> tuple[NDArray[np.int64], Any, float]:
    """Numbers of at most so many rows at random, the rows divided by a unit, and the unit."""
    rows = shuffled(key, X.shape[0], most, Slot.SHUFFLE)
    sample = X[rows]
    unit = _unit(sample)  # squares of large numbers leave the range of float32
    return rows, sample / X.dtype.type(unit), unit


def _unit(rows: Any) -> float:
    """The power of two next to the largest number, by which rows are divided without rounding."""
    values = rows.data if sparse.issparse(rows) else rows
    return float(np.ldexp(1.0, np.frexp(np.max(np.abs(values), initial=0.0))[1] - 1))


def at_unit_distance(X: Any, matrix: NDArray, metric: str) -> NDArray:
    """``matrix`` times the number that brings the median distance between rows to 1.

    Rows are in random order; equal ones do not count.
    """
    rows = scaled(X[:_PAIRED], matrix)
    rows = rows.toarray() if sparse.issparse(rows) else rows
    power = 1 if metric == "cityblock" else 2
    distances = [
        np.sum(np.abs(rows - np.roll(rows, shift, axis=0)) ** power, axis=1, dtype=np.float64)
        for shift in range(1, min(_OTHERS, len(rows)))
    ]
    apart = np.concatenate([np.zeros(1), *distances])
    apart = apart[apart > 0]
    with np.errstate(over="ignore"):  # beside one huge number, distances may be next to nothing
        factor = (np.median(apart) if len(apart) else np.float64(1.0)) ** (-1 / power)
    most = np.finfo(np.float64).max / max(1.0, float(np.max(np.abs(matrix), initial=0.0)))
    return matrix * min(float(factor), most)


def as_columns(y: NDArray, kind: str, weights: NDArray | None) -> NDArray[np.float64]:
    """Targets (n, k) of mean 0, classes as columns of -1 and 1."""
    if kind == "auto":
        with np.errstate(invalid="ignore"):  # whole numbers beyond all integers
            kind = "continuous" if type_of_target(y).startswith("continuous") else "classes"
    if kind == "classes" and y.ndim == 1:
        classes, labels = np.unique(y, return_inverse=True)
        y = signs(labels, len(classes))
    target = y.reshape(len(y), -1).astype(np.float64)
    target = target - weighted_mean(target, weights)
    if kind == "classes":
        return target
    with np.errstate(over="ignore", under="ignore"):
        spread = float(target.std())
    if not 0 < spread < np.inf:  # squares of large and small numbers leave the range of float64
        target = target / (np.abs(target).max(initial=0.0) or 1.0)
        spread = float(target.std())
    return target / (spread or 1.0)


def scaled(X: Any, matrix: NDArray) -> Any:
    """Return X in its dtype with columns scaled, or left out by 0, or turned by a square matrix."""
    if matrix.ndim == 1:
        if not matrix.all():
            kept = np.flatnonzero(matrix)
            # Trees need rows that lie in one piece, as those of X[:, kept] do not.
            X = X.take(kept, axis=1) if isinstance(X, np.ndarray) else X[:, kept]
            matrix = matrix[kept]
            X = X.toarray() if sparse.issparse(X) and len(kept) <= _MOST_DENSE else X
        if sparse.issparse(X):
            return sparse.csr_array(X.multiply(matrix[None, :].astype(X.dtype)))
        return X * matrix.astype(X.dtype)
    return X @ matrix.astype(X.dtype)
