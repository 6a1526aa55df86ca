"""What designs of kernels are made of: rows as a kernel takes them, and their products."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer import _core
from mercer._array import n_threads, row_chunks
from mercer._rows import bytes_per_row, is_sparse, selected
from mercer.kernels import Kernel, Stationary

__all__ = ["InCore", "KernelRows", "Prepare", "in_core", "spans", "times", "worth_filling"]

Prepare = Callable[[Any], Any]

# Name, parameter and scale of the inputs under which the core knows a kernel.
InCore = tuple[str, float, NDArray[np.float64]]

# Columns of a float32 matrix whose products with a vector are summed up in float32.
_EXACT_COLUMNS = 512

# Columns of float32 up to which the core's product takes less time than that of BLAS.
_FEW_COLUMNS = 32

# CSR rows are better written out where they have few inputs, or at least this share of non-zeros.
_FEW_INPUTS = 512
_FILLED_SHARE = 0.05


class KernelRows:
    """Rows of data as a kernel takes them, a selection at a time.

    Parameters
    ----------
    data : array or CSR of shape (n, d), or texts
    prepare : callable or None
        What selected rows go through.
    dtype : dtype
        What selected rows have if they are numbers.
    filled : bool, default=False
        Whether selected CSR rows are written out.
    """

    def __init__(self, data: Any, prepare: Prepare | None, dtype: np.dtype, filled: bool = False):
        self.data, self.prepare, self.dtype, self.filled = data, prepare, dtype, filled

    def __len__(self) -> int:
        return self.data.shape[0]

    def __getitem__(self, index: Any) -> Any:
        rows = self.data[index]
        if self.prepare is not None:
            rows = self.prepare(rows)
        if rows.dtype.kind == "O":
            return rows
        if sparse.issparse(rows):
            rows = rows.astype(self.dtype, copy=False)
            return rows.toarray() if self.filled else rows
        return np.ascontiguousarray(rows, dtype=self.dtype)

    def taken(self, index: Any) -> KernelRows:
        """A selection of the rows, prepared as these are."""
        return KernelRows(selected(self.data, index), self.prepare, self.dtype, self.filled)

    def wide(self) -> KernelRows:
        """These rows in float64."""
        return KernelRows(self.data, self.prepare, np.dtype(np.float64), self.filled)

    def alike(self, other: KernelRows) -> KernelRows:
        """These rows, dense or CSR as those of ``other`` are when they are selected."""
        if other is self or self.data.dtype.kind == "O":
            return self
        example = other[:1]
        if example.shape[1] != self.data.shape[1]:
            raise ValueError(
                "X and landmarks must have the same number of columns; "
                f"got {example.shape[1]} and {self.data.shape[1]}."
            )
        if sparse.issparse(example) == sparse.issparse(self[:1]):
            return self
        if is_sparse(self.data):
            return KernelRows(self.data, self.prepare, self.dtype, filled=True)
        return KernelRows(sparse.csr_array(self.data), self.prepare, self.dtype)

    @property
    def bytes_per_row(self) -> float:
        """Of selected rows that are not prepared."""
        if self.filled:
            return 2.0 * self.dtype.itemsize * self.data.shape[1]
        return 0.0 if self.data.dtype.kind == "O" else 2.0 * bytes_per_row(self.data)


def worth_filling(kernel: Kernel, X: Any) -> bool:
    """Whether CSR rows are written out for the core, which knows the kernel of dense ones."""
    if not (is_sparse(X) and isinstance(kernel, Stationary)) or kernel._in_core() is None:
        return False
    data = X.data if hasattr(X, "prepare") else X
    d = data.shape[1]
    return d <= _FEW_INPUTS or data.nnz >= _FILLED_SHARE * data.shape[0] * d


def in_core(kernel: Kernel, rows: KernelRows) -> InCore | None:
    """What the core calls the kernel, its parameter and the scale of inputs, if it has it."""
    if not isinstance(kernel, Stationary) or sparse.issparse(example := rows[:1]):
        return None
    found = kernel._in_core()
    return None if found is None else (*found, kernel.input_scale(example.shape[1]))


def spans(
    points: KernelRows, landmarks: KernelRows, side: int, upper: bool
) -> Iterator[tuple[slice, slice]]:
    """Rows and columns of the tiles of a matrix, or of its upper triangle."""
    for rows in row_chunks(len(points), 1.0, side):
        for columns in row_chunks(len(landmarks), 1.0, side):
            if not upper or columns.start >= rows.start:
                yield rows, columns


def times(matrix: Any, vector: NDArray) -> NDArray[np.float64]:
    """``matrix @ vector``, to the precision that the vector has.

    Parameters
    ----------
    matrix : ndarray or CSR of shape (n, p), float32 or float64
    vector : ndarray of shape (p,) or (p, k), float32 or float64

    Returns
    -------
    ndarray of shape (n,) or (n, k), float64

    Notes
    -----
    The core multiplies a float32 matrix by few columns in less time than BLAS, whose blocks are
    made for many: these wait for the memory, so that it costs little to widen the numbers for a
    vector of float64.
    """
    if sparse.issparse(matrix):
        return matrix.astype(np.float64, copy=False) @ vector.astype(np.float64, copy=False)
    if matrix.dtype == np.float64:  # in BLAS, few long rows take half the time of few columns
        rows = np.ascontiguousarray(vector.T, dtype=np.float64)
        return np.ascontiguousarray((rows @ matrix.T).T)
    k = int(np.prod(vector.shape[1:]))
    by_columns = matrix.strides[0] < matrix.strides[1]
    if vector.dtype == np.float64 or (k <= _FEW_COLUMNS and not by_columns):
        flat = np.ascontiguousarray(vector.reshape(len(vector), k))
        return _in_core(matrix, by_columns, flat).reshape(len(matrix), *vector.shape[1:])
    total = np.zeros((matrix.shape[0], *vector.shape[1:]))
    for columns in row_chunks(matrix.shape[1], 1.0, _EXACT_COLUMNS):
        total += matrix[:, columns] @ vector[columns]
    return total


def _in_core(matrix: NDArray, by_columns: bool, vector: NDArray) -> NDArray[np.float64]:
    """``matrix @ vector`` for a float32 matrix of either order, to the precision of the vector."""
    k = vector.shape[1]
    if by_columns:
        sums = np.zeros((k, len(matrix)))
        _core.held_product(np.ascontiguousarray(matrix.T), True, vector, sums, n_threads())
        return np.ascontiguousarray(sums.T)
    total, weights = np.zeros((len(matrix), k)), np.ascontiguousarray(vector.T)
    _core.held_product(np.ascontiguousarray(matrix), False, weights, total, n_threads())
    return total
