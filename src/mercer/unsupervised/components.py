"""Principal components in the space of a kernel."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from mercer._runtime.progress import with_callbacks
from mercer._runtime.state import State
from mercer._runtime.threads import one_blas_thread
from mercer._runtime.validation import positive_integer, positive_number
from mercer.designs import Design
from mercer.estimators._documentation import documented
from mercer.estimators.base import listening
from mercer.unsupervised.base import COMMON, Unsupervised, leading

__all__ = ["KernelPCA"]

_FEW_COLUMNS = 2000  # features whose Gram matrix takes less time than products with its vectors


@documented(COMMON)
@dataclass(eq=False, repr=False)
class KernelPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Unsupervised):
    """Principal components of the rows in the space of a kernel.

    The components are the leading right singular vectors of the centred features, found by
    Lanczos' method from products with the features: no n x n matrix is stored.

    Parameters
    ----------
    n_components : int, default=2
        Number of components, >= 1 and at most the number of rows and of features.
    {feature_map, kernel, gamma, n_features, scale}
    alpha : float, default=1e-3
        Strength of the ridge regression of the inputs on the components by which
        ``inverse_transform`` works, > 0, in units of the mean variance of a component.
    {random_state, n_jobs}

    Attributes
    ----------
    {feature_map_, scaler_}
    eigenvalues_ : ndarray of shape (n_components,)
        Eigenvalues of the centred kernel matrix, descending.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        Share of each component in the variance in the space of the kernel.
    components_ : ndarray of shape (n_features_out, n_components)
        Weights of the features in each component.
    {n_features_in_}

    Raises
    ------
    {ValueError, MemoryError}

    References
    ----------
    Schölkopf, Smola and Müller, Nonlinear component analysis as a kernel eigenvalue problem, Neural
    Computation 1998.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.unsupervised import KernelPCA
    >>> angles = np.linspace(0, 6, 200)
    >>> X = np.column_stack([np.cos(angles), np.sin(angles)])
    >>> KernelPCA(2, feature_map="fourier", random_state=0).fit_transform(X).shape
    (200, 2)
    """

    n_components: int = 2
    alpha: float = field(default=1e-3, kw_only=True)
    _fitted_by: ClassVar[str] = "components_"
    eigenvalues_: NDArray[np.float64] = field(init=False)
    explained_variance_ratio_: NDArray[np.float64] = field(init=False)
    components_: NDArray[np.float64] = field(init=False)

    @with_callbacks
    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the components.

        Parameters
        ----------
        X : array or CSR of shape (n, d), or texts
        y : ignored

        Returns
        -------
        self
        """
        with listening(self, X):
            self._fit(X)
        return self

    @with_callbacks
    def fit_transform(self, X: Any, y: Any = None) -> NDArray:
        """``fit(X).transform(X)`` with one pass of the map.

        Parameters
        ----------
        X, y
            As for ``fit``.

        Returns
        -------
        ndarray of shape (n, n_components)
        """
        with listening(self, X):
            return self._scores(self._fit(X))

    def transform(self, X: Any) -> NDArray:
        """Components of rows.

        Parameters
        ----------
        X : array or CSR of shape (n, d), or texts

        Returns
        -------
        ndarray of shape (n, n_components)
        """
        with one_blas_thread(self.n_jobs):
            return self._scores(self._design(X))

    def inverse_transform(self, X: Any) -> NDArray:
        """Inputs whose components these are, by ridge regression over the rows of the fit.

        Parameters
        ----------
        X : array of shape (n, n_components)

        Returns
        -------
        ndarray of shape (n, d)
        """
        self._check_fitted()
        if self._takes_texts():
            raise ValueError("inverse_transform needs inputs that are numbers; the fit had texts.")
        components = np.asarray(X, dtype=np.float64)
        if components.ndim != 2 or components.shape[1] != len(self.eigenvalues_):
            raise ValueError(
                f"X must have {len(self.eigenvalues_)} columns, one per component; got shape "
                f"{components.shape}."
            )
        with one_blas_thread(self.n_jobs):
            inputs: NDArray = components @ self._inverse[:-1] + self._inverse[-1]
        return inputs

    def _fit(self, X: Any) -> Design:
        count = positive_integer(self.n_components, "n_components")
        positive_number(self.alpha, "alpha")
        self._forget()
        X = self._checked(X, reset=True)
        design = self._fitted_design(X)
        n, n_columns = design.shape
        if count > min(n, n_columns):
            raise ValueError(
                f"n_components must be at most {min(n, n_columns)}, the smaller number of rows and "
                f"features; got {count}."
            )
        mean = design.rmatvec(np.ones(n, dtype=design.dtype)).astype(np.float64) / n
        values, vectors = self._eigenvectors(design, mean, count)
        if self._is_exact:
            total = self.feature_map_.kernel_.diag(self._scaled(X)).sum(dtype=np.float64)
            trace = total - mean.sum()
        else:
            total = design.column_sqnorms().sum()
            trace = total - n * (mean @ mean)
        # Smaller eigenvalues are rounding errors: rows do not differ along the component.
        real = values > 100 * np.finfo(design.dtype).eps * total
        values, vectors = np.where(real, values, 0.0), vectors * real
        largest = np.abs(vectors).argmax(axis=0)
        vectors *= np.sign(vectors[largest, np.arange(count)])
        self.eigenvalues_, self.components_ = values, vectors
        self.explained_variance_ratio_ = values / max(trace, np.finfo(float).tiny)
        self._offset = mean @ vectors
        if not self._takes_texts():
            self._learn_inverse(X, self._scores(design))
        return design

    def _eigenvectors(
        self, design: Design, mean: NDArray, count: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Eigenvalues (count,) of the centred kernel matrix and weights (D, count) of features."""
        n, n_columns = design.shape
        tol = 1e-10 if design.dtype == np.float64 else 1e-7
        by_rows = self._is_exact or n <= n_columns

        def of_rows(v: NDArray) -> NDArray:
            found = self._gram(design, v - v.mean())
            return found - found.mean()

        def of_features(v: NDArray) -> NDArray:
            found = design.matvec(v).astype(np.float64) - mean @ v
            return design.rmatvec(found).astype(np.float64)

        product, size = (of_rows, n) if by_rows else (of_features, n_columns)
        if not by_rows and n_columns <= _FEW_COLUMNS:  # one pass over the rows, not one a product
            matrix = design.gram() - n * np.outer(mean, mean)
            found = linalg.eigh(matrix, subset_by_index=(n_columns - count, n_columns - 1))
            values, vectors = (part[..., ::-1] for part in found)
        else:
            values, vectors = leading(product, size, count, self._key, tol)
        if by_rows:
            lengths = np.sqrt(np.where(values > 0, values, 1.0))
            vectors = self._spread(design, (vectors - vectors.mean(axis=0)) / lengths)
        return values, vectors

    def _scores(self, design: Design) -> NDArray:
        scores = design.matvec(self.components_) - self._offset
        return scores.astype(design.dtype, copy=False)

    def _learn_inverse(self, X: Any, scores: NDArray) -> None:
        """Ridge regression of the inputs on the components, which have a mean of 0."""
        T = scores.astype(np.float64)
        mean = np.asarray(X.mean(axis=0, dtype=np.float64)).ravel()
        gram = T.T @ T
        ridge = self.alpha * (np.trace(gram) / len(gram) or 1.0)  # equal rows have scores of 0
        weights = linalg.solve(
            gram + ridge * np.eye(len(gram)), (X.T @ T - np.outer(mean, T.sum(axis=0))).T
        )
        self._inverse = np.vstack([weights, mean])

    @property
    def _n_features_out(self) -> int:
        return len(self.eigenvalues_)

    def _check_state(self) -> None:
        super()._check_state()
        state = State(self)
        k = len(state.array("eigenvalues_", (None,), "d"))
        state.array("components_", (self.feature_map_.n_features_out_, k), "d")
        state.array("_offset", (k,), "d")
        if not self._takes_texts():
            state.array("_inverse", (k + 1, state.integer("n_features_in_", 1)), "d")
