"""The stationary kernels with known spectral laws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from mercer._runtime.arrays import Matrix
from mercer._runtime.random import Slot, Streams
from mercer._runtime.validation import flag
from mercer.kernels.distances import coordinate_products
from mercer.kernels.spectral import Spectral

ONE_INPUT_ALONE = (
    "it is not a product of one profile per input (with one input it is the Laplacian)"
)


@dataclass(frozen=True)
class Gaussian(Spectral):
    """``exp(-gamma * |x - y|**2)``, also called RBF.

    Parameters
    ----------
    gamma : float, array of shape (d,), "scale" or "median", default="scale"
        Factor 1 / (2 sigma**2) of the squared distance, > 0; an array has one factor per input.
        "scale" is 1 / (d * variance of X), as in scikit-learn; "median" is 1 over the median
        squared distance within a sample of X.

    Examples
    --------
    >>> from mercer.kernels import Gaussian
    >>> Gaussian(gamma=0.5)([[0.0]], [[0.0], [2.0]]).round(4)
    array([[1.    , 0.1353]])
    """

    gamma: Any = "scale"
    power: ClassVar[int] = 2
    metric: ClassVar[str] = "sqeuclidean"
    is_product: ClassVar[bool] = True
    _core_name: ClassVar[str] = "gaussian"
    _why_no_widths = "exp(-t**2) is not convex near 0"

    def quantile(self, uniform: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.sqrt(2.0) * ndtri(uniform)

    def spread(self, uniform: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.full_like(uniform, np.sqrt(2.0))

    def slope(
        self, distance: NDArray[np.float64], values: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        return -values


@dataclass(frozen=True)
class Laplacian(Spectral):
    """``exp(-gamma * |x - y|_1)``, with the sum of the absolute differences of the inputs.

    Parameters
    ----------
    gamma : float, array of shape (d,), "scale" or "median", default="scale"
        Factor of the distance, > 0; an array has one factor per input. "scale" is
        2 / (d * standard deviation of X); "median" is 1 over the median distance within a sample of
        X.

    See Also
    --------
    Exponential : the exponential of the Euclidean distance.

    Examples
    --------
    >>> from mercer.kernels import Laplacian
    >>> Laplacian(gamma=0.5)([[0.0, 0.0]], [[1.0, 1.0]]).round(4)
    array([[0.3679]])
    """

    gamma: Any = "scale"
    power: ClassVar[int] = 1
    metric: ClassVar[str] = "cityblock"
    is_product: ClassVar[bool] = True
    _core_name: ClassVar[str] = "laplacian"

    def quantile(self, uniform: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.tan(np.pi * (uniform - 0.5))  # the Cauchy law

    def unit_widths(self, streams: Streams, n_inputs: int) -> NDArray[np.float64]:
        return gamma_widths(streams, n_inputs)

    def _gamma_from_deviation(self, deviation: float, n_inputs: int) -> float:
        # About two over the mean distance: of the multiples 1, 2, 4 and 8 the one that serves best
        # over nine public tables with a few hundred random grids.
        return 2.0 / (n_inputs * deviation)

    def slope(
        self, distance: NDArray[np.float64], values: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        return -values


@dataclass(frozen=True)
class Exponential(Spectral):
    """``exp(-gamma * |x - y|_2)``: the isotropic Laplacian, with the Euclidean distance.

    Parameters
    ----------
    gamma : float, array of shape (d,), "scale" or "median", default="scale"
        Factor of the distance, > 0; an array has one factor per input. "scale" is
        1 / (sqrt(d) * standard deviation of X); "median" is 1 over the median distance within a
        sample of X.

    See Also
    --------
    Laplacian : the exponential of the sum of absolute differences.

    Examples
    --------
    >>> from mercer.kernels import Exponential
    >>> Exponential(gamma=0.5)([[0.0, 0.0]], [[3.0, 4.0]]).round(4)
    array([[0.0821]])
    """

    gamma: Any = "scale"
    power: ClassVar[int] = 1
    metric: ClassVar[str] = "euclidean"
    _core_name: ClassVar[str] = "exponential"
    _why_no_widths = ONE_INPUT_ALONE

    def spread(self, uniform: NDArray[np.float64]) -> NDArray[np.float64]:
        # Multivariate Cauchy: one over the size of a normal number that all inputs share.
        return -1.0 / ndtri(0.5 * uniform)

    def unit_widths(self, streams: Streams, n_inputs: int) -> NDArray[np.float64]:
        return super().unit_widths(streams, n_inputs) if n_inputs > 1 else gamma_widths(streams, 1)

    def slope(
        self, distance: NDArray[np.float64], values: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        return exponential_slope(distance, values)


@dataclass(frozen=True)
class Cauchy(Spectral):
    """``prod_j 1 / (1 + gamma * (x_j - y_j)**2)``, or isotropic ``1 / (1 + gamma * |x - y|**2)``.

    Parameters
    ----------
    gamma : float, array of shape (d,), "scale" or "median", default="scale"
        Factor of the squared differences, > 0, as for the Gaussian.
    isotropic : bool, default=False
        Whether the kernel is a function of the Euclidean distance instead of a product over inputs.

    Examples
    --------
    >>> from mercer.kernels import Cauchy
    >>> Cauchy(gamma=1.0)([[0.0, 0.0]], [[1.0, 1.0]])
    array([[0.25]])
    """

    gamma: Any = "scale"
    isotropic: bool = False
    power: ClassVar[int] = 2
    metric: ClassVar[str] = "sqeuclidean"
    _why_no_widths = "1 / (1 + t**2) is not convex near 0"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "isotropic", flag(self.isotropic, "isotropic"))

    def quantile(self, uniform: NDArray[np.float64]) -> NDArray[np.float64] | None:
        if self.isotropic:
            return None
        centred = uniform - 0.5
        return -np.sign(centred) * np.log1p(-2.0 * np.abs(centred))  # the Laplace law

    def spread(self, uniform: NDArray[np.float64]) -> NDArray[np.float64] | None:
        return np.sqrt(-2.0 * np.log(uniform)) if self.isotropic else None

    @property
    def is_product(self) -> bool:  # type: ignore[override]
        return not self.isotropic

    def _values(self, x: Matrix, y: Matrix) -> NDArray[np.float64]:
        if self.isotropic:
            return super()._values(x, y)
        return np.reciprocal(coordinate_products(_one_plus_square, x, y))

    def _profile(self, distance: NDArray[np.float64]) -> NDArray[np.float64]:
        distance += 1.0
        return np.reciprocal(distance, out=distance)

    def slope(
        self, distance: NDArray[np.float64], values: NDArray[np.float64]
    ) -> NDArray[np.float64] | None:
        return -np.square(values) if self.isotropic else None

    def _in_core(self) -> tuple[str, float] | None:
        return "rational" if self.isotropic else "cauchy", 1.0


def _one_plus_square(t: NDArray[np.float64]) -> NDArray[np.float64]:
    t *= t
    t += 1.0
    return t


def gamma_widths(streams: Streams, n_inputs: int) -> NDArray[np.float64]:
    """The width law of exp(-t), Gamma with shape 2: a sum of two exponentials."""
    return streams.exponential(n_inputs, Slot.WIDTH) + streams.exponential(
        n_inputs, Slot.SECOND_WIDTH
    )


def exponential_slope(
    distance: NDArray[np.float64], values: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Derivative of exp(-t) by half the square of t, (-exp(-t)) / t; 0 where t is 0."""
    return np.divide(-values, distance, out=np.zeros_like(values), where=distance > 0)
