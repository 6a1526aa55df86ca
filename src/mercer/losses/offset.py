"""Losses of responses to which known numbers are added, one per row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from mercer.losses.base import Loss

__all__ = ["Offset"]

_SHARED = "name", "is_classification", "convex", "smooth", "has_proba", "link", "robust"


@dataclass(frozen=True, eq=False)
class Offset(Loss):
    """ℓ(y, u + o) of another loss ℓ, whose outputs do not depend on each other.

    Parameters
    ----------
    loss : Loss
    offset : array of shape (n,)
        Numbers o of all rows for which values are asked.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.losses import Poisson
    >>> from mercer.losses.offset import Offset
    >>> Offset(Poisson(), np.log([1.0, 2.0])).gradient(np.zeros(2), np.array([1.0, 1.0]))
    array([0., 1.])
    """

    loss: Loss
    offset: NDArray

    def __post_init__(self) -> None:
        for name in (*_SHARED, "lipschitz"):
            object.__setattr__(self, name, getattr(self.loss, name))

    @property
    def of_rows(self) -> bool:
        return True

    def among(self, rows: Any) -> Loss:
        return replace(self, offset=self.offset[rows])

    def _of(self, u: NDArray) -> NDArray:
        return u + self._like(u)

    def _like(self, u: NDArray) -> NDArray:
        return self.offset.astype(u.dtype).reshape(-1, *(1,) * (u.ndim - 1))

    def value(self, u: NDArray, y: NDArray) -> NDArray:
        return self.loss.value(self._of(u), y)

    def gradient(self, u: NDArray, y: NDArray) -> NDArray:
        return self.loss.gradient(self._of(u), y)

    def hessian(self, u: NDArray, y: NDArray) -> NDArray:
        return self.loss.hessian(self._of(u), y)

    def conjugate(self, a: NDArray, y: NDArray) -> NDArray | None:
        conjugate = self.loss.conjugate(a, y)
        return None if conjugate is None else conjugate - a * self._like(a)

    def model_curvature(self, u: NDArray, y: NDArray) -> NDArray:
        return self.loss.model_curvature(self._of(u), y)

    def start(self, y: NDArray, mean: Callable[[NDArray], NDArray]) -> NDArray:
        return self.loss.start(y, mean)

    def unit(self, y: NDArray, mean: Callable[[NDArray], NDArray]) -> float:
        return self.loss.unit(y, mean)

    def smoothed(self, width: float) -> Loss:
        return replace(self, loss=self.loss.smoothed(width))

    @property
    def surrogate(self) -> Loss | None:
        easier = self.loss.surrogate
        return None if easier is None else replace(self, loss=easier)

    def balance(self, a: NDArray, y: NDArray, mean: Callable[[NDArray], NDArray]) -> NDArray:
        return self.loss.balance(a, y, mean)

    def check_target(self, y: NDArray) -> None:
        self.loss.check_target(y)
