"""Designs: the matrix Z = z(X) as solvers see it, held in the form that suits it.

A design with n rows and D columns knows its products and its columns; it need not hold n * D
numbers. ``Dense`` and ``Sparse`` hold them, ``Binned`` holds one small code per row and grid, and
``Lazy`` holds the data and the map and regenerates what is asked for.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from mercer import _core
from mercer._array import check_memory, n_threads, row_chunks

__all__ = ["Binned", "Dense", "Design", "Lazy", "Sparse"]

# Rows whose float32 sum keeps its digits; longer sums add up such parts in float64.
_EXACT_ROWS = 4096


class Design:
    """An n x D matrix by its operations.

    Attributes
    ----------
    shape : tuple of int
        (n_samples, n_columns).
    dtype : numpy.dtype
        float32 or float64: the type of every product. Sums over rows are accumulated in float64
        where the precision of the result would suffer otherwise.
    n_threads : int
        Threads used by the products that are our own.
    """

    shape: tuple[int, int]
    dtype: np.dtype
    n_threads: int = 1

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
        """Those columns as an (n, len(columns)) array."""
        raise NotImplementedError

    def rows(self, index: Any) -> Design:
        """The design of a selection of rows (slice, integers or booleans)."""
        raise NotImplementedError

    def gram(self, weights: NDArray | None = None) -> NDArray[np.float64]:
        """``Z.T @ diag(weights) @ Z`` as a (D, D) float64 array."""
        n, n_columns = self.shape
        check_memory(8.0 * n_columns**2, "the Gram matrix", "use an iterative solver")
        total = np.zeros((n_columns, n_columns))
        for chunk in row_chunks(n, 8.0 * n_columns):
            z = self.rows(chunk).toarray().astype(np.float64, copy=False)
            total += z.T @ (z if weights is None else z * weights[chunk, None])
        return total

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

    @property
    def nbytes(self) -> int:
        """Bytes held."""
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


def _check_float(dtype: np.dtype) -> np.dtype:
    dtype = np.dtype(dtype)
    if dtype not in (np.float32, np.float64):
        raise TypeError(f"a design must be float32 or float64; got {dtype}.")
    return dtype


class Dense(Design):
    """A design that is held as an array.

    Parameters
    ----------
    array : ndarray of shape (n, D), float32 or float64
    n_jobs : int or None, default=None
        Kept for designs derived from this one; products run on NumPy's own threads.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.designs import Dense
    >>> Dense(np.eye(2)).matvec(np.array([3.0, 4.0]))
    array([3., 4.])
    """

    def __init__(self, array: NDArray, n_jobs: int | None = None):
        self.array = np.asarray(array)
        if self.array.ndim != 2:
            raise ValueError(f"array must have two dimensions; got {self.array.ndim}.")
        self.shape = (self.array.shape[0], self.array.shape[1])
        self.dtype = _check_float(self.array.dtype)
        self.n_threads = n_threads(n_jobs)

    def matvec(self, w: NDArray) -> NDArray:
        return self.array @ self._check(w, self.shape[1], "w")

    def rmatvec(self, v: NDArray) -> NDArray:
        v = self._check(v, self.shape[0], "v")
        if self.dtype == np.float64 or self.shape[0] <= _EXACT_ROWS:
            return self.array.T @ v
        total = np.zeros((self.shape[1], *v.shape[1:]))
        for start in range(0, self.shape[0], _EXACT_ROWS):
            chunk = slice(start, start + _EXACT_ROWS)
            total += self.array[chunk].T @ v[chunk]
        return total.astype(self.dtype)

    def column_sqnorms(self, weights: NDArray | None = None) -> NDArray[np.float64]:
        total = np.zeros(self.shape[1])
        for chunk in row_chunks(self.shape[0], 16.0 * self.shape[1]):
            z = self.array[chunk].astype(np.float64, copy=False)
            total += (z * z).sum(0) if weights is None else weights[chunk] @ (z * z)
        return total

    def gram(self, weights: NDArray | None = None) -> NDArray[np.float64]:
        n, n_columns = self.shape
        check_memory(8.0 * n_columns**2, "the Gram matrix", "use an iterative solver")
        total = np.zeros((n_columns, n_columns))
        step = _EXACT_ROWS if self.dtype == np.float32 else max(_EXACT_ROWS, n_columns)
        for start in range(0, n, step):
            z = self.array[start : start + step]
            if weights is None:
                total += z.T @ z
            else:
                total += z.T @ (z * weights[start : start + step, None].astype(self.dtype))
        return total

    def block(self, columns: ArrayLike) -> NDArray:
        return self.array[:, np.asarray(columns)]

    def rows(self, index: Any) -> Dense:
        return Dense(self.array[index], self.n_threads)

    def toarray(self) -> NDArray:
        return self.array

    def views(self) -> dict[str, Any]:
        return {"array": self.array}

    @property
    def nbytes(self) -> int:
        return self.array.nbytes


class Sparse(Design):
    """A design that is held in compressed sparse rows.

    Parameters
    ----------
    matrix : SciPy sparse array or matrix of shape (n, D), float32 or float64
    n_jobs : int or None, default=None

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from mercer.designs import Sparse
    >>> Sparse(sparse.eye_array(2, format="csr")).matvec(np.array([3.0, 4.0]))
    array([3., 4.])
    """

    def __init__(self, matrix: Any, n_jobs: int | None = None):
        self.matrix = sparse.csr_array(matrix)
        self.shape = (self.matrix.shape[0], self.matrix.shape[1])
        self.dtype = _check_float(self.matrix.dtype)
        self.n_threads = n_threads(n_jobs)

    def matvec(self, w: NDArray) -> NDArray:
        return self.matrix @ self._check(w, self.shape[1], "w")

    def rmatvec(self, v: NDArray) -> NDArray:
        v = self._check(v, self.shape[0], "v")
        if self.dtype == np.float64 or self.shape[0] <= _EXACT_ROWS:
            return self.matrix.T @ v
        total = np.zeros((self.shape[1], *v.shape[1:]))
        for start in range(0, self.shape[0], _EXACT_ROWS):
            chunk = slice(start, start + _EXACT_ROWS)
            total += self.matrix[chunk].T @ v[chunk]
        return total.astype(self.dtype)

    def column_sqnorms(self, weights: NDArray | None = None) -> NDArray[np.float64]:
        squares = self.matrix.astype(np.float64).power(2)
        ones = np.ones(self.shape[0]) if weights is None else np.asarray(weights, dtype=np.float64)
        return squares.T @ ones

    def gram(self, weights: NDArray | None = None) -> NDArray[np.float64]:
        n_columns = self.shape[1]
        check_memory(8.0 * n_columns**2, "the Gram matrix", "use an iterative solver")
        z = self.matrix.astype(np.float64)
        scaled = z if weights is None else sparse.diags_array(weights, format="csr") @ z
        return (z.T @ scaled).toarray()

    def block(self, columns: ArrayLike) -> NDArray:
        return self.matrix[:, np.asarray(columns)].toarray()

    def rows(self, index: Any) -> Sparse:
        return Sparse(self.matrix[index], self.n_threads)

    def toarray(self) -> NDArray:
        return self.matrix.toarray()

    def tocsr(self) -> sparse.csr_array:
        return self.matrix

    def views(self) -> dict[str, Any]:
        matrix = self.matrix
        return {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr}

    @property
    def nbytes(self) -> int:
        return self.matrix.data.nbytes + self.matrix.indices.nbytes + self.matrix.indptr.nbytes


class Binned(Design):
    """One code per row and grid: exactly one column of every grid is non-zero in a row.

    Nothing but the codes is held, grid after grid in the narrowest unsigned integers that fit; the
    value of every non-zero is the same number, ``scale``.

    Parameters
    ----------
    codes : ndarray of shape (R, n), uint8, uint16 or uint32
        ``codes[r, i]`` is the column of row i within grid r. A code beyond the grid's columns means
        that the row has no column in it.
    offsets : ndarray of shape (R + 1,), int64
        First column of every grid; the last entry is D.
    scale : float
        The value of a non-zero, 1/sqrt(R) for an approximation of the kernel.
    dtype : dtype, default=float64
        float32 or float64.
    missing : bool, default=False
        Whether codes beyond a grid's columns may occur.
    n_jobs : int or None, default=None
    validate : bool, default=True
        Whether to look through the codes for what ``missing=False`` rules out; products rely on it.

    Raises
    ------
    ValueError
        If shapes do not fit, or a code is beyond its grid although ``missing`` is False.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.designs import Binned
    >>> design = Binned(np.array([[0, 1, 0]], dtype=np.uint8), np.array([0, 2]), scale=1.0)
    >>> design.toarray()
    array([[1., 0.],
           [0., 1.],
           [1., 0.]])
    """

    def __init__(
        self,
        codes: NDArray,
        offsets: ArrayLike,
        scale: float,
        dtype: Any = np.float64,
        missing: bool = False,
        n_jobs: int | None = None,
        *,
        validate: bool = True,
    ):
        self.codes = np.ascontiguousarray(codes)
        self.offsets = np.ascontiguousarray(offsets, dtype=np.int64)
        if self.codes.ndim != 2 or self.offsets.shape != (self.codes.shape[0] + 1,):
            raise ValueError(
                "codes must have shape (R, n) and offsets (R + 1,); "
                f"got {self.codes.shape} and {self.offsets.shape}."
            )
        if validate and not missing and self.codes.size:
            beyond = self.codes.max(axis=1) >= np.diff(self.offsets)
            if beyond.any():
                raise ValueError(
                    "codes must be smaller than the number of columns of their grid unless "
                    f"missing=True; grid {int(np.argmax(beyond))} has a larger one."
                )
        self.scale = float(scale)
        self.shape = (self.codes.shape[1], int(self.offsets[-1]))
        self.dtype = _check_float(dtype)
        self.missing = missing
        self.n_threads = n_threads(n_jobs)

    @property
    def n_grids(self) -> int:
        """Number of grids R."""
        return self.codes.shape[0]

    def matvec(self, w: NDArray) -> NDArray:
        w = self._check(w, self.shape[1], "w")
        return self._product(_core.binned_matvec, w, self.shape[0], self.scale)

    def rmatvec(self, v: NDArray) -> NDArray:
        v = self._check(v, self.shape[0], "v")
        return self._product(_core.binned_rmatvec, v, self.shape[1], self.scale)

    def gram_matvec(self, v: NDArray) -> NDArray:
        v = self._check(v, self.shape[0], "v")
        return self._product(_core.binned_gram_matvec, v, self.shape[0], self.scale**2)

    def _product(self, function: Any, operand: NDArray, length: int, scale: float) -> NDArray:
        out = np.empty((length, *operand.shape[1:]), dtype=self.dtype)
        function(self.codes, self.offsets, operand, out, scale, self.missing, self.n_threads)
        return out

    def column_sqnorms(self, weights: NDArray | None = None) -> NDArray[np.float64]:
        n, n_columns = self.shape
        ones = np.ones(n) if weights is None else np.ascontiguousarray(weights, dtype=np.float64)
        out = np.empty(n_columns)
        _core.binned_rmatvec(
            self.codes, self.offsets, ones, out, self.scale**2, self.missing, self.n_threads
        )
        return out

    def counts(self) -> NDArray[np.int64]:
        """Number of rows in every column, of shape (D,)."""
        return np.rint(self.column_sqnorms() / self.scale**2).astype(np.int64)

    def gram(self, weights: NDArray | None = None) -> NDArray[np.float64]:
        n_columns = self.shape[1]
        check_memory(8.0 * n_columns**2, "the Gram matrix", "use an iterative solver")
        return Sparse(self.tocsr().astype(np.float64)).gram(weights)

    def block(self, columns: ArrayLike) -> NDArray:
        columns = np.asarray(columns)
        grids = np.searchsorted(self.offsets, columns, side="right") - 1
        local = columns - self.offsets[grids]
        block = np.zeros((self.shape[0], len(columns)), dtype=self.dtype)
        for position, (grid, code) in enumerate(zip(grids, local, strict=True)):
            block[self.codes[grid] == code, position] = self.scale
        return block

    def rows(self, index: Any) -> Binned:
        codes = self.codes[:, index]
        return Binned(
            codes,
            self.offsets,
            self.scale,
            self.dtype,
            self.missing,
            self.n_threads,
            validate=False,
        )

    def toarray(self) -> NDArray:
        n, n_columns = self.shape
        check_memory(
            float(n) * n_columns * self.dtype.itemsize, "the dense form of Z", "use tocsr()"
        )
        return self.tocsr().toarray()

    def tocsr(self) -> sparse.csr_array:
        n, n_grids = self.shape[0], self.n_grids
        index = np.int64 if max(self.shape[1], n * n_grids) > np.iinfo(np.int32).max else np.int32
        local = self.codes.T.astype(index)
        present = local < np.diff(self.offsets)
        indptr = np.zeros(n + 1, dtype=index)
        np.cumsum(present.sum(1), out=indptr[1:])
        indices = (local + self.offsets[:-1].astype(index))[present]
        data = np.full(len(indices), self.scale, dtype=self.dtype)
        matrix = sparse.csr_array((data, indices, indptr), shape=self.shape)
        matrix.has_sorted_indices = True
        return matrix

    def views(self) -> dict[str, Any]:
        return {"codes": self.codes, "offsets": self.offsets, "scale": self.scale}

    @property
    def nbytes(self) -> int:
        return self.codes.nbytes + self.offsets.nbytes


class BlockMap(Protocol):
    """What ``Lazy`` needs of a map: some columns for some rows."""

    def transform_block(self, X: Any, columns: Any) -> Any:
        """Columns ``columns`` of z(X)."""


class Lazy(Design):
    """A design that regenerates its columns whenever they are asked for.

    Parameters
    ----------
    X : array or CSR of shape (n, d)
        The data.
    feature_map : object with ``transform_block(X, columns)``
        A fitted map.
    n_columns : int
        Number of columns D of the map.
    dtype : dtype, default=float64
    block_size : int, default=512
        Columns generated at a time; at most n * block_size numbers are held besides X.
    n_jobs : int or None, default=None
    """

    def __init__(
        self,
        X: Any,
        feature_map: BlockMap,
        n_columns: int,
        dtype: Any = np.float64,
        block_size: int = 512,
        n_jobs: int | None = None,
    ):
        self.X = X
        self.feature_map = feature_map
        self.shape = (X.shape[0], int(n_columns))
        self.dtype = _check_float(dtype)
        self.block_size = int(block_size)
        self.n_threads = n_threads(n_jobs)

    def _tiles(self):
        """(rows, columns, z[rows, columns]) over the whole matrix, one tile in memory at a time."""
        n, n_columns = self.shape
        width = min(self.block_size, n_columns)
        for rows in row_chunks(n, self.dtype.itemsize * width):
            X = self.X[rows]
            for start in range(0, n_columns, self.block_size):
                columns = np.arange(start, min(n_columns, start + self.block_size))
                tile = np.asarray(self.feature_map.transform_block(X, columns), dtype=self.dtype)
                yield rows, slice(start, start + len(columns)), tile

    def matvec(self, w: NDArray) -> NDArray:
        w = self._check(w, self.shape[1], "w")
        out = np.zeros((self.shape[0], *w.shape[1:]), dtype=self.dtype)
        for rows, columns, tile in self._tiles():
            out[rows] += tile @ w[columns]
        return out

    def rmatvec(self, v: NDArray) -> NDArray:
        v = self._check(v, self.shape[0], "v")
        total = np.zeros((self.shape[1], *v.shape[1:]))
        for rows, columns, tile in self._tiles():
            total[columns] += Dense(tile).rmatvec(v[rows])
        return total.astype(self.dtype)

    def column_sqnorms(self, weights: NDArray | None = None) -> NDArray[np.float64]:
        total = np.zeros(self.shape[1])
        for rows, columns, tile in self._tiles():
            total[columns] += Dense(tile).column_sqnorms(None if weights is None else weights[rows])
        return total

    def block(self, columns: ArrayLike) -> NDArray:
        columns = np.asarray(columns)
        out = np.empty((self.shape[0], len(columns)), dtype=self.dtype)
        for rows in row_chunks(self.shape[0], self.dtype.itemsize * max(1, len(columns))):
            out[rows] = self.feature_map.transform_block(self.X[rows], columns)
        return out

    def rows(self, index: Any) -> Lazy:
        return Lazy(
            self.X[index],
            self.feature_map,
            self.shape[1],
            self.dtype,
            self.block_size,
            self.n_threads,
        )

    @property
    def nbytes(self) -> int:
        return 0
