"""The base of losses: pointwise functions of a response and a target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["Loss", "bisected", "median", "typical"]

_BISECTIONS = 60  # halvings of the range of the targets: more than float64 has digits
_FAR = 10.0  # in medians: of normal numbers, one in 10^11 is beyond
_NONE = 1e-12  # of the largest size: medians by bisection below are 0 up to rounding
_SECTIONS = 8  # parts of the range per request, a power of two: workers hold 7 numbers per row


def bisected(
    slope: Callable[[Any, Any], Any], y: Any, mean: Callable[[Any], NDArray]
) -> NDArray[np.float64]:
    """Constants u (k,), or one, where the mean of ``slope(u, y)``, increasing in u, reaches 0."""
    low, high = y.min(axis=0).astype(np.float64), y.max(axis=0).astype(np.float64)
    if hasattr(y, "repeated"):
        columns = y.repeated(_SECTIONS - 1)
        shares = np.arange(1, _SECTIONS).reshape(-1, *(1,) * np.ndim(low)) / _SECTIONS
        for _ in range(_BISECTIONS // (_SECTIONS.bit_length() - 1)):
            inner = low + (high - low) * shares
            below = mean(slope(inner.ravel(), columns)).reshape(inner.shape) < 0
            place = below.sum(axis=0)[None]
            edges = np.concatenate([low[None], inner, high[None]])
            low, high = (np.take_along_axis(edges, at, axis=0)[0] for at in (place, place + 1))
        return high
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        beyond = mean(slope(middle, y)) >= 0
        low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
    return high


def median(y: Any, mean: Callable[[Any], NDArray]) -> NDArray[np.float64]:
    """Weighted median of rows, one per column, given a function that averages over rows."""
    return bisected(lambda u, y: np.sign(u - y), y, mean)


def typical(sizes: Any, mean: Callable[[Any], NDArray]) -> NDArray[np.float64]:
    """Mean of rows of sizes >= 0, those above 10 medians counted as 10; plain for median 0."""
    middle = median(sizes, mean)
    known = middle > _NONE * sizes.max(axis=0)
    return np.asarray(mean(np.minimum(sizes, np.where(known, _FAR * middle, np.inf))))


@dataclass(frozen=True)
class Loss:
    """A pointwise loss ℓ(y, u).

    Arrays have shape (n,) or (n, k) and keep the dtype of u. A loss with ``joint = False`` treats
    every output alone; one with ``joint = True`` looks at the k outputs of a row together, and its
    ``value`` and ``conjugate`` have shape (n,).

    Attributes
    ----------
    name : str
        Name of the loss in ``loss=``.
    is_classification : bool
        Whether targets are ±1 (indicator columns for a joint loss) instead of real numbers.
    convex, quadratic, joint, has_proba : bool
        Properties of the loss: convex in u, quadratic in u, joint over the outputs of a row, and a
        model of probabilities. Solvers and estimators rely on them.
    smooth : bool
        Whether the loss has a derivative everywhere; one without has ``smoothed``.
    link : {"identity", "log"}
        Relation of the response to the mean of the target: the mean itself, or its logarithm.
    lipschitz : float
        β, the smallest bound of the second derivative's absolute value (spectral norm for a joint
        loss); infinite where there is none.
    robust : bool
        Whether the derivative is bounded, so that far targets hardly move a fit.
    residual : str
        Name of the parameter that is in units of the target; "" if the loss has none.
    parameter : float
        Shape parameter of the loss, if it has one: ``delta``, ``sigma``, ``level`` or ``power``.
    """

    name: ClassVar[str] = ""
    is_classification: ClassVar[bool] = False
    convex: ClassVar[bool] = True
    quadratic: ClassVar[bool] = False
    joint: ClassVar[bool] = False
    has_proba: ClassVar[bool] = False
    smooth: ClassVar[bool] = True
    link: ClassVar[str] = "identity"
    robust: ClassVar[bool] = False
    residual: ClassVar[str] = ""
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

    def model_curvature(self, u: NDArray, y: NDArray) -> NDArray:
        """A stand-in for the second derivative in a quadratic model that must have a minimum.

        Never negative. For a loss that is not convex it is the second derivative, at u, of a convex
        function that touches the loss there and lies nowhere below it.
        """
        return self.hessian(u, y)

    def curvature(self, u: NDArray, y: NDArray) -> Callable[[NDArray], NDArray]:
        """The linear map du → ∇²ℓ(y, u)·du, with all that depends on u alone worked out."""
        hessian = self.hessian(u, y)
        return lambda du: hessian * du

    def curvature_root(
        self, u: NDArray, y: NDArray
    ) -> tuple[NDArray, Callable[[NDArray], NDArray] | None]:
        """A scale D and a symmetric projection P within rows with D P D = ∇²ℓ(y, u), if convex.

        P is None where it is the identity, as for all losses that are not joint.
        """
        return np.sqrt(np.maximum(self.hessian(u, y), 0.0)), None

    def hessian_product(self, u: NDArray, y: NDArray, du: NDArray) -> NDArray:
        """∇²ℓ(y, u)·du."""
        return self.curvature(u, y)(du)

    def constant(self, mean: NDArray, n_rows: int) -> NDArray:
        """A good response when all rows share one, given the mean of y over ``n_rows`` rows."""
        return mean

    def start(self, y: NDArray, mean: Callable[[NDArray], NDArray]) -> NDArray:
        """The response that models begin with, given a function that averages over rows."""
        return self.constant(mean(y), len(y))

    @property
    def starts_as(self) -> Loss:
        """Loss whose ``start`` this one has: the loss that it smooths, or itself."""
        return self

    def unit(self, y: NDArray, mean: Callable[[NDArray], NDArray]) -> float:
        """Typical second derivative for these targets: default strengths of a penalty follow it.

        So the unit of y does not matter where the loss is no likelihood, whose scale means noise.
        """
        return 1.0

    @property
    def of_rows(self) -> bool:
        """Whether it is another function for every row, so that some rows need ``among``."""
        return False

    def among(self, rows: Any) -> Loss:
        """The loss of some of the rows."""
        return self

    def scaled(self, unit: float) -> Loss:
        """The loss with ``unit`` times its width; itself where it has none."""
        if not self.residual:
            return self
        return replace(self, **{self.residual: unit * getattr(self, self.residual)})

    def smoothed(self, width: float) -> Loss:
        """A smooth loss that differs from this one only near its kink, by less for less width."""
        return self

    def means(self, u: NDArray) -> NDArray:
        """Predictions of the target for responses u: the inverse of the link."""
        return u

    @property
    def surrogate(self) -> Loss | None:
        """A convex loss to begin with where this one is not; None if this one is."""
        return None

    @property
    def parameter(self) -> float:
        """Its shape, 0 where there is none."""
        return 0.0

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
