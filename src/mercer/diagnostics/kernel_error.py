"""The distance of the inner products of features from a kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, eigsh

from mercer import kernels
from mercer._runtime.arrays import check_memory, row_chunks
from mercer._runtime.validation import matrix
from mercer.designs import Dense, Design, Lazy, Sparse
from mercer.maps import FeatureMap

__all__ = ["KernelError", "kernel_error"]

_DENSE_ROWS = 64  # up to so many rows all eigenvalues take no longer than the largest
_ROUNDING = 1e-12  # relative differences below it are rounding errors
_TOLERANCE = 1e-6  # relative, of the largest eigenvalue


@dataclass(frozen=True)
class KernelError:
    """Distance of Z Zᵀ from a kernel matrix K, relative to K.

    Parameters
    ----------
    spectral : float
        Relative error ``|K - Z Zᵀ| / |K|`` in the spectral norm, the largest absolute eigenvalue.
    frobenius : float
        Relative error in the Frobenius norm, the root of the sum of squares.
    n_rows : int
        Number of rows n of K.
    """

    spectral: float
    frobenius: float
    n_rows: int


def kernel_error(truth: Any, features: Any) -> KernelError:
    """Distance between the inner products of features and a kernel matrix.

    The Lanczos method computes the spectral norm from products with K and Z; no other matrix of the
    size of K is stored. Computations are in float64, except for float32 features of a lazy design.

    Parameters
    ----------
    truth : array of shape (n, n), or pair (kernel, X)
        Kernel matrix K, or a kernel as for :func:`mercer.kernels.get` and the rows X of K.
    features : array or CSR of shape (n, D), design or fitted feature map
        Features Z, or a map that computes Z from the X in ``truth``.

    Raises
    ------
    TypeError, ValueError
        If ``truth`` is zero or no symmetric matrix of finite numbers, or if the numbers of rows
        differ.
    MemoryError
        If K would not fit into memory.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.diagnostics import kernel_error
    >>> from mercer.kernels import Gaussian
    >>> from mercer.maps import RandomFourier
    >>> X, kernel = np.linspace(0, 1, 100)[:, None], Gaussian(gamma=5.0)
    >>> few, many = (
    ...     kernel_error((kernel, X), RandomFourier(kernel, n_components=D, random_state=0).fit(X))
    ...     for D in (10, 1000)
    ... )
    >>> many.spectral < 0.2 * few.spectral
    True
    """
    K, X = _kernel_matrix(truth)
    design = _in_float64(_design(features, X))
    n = len(K)
    if design.shape[0] != n:
        raise ValueError(f"features must have the {n} rows of the kernel; got {design.shape[0]}.")
    size, distance = _frobenius(K, design)
    if size == 0.0:
        raise ValueError("truth must not be zero everywhere: no error is relative to that.")
    if distance <= _ROUNDING * size:
        largest = distance
    elif n <= _DENSE_ROWS:
        largest = _largest(K - design.gram_matvec(np.eye(n)))
    else:
        largest = _largest(lambda v: K @ v - design.gram_matvec(v), n)
    return KernelError(largest / _largest(K), distance / size, n)


def _kernel_matrix(truth: Any) -> tuple[NDArray, Any]:
    """K, and X if it was given."""
    if isinstance(truth, tuple) and len(truth) == 2:
        kernel, X = truth
        kernel = kernels.get(kernel).resolve(X)
        exact = X.astype(np.float64) if getattr(X, "dtype", None) == np.float32 else X
        return kernel(exact), X
    K = matrix(truth, "truth")
    if sparse.issparse(K):
        raise TypeError("truth must be a dense kernel matrix; got a sparse one.")
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            f"truth must be a square kernel matrix, or a pair (kernel, X); got shape {K.shape}."
        )
    scale = max(K.max(), -K.min())
    for rows in row_chunks(len(K), 24.0 * len(K)):
        if np.abs(K[rows] - K[:, rows].T).max() > 1e-5 * scale:
            raise ValueError("truth must be a symmetric kernel matrix; this one is not.")
    if K.dtype != np.float64:
        check_memory(8.0 * K.size, "a float64 copy of the kernel matrix", "use fewer rows")
    return K.astype(np.float64, copy=False), None


def _design(features: Any, X: Any) -> Design:
    if isinstance(features, FeatureMap):
        if X is None:
            raise ValueError(
                "truth must be a pair (kernel, X) beside a feature map, which is to transform X."
            )
        return features.design(X)
    if isinstance(features, Design):
        return features
    Z = matrix(features, "features")
    return Sparse(Z) if sparse.issparse(Z) else Dense(Z)


def _in_float64(design: Design) -> Design:
    if design.dtype == np.float64 or isinstance(design, Lazy):
        return design
    if isinstance(design, Dense):
        what = f"a float64 copy of features of shape {design.shape}"
        check_memory(8.0 * design.array.size, what, "use fewer rows")
        return Dense(design.array.astype(np.float64))
    return Sparse(design.tocsr().astype(np.float64))


def _frobenius(K: NDArray, design: Design) -> tuple[float, float]:
    """Norms of K and of its distance from the inner products."""
    n, n_columns = design.shape
    size = distance = 0.0
    for rows in row_chunks(n, 24.0 * (n + n_columns)):
        size += float(np.vdot(K[rows], K[rows]))
        part = K[rows] - design.matvec(design.rows(rows).toarray().T).T
        distance += float(np.vdot(part, part))
    return float(np.sqrt(size)), float(np.sqrt(distance))


def _largest(symmetric: NDArray | Callable[[NDArray], NDArray], n_rows: int = 0) -> float:
    """The largest absolute eigenvalue of a matrix, or of an operator on ``n_rows`` rows."""
    if callable(symmetric):
        operator = LinearOperator((n_rows, n_rows), matvec=symmetric, dtype=np.float64)
    elif len(symmetric) <= _DENSE_ROWS:
        return float(np.abs(np.linalg.eigvalsh(symmetric)).max())
    else:
        operator, n_rows = symmetric, len(symmetric)
    start = np.random.default_rng(0).normal(size=n_rows)
    value = eigsh(operator, k=1, which="LM", v0=start, tol=_TOLERANCE, return_eigenvectors=False)
    return float(abs(value[0]))
