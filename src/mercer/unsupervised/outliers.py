"""Outliers by the one-class machine of a kernel."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.base import OutlierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import OneClassSVM

from mercer._runtime.arrays import check_memory
from mercer._runtime.state import State
from mercer._runtime.validation import positive_integer, positive_number
from mercer.designs import Design
from mercer.estimators._documentation import documented
from mercer.unsupervised.base import COMMON, Unsupervised

__all__ = ["OneClassKernel"]

_WIDTHS = 0.5 * 0.2 ** np.arange(12)  # of the smoothed hinge, in units of the largest |w|²
_PAIRS = 20  # of vectors that L-BFGS keeps
_LEAST = 1e-3  # |w|² below this share of the largest is 0: the features surround the origin


@documented(COMMON)
@dataclass(eq=False, repr=False)
class OneClassKernel(OutlierMixin, Unsupervised):
    """One-class machine: rows with a small score are outliers.

    Minimises ``|w|²/2 + sum_i max(0, rho - w z_i) / (nu n) - rho`` over the weights w of the
    features z and the offset rho. ``w z`` is then a weighted mean of the kernel over a share of at
    least ``nu`` of the rows; the mean has large values where rows are dense. For kernels with
    k(x, x) = 1 the sphere of support vector data description has the same outliers.

    The dual problem of the exact kernel is solved by libsvm on the kernel matrix, which must fit
    into memory. Other maps take time linear in the number of rows: L-BFGS minimises the problem
    with a smoothed hinge, whose width shrinks until the duality gap of the problem itself is small.

    Parameters
    ----------
    nu : float, default=0.1
        Share of the rows of the fit that are outliers, in (0, 1).
    {feature_map, kernel, gamma, n_features}
    tol : float, default=1e-3
        Largest duality gap relative to ``|w|²``, > 0; with the exact kernel, tolerance of libsvm.
    max_iter : int, default=1000
        Largest number of products with the features, give or take a line search, or of
        iterations of libsvm in units of the number of rows, >= 1.
    {random_state, n_jobs}

    Attributes
    ----------
    {feature_map_}
    coef_ : ndarray of shape (n_features_out,)
        Weights of the features.
    offset_ : float
        Score below which a row is an outlier: ``floor(nu n)`` rows of the fit have
        smaller scores.
    gap_ : float
        Duality gap relative to ``|w|²``; NaN with the exact kernel.
    n_iter_ : int
        Number of products with the features, or of iterations of libsvm.
    {n_features_in_}

    Raises
    ------
    {ValueError, MemoryError}

    Notes
    -----
    Scores are those of :class:`sklearn.svm.OneClassSVM` divided by ``nu n``.

    References
    ----------
    Schölkopf, Platt, Shawe-Taylor, Smola and Williamson, Estimating the support of a
    high-dimensional distribution, Neural Computation 2001. Tax and Duin, Support vector data
    description, Machine Learning 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.unsupervised import OneClassKernel
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> model = OneClassKernel(0.05, feature_map="nystroem", random_state=0).fit(X)
    >>> int((model.predict(X) == -1).sum()), model.predict([[6.0, 6.0]]).tolist()
    (25, [-1])
    """

    nu: float = 0.1
    tol: float = field(default=1e-3, kw_only=True)
    max_iter: int = field(default=1000, kw_only=True)
    _fitted_by: ClassVar[str] = "coef_"
    coef_: NDArray[np.float64] = field(init=False)
    offset_: float = field(init=False)
    gap_: float = field(init=False)
    n_iter_: int = field(init=False)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the weights and the offset.

        Parameters
        ----------
        X : array or CSR of shape (n, d)
        y : ignored

        Returns
        -------
        self
        """
        self._forget()
        nu = positive_number(self.nu, "nu")
        if nu >= 1:
            raise ValueError(f"nu must be a share of the rows in (0, 1); got {nu}.")
        tol, most = positive_number(self.tol, "tol"), positive_integer(self.max_iter, "max_iter")
        X = self._checked(X, reset=True)
        design = self._fitted_design(X)
        solve = self._by_kernel_matrix if self._is_exact else self._by_products
        coef, converged = solve(design, nu, tol, most)
        if not converged:
            warnings.warn(
                f"the one-class machine stopped before it reached tol={tol:g}; raise tol or "
                f"max_iter={most}.",
                ConvergenceWarning,
                stacklevel=2,
            )
        scores = design.matvec(coef).astype(np.float64)
        rank = int(nu * len(scores))
        self.offset_ = float(np.partition(scores, rank)[rank])
        self.coef_ = coef
        return self

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """Scores ``w z`` of rows: large where rows of the fit are dense.

        Parameters
        ----------
        X : array or CSR of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
        """
        return np.asarray(self._design(X).matvec(self.coef_), dtype=np.float64)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores less ``offset_``, negative for outliers.

        Parameters
        ----------
        X : array or CSR of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
        """
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> NDArray[np.int64]:
        """-1 for outliers and 1 for other rows.

        Parameters
        ----------
        X : array or CSR of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
        """
        return np.where(self.decision_function(X) < 0, -1, 1)

    def _by_kernel_matrix(
        self, design: Design, nu: float, tol: float, most: int
    ) -> tuple[NDArray[np.float64], bool]:
        """Weights (n,) of the rows, with sum 1, and whether libsvm converged."""
        n = design.shape[0]
        check_memory(
            16.0 * n * n,
            f"the kernel matrix of {n} rows",
            "use feature_map='nystroem', 'fourier' or 'binning'",
        )
        K = np.asarray(design.toarray(), dtype=np.float64, order="C")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ConvergenceWarning)
            machine = OneClassSVM(kernel="precomputed", nu=nu, tol=tol, max_iter=most * n).fit(K)
        weights = np.zeros(n)
        weights[machine.support_] = machine.dual_coef_[0] / machine.dual_coef_.sum()
        self.n_iter_, self.gap_ = int(machine.n_iter_), float("nan")
        return weights, not caught

    def _by_products(
        self, design: Design, nu: float, tol: float, most: int
    ) -> tuple[NDArray[np.float64], bool]:
        """Weights (D,) of the features, and whether the duality gap reached ``tol``."""
        n, n_columns = design.shape
        check_memory(
            8.0 * (2 * _PAIRS + 6) * n_columns,
            f"L-BFGS on {n_columns} features",
            "use a smaller n_features or gamma",
        )
        start = design.rmatvec(np.full(n, 1 / n, dtype=design.dtype)).astype(np.float64)
        unit = float(start @ start)  # |w|² is at most that
        best, self.gap_, self.n_iter_ = start, np.inf, 0
        if unit * n <= np.finfo(design.dtype).eps * float(design.column_sqnorms().sum()):
            self.gap_ = 0.0  # the mean of the rows is 0, and so is w
            return np.zeros_like(start), True

        def smoothed(u: NDArray, width: float) -> tuple[float, NDArray]:
            """Objective and gradient in units of |w|², and the gap of the problem itself."""
            nonlocal best
            self.n_iter_ += 1
            scores = design.matvec(u * unit**0.5).astype(np.float64) / unit
            rho = _offset(scores, nu, width)
            slopes = np.clip((rho - scores) / width, 0.0, 1.0)
            losses = slopes * (rho - scores - width * slopes / 2)
            back = design.rmatvec(slopes / (slopes.sum() * unit**0.5)).astype(np.float64)
            edge = np.partition(scores, int(nu * n))[int(nu * n)]
            squares = float(u @ u)
            exact = squares / 2 + np.maximum(edge - scores, 0).sum() / (nu * n) - edge
            gap = (exact + float(back @ back) / 2) / max(squares, _LEAST)
            if gap < self.gap_:
                best, self.gap_ = u * unit**0.5, float(gap)
            return squares / 2 + losses.sum() / (nu * n) - rho, u - back

        def enough(_: NDArray) -> None:
            if self.gap_ <= tol:
                raise StopIteration

        ends = {"ftol": 1e-5 * tol, "gtol": 1e-3 * tol}  # the smoothed problem, beside the gap
        for width in _WIDTHS:
            room = most - self.n_iter_
            if self.gap_ <= tol or room < 1:
                break
            minimize(
                smoothed,
                best / unit**0.5,
                (width,),
                jac=True,
                method="L-BFGS-B",
                callback=enough,
                options={"maxfun": room, "maxiter": room, "maxcor": _PAIRS} | ends,
            )
        return best, self.gap_ <= tol

    def _check_state(self) -> None:
        super()._check_state()
        state = State(self)
        state.array("coef_", (self.feature_map_.n_features_out_,), "d")
        state.number("offset_")


def _offset(scores: NDArray, nu: float, width: float) -> float:
    """Offset rho at which the slopes of the smoothed hinge have a mean of nu, by bisection."""
    rank = int(nu * len(scores))
    low = float(np.partition(scores, rank)[rank]) - width
    high = low + 2 * width
    surely = int((scores < low - width).sum())
    near = scores[(scores >= low - width) & (scores < high)]
    while high - low > 1e-12 * width + 4 * np.spacing(abs(high)):
        middle = (low + high) / 2
        total = surely + np.clip((middle - near) / width, 0.0, 1.0).sum()
        low, high = (middle, high) if total < nu * len(scores) else (low, middle)
    return high
