"""Parts of kernel designs: rows as a kernel takes them, and products with their matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer import _core
from mercer._runtime.arrays import Matrix, n_threads, row_chunks
from mercer._runtime.rows import Data, PreparedRows, bytes_per_row, is_sparse
from mercer.kernels import Kernel, Stationary

__all__ = [
    "InCore",
    "Prepare",
    "alike",
    "in_core",
    "kernel_rows",
    "spans",
    "times",
    "working_bytes",
    "worth_filling",
]

Prepare = Callable[[Any], Any]

# Name, parameter and scale of the inputs under which the core knows a kernel.
InCore = tuple[str, float, NDArray[np.float64]]

# Columns of a float32 matrix per float32 sum in a product with a vector: longer sums lose digits.
_EXACT_COLUMNS = 512

# Columns of a float32 operand up to which the product of the core is faster than that of BLAS.
_FEW_COLUMNS = 32

# CSR rows with at most this number of inputs, or at least this share of non-zeros, become dense.
_FEW_INPUTS = 512
_FILLED_SHARE = 0.05


def kernel_rows(
    data: Data, prepare: Prepare | None, dtype: np.dtype, filled: bool = False
) -> PreparedRows:
    """Rows as a kernel takes them, in ``dtype``; ``filled`` writes selected CSR rows out."""
    rows = data if isinstance(data, PreparedRows) else PreparedRows(data)
    return (rows if prepare is None else rows.then(prepare)).converted(dtype, filled)


def alike(rows: PreparedRows, other: PreparedRows) -> PreparedRows:
    """``rows``, dense or CSR like selected rows of ``other``."""
    if other is rows or rows.data.dtype.kind == "O":
        return rows
    example = other[:1]
    if example.shape[1] != rows.shape[1]:
        raise ValueError(
            "X and landmarks must have the same number of columns; "
            f"got {example.shape[1]} and {rows.shape[1]}."
        )
    if sparse.issparse(example) == sparse.issparse(rows[:1]):
        return rows
    if is_sparse(rows):
        return rows.converted(rows.dtype, filled=True)
    return PreparedRows(sparse.csr_array(rows[:]), dtype=rows.dtype)


def working_bytes(rows: PreparedRows) -> float:
    """Bytes of a row while it is selected: those read plus those made."""
    if rows.filled:
        return 2.0 * rows.dtype.itemsize * rows.shape[1]
    return 0.0 if rows.data.dtype.kind == "O" else 2.0 * bytes_per_row(rows)


def worth_filling(kernel: Kernel, X: Data) -> bool:
    """Whether CSR rows are written out for the core, which knows the kernel of dense ones."""
    if not (is_sparse(X) and isinstance(kernel, Stationary)) or kernel._in_core() is None:
        return False
    data: sparse.csr_array = X.data if isinstance(X, PreparedRows) else X
    d = data.shape[1]
    return d <= _FEW_INPUTS or data.nnz >= _FILLED_SHARE * data.shape[0] * d


def in_core(kernel: Kernel, rows: PreparedRows) -> InCore | None:
    """Name, parameter and scale of inputs of the kernel in the core, if it has it."""
    if not isinstance(kernel, Stationary) or sparse.issparse(rows[:1]):
        return None
    name_and_parameter = kernel._in_core()
    if name_and_parameter is None:
        return None
    return (*name_and_parameter, kernel.input_scale(rows.shape[1]))


def spans(
    points: PreparedRows, landmarks: PreparedRows, side: int, upper: bool
) -> Iterator[tuple[slice, slice]]:
    """Rows and columns of the tiles of a matrix, or of its upper triangle."""
    for rows in row_chunks(len(points), 1.0, side):
        for columns in row_chunks(len(landmarks), 1.0, side):
            if not upper or columns.start >= rows.start:
                yield rows, columns


def times(matrix: Matrix, vector: NDArray, n_jobs: int | None = None) -> NDArray[np.float64]:
    """``matrix @ vector`` in float64, to the precision that the vector has.

    Matrix (n, p), an array or CSR, and vector (p,) or (p, k) are float32 or float64. The core
    multiplies a float32 matrix by few columns in less time than BLAS, whose blocks are
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
        return _in_core(matrix, by_columns, flat, n_jobs).reshape(len(matrix), *vector.shape[1:])
    total = np.zeros((matrix.shape[0], *vector.shape[1:]))
    for columns in row_chunks(matrix.shape[1], 1.0, _EXACT_COLUMNS):
        total += matrix[:, columns] @ vector[columns]
    return total


def _in_core(
    matrix: NDArray, by_columns: bool, vector: NDArray, n_jobs: int | None
) -> NDArray[np.float64]:
    """``matrix @ vector`` for a float32 matrix of either order, to the precision of the vector."""
    k = vector.shape[1]
    if by_columns:
        sums = np.zeros((k, len(matrix)))
        _core.held_product(np.ascontiguousarray(matrix.T), True, vector, sums, n_threads(n_jobs))
        return np.ascontiguousarray(sums.T)
    total, weights = np.zeros((len(matrix), k)), np.ascontiguousarray(vector.T)
    _core.held_product(np.ascontiguousarray(matrix), False, weights, total, n_threads(n_jobs))
    return total
