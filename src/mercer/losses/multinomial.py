"""The loss of several responses together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from mercer.losses.base import Loss

__all__ = ["Multinomial"]

# Rounding may put the derivative of a loss this far outside the domain of its conjugate.
_SLACK = 16.0


@dataclass(frozen=True)
class Multinomial(Loss):
    """log Σ_c exp(u_c) − u_y: softmax over the outputs; y is one indicator column per class.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.losses import Multinomial
    >>> Multinomial().proba(np.log([[1.0, 1.0, 2.0]]))
    array([[0.25, 0.25, 0.5 ]])
    """

    name: ClassVar[str] = "multinomial"
    is_classification: ClassVar[bool] = True
    joint: ClassVar[bool] = True
    has_proba: ClassVar[bool] = True
    lipschitz: ClassVar[float] = 0.5

    def value(self, u: NDArray, y: NDArray) -> NDArray:
        shifted = u - u.max(axis=1, keepdims=True)
        return np.log(np.exp(shifted).sum(axis=1)) - np.einsum("ij,ij->i", y, shifted)

    def gradient(self, u: NDArray, y: NDArray) -> NDArray:
        return _softmax(u) - y

    def hessian(self, u: NDArray, y: NDArray) -> NDArray:
        p = _softmax(u)
        return p * (1 - p)

    def curvature(self, u: NDArray, y: NDArray) -> Callable[[NDArray], NDArray]:
        p = _softmax(u)
        return lambda du: p * (du - np.einsum("ij,ij->i", p, du)[:, None])

    def curvature_root(
        self, u: NDArray, y: NDArray
    ) -> tuple[NDArray, Callable[[NDArray], NDArray]]:
        root = np.sqrt(_softmax(u))  # of unit length in every row
        return root, lambda v: v - root * np.einsum("ij,ij->i", root, v)[:, None]

    def conjugate(self, a: NDArray, y: NDArray) -> NDArray:
        p = a + y
        slack = _SLACK * p.shape[1] * np.finfo(p.dtype).eps
        inside = (p.min(axis=1) >= -slack) & (np.abs(p.sum(axis=1) - 1) <= slack)
        p = np.maximum(p, 0)
        return np.where(inside, xlogy(p, p).sum(axis=1), np.inf)

    def constant(self, mean: NDArray, n_rows: int) -> NDArray:
        logs = np.log(np.maximum(mean, 0.5 / n_rows))
        return logs - logs.mean()

    def balance(self, a: NDArray, y: NDArray, mean: Callable[[NDArray], NDArray]) -> NDArray:
        # p = a + y is a distribution over the classes in every row. Mixing all of them with the
        # one distribution q that makes their mean that of y keeps them distributions; t is the
        # smallest share of q for which q is not negative.
        p = a + y
        excess = mean(a)
        mean_p = mean(p)
        t = np.max(np.divide(excess, mean_p, out=np.zeros_like(excess), where=mean_p > 0))
        if t <= 0:
            return a
        q = mean_p - excess / t
        return ((1 - t) * p + t * q - y).astype(a.dtype)

    def proba(self, u: NDArray) -> NDArray:
        return _softmax(u)

    def check_target(self, y: NDArray) -> None:
        if y.ndim != 2:
            raise ValueError(
                f"y must have one column per class for loss {self.name!r}; got shape {y.shape}."
            )
        if not (np.all((y == 0) | (y == 1)) and np.all(y.sum(axis=1) == 1)):
            raise ValueError(f"y must have one 1 and otherwise 0 in a row for loss {self.name!r}.")


def _softmax(u: NDArray) -> NDArray:
    p = np.exp(u - u.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return p
