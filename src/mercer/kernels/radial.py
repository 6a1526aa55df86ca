"""Radial kernels that are mixtures of Gaussians: as rough or as heavy-tailed as wanted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv

from mercer._runtime.random import Streams
from mercer._runtime.validation import positive_number
from mercer.kernels.spectral import Spectral
from mercer.kernels.stationary import ONE_INPUT_ALONE, exponential_slope, gamma_widths

_SMOOTHNESS = (0.5, 1.5, 2.5)
_NAMES_IN_CORE = dict(zip(_SMOOTHNESS, ("exponential", "matern_3_2", "matern_5_2"), strict=True))
_FAR = 1e3  # where exp(-t) is 0 in float64, while polynomials of t are still finite


@dataclass(frozen=True)
class Matern(Spectral):
    """The Matérn kernel, whose smoothness ``nu`` lies between the exponential and the Gaussian.

    With ``r = sqrt(2 nu) * gamma * |x - y|_2`` it is ``exp(-r)`` for ``nu=0.5``, the kernel
    :class:`Exponential`; ``(1 + r) exp(-r)`` for 1.5; and ``(1 + r + r**2 / 3) exp(-r)`` for 2.5.
    Larger ``nu`` means smoother functions.

    Parameters
    ----------
    gamma : float, array of shape (d,), "scale" or "median", default="scale"
        One over the length scale, > 0: the factor of the distance, as for the Exponential.
    nu : {0.5, 1.5, 2.5}, default=1.5
        Smoothness: functions are about ``nu`` times differentiable.

    Raises
    ------
    ValueError
        If ``nu`` is not 0.5, 1.5 or 2.5.

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, section 4.2.1: the
    spectral distribution is a multivariate Student distribution with 2 nu degrees of freedom.

    Examples
    --------
    >>> from mercer.kernels import Matern
    >>> Matern(gamma=0.5, nu=1.5)([[0.0, 0.0]], [[3.0, 4.0]]).round(4)
    array([[0.0702]])
    """

    gamma: Any = "scale"
    nu: float = 1.5
    power: ClassVar[int] = 1
    metric: ClassVar[str] = "euclidean"

    def __post_init__(self) -> None:
        super().__post_init__()
        if np.ndim(self.nu) or self.nu not in _SMOOTHNESS:
            raise ValueError(f"nu must be 0.5, 1.5 or 2.5; got {self.nu!r}.")
        object.__setattr__(self, "nu", float(self.nu))

    def spread(self, uniform: NDArray[np.float64]) -> NDArray[np.float64]:
        # One over the square root of a mean square of 2 nu normal numbers: Student's law.
        return np.sqrt(self.nu / gammaincinv(self.nu, uniform))

    def unit_widths(self, streams: Streams, n_inputs: int) -> NDArray[np.float64]:
        if self.nu == 0.5 and n_inputs == 1:
            return gamma_widths(streams, 1)
        return super().unit_widths(streams, n_inputs)

    @property
    def _why_no_widths(self) -> str:  # type: ignore[override]
        return ONE_INPUT_ALONE if self.nu == 0.5 else "its profile is not convex near 0"

    def _profile(self, distance: NDArray[np.float64]) -> NDArray[np.float64]:
        distance *= np.sqrt(2.0 * self.nu)
        if self.nu == 0.5:
            return super()._profile(distance)
        r = np.minimum(distance, _FAR, out=distance)
        polynomial = 1.0 + r if self.nu == 1.5 else 1.0 + r * (1.0 + r / 3.0)
        polynomial *= super()._profile(r)
        return polynomial

    def slope(
        self, distance: NDArray[np.float64], values: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        r = np.minimum(np.sqrt(2.0 * self.nu) * distance, _FAR)
        if self.nu == 0.5:
            return exponential_slope(r, values)
        out = -2.0 * self.nu * np.exp(-r)
        return out if self.nu == 1.5 else (1.0 + r) / 3.0 * out

    def _in_core(self) -> tuple[str, float] | None:
        return _NAMES_IN_CORE[self.nu], 1.0


@dataclass(frozen=True)
class RationalQuadratic(Spectral):
    """``(1 + gamma * |x - y|**2 / exponent)**-exponent``: a mixture of Gaussian kernels.

    It tends to the Gaussian as ``exponent`` grows, and is the isotropic Cauchy kernel for
    ``exponent=1``.

    Parameters
    ----------
    gamma : float, array of shape (d,), "scale" or "median", default="scale"
        Factor of the squared distance, > 0, as for the Gaussian.
    exponent : float, default=1.0
        Decay of the kernel, > 0; small exponents have heavy tails.

    Raises
    ------
    TypeError, ValueError
        If ``exponent`` is not a positive number.

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, section 4.2.1: a Gaussian
    whose ``gamma`` is drawn from a gamma law of shape ``exponent``.

    Examples
    --------
    >>> from mercer.kernels import RationalQuadratic
    >>> RationalQuadratic(gamma=1.0, exponent=2.0)([[0.0, 0.0]], [[1.0, 1.0]])
    array([[0.25]])
    """

    gamma: Any = "scale"
    exponent: float = 1.0
    power: ClassVar[int] = 2
    metric: ClassVar[str] = "sqeuclidean"
    _why_no_widths = "its profile is not convex near 0"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "exponent", positive_number(self.exponent, "exponent"))

    def spread(self, uniform: NDArray[np.float64]) -> NDArray[np.float64]:
        # A Gaussian whose own gamma is drawn.
        return np.sqrt(2.0 * gammaincinv(self.exponent, uniform) / self.exponent)

    def _profile(self, distance: NDArray[np.float64]) -> NDArray[np.float64]:
        distance /= self.exponent
        np.log1p(distance, out=distance)
        distance *= self.exponent
        return super()._profile(distance)

    def slope(
        self, distance: NDArray[np.float64], values: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        return -values / (1.0 + distance / self.exponent)

    def _in_core(self) -> tuple[str, float] | None:
        return "rational_power", self.exponent
