"""The methods that a comparison sets against each other, on equal terms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve
from sklearn.base import BaseEstimator
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from mercer import kernels
from mercer._array import CHUNK_BYTES, check_memory, n_threads, row_chunks
from mercer.estimators import KernelClassifier, KernelRegressor

__all__ = [
    "EXACT_ROWS",
    "METHODS",
    "TOLERANCE",
    "ExactKernelRidge",
    "Method",
    "make",
    "standardised",
]

TOLERANCE = 1e-2  # of iterative solvers: beyond it scores no longer change, only times
EXACT_ROWS = 16_000  # rows up to which the exact solution, cubic in n, is worth its minutes


@dataclass(frozen=True)
class Method:
    """One way to fit a kernel machine.

    Parameters
    ----------
    name : str
        Short name, as in ``--methods`` and in the records.
    label : str
        Name in tables and figures.
    kernels : tuple of str
        Kernels to choose between; empty where there is none.
    sizes : tuple of int
        Numbers of components to fit; empty where there is no such number.
    reference : int or None
        Number of components at which γ, α and the kernel are chosen.
    """

    name: str
    label: str
    kernels: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    reference: int | None = None

    def cost(self, size: int | None, n: int, d: int, k: int) -> float:
        """Roughly the seconds of a fit, for the progress bar alone."""
        columns = size or d
        if self.name == "exact":
            return 1e-11 * n**3 / 3 + 3e-9 * n**2 * d
        if self.name == "binning":
            return 0.02 + 2e-8 * n * columns * (2 + k)
        solving = 1e-11 * columns**2 * (n + columns)
        return 0.02 + solving + 1e-9 * n * columns + (self.name == "nystroem") * 1e-9 * columns**3


METHODS = {
    method.name: method
    for method in (
        Method("linear", "linear"),
        Method("binning", "random binning", ("laplacian",), (16, 64, 256, 1024), 256),
        Method("fourier", "random Fourier", ("gaussian", "laplacian"), (64, 256, 1024, 2048), 512),
        Method("nystroem", "Nyström", ("gaussian", "laplacian"), (64, 256, 1024, 2048), 512),
        Method("exact", "exact", ("gaussian", "laplacian")),
    )
}


def make(
    method: Method,
    task: str,
    *,
    size: int | None,
    kernel: str | None,
    gamma: float | None,
    alpha: float,
    seed: int,
    n_jobs: int | None,
    warm_start: bool = False,
) -> Any:
    """An unfitted estimator of a method: squared loss, inputs scaled, intercept, whatever it is.

    Parameters
    ----------
    method : Method
    task : {"classification", "regression"}
    size, kernel, gamma : int, str, float or None
        None where the method has no such setting.
    alpha : float
        Weight of the penalty in the objective (a mean over rows).
    seed : int
    n_jobs : int or None
    warm_start : bool, default=False
        Keep the map while only ``alpha`` changes.

    Examples
    --------
    >>> make(METHODS["linear"], "regression", size=None, kernel=None, gamma=None, alpha=1.0,
    ...      seed=0, n_jobs=1).alpha
    1.0
    """
    if method.name == "exact":
        return ExactKernelRidge(
            kernel, gamma, alpha, classify=task == "classification", n_jobs=n_jobs
        )
    estimator = KernelClassifier if task == "classification" else KernelRegressor
    settings: dict[str, Any] = {}
    if method.kernels:
        settings = {"kernel": kernel, "gamma": gamma, "n_components": size}
    return estimator(
        method.name,
        loss="squared",
        alpha=alpha,
        tol=TOLERANCE,
        random_state=seed,
        n_jobs=n_jobs,
        warm_start=warm_start,
        **settings,
    )


def standardised(X: Any) -> tuple[Any, Any]:
    """The scaler that the estimators use, fitted, and the scaled rows.

    Examples
    --------
    >>> import numpy as np
    >>> standardised(np.array([[0.0], [2.0]]))[1].ravel().tolist()
    [-1.0, 1.0]
    """
    scaler = MaxAbsScaler() if sparse.issparse(X) else StandardScaler()
    return scaler, scaler.fit_transform(X)


class ExactKernelRidge(BaseEstimator):
    """Kernel ridge regression with the whole kernel matrix: what the maps approximate.

    Minimises the objective of the estimators over all functions of the kernel: squared loss,
    penalty ``alpha`` and an intercept that is not penalised. One Cholesky factorisation of
    ``K + n·alpha·I`` serves every output. Memory is n² · 8 bytes and time grows with n³.

    Parameters
    ----------
    kernel : str or kernel
    gamma : float or str, default="scale"
    alpha : float, default=1.0
    classify : bool, default=False
        Whether ``y`` holds classes, coded as ±1 in one output per class.
    n_jobs : int or None, default=None

    Attributes
    ----------
    dual_coef_ : ndarray of shape (n, k)
    intercept_ : ndarray of shape (k,)

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 30)[:, None]
    >>> model = ExactKernelRidge("gaussian", 1.0, 1e-8).fit(X, X[:, 0] ** 2)
    >>> bool(abs(model.predict(X) - X[:, 0] ** 2).max() < 1e-3)
    True
    """

    def __init__(
        self,
        kernel: Any = "gaussian",
        gamma: Any = "scale",
        alpha: float = 1.0,
        classify: bool = False,
        n_jobs: int | None = None,
    ):
        self.kernel = kernel
        self.gamma = gamma
        self.alpha = alpha
        self.classify = classify
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any) -> ExactKernelRidge:
        """Fit to the rows of X (n, d) and the targets or classes y."""
        targets = self._prepare(X, y)
        self._solve(self._lower_kernel(), targets)
        return self

    def predict(self, X: Any) -> NDArray:
        """Targets or classes of the rows of X (m, d)."""
        scaled = self.scaler_.transform(X)
        out = np.empty((X.shape[0], self.dual_coef_.shape[1]))

        def fill(rows: slice) -> None:
            out[rows] = self.kernel_(scaled[rows], self.X_) @ self.dual_coef_

        self._for_chunks(fill, X.shape[0])
        return self._decode(out)

    def predict_along(
        self, alphas: Iterable[float], X: Any, y: Any, X_new: Any
    ) -> Iterator[NDArray]:
        """``fit(X, y).predict(X_new)`` for one alpha after the other, from one kernel matrix."""
        targets = self._prepare(X, y)
        K = self._lower_kernel()
        K_new = self.kernel_(self.scaler_.transform(X_new), self.X_)
        for alpha in alphas:
            self.alpha = alpha
            self._solve(K.copy(), targets)
            yield self._decode(K_new @ self.dual_coef_)

    def _prepare(self, X: Any, y: Any) -> NDArray:
        n = X.shape[0]
        check_memory(8.5 * n**2, f"the kernel matrix of {n} rows", "leave the exact method out")
        self.scaler_, self.X_ = standardised(X)
        self.kernel_ = kernels.get(self.kernel, self.gamma).resolve(self.X_)
        return self._encode(np.asarray(y))

    def _encode(self, y: NDArray) -> NDArray:
        if not self.classify:
            self.output_shape_ = y.shape[1:]
            return y.reshape(len(y), -1).astype(np.float64)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) == 2:
            return np.where(labels == 1, 1.0, -1.0)[:, None]
        return np.where(labels[:, None] == np.arange(len(self.classes_)), 1.0, -1.0)

    def _decode(self, responses: NDArray) -> NDArray:
        out = responses + self.intercept_
        if not self.classify:
            return out.reshape(len(out), *self.output_shape_)
        winners = (out[:, 0] > 0).astype(int) if out.shape[1] == 1 else out.argmax(axis=1)
        return self.classes_[winners]

    def _lower_kernel(self) -> NDArray:
        """The kernel matrix of the training rows, of which only the lower triangle is filled."""
        n = self.X_.shape[0]
        K = np.empty((n, n))

        def fill(rows: slice) -> None:
            K[rows, : rows.stop] = self.kernel_(self.X_[rows], self.X_[: rows.stop])

        self._for_chunks(fill, n)
        return K

    def _solve(self, K: NDArray, targets: NDArray) -> None:
        """Coefficients and intercept for ``self.alpha``; uses K up."""
        n = len(K)
        K.flat[:: n + 1] += n * self.alpha
        # The transpose is the Fortran-ordered view that LAPACK factorises without a copy.
        factor = cho_factor(K.T, lower=False, overwrite_a=True, check_finite=False)
        right = np.column_stack([targets, np.ones(n)])
        solved = cho_solve(factor, right, overwrite_b=True, check_finite=False)
        # The intercept makes the dual coefficients sum to zero.
        self.intercept_ = solved[:, :-1].sum(axis=0) / solved[:, -1].sum()
        self.dual_coef_ = solved[:, :-1] - solved[:, -1:] * self.intercept_

    def _for_chunks(self, work: Callable[[slice], None], n: int) -> None:
        """Do something for chunks of n rows, on all threads: kernels release the interpreter."""
        threads = n_threads(self.n_jobs)
        bytes_per_row = 8.0 * self.X_.shape[0]
        chunks = row_chunks(n, bytes_per_row, budget=min(CHUNK_BYTES, n * bytes_per_row / threads))
        with ThreadPoolExecutor(threads) as pool:
            for _ in pool.map(work, chunks):
                pass
