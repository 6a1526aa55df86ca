"""Inner loops: the steps between two snapshots of one output, and the design as they read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer import _core
from mercer._runtime.arrays import check_memory, row_chunks
from mercer._runtime.random import Slot
from mercer.designs import Binned, Dense, Design, Sparse
from mercer.designs.lists import ColumnLists
from mercer.problem import Point, Problem
from mercer.solvers.async_svrg.models import QuadraticModels

__all__ = ["IN_CORE", "MARGINS", "PRECISIONS", "SAMPLINGS", "Inner", "Settings", "curvatures"]

# Losses that the core knows by name.
IN_CORE: tuple[str, ...] = ("squared", "huber", "correntropy")
IN_CORE += ("logistic", "squared_hinge", "smooth_hinge", "sigmoid")
MARGINS = ("recomputed", "kept")
SAMPLINGS = ("uniform", "column")
PRECISIONS = ("design", "float32", "bfloat16")
_REMEDY = "use fewer rows or columns, or another solver"
_STEP_BYTES = 2**30  # bytes read by the steps of one call: a fraction of a second, for interrupts


@dataclass
class Walkway:
    """The copy of a design that the core walks on."""

    core: Any  # _core.AsyncSteps, called with arguments by the list
    keeps: bool  # the responses of all rows, instead of computing them whenever they are needed
    row_bytes: float  # that a step reads for one row of its batch
    move_bytes: float = 0.0  # that a move of a coordinate costs besides

    def steps_per_call(self, batch_size: int, width: int) -> int:
        """Steps that take a fraction of a second: between them a user can interrupt."""
        cost = batch_size * self.row_bytes + width * self.move_bytes
        return int(np.clip(_STEP_BYTES / cost, 64, 2**20 / width))


def walkway(design: Design, margins: str, sampling: str, precision: str) -> Walkway:
    """The design in the form that the choices of ``AsyncSVRG``, none "auto", need."""
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
    if isinstance(design, Binned):
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
    """Lists of all columns of a design that is not dense."""
    columns: Binned | Sparse
    if isinstance(design, Binned):
        columns, needed = design, 4.0 * design.codes.size  # rows without entries
    else:
        columns = Sparse(design.tocsr())
        needed = 16.0 * columns.matrix.nnz
    check_memory(needed, "the rows of every column", _REMEDY)
    return columns.lists(np.arange(design.shape[1]))


def largest_squares(design: Design, weights: NDArray | None) -> float:
    """max over rows and columns of weights_i · z_ij², without weights if there are none."""
    if isinstance(design, Dense):
        largest = 0.0
        for rows in row_chunks(design.shape[0], 16.0 * design.shape[1]):
            size = np.max(np.abs(design.array[rows]), axis=1, initial=0.0).astype(np.float64) ** 2
            largest = max(largest, float(np.max(size if weights is None else size * weights[rows])))
        return largest
    if isinstance(design, Binned):
        return design.scale**2 * (1.0 if weights is None else float(np.max(weights)))
    matrix = design.tocsr()
    squares = np.square(matrix.data, dtype=np.float64)
    if weights is not None:
        squares *= np.repeat(weights, np.diff(matrix.indptr))
    return float(np.max(squares, initial=0.0))


@dataclass(frozen=True)
class Settings:
    """Settings of an inner loop, with everything "auto" decided; see ``AsyncSVRG``."""

    margins: str
    sampling: str
    precision: str
    batch_size: int
    block_size: int
    n_inner: int
    n_threads: int
    key: int
    curved: bool = False
    slot: Slot = Slot.STEP


def curvatures(problem: Problem, sampling: str) -> NDArray[np.float64]:
    """Curvatures that step lengths are divided by, for every row of θ.

    "uniform": the largest second derivative of a row's loss; "column": of the mean loss.
    """
    beta, q = problem.loss.lipschitz, problem.shape[0]
    largest = largest_squares(problem.design, problem.weights)
    if problem.fit_intercept:
        most = 1.0 if problem.weights is None else float(np.max(problem.weights))
        largest = max(largest, most)
    common = np.full(q, beta * largest if largest > 0 else 1.0)
    if sampling == "uniform":
        return common
    each = np.ones(q)
    problem.weights_of(each)[...] = problem.mean_squares
    return np.where(each > 0, beta * each, common)


class Inner:
    """Inner loops on one problem."""

    def __init__(self, problem: Problem, settings: Settings):
        self.problem, self.settings = problem, settings
        self.walkway: Walkway = walkway(
            problem.design, settings.margins, settings.sampling, settings.precision
        )
        q, self.n = problem.shape[0], problem.n_rows
        self.width = min(settings.block_size, q)
        plain = "array" in problem.design.views()
        if self.width > 1 and settings.sampling == "column" and not plain:
            raise ValueError(
                "block_size must be 1 for sampling='column', unless the design is dense; got "
                f"{settings.block_size}."
            )
        self.models: QuadraticModels | None = None
        if settings.curved:
            self.models = QuadraticModels(problem, settings.n_threads)
        # Lengths of steps with a model come from the Hessian.
        self.curvatures = np.ones(q) if settings.curved else curvatures(problem, settings.sampling)
        self.l1, self.l2 = np.zeros(q), np.zeros(q)
        problem.weights_of(self.l1)[...] = problem.penalty.l1
        problem.weights_of(self.l2)[...] = problem.penalty.l2
        wide = problem.y.reshape(self.n, -1)
        self.targets = [np.ascontiguousarray(y, dtype=np.float64) for y in wide.T]
        self.moves = 0
        self.steps = 0

    def gradient(self, point: Point) -> NDArray[np.float64]:
        """Gradient of the mean loss, without the penalty: (q, k)."""
        problem = self.problem
        gradient = np.array(point.gradient, dtype=np.float64)
        if problem.penalty.l2:
            weights = problem.weights_of(point.theta).astype(np.float64)
            problem.weights_of(gradient)[...] -= problem.penalty.gradient(weights)
        return gradient.reshape(problem.shape[0], -1)

    def run(
        self,
        point: Point,
        gradient: NDArray[np.float64],
        output: int,
        gamma: float,
        number: int,
        start: Point | None = None,
    ) -> NDArray[np.float64] | None:
        """θ (q,) of one output after one inner loop; None if numbers grew out of range.

        It starts at the snapshot ``point``, whose ``gradient(point)`` is given, with steps of
        ``gamma`` over the curvature; its ``number`` among all loops decides its random numbers.
        """
        problem, threads = self.problem, self.settings.n_threads
        w = np.array(point.theta.reshape(len(point.theta), -1)[:, output], dtype=np.float64)
        slopes = np.empty(self.n)
        u = None
        if self.walkway.keeps:
            u = np.array(point.responses.reshape(self.n, -1)[:, output], dtype=np.float64)
        loss = problem.loss
        given = (self.targets[output], problem.weights, loss.name, loss.parameter, w, slopes, u)
        rows: NDArray[np.float64] | None = None
        curvature: tuple[Any, ...] = ()
        if self.models is not None:
            known = self.models.curvature(point, output)
            rows = known.rows
            curvature = (rows, known.single, w.copy(), 1.0 / gamma)
        self.walkway.core.slopes(*given, threads, rows)
        if start is not None:
            w[:] = start.theta.reshape(len(w), -1)[:, output]
        derivative = np.ascontiguousarray(gradient[:, output])
        lengths = gamma / self.curvatures
        if not np.all(np.isfinite(lengths)):
            return None
        if curvature and not np.all(np.isfinite(curvature[1])):
            return None
        return w if self._walk(given, derivative, lengths, number, curvature) else None

    def _walk(
        self,
        given: tuple[Any, ...],
        derivative: NDArray,
        lengths: NDArray,
        number: int,
        curvature: tuple[Any, ...],
    ) -> bool:
        """Take the steps, in calls short enough to be interrupted; whether all stayed finite."""
        settings = self.settings
        per_call = self.walkway.steps_per_call(min(settings.batch_size, self.n), self.width)
        model = (derivative, lengths, self.l1, self.l2, settings.key, int(settings.slot))
        sizes = (settings.batch_size, self.width, settings.n_threads)
        for first in range(0, settings.n_inner, per_call):
            count = min(per_call, settings.n_inner - first)
            start = number * settings.n_inner + first
            moves, finite = self.walkway.core.walk(*given, *model, start, count, *sizes, *curvature)
            self.moves += moves
            self.steps += count
            if not finite:
                return False
        return True
