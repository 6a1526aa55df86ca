"""Outliers by the one-class machine of a kernel."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from sklearn.base import OutlierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import OneClassSVM

from mercer._runtime.arrays import check_memory
from mercer._runtime.progress import with_callbacks
from mercer._runtime.random import key_from
from mercer._runtime.state import State
from mercer._runtime.threads import one_blas_thread
from mercer._runtime.validation import number_at_least_0, positive_integer, positive_number
from mercer.designs import Design
from mercer.estimators._documentation import documented
from mercer.estimators.base import INTERRUPTED, Listener, listening
from mercer.unsupervised.base import COMMON, Unsupervised

__all__ = ["OneClassKernel"]

_WIDTHS = 0.5 * 0.2 ** np.arange(12)  # of the smoothed hinge, in units of the largest |w|²
_PAIRS = 20  # of vectors that L-BFGS keeps
_SLACK = 64.0  # of scores, in units of their rounding
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
    {feature_map, kernel, gamma, n_features, scale}
    held_out : float, default=0.0
        Share of the rows, in [0, 1), that ``fit`` holds out for ``p_values``.
    tol : float, default=1e-3
        Largest duality gap relative to ``|w|²``, > 0; with the exact kernel, tolerance of libsvm.
    max_iter : int, default=1000
        Largest number of products with the features, give or take a line search, or of
        iterations of libsvm in units of the number of rows, >= 1.
    {random_state, n_jobs}

    Attributes
    ----------
    {feature_map_, scaler_}
    coef_ : ndarray of shape (n_features_out,)
        Weights of the features.
    offset_ : float
        Score below which a row is an outlier: ``floor(nu n)`` rows of the fit have
        smaller scores; with sample weights, rows with a share of at most ``nu`` of them.
    held_out_scores_ : ndarray of shape (n_held_out,)
        Scores of the rows held out, ascending.
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
    description, Machine Learning 2004. Bates, Candès, Lei, Romano and Sesia, Testing for outliers
    with conformal p-values, Annals of Statistics 2023.

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
    held_out: float = field(default=0.0, kw_only=True)
    tol: float = field(default=1e-3, kw_only=True)
    max_iter: int = field(default=1000, kw_only=True)
    _fitted_by: ClassVar[str] = "coef_"
    coef_: NDArray[np.float64] = field(init=False)
    offset_: float = field(init=False)
    held_out_scores_: NDArray[np.float64] = field(init=False)
    gap_: float = field(init=False)
    n_iter_: int = field(init=False)

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Find the weights and the offset.

        Parameters
        ----------
        X : array or CSR of shape (n, d), or texts
        y : ignored
        sample_weight : array of shape (n,) or None, default=None
            Weights of the rows, >= 0; a weight of two is the same as a row given twice. Weights
            whose sum is below their effective number ``sum(w)**2 / sum(w**2)`` are scaled up to it.

        Returns
        -------
        self
        """
        self._forget()
        nu, tol = positive_number(self.nu, "nu"), positive_number(self.tol, "tol")
        if nu >= 1:
            raise ValueError(f"nu must be a share of the rows in (0, 1); got {nu}.")
        most = positive_integer(self.max_iter, "max_iter")
        X, weights = self._weighed(self._checked(X, reset=True), sample_weight)
        rows = self._rows(X, weights, nu)
        with listening(self, X) as listener:
            if self._is_exact:
                found = self._by_kernel_matrix(rows, tol, most)
            else:
                found = self._by_products(rows, tol, most, listener)
        self.__dict__.update(self._attributes(found))
        if found.interrupted:
            raise KeyboardInterrupt(INTERRUPTED)
        if found.is_early:
            warnings.warn(
                f"the one-class machine stopped before it reached tol={tol:g}; raise tol or "
                f"max_iter={most}.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _rows(self, X: Any, weights: NDArray | None, nu: float) -> _Rows:
        """The design of the rows of the fit, beside rows held out."""
        held = self._held_out_rows(X.shape[0])
        if not held.any():
            return _Rows(self._fitted_design(X, weights=weights), nu, weights)
        known = weights if weights is None else weights[~held]
        design = self._fitted_design(X[~held], weights=known)
        masses = np.ones(held.sum()) if weights is None else weights[held]
        return _Rows(design, nu, known, self._design_of(X[held]), masses)

    def _attributes(self, found: _Iterate) -> dict[str, Any]:
        rows, coef = found.rows, found.coef
        scores = np.empty(0) if rows.held_out is None else rows.held_out.matvec(coef)
        order = np.argsort(scores)
        own = rows.design.matvec(coef).astype(np.float64)
        # The row at the edge is inside, whichever rows its score is computed with.
        slack = _SLACK * float(np.finfo(rows.design.dtype).eps * np.abs(own).max())
        return {
            "coef_": coef,
            "gap_": found.optimality,
            "n_iter_": found.n_iter,
            "offset_": rows.edge(own) - slack,
            "held_out_scores_": scores[order].astype(np.float64),
            "_masses": np.concatenate([[0.0], np.cumsum(rows.masses[order])]),
        }

    def _held_out_rows(self, n: int) -> NDArray[np.bool_]:
        """True for the rows that the fit holds out."""
        share = number_at_least_0(self.held_out, "held_out")
        count = int(np.ceil(share * n))
        if share >= 1 or count >= n:
            raise ValueError(
                f"held_out must be a share of the rows, in [0, 1), that leaves one of {n}; got "
                f"{share}."
            )
        held = np.zeros(n, dtype=bool)
        held[np.random.default_rng(key_from(self.random_state)).permutation(n)[:count]] = True
        return held

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """Scores ``w z`` of rows: large where rows of the fit are dense.

        Parameters
        ----------
        X : array or CSR of shape (n, d), or texts

        Returns
        -------
        ndarray of shape (n,)
        """
        with one_blas_thread(self.n_jobs):
            return np.asarray(self._design(X).matvec(self.coef_), dtype=np.float64)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores less ``offset_``, negative for outliers.

        Parameters
        ----------
        X : array or CSR of shape (n, d), or texts

        Returns
        -------
        ndarray of shape (n,)
        """
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> NDArray[np.int64]:
        """-1 for outliers and 1 for other rows.

        Parameters
        ----------
        X : array or CSR of shape (n, d), or texts

        Returns
        -------
        ndarray of shape (n,)
        """
        return np.where(self.decision_function(X) < 0, -1, 1)

    def p_values(self, X: Any) -> NDArray[np.float64]:
        """Shares of held-out rows that have scores as small as those of rows.

        For rows from the distribution of the fit, a p-value is at most t with probability at most
        t, for every map and ``nu``. Those who test many rows control the share of false outliers by
        :func:`scipy.stats.false_discovery_control` (Bates et al. 2023).

        Parameters
        ----------
        X : array or CSR of shape (n, d), or texts

        Returns
        -------
        ndarray of shape (n,)
            In [1 / (n_held_out + 1), 1]; small for outliers.

        Raises
        ------
        ValueError
            If the fit held out no rows.
        """
        scores = self.score_samples(X)
        if not len(self.held_out_scores_):
            raise ValueError(
                "held_out must be above 0 in the fit, such as 0.2, for p_values; got "
                f"{self.held_out!r}."
            )
        below = self._masses[np.searchsorted(self.held_out_scores_, scores, side="right")]
        return np.asarray((1 + below) / (1 + self._masses[-1]))

    def _by_kernel_matrix(self, rows: _Rows, tol: float, most: int) -> _Iterate:
        """Weights (n,) of the rows, with sum 1, by libsvm."""
        n = rows.design.shape[0]
        check_memory(
            16.0 * n * n,
            f"the kernel matrix of {n} rows",
            "use feature_map='nystroem', 'fourier' or 'binning'",
        )
        K = np.asarray(rows.design.toarray(), dtype=np.float64, order="C")
        machine = OneClassSVM(kernel="precomputed", nu=rows.nu, tol=tol, max_iter=most * n)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ConvergenceWarning)
            machine.fit(K, sample_weight=rows.weights)
        weights = np.zeros(n)
        weights[machine.support_] = machine.dual_coef_[0] / machine.dual_coef_.sum()
        return _Iterate(rows, weights, float("nan"), int(machine.n_iter_), is_early=bool(caught))

    def _by_products(
        self, rows: _Rows, tol: float, most: int, listener: Listener | None = None
    ) -> _Iterate:
        """Weights (D,) of the features by L-BFGS, until the duality gap is at most ``tol``."""
        n, n_columns = rows.design.shape
        check_memory(
            8.0 * (2 * _PAIRS + 6) * n_columns,
            f"L-BFGS on {n_columns} features",
            "use a smaller n_features or gamma",
        )
        start = rows.mean(np.ones(n))
        squares = float(rows.design.column_sqnorms().sum())
        if float(start @ start) * n <= np.finfo(rows.design.dtype).eps * squares:
            # The mean of the rows is 0, and so is w.
            return _Iterate(rows, np.zeros_like(start), 0.0, 0)
        descent = _Descent(rows, start)
        stopped = interrupted = False

        def watch(_: NDArray) -> None:
            nonlocal stopped
            stopped = listener is not None and listener(descent.iterate())
            if stopped or descent.gap <= tol:
                raise StopIteration

        ends = {"ftol": 1e-5 * tol, "gtol": 1e-3 * tol}  # the smoothed problem, beside the gap
        for width in _WIDTHS:
            room = most - descent.n_iter
            if stopped or interrupted or descent.gap <= tol or room < 1:
                break
            try:
                minimize(
                    descent.smoothed,
                    descent.best,
                    (width,),
                    jac=True,
                    method="L-BFGS-B",
                    callback=watch,
                    options={"maxfun": room, "maxiter": room, "maxcor": _PAIRS} | ends,
                )
            except KeyboardInterrupt:
                interrupted = True
        is_early = not stopped and descent.gap > tol
        return descent.iterate()._replace(is_early=is_early, interrupted=interrupted)

    def _check_state(self) -> None:
        super()._check_state()
        state = State(self)
        state.array("coef_", (self.feature_map_.n_features_out_,), "d")
        state.number("offset_")
        count = len(state.array("held_out_scores_", (None,), "d"))
        state.array("_masses", (count + 1,), "d")


class _Iterate(NamedTuple):
    """Weights of a one-class machine, and how far they are from the best."""

    rows: _Rows
    coef: NDArray[np.float64]
    optimality: float  # duality gap
    n_iter: int
    is_early: bool = False
    interrupted: bool = False


class _Descent:
    """Smoothed one-class problems, and the weights u with the smallest duality gap.

    Weights are in units of the length of the mean of the features, which bounds that of w.
    """

    def __init__(self, rows: _Rows, mean: NDArray[np.float64]) -> None:
        self.rows = rows
        self._unit = float(mean @ mean) ** 0.5
        self.best = mean / self._unit
        self.gap, self.n_iter = np.inf, 0

    def iterate(self) -> _Iterate:
        """The best weights so far."""
        return _Iterate(self.rows, self.best * self._unit, float(self.gap), self.n_iter)

    def smoothed(self, u: NDArray, width: float) -> tuple[float, NDArray]:
        """Objective and gradient in units of |w|², beside the gap of the problem itself."""
        rows = self.rows
        self.n_iter += 1
        scores = rows.design.matvec(u * self._unit).astype(np.float64) / self._unit**2
        rho = rows.smooth_edge(scores, width)
        slopes = np.clip((rho - scores) / width, 0.0, 1.0)
        losses = slopes * (rho - scores - width * slopes / 2)
        back = rows.mean(slopes) / self._unit
        edge = rows.edge(scores)
        squares = float(u @ u)
        exact = squares / 2 + rows.total(np.maximum(edge - scores, 0)) / rows.outside - edge
        gap = (exact + float(back @ back) / 2) / max(squares, _LEAST)
        if gap < self.gap:
            self.best, self.gap = u.copy(), gap
        return squares / 2 + rows.total(losses) / rows.outside - rho, u - back


class _Rows:
    """Rows of a fit; a share nu of their weight lies outside."""

    def __init__(
        self,
        design: Design,
        nu: float,
        weights: NDArray[np.float64] | None,
        held_out: Design | None = None,
        masses: NDArray[np.float64] | None = None,
    ) -> None:
        self.design, self.nu, self.weights = design, nu, weights
        self.held_out = held_out
        self.masses = np.empty(0) if masses is None else masses  # weights of the rows held out
        self.outside = nu * self.total(np.ones(design.shape[0]))

    def total(self, values: NDArray) -> float:
        """Sum of values (n,) times the weights of the rows."""
        return float(values.sum() if self.weights is None else self.weights @ values)

    def mean(self, values: NDArray) -> NDArray[np.float64]:
        """Mean (D,) of the features of the rows, weighted by their weights times values (n,)."""
        shares = values if self.weights is None else self.weights * values
        found = self.design.rmatvec((shares / shares.sum()).astype(self.design.dtype))
        return found.astype(np.float64)

    def edge(self, scores: NDArray) -> float:
        """The largest score below which rows have a share of at most nu."""
        if self.weights is None:
            rank = int(self.outside)
            return float(np.partition(scores, rank)[rank])
        order = np.argsort(scores)
        below = np.cumsum(self.weights[order])
        rank = int(np.searchsorted(below, self.outside * (1 + 1e-12), side="right"))
        return float(scores[order[min(rank, len(order) - 1)]])

    def smooth_edge(self, scores: NDArray, width: float) -> float:
        """Offset rho at which the slopes of the smoothed hinge have a mean of nu, by bisection."""
        low = self.edge(scores) - width
        high = low + 2 * width
        is_near = (scores >= low - width) & (scores < high)
        near = scores[is_near]
        weights = np.ones(len(near)) if self.weights is None else self.weights[is_near]
        surely = self.total((scores < low - width).astype(np.float64))
        while high - low > 1e-12 * width + 4 * np.spacing(abs(high)):
            middle = (low + high) / 2
            total = surely + weights @ np.clip((middle - near) / width, 0.0, 1.0)
            low, high = (middle, high) if total < self.outside else (low, middle)
        return high
