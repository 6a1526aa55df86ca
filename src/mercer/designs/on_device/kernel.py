"""The kernel against landmarks on a device: entries are made there, used and forgotten."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer._runtime.arrays import Index, format_bytes, row_chunks
from mercer._runtime.device_arrays import like_kind
from mercer._runtime.devices import Device, exact_float32
from mercer._runtime.rows import PreparedRows
from mercer.designs.kernel import KernelColumns, column_numbers
from mercer.designs.on_device.entries import DeviceRows, KernelOf, prepared_rows, tile
from mercer.designs.on_device.pieces import sent_ahead

__all__ = ["DeviceKernel", "DeviceMatrix"]

# Side of a tile on the processor (cache size), share of the memory of a GPU for a tile, arrays of
# the size of a tile (temporary ones included), and largest side of a tile.
_SIDE, _TILE_SHARE, _TILE_COPIES, _MOST_SIDE = 1024, 0.1, 4, 16_384
_ROWS_SHARE = 0.3  # largest share of the device's memory for rows that stay there
_MATRIX_SHARE = 0.7  # largest share of the device's memory for a kernel matrix
_EXACT_COLUMNS = 8192  # columns per float32 sum: longer sums lose digits
_WIDENED = 2**26  # entries converted to float64 together


class DeviceKernel(KernelColumns):
    """The kernel of every row against every landmark, made on a device.

    It takes and returns the arguments and results of :class:`KernelColumns`: vectors come from the
    host and go back there, unless they are tensors, and entries have its accuracy. Rows stay on the
    device where they fit into three tenths of its memory, else go there piece by piece. A
    ValueError if the kernel is none of the core, or rows are CSR or texts.
    """

    def __init__(
        self,
        X: Any,
        kernel: Any,
        landmarks: Any = None,
        dtype: Any = None,
        prepare: Any = None,
        n_jobs: int | None = None,
        *,
        device: Device,
    ):
        super().__init__(X, kernel, landmarks, dtype, prepare, n_jobs)
        self.device: Device = device
        if self._core is None:
            raise ValueError(
                "kernel must be a stationary one of mercer.kernels, of rows that are neither "
                f"sparse nor texts, on the device '{device.name}'; got {kernel!r}."
            )
        name, parameter, scale = self._core
        centre = np.zeros(len(scale))
        for rows in row_chunks(len(self._right), 8.0 * len(scale)):
            centre += self._right[rows].sum(axis=0, dtype=np.float64) / max(1, len(self._right))
        self._kernel_of = KernelOf(name, parameter, device.array(scale), device.array(centre))
        self._resident: dict[int, DeviceRows] = {}

    def _of(self, left: PreparedRows, right: PreparedRows) -> DeviceKernel:
        other = object.__new__(DeviceKernel)
        kept = ("kernel", "dtype", "n_threads", "_function", "_core", "device", "_kernel_of")
        other.__dict__.update({name: getattr(self, name) for name in kept})
        other._link(left, right)
        same = {id(rows): rows for rows in (left, right)}
        other._resident = {key: rows for key, rows in self._resident.items() if key in same}
        return other

    def taken(self, index: Index) -> DeviceKernel:
        """``rows`` of a selection; the matrix of one that holds it is not looked at."""
        if isinstance(self._left, _TensorRows):
            return self.with_rows(self._left.tensor[self.device.places(index)])
        return self._of(self._left.taken(index), self._right)

    def rows(self, index: Index) -> DeviceKernel:
        return self.taken(index)

    def with_rows(self, rows: Any) -> DeviceKernel:
        """The design of other rows against the same landmarks: a tensor (m, d) on the device."""
        self._all_rows(self._right)  # sent by this design, which knows how
        left: Any = _TensorRows(rows)
        other = self._of(left, self._right)
        other._resident[id(left)] = prepared_rows(self._kernel_of, rows.to(self.tensor_type))
        return other

    # -- rows ------------------------------------------------------------------------------------

    def _rows(self, rows: PreparedRows, part: slice) -> DeviceRows:
        """Some rows on the device, of all of them where these stay there."""
        every = self._all_rows(rows)
        return self._sent(rows[part]) if every is None else every[part]

    def _pieces(self, rows: PreparedRows, parts: list[slice]) -> Iterator[tuple[slice, DeviceRows]]:
        """Parts of some rows on the device, in turn, sent ahead where they do not stay there."""
        every = self._all_rows(rows)
        if every is not None:
            yield from ((part, every[part]) for part in parts)
            return
        pieces = (np.asarray(rows[part], dtype=self.dtype) for part in parts)
        for part, sent in zip(parts, sent_ahead(self.device, pieces), strict=True):
            yield part, prepared_rows(self._kernel_of, sent)

    def _all_rows(self, rows: PreparedRows) -> DeviceRows | None:
        """All of some rows on the device, where they fit, and stay there."""
        if id(rows) not in self._resident:
            free = self.device.free_memory()
            n_bytes = (2.0 * len(self._kernel_of.scale) + 1.0) * self.dtype.itemsize * len(rows)
            if free is not None and n_bytes > _ROWS_SHARE * free:
                return None
            parts = list(self._chunks(len(rows), 0)) or [slice(0, 0)]
            pieces = [self._sent(rows[part]) for part in parts]
            self._resident[id(rows)] = _joined(self.device.torch, pieces)
        return self._resident[id(rows)]

    def _sent(self, rows: Any) -> DeviceRows:
        return prepared_rows(self._kernel_of, self.device.array(rows, self.dtype))

    def _side(self) -> int:
        """Rows and columns of a tile."""
        free = self.device.free_memory() if self.device.is_gpu else None
        if free is None:
            return _SIDE
        entries = _TILE_SHARE * free / (_TILE_COPIES * self.dtype.itemsize)
        return int(np.clip(np.sqrt(entries), 1, _MOST_SIDE))

    def _device_tiles(
        self, points: PreparedRows, landmarks: PreparedRows
    ) -> Iterator[tuple[slice, slice, Any]]:
        """(rows, columns, entries): a tile at a time, those of pairs of the same rows once."""
        side, same = self._side(), points is landmarks
        for rows, left in self._pieces(points, list(row_chunks(len(points), 1.0, side))):
            others = list(row_chunks(len(landmarks), 1.0, side))
            if same:
                yield rows, rows, tile(self.device, self._kernel_of, left, left)
                others = [columns for columns in others if columns.start > rows.start]
            for columns, right in self._pieces(landmarks, others):
                yield rows, columns, tile(self.device, self._kernel_of, left, right)

    # -- products --------------------------------------------------------------------------------

    def matvec(self, w: Any) -> Any:
        return self._of_vectors(w, self._left, self._right, "w")

    def rmatvec(self, v: Any) -> Any:
        return self._of_vectors(v, self._right, self._left, "v")

    def _of_vectors(
        self, vector: Any, points: PreparedRows, landmarks: PreparedRows, name: str
    ) -> Any:
        """``k(points, landmarks) @ vector``: a tensor on the device if the vector is one."""
        if isinstance(vector, np.ndarray):
            vector = self._vector(vector, len(landmarks), name)
        on_device = self.device.array(vector)
        flat = on_device.reshape(len(landmarks), math.prod(on_device.shape[1:]))
        sums = self._device_product(flat, points, landmarks).to(on_device.dtype)
        sums = sums.reshape(len(points), *on_device.shape[1:])
        return like_kind(sums, vector, self.device)

    def _device_product(self, w: Any, points: PreparedRows, landmarks: PreparedRows) -> Any:
        """Product with a tensor (m, k), summed in float64."""
        torch = self.device.torch
        total = torch.zeros((len(points), w.shape[1]), dtype=torch.float64, device=w.device)
        for rows, columns, entries in self._device_tiles(points, landmarks):
            total[rows] += _times(torch, entries, w[columns])
            if points is landmarks and rows != columns:
                total[columns] += _times(torch, entries.T, w[rows])
        return total

    def _product(self, vector: NDArray, points: PreparedRows, landmarks: PreparedRows) -> NDArray:
        product: NDArray = self._of_vectors(vector, points, landmarks, "vector")
        return product

    def column_sqnorms(self, weights: NDArray | None = None) -> NDArray[np.float64]:
        torch = self.device.torch
        total = torch.zeros(self.shape[1], dtype=torch.float64, device=self.device.name)
        ones = np.ones(self.shape[0]) if weights is None else weights
        of_rows = self.device.array(ones, np.float64)
        for rows, columns, entries in self._device_tiles(self._left, self._right):
            squares = entries.double().square_()
            total[columns] += of_rows[rows] @ squares
            if self.symmetric and rows != columns:
                total[rows] += squares @ of_rows[columns]
        return self.device.host(total)

    def gram(self, weights: NDArray | None = None) -> NDArray[np.float64]:
        torch, n_columns = self.device.torch, self.shape[1]
        self._check_room(8.0 * n_columns**2, f"the Gram matrix of {n_columns} landmarks")
        total = torch.zeros((n_columns, n_columns), dtype=torch.float64, device=self.device.name)
        for rows in row_chunks(self.shape[0], 1.0, self._side()):
            entries = self._whole(rows).double()
            weighted = entries
            if weights is not None:
                weighted = entries * self.device.array(weights[rows], np.float64)[:, None]
            total.addmm_(entries.T, weighted)
        return self.device.host(total)

    def _whole(self, rows: slice) -> Any:
        """Entries of some rows against all landmarks, a tensor."""
        left, side = self._rows(self._left, rows), self._side()
        parts = [
            tile(self.device, self._kernel_of, left, self._rows(self._right, columns))
            for columns in row_chunks(self.shape[1], 1.0, side)
        ]
        return self.device.torch.cat(parts, dim=1)

    def _entries(self, left: Any, right: Any) -> NDArray:
        made = tile(self.device, self._kernel_of, self._sent(left), self._sent(right))
        return self.device.host(made)

    def _fill(self, out: NDArray, left: Any, right: Any) -> None:
        out[...] = self._entries(left, right)

    def block_on_device(self, columns: ArrayLike) -> Any:
        """``block`` as a tensor (n, b) on the device."""
        chosen = column_numbers(columns, self.shape[1])
        self._all_rows(self._left)  # sent once, for all blocks
        part, every = self._right.taken(chosen), self._all_rows(self._right)
        other = self._of(self._left, part)
        if every is not None:
            other._resident[id(part)] = every[self.device.array(chosen)]
        return other.toarray_on_device()

    def toarray_on_device(self) -> Any:
        """``toarray`` as a tensor (n, p) on the device."""
        needed = float(self.shape[0]) * self.shape[1] * self.dtype.itemsize
        self._check_room(needed, f"the {self.shape[0]} x {self.shape[1]} kernel matrix")
        torch = self.device.torch
        out = torch.empty(self.shape, dtype=self.tensor_type, device=self.device.name)
        for rows, columns, entries in self._device_tiles(self._left, self._right):
            out[rows, columns] = entries
            if self.symmetric and rows != columns:
                out[columns, rows] = entries.T
        return out

    @property
    def tensor_type(self) -> Any:
        """The dtype of entries as PyTorch names it."""
        return getattr(self.device.torch, self.dtype.name)

    # -- memory ----------------------------------------------------------------------------------

    @property
    def quick(self) -> bool:
        """Whether products make entries as fast as memory delivers them, which it does here."""
        return False

    def held(self, budget: float | None = None) -> KernelColumns:
        """This design with its matrix in the device's memory where it fits, otherwise itself."""
        needed = float(self.shape[0]) * self.shape[1] * self.dtype.itemsize
        free = self.device.free_memory()
        if budget is None:
            budget = np.inf if free is None else _MATRIX_SHARE * free
        return DeviceMatrix(self) if needed <= budget else self

    def _check_room(self, n_bytes: float, what: str) -> None:
        free = self.device.free_memory()
        if free is not None and n_bytes > free:
            raise MemoryError(
                f"{what} needs {format_bytes(n_bytes)} but {format_bytes(free)} are available on "
                f"the device '{self.device.name}'; use an iterative solver, or another device."
            )


class DeviceMatrix(DeviceKernel):
    """A kernel design that holds its matrix on a device; ``DeviceKernel.held`` makes it."""

    def __init__(self, design: DeviceKernel, matrix: Any = None):
        self.__dict__.update(design.__dict__)
        self.matrix = design.toarray_on_device() if matrix is None else matrix

    def _device_product(self, w: Any, points: PreparedRows, landmarks: PreparedRows) -> Any:
        matrix = self.matrix if points is self._left else self.matrix.T
        return _times(self.device.torch, matrix, w)

    def rows(self, index: Index) -> DeviceMatrix:
        return DeviceMatrix(self.taken(index), self.matrix[self.device.places(index)])

    def held(self, budget: float | None = None) -> DeviceMatrix:
        return self

    def block_on_device(self, columns: ArrayLike) -> Any:
        return self.matrix[:, self.device.array(column_numbers(columns, self.shape[1]))]

    def block(self, columns: ArrayLike) -> NDArray:
        return self.device.host(self.block_on_device(columns))

    def toarray_on_device(self) -> Any:
        return self.matrix

    def toarray(self) -> NDArray:
        return self.device.host(self.matrix)

    @property
    def nbytes(self) -> int:
        return int(self.matrix.nbytes)


class _TensorRows:
    """Stands for rows that are on the device."""

    def __init__(self, tensor: Any):
        self.tensor = tensor

    def __len__(self) -> int:
        return len(self.tensor)


def _joined(torch: Any, pieces: list[DeviceRows]) -> DeviceRows:
    """Rows below each other."""
    if len(pieces) == 1:
        return pieces[0]
    given = torch.cat([piece.given for piece in pieces])
    if pieces[0].scaled is None:
        return DeviceRows(given)
    scaled = torch.cat([piece.scaled for piece in pieces])
    return DeviceRows(given, scaled, torch.cat([piece.squares for piece in pieces]))


def _times(torch: Any, entries: Any, w: Any) -> Any:
    """``entries @ w`` in float64, to the precision that w has; sums in float32 are short."""
    if entries.dtype == torch.float64:
        return entries @ w.double()
    total = torch.zeros((entries.shape[0], w.shape[1]), dtype=torch.float64, device=w.device)
    if w.dtype == torch.float32:
        with exact_float32(torch):
            for columns in row_chunks(entries.shape[1], 1.0, _EXACT_COLUMNS):
                total += entries[:, columns] @ w[columns]
        return total
    for rows in row_chunks(entries.shape[0], entries.shape[1], _WIDENED):
        total[rows] = entries[rows].double() @ w
    return total
