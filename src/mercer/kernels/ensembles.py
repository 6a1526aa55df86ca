"""The kernel of infinitely many planes.

A random plane says +1 on one side and -1 on the other; the mean product of what it says of two
points falls in a straight line with their distance. The kernel has no scale to choose.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import betainc, gammaln

from mercer._runtime.arrays import Matrix, row_chunks
from mercer._runtime.validation import flag, matrix, positive_number
from mercer.kernels.base import Kernel, Stationary
from mercer.kernels.distances import blocks, distances, row_cost, scaled

_ROUNDING = 1e-6  # relative: float32 rows as far out as the farthest are not outside
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)


def perceptron_constant(n_inputs: int) -> float:
    """Mean of ``|t_1|`` for t uniform on the unit sphere: Γ(d/2) / (√π Γ((d+1)/2)).

    Parameters
    ----------
    n_inputs : int
        d, >= 1.

    Returns
    -------
    float
        1, 2/π, 1/2, ... and about sqrt(2 / (π d)).

    Examples
    --------
    >>> from mercer.kernels import perceptron_constant
    >>> round(perceptron_constant(3), 12)
    0.5
    """
    d = n_inputs
    return float(np.exp(gammaln(d / 2) - gammaln((d + 1) / 2)) / np.sqrt(np.pi))


@dataclass(frozen=True)
class Perceptron(Kernel):
    """Perceptron kernel: the mean product of the signs of two points on random planes.

    The planes are ``t . (x - centre) = a`` with t uniform on the unit sphere and a uniform on
    [-radius, radius]. For two points within ``radius`` of the centre the kernel is
    ``1 - c/radius * |x - y|_2`` with c of :func:`perceptron_constant`. For points farther out the
    mean over t of the distance between ``t . (x - centre)`` and ``t . (y - centre)``, both clipped
    to [-radius, radius], times 1/c, takes the place of ``|x - y|_2``.

    Parameters
    ----------
    radius : float or "max", default="max"
        Radius of the ball that the planes cut, > 0; "max" is the largest distance of a row of the
        data from the centre.
    homogeneous : bool, default=False
        Whether planes go through the origin, with uniform directions, in the space of the rows
        (x, 1). The kernel is then ``1 - 2/π * angle((x, 1), (y, 1))``, without radius and centre.
    centre : "mean" or array of shape (d,), default="mean"
        Centre of the ball; "mean" is the mean of the rows of the data.

    Attributes
    ----------
    delta : float
        Constant radius / c of Lin and Li: ``delta * kernel`` is ``delta - |x - y|_2``.

    Raises
    ------
    TypeError, ValueError
        If a parameter is no number in its range.

    Warns
    -----
    UserWarning
        If rows lie outside the ball.

    References
    ----------
    Lin and Li, Support vector machinery for infinite ensemble learning, JMLR 2008.

    Examples
    --------
    >>> from mercer.kernels import Perceptron
    >>> kernel = Perceptron().resolve([[-1.0], [1.0]])
    >>> kernel([[-1.0]], [[-1.0], [0.0], [1.0]])
    array([[ 1.,  0., -1.]])
    """

    radius: float | str = "max"
    homogeneous: bool = False
    centre: Any = "mean"
    _other_maps: ClassVar[str] = "feature_map='perceptron' or 'nystroem'"
    _why_no_widths = "it is a mean over planes, not over grids"
    diag = Stationary.diag

    def __post_init__(self) -> None:
        flag(self.homogeneous, "homogeneous")
        if isinstance(self.radius, str):
            if self.radius != "max":
                raise ValueError(f"radius must be a positive number or 'max'; got {self.radius!r}.")
        else:
            object.__setattr__(self, "radius", positive_number(self.radius, "radius"))
        if not isinstance(self.centre, str):
            object.__setattr__(self, "centre", _numbers(self.centre, "centre"))
        elif self.centre != "mean":
            raise ValueError(f"centre must be an array or 'mean'; got {self.centre!r}.")

    @property
    def is_resolved(self) -> bool:
        follows = isinstance(self.radius, str) or isinstance(self.centre, str)
        return self.homogeneous or not follows

    @property
    def delta(self) -> float:
        radius, centre = self._ball(None)
        return radius / perceptron_constant(len(centre))

    def resolve(self, X: Matrix, sample_weight: NDArray | None = None) -> Self:
        X = matrix(X, "X")
        if self.homogeneous:
            return self
        X, weights = _counted(X, sample_weight)
        centre = tuple(_mean_row(X, weights).tolist()) if self.centre == "mean" else self.centre
        radius = self.radius
        if isinstance(radius, str):
            farthest = float(_lengths(X, _per_input(centre, X.shape[1], "centre")).max())
            radius = farthest or 1.0
        resolved = replace(self, radius=radius, centre=centre)
        resolved._ball(X.shape[1])
        return resolved

    def _ball(self, n_inputs: int | None) -> tuple[float, NDArray[np.float64]]:
        if isinstance(self.radius, str) or isinstance(self.centre, str):
            raise ValueError(
                "radius and centre must be numbers here; got "
                f"{self.radius!r} and {self.centre!r}: call resolve(X) first."
            )
        return self.radius, _per_input(self.centre, n_inputs or len(self.centre), "centre")

    def _fill(self, out: NDArray, X: Matrix, Y: Matrix) -> None:
        (self._fill_angles if self.homogeneous else self._fill_distances)(out, X, Y)
        if Y is X:
            np.fill_diagonal(out, 1.0)

    def _fill_angles(self, out: NDArray, X: Matrix, Y: Matrix) -> None:
        y = _augmented(Y)
        for rows in blocks(X, Y.shape[0]):
            chords = distances("euclidean", _augmented(X[rows]), y)
            out[rows] = 1.0 - 4.0 / np.pi * np.arcsin(np.minimum(0.5 * chords, 1.0))

    def _fill_distances(self, out: NDArray, X: Matrix, Y: Matrix) -> None:
        d = X.shape[1]
        radius, centre = self._ball(d)
        scale = np.full(d, 1.0 / radius)
        y, y_lengths = scaled(Y, scale, centre), _lengths(Y, centre) / radius
        any_outside = bool((y_lengths > 1.0 + _ROUNDING).any())
        for rows in blocks(X, Y.shape[0]):
            apart = distances("euclidean", scaled(X[rows], scale, centre), y)
            x_lengths = _lengths(X[rows], centre) / radius
            any_outside |= bool((x_lengths > 1.0 + _ROUNDING).any())
            i, j = np.nonzero((x_lengths[:, None] > 1.0) | (y_lengths > 1.0))
            for part in row_chunks(len(i), 24.0 * 8.0 * len(_NODES)):
                pair = i[part], j[part]
                apart[pair] = _seen_distance(x_lengths[pair[0]], y_lengths[pair[1]], apart[pair], d)
            out[rows] = 1.0 - perceptron_constant(d) * apart
        if any_outside:
            warnings.warn(
                f"some rows are farther than radius={radius:.6g} from the centre, where planes no "
                "longer tell them apart.",
                UserWarning,
                stacklevel=3,
            )


# -- outside the ball --------------------------------------------------------------------------
#
# In units of the radius, c times the distance is the mean over t of |t.x - t.y|. Clipping turns a
# projection s of a vector of length r into clip(s). Averaged over all t but the angle phi between
# the vector and the projection of t on the plane of x and y, clip(r |t| cos phi) is proportional to
# G(r cos phi) with G(s) = s I(min(1, 1/s**2)), I being the regularised incomplete beta function at
# (1/2, d/2): the length of that projection has the distribution 1 - (1 - l**2)**(d/2 - 1). G
# increases, so that G(t.x) - G(t.y) has one sign on the half circle around x - y, and what remains
# of each vector is the integral of G from the angle that it forms with that direction.


def _seen_distance(
    x: NDArray[np.float64], y: NDArray[np.float64], apart: NDArray[np.float64], n_inputs: int
) -> NDArray[np.float64]:
    """The share that planes see of the distances ``apart`` of points x and y from the centre."""
    safe = np.where(apart > 0, apart, 1.0)
    across = (x - y) * (x + y) / safe
    x_height, y_height = 0.5 * (across + apart), 0.5 * (across - apart)
    if n_inputs == 1:
        seen = np.clip(x_height, -1.0, 1.0) - np.clip(y_height, -1.0, 1.0)
    else:
        seen = _seen_height(x, x_height, n_inputs) - _seen_height(y, y_height, n_inputs)
    return np.where(apart > 0, np.clip(seen, 0.0, apart), 0.0)


def _seen_height(
    length: NDArray[np.float64], height: NDArray[np.float64], n_inputs: int
) -> NDArray[np.float64]:
    """The height that planes see of vectors of this length over the middle of a pair: all of it
    within the ball; farther out the integral of G."""
    seen = height.copy()
    outside = np.flatnonzero(length > 1.0)
    r = length[outside]
    h = np.clip(np.abs(height[outside]), 0.0, r)
    bent = np.minimum(h, np.sqrt((r - 1.0) * (r + 1.0)))  # from here on G(s) is s
    half = 0.5 * np.arcsin(bent / r)[:, None]
    s = r[:, None] * np.cos(half * (1.0 + _NODES))
    values = s * betainc(0.5, 0.5 * n_inputs, np.minimum(1.0, s**-2.0))
    integral = half[:, 0] * (values @ _WEIGHTS) + h - bent
    seen[outside] = np.copysign(integral, height[outside])
    return seen


def _augmented(X: Matrix) -> Any:
    """The rows (x, 1) at length 1."""
    X = scaled(X, np.ones(X.shape[1]))
    one = np.ones((X.shape[0], 1))
    if sparse.issparse(X):
        X = sparse.csr_array(sparse.hstack([X, one], format="csr"))
        lengths = _lengths(X, np.zeros(X.shape[1]))
        return sparse.csr_array(sparse.diags_array(1.0 / lengths) @ X)
    X = np.hstack([X, one])
    return X / _lengths(X, np.zeros(X.shape[1]))[:, None]


def _lengths(X: Matrix, centre: NDArray[np.float64]) -> NDArray[np.float64]:
    """Distances of the rows from ``centre``."""
    ones = np.ones(X.shape[1])
    to = sparse.csr_array(centre[None]) if sparse.issparse(X) else np.zeros((1, X.shape[1]))
    out = np.empty(X.shape[0])
    for rows in blocks(X, 1):
        out[rows] = distances("euclidean", scaled(X[rows], ones, centre), to)[:, 0]
    return out


def _mean_row(X: Matrix, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(over="ignore", invalid="ignore"):
        parts = (X[rows].T @ weights[rows] for rows in row_chunks(X.shape[0], 2.0 * row_cost(X)))
        return sum(parts, np.zeros(X.shape[1])) / weights.sum()


def _counted(X: Matrix, sample_weight: NDArray | None) -> tuple[Any, NDArray[np.float64]]:
    """The rows that have a weight, and their weights."""
    if sample_weight is None:
        return X, np.ones(X.shape[0])
    weights = np.asarray(sample_weight, dtype=np.float64)
    rows = np.flatnonzero(weights)
    return (X, weights) if len(rows) == len(weights) else (X[rows], weights[rows])


def _numbers(values: Any, name: str) -> tuple[float, ...]:
    numbers = np.asarray(values)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iuf" or not np.isfinite(numbers).all():
        raise ValueError(f"{name} must be finite numbers, one per input; got {values!r}.")
    return tuple(numbers.astype(np.float64).tolist())


def _per_input(values: Any, n_inputs: int, name: str) -> NDArray[np.float64]:
    if len(values) != n_inputs:
        raise ValueError(
            f"{name} must have one entry per input; got {len(values)} for {n_inputs} inputs."
        )
    return np.asarray(values, dtype=np.float64)
