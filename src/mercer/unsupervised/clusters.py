"""Clusters in the space of a kernel: k-means, and spectral clustering."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClusterMixin
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from mercer._runtime.progress import with_callbacks
from mercer._runtime.state import State
from mercer._runtime.threads import one_blas_thread
from mercer._runtime.validation import number_at_least_0, positive_integer
from mercer.designs import Design
from mercer.estimators._documentation import documented
from mercer.estimators.base import INTERRUPTED, listening
from mercer.unsupervised.base import COMMON, Unsupervised, leading

__all__ = ["KernelKMeans", "SpectralClustering"]

_GAMMAS = 2.0 ** np.arange(-2, 7)  # factors of "eigengap", in units of "scale"
_GAP = 1e-3  # least spread of eigenvalues of "eigengap": approximate kernels blur smaller ones
_CLEAR = 0.5  # share of a gap in the distance of the next eigenvalue from 1
_SMALLEST = 0.05  # rows of the smallest cluster of "eigengap", in units of the mean
_TOL = 1e-5  # relative error of eigenvalues: 1e-10 takes more products for the same clusters


class _Rows(NamedTuple):
    """Rows of a fit by k-means."""

    design: Design
    squares: NDArray[np.float64]  # squared lengths (n,) in the space of the kernel
    weights: NDArray[np.float64]


class _Iterate(NamedTuple):
    """State of Lloyd's algorithm after an iteration."""

    start: int
    inertia: float
    labels: NDArray[np.int64]  # of the nearest centres
    centres: tuple[NDArray[np.float64], NDArray[np.float64]]  # weights (D, k), squared lengths (k,)
    n_iter: int
    has_ended: bool


class _Clusters(ClusterMixin, Unsupervised):
    """Labels of the rows of the fit, and of new ones."""

    _fitted_by: ClassVar[str] = "labels_"
    labels_: NDArray[np.int64]

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Clusters of rows.

        Parameters
        ----------
        X : array or CSR of shape (n, d), or texts

        Returns
        -------
        ndarray of shape (n,)
        """
        with one_blas_thread(self.n_jobs):
            return self._labels(self._design(X))

    def _count(self, X: Any) -> int:
        """Number of clusters, at most that of the rows."""
        count = positive_integer(self.n_clusters, "n_clusters")
        if count > X.shape[0]:
            raise ValueError(
                f"n_clusters must be at most n_samples={X.shape[0]}, the number of rows; got "
                f"{count}."
            )
        return count

    def _labels(self, design: Design) -> NDArray[np.int64]:
        raise NotImplementedError


@documented(COMMON)
@dataclass(eq=False, repr=False)
class KernelKMeans(_Clusters):
    """k-means in the space of a kernel.

    Lloyd's algorithm: rows move to the centre nearest in the space of the kernel, centres are means
    of their rows. Distances come from products with the features or, with the exact kernel, with
    the kernel matrix, which is not stored.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters, >= 1.
    {feature_map, kernel, gamma, n_features, scale}
    n_init : int, default=5
        Number of starts from centres that k-means++ draws; the best result is kept.
    max_iter : int, default=300
        Largest number of iterations of a start, >= 1.
    tol : float, default=1e-5
        A start ends when an iteration lowers the inertia by at most this share, >= 0; with 0, when
        no row moves.
    {random_state, n_jobs}

    Attributes
    ----------
    {feature_map_, scaler_}
    labels_ : ndarray of shape (n,)
        Cluster of each row of the fit.
    inertia_ : float
        Sum of the squared distances of the rows to their centres, in the space of the kernel, times
        the weights of the rows.
    n_iter_ : int
        Number of iterations of the best start.
    {n_features_in_}

    Raises
    ------
    {ValueError, MemoryError}

    References
    ----------
    Dhillon, Guan and Kulis, Kernel k-means, spectral clustering and normalized cuts, KDD 2004.
    Arthur and Vassilvitskii, k-means++, SODA 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.unsupervised import KernelKMeans
    >>> X = np.random.default_rng(0).normal(size=(200, 2)) * np.array([[0.2], [2.0]]).repeat(100, 0)
    >>> KernelKMeans(2, gamma=1.0, random_state=0).fit_predict(X).shape
    (200,)
    """

    n_clusters: int = 8
    n_init: int = field(default=5, kw_only=True)
    max_iter: int = field(default=300, kw_only=True)
    tol: float = field(default=1e-5, kw_only=True)
    inertia_: float = field(init=False)
    n_iter_: int = field(init=False)

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Find the clusters.

        Parameters
        ----------
        X : array or CSR of shape (n, d), or texts
        y : ignored
        sample_weight : array of shape (n,) or None, default=None
            Weights of the rows in the centres and the inertia, >= 0; None weighs all the same.

        Returns
        -------
        self
        """
        self._forget()
        given = self._checked(X, reset=True)
        X, sample_weight = self._weighed(given, sample_weight)
        count, starts = self._count(X), positive_integer(self.n_init, "n_init")
        most, tol = positive_integer(self.max_iter, "max_iter"), number_at_least_0(self.tol, "tol")
        design = self._fitted_design(X, weights=sample_weight)
        weights = np.ones(X.shape[0]) if sample_weight is None else sample_weight
        rows = _Rows(design, self._row_squares(design, X, weights), weights)
        ends: dict[int, _Iterate] = {}  # the last iterate of each start
        interrupted = False
        with listening(self, X) as listener:
            try:
                for found in self._iterates(rows, count, starts, most, tol):
                    ends[found.start] = found
                    if listener is not None and listener(found):
                        break
            except KeyboardInterrupt:
                if not ends:
                    raise
                interrupted = True
        best = min(ends.values(), key=lambda found: found.inertia)
        self._keep(best, given)
        if interrupted:
            raise KeyboardInterrupt(INTERRUPTED)
        if best.n_iter == most and not best.has_ended:
            warnings.warn(
                f"k-means stopped after max_iter={most} iterations, before the inertia changed by "
                f"less than tol={tol:g}; raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _keep(self, found: _Iterate, given: Any) -> None:
        """Make an iterate the result, for all checked rows that were given."""
        self.__dict__.update(self._attributes(found))
        if given.shape[0] > len(found.labels):  # rows without weight belong to the nearest centre
            self.labels_ = self._labels(self._design_of(given))

    def _attributes(self, found: _Iterate) -> dict[str, Any]:
        return {
            "labels_": found.labels,
            "inertia_": max(found.inertia, 0.0),
            "n_iter_": found.n_iter,
            "_weights": found.centres[0],
            "_squares": found.centres[1],
        }

    def _iterates(
        self, rows: _Rows, count: int, starts: int, most: int, tol: float
    ) -> Iterator[_Iterate]:
        """Iterates of Lloyd's algorithm, from one start after the other."""
        rng = np.random.default_rng(self._key)
        for start in range(starts):
            labels, before = self._seeded(rows, count, rng), np.inf
            for iteration in range(1, most + 1):
                centres = self._centres(rows, labels, count)
                moved, near = _nearest(rows.design, *centres)
                inertia = float(rows.weights @ (rows.squares - near))
                is_slow = tol > 0 and before - inertia <= tol * inertia
                has_ended = is_slow or np.array_equal(moved, labels)
                yield _Iterate(start, inertia, moved, centres, iteration, has_ended)
                if has_ended:
                    break
                labels, before = moved, inertia

    def _row_squares(self, design: Design, X: Any, weights: NDArray) -> NDArray[np.float64]:
        """Squared lengths (n,) of the rows in the space of the kernel, with the right mean."""
        kernel: Any = getattr(self.feature_map_, "kernel_", None)
        squares = (
            np.ones(X.shape[0])
            if kernel is None
            else kernel.diag(self._scaled(X)).astype(np.float64)
        )
        if not self._is_exact:  # features estimate the kernel
            total = float(design.column_sqnorms(weights).sum())
            squares *= total / max(float(weights @ squares), 1e-300)
        return squares

    def _seeded(self, rows: _Rows, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Clusters of the rows around rows drawn far from each other (k-means++)."""
        design, squares, weights = rows
        n = design.shape[0]
        nearest, labels = np.full(n, np.inf), np.zeros(n, dtype=np.int64)
        by_weight = weights / weights.sum()
        row = int(rng.choice(n, p=by_weight))
        for cluster in range(count):
            if self._is_exact:
                unit = np.zeros(n, dtype=design.dtype)
                unit[row] = 1
            else:
                unit = design.rows(np.array([row])).rmatvec(np.ones(1, dtype=design.dtype))
            product = design.matvec(unit).astype(np.float64)
            apart = np.maximum(squares - 2 * product + squares[row], 0.0)
            closer = apart < nearest
            labels[closer], nearest[closer] = cluster, apart[closer]
            nearest[row] = 0.0
            labels[row] = cluster
            total = float(weights @ nearest)
            row = int(rng.choice(n, p=weights * nearest / total if total > 0 else by_weight))
        return labels

    def _centres(
        self, rows: _Rows, labels: NDArray, count: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Weights (D, k) and squared lengths (k,) of the means of the clusters."""
        design = rows.design
        sizes = np.bincount(labels, rows.weights, count)
        shares = np.zeros((len(labels), count), dtype=design.dtype)
        shares[np.arange(len(labels)), labels] = rows.weights / sizes[labels]
        if self._is_exact:
            lengths = np.einsum("ij,ij->j", shares, design.matvec(shares), dtype=np.float64)
            centres = shares.astype(np.float64), lengths
        else:
            weights = design.rmatvec(shares).astype(np.float64)
            centres = weights, np.square(weights).sum(axis=0)
        centres[1][sizes == 0] = np.inf  # an empty cluster takes no row
        return centres

    def _labels(self, design: Design) -> NDArray[np.int64]:
        return _nearest(design, self._weights, self._squares)[0]

    def _check_state(self) -> None:
        super()._check_state()
        state = State(self)
        k = len(state.value("_squares"))
        state.array("_weights", (self.feature_map_.n_features_out_, k), "d")
        state.array("labels_", (None,), "l", 0, k - 1)


def _nearest(
    design: Design, weights: NDArray, squares: NDArray
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Nearest centres of rows, and the squared lengths of rows less those distances, squared."""
    found = 2 * design.matvec(weights).astype(np.float64) - squares
    labels: NDArray[np.int64] = found.argmax(axis=1)
    return labels, found[np.arange(len(labels)), labels]


@documented(COMMON)
@dataclass(eq=False, repr=False)
class SpectralClustering(_Clusters):
    """Clusters of the leading singular vectors of features scaled by the degrees of the rows.

    With features Z of a kernel, ``W = Z Z.T`` is the similarity of rows, D the diagonal matrix of
    its row sums, and ``D**-0.5 Z`` has the leading eigenvectors of the normalised similarity as
    left singular vectors. Their rows, scaled to length 1, are clustered by k-means. No n x n matrix
    is stored.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters, >= 1.
    feature_map : str or FeatureMap, default="binning"
        Map with features whose products are not negative, such as "binning"; with "exact" the
        kernel matrix itself is used.
    {kernel}
    gamma : float, array of shape (d,), "scale", "median" or "eigengap", default="scale"
        Factor of the distance in the kernel, > 0. "eigengap" compares factors from 1/4 to 64 times
        "scale" by the gap between eigenvalues k = ``n_clusters`` and k + 1. If the gap is half of
        the distance of eigenvalue k + 1 from 1 or more for one of them, the factor with the largest
        such share is taken, else that with the largest gap. Factors by which a cluster has less
        than a twentieth of n / k rows are left out.
    {n_features}
    n_init : int, default=10
        Number of starts of k-means.
    {random_state, n_jobs}

    Attributes
    ----------
    {feature_map_, scaler_}
    labels_ : ndarray of shape (n,)
        Cluster of each row of the fit.
    eigenvalues_ : ndarray of shape (n_clusters,)
        Leading eigenvalues of the normalised similarity, descending from 1.
    gamma_ : float, array or str
        Factor of the distance that was chosen by "eigengap", or the one given.
    {n_features_in_}

    Raises
    ------
    {ValueError, MemoryError}
    ValueError
        If the similarities of a row sum to a number that is not positive, which features with
        negative products may cause.

    References
    ----------
    Wu, Chen, Yen, Xu, Xia and Aggarwal, Scalable spectral clustering using random binning features,
    KDD 2018. Ng, Jordan and Weiss, On spectral clustering, NIPS 2001.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from mercer.unsupervised import SpectralClustering
    >>> X, y = make_moons(400, noise=0.05, random_state=0)
    >>> labels = SpectralClustering(2, gamma=20.0, random_state=0).fit_predict(X)
    >>> float(max((labels == y).mean(), (labels != y).mean()))
    1.0
    """

    n_clusters: int = 8
    feature_map: Any = field(default="binning", kw_only=True)
    n_init: int = field(default=10, kw_only=True)
    eigenvalues_: NDArray[np.float64] = field(init=False)
    gamma_: float | ArrayLike | str = field(init=False)

    @with_callbacks
    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the clusters.

        Parameters
        ----------
        X : array or CSR of shape (n, d), or texts
        y : ignored

        Returns
        -------
        self
        """
        self._forget()
        X = self._checked(X, reset=True)
        count, starts = self._count(X), positive_integer(self.n_init, "n_init")
        with listening(self, X):
            self._fit(X, count, starts)
        return self

    def _fit(self, X: Any, count: int, starts: int) -> None:
        self.gamma_ = self.gamma
        if isinstance(self.gamma, str) and self.gamma == "eigengap":
            self.gamma_ = self._by_eigengap(X, count)
        vectors, values = self._embed(X, self.gamma_, count)
        if values[0] > 1 + _GAP:
            warnings.warn(
                "feature_map has negative products of rows, with which an eigenvalue of the "
                f"similarity is {values[0]:.3g} > 1: clusters may be wrong; use "
                "feature_map='binning', 'nystroem' or 'exact'.",
                UserWarning,
                stacklevel=4,
            )
        means = KMeans(count, n_init=starts, random_state=self._key % 2**31)
        self.labels_ = means.fit_predict(vectors).astype(np.int64)
        self._means = means.cluster_centers_.astype(np.float64)

    def _by_eigengap(self, X: Any, count: int) -> float:
        """The factor behind whose eigenvalue number ``count`` the gap is largest."""
        self._fitted_design(X, "scale")
        kernel: Any = getattr(self.feature_map_, "kernel_", None)
        if not hasattr(kernel, "gamma"):
            raise ValueError(
                "gamma must be 'scale' for a feature_map without a kernel that has a gamma; got "
                "'eigengap'."
            )
        usual = float(np.mean(kernel.gamma))
        found: list[tuple[float, float]] = []  # gaps and distances of the next eigenvalue from 1
        for factor in _GAMMAS:
            vectors, values = self._embed(X, factor * usual, min(count + 1, X.shape[0]))
            gap, distance = values[count - 1] - values[-1], 1 - values[-1]
            if found and (distance > found[-1][1] or distance < _GAP / 2):
                break  # eigenvalues grow with the factor until they lie too close to be found
            if not self._has_clusters(vectors[:, :count], count):
                gap = 0.0
            found.append((gap, max(distance, _GAP)))
        gaps, distances = np.array(found).T
        shares = gaps / distances
        return usual * _GAMMAS[int(np.argmax(shares if shares.max() >= _CLEAR else gaps))]

    def _has_clusters(self, vectors: NDArray, count: int) -> bool:
        """False if k-means finds little more than single rows that lie apart."""
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        rows = vectors / np.maximum(lengths, np.finfo(np.float64).tiny)
        labels = KMeans(count, n_init=1, random_state=self._key % 2**31).fit_predict(rows)
        return bool(np.bincount(labels, minlength=count).min() >= _SMALLEST * len(rows) / count)

    def _embed(self, X: Any, gamma: Any, count: int) -> tuple[NDArray, NDArray]:
        """Embedded rows (n, count), and the eigenvalues (count,)."""
        design = self._fitted_design(X, gamma)
        n, n_columns = design.shape
        self._sums = self._spread(design, np.ones(n, dtype=design.dtype))
        roots = np.sqrt(self._degrees(design))
        by_rows = self._is_exact or n <= n_columns

        def of_rows(v: NDArray) -> NDArray:
            return self._gram(design, v / roots) / roots

        def of_features(v: NDArray) -> NDArray:
            found = design.matvec(v).astype(np.float64) / roots**2
            return design.rmatvec(found).astype(np.float64)

        product, size = (of_rows, n) if by_rows else (of_features, n_columns)
        values, vectors = leading(product, size, min(count, size), self._key, _TOL)
        values = np.maximum(values, np.finfo(np.float64).tiny)
        if by_rows:
            vectors = self._spread(design, vectors / (roots[:, None] * np.sqrt(values)))
        # Weights of the features by which rows are embedded; 1 / roots is common to a row.
        self._weights = vectors / np.sqrt(values)
        self.eigenvalues_ = values
        return self._embedded(design), values

    def _degrees(self, design: Design) -> NDArray[np.float64]:
        degrees = design.matvec(self._sums).astype(np.float64)
        if not (degrees > 0).all():
            raise ValueError(
                "feature_map must have features whose products with those of all rows sum to a "
                f"positive number; {(degrees <= 0).sum()} of {len(degrees)} rows break this: "
                "use feature_map='binning' or 'exact', or a smaller gamma."
            )
        return degrees

    def _embedded(self, design: Design) -> NDArray[np.float64]:
        """Rows in the leading vectors, scaled to length 1."""
        rows = design.matvec(self._weights).astype(np.float64)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.asarray(rows / np.maximum(lengths, np.finfo(np.float64).tiny))

    def _labels(self, design: Design) -> NDArray[np.int64]:
        rows = self._embedded(design)
        squares = np.square(self._means).sum(axis=1)
        return np.asarray((2 * rows @ self._means.T - squares).argmax(axis=1))

    def _check_state(self) -> None:
        super()._check_state()
        state = State(self)
        count = state.array("_weights", (self.feature_map_.n_features_out_, None), "d").shape[1]
        k = len(state.array("_means", (None, count), "d"))
        state.array("labels_", (None,), "l", 0, k - 1)
