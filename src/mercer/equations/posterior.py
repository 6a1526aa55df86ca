"""Ridge machines as Gaussian processes: posterior covariances, and the scale of the prior.

::

    f ~ GP(0, s2 k),    y_i = b + f(x_i) + e_i,    e_i ~ N(0, s2 r_i),    r_i = alpha sum(w) / w_i

The mean of f given the targets is the kernel machine with the penalty alpha and the weights w. The
constant b is taken as known. The prior variance s2 is the mean of the squared residuals that
leaving out each target leaves, each divided by its variance for s2 = 1. Variances in this file are
in units of s2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer._runtime.arrays import Matrix, check_memory, row_chunks
from mercer._runtime.rows import Data
from mercer._runtime.threads import side_by_side
from mercer.designs import Dense, Lazy
from mercer.equations.factor import Factor, lower
from mercer.kernels import Kernel
from mercer.maps import FeatureMap, LocalKernel, Nystroem, RandomBinning
from mercer.maps.landmarks import wide
from mercer.maps.partition import Route

__all__ = [
    "FeatureKernel",
    "FeaturePosterior",
    "LeafPosterior",
    "Posterior",
    "RowPosterior",
    "gram_of",
    "prior_variance",
    "square_root",
]

_COPIES = 3.0  # matrices of the size of a factor in memory while it is computed

Prepare = Callable[[Any], Any]  # rows as given into rows as the map takes them


class Posterior(Protocol):
    """Variance of a function that remains after the targets are known."""

    def variances(self, X: Data, prepare: Prepare) -> NDArray[np.float64]:
        """Variances at the rows of X, in units of the prior variance, (n,)."""
        ...


@dataclass
class RowPosterior:
    """The posterior of targets at rows, k(x, x) − k(x, X) (K + R)⁻¹ k(X, x); or a MemoryError."""

    kernel: Kernel | FeatureKernel
    rows: Matrix  # (m, d), or texts
    ridges: NDArray[np.float64]  # the diagonal of R, (m,)
    _factor: Factor = field(init=False)

    def __post_init__(self) -> None:
        m = len(self.ridges)
        check_memory(
            _COPIES * 8.0 * m**2,
            f"the factor of the kernel matrix of {m} rows, for standard deviations,",
            "use feature_map='nystroem' with posterior=True, or LocalKernelRegressor",
        )
        self.rows = wide(self.rows)
        matrix = np.array(self.kernel(self.rows), dtype=np.float64, order="C")
        matrix[np.diag_indices(m)] += self.ridges
        self._factor = Factor(matrix, overwrite=True)

    def variances(self, X: Data, prepare: Prepare) -> NDArray[np.float64]:
        out = np.empty(X.shape[0])
        per_row = 24.0 * len(self.ridges)
        if isinstance(self.kernel, FeatureKernel):
            per_row += _bytes_per_row(self.kernel.map)
        for chunk in row_chunks(X.shape[0], per_row):
            out[chunk] = self.variances_of(wide(prepare(X[chunk])))
        return out

    def covariance(self, X: Data, prepare: Prepare) -> NDArray[np.float64]:
        """Covariances of the function at the rows of X, in units of the prior variance, (n, n)."""
        check_pairs(X.shape[0], len(self.ridges))
        rows, kernel = wide(prepare(X)), self.kernel
        variances = self.variances_of(rows)
        prior = kernel.pairs(rows) if isinstance(kernel, FeatureKernel) else kernel(rows)
        out = prior - self._factor.products(np.asarray(kernel(rows, self.rows)))
        out[np.diag_indices(len(out))] = variances
        return out

    def variances_of(self, X: Matrix) -> NDArray[np.float64]:
        """Variances at prepared rows, all at once, (n,)."""
        explained = self._factor.sqnorms(np.asarray(self.kernel(X, self.rows)))
        return np.maximum(self.kernel.diag(X) - explained, 0.0)

    def left_out(self, coef: NDArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Residuals (m, k) and variances (m,) of targets left out in turn, from coefficients."""
        inverse = self._factor.inverse_diagonal()
        return coef / inverse[:, None], 1.0 / inverse


@dataclass
class FeaturePosterior:
    """The posterior of a linear model in features z: ridge zᵀ (ZᵀZ' + ridge I)⁻¹ z + rest(x).

    Z' are the features times the relative weights of their rows. The rest is the prior variance
    that the features have no part in, k(x, x) − zᵀz: what landmarks do not span, and the bins that
    no row was in. Maps that approximate the kernel by random functions have none.
    """

    map: FeatureMap
    gram: NDArray[np.float64]  # ZᵀZ', (D, D)
    ridge: float
    _factor: Factor = field(init=False)

    def __post_init__(self) -> None:
        side = len(self.gram)
        check_factor(side)
        matrix = self.gram.copy()
        matrix[np.diag_indices(side)] += self.ridge
        self._factor = Factor(matrix, overwrite=True)

    def variances(self, X: Data, prepare: Prepare) -> NDArray[np.float64]:
        out = np.empty(X.shape[0])
        for chunk, rows, z in features(self.map, X, prepare):
            out[chunk] = self.ridge * self._factor.sqnorms(z) + self._rest(rows, z)
        return out

    def covariance(self, X: Data, prepare: Prepare) -> NDArray[np.float64]:
        """Covariances of the function at the rows of X, in units of the prior variance, (n, n)."""
        check_pairs(X.shape[0], len(self.gram))
        rows = wide(prepare(X))
        z = _features(self.map, rows)
        z = z.toarray() if sparse.issparse(z) else z
        variances = self.ridge * self._factor.sqnorms(z) + self._rest(rows, z)
        out = self.ridge * self._factor.products(z)
        if isinstance(self.map, _PARTIAL):
            out += _prior_of_pairs(self.map, rows) - z @ z.T
        out[np.diag_indices(len(out))] = variances
        return out

    def left_out(
        self, X: Data, prepare: Prepare, residual: NDArray[np.float64], shares: NDArray | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Residuals (n, k) and variances (n,) of targets of the fit, left out one at a time.

        ``residual`` (n, k) are those of the model of all rows; ``shares`` (n,) are the weights of
        the rows relative to their mean, None standing for ones.
        """
        left, variances = np.empty(residual.shape), np.empty(len(residual))
        for chunk, rows, z in features(self.map, X, prepare):
            of_row = 1.0 if shares is None else shares[chunk]
            unexplained = np.maximum(1.0 - of_row * self._factor.sqnorms(z), _LEAST)
            left[chunk] = residual[chunk] / unexplained[:, None]
            variances[chunk] = self.ridge / of_row / unexplained + self._rest(rows, z)
        return left, variances

    def _rest(self, rows: Matrix, z: NDArray[np.float64]) -> NDArray[np.float64]:
        return _prior(self.map, rows, np.einsum("ij,ij->i", z, z), rest=True)


class FeatureKernel:
    """The kernel z(x)ᵀz(x') against rows of cached features, for more features than rows."""

    def __init__(self, map_: FeatureMap, rows: Matrix):
        self.map = map_
        self.features = _features(map_, wide(rows))

    def __call__(self, X: Matrix, rows: Matrix | None = None) -> NDArray[np.float64]:
        """Against the rows that were given, whatever ``rows`` are."""
        return _dense(_features(self.map, X) @ self.features.T)

    def pairs(self, X: Matrix) -> NDArray[np.float64]:
        """The prior covariances of the function at rows, that of absent features included."""
        return _prior_of_pairs(self.map, X)

    def diag(self, X: Matrix) -> NDArray[np.float64]:
        """The prior variance of the function, that of absent features included."""
        z = _features(self.map, X)
        squares = z.multiply(z).sum(axis=1) if sparse.issparse(z) else np.sum(z * z, axis=1)
        return _prior(self.map, X, np.asarray(squares).ravel())


# Maps whose features leave a part of the prior variance of new rows out.
_PARTIAL = (Nystroem, RandomBinning)
_LEAST = 1e-12  # least 1 − h of a row: rounding must not make it 0


def _prior(
    map_: FeatureMap, rows: Matrix, squares: NDArray[np.float64], rest: bool = False
) -> NDArray[np.float64]:
    """Prior variance at rows with such squares of features, or the rest beyond features."""
    of_kernel = squares
    if isinstance(map_, _PARTIAL):
        of_kernel = np.maximum(map_.kernel_.diag(rows), squares)
    return of_kernel - squares if rest else of_kernel


def _prior_of_pairs(map_: FeatureMap, rows: Matrix) -> NDArray[np.float64]:
    """Prior covariances of the function at rows, (n, n)."""
    if isinstance(map_, Nystroem):
        return np.asarray(map_.kernel_(rows), dtype=np.float64)
    z = map_.all_boxes(rows).tocsr() if isinstance(map_, RandomBinning) else _features(map_, rows)
    return _dense(z @ z.T)


def _dense(product: Any) -> NDArray[np.float64]:
    return np.asarray(product.toarray() if sparse.issparse(product) else product)


def _features(map_: FeatureMap, X: Matrix) -> Any:
    """All features of rows, in CSR where the design of the map is no dense one."""
    parts = [
        design.toarray() if isinstance(design, (Dense, Lazy)) else design.tocsr()
        for _, design in map_.designs(X)
    ]
    if sparse.issparse(parts[0]):
        return sparse.vstack(parts, format="csr").astype(np.float64)
    return np.concatenate(parts).astype(np.float64, copy=False)


def _bytes_per_row(map_: FeatureMap) -> float:
    """Bytes of a row in float64, its features and their products."""
    return map_.bytes_per_row(np.float64) + 24.0 * map_.n_features_out_


def features(
    map_: FeatureMap, X: Data, prepare: Prepare
) -> Iterator[tuple[slice, Matrix, NDArray[np.float64]]]:
    """Pieces of X: numbers of rows, the rows prepared in float64, and their features."""
    for chunk in row_chunks(X.shape[0], _bytes_per_row(map_)):
        rows = wide(prepare(X[chunk]))
        for inner, design in map_.designs(rows):
            place = slice(chunk.start + inner.start, chunk.start + inner.stop)
            yield place, rows[inner], design.toarray().astype(np.float64, copy=False)


def gram_of(map_: FeatureMap, X: Data, prepare: Prepare, shares: NDArray | None) -> NDArray:
    """ZᵀZ', (D, D), in float64; a MemoryError, before it begins, if it would not fit."""
    D = map_.n_features_out_
    check_factor(D)
    gram = np.zeros((D, D))
    for chunk, _, z in features(map_, X, prepare):
        gram += z.T @ (z if shares is None else z * shares[chunk, None])
    return gram


def check_factor(n_columns: int) -> None:
    """Refuse a factor of that side, which would not fit."""
    check_memory(
        _COPIES * 8.0 * n_columns**2,
        f"posterior=True with {n_columns} features",
        lambda room: (
            f"use feature_map='nystroem' with n_components={int((room / 8 / _COPIES) ** 0.5)} or "
            "less, or LocalKernelRegressor"
        ),
    )


def check_pairs(n_rows: int, n_columns: int) -> None:
    """Refuse a covariance of so many rows, with so many features, which would not fit."""
    check_memory(
        8.0 * n_rows * (_COPIES * n_rows + 3.0 * n_columns),
        f"the covariance of {n_rows} rows",
        "use fewer rows, or return_std=True",
    )


def square_root(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """A matrix whose product with its transpose is the covariance, up to rounding."""
    with suppress(np.linalg.LinAlgError):
        return lower(covariance)
    values, vectors = np.linalg.eigh(covariance)  # singular to rounding: equal rows, little noise
    return vectors * np.sqrt(np.maximum(values, 0.0))


@dataclass
class LeafPosterior:
    """The posteriors of the leaves of trees, each given the targets of its rows.

    The standard deviation of a mean of answers is at most the mean of theirs, and near it as the
    trees see the same targets: it is that mean, over trees and over leaves that share an answer.

    Factors of the leaves are made whenever they are needed, and forgotten.
    """

    map: LocalKernel
    ridges: NDArray[np.float64]  # of the rows of the map, (n,)

    def variances(self, X: Data, prepare: Prepare) -> NDArray[np.float64]:
        rows = prepare(X)

        def deviations(route: Route) -> NDArray[np.float64]:
            of_leaf = self._of_leaf(route.leaf)
            out = np.empty(len(route.rows))
            for chunk in row_chunks(len(out), 24.0 * len(of_leaf.ridges)):
                out[chunk] = of_leaf.variances_of(wide(rows[route.rows[chunk]]))
            return np.sqrt(out)

        total = np.zeros(X.shape[0])
        for route, part in self._by_leaf(deviations, rows):
            total[route.rows] += route.shares * part
        return np.square(total)

    def left_out(self, coef: NDArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Residuals (n, k) and variances (n,) of targets that all leaves leave out in turn."""

        def parts(route: Route) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
            members = self.map.members_.of(route.leaf)
            of_leaf = self._of_leaf(route.leaf)
            residual, variance = of_leaf.left_out(coef[self.map.members_.places(route.leaf)])
            places = np.searchsorted(members, route.rows)
            latent = np.sqrt(np.maximum(variance - of_leaf.ridges, 0.0))
            return residual[places], latent[places]

        left = np.zeros((len(self.ridges), coef.shape[1]))
        deviations = np.zeros(len(self.ridges))
        for route, (residual, latent) in self._by_leaf(parts, self.map.landmarks_):
            left[route.rows] += route.shares[:, None] * residual
            deviations[route.rows] += route.shares * latent
        return left, np.square(deviations) + self.ridges

    def _of_leaf(self, leaf: int) -> RowPosterior:
        members = self.map.members_.of(leaf)
        return RowPosterior(self.map.kernel_, self.map.landmarks_[members], self.ridges[members])

    def _by_leaf(self, call: Callable[[Route], Any], rows: Any) -> Iterator[tuple[Route, Any]]:
        routes = list(self.map.partition_.routes(rows, self.map.n_jobs))
        yield from zip(routes, side_by_side(call, routes, self.map.n_jobs), strict=True)


def prior_variance(
    residuals: NDArray[np.float64], variances: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The prior variance s2 of every output, (k,), by residuals (n, k) and variances (n,)."""
    return np.mean(np.square(residuals) / variances[:, None], axis=0)
