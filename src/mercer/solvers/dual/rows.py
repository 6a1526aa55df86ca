"""Kernel rows for descent along pairs: blocks among some rows, and sums of whole rows."""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from mercer import _core
from mercer._runtime.arrays import Matrix, n_threads
from mercer.kernels import Kernel
from mercer.kernels.rows import row_source, scaled_rows

__all__ = ["PairRows"]

_TOGETHER = 64  # rows computed and summed together: sums do not depend on the cache


class PairRows:
    """Cache of the rows of a kernel matrix K made last.

    X is the matrix (n, n) of a "precomputed" kernel; other kernels have numbers as scales.
    ``n_bytes`` bound the cache, of at least 64 rows. ``single`` allows float32 rows errors of 2e-5,
    which saves time; ``exact`` says whether rows are the kernel's, rounded to their dtype.
    ``n_made`` counts whole rows made.
    """

    def __init__(
        self,
        kernel: Kernel | str,
        X: Matrix,
        dtype: str,
        n_bytes: int,
        n_jobs: int | None,
        single: bool,
    ):
        self.n, self.n_made, self.exact = X.shape[0], 0, True
        self._dtype, self._n_jobs = dtype, n_jobs
        self._matrix: NDArray | None = None
        if isinstance(kernel, str):
            self._matrix = cast(NDArray, X)
            return
        scaled = scaled_rows(kernel, X) if single and dtype == "float32" else None
        if scaled is not None:
            self.exact, kernel, X = False, kernel.with_gamma(1.0), scaled
        self._kernel, self._X = kernel, X
        self._source = self._source_of(X)
        row_bytes = max(1, self.n) * np.dtype(dtype).itemsize
        self._kept = np.empty((min(self.n, max(_TOGETHER, n_bytes // row_bytes)), self.n), dtype)
        self._place_of = np.full(self.n, -1)
        self._row_at = np.full(len(self._kept), -1)
        self._next = 0  # the place of the row made first

    def block(self, rows: NDArray[np.int64]) -> NDArray:
        """K[rows, rows]; some rows may be there twice."""
        if self._matrix is not None:
            return self._matrix[np.ix_(rows, rows)]
        out = np.empty((len(rows), len(rows)), dtype=self._dtype)
        self._source_of(self._X[rows]).fill(np.arange(len(rows)), out, n_threads(self._n_jobs))
        self.n_made += self.n if len(rows) == self.n else 0
        return out

    def add(self, rows: NDArray[np.int64], steps: NDArray, sums: NDArray) -> None:
        """``sums += steps @ K[rows]``, the same with any number of threads and any cache."""
        threads = n_threads(self._n_jobs)
        for first in range(0, len(rows), _TOGETHER):
            some, step = rows[first : first + _TOGETHER], steps[first : first + _TOGETHER]
            if self._matrix is not None:
                _core.add_rows(self._matrix, some, step, sums, threads)
            else:
                _core.add_rows(self._kept, self._places(some), step, sums, threads)

    def _source_of(self, X: Matrix) -> _core.KernelRows:
        return row_source(self._kernel, X, self._dtype, self._n_jobs, single=not self.exact)

    def _places(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Places of rows in the cache, which has room for all of them."""
        missing = np.unique(rows[self._place_of[rows] < 0])
        while True:
            places = (self._next + np.arange(len(missing))) % len(self._kept)
            displaced = self._row_at[places]
            displaced = np.intersect1d(displaced[displaced >= 0], rows)
            if len(displaced) == 0:
                break
            self._row_at[self._place_of[displaced]] = -1
            self._place_of[displaced] = -1
            missing = np.union1d(missing, displaced)
        lost = self._row_at[places]
        self._place_of[lost[lost >= 0]] = -1
        self._row_at[places] = -1
        wrapped = min(len(missing), len(self._kept) - self._next)
        for part in (slice(0, wrapped), slice(wrapped, len(missing))):
            if part.start < part.stop:
                to = slice(places[part.start], places[part.start] + part.stop - part.start)
                self._source.fill(missing[part], self._kept[to], n_threads(self._n_jobs))
        self._place_of[missing], self._row_at[places] = places, missing
        self._next = (self._next + len(missing)) % len(self._kept)
        self.n_made += len(missing)
        return self._place_of[rows]
