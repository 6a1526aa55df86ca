"""Rows that are prepared when they are read, so that memory never holds a second array of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from mercer._runtime.arrays import Index, Matrix, check_memory, chunk_bytes

__all__ = [
    "Data",
    "FarRows",
    "PreparedRows",
    "bytes_per_row",
    "is_far",
    "is_large",
    "is_sparse",
    "recoded",
    "selected",
]

_LARGE = 32 * 2**20  # bytes from which an array is worth working through in pieces


class FarRows:
    """Rows of a table on other machines; selected rows come here. Base class of ``distributed``."""

    ndim = 2
    shape: tuple[int, int]
    dtype: np.dtype
    names: list[str] | None = None  # of the columns, where they have any

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def nbytes(self) -> int:
        """Bytes of all the rows in one array."""
        return int(self.shape[0] * self.shape[1] * self.dtype.itemsize)

    def __getitem__(self, rows: Index) -> Any:
        raise NotImplementedError

    def taken(self, rows: NDArray[np.int64]) -> FarRows:
        """Some of the rows, in increasing order, which stay where they are."""
        raise NotImplementedError

    def row_numbers(self) -> NDArray[np.uint64]:
        """A number for every row, (n,), equal for equal rows."""
        raise NotImplementedError

    def results(self, work: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]) -> list[Any]:
        """``work(*task)`` of every task, each called on one of the machines."""
        raise NotImplementedError

    def recoded(self, step: Callable[[NDArray], NDArray]) -> FarRows:
        """Rows whose targets pass through ``step`` on the machines that have them."""
        raise NotImplementedError

    def checked_for(self, estimator: Any, reset: bool) -> FarRows:
        """Return the rows if an estimator of tables can be fitted to them."""
        raise NotImplementedError

    def labels(self, reading: Any, places: list[int]) -> dict[int, Any]:
        """Columns of labels, all of their rows brought here, where ``reading`` says how to read."""
        raise NotImplementedError

    def treated(
        self,
        treat: Callable[[Any], Any],
        known: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray]],
        like: NDArray,
    ) -> PreparedRows:
        """The rows after ``treat``; ``known`` replaces cells: numbers of rows, columns, values."""
        raise NotImplementedError

    def numbered(
        self,
        steps: Any,
        like: NDArray,
        target: Any,
        outputs: tuple[int, ...],
        weights: NDArray | None,
    ) -> Any:
        """Engine of ``NumberedRows``, these rows after some steps, like ``like``.

        ``target`` codes the targets of the shards, to ``outputs`` () or (k,) per row.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class _Then:
    """One step after another."""

    first: Callable[[Any], Any]
    second: Callable[[Any], Any]

    def __call__(self, rows: Any) -> Any:
        return self.second(self.first(rows))


class PreparedRows:
    """The rows of a matrix as ``prepare`` gives them, or a selection of them, prepared on access.

    ``data``, an array or CSR of shape (n, d) or texts of shape (n,), may be a memory map; ``index``
    selects rows of it, None all. ``prepare`` maps rows to rows, each by itself, of ``n_columns``
    columns if that is given and else of as many as there are. Numbers are then converted to
    ``dtype``, C-ordered, if it is given, and CSR rows written out as arrays if ``filled``.
    """

    def __init__(
        self,
        data: Matrix | FarRows,
        prepare: Callable[[Any], Any] | None = None,
        index: NDArray[np.int64] | None = None,
        dtype: DTypeLike | None = None,
        filled: bool = False,
        n_columns: int | None = None,
    ):
        self.data, self.prepare, self.index, self.n_columns = data, prepare, index, n_columns
        self.converts, self.filled = dtype is not None, filled
        self.dtype: np.dtype = data.dtype if dtype is None else np.dtype(dtype)

    @property
    def ndim(self) -> int:
        return self.data.ndim

    @property
    def shape(self) -> tuple[int, ...]:
        columns = self.data.shape[1:] if self.n_columns is None else (self.n_columns,)
        return (len(self), *columns)

    @property
    def nbytes(self) -> int:
        """Bytes of all the rows in one array."""
        return int(bytes_per_row(self) * len(self))

    def __len__(self) -> int:
        return self.data.shape[0] if self.index is None else len(self.index)

    def __getitem__(self, rows: Index) -> Matrix:
        selection = self.data[rows if self.index is None else self.index[rows]]
        if self.prepare is not None:
            selection = self.prepare(selection)
        if not self.converts or selection.dtype.kind == "O":
            return selection
        if is_sparse(selection):
            selection = selection.astype(self.dtype, copy=False)
            return selection.toarray() if self.filled else selection
        return np.ascontiguousarray(selection, dtype=self.dtype)

    def together(self) -> Matrix:
        """All the rows in one array, or a MemoryError if they would not fit."""
        check_memory(
            self.nbytes,
            f"a prepared copy of {len(self)} rows of {self.shape[1]} inputs",
            "take a feature map that goes by rows, such as 'binning', 'fourier' or 'nystroem', or "
            "scale the data beforehand and say scale=False",
        )
        return self[:]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray:
        """All rows as one array."""
        return np.asarray(self.together(), dtype=dtype)

    def then(self, step: Callable[[Any], Any]) -> PreparedRows:
        """Rows that pass through ``step`` when they are read, before any conversion."""
        first = self.prepare
        return self._with(prepare=step if first is None else _Then(first, step))

    def converted(self, dtype: DTypeLike, filled: bool = False) -> PreparedRows:
        """C-ordered rows of ``dtype``; CSR rows become arrays if ``filled``."""
        return self._with(dtype=dtype, filled=filled)

    def taken(self, rows: Index) -> PreparedRows:
        """A selection of the rows, still to be read."""
        index = np.arange(len(self)) if self.index is None else self.index
        return self._with(index=index[rows])

    def _with(self, **changed: Any) -> PreparedRows:
        names = ("data", "prepare", "index", "filled", "n_columns")
        same = {name: getattr(self, name) for name in names}
        return PreparedRows(**{**same, "dtype": self.dtype if self.converts else None, **changed})


# Rows that are in memory, or that are prepared when they are read.
Data: TypeAlias = Matrix | PreparedRows


def is_far(X: Any) -> bool:
    """Whether X are prepared rows of other machines."""
    return isinstance(X, PreparedRows) and isinstance(X.data, FarRows)


def recoded(X: Any, step: Callable[[NDArray], NDArray]) -> Any:
    """Rows for a fit to ``step(y)``; rows on other machines transform their own y."""
    if isinstance(X, FarRows):
        return X.recoded(step)
    return X._with(data=X.data.recoded(step)) if is_far(X) else X


def is_large(X: Any) -> bool:
    """Whether X is a matrix that is better worked through in pieces than copied."""
    if isinstance(X, PreparedRows):
        return True
    is_matrix = isinstance(X, (np.ndarray, sparse.csr_array, sparse.csr_matrix)) and X.ndim == 2
    return is_matrix and _nbytes(X) > min(_LARGE, chunk_bytes())


def is_sparse(X: Any) -> TypeGuard[sparse.csr_array]:
    """Whether rows of X are CSR."""
    return bool(sparse.issparse(X.data if isinstance(X, PreparedRows) else X))


def selected(X: Data, rows: Index) -> Data:
    """``X[rows]``, not read yet where X is large."""
    if not is_large(X):
        return X[rows]
    return (X if isinstance(X, PreparedRows) else PreparedRows(X)).taken(rows)


def bytes_per_row(X: Data) -> float:
    """Bytes of a row of X, on average."""
    data = X.data if isinstance(X, PreparedRows) else X
    if isinstance(X, PreparedRows) and X.n_columns is not None:
        return float(X.n_columns * X.dtype.itemsize)
    return _nbytes(data) / max(1, data.shape[0])


def _nbytes(X: Matrix) -> int:
    if is_sparse(X):
        return X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    return X.nbytes
