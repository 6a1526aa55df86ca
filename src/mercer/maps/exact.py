"""The kernel against every row it was fitted to: kernel machines without an approximation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from mercer._runtime.arrays import Matrix
from mercer._runtime.rows import Data
from mercer.designs import Design, kernel_columns
from mercer.maps.nystroem import Nystroem

__all__ = ["ExactKernel"]


class ExactKernel(Nystroem):
    """The kernel against all rows that the map is fitted to, z(x) = k(x, X).

    A linear model of these features is the exact kernel machine, f(x) = sum_i a_i k(x, x_i). Inner
    products of features approximate nothing: what regularises is the norm of the function in the
    space of the kernel, aᵀ k(X, X) a, which the estimators take for ``penalty="l2"``. Its design
    never holds the n x n matrix. Whitened, it is what :class:`Nystroem` is with every row for a
    landmark: features whose inner products are the kernel, at the cost of n x n eigenvectors.

    Parameters
    ----------
    kernel : {"gaussian", "laplacian", "exponential", "cauchy", "matern"}, Kernel or callable, \
default="gaussian"
        Any kernel; a callable takes two data matrices and returns the kernel matrix. Kernels of
        texts, such as "ngram", take sequences of strings.
    gamma : float, array of shape (d,), "scale" or "median", default="scale"
        Scale of the kernel; to be left out beside a callable.
    whiten : bool, default=False
        True gives z(x) = k(x, X) T with T T.T = k(X, X)^+. The estimators turn it on by themselves
        for losses that have a kink or are not convex, and for solvers that work by columns, where n
        is at most 5000: these are then faster.
    n_jobs : int or None, default=None
        Threads of its design; None means all.

    Attributes
    ----------
    landmarks_ : array or CSR of shape (n, d), or texts of shape (n,)
        The rows it was fitted to, not copied.
    normalization_ : ndarray of shape (n, D), float64
        T; None without whitening.
    n_features_out_ : int
        n; with whitening, the number of eigenvalues that are not rounding error.
    kernel_ : Kernel
        The kernel with its ``gamma`` as a number.

    Raises
    ------
    ValueError, TypeError
        By ``fit``, if a parameter makes no sense.
    MemoryError
        By ``transform``, if k(X, landmarks) would not fit; ``design`` does not hold it.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.maps import ExactKernel
    >>> ExactKernel(gamma=1.0).fit([[0.0], [1.0]]).transform([[0.0]]).round(4)
    array([[1.    , 0.3679]])
    """

    # What every row for a landmark leaves no choice of.
    n_components = None
    landmarks = None
    random_state = None

    def __init__(
        self,
        kernel: Any = "gaussian",
        gamma: float | ArrayLike | str = "scale",
        whiten: bool = False,
        *,
        n_jobs: int | None = None,
    ):
        self.kernel = kernel
        self.gamma = gamma
        self.whiten = whiten
        self.n_jobs = n_jobs

    def was_fitted_to(self, X: Matrix) -> bool:
        """Whether the rows of X are those of the fit, in type, too."""
        rows = self.landmarks_
        if X is rows:
            return True
        if type(X) is not type(rows) or X.shape != rows.shape or X.dtype != rows.dtype:
            return False
        return (rows != X).nnz == 0 if sparse.issparse(X) else np.array_equal(X, rows)

    @property
    def _goes_by_rows(self) -> bool:
        return False  # they are kept, prepared

    def _drawn_key(self) -> int:
        return 0

    def _chosen_landmarks(self, X: Data) -> Matrix:
        return X

    def _design(self, X: Data) -> Design:
        if self.normalization_ is None and self.was_fitted_to(X):
            return kernel_columns(X, self.kernel_, n_jobs=self.n_jobs)
        return super()._design(X)
