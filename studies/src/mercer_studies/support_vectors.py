"""Support vector machines to compare with: LIBSVM as it is, and its algorithm on all threads."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.svm import SVC, SVR

from mercer import kernels
from mercer._runtime.arrays import check_memory, row_chunks
from mercer._runtime.validation import name_from, positive_number
from mercer.estimators import DualKernelSVC
from mercer.kernels import Gaussian
from mercer.solvers import BoxDual, PairwiseCD
from mercer_studies.independent_blocks import standardised

__all__ = ["SupportVectorClassifier", "SupportVectorRegressor"]

_LARGE_BOX = 1e6  # times C: out of reach of every coefficient


class _SupportVectors(BaseEstimator):
    """Shared part: a scaler, a kernel in numbers, and LIBSVM with a kernel it knows or with K."""

    scale: bool
    kernel: Any
    gamma: Any
    scaler_: Any

    def _fit_inputs(self, X: Any) -> Any:
        """The training rows as the kernel sees them."""
        positive_number(self.C, "C")
        name_from(self.solver, ("libsvm", "pairs"), "solver")
        self.scaler_ = None
        if self.scale:
            self.scaler_, X = standardised(X)
        self.X_ = X
        self.kernel_ = kernels.get(self.kernel, self.gamma).resolve(X)
        return X

    def _scaled(self, X: Any) -> Any:
        return X if self.scaler_ is None else self.scaler_.transform(X)

    def _fit_libsvm(self, model: Any, y: Any, ridge: float = 0.0) -> None:
        """Fit scikit-learn's machine: by its own Gaussian, or by the kernel matrix plus a ridge."""
        own = isinstance(self.kernel_, Gaussian) and np.ndim(self.kernel_.gamma) == 0 and not ridge
        if own:
            self.model_ = model.set_params(kernel="rbf", gamma=float(self.kernel_.gamma))
            self.model_.fit(self.X_, y)
            return
        n = self.X_.shape[0]
        check_memory(16.0 * n**2, f"the kernel matrix of {n} rows", "leave this method out")
        K = self.kernel_(self.X_).astype(np.float64, copy=False)
        K.flat[:: n + 1] += ridge
        self.model_ = model.set_params(kernel="precomputed").fit(K, y)

    def _predict_libsvm(self, X: Any) -> NDArray:
        if self.model_.kernel == "rbf":
            return self.model_.predict(X)
        parts = [
            self.model_.predict(self.kernel_(X[rows], self.X_).astype(np.float64, copy=False))
            for rows in row_chunks(X.shape[0], 8.0 * self.X_.shape[0])
        ]
        return np.concatenate(parts)


class SupportVectorClassifier(_SupportVectors):
    """A support vector machine with an intercept: LIBSVM's, or its algorithm on all threads.

    ``loss``: "hinge" or "squared_hinge", LIBSVM minimises the squared hinge loss as the hinge loss
    with 1 / (2C) on the diagonal of the kernel matrix and no upper limit of the coefficients;
    ``solver``: "libsvm" or "pairs", scikit-learn's SVC, with one thread and, for several classes, a
    machine for every pair of them; or :class:`mercer.solvers.PairwiseCD`, which makes kernel rows
    with all threads, with a machine for every class; ``tol``: how much a pair of coefficients may
    violate optimality; ``cache_size``: megabytes for kernel columns; ``scale``: whether inputs are
    standardised first; ``n_jobs``: threads of "pairs". ``n_support_``: rows with a coefficient.
    """

    def __init__(
        self,
        kernel: Any = "gaussian",
        gamma: Any = "scale",
        C: float = 1.0,
        loss: str = "hinge",
        solver: str = "libsvm",
        tol: float = 1e-3,
        cache_size: float = 200.0,
        scale: bool = True,
        n_jobs: int | None = None,
    ):
        self.kernel = kernel
        self.gamma = gamma
        self.C = C
        self.loss = loss
        self.solver = solver
        self.tol = tol
        self.cache_size = cache_size
        self.scale = scale
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any) -> SupportVectorClassifier:
        """Fit to the rows of X (n, d) and their classes y."""
        X = self._fit_inputs(X)
        name_from(self.loss, ("hinge", "squared_hinge"), "loss")
        if self.solver == "pairs":
            self.model_ = DualKernelSVC(
                self.kernel_,
                C=self.C,
                loss=self.loss,
                solver="pairs",
                scale=False,
                tol=self.tol,
                cache_size=self.cache_size,
                n_jobs=self.n_jobs,
            ).fit(X, y)
        else:
            squared = self.loss == "squared_hinge"
            box = _LARGE_BOX * self.C if squared else self.C
            model = SVC(C=box, tol=self.tol, cache_size=self.cache_size)
            self._fit_libsvm(model, y, 0.5 / self.C if squared else 0.0)
        self.n_support_ = len(self.model_.support_)
        self.n_iter_ = int(np.sum(self.model_.n_iter_))
        return self

    def predict(self, X: Any) -> NDArray:
        """Classes of the rows of X (m, d)."""
        X = self._scaled(X)
        return self.model_.predict(X) if self.solver == "pairs" else self._predict_libsvm(X)


class SupportVectorRegressor(_SupportVectors):
    """Support vector regression: LIBSVM's, or its algorithm on all threads.

    Minimises ``|f|**2 / 2 + C sum_i max(0, |y_i - f(x_i) - b| - epsilon)``. ``epsilon``: errors up
    to it cost nothing, in units of y; ``solver``: "libsvm" or "pairs", scikit-learn's SVR, with one
    thread, or :class:`mercer.solvers.PairwiseCD`; ``tol``: how much a pair of coefficients may
    violate optimality; ``cache_size``: megabytes for kernel columns; ``scale``: whether inputs are
    standardised first; ``n_jobs``: threads of "pairs". ``n_support_``: rows with a coefficient.
    """

    def __init__(
        self,
        kernel: Any = "gaussian",
        gamma: Any = "scale",
        C: float = 1.0,
        epsilon: float = 0.1,
        solver: str = "libsvm",
        tol: float = 1e-3,
        cache_size: float = 200.0,
        scale: bool = True,
        n_jobs: int | None = None,
    ):
        self.kernel = kernel
        self.gamma = gamma
        self.C = C
        self.epsilon = epsilon
        self.solver = solver
        self.tol = tol
        self.cache_size = cache_size
        self.scale = scale
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any) -> SupportVectorRegressor:
        """Fit to the rows of X (n, d) and the targets y (n,)."""
        X = self._fit_inputs(X)
        if self.solver == "libsvm":
            model = SVR(C=self.C, epsilon=self.epsilon, tol=self.tol, cache_size=self.cache_size)
            self._fit_libsvm(model, np.asarray(y, dtype=np.float64))
            self.n_support_ = len(self.model_.support_)
            self.n_iter_ = int(np.sum(self.model_.n_iter_))
            return self
        dual = BoxDual.epsilon_insensitive(y, self.C, self.epsilon)
        pairs = PairwiseCD(tol=self.tol, cache_size=self.cache_size, n_jobs=self.n_jobs)
        found = pairs.solve(dual, self.kernel_, X)
        used = np.flatnonzero(found.coef)
        self.support_vectors_, self.dual_coef_ = X[used], found.coef[used]
        self.intercept_, self.n_support_, self.n_iter_ = found.intercept, len(used), found.n_iter
        return self

    def predict(self, X: Any) -> NDArray:
        """Targets of the rows of X (m, d)."""
        X = self._scaled(X)
        if self.solver == "libsvm":
            return self._predict_libsvm(X)
        out = np.full(X.shape[0], self.intercept_)
        if self.n_support_:
            for rows in row_chunks(X.shape[0], 8.0 * self.n_support_):
                out[rows] += self.kernel_(X[rows], self.support_vectors_) @ self.dual_coef_
        return out
