"""The kernel machine of all rows by conjugate gradients, where workers make the products."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from mercer._runtime.arrays import format_bytes
from mercer._runtime.rows import PreparedRows
from mercer.designs import KernelColumns
from mercer.distributed.kernel import RemoteKernelEquations
from mercer.distributed.problem import RemoteProblem
from mercer.distributed.remote import room_of_workers
from mercer.equations import spans_all_rows
from mercer.penalties import RKHSNorm
from mercer.problem import Problem
from mercer.solvers.krylov import with_cached_kernel

__all__ = ["KernelOnWorkers", "has_room_for_rows"]

_COPIES = 3.0  # of all rows that a worker may hold at once


class KernelOnWorkers(KernelColumns):
    """The kernel matrix of all rows; each worker has the rows of K that belong to its shards.

    The rows of the data, in the order of the shards, are here, too, as a fitted exact machine
    predicts by them: single rows and blocks of K are made here. They are sent to the workers once.
    A product sends its vector (n, C) and receives as many numbers. With ``hold`` workers keep their
    rows of K.
    """

    def __init__(self, equations: RemoteKernelEquations, design: KernelColumns, hold: bool):
        self.__dict__.update(design.__dict__)
        self._equations, self._hold = equations, hold
        self._points = equations.shared(design.points())

    def held(self, budget: float | None = None) -> KernelOnWorkers:
        return self

    def _product(self, vector: NDArray, points: PreparedRows, landmarks: PreparedRows) -> NDArray:
        columns = vector.reshape(len(vector), -1)
        product = self._equations.product_of_rows(self._points, columns, self._hold)
        return product.reshape(vector.shape)


def machine_of(problem: RemoteProblem, hold: bool) -> Problem:
    """The problem of all rows with targets here and products on workers; or a MemoryError."""
    needed, room = _bytes_of_rows(problem), room_of_workers(problem.run.engine)
    if room is not None and needed > room:
        raise MemoryError(
            f"solver='cg' needs {format_bytes(needed)} on each worker for all rows, and "
            f"{format_bytes(room)} are free; use solver='block', or workers with more memory."
        )
    alpha = problem.penalty.alpha
    equations = RemoteKernelEquations(problem, np.array([alpha]))
    map_ = problem.facts.preprocessing.feature_map
    rows = KernelColumns(map_.landmarks_, map_.kernel_, dtype=problem.dtype, n_jobs=map_.n_jobs)
    design = KernelOnWorkers(equations, rows, hold)
    y = equations.y.reshape(problem.n_rows, *problem.shape[1:])
    penalty = RKHSNorm(alpha, design)
    return Problem(design, y, problem.loss, penalty, equations.weights, problem.fit_intercept)


@with_cached_kernel.register(RemoteProblem)
def _(problem: RemoteProblem, hold: bool | str, rough: bool = False) -> Problem:
    """The kernel machine of all rows with its targets here; others as they are."""
    return machine_of(problem, bool(hold)) if spans_all_rows(problem) else problem


def has_room_for_rows(problem: RemoteProblem) -> bool:
    """Whether every worker of a machine of all rows has room for the rows of all workers."""
    room = room_of_workers(problem.run.engine)
    return room is None or _bytes_of_rows(problem) <= room


def _bytes_of_rows(problem: RemoteProblem) -> float:
    """Bytes of all rows on a worker: as received, as numbers, and as the core packs them."""
    X = problem.facts.preprocessing.feature_map.landmarks_
    size = X.nnz * (X.dtype.itemsize + 8.0) if issparse(X) else X.size * X.dtype.itemsize
    return _COPIES * float(size)
