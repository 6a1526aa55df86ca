"""Selection of landmarks: rows drawn by their leverage or residual, or centres of clusters.

``X`` holds n checked rows, m is below n; kernels are computed in float64 whatever the data are.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse
from scipy.linalg import get_blas_funcs
from sklearn.exceptions import ConvergenceWarning

from mercer._runtime.arrays import Matrix, check_setting, row_chunks
from mercer._runtime.pages import lent
from mercer._runtime.random import Slot, Streams, distinct
from mercer._runtime.rows import Data, PreparedRows, is_sparse
from mercer.kernels import Kernel, Stationary

__all__ = ["GrowingFactor", "chosen", "pivoted_cholesky", "wide"]

_BLOCK = 64  # pivots proposed together
_CUT_OFF = 1e-12  # share of the trace that counts as rounding error
_CANDIDATES = 2.0  # rows kept per landmark in a round of leverage scores
_FIRST_ROUND = 2  # rows per landmark in the first round


def chosen(name: str, kernel: Kernel, X: Data, m: int, key: int) -> Any:
    """m landmarks, from 1 to n, for the n rows of X: an array, CSR or ``PreparedRows``.

    ``name`` is "uniform", "leverage", "rpcholesky" or "kmeans". Landmarks are rows of X, for
    "kmeans" centres in float64; for "rpcholesky" there are fewer than m where those leave nothing
    of the kernel matrix.
    """
    if m == X.shape[0]:
        return X[:]
    if name == "kmeans":
        return _cluster_centres(kernel, X, m, key)
    if name == "uniform":  # without replacement; the first of more
        return X[distinct(key, X.shape[0], m, Slot.LANDMARK)]
    return X[(_leverage_rows if name == "leverage" else _pivots)(kernel, X, m, key)]


def wide(X: Matrix) -> Any:
    """Numbers in float64; texts as they are."""
    return X if X.ndim == 1 else X.astype(np.float64, copy=False)


def _cluster_centres(kernel: Kernel, X: Data, m: int, key: int) -> NDArray[np.float64]:
    """Centres of clusters in the geometry of the kernel, where that is a distance.

    Zhang, Tsang and Kwok, Improved Nyström low-rank approximation and error analysis, ICML 2008.
    """
    if kernel.takes_text:
        raise ValueError("landmarks must not be 'kmeans' for texts, which have no mean.")
    X = X.together() if isinstance(X, PreparedRows) else X
    d = X.shape[1]
    scaled = isinstance(kernel, Stationary) and np.ndim(kernel.gamma) > 0
    scale = kernel.input_scale(d) if scaled else np.ones(d)  # type: ignore[attr-defined]
    copies = 1 if scaled else 0
    n_stored = X.nnz if is_sparse(X) else X.size
    check_setting(
        "n_components",
        m,
        lambda count: 24.0 * count * d + 8.0 * copies * n_stored,
        f"k-means with {m} centres of {d} inputs",
        "choose landmarks='uniform'",
    )
    if scaled:
        X = X @ sparse.diags_array(scale) if is_sparse(X) else X * scale
    bits = Streams(key, np.zeros(1, dtype=np.int64)).bits(1, Slot.LANDMARK)
    seed = int(bits[0, 0] >> np.uint64(32))
    from sklearn.cluster import MiniBatchKMeans  # which few need

    clusters = MiniBatchKMeans(
        m, random_state=seed, n_init=1, compute_labels=False, batch_size=max(1024, 2 * m)
    )
    with warnings.catch_warnings():  # fewer distinct rows than centres: landmarks may be redundant
        warnings.simplefilter("ignore", ConvergenceWarning)
        clusters.fit(X)
    return clusters.cluster_centers_.astype(np.float64) / scale


# Leverage.


def _leverage_rows(kernel: Kernel, X: Matrix, m: int, key: int) -> NDArray[np.int64]:
    """Rows with probabilities proportional to their ridge leverage scores, without replacement.

    The score of a row is ``(K (K + ridge I)^-1)_ii``: how much of it the others cannot say. It is
    estimated from a weighted sample that stands for K, itself drawn by the scores that a sample
    half as large gave: the recursion of Musco and Musco, Recursive sampling for the Nyström method,
    NeurIPS 2017.
    """
    n = X.shape[0]
    order = np.argsort(Streams(key, np.arange(n)).uniform(1, Slot.LANDMARK)[:, 0])
    sizes = [n]
    while sizes[0] > _FIRST_ROUND * m:
        sizes.insert(0, (sizes[0] + 1) // 2)
    if len(sizes) == 1:  # few rows can be judged by all of them
        sizes.insert(0, n)
    sample, weights = order[: sizes[0]], np.ones(sizes[0])
    scores = np.ones(n)
    for turn, size in enumerate(sizes[1:], start=1):
        seen = order[:size]
        scores = _ridge_leverage(kernel, X, seen, sample, weights, m)
        kept = np.minimum(1.0, scores * (_CANDIDATES * m / scores.sum()))
        drawn = Streams(key, seen).uniform(turn + 1, Slot.PIVOT)[:, turn]
        taken = np.flatnonzero(drawn < kept)
        if turn < len(sizes) - 1 and len(taken):
            # A row stands for those like it that were not drawn.
            sample, weights = seen[taken], 1.0 / np.sqrt(kept[taken])
    # Arrival times of independent Poisson processes: the first m are such a draw.
    arrival = Streams(key, order).exponential(1, Slot.PIVOT)[:, 0] / np.maximum(scores, 1e-300)
    return order[np.argsort(arrival, kind="stable")[:m]]


def _ridge_leverage(
    kernel: Kernel,
    X: Matrix,
    rows: NDArray[np.int64],
    sample: NDArray[np.int64],
    weights: NDArray[np.float64],
    m: int,
) -> NDArray[np.float64]:
    """Scores of ``rows`` at the ridge that m landmarks can afford, from a weighted sample."""
    size = len(sample)
    check_setting(
        "n_components",
        m,
        lambda count: 32.0 * (size / m * count) ** 2,
        f"leverage scores from {size} rows",
        "choose landmarks='uniform'",
    )
    pilot = wide(X[sample])
    inner = kernel(pilot) * weights * weights[:, None]
    values, vectors = np.linalg.eigh(inner)
    values = np.maximum(values, 0.0)
    # What m directions leave over, spread over them.
    ridge = max(values[: max(0, size - m)].sum() / m, _CUT_OFF * values.sum())
    # (K (K + ridge)^-1)_ii = (k_ii - k_i (inner + ridge)^-1 k_i) / ridge.
    half = vectors / np.sqrt(values + ridge)
    half *= weights[:, None]
    scores = np.empty(len(rows))
    for part in row_chunks(len(rows), 24.0 * size + 8.0 * X[:1].size):
        x = wide(X[rows[part]])
        explained = kernel(x, pilot) @ half
        scores[part] = kernel.diag(x) - np.einsum("ij,ij->i", explained, explained)
    return np.clip(scores / ridge, _CUT_OFF, 1.0)


# Pivoted Cholesky.


def _pivots(kernel: Kernel, X: Data, m: int, key: int) -> NDArray[np.int64]:
    """Rows one after another, each with probability proportional to what is left of its diagonal.

    The first of more.
    """
    n = X.shape[0]
    check_setting(
        "n_components",
        m,
        lambda count: 8.0 * n * (count + 2.0 * _BLOCK),
        f"randomly pivoted Cholesky of {n} rows with {m} landmarks",
        "choose landmarks='leverage'",
    )

    def columns(rows: NDArray[np.int64], out: NDArray[np.float64]) -> None:
        landmarks = wide(X[rows])
        for part in row_chunks(n, 16.0 * len(rows) + 8.0 * X[:1].size):
            out[:, part] = kernel(wide(X[part]), landmarks).T

    def corner(rows: NDArray[np.int64]) -> NDArray[np.float64]:
        return kernel(wide(X[rows]))

    diagonal = np.empty(n)
    whole = not isinstance(X, PreparedRows)
    for part in [slice(n)] if whole else row_chunks(n, 8.0 * X[:1].size):
        diagonal[part] = kernel.diag(X[part])
    return pivoted_cholesky(GrowingFactor(diagonal, columns, m), corner, key)


class GrowingFactor:
    """F (rank, n) of a pivoted Cholesky factorisation as it grows, and what is left to explain.

    Parameters
    ----------
    diagonal : ndarray of shape (n,)
        Of the matrix K.
    columns : callable
        ``columns(rows, out)`` writes rows of K into ``out`` (b, n).
    m : int
        Largest rank.
    dtype : dtype, default=float64
        Of F; float32 takes half of the time and of the memory.
    """

    def __init__(
        self,
        diagonal: NDArray,
        columns: Callable[[NDArray[np.int64], NDArray], None],
        m: int,
        dtype: DTypeLike = np.float64,
    ):
        self._rows, self._columns = lent((m, len(diagonal)), dtype), columns
        self._gemm, self._trsm = get_blas_funcs(("gemm", "trsm"), dtype=dtype)
        self._left = diagonal.astype(np.float64)
        self.most, self.count = m, 0

    @property
    def rows(self) -> NDArray:
        """F so far."""
        return self._rows[: self.count]

    def trace_left(self) -> float:
        """The trace of K - FᵀF."""
        return float(self._left.sum())

    def drawn(self, uniform: NDArray[np.float64]) -> NDArray[np.int64]:
        """Rows with probabilities proportional to the diagonal that is left."""
        reach = np.cumsum(self._left)
        return np.searchsorted(reach, uniform * reach[-1], side="right")

    def left_of(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """The diagonal of K - FᵀF at some rows."""
        return self._left[rows]

    def explained(self, rows: NDArray[np.int64]) -> NDArray:
        """FᵀF between some rows."""
        own = self.rows[:, rows]
        return own.T @ own

    def add(self, pivots: NDArray[np.int64], triangle: NDArray[np.float64]) -> None:
        """Take pivots in, whose block of K - FᵀF has this lower Cholesky factor."""
        rows = self._rows[self.count : self.count + len(pivots)]
        self._columns(pivots, rows)
        # Transposed, rows lie as BLAS wants them to overwrite them.
        if self.count:
            own = self.rows[:, pivots]
            self._gemm(-1.0, self.rows.T, own, 1.0, rows.T, overwrite_c=True)
        self._trsm(1.0, triangle, rows.T, side=1, lower=1, trans_a=1, overwrite_b=True)
        self._left -= np.einsum("ij,ij->j", rows, rows)
        self._left[pivots] = 0.0
        np.maximum(self._left, 0.0, out=self._left)
        self.count += len(pivots)


def pivoted_cholesky(
    factor: GrowingFactor,
    corner: Callable[[NDArray[np.int64]], NDArray],
    key: int,
    cut_off: float = _CUT_OFF,
) -> NDArray[np.int64]:
    """Randomly pivoted Cholesky: pivots of a positive semi-definite matrix K, and FᵀF about K.

    A block of candidates is drawn at once and thinned by rejection, which leaves the law of the
    pivots as it is. Chen, Epperly, Tropp and Webber, Randomly pivoted Cholesky, CPAM 2024, and
    Embrace rejection, 2024.

    ``factor`` is empty and grows to its largest rank, or less where all but the share ``cut_off``
    of the trace of K is exhausted; ``corner(rows)`` is the square block of K at these rows and
    columns. Returns the pivots (rank,), with one key the first of those for a larger rank.
    """
    pivots: list[NDArray[np.int64]] = []
    smallest, turn = cut_off * factor.trace_left(), 0
    while factor.count < factor.most and factor.trace_left() > smallest:
        uniform = Streams(key, np.array([turn])).uniform(2 * _BLOCK, Slot.PIVOT)[0]
        drawn = factor.drawn(uniform[:_BLOCK])
        turn += 1
        residual = corner(drawn) - factor.explained(drawn)
        room = factor.most - factor.count
        accepted, triangle = _thinned(residual, factor.left_of(drawn), uniform[_BLOCK:], room)
        if len(accepted):
            pivots.append(drawn[accepted])
            factor.add(pivots[-1], triangle)
    if not pivots:
        raise ValueError("kernel must be positive definite; its diagonal on X is 0.")
    return np.concatenate(pivots)


def _thinned(
    residual: NDArray[np.float64],
    proposed: NDArray[np.float64],
    uniform: NDArray[np.float64],
    most: int,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Accepted candidates, at most ``most``, and the Cholesky factor of their residual.

    A candidate was proposed by a diagonal that those accepted before it have lowered since; it is
    accepted with the ratio of the two.
    """
    size = len(residual)
    lower = np.zeros((size, most if most < size else size))
    left = np.minimum(np.diag(residual), proposed)
    accepted: list[int] = []
    for i in range(size):
        if len(accepted) == most:
            break
        if uniform[i] * proposed[i] >= left[i]:
            continue
        j = len(accepted)
        column = residual[:, i] - lower[:, :j] @ lower[i, :j]
        if column[i] <= 0.0:
            continue
        lower[:, j] = column / np.sqrt(column[i])
        left = left - lower[:, j] ** 2
        accepted.append(i)
    index = np.array(accepted, dtype=np.int64)
    return index, lower[index, : len(index)]
