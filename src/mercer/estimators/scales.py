"""Scales of the inputs, learned from how quick fits change along each of them."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer._runtime.random import RandomStateLike, key_from
from mercer._runtime.validation import (
    flag,
    is_name,
    name_from,
    positive_integer,
    real_number,
)
from mercer.equations.small_ridge import kernel_ridge, ridge_regressions
from mercer.estimators.gradients import KernelFit
from mercer.estimators.lasso_scales import lasso_scales
from mercer.estimators.scaling import (
    METRICS,
    InputScaler,
    as_columns,
    at_unit_distance,
    sampled,
    scaled,
)
from mercer.kernels import Gaussian
from mercer.kernels.distances import fill
from mercer.maps import RandomFourier

__all__ = ["GradientScaler", "learned_scales"]

_WIDTHS = (0.35, 1.0)  # of the frequencies, in units of one over the typical length of a row
_RIDGES = (0.03, 0.3, 3.0)
_SHARE = 0.75  # share of the sampled rows that width and ridge are fitted to; the rest judges
_FLOOR = 1e-3  # the least scale, in units of the largest
_ROWS = 1000  # rows that gradients are averaged over
# The exact machine that scales are learned from once more, at a median distance of 1: where its
# gamma was between 0.5 and 3 and its ridge a third or three times these, errors on twelve tables
# of 4500 rows stayed within a hundredth.
_MACHINE_ROWS, _MACHINE_GRADIENTS = 2000, 200  # it is fitted to, and gradients are averaged over
_EUCLIDEAN = "exponential"  # kernel of the machines that begin with equal scales
_LASSO = "linear"  # kernel of the machine with an l1 penalty


@dataclass(frozen=True)
class _Course:
    """Settings by which exact machines of a kernel learn scales."""

    metric: str  # whose median distance is 1 when the kernel's gamma is
    ridge: float
    rounds: int  # after one, errors of cadata and cpu are up to half a hundredth higher
    gradients: int = _MACHINE_GRADIENTS


_COURSES = {
    "laplacian": _Course("cityblock", 0.3, 2),
    "gaussian": _Course("sqeuclidean", 0.1, 2),
    _EUCLIDEAN: _Course("euclidean", 0.01, 3, 500),
}


@dataclass(eq=False, repr=False)
class GradientScaler(InputScaler):
    """Scale each input by the mean size of the derivative of a first model along it.

    The scale of an input is the root mean square of the derivative along it of f, a ridge fit of
    random cosines on a sample of the rows. Further rounds repeat this on the scaled inputs. The
    scales are the square roots of the diagonal of the average gradient outer product
    M = mean(∇f ∇fᵀ); with ``full=True`` the rows are multiplied by the root of M itself.

    ``kernel`` selects the model f of the last rounds. With "laplacian" or "gaussian" the cosines
    come first, then two rounds of the exact kernel machine. With "exponential" there are three
    rounds of the exact machine, from equal scales on; this separates useful from useless codes and
    booleans best. With "linear" the scales are the absolute coefficients of a lasso, whose strength
    is chosen on held-out rows; inputs without a coefficient are left out, which suits thousands of
    inputs.

    One common factor brings the median distance between rows to 1: gamma of a kernel is then in
    units of the median distance.

    Parameters
    ----------
    power : float, default=1.0
        Exponent of the learned scales, from 0 (equal scales) to 1.
    rounds : int, default=2
        Number of rounds with cosines, >= 1.
    full : bool, default=False
        Whether to learn the matrix M instead of its diagonal.
    kernel : {"laplacian", "gaussian", "exponential", "linear"} or None, default=None
        Kernel of the exact machine of the last rounds, on at most 2000 rows; "linear" means a
        lasso, which excludes ``full``. None uses cosines only.
    metric : {"cityblock", "euclidean", "sqeuclidean"}, default="cityblock"
        Distance whose median becomes 1.
    n_components : int, default=1000
        Number of cosines of the ridge fit. With fewer, the scales of inputs that are useful only
        together depend on ``random_state``.
    max_rows : int, default=1200
        Largest number of rows of the ridge fit; larger data are sampled.
    target : {"auto", "continuous", "classes"}, default="auto"
        Kind of y. "auto" means "continuous" if y has fractions, else "classes".
    random_state : int, RandomState, Generator or None, default=None
        Seed of the cosines and of the sampled rows.

    Attributes
    ----------
    scales_ : ndarray of shape (d,)
        Scale per input, the largest of which is 1: the norms of the columns of ``matrix_``.
    matrix_ : ndarray of shape (d,) or (d, d)
        Factors of the inputs, or matrix that multiplies the rows; inputs of scale 0 are left out.
    n_features_in_ : int
        Number of input columns.

    Raises
    ------
    ValueError, TypeError
        At ``fit``, if a setting or the data are invalid.

    References
    ----------
    Radhakrishnan, Beaglehole, Pandit and Belkin, Mechanism for feature learning in neural networks
    and backpropagation-free machine learning models, Science 2024. Tibshirani, Regression shrinkage
    and selection via the lasso, JRSS B 1996.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import GradientScaler
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> scaler = GradientScaler(random_state=0).fit(X, np.sin(2 * X[:, 1]))
    >>> scaler.scales_.round(1)
    array([0., 1., 0.])
    """

    power: float = 1.0
    _: KW_ONLY
    rounds: int = 2
    full: bool = False
    kernel: str | None = None
    metric: str = "cityblock"
    n_components: int = 1000
    max_rows: int = 1200
    target: str = "auto"
    random_state: RandomStateLike = None

    def _check_settings(self) -> None:
        if not 0 <= real_number(self.power, "power") <= 1:
            raise ValueError(f"power must be between 0 and 1; got {self.power!r}.")
        for name in ("rounds", "n_components", "max_rows"):
            positive_integer(getattr(self, name), name)
        flag(self.full, "full")
        if self.kernel is not None:
            name_from(self.kernel, (*_COURSES, _LASSO), "kernel")
            if self.full and is_name(self.kernel, _LASSO):
                raise ValueError("full must be False with kernel='linear'; got True.")
        name_from(self.metric, METRICS, "metric")
        name_from(self.target, ("auto", "continuous", "classes"), "target")

    def _matrices(self, X: Any, y: Any, weights: NDArray | None) -> tuple[NDArray, NDArray]:
        sample, unit, matrix = self._learned(X, y, weights=weights)
        return matrix, at_unit_distance(sample, matrix, self.metric) / unit

    def _learned(
        self, X: Any, y: Any, first: NDArray | None = None, weights: NDArray | None = None
    ) -> tuple[Any, float, NDArray]:
        """Return (sample, unit, unnormalised scales).

        X, y and weights, above 0, are checked; ``first`` are scales of the random cosines, if
        known.
        """
        key = key_from(self.random_state)
        rows, sample, unit = sampled(X, key, int(self.max_rows))
        if self.power == 0 or len(rows) <= 3:
            return sample, unit, np.ones(X.shape[1])
        if weights is not None:
            weights = weights[rows] / weights[rows].mean()
        target = as_columns(np.asarray(y)[rows], self.target, weights)
        if self.kernel == _LASSO:
            return sample, unit, lasso_scales(sample, target, weights) ** float(self.power)
        dense = sample.toarray() if sparse.issparse(sample) else sample
        roots = None if weights is None else np.sqrt(weights, dtype=np.float32)[:, None]
        rows, target = dense.astype(np.float32), target.astype(np.float32)
        if self.kernel is None:
            products = self._products(rows, target, roots, key)
        else:
            if self.kernel == _EUCLIDEAN:
                first = np.eye(rows.shape[1]) if self.full else np.ones(rows.shape[1])
            elif first is None:
                first = _root(self._products(rows, target, roots, key), 1.0)
            products = _machine_products(self.kernel, rows, target, roots, first, self.full)
        return sample, unit, _root(products, float(self.power))

    def _products(self, X: NDArray, target: NDArray, roots: NDArray | None, key: int) -> NDArray:
        """M, or its diagonal; ``roots`` (n, 1) are the roots of the weights."""
        drawn = _cosines(key, X.shape[1], int(self.n_components))
        products = np.ones(X.shape[1])
        for _ in range(self.rounds):
            matrix = _root(products, 1.0)
            rows = scaled(X, matrix)
            fit = _smooth_fit(rows, target, *drawn, roots)
            few = None if roots is None else roots[:_ROWS]
            products = fit.gradient_products(rows[:_ROWS], matrix, self.full, few)
        return products


@lru_cache(maxsize=4)  # of many inputs they take memory
def _cosines(key: int, d: int, n_components: int) -> tuple[NDArray, NDArray]:
    """Frequencies (d, D) and phases (D,), which the fits of a search have in common."""
    map_ = RandomFourier(Gaussian(0.5), n_components=n_components)
    map_.random_state = np.random.default_rng(key)
    map_.fit(np.zeros((1, d), dtype=np.float32))
    frequencies, phases = map_.parameters(np.arange(n_components))
    return frequencies.T.astype(np.float32), phases.astype(np.float32)


def learned_scales(
    scaler: GradientScaler,
    X: NDArray,
    y: Any,
    first: NDArray | None = None,
    weights: NDArray | None = None,
) -> NDArray:
    """Scales (d,), or (d, d) if ``full``, that a scaler learns from checked rows.

    They do not bring the median distance between rows to 1. A scaler with a kernel need not learn
    again what one without it learned ``first``, with a power of 1.
    """
    return scaler._learned(X, y, first, weights)[2]


@dataclass
class _SmoothFit:
    """f(x) = cos(x W + b) A, of k outputs."""

    frequencies: NDArray  # W, (d, D)
    phases: NDArray
    coef: NDArray  # A, (D, k)

    def gradient_products(
        self, X: NDArray, matrix: NDArray, full: bool, roots: NDArray | None = None
    ) -> NDArray[np.float64]:
        """Sum of ∇f ∇fᵀ over the rows of X and all outputs, or its diagonal.

        As of ``KernelFit``: with sines S and V = ``matrix`` W it is V (SᵀS ∘ A Aᵀ) Vᵀ for any
        outputs.
        """
        along = self.frequencies.astype(np.float64)
        along = matrix[:, None] * along if matrix.ndim == 1 else matrix @ along
        sines = X @ self.frequencies
        sines += self.phases
        np.sin(sines, out=sines)
        if roots is not None:
            sines *= roots
        coef = self.coef.astype(np.float64)
        products = along @ ((sines.T @ sines) * (coef @ coef.T))
        if full:
            return products @ along.T
        return np.maximum(np.einsum("jk,jk->j", products, along), 0)  # but for rounding


def _machine_products(
    kernel: str, X: NDArray, target: NDArray, roots: NDArray | None, matrix: NDArray, full: bool
) -> NDArray[np.float64]:
    """M, or its diagonal, of the exact machine in the scales of ``matrix``.

    With ``roots`` s (n, 1) of weights it solves (s K s + ridge I) b = s y for a = s b.
    """
    course = _COURSES[kernel]
    few = None if roots is None else roots[:_MACHINE_ROWS]
    products = np.empty(0)
    for _ in range(course.rounds):
        matrix = at_unit_distance(X, matrix, course.metric)
        rows = scaled(X[:_MACHINE_ROWS], matrix)
        rows -= rows.mean(axis=0)
        system, sought = np.empty((len(rows), len(rows)), dtype=np.float32), target[:_MACHINE_ROWS]
        fill(system, kernel, rows, rows, np.ones(rows.shape[1]))
        if few is not None:
            system, sought = few * system * few.T, few * sought
        coef = kernel_ridge(system, sought, course.ridge)
        if coef is None:
            raise np.linalg.LinAlgError("the matrix is not positive definite to rounding.")
        fit = KernelFit(kernel, rows, coef if few is None else few * coef)
        counted = None if few is None else few[: course.gradients]
        products = fit.gradient_products(rows[: course.gradients], matrix, full, counted)
        matrix = _root(products, 1.0)
    return products


def _smooth_fit(
    X: NDArray,
    target: NDArray,
    frequencies: NDArray,
    phases: NDArray,
    roots: NDArray | None = None,
) -> _SmoothFit:
    """The width and ridge that predict the last rows best, fitted to all, by weights' roots."""
    target = target if roots is None else target * roots
    length = float(np.sqrt(np.mean(np.sum(X**2, axis=1)))) or 1.0
    n_first = max(1, int(_SHARE * len(X)))
    best: tuple[float, NDArray, Any, NDArray] | None = None
    for width in _WIDTHS:
        scaled = frequencies * X.dtype.type(width / length)
        Z = X @ scaled
        Z += phases
        np.cos(Z, out=Z)
        if roots is not None:
            Z *= roots
        unit = X.dtype.type(0.5 * len(phases))  # mean square of a row's features
        strengths = [X.dtype.type(ridge) * unit for ridge in _RIDGES]
        fits = ridge_regressions(Z[:n_first], target[:n_first], strengths)
        for strength, coef in zip(strengths, fits, strict=True):
            error = float(np.mean(np.square(Z[n_first:] @ coef - target[n_first:])))
            if best is None or error < best[0] or not np.isfinite(best[0]):
                best = error, scaled, strength, Z
    _, scaled, strength, Z = best  # type: ignore[misc]
    (coef,) = ridge_regressions(Z, target, [strength])
    return _SmoothFit(scaled, phases, coef)


def _root(products: NDArray, power: float) -> NDArray:
    """A power of the root of M, or of its diagonal, at least a thousandth of the largest.

    Where nothing changes along any input, none is preferred.
    """
    if products.ndim == 1:
        highest = products.max()
        if highest <= 0:
            return np.ones_like(products)
        return np.maximum(np.sqrt(products / highest), _FLOOR) ** power
    values, vectors = np.linalg.eigh(products)
    if values.max() <= 0:
        return np.eye(len(products))
    scales = np.maximum(np.sqrt(np.maximum(values / values.max(), 0)), _FLOOR) ** power
    return (vectors * scales) @ vectors.T
