"""Losses of a residual r = u − y."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer._runtime.validation import positive_number
from mercer.losses.base import Loss, median

__all__ = ["Correntropy", "Huber", "Squared"]


@dataclass(frozen=True)
class Squared(Loss):
    """½ (u − y)².

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.losses import Squared
    >>> Squared().value(np.array([3.0]), np.array([1.0]))
    array([2.])
    """

    name: ClassVar[str] = "squared"
    quadratic: ClassVar[bool] = True
    lipschitz: ClassVar[float] = 1.0

    def value(self, u: NDArray, y: NDArray) -> NDArray:
        return 0.5 * np.square(u - y)

    def gradient(self, u: NDArray, y: NDArray) -> NDArray:
        return u - y

    def hessian(self, u: NDArray, y: NDArray) -> NDArray:
        return np.ones_like(u)

    def curvature(self, u: NDArray, y: NDArray) -> Callable[[NDArray], NDArray]:
        return lambda du: du

    def conjugate(self, a: NDArray, y: NDArray) -> NDArray:
        return a * (y + 0.5 * a)


@dataclass(frozen=True)
class Huber(Loss):
    """½ r² for |r| ≤ delta and delta (|r| − delta/2) beyond, r = u − y.

    Parameters
    ----------
    delta : float, default=1.35
        Residual at which the parabola turns into a line, in units of y, > 0. An estimator with
        ``loss="huber"`` takes 1.35 times the robust spread of its targets.
    """

    delta: float = 1.35
    name: ClassVar[str] = "huber"
    robust: ClassVar[bool] = True
    residual: ClassVar[str] = "delta"
    lipschitz: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        # A Python float: a NumPy scalar would turn float32 arrays into float64 ones.
        object.__setattr__(self, "delta", positive_number(self.delta, "delta"))

    @property
    def parameter(self) -> float:
        return self.delta

    def value(self, u: NDArray, y: NDArray) -> NDArray:
        r = u - y
        clipped = np.clip(r, -self.delta, self.delta)
        return clipped * (r - 0.5 * clipped)

    def gradient(self, u: NDArray, y: NDArray) -> NDArray:
        return np.clip(u - y, -self.delta, self.delta)

    def hessian(self, u: NDArray, y: NDArray) -> NDArray:
        return (np.abs(u - y) <= self.delta).astype(u.dtype)

    def conjugate(self, a: NDArray, y: NDArray) -> NDArray:
        return np.where(np.abs(a) <= self.delta, a * (y + 0.5 * a), np.inf)

    def start(self, y: NDArray, mean: Callable[[NDArray], NDArray]) -> NDArray:
        """The weighted median: near the mean of a target with far values no row has curvature."""
        return median(y, mean)


@dataclass(frozen=True)
class Correntropy(Loss):
    """(σ²/2) (1 − exp(−r²/σ²)), r = u − y: the squared loss near 0, at most σ²/2 anywhere.

    Targets far from the prediction have no influence. The loss is not convex: solvers find a local
    minimum, which depends on the start.

    Parameters
    ----------
    sigma : float, default=1.0
        Width σ in units of y, > 0. The influence of a target decreases for residuals above σ/√2.
        An estimator with ``loss="correntropy"`` takes the robust spread of its targets.

    References
    ----------
    Feng, Huang, Shi, Yang and Suykens (2015), Learning with the maximum correntropy criterion
    induced losses for regression.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.losses import Correntropy
    >>> Correntropy().value(np.array([0.1, 10.0, 1e6]), np.zeros(3)).round(3)
    array([0.005, 0.5  , 0.5  ])
    """

    sigma: float = 1.0
    name: ClassVar[str] = "correntropy"
    robust: ClassVar[bool] = True
    residual: ClassVar[str] = "sigma"
    convex: ClassVar[bool] = False
    lipschitz: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", positive_number(self.sigma, "sigma"))

    @classmethod
    def of_residuals(cls, residuals: ArrayLike) -> Correntropy:
        """Return the loss with σ estimated robustly from residuals.

        Parameters
        ----------
        residuals : array of numbers
            Residuals, for example of a first model; up to half of them may be outliers.

        Returns
        -------
        Correntropy
            Loss with σ = 1.4826 · median |r − median r|: the standard deviation if the residuals
            are normal.

        Raises
        ------
        ValueError
            If more than half of the residuals are equal.
        """
        r = np.asarray(residuals, dtype=np.float64).ravel()
        spread = 1.4826 * float(np.median(np.abs(r - np.median(r)))) if len(r) else 0.0
        if not 0 < spread < np.inf:
            raise ValueError(f"residuals must have a spread; their median deviation is {spread!r}.")
        return cls(spread)

    @property
    def parameter(self) -> float:
        return self.sigma

    def value(self, u: NDArray, y: NDArray) -> NDArray:
        return (-0.5 * self.sigma**2) * np.expm1(-np.square((u - y) / self.sigma))

    def gradient(self, u: NDArray, y: NDArray) -> NDArray:
        return (u - y) * self.model_curvature(u, y)

    def hessian(self, u: NDArray, y: NDArray) -> NDArray:
        squares = np.square((u - y) / self.sigma)
        return (1 - 2 * squares) * np.exp(-squares)

    def model_curvature(self, u: NDArray, y: NDArray) -> NDArray:
        # The loss is concave in r², and below its tangent as a function of r².
        return np.exp(-np.square((u - y) / self.sigma))

    def conjugate(self, a: NDArray, y: NDArray) -> None:
        return None

    @property
    def surrogate(self) -> Huber:
        return Huber(self.sigma)

    def start(self, y: NDArray, mean: Callable[[NDArray], NDArray]) -> NDArray:
        """The weighted median: targets that are far off do not move it."""
        return median(y, mean)
