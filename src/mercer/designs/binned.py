"""The design of random binning: codes instead of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy import sparse

from mercer import _core
from mercer._runtime.arrays import Index, check_memory, n_threads
from mercer._runtime.rows import Data
from mercer.designs.base import Design, check_gram, float_dtype
from mercer.designs.lists import ColumnLists
from mercer.designs.occupancy import Occupancy
from mercer.designs.sparse import Sparse

__all__ = ["Binned", "BlockWeights"]

_BLOCK = 512  # rows of a bitmap that share one weight
_LARGEST = 2**24  # largest weight of a block as an integer
_FINEST = np.uint16(2**16 - 1)  # largest weight of a row as an integer for sorting
_REMEDY = "raise alpha, so that fewer columns are at work, or use fewer grids"
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class BlockWeights:
    """Weights of rows that bitmaps count cheaply: 512 rows of similar weight share their mean."""

    order: NDArray[np.uint32]  # rows by descending weight, without those of weight 0
    counts: NDArray[np.uint32]  # weight of each block, in units of ``unit``
    unit: float
    values: NDArray[np.float64]  # rounded weights of all rows, (n,)

    @classmethod
    def of(cls, weights: NDArray[np.float64]) -> BlockWeights:
        """The weights (n,) >= 0, rounded."""
        keys = np.rint(weights * (_FINEST / max(float(np.max(weights)), _TINY))).astype(np.uint16)
        order = np.argsort(_FINEST - keys, kind="stable")[: np.count_nonzero(keys)]  # by digits
        starts = np.arange(0, len(order), _BLOCK)
        sizes = np.diff(np.append(starts, len(order)))
        means = np.add.reduceat(weights[order], starts) / sizes if len(order) else np.zeros(0)
        unit = float(means[0]) / _LARGEST if len(means) else 1.0
        counts = np.rint(means / unit).astype(np.uint32)
        values = np.zeros(len(weights))
        values[order] = np.repeat(counts * unit, sizes)
        return cls(order.astype(np.uint32), counts, unit, values)


class Binned(Design):
    """One code per row and grid: exactly one column of every grid is non-zero in a row.

    The design stores the codes only, grid after grid in the narrowest unsigned integers that fit.
    All non-zeros have the same value, ``scale``.

    Parameters
    ----------
    codes : ndarray of shape (R, n), uint8, uint16 or uint32
        Codes: ``codes[r, i]`` is the column of row i within grid r. A code beyond the columns of
        the grid means that the row has no column in it.
    offsets : ndarray of shape (R + 1,), int64
        First column of each grid; the last entry is D.
    scale : float
        Value of the non-zeros, 1/sqrt(R) for an approximation of the kernel.
    dtype : dtype, default=float64
        Type of products, float32 or float64.
    missing : bool, default=False
        Whether codes beyond the columns of a grid may occur.
    n_jobs : int or None, default=None
        Number of threads of products; None means all.
    validate : bool, default=True
        Whether to check the codes for ``missing=False``; products rely on it.
    n_missing : int, optional
        Number of codes beyond the columns of their grid, if known; otherwise counted at first use.

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
        dtype: DTypeLike = np.float64,
        missing: bool = False,
        n_jobs: int | None = None,
        *,
        validate: bool = True,
        n_missing: int | None = None,
    ):
        self.codes = np.ascontiguousarray(codes)
        self.offsets = np.ascontiguousarray(offsets, dtype=np.int64)
        if self.codes.ndim != 2 or self.offsets.shape != (self.codes.shape[0] + 1,):
            raise ValueError(
                "codes must have shape (R, n) and offsets (R + 1,); "
                f"got {self.codes.shape} and {self.offsets.shape}."
            )
        if self.codes.dtype not in (np.uint8, np.uint16, np.uint32):
            raise TypeError(f"codes must be uint8, uint16 or uint32; got {self.codes.dtype}.")
        if self.offsets[0] != 0 or np.any(np.diff(self.offsets) < 0):
            raise ValueError("offsets must begin with 0 and not decrease.")
        if validate and not missing and self.codes.size:
            beyond = self.codes.max(axis=1) >= np.diff(self.offsets)
            if beyond.any():
                raise ValueError(
                    "codes must be smaller than the number of columns of their grid unless "
                    f"missing=True; grid {int(np.argmax(beyond))} has a larger one."
                )
        self.scale = float(scale)
        self.shape = (self.codes.shape[1], int(self.offsets[-1]))
        self.dtype = float_dtype(dtype)
        self.missing = missing
        self.n_threads = n_threads(n_jobs)
        self._n_missing = n_missing if missing else 0

    @property
    def n_grids(self) -> int:
        """Number of grids R."""
        return self.codes.shape[0]

    @property
    def n_missing(self) -> int:  # type: ignore[override]
        """Number of (row, grid) pairs without a column."""
        if self._n_missing is None:
            sizes = np.diff(self.offsets)
            self._n_missing = int(
                sum(np.count_nonzero(c >= n) for c, n in zip(self.codes, sizes, strict=True))
            )
        return self._n_missing

    def occupancy(self) -> Occupancy:
        """Sizes of the bins, by one pass over the codes."""
        sizes = _core.bin_sizes(self.codes, self.offsets, self.n_threads)
        return Occupancy(*sizes, n_rows=self.shape[0])

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
        check_gram(n_columns)
        return Sparse(self.tocsr().astype(np.float64)).gram(weights)

    def products(
        self,
        left: NDArray,
        right: NDArray | None = None,
        weights: NDArray | BlockWeights | None = None,
    ) -> NDArray[np.float64]:
        if isinstance(weights, np.ndarray):
            return super().products(left, right, weights)
        ours = self._bits(left, weights)
        theirs = ours if right is None else self._bits(right, weights)
        counts, unit = (None, 1.0) if weights is None else (weights.counts, weights.unit)
        out = np.empty((len(ours), len(theirs)))
        _core.bit_products(ours, theirs, counts, self.scale**2 * unit, out, self.n_threads)
        return out

    def _bits(self, columns: NDArray, weights: BlockWeights | None) -> NDArray[np.uint64]:
        """Bitmaps of columns in any order, over the rows in the order of their weights."""
        order = None if weights is None else weights.order
        n_rows = self.shape[0] if order is None else len(order)
        n_words = -(-n_rows // _BLOCK) * (_BLOCK // 64)
        check_memory(16.0 * n_words * len(columns), "the bitmaps of columns", _REMEDY)
        bits = np.empty((len(columns), n_words), dtype=np.uint64)
        place = np.argsort(columns)
        _core.bit_columns(self.codes, self.offsets, columns[place], order, bits, self.n_threads)
        return bits[np.argsort(place)] if np.any(place[1:] < place[:-1]) else bits

    def lists(self, columns: NDArray, rows: NDArray | None = None) -> ColumnLists:
        n_rows = self.shape[0] if rows is None else len(rows)
        n_grids = min(self.n_grids, len(columns))
        check_memory(8.0 * n_grids * n_rows, "the rows of bins", _REMEDY)
        starts = np.empty(len(columns) + 1, dtype=np.int64)
        numbers = np.empty(n_grids * n_rows, dtype=np.uint32)
        order = None if rows is None else rows.astype(np.uint32)
        _core.bin_lists(self.codes, self.offsets, columns, order, starts, numbers, self.n_threads)
        return ColumnLists(starts, numbers[: starts[-1]], None, self.scale)

    def block(self, columns: ArrayLike) -> NDArray:
        columns = np.asarray(columns)
        grids = np.searchsorted(self.offsets, columns, side="right") - 1
        block = np.zeros((self.shape[0], len(columns)), dtype=self.dtype)
        for position, grid in enumerate(grids):
            rows = self.codes[grid] == columns[position] - self.offsets[grid]
            block[rows, position] = self.scale
        return block

    def rows(self, index: Index) -> Binned:
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

    def sources(self) -> list[Data]:
        return [self.codes, self.offsets, np.array([self.scale])]

    @property
    def nbytes(self) -> int:
        return self.codes.nbytes + self.offsets.nbytes
