"""The kernel against landmarks as a design, made when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer._runtime.arrays import (
    Index,
    Matrix,
    available_memory,
    check_memory,
    chunk_bytes,
    n_threads,
    row_chunks,
)
from mercer._runtime.devices import Device
from mercer._runtime.pages import lent
from mercer._runtime.rows import Data, PreparedRows
from mercer._runtime.validation import column_indices, float_type
from mercer.designs.base import Design, float_dtype
from mercer.designs.dense import Dense
from mercer.designs.kernel_rows import (
    InCore,
    Prepare,
    alike,
    in_core,
    kernel_rows,
    spans,
    times,
    working_bytes,
    worth_filling,
)
from mercer.kernels import Kernel, Linear, NGram
from mercer.kernels.distances import add_products, centre_of_rows, fill

__all__ = ["KernelColumns", "KernelMatrix", "column_numbers"]


# Largest share of the available memory for a whole matrix in float32, unless the caller gives a
# budget, and for one in float64, whose solvers need as much again.
WHOLE_SHARE, WIDE_SHARE = 0.7, 0.5

# Side of a tile: its float64 entries fill one chunk of memory.
_TILE = 2896

# Bytes of rows that the core packs together.
_PACKED_BYTES = 2**27

# Inputs up to which the core computes an entry faster than it writes a copy.
_FEW_INPUTS = 100

# Inputs up to which computing an entry in a product is as fast as reading it from memory.
_QUICK_INPUTS = 16

# Time of the profile of an entry, in units of the time per input.
_PROFILE_COST = 28


class KernelColumns(Design):
    """Kernel values between rows and landmarks, Z = k(X, L), as a lazy design.

    Products compute entries at each use and store none. Entries have the dtype of the design. A
    product with a float64 vector is summed and returned in float64, so that only the entries are
    rounded.

    Parameters
    ----------
    X : array or CSR of shape (n, d), or texts of shape (n,)
        Checked rows: finite, C-ordered or canonical CSR, float32 or float64; or an array of
        strings. A read-only memory map is read in parts.
    kernel : Kernel
        Kernel with its ``gamma`` as a number.
    landmarks : array or CSR of shape (p, d), or texts of shape (p,), default=None
        Checked and prepared landmarks. None means X itself: Z is then the symmetric kernel matrix,
        and products compute each pair of rows once.
    dtype : dtype, default=None
        Type of the entries, float32 or float64; None means that of X, float64 for texts. float32
        entries have an error of at most 2e-5 of the largest kernel value and take far less time.
    prepare : callable, default=None
        Function applied to chunks of X before the kernel, such as the ``transform`` of a fitted
        scaler.
    n_jobs : int or None, default=None
        Number of threads of products; None means all.

    Attributes
    ----------
    symmetric : bool
        Whether the landmarks are the rows.
    device : Device or None
        Device that computes the entries; None is the processor without PyTorch.
    centres : dict
        Mean landmark of each span of landmarks, cached by products. Designs of the same landmarks
        and dtype may share it.

    Raises
    ------
    TypeError, ValueError
        If ``gamma`` of the kernel is not a number, or X and landmarks have different shapes or
        kinds.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.designs import KernelColumns
    >>> from mercer.kernels import Gaussian
    >>> K = KernelColumns(np.array([[0.0], [1.0], [2.0]]), Gaussian(gamma=1.0))
    >>> K.matvec(np.ones(3)).round(4)
    array([1.3862, 1.7358, 1.3862])
    >>> K.block([1]).round(4)
    array([[0.3679],
           [1.    ],
           [0.3679]])
    """

    device: Device | None = None

    def __init__(
        self,
        X: Any,
        kernel: Kernel,
        landmarks: Any = None,
        dtype: Any = None,
        prepare: Prepare | None = None,
        n_jobs: int | None = None,
    ):
        if not isinstance(kernel, Kernel) or not kernel.is_resolved:
            raise TypeError(f"kernel must be a Kernel with its scale in numbers; got {kernel!r}.")
        self.kernel = kernel
        self.dtype = float_dtype(dtype or float_type(X))
        self.n_threads = n_threads(n_jobs)
        if isinstance(kernel, NGram):  # of counts it is an inner product, and texts are read once
            X, landmarks = kernel.counts(X, landmarks)
            kernel = Linear()
        self._function = kernel
        left = kernel_rows(X, prepare, self.dtype, worth_filling(kernel, X))
        right = left
        if landmarks is not None:
            right = alike(kernel_rows(landmarks, None, self.dtype), left)
        self._core = in_core(kernel, right)
        self.centres: dict[tuple[int, int], NDArray[np.float64]] = {}
        self._link(left, right)

    def _link(self, left: PreparedRows, right: PreparedRows) -> None:
        """Set rows and landmarks."""
        self._left, self._right, self.symmetric = left, right, left is right
        self.shape = (len(left), len(right))

    def _of(self, left: PreparedRows, right: PreparedRows) -> KernelColumns:
        """Columns of this kernel between other rows."""
        other = object.__new__(KernelColumns)
        kept = ("kernel", "dtype", "n_threads", "_function", "_core")
        other.__dict__.update({name: getattr(self, name) for name in kept})
        other.centres = self.centres if right is self._right else {}
        other._link(left, right)
        return other

    # ---- products -------------------------------------------------------------------------------

    def matvec(self, w: NDArray) -> NDArray:
        """``Z @ w`` for w of shape (p,) or (p, k); float64 if w is."""
        return self._product(self._vector(w, self.shape[1], "w"), self._left, self._right)

    def rmatvec(self, v: NDArray) -> NDArray:
        """``Z.T @ v`` for v of shape (n,) or (n, k); float64 if v is."""
        return self._product(self._vector(v, self.shape[0], "v"), self._right, self._left)

    def _product(self, vector: NDArray, points: PreparedRows, landmarks: PreparedRows) -> NDArray:
        """``k(points, landmarks) @ vector``."""
        w = vector.reshape(len(landmarks), -1)
        if type(self._function) is Linear:
            total = self._product_of_rows(w, points, landmarks)
        elif self._core is not None:
            total = self._product_in_core(self._core, w, points, landmarks)
        else:
            total = np.zeros((len(points), w.shape[1]))
            for rows, columns, tile in self._tiles(points, landmarks):
                total[rows] += times(tile, w[columns])
                if points is landmarks and rows != columns:
                    total[columns] += times(tile.T, w[rows])
        return total.reshape(-1, *vector.shape[1:]).astype(vector.dtype, copy=False)

    def _product_of_rows(
        self, w: NDArray, points: PreparedRows, landmarks: PreparedRows
    ) -> NDArray[np.float64]:
        """Product with the linear kernel, as two products with the rows."""
        inner = np.zeros((landmarks[:1].shape[1], w.shape[1]))
        for part in row_chunks(len(landmarks), working_bytes(landmarks)):
            inner += times(landmarks[part].T, w[part])
        parts = row_chunks(len(points), working_bytes(points))
        return np.concatenate([times(points[part], inner) for part in parts])

    def _product_in_core(
        self, core: InCore, w: NDArray, points: PreparedRows, landmarks: PreparedRows
    ) -> NDArray[np.float64]:
        """Product with kernel entries that never leave the core."""
        name, parameter, scale = core
        d = len(scale)
        w = np.ascontiguousarray(w, dtype=np.result_type(w, self.dtype))
        total = np.zeros((len(points), w.shape[1]))
        # To use a tile twice costs more for each column of w, and saves what an entry costs.
        both_ways = points is landmarks and 3 * w.shape[1] < d + _PROFILE_COST
        side = max(1, min(_PACKED_BYTES, chunk_bytes()) // max(1, d * self.dtype.itemsize))
        for rows, columns in spans(points, landmarks, side, both_ways):
            same = both_ways and rows == columns
            x, y = points[rows], None if same else landmarks[columns]
            v, other = (w[rows], total[columns]) if both_ways and not same else (None, None)
            given = (total[rows], name, x, y, scale, parameter, w[columns], v, other)
            centre = None
            if y is not None and landmarks is self._right:  # in the same spans every time
                span = columns.start, columns.stop
                if span not in self.centres:
                    self.centres[span] = centre_of_rows(y)
                centre = self.centres[span]
            add_products(*given, self.n_threads, centre)
        return total

    def column_sqnorms(self, weights: NDArray | None = None) -> NDArray[np.float64]:
        total = np.zeros(self.shape[1])
        ones = np.ones(self.shape[0]) if weights is None else weights
        for rows, columns, tile in self._tiles(self._left, self._right):
            squares = np.square(tile, dtype=np.float64)
            total[columns] += ones[rows] @ squares
            if self.symmetric and rows != columns:
                total[rows] += squares @ ones[columns]
        return total

    def _tiles(
        self, points: PreparedRows, landmarks: PreparedRows
    ) -> Iterator[tuple[slice, slice, NDArray]]:
        """(rows, columns, entries), a tile in memory at a time; those on and above the diagonal
        where points are the landmarks."""
        side = min(_TILE, max(1, int((chunk_bytes() / 8) ** 0.5)))
        for rows, columns in spans(points, landmarks, side, points is landmarks):
            x = points[rows]
            y = x if points is landmarks and rows == columns else landmarks[columns]
            yield rows, columns, self._entries(x, y)

    # ---- entries --------------------------------------------------------------------------------

    def block(self, columns: ArrayLike) -> NDArray:
        """``k(X, L[columns])`` as an (n, b) array.

        Raises
        ------
        MemoryError
            If it would not fit; the message says how many columns would.
        """
        columns = column_numbers(columns, self.shape[1])
        self._check_block(self.shape[0], len(columns))
        landmarks = self._right[columns]
        out = np.empty((self.shape[0], len(columns)), dtype=self.dtype)
        for rows in self._chunks(self.shape[0], len(columns)):
            self._fill(out[rows], self._left[rows], landmarks)
        return out

    def landmark_block(self, columns: ArrayLike) -> NDArray:
        """``k(L, L[columns])`` as a (p, b) array; errors as for ``block``."""
        return self.landmark_design().block(columns)

    def landmark_design(self) -> KernelColumns:
        """``k(L, L)``, symmetric; this design itself where the landmarks are the rows.

        In float64, as what is to be a norm must not be negative: the rounding of float32 makes
        matrices of smooth kernels indefinite.
        """
        if self.symmetric:
            return self
        rows = self._right.converted(np.float64, self._right.filled)
        other = self._of(rows, rows)
        other.dtype = np.dtype(np.float64)
        return other

    def rows(self, index: Index) -> KernelColumns:
        """The design of a selection of rows; no longer symmetric."""
        return self._of(self._left.taken(index), self._right)

    def among(self, index: NDArray[np.int64]) -> KernelColumns:
        """``k(X[index], X[index])``, symmetric, where the landmarks are the rows."""
        rows = self._left.taken(index)
        return self._of(rows, rows)

    @property
    def has_numbers(self) -> bool:
        """Whether rows are numbers rather than texts."""
        return bool(self._left.data.dtype.kind == "f")

    @property
    def n_bytes_of_points(self) -> float:
        """Bytes of all rows as the kernel takes them."""
        if self._left.filled:
            return float(self.dtype.itemsize) * self.shape[0] * self.n_inputs
        return float(self._left.nbytes)

    def points(self) -> Matrix:
        """The rows as the kernel takes them: an array or CSR of shape (n, d), or texts."""
        return self._left[:]

    @property
    def n_inputs(self) -> int:
        """Numbers that a row of data is made of, once texts have been counted."""
        return int(self._right.shape[-1])

    def diagonal(self) -> NDArray[np.float64]:
        """``k(x, x)`` of every row, of shape (n,)."""
        out = np.empty(self.shape[0])
        for rows in self._chunks(self.shape[0], 1):
            out[rows] = self._function.diag(self._left[rows])
        return out

    def toarray(self) -> NDArray:
        return self.held(np.inf).toarray()

    def _entries(self, left: Matrix, right: Matrix) -> NDArray:
        out = np.empty((left.shape[0], right.shape[0]), dtype=self.dtype)
        self._fill(out, left, right)
        return out

    def _fill(self, out: NDArray, left: Matrix, right: Matrix) -> None:
        if self._core is not None:
            name, parameter, scale = self._core
            fill(out, name, left, right, scale, parameter, single=True, n_jobs=self.n_threads)
        elif out.size:
            self._function._fill(out, left, right)

    def _chunks(self, n_rows: int, n_columns: int) -> Iterator[slice]:
        """Slices of rows whose data and entries stay within the working memory of a chunk."""
        return row_chunks(n_rows, working_bytes(self._left) + self.dtype.itemsize * n_columns)

    def _check_block(self, n_rows: int, n_columns: int) -> None:
        column = float(n_rows) * self.dtype.itemsize
        fit = int((available_memory() or 0) // column)
        check_memory(
            column * n_columns,
            f"a block of {n_columns} kernel columns of {n_rows} rows",
            f"ask for {fit} columns at most",
        )

    # ---- memory ---------------------------------------------------------------------------------

    @property
    def exact(self) -> KernelColumns:
        """The design whose products use entries that are not rounded."""
        return self

    @property
    def quick(self) -> bool:
        """Whether products make entries about as fast as memory would deliver them."""
        few = self._core is not None and len(self._core[2]) <= _QUICK_INPUTS
        return few and self.symmetric

    def held(self, budget: float | None = None) -> KernelColumns:
        """Return this design with its matrix in memory, or itself if the matrix does not fit.

        Parameters
        ----------
        budget : float or None, default=None
            Largest size of the matrix in bytes; None means 0.7 times the available memory, half
            of it in float64.

        Returns
        -------
        KernelColumns
            A :class:`KernelMatrix` if it fits.
        """
        needed = float(self.shape[0]) * self.shape[1] * self.dtype.itemsize
        available = available_memory()
        if budget is None:
            share = WHOLE_SHARE if self.dtype == np.float32 else WIDE_SHARE
            budget = np.inf if available is None else share * available
        if needed > budget:
            return self
        check_memory(
            needed, f"the {self.shape[0]} x {self.shape[1]} kernel matrix", "do not hold it"
        )
        return KernelMatrix(self)

    def sources(self) -> list[Data]:
        return [self._left, self._right]

    @property
    def nbytes(self) -> int:
        return 0

    def _vector(self, vector: NDArray, length: int, name: str) -> NDArray:
        """``vector`` as float64 if it is that, otherwise in this design's dtype."""
        vector = np.asarray(vector)
        wide = vector.dtype == np.float64
        vector = np.ascontiguousarray(vector, dtype=np.float64 if wide else self.dtype)
        if vector.ndim not in (1, 2) or vector.shape[0] != length:
            raise ValueError(
                f"{name} must have {length} rows and one or two dimensions; "
                f"got shape {vector.shape}."
            )
        return vector


class KernelMatrix(KernelColumns):
    """Kernel design with its matrix in memory.

    Parameters
    ----------
    design : KernelColumns
        Lazy design of the matrix.
    matrix : ndarray of shape (n, p), default=None
        Entries, if they are known; otherwise they are computed.

    See Also
    --------
    KernelColumns.held : returns such a design if the matrix fits into memory.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.designs import KernelColumns
    >>> from mercer.kernels import Linear
    >>> K = KernelColumns(np.array([[1.0], [2.0]]), Linear()).held()
    >>> K, K.nbytes
    (<KernelMatrix design 2 x 2, float64>, 32)
    """

    def __init__(self, design: KernelColumns, matrix: NDArray | None = None):
        self.__dict__.update(design.__dict__)
        if matrix is not None:
            self.matrix = matrix
            return
        self.matrix = lent(self.shape, self.dtype)
        if self._core is not None and len(self._core[2]) <= _FEW_INPUTS:
            for rows in self._chunks(self.shape[0], 0):  # cheaper to make than to transpose
                self._fill(self.matrix[rows], self._left[rows], self._right[:])
            return
        for rows, columns, tile in design._tiles(self._left, self._right):
            self.matrix[rows, columns] = tile
            if self.symmetric and rows != columns:
                self.matrix[columns, rows] = tile.T

    def _product(self, vector: NDArray, points: PreparedRows, landmarks: PreparedRows) -> NDArray:
        matrix = self.matrix if points is self._left else self.matrix.T
        product = times(matrix, vector, self.n_threads)
        return product.astype(vector.dtype, copy=False)

    def column_sqnorms(self, weights: NDArray | None = None) -> NDArray[np.float64]:
        return Dense(self.matrix).column_sqnorms(weights)

    def gram(self, weights: NDArray | None = None) -> NDArray[np.float64]:
        return Dense(self.matrix).gram(weights)

    def rows(self, index: Index) -> KernelMatrix:
        return KernelMatrix(super().rows(index), self.matrix[index])

    def among(self, index: NDArray[np.int64]) -> KernelMatrix:
        return KernelMatrix(super().among(index), self.matrix[np.ix_(index, index)])

    def held(self, budget: float | None = None) -> KernelMatrix:
        return self

    def block(self, columns: ArrayLike) -> NDArray:
        columns = column_numbers(columns, self.shape[1])
        # Rows of a symmetric matrix are its columns, and lie together.
        return self.matrix[columns].T if self.symmetric else self.matrix[:, columns]

    def diagonal(self) -> NDArray[np.float64]:
        return self.matrix.diagonal().astype(np.float64) if self.symmetric else super().diagonal()

    def toarray(self) -> NDArray:
        return self.matrix

    def sources(self) -> list[Data]:
        return [self.matrix]

    @property
    def nbytes(self) -> int:
        return self.matrix.nbytes


def column_numbers(columns: ArrayLike, n_columns: int) -> NDArray[np.int64]:
    """Numbers of columns, of which a mask or an array of integers tells."""
    columns = np.asarray(columns)
    return column_indices(np.flatnonzero(columns) if columns.dtype == bool else columns, n_columns)
