"""The design that holds compressed sparse rows."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from mercer._runtime.arrays import Index, n_threads
from mercer._runtime.rows import Data
from mercer._runtime.sparse import canonical_csr
from mercer.designs.base import Design, check_gram, float_dtype, transposed_product
from mercer.designs.lists import ColumnLists

__all__ = ["Sparse"]


class Sparse(Design):
    """Design stored as compressed sparse rows.

    Parameters
    ----------
    matrix : SciPy sparse array or matrix of shape (n, D), float32 or float64
        Entries of the matrix.
    n_jobs : int or None, default=None
        Number of threads of products; None means all.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from mercer.designs import Sparse
    >>> Sparse(sparse.eye_array(2, format="csr")).matvec(np.array([3.0, 4.0]))
    array([3., 4.])
    """

    def __init__(self, matrix: Any, n_jobs: int | None = None):
        matrix = canonical_csr(matrix, "matrix")
        matrix = matrix if sparse.issparse(matrix) else np.asarray(matrix)  # frames and lists
        self.dtype = float_dtype(matrix.dtype)  # SciPy does not take every one
        self.matrix = sparse.csr_array(matrix)
        self.shape = (self.matrix.shape[0], self.matrix.shape[1])
        self.n_threads = n_threads(n_jobs)

    def matvec(self, w: NDArray) -> NDArray:
        return self.matrix @ self._check(w, self.shape[1], "w")

    def rmatvec(self, v: NDArray) -> NDArray:
        return transposed_product(self.matrix, self._check(v, self.shape[0], "v"))

    def column_sqnorms(self, weights: NDArray | None = None) -> NDArray[np.float64]:
        squares = self.matrix.astype(np.float64).power(2)
        ones = np.ones(self.shape[0]) if weights is None else np.asarray(weights, dtype=np.float64)
        return squares.T @ ones

    def gram(self, weights: NDArray | None = None) -> NDArray[np.float64]:
        n_columns = self.shape[1]
        check_gram(n_columns)
        z = self.matrix.astype(np.float64)
        scaled = z if weights is None else sparse.diags_array(weights, format="csr") @ z
        return (z.T @ scaled).toarray()

    @cached_property
    def by_column(self) -> sparse.csc_array:
        """The matrix in float64, column by column."""
        return self.matrix.astype(np.float64, copy=False).tocsc()

    def products(
        self, left: NDArray, right: NDArray | None = None, weights: NDArray | None = None
    ) -> NDArray[np.float64]:
        z = self.by_column[:, left]
        other = z if right is None else self.by_column[:, right]
        if weights is not None:
            other = other.multiply(weights[:, None]).tocsc()
        return (z.T @ other).toarray()

    def lists(self, columns: NDArray, rows: NDArray | None = None) -> ColumnLists:
        z = self.by_column[:, columns]
        z = z if rows is None else z[rows]
        z.sort_indices()
        return ColumnLists(z.indptr.astype(np.int64), z.indices.astype(np.uint32), z.data, 1.0)

    def block(self, columns: ArrayLike) -> NDArray:
        return self.matrix[:, np.asarray(columns)].toarray()

    def rows(self, index: Index) -> Sparse:
        return Sparse(self.matrix[index], self.n_threads)

    def toarray(self) -> NDArray:
        return self.matrix.toarray()

    def tocsr(self) -> sparse.csr_array:
        return self.matrix

    def views(self) -> dict[str, Any]:
        matrix = self.matrix
        return {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr}

    def sources(self) -> list[Data]:
        return [self.matrix]

    @property
    def nbytes(self) -> int:
        return self.matrix.data.nbytes + self.matrix.indices.nbytes + self.matrix.indptr.nbytes
