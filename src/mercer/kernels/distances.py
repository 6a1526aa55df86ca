"""Distances between the rows of two matrices, dense or CSR, and what the core makes of them.

Rows arrive scaled (see ``scaled``), except for ``fill``; each function returns a new array of
float64 that the caller may overwrite. Nothing here is larger than one (rows of x) x (rows of y)
block times a small constant, so callers bound memory by the rows they pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer import _core
from mercer._runtime.arrays import Matrix, n_threads, row_chunks
from mercer._runtime.rows import Data, PreparedRows, is_sparse

# Below this fraction of |x|^2 + |y|^2 the expanded square has lost too many digits to be kept.
_CANCELLED = 1e-6

_TOO_LARGE = "X is too large for this kernel: squared distances overflow; rescale it."

# Rows of the sample whose median distance is taken: its relative error is about one per cent.
_MEDIAN_ROWS = 2000

# Bytes of a block of distances, which is passed over several times and should fit the caches, and
# rows below which a matrix product is slow.
_BLOCK_BYTES = 4 * 2**20
_BLOCK_ROWS = 256


def scaled(X: Matrix, scale: NDArray[np.float64], centre: NDArray[np.float64] | None = None) -> Any:
    """``(X - centre) * scale`` in float64; CSR stays CSR and is never centred."""
    if is_sparse(X):
        # 32-bit indices wherever they suffice: not every SciPy and scikit-learn routine takes more.
        index = np.int32 if max(X.nnz, X.shape[1]) <= np.iinfo(np.int32).max else np.int64
        indices = X.indices.astype(index, copy=False)
        data = X.data * scale[indices]
        return sparse.csr_array((data, indices, X.indptr.astype(index, copy=False)), shape=X.shape)
    X = X.astype(np.float64)
    if centre is not None:
        X -= centre
    X *= scale
    return X


def centre_of(Y: Matrix) -> NDArray[np.float64] | None:
    """A good origin: distances do not depend on it, but the expanded square loses digits
    far away from it. CSR is not moved."""
    if is_sparse(Y):
        return None
    with np.errstate(over="ignore"):
        return Y.mean(axis=0, dtype=np.float64)


def row_cost(X: Data) -> float:
    """Bytes of one row of X in float64: its inputs, or its share of what a CSR matrix stores."""
    if is_sparse(X):
        stored: sparse.csr_array = X.data if isinstance(X, PreparedRows) else X
        return 16.0 * (1 + stored.nnz / max(1, stored.shape[0]))
    return 8.0 * X.shape[1]


def blocks(X: Matrix, n_columns: int) -> Iterator[slice]:
    """Slices of rows of X whose distances to ``n_columns`` rows are best computed together."""
    cost = 2.0 * row_cost(X) + 16.0 * n_columns
    return row_chunks(X.shape[0], cost, max(_BLOCK_BYTES, int(_BLOCK_ROWS * cost)))


def distances(metric: str, x: Matrix, y: Matrix) -> NDArray[np.float64]:
    """Distances of two arrays, or CSR, of float64 by a metric's name; identical rows have 0."""
    if is_sparse(x) and metric == "cityblock":
        from sklearn.metrics.pairwise import manhattan_distances  # which few need

        of_metric = manhattan_distances(x, y)
    elif is_sparse(x):
        of_metric = _squared_distances(x, y)
    else:
        of_metric = np.empty((x.shape[0], y.shape[0]))
        name = "cityblock" if metric == "cityblock" else "sqeuclidean"
        fill(of_metric, name, x, y, np.ones(x.shape[1]))
    return np.sqrt(of_metric, out=of_metric) if metric == "euclidean" else of_metric


def centre_of_rows(X: NDArray) -> NDArray[np.float64]:
    """The mean row (d,), from which the core measures: differences of rows round less from it."""
    with np.errstate(over="ignore"):
        centre: NDArray[np.float64] = X.mean(axis=0, dtype=np.float64)
    return centre


def fill(
    out: NDArray,
    name: str,
    X: NDArray,
    Y: NDArray,
    scale: NDArray[np.float64],
    parameter: float = 1.0,
    *,
    single: bool = False,
    n_jobs: int | None = None,
) -> None:
    """Write the kernel or distance ``name`` of ``_core.kernel_block`` into ``out`` (n, m).

    Rows of X (n, d) and Y (m, d) are still to be scaled by ``scale`` (d,); they are read in the
    dtype of ``out``, which is C-contiguous. In float64 the error is a few units in the last place,
    in float32 below 1e-6, or with ``single`` below 2e-5, which takes less time. ValueError if
    squared distances overflow.
    """
    centre, threads = centre_of_rows(Y), n_threads(n_jobs)
    Y = np.ascontiguousarray(Y, dtype=out.dtype)
    for rows in row_chunks(X.shape[0], 8.0 * X.shape[1]):
        x = np.ascontiguousarray(X[rows], dtype=out.dtype)
        if not _core.kernel_block(name, x, Y, centre, scale, parameter, out[rows], threads, single):
            raise ValueError(_TOO_LARGE)


def add_products(
    sums: NDArray[np.float64],
    name: str,
    X: NDArray,
    Y: NDArray | None,
    scale: NDArray[np.float64],
    parameter: float,
    w: NDArray,
    v: NDArray | None = None,
    sums_of_y: NDArray[np.float64] | None = None,
    n_jobs: int | None = None,
    centre: NDArray[np.float64] | None = None,
) -> None:
    """``sums += k(X, Y) @ w``, the kernel matrix being made tile by tile and forgotten.

    Arguments are those of ``fill``, float32 data being worked on as with ``single``. Y None means
    X: every pair of rows is then made once. Weights ``w`` (m, q) have the dtype of the rows or
    float64, which costs more and loses nothing. With ``v`` (n, q), ``sums_of_y += k(Y, X) @ v`` is
    made of the same tiles. The same number of threads gives the same numbers. ``centre`` is
    ``centre_of_rows`` of Y, or of X, where it is known.
    """
    if centre is None:
        centre = centre_of_rows(X if Y is None else Y)
    if not _core.kernel_product(
        name, X, Y, centre, scale, parameter, w, sums, v, sums_of_y, n_threads(n_jobs), True
    ):
        raise ValueError(_TOO_LARGE)


def fill_fixed(
    out: NDArray,
    name: str,
    X: NDArray,
    scale: NDArray[np.float64],
    parameter: float = 1.0,
    n_jobs: int | None = None,
) -> None:
    """Write the kernel matrix of the rows of X into ``out`` as ``_core.fixed_kernel`` has it.

    ``out`` has ``_core.fixed_kernel_size(n)`` entries, uint16 for rows of float32 and uint32 for
    those of float64; other arguments are those of ``fill``.
    """
    if not _core.fixed_kernel(name, X, centre_of_rows(X), scale, parameter, out, n_threads(n_jobs)):
        raise ValueError(_TOO_LARGE)


def _squared_distances(x: sparse.csr_array, y: sparse.csr_array) -> NDArray[np.float64]:
    """Squared Euclidean distances between rows of CSR matrices."""
    x_squares, y_squares = _row_squares(x), _row_squares(y)
    squared = (x @ y.T).toarray()
    squared *= -2.0
    squared += x_squares[:, None]
    squared += y_squares
    doubtful = np.flatnonzero(
        squared.min(axis=1) <= _CANCELLED * (x_squares + y_squares.max(initial=0.0))
    )
    for part in row_chunks(len(doubtful), 1.0, budget=64):
        i = doubtful[part]
        places, j = np.nonzero(squared[i] <= _CANCELLED * (x_squares[i, None] + y_squares))
        for pairs in row_chunks(len(places), 24.0 * x.shape[1]):
            rows, columns = i[places[pairs]], j[pairs]
            squared[rows, columns] = _row_squares(x[rows] - y[columns])
    return squared


def _row_squares(x: sparse.csr_array) -> NDArray[np.float64]:
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.asarray(x.multiply(x).sum(axis=1)).ravel()
    if not np.isfinite(squares).all():
        raise ValueError(_TOO_LARGE)
    return squares


def coordinate_products(
    factor: Callable[[NDArray[np.float64]], NDArray[np.float64]], x: Any, y: Any
) -> NDArray[np.float64]:
    """Products over j of ``factor(|x_j - y_j|)``, factor(0) = 1; it may overwrite its argument."""
    out, apart = np.ones((x.shape[0], y.shape[0])), np.empty((x.shape[0], y.shape[0]))
    if is_sparse(x):
        x, y = x.tocsc(), y.tocsc()
        used = np.flatnonzero(np.diff(x.indptr) + np.diff(y.indptr))
        pairs = ((x[:, [j]].toarray()[:, 0], y[:, [j]].toarray()[:, 0]) for j in used)
    else:
        pairs = ((x[:, j], y[:, j]) for j in range(x.shape[1]))
    with np.errstate(over="ignore", under="ignore"):
        for a, b in pairs:
            np.subtract(a[:, None], b, out=apart)
            out *= factor(np.abs(apart, out=apart))
    return out


def typical_distance(metric: str, X: Data, weights: NDArray | None = None) -> float:
    """The median distance between distinct rows of X, among a fixed random sample of its rows."""
    n = X.shape[0]
    weights = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    if n > _MEDIAN_ROWS:
        rows = np.sort(np.random.default_rng(0).choice(n, _MEDIAN_ROWS, replace=False))
        X, weights = X[rows], weights[rows]
    elif isinstance(X, PreparedRows):
        X = X[:]
    x = scaled(X, np.ones(X.shape[1]), centre_of(X))
    i, j = np.triu_indices(x.shape[0], 1)
    between, weight = distances(metric, x, x)[i, j], weights[i] * weights[j]
    apart = (between > 0) & (weight > 0)
    if not apart.any():
        return 1.0
    order = np.argsort(between[apart])
    cumulative = np.cumsum(weight[apart][order])
    return float(between[apart][order][np.searchsorted(cumulative, cumulative[-1] / 2.0)])
