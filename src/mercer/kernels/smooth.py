"""The kernel of bins whose edges are faded out: smooth where plain binning has a kink."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainccinv, gammaincinv, gammaln

from mercer._runtime.arrays import Matrix
from mercer._runtime.random import Slot, Streams
from mercer._runtime.validation import real_number
from mercer.kernels.base import Stationary
from mercer.kernels.distances import coordinate_products
from mercer.kernels.stationary import gamma_widths

_LARGEST_SHAPE = 100.0


@dataclass(frozen=True)
class Smooth(Stationary):
    """``prod_j profile(gamma * |x_j - y_j|)``, the kernel of random bins with smooth edges.

    A point at the position s in [0, 1) of its bin has the weight ``g(s)``: g rises as a quarter of
    a sine, stays constant and falls again, and the integral of its square is 1. With bin widths
    from the gamma distribution the profile is the mean of the overlap
    ``integral g(s) g(s + t / width) ds`` over the widths. With ``taper > 0`` and ``shape > 2`` it
    is twice differentiable at 0, where kernels of plain bins have a kink.

    Parameters
    ----------
    gamma : float, array of shape (d,), "scale" or "median", default="scale"
        Factor of the absolute differences, > 0; an array has one factor per input. "scale" makes
        the kernel exp(-2) for rows that differ by the standard deviation of X in every input;
        "median" makes it exp(-1) at the median distance within a sample of X, spread evenly over
        the inputs. For the Laplacian (``taper=0, shape=2``) both equal those of
        :class:`Laplacian`.
    shape : float, default=3.0
        Shape, and mean, of the gamma distribution of the bin widths, from 1 to 100. Large shapes
        have fewer narrow bins.
    taper : float, default=0.2
        Share of a bin, from 0 to 1, over which the weight rises and falls. 0 is plain binning, with
        ``shape=2`` the Laplacian; 1 is the weight ``sqrt(2) * sin(pi * s)``. The variance of random
        features grows like ``exp(0.4 * taper * d)``: use a small taper for many inputs.

    Raises
    ------
    TypeError, ValueError
        If ``shape`` or ``taper`` is no number in its range.

    References
    ----------
    Kapralov, Nouri, Razenshteyn, Velingker and Zandieh, Scaling up kernel ridge regression via
    locality sensitive hashing, AISTATS 2020, for weighted bins.

    Examples
    --------
    >>> from mercer.kernels import Smooth
    >>> Smooth(gamma=1.0, shape=2.0, taper=1.0)([[0.0]], [[0.0], [0.1], [1.0]]).round(3)
    array([[1.   , 0.936, 0.284]])
    """

    gamma: Any = "scale"
    shape: float = 3.0
    taper: float = 0.2
    power: ClassVar[int] = 1
    metric: ClassVar[str] = "cityblock"
    is_product: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "shape", _number(self.shape, "shape", 1.0, _LARGEST_SHAPE))
        object.__setattr__(self, "taper", _number(self.taper, "taper", 0.0, 1.0))

    def unit_widths(self, streams: Streams, n_inputs: int) -> NDArray[np.float64]:
        if self.shape == 2.0:
            return gamma_widths(streams, n_inputs)  # bin for bin those of the Laplacian
        return gammaincinv(self.shape, streams.uniform(n_inputs, Slot.WIDTH))

    def _values(self, x: Matrix, y: Matrix) -> NDArray[np.float64]:
        return coordinate_products(profile_table(self.shape, self.taper), x, y)

    def _gamma_from_deviation(self, deviation: float, n_inputs: int) -> float:
        return self._reach(np.exp(-2.0 / n_inputs)) / deviation

    def _gamma_from_median(self, distance: float, n_inputs: int) -> float:
        return self._reach(np.exp(-1.0 / n_inputs)) * n_inputs / distance

    def _reach(self, value: float) -> float:
        """The distance at which the profile has fallen to ``value``."""
        return profile_table(self.shape, self.taper).inverse(value)


def _number(value: Any, name: str, least: float, most: float) -> float:
    number = real_number(value, name)
    if not least <= number <= most:
        raise ValueError(f"{name} must be between {least:g} and {most:g}; got {value!r}.")
    return number


# -- the profile -------------------------------------------------------------------------------
#
# profile(t) = integral over a of overlap(a) * density(t / a) t / a**2, a = t / width. In z = log t
# and y = -log a it is a correlation, integral of overlap(exp(-y)) q(z + y) dy with
# q(x) = density(exp(x)) exp(x), and so is its derivative by z. Both are needed at the knots only.

_KNOTS = 256  # within a factor of two: relative distance h, error of the cubics about h**4 / 16
_LOWEST = -40  # below 2**_LOWEST the profile is 1 to 1e-10
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)


class Profile:
    """A profile by cubic pieces between knots that are spaced as floating-point numbers are."""

    def __init__(self, shape: float, taper: float):
        highest = int(np.ceil(np.log2(gammainccinv(shape, 1e-14))))
        octaves = 2.0 ** np.arange(_LOWEST, highest)
        knots = (octaves[:, None] * (1.0 + np.arange(_KNOTS) / _KNOTS)).ravel()
        knots = np.append(knots, 2.0**highest)
        values, slopes = _values_and_slopes(shape, taper, knots)
        values[-1] = slopes[-1] = 0.0
        steps, rises = np.diff(knots), np.diff(values)
        start, end = slopes[:-1] * steps, slopes[1:] * steps
        cubics = np.stack(
            [
                values[:-1],
                slopes[:-1],
                (3.0 * rises - 2.0 * start - end) / steps**2,
                (start + end - 2.0 * rises) / steps**3,
            ]
        )
        # A piece before the first knot, where the profile is 1, and one after the last.
        outside = np.array([[1.0], [0.0], [0.0], [0.0]])
        self._cubics = np.ascontiguousarray(np.hstack([outside, cubics, 0.0 * outside]))
        self._knots, self._values = knots, values
        self._first = int(knots[:1].view(np.int64)[0]) >> self._shift

    _shift = 52 - int(np.log2(_KNOTS))

    def __call__(self, t: NDArray[np.float64]) -> NDArray[np.float64]:
        """The profile at t >= 0."""
        bits = np.ascontiguousarray(t).view(np.int64)
        piece = (bits >> self._shift) - (self._first - 1)
        np.clip(piece, 0, self._cubics.shape[1] - 1, out=piece)
        bits = (bits >> self._shift) << self._shift
        with np.errstate(invalid="ignore"):
            past = t - bits.view(np.float64)
        past[piece == self._cubics.shape[1] - 1] = 0.0  # infinity less itself is no number
        values = self._cubics[3].take(piece)
        for k in (2, 1, 0):
            values *= past
            values += self._cubics[k].take(piece)
        return values

    def inverse(self, value: float) -> float:
        """The argument at which the profile is ``value``, in (0, 1)."""
        return float(np.interp(-value, -self._values, self._knots))


profile_table = lru_cache(maxsize=32)(Profile)


def _values_and_slopes(
    shape: float, taper: float, t: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Profile and derivative at t > 0, by Gauss quadrature on pieces where all is smooth."""
    low, high = np.log(gammaincinv(shape, 1e-14)), np.log(gammainccinv(shape, 1e-16))
    z = np.log(t)
    # The overlap has kinks where ramps begin to meet; far from them it is smooth in y.
    ramp = taper / 2.0
    shifts = [a for a in (ramp, 1.0 - taper, 1.0 - ramp) if 0.0 < a < 1.0]
    kinks = np.array([0.0, *-np.log(shifts)])
    edges = np.union1d(kinks, np.arange(0.0, high - z[0] + 0.25, 0.25))
    half = np.diff(edges)[:, None] / 2.0
    y = (edges[:-1, None] + half * (1.0 + _NODES)).ravel()
    weights = (half * _WEIGHTS).ravel() * _overlap(np.exp(-y), taper)
    values, slopes = np.empty_like(z), np.empty_like(z)
    for start in range(0, len(z), _KNOTS):
        part = slice(start, start + _KNOTS)
        seen = slice(*np.searchsorted(y, [low - z[part][-1], high - z[part][0]]))
        x = z[part, None] + y[seen]
        width = np.exp(x)
        q = np.exp(shape * x - width - gammaln(shape))
        values[part] = q @ weights[seen]
        slopes[part] = (q * (shape - width)) @ weights[seen] / t[part]
    return values, slopes


def _overlap(shift: NDArray[np.float64], taper: float) -> NDArray[np.float64]:
    """``integral g(s) g(s + shift) ds`` for shifts in (0, 1)."""
    ramp = taper / 2.0
    last = 1.0 - shift
    breaks = np.stack(
        [
            np.zeros_like(shift),
            *(np.clip(b, 0.0, last) for b in (ramp, 1.0 - ramp, ramp - shift, 1.0 - ramp - shift)),
            last,
        ]
    )
    breaks.sort(axis=0)
    total = np.zeros_like(shift)
    for low, high in pairwise(breaks):
        half = (high - low) / 2.0
        s = low[:, None] + half[:, None] * (1.0 + _NODES)
        product = _window(s, taper) * _window(s + shift[:, None], taper)
        total += half * (product @ _WEIGHTS)
    return total


def _window(s: NDArray[np.float64], taper: float) -> NDArray[np.float64]:
    """g(s) for s in [0, 1]."""
    if taper == 0.0:
        return np.ones_like(s)
    into = np.minimum(np.minimum(s, 1.0 - s) / taper, 0.5)
    return np.sin(np.pi * into) / np.sqrt(1.0 - 0.5 * taper)
