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
    """Kernel values between a row and all training rows: z(x) = k(x, X).

    A linear model on these features is the exact kernel machine, f(x) = sum_i a_i k(x, x_i). Inner
    products of the features do not approximate the kernel. Estimators therefore penalise the
    squared norm of the function in the space of the kernel, aᵀ k(X, X) a, for ``penalty="l2"``. The
    design need not store the n x n matrix. With ``whiten=True`` the map is :class:`Nystroem` with
    all rows as landmarks: inner products are the kernel, and n x n eigenvectors are computed.

    Parameters
    ----------
    kernel : {"gaussian", "laplacian", "exponential", "cauchy", "matern"}, Kernel or callable, \
default="gaussian"
        Kernel of the features. A callable takes two data matrices and returns the kernel matrix.
        Kernels of texts, such as "ngram", take sequences of strings.
    gamma : float, array of shape (d,), "scale" or "median", default="scale"
        Factor of the distance in the kernel, > 0; leave it out if ``kernel`` is a callable.
    whiten : bool, default=False
        Whether features are z(x) = k(x, X) T with T T.T = k(X, X)^+. Estimators set it for up to
        5000 rows if the loss has a kink or is not convex, or if the solver works by columns: these
        fits are then faster.
    n_jobs : int or None, default=None
        Number of threads of the design; None means all.

    Attributes
    ----------
    landmarks_ : array or CSR of shape (n, d), or texts of shape (n,)
        Training rows, not copied.
    normalization_ : ndarray of shape (n, D), float64
        Whitening matrix T; None without whitening.
    n_features_out_ : int
        Number of columns: n or, with whitening, the number of eigenvalues above rounding error.
    kernel_ : Kernel
        Fitted kernel, with its ``gamma`` as a number.

    Raises
    ------
    ValueError, TypeError
        At ``fit``, if a parameter is invalid.
    MemoryError
        At ``transform``, if k(X, landmarks) would not fit; ``design`` does not need it.

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
