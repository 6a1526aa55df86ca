"""A design as asynchronous steps read it: by rows to compute responses from, or by columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer import _core
from mercer._array import check_memory, row_chunks
from mercer.designs import Binned, Dense, Design, Sparse, Weighted
from mercer.solvers.coordinate.lists import ColumnLists

__all__ = ["MARGINS", "PRECISIONS", "SAMPLINGS", "Walkway", "walkway"]

MARGINS = ("recomputed", "kept")
SAMPLINGS = ("uniform", "column")
PRECISIONS = ("design", "float32", "bfloat16")
_REMEDY = "use fewer rows or columns, or another solver"
_STEP_BYTES = 2**30  # read by the steps of one call: a fraction of a second


@dataclass
class Walkway:
    """The copy of a design that the core walks on."""

    core: Any  # _core.AsyncSteps
    keeps: bool  # the responses of all rows, instead of computing them whenever they are needed
    row_bytes: float  # that a step reads for one row of its batch
    move_bytes: float = 0.0  # that a move of a coordinate costs besides

    def steps_per_call(self, batch_size: int, width: int) -> int:
        """Steps that take a fraction of a second: between them a user can interrupt."""
        cost = batch_size * self.row_bytes + width * self.move_bytes
        return int(np.clip(_STEP_BYTES / cost, 64, 2**20 / width))


def walkway(design: Design, margins: str, sampling: str, precision: str) -> Walkway:
    """The design in the form that these choices of ``AsyncSVRG`` need, none of them "auto"."""
    if precision == "bfloat16" and not (isinstance(design, Dense) and margins == "recomputed"):
        raise ValueError(
            "precision must be 'design' or 'float32' unless the design is dense and margins are "
            f"'recomputed'; got 'bfloat16' with {type(design).__name__} and {margins!r}."
        )
    if precision != "design" and margins == "kept" and not isinstance(design, Dense):
        raise ValueError(
            "precision must be 'design' for margins='kept', unless the design is dense; got "
            f"{precision!r}."
        )
    if isinstance(design, Dense):
        return _dense(design, margins, precision)
    lists = _lists(design) if margins == "kept" or sampling == "column" else None
    if margins == "kept" and lists is not None:
        core = _core.AsyncSteps.kept_lists(*lists.arguments(), design.shape[0])
        way = Walkway(core, True, 64.0, 24.0 * len(lists.rows) / max(1, design.shape[1]))
    else:
        way = _by_rows(design, precision)
    if sampling == "column" and lists is not None:
        way.core.draw_from(*lists.arguments())
    return way


def _dense(design: Dense, margins: str, precision: str) -> Walkway:
    n, n_columns = design.shape
    array = design.array
    size = {"design": design.dtype.itemsize, "float32": 4, "bfloat16": 2}[precision]
    dtype = np.float32 if precision == "float32" else design.dtype
    if margins == "kept":
        check_memory(float(size) * n * n_columns, "the columns of the design", _REMEDY)
        columns = np.ascontiguousarray(array.T, dtype=dtype)
        return Walkway(_core.AsyncSteps.kept_dense(columns), True, 64.0, (16.0 + size) * n)
    if precision != "design" or not array.flags.c_contiguous:
        check_memory(float(size) * n * n_columns, "the rows of the design", _REMEDY)
    rows = _halves(array) if precision == "bfloat16" else np.ascontiguousarray(array, dtype=dtype)
    return Walkway(_core.AsyncSteps.dense(rows), False, float(max(64, size * n_columns)))


def _halves(array: NDArray) -> NDArray[np.uint16]:
    """The upper halves of the float32 numbers, rounded to the nearest."""
    out = np.empty(array.shape, dtype=np.uint16)
    for rows in row_chunks(array.shape[0], 12.0 * array.shape[1]):
        bits = np.ascontiguousarray(array[rows], dtype=np.float32).view(np.uint32)
        out[rows] = (bits + (0x7FFF + ((bits >> 16) & 1))) >> 16
    return out


def _by_rows(design: Design, precision: str) -> Walkway:
    single = precision == "float32" or design.dtype == np.float32
    if isinstance(design, Binned) and not isinstance(design, Weighted):
        check_memory(float(design.codes.nbytes), "the codes by row", _REMEDY)
        codes = np.ascontiguousarray(design.codes.T)
        core = _core.AsyncSteps.codes(codes, design.offsets, design.scale, single)
        return Walkway(core, False, design.n_grids * (codes.itemsize + (16.0 if single else 32.0)))
    matrix = design.tocsr()
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    data = matrix.data.astype(np.float32 if single else np.float64, copy=False)
    indices, indptr = matrix.indices.astype(np.int32, copy=False), matrix.indptr.astype(np.int64)
    core = _core.AsyncSteps.sparse(data, indices, indptr, design.shape[1])
    return Walkway(core, False, 64.0 + 12.0 * len(data) / max(1, design.shape[0]))


def _lists(design: Design) -> ColumnLists:
    """The columns of a design that is not dense."""
    if isinstance(design, Binned) and not isinstance(design, Weighted):
        check_memory(4.0 * design.codes.size, "the rows of every bin", _REMEDY)
        parts, counts = [], []
        for codes, size in zip(design.codes, np.diff(design.offsets), strict=True):
            sizes = np.bincount(codes, minlength=size)[:size]
            counts.append(sizes)
            parts.append(np.argsort(codes, kind="stable")[: sizes.sum()].astype(np.uint32))
        starts = np.concatenate([[0], np.cumsum(np.concatenate(counts))]).astype(np.int64)
        return ColumnLists(starts, np.concatenate(parts), None, design.scale)
    check_memory(16.0 * design.tocsr().nnz, "the columns of the design", _REMEDY)
    matrix = sparse.csc_array(design.tocsr())
    matrix.sum_duplicates()
    return ColumnLists(
        matrix.indptr.astype(np.int64),
        matrix.indices.astype(np.uint32),
        matrix.data.astype(np.float64),
        1.0,
    )


def largest_squares(design: Design, weights: NDArray | None) -> float:
    """max over rows and columns of weights_i · z_ij², without weights if there are none."""
    if isinstance(design, Dense):
        largest = 0.0
        for rows in row_chunks(design.shape[0], 16.0 * design.shape[1]):
            size = np.max(np.abs(design.array[rows]), axis=1, initial=0.0).astype(np.float64) ** 2
            largest = max(largest, float(np.max(size if weights is None else size * weights[rows])))
        return largest
    if isinstance(design, Binned) and not isinstance(design, Weighted):
        return design.scale**2 * (1.0 if weights is None else float(np.max(weights)))
    matrix = design.tocsr()
    squares = np.square(matrix.data, dtype=np.float64)
    if weights is not None:
        squares *= np.repeat(weights, np.diff(matrix.indptr))
    return float(np.max(squares, initial=0.0))


def holds_matrix(design: Design) -> bool:
    """Whether steps can walk on the design."""
    return isinstance(design, (Dense, Sparse, Binned))
