"""Dual kernel machines: quadratic programs in as many variables as there are rows, within a box."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer._runtime.validation import positive_number

__all__ = ["BoxDual"]

_ROUNDING = 1e-8  # distance to an end of an interval in its widths that sums of moves may leave
Vector = NDArray[np.float64]
# As the core takes them: linear, lower, upper, extra, curvature, and b and sums, which move.
Arrays = tuple[Vector, Vector, Vector, Vector, Vector, Vector, Vector]


@dataclass(frozen=True)
class BoxDual:
    """Minimise ``b'Kb / 2 + sum_v (extra_v b_v**2 / 2 + linear_v b_v)`` over lower ≤ b ≤ upper.

    K is the kernel matrix of n rows, and the function found is ``f(x) = sum_i b_i k(x, x_i)``. Some
    losses have two variables for each row i, i and n + i, whose sum takes the place of b_i. An
    intercept adds the constraint that the variables sum to zero.

    It is the dual of ``|f|**2 / 2 + sum_i loss_i(f(x_i))``, and of every variable's part in it the
    conjugate is the loss, which makes duality gaps certificates.

    Attributes
    ----------
    linear, lower, upper, extra : ndarray of shape (n,) or (2n,)
    n_rows : int
        n.

    Examples
    --------
    >>> import numpy as np
    >>> dual = BoxDual.hinge(np.array([1.0, -1.0]), C=2.0)
    >>> dual.lower.tolist(), dual.upper.tolist()
    ([0.0, -2.0], [2.0, 0.0])
    >>> dual.primal(np.zeros(2), np.array([0.5, 0.5]))
    4.0
    """

    linear: Vector
    lower: Vector
    upper: Vector
    extra: Vector
    n_rows: int

    @classmethod
    def hinge(cls, y: ArrayLike, C: float | ArrayLike = 1.0) -> Self:
        """The support vector machine: loss ``C max(0, 1 - y u)``, y being ±1 and C at least 0."""
        y, C = _signs(y), _strengths(C, np.size(y))
        signed = y * C
        return cls(-y, np.minimum(signed, 0.0), np.maximum(signed, 0.0), np.zeros_like(y), len(y))

    @classmethod
    def squared_hinge(cls, y: ArrayLike, C: float | ArrayLike = 1.0) -> Self:
        """Loss ``C max(0, 1 - y u)**2``; parameters as for ``hinge``.

        A row with C = 0 keeps its variable at 0.
        """
        y, C = _signs(y), _strengths(C, np.size(y))
        end = np.where(C > 0, np.inf, 0.0)
        extra = np.divide(0.5, C, out=np.zeros_like(C), where=C > 0)
        return cls(-y, np.where(y > 0, 0.0, -end), np.where(y > 0, end, 0.0), extra, len(y))

    @classmethod
    def epsilon_insensitive(
        cls, y: ArrayLike, C: float | ArrayLike = 1.0, epsilon: float = 0.1
    ) -> Self:
        """Support vector regression: loss ``C max(0, |y - u| - epsilon)`` for C, epsilon ≥ 0."""
        y = np.asarray(y, dtype=np.float64)
        C = _strengths(C, len(y))
        if epsilon != 0:
            epsilon = positive_number(epsilon, "epsilon")
        none = np.zeros_like(y)
        return cls(
            np.concatenate([epsilon - y, -epsilon - y]),
            np.concatenate([none, -C]),
            np.concatenate([C, none]),
            np.zeros(2 * len(y)),
            len(y),
        )

    def take(self, order: NDArray[np.int64]) -> Self:
        """Problem with its rows in another order."""
        fold = len(self.linear) // self.n_rows
        order = np.concatenate([order + part * self.n_rows for part in range(fold)])
        arrays = {name: getattr(self, name)[order] for name in ("linear", "lower", "upper")}
        return replace(self, extra=self.extra[order], **arrays)

    def start(self, other: BoxDual, b: Vector) -> Vector:
        """Variables to begin with, from those ``b`` that solve a problem of other bounds.

        The ones at a bound there are at that bound here; the others stay as far as bounds allow.
        """
        start = np.where(b == other.lower, self.lower, np.where(b == other.upper, self.upper, b))
        return np.clip(np.where(np.isfinite(start), start, b), self.lower, self.upper)

    def spread(self, values: Vector) -> Vector:
        """Numbers of rows as numbers of variables."""
        return np.tile(values, len(self.linear) // self.n_rows)

    def coef(self, b: Vector) -> Vector:
        """Coefficients of the kernels, one per row."""
        return b.reshape(-1, self.n_rows).sum(axis=0)

    def slopes(self, b: Vector, sums: Vector) -> Vector:
        """Derivatives of the objective, given ``sums = K coef(b)``."""
        return self.spread(sums) + self.extra * b + self.linear

    def scores(self, b: Vector, sums: Vector) -> Vector:
        """The move of every variable by a projected gradient step of length one: 0 at the minimum.

        Without the constraint of an intercept.
        """
        return np.abs(np.clip(b - self.slopes(b, sums), self.lower, self.upper) - b)

    def violation(self, b: Vector, sums: Vector) -> float:
        """Largest violation of optimality by a pair, with the constraint of an intercept."""
        h = self.slopes(b, sums)
        least = np.min(h[b < self.upper], initial=np.inf)
        most = np.max(h[b > self.lower], initial=-np.inf)
        return max(0.0, float(most - least))

    def intercept(self, b: Vector, sums: Vector) -> float:
        """The intercept that goes with variables that sum to zero.

        The middle of those that do where every variable is at an end of its interval but for
        rounding, as where the intervals of both classes have the same sum and all are used up.
        """
        h = self.slopes(b, sums)
        width = self.upper - self.lower
        near = np.where(np.isfinite(width), _ROUNDING * width, 0.0)
        below_upper, above_lower = b < self.upper - near, b > self.lower + near
        free = below_upper & above_lower
        if free.any():
            return -float(h[free].mean())
        ends = np.min(h[below_upper], initial=np.inf), np.max(h[above_lower], initial=-np.inf)
        known = [end for end in ends if np.isfinite(end)]
        return -float(np.mean(known)) if known else 0.0

    def value(self, b: Vector, sums: Vector) -> float:
        """The objective."""
        return float(b @ (0.5 * (self.spread(sums) + self.extra * b) + self.linear))

    def primal(self, b: Vector, sums: Vector, intercept: float = 0.0) -> float:
        """``|f|**2 / 2`` and the losses: never below minus the minimum of the objective."""
        u = self.spread(sums + intercept) + self.linear
        flat = np.isfinite(self.lower) & np.isfinite(self.upper) & (self.extra == 0)
        ends = np.where(flat, self.lower, 0.0), np.where(flat, self.upper, 0.0)
        linear = np.maximum(-u * ends[0], -u * ends[1])
        steep = np.divide(-u, self.extra, out=np.zeros_like(u), where=self.extra > 0)
        best = np.clip(steep, self.lower, self.upper)
        curved = -best * (u + 0.5 * self.extra * best)
        return float(0.5 * (self.coef(b) @ sums) + np.sum(np.where(flat, linear, curved)))

    def gap(self, b: Vector, sums: Vector, intercept: float = 0.0) -> float:
        """Primal minus dual objective: both are within it of their common optimum."""
        return self.primal(b, sums, intercept) + self.value(b, sums)


def _signs(y: ArrayLike) -> Vector:
    y = np.asarray(y, dtype=np.float64)
    if not np.all(np.abs(y) == 1):
        raise ValueError(f"y must be -1 or 1; got {y[np.abs(y) != 1][0]!r}.")
    return y


def _strengths(C: float | ArrayLike, n: int) -> Vector:
    C = np.asarray(C, dtype=np.float64)
    if C.shape not in ((), (n,)) or not np.all((C >= 0) & np.isfinite(C)):
        raise ValueError(f"C must be at least 0 and finite, one number or {n} of them; got {C!r}.")
    return np.broadcast_to(C, (n,)).copy()
