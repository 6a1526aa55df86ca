"""Products of a convex profile that the user gives."""

from __future__ import annotations

from collections.abc import Callable as Function
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.arrays import Matrix
from mercer._runtime.random import Slot, Streams
from mercer._runtime.validation import check_function
from mercer.kernels.base import Stationary
from mercer.kernels.distances import coordinate_products

Profile = Function[[NDArray[np.float64]], NDArray[np.float64]]


@dataclass(frozen=True)
class Product(Stationary):
    """Product kernel ``prod_j profile(gamma * |x_j - y_j|)`` of a given convex profile.

    A convex profile that falls from 1 to 0 gives a positive definite kernel (Pólya). The
    distribution function of its bin widths is ``1 - profile(t) + t * derivative(t)``, which is
    inverted numerically.

    Parameters
    ----------
    profile : callable
        Function from an array of t >= 0 to an array: convex, 1 at t = 0, with limit 0. Define it at
        module level for the kernel to be pickled.
    derivative : callable
        Derivative of ``profile``, called at t > 0 only.
    gamma : float, array of shape (d,), "scale" or "median", default="scale"
        Factor of the absolute differences, > 0, as for the Laplacian.

    Raises
    ------
    ValueError
        If the profile is not convex and decreasing from 1 to 0, or the derivative is not its
        derivative, somewhere on a grid of t between 1e-6 and 1e6.

    Examples
    --------
    >>> from mercer.kernels import Product
    >>> kernel = Product(lambda t: 1 / (1 + t), lambda t: -1 / (1 + t) ** 2, gamma=1.0)
    >>> kernel([[0.0, 0.0]], [[1.0, 3.0]])
    array([[0.125]])
    """

    profile: Profile
    derivative: Profile
    gamma: Any = "scale"
    power: ClassVar[int] = 1
    metric: ClassVar[str] = "cityblock"
    is_product: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("profile", "derivative"):
            check_function(getattr(self, name), name, "distances")
        _check_convex(self.profile, self.derivative)

    def unit_widths(self, streams: Streams, n_inputs: int) -> NDArray[np.float64]:
        def distribution(t: NDArray[np.float64]) -> NDArray[np.float64]:
            with np.errstate(all="ignore"):
                return 1.0 - self.profile(t) + t * self.derivative(t)

        uniform = streams.uniform(n_inputs, Slot.WIDTH)
        return _inverse(distribution, uniform)

    def _values(self, x: Matrix, y: Matrix) -> NDArray[np.float64]:
        return coordinate_products(self.profile, x, y)


def _check_convex(profile: Profile, derivative: Profile) -> None:
    """Raise for a profile that is not convex, falling from 1 to 0 with its derivative."""
    t = np.logspace(-6, 6, 1201)
    with np.errstate(all="ignore"):
        start, values, end = (
            np.asarray(profile(np.asarray(at))) for at in (np.zeros(1), t, np.full(1, 1e30))
        )
        slopes = np.asarray(derivative(t))
    if values.shape != t.shape or slopes.shape != t.shape:
        raise ValueError("profile and derivative must return one number per number they are given.")
    if abs(start[0] - 1.0) > 1e-12:
        raise ValueError(f"profile must be 1 at 0; got {start[0]!r}.")
    if not abs(end[0]) < 0.01:
        raise ValueError(f"profile must tend to 0; got {end[0]!r} at 1e30.")
    # A function is convex with this derivative if and only if every chord's slope lies between the
    # derivatives at its two ends.
    rise, steps = np.diff(values), np.diff(t)
    slack = 1e-14 + 1e-7 * np.abs(rise)
    inside = (slopes[:-1] * steps <= rise + slack) & (rise <= slopes[1:] * steps + slack)
    inside &= slopes[1:] <= 0
    if not inside.all():
        raise ValueError(
            "profile must be convex and decreasing, and derivative its derivative; "
            f"that fails near t = {t[np.argmin(inside)]:.3g}."
        )


def _inverse(distribution: Profile, uniform: NDArray[np.float64]) -> NDArray[np.float64]:
    """``t > 0`` with ``distribution(t) = uniform``, to the last bit, jumps and tails included."""
    low, high = np.ones_like(uniform), np.ones_like(uniform)
    for _ in range(1000):  # 2**1000: no float is farther
        short = distribution(high) < uniform
        if not short.any():
            break
        high[short] *= 2.0
    for _ in range(1000):
        long = distribution(low) > uniform
        if not long.any():
            break
        low[long] *= 0.5
    np.maximum(low, high / 2.0, out=low, where=high > 1.0)
    np.minimum(high, low * 2.0, out=high, where=low < 1.0)
    for _ in range(54):  # a bracket of ratio 2 has no more bits
        middle = 0.5 * (low + high)
        below = distribution(middle) < uniform
        low = np.where(below, middle, low)
        high = np.where(below, high, middle)
    return high
