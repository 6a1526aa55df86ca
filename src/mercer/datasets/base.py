"""The values this package hands out, and the one error it raises about data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer._runtime.arrays import Matrix


class DataError(ValueError):
    """Data that cannot be used as they are; the message is one sentence saying why and where."""


@dataclass(frozen=True, eq=False)
class Table:
    """The rows and targets of a file, with their names.

    Attributes
    ----------
    X : ndarray of shape (n, d) or scipy.sparse.csr_array of shape (n, d)
        Features; sparse for LIBSVM text and for the CSR form of NPZ.
    y : ndarray of shape (n,) or (n, k), or None
        Target; None when the file has none or none was asked for.
    feature_names : tuple of str, or None
        Column names, None where the file has none.
    target_name : str or None
        Name of the column `y` came from, None where it has no name.
    """

    X: Matrix
    y: np.ndarray | None
    feature_names: tuple[str, ...] | None = None
    target_name: str | None = None

    def __repr__(self) -> str:
        n, d = self.X.shape
        target = "no target" if self.y is None else f"target {self.target_name or 'y'}"
        return f"Table({n} rows, {d} features, {target})"


@dataclass(frozen=True, eq=False)
class Split:
    """Training and test rows, and `split_note`: the sentence that says how they were parted."""

    X_train: Matrix
    y_train: np.ndarray
    X_test: Matrix
    y_test: np.ndarray
    split_note: str

    def __repr__(self) -> str:
        return f"Split({self.split_note})"


@dataclass(frozen=True, eq=False)
class Dataset:
    """A named data set.

    Attributes
    ----------
    name : str
        Name for :func:`load`.
    task : {"classification", "regression"}
        Task that `y` is the target of.
    X, X_test : ndarray or scipy.sparse.csr_array of float32, or pyarrow.Table
        Features, a table where columns hold texts, dates or missing cells; unscaled unless `note`
        says so. `X_test` is None without an official split.
    y, y_test : ndarray
        Class labels (int64) or responses (float64, of shape (n,) or (n, k)).
    feature_names : tuple of str, or None
        Names of the features, where the source has some.
    source, licence, note : str
        Public home, terms of use, and caveats about results on the set.
    is_sample : bool
        Whether the set is a part of a larger public set; results published for the whole set are
        then not comparable.
    stand_in_for : str or None
        Name of an unavailable set that this one replaces.
    is_series : bool
        Whether neighbouring rows are similar, as windows of a time series: a random split would
        then test on rows similar to training rows.
    """

    name: str
    task: str
    X: Matrix
    y: np.ndarray
    X_test: Matrix | None = None
    y_test: np.ndarray | None = None
    feature_names: tuple[str, ...] | None = None
    source: str = ""
    licence: str = ""
    note: str = ""
    is_sample: bool = False
    stand_in_for: str | None = None
    is_series: bool = False

    @property
    def n_train(self) -> int:
        """Number of rows of `X`."""
        return self.X.shape[0]

    @property
    def n_test(self) -> int:
        """Number of rows of the official test part, 0 without one."""
        return 0 if self.X_test is None else self.X_test.shape[0]

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (n_train, d) of `X`."""
        return tuple(self.X.shape)

    def __repr__(self) -> str:
        test = f", {self.n_test} test rows" if self.n_test else ""
        sample = f", a sample of {self.stand_in_for}" if self.is_sample else ""
        n, d = self.shape
        return f"Dataset({self.name!r}, {self.task}, {n} rows, {d} features{test}{sample})"

    def taken(self, rows: np.ndarray) -> Dataset:
        """The set with some of the rows of `X`, by number; the official test part stays.

        Parameters
        ----------
        rows : ndarray of int of shape (m,)

        Returns
        -------
        Dataset

        Examples
        --------
        >>> import numpy as np
        >>> from mercer import datasets
        >>> datasets.load("letter").taken(np.arange(100)).n_train
        100
        """
        return replace(self, X=_taken(self.X, rows), y=self.y[rows])

    def split(self, test_size: float = 0.25, random_state: int | None = 0) -> Split:
        """Training and test rows.

        The official split is used whenever there is one, and the arguments are then not needed.
        Otherwise a seeded random split is drawn: every class keeps its share (a class of one row
        stays in the training part), and both parts come in random order, so that their first rows
        are a fair sample too. Of a series the last rows become the test part instead.

        Parameters
        ----------
        test_size : float, default=0.25
            Share of test rows, in the open interval (0, 1).
        random_state : int or None, default=0
            Seed of the random split; None draws a new one each time.

        Returns
        -------
        Split
            `X_train`, `y_train`, `X_test`, `y_test` and `split_note`.

        Raises
        ------
        ValueError
            If `test_size` is not a share, or leaves one part without a row.

        Examples
        --------
        >>> from mercer import datasets
        >>> parts = datasets.load("letter").split()
        >>> parts.X_train.shape, parts.X_test.shape
        ((15000, 16), (5000, 16))
        >>> parts.split_note
        'official split, 15000 training and 5000 test rows'
        """
        if self.X_test is not None and self.y_test is not None:
            note = f"official split, {self.n_train} training and {self.n_test} test rows"
            return Split(self.X, self.y, self.X_test, self.y_test, note)
        if not 0 < test_size < 1:
            raise ValueError(f"test_size must be a share between 0 and 1, got {test_size!r}")
        stratified = self.task == "classification" and self.y.ndim == 1
        if self.is_series:
            kind = "last rows of the series held out"
            train, test = _cut(self.n_train, test_size, random_state)
        else:
            kind = f"random split with random_state={random_state}"
            kind = f"stratified {kind}" if stratified else kind
            labels = self.y if stratified else None
            train, test = _random_split(labels, self.n_train, test_size, random_state)
        if not (len(train) and len(test)):
            raise ValueError(
                f"test_size={test_size!r} of {self.n_train} rows leaves one part without a row"
            )
        sizes = f"{len(train)} training and {len(test)} test rows"
        note = f"{kind}, {sizes}; {self.name} has no official one"
        X_train, X_test = _taken(self.X, train), _taken(self.X, test)
        return Split(X_train, self.y[train], X_test, self.y[test], note)


def _taken(X: Any, rows: np.ndarray) -> Any:
    """Rows of a table of PyArrow or of a matrix."""
    return X.take(rows) if hasattr(X, "column_names") else X[rows]


def _cut(n: int, test_size: float, random_state: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers of the first rows and of the last ones, each in random order."""
    rng = np.random.default_rng(random_state)
    kept = n - int(np.floor(n * test_size + 0.5))
    return rng.permutation(kept), kept + rng.permutation(n - kept)


def _random_split(
    labels: np.ndarray | None, n: int, test_size: float, random_state: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers of the two parts, each in random order; `labels` keep their shares if given."""
    order = np.random.default_rng(random_state).permutation(n)
    is_test = np.zeros(n, dtype=bool)
    candidates = order
    if labels is not None:
        _, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
        candidates = order[np.argsort(codes[order], kind="stable")]
        candidates = candidates[counts[codes[candidates]] > 1]
    # Rows of one class lie side by side, so every 1/test_size-th row takes its share of each.
    marks = np.floor(np.arange(len(candidates) + 1) * test_size + 0.5)
    is_test[candidates[np.diff(marks) > 0]] = True
    return order[~is_test[order]], order[is_test[order]]
