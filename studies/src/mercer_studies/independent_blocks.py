"""Kernel ridge regression by the kernel matrices of independent blocks of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve
from sklearn.base import BaseEstimator
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from threadpoolctl import threadpool_limits

from mercer import kernels
from mercer._runtime.arrays import CHUNK_BYTES, check_memory, n_threads, row_chunks
from mercer._runtime.random import key_from
from mercer._runtime.validation import positive_integer
from mercer.compare.methods import Method

_LOT_ROWS = 128  # small blocks are worked on together up to so many rows


def indicators(y: Any) -> tuple[NDArray, NDArray[np.float64]]:
    """Classes, and targets of ±1: one column for two classes, else one for each.

    >>> indicators(["b", "a", "b"])[1].ravel().tolist()
    [1.0, -1.0, 1.0]
    """
    classes, labels = np.unique(y, return_inverse=True)
    if len(classes) == 2:
        return classes, np.where(labels == 1, 1.0, -1.0)[:, None]
    return classes, np.where(labels[:, None] == np.arange(len(classes)), 1.0, -1.0)


class IndependentBlocks(BaseEstimator):
    """Kernel ridge regression that takes the kernel for zero between blocks of rows.

    Random hyperplanes halve the rows, again and again, for as long as both halves keep
    ``block_size`` rows; so blocks have from ``block_size`` to less than twice as many. Targets are
    centred, and every block solves ``(K + n·alpha·I) c = y`` by its own Cholesky factorisation,
    with the n of all rows. A new row goes down the hyperplanes to one block, whose kernel row alone
    predicts it. One block is kernel ridge regression with centred targets. Time is about n ·
    block_size · (d + block_size). ``alpha``: weight of the penalty in the objective, which is a
    mean over rows; ``block_size``: least number of rows of a block, >= 1; from n on there is a
    single block; ``classify``: whether ``y`` holds classes, coded as ±1 in one output per class;
    ``scale``: whether inputs are standardised first; ``random_state``: decides the hyperplanes.
    ``blocks_``: training rows of every block; ``dual_coef_``: shape (n, k); ``intercept_``: shape
    (k,), means of the targets. Stein (2014), Limitations on low rank approximations for covariance
    matrices of spatial data; in the comparison of Wu, Yen, Chen and Yan, Revisiting random binning
    features, KDD 2016.
    """

    def __init__(
        self,
        kernel: Any = "laplacian",
        gamma: Any = "scale",
        alpha: float = 1.0,
        block_size: int = 256,
        classify: bool = False,
        scale: bool = True,
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        self.kernel = kernel
        self.gamma = gamma
        self.alpha = alpha
        self.block_size = block_size
        self.classify = classify
        self.scale = scale
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any) -> IndependentBlocks:
        """Fit to the rows of X (n, d) and the targets or classes y."""
        self._prepare(X, y)
        self._solve_blocks()
        return self

    def predict(self, X: Any) -> NDArray:
        """Targets or classes of the rows of X (m, d)."""
        scaled = self._scaled(X)
        out = np.empty((X.shape[0], self._targets.shape[1]))
        block_of = self._routed(scaled)

        def fill(piece: tuple[int, NDArray]) -> None:
            members, blocks = self._lots[piece[0]]
            rows = piece[1]
            K = self.kernel_(scaled[rows], self.X_[members])
            K *= block_of[rows, None] == blocks
            out[rows] = K @ self.dual_coef_[members]

        self._on_threads(fill, list(self._pieces(self._lot_of[block_of])))
        return self._decode(out)

    def predict_training(self) -> NDArray:
        """Targets or classes of the training rows, each by its own block, without a kernel matrix.

        There K c = y − n·alpha·c.
        """
        return self._decode(self._targets - len(self._targets) * self.alpha * self.dual_coef_)

    def _fit_scaler(self, X: Any) -> Any:
        """The training rows as the kernel sees them, scaled as the library's estimators do."""
        if not self.scale:
            self.scaler_ = None
            return X
        self.scaler_ = MaxAbsScaler() if sparse.issparse(X) else StandardScaler()
        return self.scaler_.fit_transform(X)

    def _scaled(self, X: Any) -> Any:
        return X if self.scaler_ is None else self.scaler_.transform(X)

    def _encode(self, y: NDArray) -> NDArray[np.float64]:
        if self.classify:
            self.classes_, targets = indicators(y)
            return targets
        self.output_shape_ = y.shape[1:]
        return y.reshape(len(y), -1).astype(np.float64)

    def _decode(self, responses: NDArray) -> NDArray:
        out = responses + self.intercept_
        if not self.classify:
            return out.reshape(len(out), *self.output_shape_)
        winners = (out[:, 0] > 0).astype(int) if out.shape[1] == 1 else out.argmax(axis=1)
        return self.classes_[winners]

    def _lower_kernel(self, X: Any) -> NDArray:
        """The kernel matrix of some rows, of which only the lower triangle is filled."""
        n = X.shape[0]
        K = np.empty((n, n))

        def fill(rows: slice) -> None:
            K[rows, : rows.stop] = self.kernel_(X[rows], X[: rows.stop])

        self._for_chunks(fill, n, 8.0 * n)
        return K

    def _for_chunks(self, work: Callable[[slice], None], n: int, bytes_per_row: float) -> None:
        """Do something for chunks of n rows, on all threads: kernels release the interpreter."""
        threads = n_threads(self.n_jobs)
        budget = int(min(CHUNK_BYTES, n * bytes_per_row / threads))
        self._on_threads(work, row_chunks(n, bytes_per_row, budget))

    def _on_threads(self, work: Callable[[Any], None], items: Iterable[Any]) -> None:
        with ThreadPoolExecutor(n_threads(self.n_jobs)) as pool:
            try:
                for _ in pool.map(work, items):
                    pass
            except BaseException:
                pool.shutdown(cancel_futures=True)  # an interrupt need not wait for the rest
                raise

    def _prepare(self, X: Any, y: Any) -> None:
        n = X.shape[0]
        size = positive_integer(self.block_size, "block_size")
        largest = n if size >= n else min(n, 2 * size)
        at_once = 1 if largest == n else n_threads(self.n_jobs)
        check_memory(
            8.5 * at_once * largest**2, f"the kernel matrix of {largest} rows", "lower block_size"
        )
        self.X_ = self._fit_scaler(X)
        self.kernel_ = kernels.get(self.kernel, self.gamma).resolve(self.X_)
        targets = self._encode(np.asarray(y))
        self.intercept_ = targets.mean(axis=0)
        self._targets = targets - self.intercept_
        self._grow(size)

    def _grow(self, size: int) -> None:
        """Halve the rows until no half could keep ``size`` of them."""
        rng = np.random.default_rng(key_from(self.random_state))
        self.blocks_: list[NDArray] = []
        self._splits: list[tuple[NDArray, float, int, int]] = []

        def grow(rows: NDArray) -> int:
            """The number of a split, or of a block less than zero."""
            if len(rows) < 2 * size:
                self.blocks_.append(rows)
                return -len(self.blocks_)
            direction = rng.standard_normal(self.X_.shape[1])
            place = self.X_[rows] @ direction
            half = len(rows) // 2
            order = np.argpartition(place, [half - 1, half])
            threshold = 0.5 * (place[order[half - 1]] + place[order[half]])
            number = len(self._splits)
            self._splits.append((direction, float(threshold), 0, 0))
            left, right = grow(rows[order[:half]]), grow(rows[order[half:]])
            self._splits[number] = (direction, float(threshold), left, right)
            return number

        grow(np.arange(self.X_.shape[0]))
        self._gather()

    def _gather(self) -> None:
        """Small blocks in lots: one kernel matrix, zero between them, and one factorisation."""
        sizes = [len(block) for block in self.blocks_]
        self._lot_of = np.empty(len(sizes), dtype=np.int64)
        lots: list[list[int]] = []
        room = 0
        for block, size in enumerate(sizes):
            if size > room:
                lots.append([])
                room = max(_LOT_ROWS, size)
            lots[-1].append(block)
            self._lot_of[block] = len(lots) - 1
            room -= size
        self._lots = [
            (
                np.concatenate([self.blocks_[block] for block in lot]),
                np.repeat(lot, [sizes[block] for block in lot]),
            )
            for lot in lots
        ]

    def _routed(self, X: Any) -> NDArray[np.int64]:
        """The block of every row of X."""
        codes = np.empty(X.shape[0], dtype=np.int64)
        pending = [(0 if self._splits else -1, np.arange(X.shape[0]))]
        while pending:
            number, rows = pending.pop()
            if number < 0:
                codes[rows] = -number - 1
            elif len(rows):
                direction, threshold, left, right = self._splits[number]
                goes_left = X[rows] @ direction <= threshold
                pending += [(left, rows[goes_left]), (right, rows[~goes_left])]
        return codes

    def _pieces(self, lot_of: NDArray[np.int64]) -> Iterator[tuple[int, NDArray]]:
        """Lots and the rows that go there, in chunks that kernel rows fit the memory of."""
        order = np.argsort(lot_of, kind="stable")
        ends = np.cumsum(np.bincount(lot_of, minlength=len(self._lots)))
        for lot, rows in enumerate(np.split(order, ends[:-1])):
            for chunk in row_chunks(len(rows), 8.0 * len(self._lots[lot][0])):
                yield lot, rows[chunk]

    def _kernel_of(self, lot: int) -> NDArray:
        rows, blocks = self._lots[lot]
        if len(self.blocks_) == 1:
            return self._lower_kernel(self.X_[rows])
        K = self.kernel_(self.X_[rows])
        K *= blocks[:, None] == blocks
        return K

    def _solve_blocks(self) -> None:
        lam_n = len(self._targets) * self.alpha
        self.dual_coef_ = np.empty_like(self._targets)

        def solve(lot: int) -> None:
            rows = self._lots[lot][0]
            self.dual_coef_[rows] = _solved(self._kernel_of(lot), lam_n, self._targets[rows])

        if len(self._lots) == 1:
            solve(0)
            return
        with threadpool_limits(1):  # blocks side by side are faster than threads within one
            self._on_threads(solve, range(len(self._lots)))


def _solved(K: NDArray, lam_n: float, right: NDArray) -> NDArray:
    """(K + lam_n·I)⁻¹ of the columns of ``right``, from the lower triangle of K; uses K up."""
    K.flat[:: len(K) + 1] += lam_n
    # The transpose is the Fortran-ordered view that LAPACK factorises without a copy.
    factor = cho_factor(K.T, lower=False, overwrite_a=True, check_finite=False)
    return cho_solve(factor, right, check_finite=False)


class _Blocks(Method):
    """Independent blocks as an entrant of comparisons."""

    def estimator(
        self,
        task: str,
        *,
        size: int | None,
        kernel: str | None,
        gamma: float | None,
        alpha: float,
        seed: int,
        n_jobs: int | None,
        warm_start: bool = False,
        scale: bool = True,
    ) -> IndependentBlocks:
        """Its estimator, unfitted; it has no map to keep for a warm start."""
        return IndependentBlocks(
            kernel,
            gamma,
            alpha,
            block_size=size or 256,
            classify=task == "classification",
            scale=scale,
            random_state=seed,
            n_jobs=n_jobs,
        )

    def cost(self, size: int | None, n: int, d: int, k: int) -> float:
        """Roughly the seconds of a fit."""
        columns = size or d
        return 0.02 + n * columns * (1e-9 * (d + 4) + 2.5e-11 * columns)


BLOCKS = _Blocks("blocks", "independent blocks", ("laplacian",), (16, 64, 256, 1024), 256)
"""A rival of papers, not of users: it is no part of a comparison unless a study asks for it."""
