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

_LEAST_ROWS = 256  # least rows per thread: fewer cost more to share than they save


@dataclass
class AsyncGreedyCD(DualSolver):
    """Asynchronous greedy coordinate descent: each thread moves the worst variables of its part.

    Each thread owns a part of the rows. It takes the variables of its part with the largest
    projected gradient steps, minimises over them, adds their kernel rows times the changes to the
    sums that all threads share, and repeats. There is no intercept. With one thread the objective
    falls at each update and the result is reproducible. With several threads the result depends on
    their timing, within ``tol``. Threads that share a processor core take several times the
    updates. Moves are at first about 1 / k(x, x) long: a variable takes about C k(x, x) of them to
    reach the bound C, and errors stay large until then.

    Parameters
    ----------
    tol : float, default=1e-3
        Tolerance: the solver stops when the largest projected gradient step is at most this share
        of the first one.
    max_iter : int, default=10_000_000
        Approximate largest number of updates of a variable, summed over the threads.
    cache_size : float, default=200.0
        Size of the cache of kernel rows in megabytes, divided among the threads; each has at least
        ``block_size`` rows. It changes times, not results.
    dtype : {"float32", "float64"}, default="float32"
        Type of the cached kernel rows; the solution is that of the rounded kernel. A precomputed
        matrix keeps its type.
    n_jobs : int or None, default=None
        Number of threads; None means all, with at least 256 rows per thread.
    partition : {"random", "kmeans"}, default="random"
        Assignment of the rows to threads: at random, or by clusters of unequal size, which reduces
        the effect of one thread on the others.
    block_size : int, default=16
        Number of variables that a thread moves at once, >= 1: the worst ones, half of them to
        increase and half to decrease. 1 is the algorithm of the paper, with atomic additions to the
        sums; otherwise a thread locks a thousand sums at a time while it adds.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the partition.

    References
    ----------
    You, Lian, Liu, Yu, Dhillon, Demmel and Hsieh, Asynchronous parallel greedy coordinate descent,
    NIPS 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> from mercer.solvers import BoxDual
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
