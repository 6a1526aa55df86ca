"""Losses whose best constant is a quantile or an expectile of the targets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.validation import positive_number, real_number
from mercer.losses.base import Loss, bisected, typical

__all__ = ["Expectile", "Quantile", "SmoothQuantile"]


@dataclass(frozen=True)
class _Levelled(Loss):
    """A loss of r = u − y with a level, to which the two sides count differently."""

    level: float = 0.5

    def __post_init__(self) -> None:
        level = float(real_number(self.level, "level"))
        if not 0 < level < 1:
            raise ValueError(f"level must be above 0 and below 1; got {self.level!r}.")
        object.__setattr__(self, "level", level)

    @property
    def parameter(self) -> float:
        return self.level


@dataclass(frozen=True)
class Quantile(_Levelled):
    """level · (y − u) below the target and (1 − level) · (u − y) above it: the pinball loss.

    The constant with the least mean loss is a quantile: a share ``level`` of the targets lies below
    it. The loss has a kink at u = y; ``solvers.Smoothing`` minimises smooth losses in its place.

    Parameters
    ----------
    level : float, default=0.5
        Share of the targets below the prediction, above 0 and below 1; 0.5 is the median.

    References
    ----------
    Koenker and Bassett (1978), Regression quantiles.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.losses import Quantile
    >>> Quantile(0.9).value(np.array([-1.0, 1.0]), np.zeros(2)).round(3)
    array([0.9, 0.1])
    """

    name: ClassVar[str] = "quantile"
    robust: ClassVar[bool] = True
    smooth: ClassVar[bool] = False
    lipschitz: ClassVar[float] = np.inf

    def value(self, u: NDArray, y: NDArray) -> NDArray:
        r = u - y
        return np.maximum((1 - self.level) * r, -self.level * r)

    def gradient(self, u: NDArray, y: NDArray) -> NDArray:
        r = u - y
        return (1 - self.level) * (r > 0).astype(r.dtype) - self.level * (r < 0).astype(r.dtype)

    def hessian(self, u: NDArray, y: NDArray) -> NDArray:
        return np.zeros_like(u)

    def conjugate(self, a: NDArray, y: NDArray) -> NDArray:
        return np.where((a >= -self.level) & (a <= 1 - self.level), a * y, np.inf)

    def start(self, y: NDArray, mean: Callable[[NDArray], NDArray]) -> NDArray:
        """The weighted quantile, by bisection."""
        return bisected(self.gradient, y, mean)

    def unit(self, y: NDArray, mean: Callable[[NDArray], NDArray]) -> float:
        """1 / typical absolute deviation from the median, about the density of targets there."""
        deviation = np.mean(typical(np.abs(y - Quantile().start(y, mean)), mean))
        return 1.0 / float(deviation) if deviation > 0 else 1.0

    def smoothed(self, width: float) -> SmoothQuantile:
        """The loss with a parabola of that width, in units of y, in place of the kink."""
        return SmoothQuantile(self.level, width)


@dataclass(frozen=True)
class SmoothQuantile(_Levelled):
    """Pinball loss with a parabola in place of its kink.

    With r = u − y: ``c · r − width · c² / 2`` for c = r / width, bounded by −level and 1 − level.
    It is the Moreau envelope of :class:`Quantile`, and below it by at most width / 2.

    Parameters
    ----------
    level : float, default=0.5
        Share of the targets below the prediction, above 0 and below 1.
    width : float, default=1.0
        Length of the parabola in units of y, positive. An estimator with
        ``loss="smooth_quantile"`` takes the robust spread of its targets.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.losses import SmoothQuantile
    >>> SmoothQuantile(0.5, 0.1).value(np.array([-1.0, 0.0, 1.0]), np.zeros(3))
    array([0.4875, 0.    , 0.4875])
    """

    width: float = 1.0
    name: ClassVar[str] = "smooth_quantile"
    robust: ClassVar[bool] = True
    residual: ClassVar[str] = "width"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "width", positive_number(self.width, "width"))

    @property
    def lipschitz(self) -> float:  # type: ignore[override]
        return 1.0 / self.width

    def value(self, u: NDArray, y: NDArray) -> NDArray:
        r, c = u - y, self.gradient(u, y)
        return c * (r - 0.5 * self.width * c)

    def gradient(self, u: NDArray, y: NDArray) -> NDArray:
        return np.clip((u - y) / self.width, -self.level, 1 - self.level)

    def hessian(self, u: NDArray, y: NDArray) -> NDArray:
        c = (u - y) / self.width
        return ((c >= -self.level) & (c <= 1 - self.level)).astype(c.dtype) / self.width

    def conjugate(self, a: NDArray, y: NDArray) -> NDArray:
        inside = (a >= -self.level) & (a <= 1 - self.level)
        return np.where(inside, a * (y + 0.5 * self.width * a), np.inf)

    @property
    def starts_as(self) -> Quantile:
        """The pinball loss."""
        return Quantile(self.level)

    def start(self, y: NDArray, mean: Callable[[NDArray], NDArray]) -> NDArray:
        """Start of the pinball loss."""
        return self.starts_as.start(y, mean)

    def unit(self, y: NDArray, mean: Callable[[NDArray], NDArray]) -> float:
        """Unit of the pinball loss."""
        return Quantile(self.level).unit(y, mean)


@dataclass(frozen=True)
class Expectile(_Levelled):
    """level · r² below the target and (1 − level) · r² above it, r = u − y.

    The constant with the least mean loss is an expectile: like a quantile it lies above the mean
    for levels above 0.5, but it depends on the distances of all targets. Level 0.5 is the squared
    loss.

    Parameters
    ----------
    level : float, default=0.5
        Weight of targets above the prediction, above 0 and below 1.

    References
    ----------
    Newey and Powell (1987), Asymmetric least squares estimation and testing.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.losses import Expectile
    >>> Expectile(0.9).value(np.array([-1.0, 1.0]), np.zeros(2)).round(3)
    array([0.9, 0.1])
    """

    name: ClassVar[str] = "expectile"

    @property
    def lipschitz(self) -> float:  # type: ignore[override]
        return 2 * max(self.level, 1 - self.level)

    def value(self, u: NDArray, y: NDArray) -> NDArray:
        return self._weight(u - y) * np.square(u - y)

    def gradient(self, u: NDArray, y: NDArray) -> NDArray:
        return 2 * self._weight(u - y) * (u - y)

    def hessian(self, u: NDArray, y: NDArray) -> NDArray:
        return 2 * self._weight(u - y)

    def conjugate(self, a: NDArray, y: NDArray) -> NDArray:
        return a * (y + 0.25 * a / self._weight(a))

    def _weight(self, side: NDArray) -> NDArray:
        """Weight of the squares, by the sign of the residual or of the derivative."""
        above = (side > 0).astype(side.dtype)
        return self.level + (1 - 2 * self.level) * above
