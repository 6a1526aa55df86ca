"""Losses of a margin v = yu, y = ±1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, xlogy

from mercer.losses.base import Loss

__all__ = ["Hinge", "Logistic", "Sigmoid", "SmoothHinge", "SquaredHinge"]


@dataclass(frozen=True)
class Logistic(Loss):
    """log(1 + exp(−yu)), y = ±1.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.losses import Logistic
    >>> Logistic().value(np.array([-1000.0, 1000.0]), np.array([1.0, 1.0]))
    array([1000.,    0.])
    """

    name: ClassVar[str] = "logistic"
    is_classification: ClassVar[bool] = True
    has_proba: ClassVar[bool] = True
    lipschitz: ClassVar[float] = 0.25

    def value(self, u: NDArray, y: NDArray) -> NDArray:
        v = y * u
        # log(1 + e^{-v}) with the sign of v taken apart, so that exp never overflows.
        return np.maximum(-v, 0) + np.log1p(np.exp(-np.abs(v)))

    def gradient(self, u: NDArray, y: NDArray) -> NDArray:
        return -y * expit(-y * u)

    def hessian(self, u: NDArray, y: NDArray) -> NDArray:
        return _bell(u)

    def conjugate(self, a: NDArray, y: NDArray) -> NDArray:
        q = -a * y
        inside = (q >= 0) & (q <= 1)
        q = np.clip(q, 0, 1)
        return np.where(inside, xlogy(q, q) + xlogy(1 - q, 1 - q), np.inf)

    def constant(self, mean: NDArray, n_rows: int) -> NDArray:
        # Log-odds; a class that never occurs counts as half a row.
        share = np.clip(0.5 * (1 + mean), 0.5 / n_rows, 1 - 0.5 / n_rows)
        return np.log(share) - np.log1p(-share)

    def proba(self, u: NDArray) -> NDArray:
        return expit(u)


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """max(0, 1 − yu)², y = ±1; without ½, so that β = 2."""

    name: ClassVar[str] = "squared_hinge"
    is_classification: ClassVar[bool] = True
    lipschitz: ClassVar[float] = 2.0

    def value(self, u: NDArray, y: NDArray) -> NDArray:
        return np.square(np.maximum(1 - y * u, 0))

    def gradient(self, u: NDArray, y: NDArray) -> NDArray:
        return -2 * y * np.maximum(1 - y * u, 0)

    def hessian(self, u: NDArray, y: NDArray) -> NDArray:
        return 2 * (y * u < 1).astype(u.dtype)

    def conjugate(self, a: NDArray, y: NDArray) -> NDArray:
        return np.where(a * y <= 0, a * (y + 0.25 * a), np.inf)


@dataclass(frozen=True)
class Hinge(Loss):
    """max(0, 1 − yu), y = ±1: the loss of support vector machines.

    The loss has a kink at yu = 1; ``solvers.Smoothing`` minimises smooth losses in its place.

    References
    ----------
    Cortes and Vapnik (1995), Support-vector networks. Chen, Yang, King and Lyu, Training-efficient
    feature map for shift-invariant kernels, IJCAI 2015, theorem 3.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.losses import Hinge
    >>> Hinge().value(np.array([-1.0, 0.0, 1.0]), np.ones(3))
    array([2., 1., 0.])
    """

    name: ClassVar[str] = "hinge"
    is_classification: ClassVar[bool] = True
    smooth: ClassVar[bool] = False
    lipschitz: ClassVar[float] = np.inf

    def value(self, u: NDArray, y: NDArray) -> NDArray:
        return np.maximum(1 - y * u, 0)

    def gradient(self, u: NDArray, y: NDArray) -> NDArray:
        return -y * (y * u < 1).astype(u.dtype)

    def hessian(self, u: NDArray, y: NDArray) -> NDArray:
        return np.zeros_like(u)

    def conjugate(self, a: NDArray, y: NDArray) -> NDArray:
        return np.where((a * y <= 0) & (a * y >= -1), a * y, np.inf)

    def constant(self, mean: NDArray, n_rows: int) -> NDArray:
        return np.sign(mean)

    def smoothed(self, width: float) -> Loss:
        """The loss with a parabola of that width, in units of yu, in place of the kink."""
        return _NarrowHinge(width)


@dataclass(frozen=True)
class SmoothHinge(Loss):
    """½ − v for v ≤ 0, ½ (1 − v)² up to v = 1 and 0 beyond, v = yu, y = ±1.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.losses import SmoothHinge
    >>> SmoothHinge().value(np.array([-1.0, 0.0, 1.0]), np.ones(3))
    array([1.5, 0.5, 0. ])
    """

    name: ClassVar[str] = "smooth_hinge"
    is_classification: ClassVar[bool] = True
    lipschitz: ClassVar[float] = 1.0
    width: ClassVar[float] = 1.0  # of the parabola

    def value(self, u: NDArray, y: NDArray) -> NDArray:
        short = 1 - y * u
        clipped = np.clip(short / self.width, 0, 1)
        return clipped * (short - 0.5 * self.width * clipped)

    def gradient(self, u: NDArray, y: NDArray) -> NDArray:
        return -y * np.clip((1 - y * u) / self.width, 0, 1)

    def hessian(self, u: NDArray, y: NDArray) -> NDArray:
        short = 1 - y * u
        return ((short > 0) & (short < self.width)).astype(u.dtype) / self.width

    def conjugate(self, a: NDArray, y: NDArray) -> NDArray:
        inside = (a * y <= 0) & (a * y >= -1)
        return np.where(inside, a * (y + 0.5 * self.width * a), np.inf)

    def constant(self, mean: NDArray, n_rows: int) -> NDArray:
        return 2 * mean / (1 + np.abs(mean))


@dataclass(frozen=True)
class _NarrowHinge(SmoothHinge):
    """Moreau envelope of the hinge, at most width / 2 below it; the core's has width 1."""

    width: float = 1.0  # type: ignore[misc]

    @property
    def lipschitz(self) -> float:  # type: ignore[override]
        return 1.0 / self.width


@dataclass(frozen=True)
class Sigmoid(Loss):
    """1 / (1 + exp(yu)), y = ±1: a smooth count of errors, at most 1 per row.

    Rows with a wrong label have little influence. The loss is not convex: solvers find a local
    minimum, which depends on the start.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.losses import Sigmoid
    >>> Sigmoid().value(np.array([-100.0, 0.0, 100.0]), np.ones(3)).round(3)
    array([1. , 0.5, 0. ])
    """

    name: ClassVar[str] = "sigmoid"
    is_classification: ClassVar[bool] = True
    convex: ClassVar[bool] = False
    lipschitz: ClassVar[float] = 1.0 / (6.0 * 3.0**0.5)

    @property
    def surrogate(self) -> Logistic:
        return Logistic()

    def value(self, u: NDArray, y: NDArray) -> NDArray:
        return expit(-y * u)

    def gradient(self, u: NDArray, y: NDArray) -> NDArray:
        return -y * _bell(u)

    def hessian(self, u: NDArray, y: NDArray) -> NDArray:
        return _bell(u) * (1 - 2 * expit(-y * u))

    def model_curvature(self, u: NDArray, y: NDArray) -> NDArray:
        # 1 − exp(−ℓ) of the logistic loss ℓ: concave in it, and below its tangent as a function of
        # it, which is a multiple of the logistic loss.
        right = expit(y * u)
        return np.square(right) * expit(-y * u)

    def conjugate(self, a: NDArray, y: NDArray) -> None:
        return None

    def constant(self, mean: NDArray, n_rows: int) -> NDArray:
        # The best one is infinite, where the loss is flat. Begin as logistic regression does.
        return Logistic().constant(mean, n_rows)


def _bell(u: NDArray) -> NDArray:
    """s (1 − s), s = 1 / (1 + e^u)."""
    small = np.exp(-np.abs(u))
    return small / np.square(1 + small)
