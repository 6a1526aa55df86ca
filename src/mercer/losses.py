"""Losses: pointwise functions of a response u and a target y, with no sum over rows anywhere.

Adding one: subclass ``Loss``, write ``value``, ``gradient`` and ``hessian`` (``conjugate`` if it is
convex), and name the class in ``LOSSES``; the tests go through that table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, xlogy

from mercer._validation import name_from

__all__ = [
    "Huber",
    "Logistic",
    "Loss",
    "Multinomial",
    "SmoothHinge",
    "Squared",
    "SquaredHinge",
    "get",
    "names",
]

# Rounding may put the derivative of a loss this far outside the domain of its conjugate.
_SLACK = 16.0


@dataclass(frozen=True)
class Loss:
    """A pointwise loss ℓ(y, u).

    Arrays have shape (n,) or (n, k) and keep the dtype of u. A loss with ``joint = False`` treats
    every output alone; one with ``joint = True`` looks at the k outputs of a row together, and its
    ``value`` and ``conjugate`` have shape (n,).

    Attributes
    ----------
    name : str
        The word users say.
    is_classification : bool
        Targets are ±1 (one row per indicator for a joint loss) instead of real numbers.
    convex, quadratic, joint, has_proba : bool
        What solvers and estimators may rely on.
    lipschitz : float
        β, the smallest bound of the second derivative (spectral norm for a joint loss).
    """

    name: ClassVar[str] = ""
    is_classification: ClassVar[bool] = False
    convex: ClassVar[bool] = True
    quadratic: ClassVar[bool] = False
    joint: ClassVar[bool] = False
    has_proba: ClassVar[bool] = False
    lipschitz: ClassVar[float]

    def value(self, u: NDArray, y: NDArray) -> NDArray:
        """ℓ(y, u)."""
        raise NotImplementedError

    def gradient(self, u: NDArray, y: NDArray) -> NDArray:
        """Derivative with respect to u, in the shape of u."""
        raise NotImplementedError

    def hessian(self, u: NDArray, y: NDArray) -> NDArray:
        """Second derivative in every coordinate of u, generalised where ℓ'' jumps."""
        raise NotImplementedError

    def conjugate(self, a: NDArray, y: NDArray) -> NDArray | None:
        """sup_u (a·u − ℓ(y, u)), infinite outside its domain; None if the loss is not convex."""
        raise NotImplementedError

    def curvature(self, u: NDArray, y: NDArray) -> Callable[[NDArray], NDArray]:
        """The linear map du → ∇²ℓ(y, u)·du, with all that depends on u alone worked out."""
        hessian = self.hessian(u, y)
        return lambda du: hessian * du

    def hessian_product(self, u: NDArray, y: NDArray, du: NDArray) -> NDArray:
        """∇²ℓ(y, u)·du."""
        return self.curvature(u, y)(du)

    def constant(self, mean: NDArray, n_rows: int) -> NDArray:
        """A good response when all rows share one, given the mean of y over ``n_rows`` rows."""
        return mean

    def balance(self, a: NDArray, y: NDArray, mean: Callable[[NDArray], NDArray]) -> NDArray:
        """Derivatives moved to mean zero without leaving the domain of the conjugate.

        An unpenalised intercept confines the dual variables to mean zero. The domain is an interval
        around 0, so that shrinking the side that weighs more is always allowed.
        """
        up, down = mean(np.maximum(a, 0)), mean(np.maximum(-a, 0))
        smaller = np.minimum(up, down)
        shrink_up = np.divide(smaller, up, out=np.ones_like(up), where=up > 0)
        shrink_down = np.divide(smaller, down, out=np.ones_like(down), where=down > 0)
        return a * np.where(a > 0, shrink_up, shrink_down)

    def proba(self, u: NDArray) -> NDArray:
        """Probability of the positive class, or of every class for a joint loss."""
        raise NotImplementedError(f"loss {self.name!r} is no model of probabilities.")

    def check_target(self, y: NDArray) -> None:
        """Refuse targets that the loss does not understand."""
        if self.is_classification and not np.all(np.abs(y) == 1):
            bad = y[np.abs(y) != 1].flat[0]
            raise ValueError(f"y must be -1 or 1 for loss {self.name!r}; got {bad!r}.")


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
        Where the parabola turns into a line, in units of y; positive.
    """

    delta: float = 1.35
    name: ClassVar[str] = "huber"
    lipschitz: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.delta, Real) or isinstance(self.delta, (bool, np.bool_)):
            raise TypeError(f"delta must be a number; got {self.delta!r}.")
        if not 0 < self.delta < np.inf:
            raise ValueError(f"delta must be positive and finite; got {self.delta!r}.")
        # A Python float: a NumPy scalar would turn float32 arrays into float64 ones.
        object.__setattr__(self, "delta", float(self.delta))

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
        small = np.exp(-np.abs(u))
        return small / np.square(1 + small)

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

    def value(self, u: NDArray, y: NDArray) -> NDArray:
        short = 1 - y * u
        clipped = np.clip(short, 0, 1)
        return clipped * (short - 0.5 * clipped)

    def gradient(self, u: NDArray, y: NDArray) -> NDArray:
        return -y * np.clip(1 - y * u, 0, 1)

    def hessian(self, u: NDArray, y: NDArray) -> NDArray:
        v = y * u
        return ((v > 0) & (v < 1)).astype(u.dtype)

    def conjugate(self, a: NDArray, y: NDArray) -> NDArray:
        inside = (a * y <= 0) & (a * y >= -1)
        return np.where(inside, a * (y + 0.5 * a), np.inf)

    def constant(self, mean: NDArray, n_rows: int) -> NDArray:
        return 2 * mean / (1 + np.abs(mean))


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


LOSSES: dict[str, type[Loss]] = {
    cls.name: cls for cls in (Squared, Huber, Logistic, SquaredHinge, SmoothHinge, Multinomial)
}


def names() -> list[str]:
    """The names that ``get`` understands."""
    return list(LOSSES)


def get(loss: str | Loss) -> Loss:
    """A loss by name, or the loss itself.

    Parameters
    ----------
    loss : str or Loss
        "squared", "huber", "logistic", "squared_hinge", "smooth_hinge" or "multinomial".

    Returns
    -------
    Loss

    Raises
    ------
    ValueError
        If there is no loss of that name.

    Examples
    --------
    >>> from mercer import losses
    >>> losses.get("huber")
    Huber(delta=1.35)
    """
    if isinstance(loss, Loss):
        return loss
    return LOSSES[name_from(loss, LOSSES, "loss")]()
