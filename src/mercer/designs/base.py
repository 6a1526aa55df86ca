"""The interface of designs: an n x D matrix by its operations."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy import sparse

from mercer._runtime.arrays import Index, Matrix, check_memory, row_chunks
from mercer._runtime.devices import Device
from mercer._runtime.rows import Data
from mercer.designs.lists import ColumnLists

__all__ = ["Design", "check_gram", "float_dtype", "transposed_product"]

# Rows summed in float32 before the sum continues in float64: longer sums lose digits.
_EXACT_ROWS = 4096


class Design:
    """An n x D matrix by its operations.

    Attributes
    ----------
    shape : tuple of int
        (n_samples, n_columns).
    dtype : numpy.dtype
        Type of all products, float32 or float64. Long sums over rows are accumulated in float64.
    n_threads : int
        Number of threads of products in the C++ core.
    n_missing : int
        Number of features that rows lack because ``fit`` did not see them, such as unseen bins,
        summed over the rows; 0 for maps without such features.
    shuffled : bool
        Whether columns are in random order already, and neighbours are computed together.
    device : Device or None
        Device of the vectors that products take and return; None is the processor.
    """

    shape: tuple[int, int]
    dtype: np.dtype
    n_threads: int = 1
    n_missing: int = 0
    shuffled: bool = False
    device: Device | None = None

    def matvec(self, w: NDArray) -> NDArray:
        """``Z @ w`` for w of shape (D,) or (D, k)."""
        raise NotImplementedError

    def rmatvec(self, v: NDArray) -> NDArray:
        """``Z.T @ v`` for v of shape (n,) or (n, k)."""
        raise NotImplementedError

    def gram_matvec(self, v: NDArray) -> NDArray:
        """``Z @ (Z.T @ v)``: the approximated kernel matrix times v, of shape (n,) or (n, k)."""
        return self.matvec(self.rmatvec(v))

    def column_sqnorms(self, weights: NDArray | None = None) -> NDArray[np.float64]:
        """``sum_i weights_i * z_ij**2`` for every column j, weights all one by default."""
        raise NotImplementedError

    def block(self, columns: ArrayLike) -> NDArray:
        """Some columns as an (n, len(columns)) array."""
        raise NotImplementedError

    def rows(self, index: Index) -> Design:
        """The design of a selection of rows (slice, integers or booleans)."""
        raise NotImplementedError

    def gram(self, weights: NDArray | None = None) -> NDArray[np.float64]:
        """``Z.T @ diag(weights) @ Z`` as a (D, D) float64 array."""
        n, n_columns = self.shape
        check_gram(n_columns)
        total = np.zeros((n_columns, n_columns))
        for chunk in row_chunks(n, 8.0 * n_columns):
            z = self.rows(chunk).toarray().astype(np.float64, copy=False)
            total += z.T @ (z if weights is None else z * weights[chunk, None])
        return total

    def products(
        self, left: NDArray, right: NDArray | None = None, weights: NDArray | None = None
    ) -> NDArray[np.float64]:
        """``Z[:, left].T @ diag(weights) @ Z[:, right]``; ``right`` is ``left`` by default.

        The array is float64 of shape (len(left), len(right)); weights are all one by default.
        """
        others = left if right is None else right
        total = np.zeros((len(left), len(others)))
        for chunk in row_chunks(self.shape[0], 8.0 * (len(left) + len(others))):
            rows = self.rows(chunk)
            z = rows.block(left).astype(np.float64, copy=False)
            other = z if right is None else rows.block(right).astype(np.float64, copy=False)
            total += z.T @ (other if weights is None else other * weights[chunk, None])
        return total

    def lists(self, columns: NDArray, rows: NDArray | None = None) -> ColumnLists:
        """Entries of ascending columns, column by column, over ascending rows; None for all."""
        z = (self if rows is None else self.rows(rows)).block(columns)
        n_rows, count = z.shape
        values = z.astype(np.float64, copy=False).T.ravel()
        numbers = np.tile(np.arange(n_rows, dtype=np.uint32), count)
        return ColumnLists(np.arange(count + 1, dtype=np.int64) * n_rows, numbers, values, 1.0)

    def toarray(self) -> NDArray:
        """The whole matrix as an (n, D) array."""
        return self.block(np.arange(self.shape[1]))

    def tocsr(self) -> sparse.csr_array:
        """The whole matrix in compressed sparse rows."""
        return sparse.csr_array(self.toarray())

    def views(self) -> dict[str, Any]:
        """Raw buffers for compiled solvers."""
        raise NotImplementedError(
            f"{type(self).__name__} has no raw buffers; solvers that need only products "
            "(cholesky, cg, newton-cg) accept it."
        )

    def sources(self) -> list[Data]:
        """Arrays, CSR, texts or ``PreparedRows``: all that the matrix is made of as data."""
        raise NotImplementedError

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that the design stores."""
        raise NotImplementedError

    def __repr__(self) -> str:
        n, n_columns = self.shape
        return f"<{type(self).__name__} design {n} x {n_columns}, {self.dtype}>"

    def _check(self, vector: NDArray, length: int, name: str) -> NDArray:
        """``vector`` in this design's dtype, C-ordered, with the right number of rows."""
        vector = np.ascontiguousarray(vector, dtype=self.dtype)
        if vector.ndim not in (1, 2) or vector.shape[0] != length:
            raise ValueError(
                f"{name} must have {length} rows and one or two dimensions; "
                f"got shape {vector.shape}."
            )
        return vector


def transposed_product(matrix: Matrix, v: NDArray) -> NDArray:
    """``matrix.T @ v`` for an array or CSR of v's dtype; long float32 sums go on in float64."""
    if matrix.dtype == np.float64 or matrix.shape[0] <= _EXACT_ROWS:
        return matrix.T @ v
    total = np.zeros((matrix.shape[1], *v.shape[1:]))
    for start in range(0, matrix.shape[0], _EXACT_ROWS):
        chunk = slice(start, start + _EXACT_ROWS)
        total += matrix[chunk].T @ v[chunk]
    return total.astype(v.dtype)


def check_gram(n_columns: int) -> None:
    """Refuse a Gram matrix that would not fit."""
    check_memory(
        8.0 * n_columns**2,
        f"the Gram matrix of {n_columns} columns",
        lambda room: f"use an iterative solver, or at most {int((room / 8.0) ** 0.5)} columns",
    )


def float_dtype(dtype: DTypeLike) -> np.dtype:
    """``dtype`` if it is one that designs have."""
    dtype = np.dtype(dtype)
    if dtype not in (np.float32, np.float64):
        raise TypeError(f"a design must be float32 or float64; got {dtype}.")
    return dtype
