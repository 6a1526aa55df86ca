"""Local kernel machines of more rows than memory holds, through files.

The rows are read once for every tree, in their order, and written to files for each node of its
first cuts; a node's rows fit in memory. The model's arrays are written as they come: rows and
coefficients leaf by leaf, mapped into memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.arrays import row_chunks
from mercer._runtime.rows import Data
from mercer._runtime.rows import bytes_per_row as bytes_in
from mercer.engines.files import InFiles
from mercer.losses import Loss
from mercer.maps.local import LocalKernel
from mercer.maps.partition import Members
from mercer.solvers.forest import (
    SAMPLE,
    SHARE,
    Forest,
    ForestProgress,
    ForestSolution,
    Part,
    bytes_per_row,
    most_rows,
)

__all__ = ["solve_through_files"]

_OF_CUTS = 48.0  # bytes per row while it is projected and divided
_PIECES = 4.0  # copies of a piece of rows while it is divided


def solve_through_files(
    map_: LocalKernel,
    X: Data,
    target: NDArray,
    weights: NDArray | None,
    loss: Loss,
    alpha: float,
    memory: float,
    *,
    fit_intercept: bool = True,
    tol: float = 1e-2,
    max_iter: int = 1000,
    listener: Callable[[ForestProgress], bool] | None = None,
) -> ForestSolution:
    """Solve every leaf of the trees, whose rows are written to temporary files.

    ``map_`` is not fitted and has a ``gamma`` in numbers; ``weights`` (n,) are above 0 and brought
    to mean 1 here; ``memory`` are the bytes that may be taken. The listener is called after every
    node and stops the work by True. The rest is as of ``solve_leaves``.

    Raises
    ------
    MemoryError
        If ``memory`` does not hold the rows of two leaves, or rows that are all alike.
    OSError
        If the files cannot be written.
    KeyboardInterrupt
        If the user stops before there is a first model; a later interruption ends the fit with the
        trees that are whole, or the first one with means for what is not solved of it.
    """
    n, d = X.shape
    one_output = np.ndim(target) == 1
    target = np.asarray(target, dtype=np.float64).reshape(n, -1)
    weights = None if weights is None else weights / np.mean(weights)
    k = target.shape[1]
    of_row = bytes_per_row(d, k, X.dtype)
    size = most_rows(max(0.0, memory), of_row, map_.tree_settings(n)[0], "there are")
    # The files are gone with the folder, on systems that let them be read while they are mapped.
    with tempfile.TemporaryDirectory(prefix="mercer-", ignore_cleanup_errors=True) as name:
        folder, piece = Path(name), _PIECES * (X.dtype.itemsize * d + 8 * k + 16)
        work = Forest(
            InFiles.of(X, target, weights, piece, folder),
            X,
            map_,
            loss,
            [alpha],
            {"fit_intercept": fit_intercept, "tol": tol, "max_iter": max_iter},
            size,
            _Kept(folder, d, k, X.dtype),
            of_row,
            one_output,
            min(SAMPLE, max(int(SHARE * memory / (3.0 * bytes_in(X) + _OF_CUTS)), 2)),
            threads=map_.n_jobs,
            keeps_rows=True,
            at_once=1,
        )
        return work.fit(listener)


class _Kept:
    """The arrays of the model in their files: rows and coefficients of leaf after leaf."""

    def __init__(self, folder: Path, d: int, k: int, dtype: np.dtype):
        self.landmarks = _ArrayFile(folder / "landmarks", (d,), dtype)
        self.order = _ArrayFile(folder / "order", (), np.dtype(np.int64))
        self.coef = _ArrayFile(folder / "coefficients", (k,), dtype)
        self.sizes: list[NDArray[np.int64]] = []  # of the leaves, part by part
        self.constants: list[NDArray] = []
        self.n_models = 0

    @property
    def n_rows(self) -> int:
        """Rows of all leaves."""
        return self.coef.n

    def add(self, part: Part) -> None:
        n = self.n_rows
        self.landmarks.append(part.rows)
        self.order.append(np.arange(n, n + len(part.order)))
        self.coef.append(part.coef[0])
        self.sizes.append(part.sizes)
        self.constants.append(part.constants[0])

    def model(
        self, n_parts: int, means: Sequence[tuple[int, NDArray]]
    ) -> tuple[NDArray, Members, NDArray]:
        """Memory maps; the row of a constant leaf is zeros, which it does not look at."""
        k, count = self.coef.shape[0], len(means)
        sizes = [*self.sizes[:n_parts], np.ones(count, np.int64)]  # one row, which does not count
        starts = np.cumsum(np.concatenate([[0], *sizes])).astype(np.int64)
        n = int(starts[-1]) - count
        self.n_models += 1
        coef = _ArrayFile(self.coef.path.with_suffix(f".{self.n_models}"), (k,), self.coef.dtype)
        if n:
            held = self.coef.mapped(n)
            for rows in row_chunks(n, held.itemsize * k):
                coef.append(held[rows])
        answers = np.reshape([mean for _, mean in means], (-1, k))
        coef.append(np.concatenate([np.zeros((count, k)), *self.constants[:n_parts], answers]))
        landmarks, order = self.landmarks, self.order
        if count:
            landmarks.write(n, np.zeros((count, *landmarks.shape)))
            order.write(n, np.arange(n, n + count))
        members, theta = Members(order.mapped(n + count), starts), coef.mapped()
        with suppress(OSError):  # goes with the model, where systems let files go that are mapped
            coef.path.unlink()
        return landmarks.mapped(n + count), members, theta


class _ArrayFile:
    """An array that grows in a file, without a header."""

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: np.dtype):
        self.path, self.shape, self.dtype = path, shape, dtype
        self.n = 0
        path.touch()

    def append(self, rows: NDArray) -> None:
        """Write rows after those that are there."""
        self.write(self.n, rows)
        self.n += len(rows)

    def write(self, first: int, rows: NDArray) -> None:
        """Write rows from a place on."""
        with self.path.open("r+b") as file:
            file.seek(first * int(np.prod(self.shape)) * self.dtype.itemsize)
            rows.astype(self.dtype, copy=False).tofile(file)

    def mapped(self, n: int | None = None) -> NDArray:
        """The first n rows, or all."""
        shape = self.n if n is None else n, *self.shape
        return np.asarray(np.memmap(self.path, self.dtype, "r", shape=shape))
