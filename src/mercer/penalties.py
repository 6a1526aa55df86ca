"""Penalties: what the weights cost, and how far a gradient is from the optimality condition."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mercer._validation import name_from

__all__ = ["L2", "Penalty", "get", "names"]


@dataclass(frozen=True)
class Penalty:
    """Ω(w) for weights w of shape (D,) or (D, k); the intercept never gets here.

    Attributes
    ----------
    alpha : float
        Strength λ, at least 0.
    name : str
        The word users say.
    quadratic : bool
        Ω is ½ alpha ‖w‖².
    """

    alpha: float = 1.0
    name: ClassVar[str] = ""
    quadratic: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not isinstance(self.alpha, Real) or isinstance(self.alpha, (bool, np.bool_)):
            raise TypeError(f"alpha must be a number; got {self.alpha!r}.")
        if not 0 <= self.alpha < np.inf:
            raise ValueError(f"alpha must be at least 0 and finite; got {self.alpha!r}.")
        # A Python float: a NumPy scalar would turn float32 arrays into float64 ones.
        object.__setattr__(self, "alpha", float(self.alpha))

    def value(self, w: NDArray) -> NDArray:
        """Ω of every output, of shape () or (k,), in float64."""
        raise NotImplementedError

    def gradient(self, w: NDArray) -> NDArray:
        """∇Ω(w) in the shape and dtype of w."""
        raise NotImplementedError

    def prox(self, v: NDArray, step: float) -> NDArray:
        """argmin_x ½‖x − v‖² + step·Ω(x)."""
        raise NotImplementedError

    def violation(self, w: NDArray, gradient: NDArray) -> NDArray:
        """Distance of −gradient (that of the loss part) to ∂Ω(w), coordinate by coordinate."""
        raise NotImplementedError

    def alpha_max(self, gradient: NDArray) -> float:
        """Smallest alpha at which w = 0 is optimal, given the gradient of the loss part there."""
        raise NotImplementedError


@dataclass(frozen=True)
class L2(Penalty):
    """(alpha/2) ‖w‖².

    Parameters
    ----------
    alpha : float, default=1.0
        At least 0.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.penalties import L2
    >>> L2(alpha=2.0).prox(np.array([3.0]), step=1.0)
    array([1.])
    """

    name: ClassVar[str] = "l2"
    quadratic: ClassVar[bool] = True

    def value(self, w: NDArray) -> NDArray:
        return 0.5 * self.alpha * np.einsum("i...,i...->...", w, w, dtype=np.float64)

    def gradient(self, w: NDArray) -> NDArray:
        return self.alpha * w

    def prox(self, v: NDArray, step: float) -> NDArray:
        return v / (1.0 + step * self.alpha)

    def violation(self, w: NDArray, gradient: NDArray) -> NDArray:
        return np.abs(gradient + self.alpha * w)

    def alpha_max(self, gradient: NDArray) -> float:
        return np.inf if np.any(gradient) else 0.0


PENALTIES: dict[str, type[Penalty]] = {L2.name: L2}


def names() -> list[str]:
    """The names that ``get`` understands."""
    return list(PENALTIES)


def get(penalty: str | Penalty, alpha: float = 1.0) -> Penalty:
    """A penalty by name and strength, or the penalty itself.

    Parameters
    ----------
    penalty : {"l2"} or Penalty
        A penalty object has its own alpha.
    alpha : float, default=1.0
        Strength of a penalty given by name, at least 0.

    Returns
    -------
    Penalty

    Raises
    ------
    ValueError
        If there is no penalty of that name, or alpha is negative or not finite.

    Examples
    --------
    >>> from mercer import penalties
    >>> penalties.get("l2", alpha=0.5)
    L2(alpha=0.5)
    """
    if isinstance(penalty, Penalty):
        return penalty
    return PENALTIES[name_from(penalty, PENALTIES, "penalty")](alpha)
