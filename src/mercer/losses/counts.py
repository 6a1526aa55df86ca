"""Losses of counts and costs: half deviances of a mean exp(u), so that effects multiply."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from mercer._runtime.validation import real_number
from mercer.losses.base import Loss

__all__ = ["Gamma", "Poisson", "Tweedie"]

_BISECTIONS = 100


@dataclass(frozen=True)
class Tweedie(Loss):
    """Half the Tweedie deviance of targets y ≥ 0 with the mean exp(u).

    ``y^(2−p) · (E(2 − p) − E(1 − p))`` where ``E(c) = (exp(c d) − 1) / c``, d for c = 0, and
    d = u − log y. The loss suits targets whose variance grows as the power p of their mean.

    Parameters
    ----------
    power : float, default=1.5
        Power p of the variance, from 1 (:class:`Poisson`) to 2 (:class:`Gamma`). Between 1 and 2
        the target is a sum of a random number of random amounts, and often 0: insurance claims,
        daily rainfall.

    References
    ----------
    Jørgensen (1987), Exponential dispersion models.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.losses import Tweedie
    >>> Tweedie(1.5).value(np.log([4.0, 4.0]), np.array([0.0, 4.0]))
    array([4., 0.])
    """

    power: float = 1.5
    name: ClassVar[str] = "tweedie"
    link: ClassVar[str] = "log"
    lipschitz: ClassVar[float] = np.inf

    def __post_init__(self) -> None:
        power = float(real_number(self.power, "power"))
        if not 1 <= power <= 2:
            raise ValueError(f"power must be from 1 to 2; got {self.power!r}.")
        object.__setattr__(self, "power", power)

    @property
    def parameter(self) -> float:
        return self.power

    def value(self, u: NDArray, y: NDArray) -> NDArray:
        p = self.power
        with np.errstate(over="ignore"):
            # Of the distance from log y alone: differences of large terms would lose its digits.
            d = np.where(y > 0, u - _log(y), 0)
            value = y ** (2 - p) * (_expm1_by(2 - p, d) - _expm1_by(1 - p, d))
            return value if p == 2 else np.where(y > 0, value, np.exp((2 - p) * u) / (2 - p))

    def gradient(self, u: NDArray, y: NDArray) -> NDArray:
        mean, target = self._parts(u, y)
        return mean - target

    def hessian(self, u: NDArray, y: NDArray) -> NDArray:
        mean, target = self._parts(u, y)
        return (2 - self.power) * mean + (self.power - 1) * target

    def _parts(self, u: NDArray, y: NDArray) -> tuple[NDArray, NDArray]:
        """exp((2 − p) u) and y exp((1 − p) u)."""
        p = self.power
        with np.errstate(over="ignore", under="ignore"):
            target = y * np.ones_like(u) if p == 1 else np.exp((1 - p) * u + _log(y))
            return np.exp((2 - p) * u), np.where(y > 0, target, 0)

    def conjugate(self, a: NDArray, y: NDArray) -> NDArray:
        p = self.power
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if p == 1:
                q = a + y
                return np.where(q >= 0, xlogy(q, q) - q - xlogy(y, y) + y, np.inf)
            if p == 2:
                q = 1 - a
                return np.where(q >= 0, xlogy(q, np.maximum(q, 0) / y) - q + _log(y) + 1, np.inf)
            best = self._response(a, y)
            # Without a target and a slope the supremum, 0, is that of u → −∞.
            supremum = np.where(np.isfinite(best), a * best - self.value(best, y), 0)
            return np.where((y > 0) | (a >= 0), supremum, np.inf)

    def _response(self, a: NDArray, y: NDArray) -> NDArray:
        """The u whose derivative is a, for 1 < p < 2, by bisection between bounds."""
        p = self.power
        at_target = y ** (2 - p)  # both parts of the derivative at u = log y
        low = np.log((at_target - np.minimum(a, 0)) / y) / (1 - p)
        high = np.log(at_target + np.maximum(a, 0)) / (2 - p)
        low = np.where(y > 0, low, high)
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            beyond = self.gradient(middle, y) >= a
            low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
        return high

    def constant(self, mean: NDArray, n_rows: int) -> NDArray:
        # A mean of zero counts as half a unit in all rows.
        return np.log(np.where(mean > 0, mean, 0.5 / n_rows))

    def unit(self, y: NDArray, mean: Callable[[NDArray], NDArray]) -> float:
        size = float(np.mean(mean(y)))
        # Counts have no unit, and amounts, of p = 2, none that the loss feels.
        return size ** (2 - self.power) if 1 < self.power < 2 and size > 0 else 1.0

    def means(self, u: NDArray) -> NDArray:
        with np.errstate(over="ignore", under="ignore"):
            return np.exp(u)

    def check_target(self, y: NDArray) -> None:
        too_small = y <= 0 if self.power == 2 else y < 0
        if np.any(too_small):
            rule = "above 0" if self.power == 2 else "at least 0"
            bad = y[too_small].flat[0]
            raise ValueError(f"y must be {rule} for loss {self.name!r}; got {float(bad)!r}.")


@dataclass(frozen=True)
class Poisson(Tweedie):
    """Half the Poisson deviance of counts y ≥ 0 with the mean exp(u): exp(u) − y u + constants.

    It suits numbers of events, or event rates with the exposure as sample weight.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.losses import Poisson
    >>> Poisson().value(np.log([2.0, 2.0]), np.array([0.0, 2.0]))
    array([2., 0.])
    """

    power: float = field(default=1.0, init=False, repr=False)
    name: ClassVar[str] = "poisson"


@dataclass(frozen=True)
class Gamma(Tweedie):
    """Half the gamma deviance of amounts y > 0 with the mean exp(u): u + y exp(−u) + constants.

    It suits costs, durations and other amounts whose error is proportional to the amount.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.losses import Gamma
    >>> Gamma().value(np.log([2.0, 20.0]), np.array([1.0, 10.0])).round(3)
    array([0.193, 0.193])
    """

    power: float = field(default=2.0, init=False, repr=False)
    name: ClassVar[str] = "gamma"


def _log(y: NDArray) -> NDArray:
    """log y, and 0 for targets that are 0, whose terms are left out."""
    return np.log(np.where(y > 0, y, 1))


def _expm1_by(c: float, d: NDArray) -> NDArray:
    """(exp(c d) − 1) / c, and its limit d for c = 0."""
    return d if c == 0 else np.expm1(c * d) / c
