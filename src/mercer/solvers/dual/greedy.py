"""Asynchronous greedy coordinate descent for dual kernel machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from mercer import _core
from mercer._runtime.arrays import Matrix, n_threads
from mercer._runtime.random import RandomStateLike, Slot, Streams, key_from
from mercer._runtime.rows import Data
from mercer._runtime.validation import name_from, positive_integer
from mercer.kernels import Kernel
from mercer.kernels.rows import row_source
from mercer.solvers.dual.base import DualSolver, DualState
from mercer.solvers.dual.box import Arrays, BoxDual

__all__ = ["AsyncGreedyCD"]

_LEAST_ROWS = 256  # of a thread: for fewer, sharing costs more than it saves


@dataclass
class AsyncGreedyCD(DualSolver):
    """Threads that move, without waiting for each other, the worst variables of their own parts.

    Every thread owns a part of the rows. It takes the variables there that a projected gradient
    step would move furthest, moves them to the minimum over them, adds their kernel rows times the
    changes to the sums that all threads share, and goes on. There is no intercept. With one thread
    the objective falls with every update and the result is the same every time; with more it
    depends on their timing in ways that the stopping rule bounds. Threads that share a processor
    work against each other and take several times the updates.

    Parameters
    ----------
    tol : float, default=1e-3
        Stop when no projected gradient step moves a variable further than this share of what the
        first one did.
    max_iter : int, default=10_000_000
        About the most updates of a variable, of all threads together.
    cache_size : float, default=200.0
        Megabytes for kernel rows, shared out among the threads, which take no fewer than
        ``block_size`` rows each. It changes times, not results.
    dtype : {"float32", "float64"}, default="float32"
        Of the cached kernel rows. The solution is that of the kernel rounded to it. A
        precomputed matrix is used as it is.
    n_jobs : int or None, default=None
        Threads; None means all, but none for fewer than 256 rows.
    partition : {"random", "kmeans"}, default="random"
        How rows are shared out among several threads: at random, or in clusters, which differ in
        size, so that what one thread does concerns others less.
    block_size : int, default=16
        Variables that a thread moves at once, >= 1: the worst ones, half of them to grow and half
        to shrink. 1 is the algorithm of the paper, where threads add to the sums by atomic
        additions; otherwise one of them at a time has a thousand sums while it adds to them.
    random_state : int, RandomState, Generator or None, default=None
        Decides the parts.

    References
    ----------
    You, Lian, Liu, Yu, Dhillon, Demmel and Hsieh, Asynchronous parallel greedy coordinate descent,
    NIPS 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> from mercer.solvers import AsyncGreedyCD, BoxDual
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = np.where(np.hypot(*X.T) < 1, 1.0, -1.0)
    >>> result = AsyncGreedyCD(tol=1e-6, n_jobs=1).solve(BoxDual.hinge(y), Gaussian(1.0), X)
    >>> bool(result.dual_gap < 1e-3 * result.objective)
    True
    >>> bool(np.mean(np.sign(result.sums) == y) > 0.95)
    True
    """

    partition: str = "random"
    block_size: int = 16
    random_state: RandomStateLike = None

    name: ClassVar[str] = "greedy"

    def __post_init__(self) -> None:
        super().__post_init__()
        name_from(self.partition, ("random", "kmeans"), "partition")
        self.block_size = positive_integer(self.block_size, "block_size")

    def _order(self, X: Data, precomputed: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        n = X.shape[0]
        threads = max(1, min(n_threads(self.n_jobs), n // _LEAST_ROWS))
        if precomputed and self.partition == "kmeans":
            raise ValueError("partition must be 'random' for a precomputed kernel; got 'kmeans'.")
        if threads == 1:
            return super()._order(X, precomputed)
        key = key_from(self.random_state)
        if self.partition == "random":
            drawn = Streams(key, np.arange(n)).uniform(1, Slot.SHUFFLE)[:, 0]
            return np.argsort(drawn, kind="stable"), np.arange(threads + 1) * n // threads
        from sklearn.cluster import MiniBatchKMeans  # which few need

        clusters = MiniBatchKMeans(threads, random_state=key % 2**32, n_init=1).fit_predict(X)
        sizes = np.bincount(clusters, minlength=threads)
        return np.argsort(clusters, kind="stable"), np.concatenate([[0], np.cumsum(sizes)])

    def _descent(
        self, kernel: Kernel | str, X: Matrix, starts: NDArray[np.int64], cache: int
    ) -> _core.GreedyDescent:
        if isinstance(kernel, str):
            rows = _core.KernelRows(cast(NDArray, X))
        else:
            rows = row_source(kernel, X, self.dtype, self.n_jobs)
        return _core.GreedyDescent(rows, starts.astype(np.int64), cache, self.block_size)

    def _advance(
        self,
        descent: _core.GreedyDescent,
        state: DualState,
        arrays: Arrays,
        limit: float,
        n_updates: int,
    ) -> tuple[int, int]:
        done, made, _ = descent.run(*arrays, limit, n_updates)
        return done, made

    def _limit(self, dual: BoxDual, b: NDArray, sums: NDArray) -> float:
        if len(dual.linear) != dual.n_rows:
            raise ValueError(
                "dual must have one variable a row for AsyncGreedyCD; use PairwiseCD for others."
            )
        return self.tol * self._measure(dual, b, sums)

    def _measure(self, dual: BoxDual, b: NDArray, sums: NDArray) -> float:
        return float(np.max(dual.scores(b, sums)))
