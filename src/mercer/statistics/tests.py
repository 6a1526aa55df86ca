"""Permutation tests of features of kernels, several scales aggregated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from mercer import maps
from mercer._runtime.random import RandomStateLike, key_from
from mercer._runtime.threads import one_blas_thread
from mercer._runtime.validation import matrix, positive_integer
from mercer.designs import Design
from mercer.explain.path import SplitModel
from mercer.preparation import TablePreparer
from mercer.preparation.frames import frame_of

__all__ = ["TestResult", "drift_test", "hsic_test", "mmd_test"]

_MULTIPLES = (0.25, 1.0, 4.0)  # times one over the median distance
_KEPT = 300  # training rows of a drift test
_NOISE = 30.0  # of mean features of equal samples, in units of their rounding, where k(x, x) = 1
_BLOCK = 64  # permutations that share a pass over the rows


@dataclass(frozen=True)
class TestResult:
    """Result of a permutation test.

    Attributes
    ----------
    p_value : float
        Probability of a statistic at least as extreme, had rows been exchangeable.
    statistics : ndarray of shape (n_gammas,)
        Statistic for each scale of the kernel.
    p_values : ndarray of shape (n_gammas,)
        p-value of each scale alone; the smallest of them, judged by the same permutations, gives
        ``p_value``.
    gammas : ndarray of shape (n_gammas,)
        Factors of the distance.
    n_permutations : int
    """

    __test__ = False  # no test of pytest

    p_value: float
    statistics: NDArray[np.float64]
    p_values: NDArray[np.float64]
    gammas: NDArray[np.float64]
    n_permutations: int


def mmd_test(
    X: Any,
    Y: Any,
    *,
    kernel: Any = "gaussian",
    gammas: ArrayLike | None = None,
    feature_map: str = "fourier",
    n_features: int = 500,
    n_permutations: int = 199,
    random_state: RandomStateLike = None,
    n_jobs: int | None = None,
) -> TestResult:
    """Test whether two samples have the same distribution, by the maximum mean discrepancy.

    The statistic is the squared distance of the mean features of the samples. Permutations of the
    rows among the samples give its distribution; time and memory are linear in the rows. Several
    scales are aggregated: the smallest of their p-values is compared with that of the permutations,
    so that the level is kept.

    Parameters
    ----------
    X, Y : array, data frame or CSR of shape (n, d) and (m, d)
        Samples. Columns that are not numbers are treated by :class:`mercer.TablePreparer`, fitted
        to both samples.
    kernel : str or Kernel, default="gaussian"
        Kernel of the features.
    gammas : array of shape (n_gammas,) or None, default=None
        Factors of the distance, > 0; None takes 1/4, 1 and 4 over the median distance of all rows.
    feature_map : str, default="fourier"
        Name of the map, see :func:`mercer.maps.get`.
    n_features : int, default=500
        Number of random features for each scale, >= 1.
    n_permutations : int, default=199
        Number of permutations, >= 1; the smallest possible p-value is 1 / (n_permutations + 1).
    random_state : int, RandomState, Generator or None, default=None
        Seed of the features and the permutations.
    n_jobs : int or None, default=None
        Number of threads of the features; None and -1 mean all.

    Returns
    -------
    TestResult

    Raises
    ------
    ValueError, TypeError
        If a sample has fewer than two rows, or an argument is invalid.

    References
    ----------
    Gretton, Borgwardt, Rasch, Schölkopf and Smola, A kernel two-sample test, JMLR 2012. Schrab,
    Kim, Albert, Laurent, Guedj and Gretton, MMD aggregated two-sample test, JMLR 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.statistics import mmd_test
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.normal(size=(300, 2)), rng.normal(size=(200, 2)) * 1.5
    >>> mmd_test(X, Y, random_state=0).p_value < 0.05
    True
    >>> mmd_test(X[:150], X[150:], random_state=0).p_value < 0.05
    False
    """
    count = positive_integer(n_permutations, "n_permutations")
    key = key_from(random_state)
    X, Y = _numbers([X, Y])
    n, m = _two_rows(X, "X"), _two_rows(Y, "Y")
    if X.shape[1] != Y.shape[1]:
        raise ValueError(
            f"X and Y must have the same number of columns; got {X.shape[1]} and {Y.shape[1]}."
        )
    is_sparse = sparse.issparse(X) or sparse.issparse(Y)
    both = sparse.csr_array(sparse.vstack([X, Y])) if is_sparse else np.concatenate([X, Y])
    sign = np.concatenate([np.full(n, 1.0 / n), np.full(m, -1.0 / m)])
    settings = _Map(kernel, feature_map, n_features, key, n_jobs)
    if gammas is None:
        median = settings.median_gamma(both)
        scales = [multiple * median for multiple in _MULTIPLES]
    else:
        scales = np.atleast_1d(np.asarray(gammas, dtype=float)).tolist()
    found = np.empty((len(scales), count + 1))
    for row, gamma in zip(found, scales, strict=True):  # memory holds the features of one scale
        design, rng = settings.design(both, gamma), np.random.default_rng(key)
        for start in range(0, count + 1, _BLOCK):
            stop = min(start + _BLOCK, count + 1)
            signs = np.column_stack(
                [sign if i == 0 else rng.permutation(sign) for i in range(start, stop)]
            )
            with one_blas_thread(n_jobs):
                sums = design.rmatvec(signs).astype(np.float64)
            row[start:stop] = np.square(sums).sum(axis=0)
        dtype = design.dtype
        del design
    return _aggregated(found, scales, dtype)


def hsic_test(
    X: Any,
    Y: Any,
    *,
    kernel: Any = "gaussian",
    gammas: ArrayLike | None = None,
    feature_map: str = "fourier",
    n_features: int = 100,
    n_permutations: int = 199,
    random_state: RandomStateLike = None,
    n_jobs: int | None = None,
) -> TestResult:
    """Test whether the rows of two tables are independent, by the covariance of their features.

    The statistic is the squared norm of the cross-covariance of the features of X and of Y (the
    Hilbert-Schmidt independence criterion). Permutations of the rows of Y give its distribution.
    Several scales, the same multiples of the median distance for both tables, are aggregated as in
    :func:`mmd_test`.

    Parameters
    ----------
    X, Y : array, data frame or CSR of shape (n, d) and (n, e)
        Paired rows.
    kernel, gammas, feature_map, n_features, n_permutations, random_state, n_jobs
        As for :func:`mmd_test`; ``n_features`` is 100 by default, since time is proportional to its
        square. ``gammas`` are multiples of one over the median distance here.

    Returns
    -------
    TestResult
        Its ``gammas`` are the multiples.

    Raises
    ------
    ValueError, TypeError
        If the tables have different numbers of rows, fewer than four, or an argument is invalid.

    References
    ----------
    Gretton, Fukumizu, Teo, Song, Schölkopf and Smola, A kernel statistical test of independence,
    NIPS 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.statistics import hsic_test
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=300)
    >>> hsic_test(X, X**2 + 0.1 * rng.normal(size=300), random_state=0).p_value < 0.05
    True
    >>> hsic_test(X, rng.normal(size=300), random_state=0).p_value < 0.05
    False
    """
    count = positive_integer(n_permutations, "n_permutations")
    key = key_from(random_state)
    X, Y = (_numbers([_columns(table)])[0] for table in (X, Y))
    n, m = X.shape[0], Y.shape[0]
    if n != m or n < 4:
        raise ValueError(f"X and Y must have the same number of rows, 4 or more; got {n} and {m}.")
    rng = np.random.default_rng(key)
    orders = [np.arange(n), *(rng.permutation(n) for _ in range(count))]
    multiples = list(_MULTIPLES) if gammas is None else np.asarray(gammas, dtype=float).tolist()
    sides = [
        (_Map(kernel, feature_map, n_features, key + side, n_jobs), table)
        for side, table in enumerate((X, Y))
    ]
    medians = [settings.median_gamma(table) for settings, table in sides]
    found = np.empty((len(multiples), count + 1))
    for row, multiple in zip(found, multiples, strict=True):
        left, right = (
            _centred(settings.design(table, multiple * median))
            for (settings, table), median in zip(sides, medians, strict=True)
        )
        with one_blas_thread(n_jobs):
            row[:] = [np.square(left.T @ right[order] / n).sum() for order in orders]
    return _aggregated(found, multiples)


def drift_test(model: Any, X: Any, **settings: Any) -> TestResult:
    """Test whether new rows differ from those that a model was fitted to.

    The rows that the model keeps to explain itself, up to 300, are compared with the new ones by
    :func:`mmd_test`, in the inputs of its kernel: columns that the model does not use do not count.
    Labels that the fit did not meet count as a category of their own.

    Parameters
    ----------
    model : estimator
        Fitted automatic model, machine with landmarks, or pipeline that ends in one.
    X : array, data frame or CSR of shape (n, d)
        New rows.
    **settings
        Further settings of :func:`mmd_test`.

    Returns
    -------
    TestResult

    Raises
    ------
    ValueError
        If the model keeps no rows.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRegressor
    >>> from mercer.statistics import drift_test
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> model = KernelRegressor("exact").fit(X, X[:, 0])
    >>> drift_test(model, X[:100] + 0.5, random_state=0).p_value < 0.05
    True
    """
    check_is_fitted(model)
    members = getattr(model, "explained_members", lambda: ([(1.0, model, None)], ""))()[0]
    _, member, kept = members[0]
    path = SplitModel.of(member, model.n_features_in_)
    behind = path.kept_rows(_KEPT) if kept is None else path.treated(kept, after=1)
    if behind is None:
        raise ValueError(
            "model must keep training rows, as automatic models and machines with landmarks do; "
            "compare two tables by mmd_test."
        )
    names = getattr(model, "feature_names_in_", None)
    new = path.labels_apart().treated(path.table(X, names))
    return mmd_test(behind, new, **settings)


def _aggregated(
    found: NDArray[np.float64], gammas: Sequence[float], dtype: DTypeLike = np.float64
) -> TestResult:
    """The result of statistics (n_gammas, 1 + permutations), the observed ones first.

    Statistics within the rounding of ``dtype``, that of the sums behind them, are equal.
    """
    count = found.shape[1]
    noise = (_NOISE * float(np.finfo(dtype).eps)) ** 2
    above = (found[:, None, :] >= found[:, :, None] * (1 - 1e-12) - noise).sum(axis=2) / count
    least = above.min(axis=0)
    p_value = float((least <= least[0]).mean())
    return TestResult(p_value, found[:, 0], above[:, 0], np.array(gammas), count - 1)


@dataclass(frozen=True)
class _Map:
    """Settings of the features of all scales."""

    kernel: Any
    feature_map: str
    n_features: int
    key: int
    n_jobs: int | None

    def median_gamma(self, rows: Any) -> float:
        """One over the median distance of rows, in the unit of the kernel's factor."""
        stated = maps.get(self.feature_map, self.kernel, "median", self.n_features)
        return float(np.mean(stated.stated_kernel().resolve(rows).gamma))

    def design(self, rows: Any, gamma: float) -> Design:
        """Features of rows at a scale."""
        seed = self.key % 2**31
        stated = self.kernel, gamma, self.n_features
        map_ = maps.get(self.feature_map, *stated, random_state=seed, n_jobs=self.n_jobs)
        return map_.fit_design(rows)


def _centred(design: Any) -> NDArray[np.float64]:
    features = design.toarray().astype(np.float64)
    return np.asarray(features - features.mean(axis=0))


def _columns(table: Any) -> Any:
    """A vector as a table of one column."""
    return np.asarray(table)[:, None] if np.ndim(table) == 1 else table


def _numbers(tables: list[Any]) -> list[Any]:
    """Tables as arrays of numbers; raw ones are treated as one table."""
    known = [frame for frame in map(frame_of, tables) if frame is not None]
    if any(map(sparse.issparse, tables)):
        return [matrix(table, "X") for table in tables]
    if not known:
        arrays = [np.asarray(table) for table in tables]
        if all(array.dtype.kind in "biuf" for array in arrays):
            return [matrix(array, "X") for array in arrays]
    if len(known) == len(tables):
        joined = nw.concat([frame.select(*known[0].columns) for frame in known]).to_native()
    else:
        joined = np.concatenate([np.asarray(table, dtype=object) for table in tables])
    treated = TablePreparer(random_state=0).fit_transform(joined)
    ends = np.cumsum([len(table) for table in tables])
    return [treated[end - len(t) : end] for t, end in zip(tables, ends, strict=True)]


def _two_rows(rows: Any, name: str) -> int:
    if rows.shape[0] < 2:
        raise ValueError(f"{name} must have at least 2 rows; got {rows.shape[0]}.")
    return int(rows.shape[0])
