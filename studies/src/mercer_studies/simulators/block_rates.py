"""Rates of block coordinate descent on a quadratic, from its Hessian alone.

A step minimises f over b of its d coordinates, drawn at random. Tu, Roelofs, Venkataraman and Recht
(2016) bound the steps by what the largest eigenvalue of a *random* b x b block of the Hessian can
be, in place of the largest over all blocks. The bounds hold for every quadratic; what is seen on
the systems of kernel machines is far faster.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from mercer._runtime.arrays import check_memory
from mercer._runtime.random import key_from
from mercer._runtime.validation import positive_integer
from mercer.equations import equations
from mercer.problem import Problem

_ENUMERATED = 5000  # blocks that are all looked at
_DRAWN = 32  # of more than that
_SYMMETRIC = 1e-8  # largest difference of mirrored entries, relative to the largest entry


def restricted_lipschitz(hessian: ArrayLike, blocks: Iterable[ArrayLike]) -> float:
    """The largest eigenvalue of the blocks of a Hessian.

    ``hessian``: shape (d, d), symmetric and positive semidefinite; ``blocks``: coordinates of each
    block; at least one block, none of them empty. max over I of L_I = λ_max(H[I, I]); never above
    λ_max(H). Tu et al. (2016), section 4.
    """
    H = _checked(hessian)
    found = [_largest(H[np.ix_(J, J)]) for J in map(np.asarray, blocks) if J.size]
    if not found:
        raise ValueError("blocks must hold at least one block that is not empty; got none.")
    return max(found)


def effective_lipschitz(largest: float, largest_diagonal: float, size: int, block_size: int) -> Any:
    """L_eff = e² L + d ln(2 d² / b) / b · max H_ii, for blocks drawn at random.

    ``largest``: L, the largest eigenvalue of the Hessian, > 0; ``largest_diagonal``: its largest
    diagonal entry, > 0 and at most L; ``size``, ``block_size``: d, and b from 1 to d. Tu et al.
    (2016), theorem 4.1.
    """
    size, block_size = _sizes(size, block_size)
    for value, name in ((largest, "largest"), (largest_diagonal, "largest_diagonal")):
        if not 0 < value < np.inf:
            raise ValueError(f"{name} must be above 0 and finite; got {value!r}.")
    if largest_diagonal > largest * (1 + 1e-9):
        raise ValueError(
            f"largest_diagonal must be at most largest, {largest!r}; got {largest_diagonal!r}."
        )
    tail = size * np.log(2 * size**2 / block_size) / block_size
    return float(np.exp(2.0) * largest + tail * largest_diagonal)


@dataclass(frozen=True)
class BlockRates:
    """Constants and bounds of block coordinate descent on one quadratic.

    ``size``, ``block_size``: d and b; ``smallest``, ``largest``: m and L, the extreme eigenvalues
    of the Hessian; ``restricted``: L_max,b, the largest eigenvalue of any b x b block; if not
    ``exact``, of those looked at. ``condition``: L / m; infinite for a singular Hessian;
    ``effective``: L_eff of theorem 4.1; ``crossover``: block size d ln d · max H_ii / L from which
    L alone decides, up to constants.

    >>> import numpy as np
    >>> rates = block_rates(np.diag([1.0, 2.0, 4.0]), block_size=1)
    >>> rates.condition, rates.restricted
    (4.0, 4.0)
    """

    size: int
    block_size: int
    smallest: float
    largest: float
    largest_diagonal: float  # max H_ii
    restricted: float
    exact: bool  # whether all blocks were looked at

    @property
    def condition(self) -> float:
        return self.largest / self.smallest if self.smallest > 0 else float("inf")

    @property
    def effective(self) -> float:
        return effective_lipschitz(self.largest, self.largest_diagonal, self.size, self.block_size)

    @property
    def crossover(self) -> float:
        return self.size * float(np.log(self.size)) * self.largest_diagonal / self.largest

    def factor(self, old: bool = False) -> float:
        """Largest share of E f - f* after a step: 1 - m / (2 L_eff).

        ``old``: 1 - b m / (d L_max,b) instead, which was known before; on small problems it is the
        better of the two.
        """
        return 1.0 - self._share(old)

    def bound(self, steps: ArrayLike, old: bool = False) -> NDArray[np.float64]:
        """Upper bound of (E f(w) - f*) / (f(w0) - f*) after so many steps.

        ``steps``: τ >= 0.
        """
        return np.exp(np.asarray(steps, dtype=np.float64) * self._logarithm(old))

    def epochs(self, reduction: float, old: bool = False) -> float:
        """Epochs of d / b steps after which the bound is at most ``reduction``.

        ``reduction``: in the open interval (0, 1). Infinite for a singular Hessian.
        """
        if not 0 < reduction < 1:
            raise ValueError(f"reduction must be between 0 and 1; got {reduction!r}.")
        if self.smallest == 0:
            return float("inf")
        return float(np.log(reduction) / self._logarithm(old) * self.block_size / self.size)

    def _share(self, old: bool) -> float:
        """Least share of E f - f* that a step removes."""
        if old:
            return self.block_size * self.smallest / (self.size * self.restricted)
        return self.smallest / (2.0 * self.effective)

    def _logarithm(self, old: bool) -> float:
        # A step may take off less than a rounding error of 1; or all, where less is still a bound.
        return float(np.log1p(-min(self._share(old), 1 - 1e-15)))

    def summary(self) -> str:
        """The figures as a few lines of text."""
        known = "" if self.exact else "at least "
        return "\n".join(
            [
                f"{self.size} unknowns in blocks of {self.block_size}",
                f"eigenvalues from {self.smallest:.3g} to {self.largest:.3g}: "
                f"condition number {self.condition:.3g}",
                f"of blocks: {known}{self.restricted:.3g}; effective constant "
                f"{self.effective:.3g}; the largest eigenvalue decides from blocks of about "
                f"{self.crossover:.0f} on",
                f"a tenth of the error is left after at most {self.epochs(0.1):.3g} epochs",
            ]
        )

    def __str__(self) -> str:
        return self.summary()


def block_rates(hessian: ArrayLike, block_size: int, random_state: Any = 0) -> BlockRates:
    """The constants of a quadratic that rates of block coordinate descent depend on.

    ``hessian``: shape (d, d), symmetric and positive semidefinite; ``block_size``: b, from 1 to d;
    ``random_state``: where there are more than 5000 blocks, L_max,b is taken over some drawn at
    random and the one of the largest diagonal entries: a lower bound. Tu et al. (2016), section
    4.1.
    """
    H = _checked(hessian)
    size, block_size = _sizes(len(H), block_size)
    eigenvalues = linalg.eigvalsh(H)
    exact = comb(size, block_size) <= _ENUMERATED
    if exact:
        blocks: Iterable[Any] = combinations(range(size), block_size)
    else:
        rng = np.random.default_rng(key_from(random_state))
        drawn = (rng.choice(size, block_size, replace=False) for _ in range(_DRAWN))
        blocks = [np.argsort(H.diagonal())[-block_size:], *drawn]
    return BlockRates(
        size,
        block_size,
        max(0.0, float(eigenvalues[0])),
        float(eigenvalues[-1]),
        float(H.diagonal().max()),
        max(_largest(H[np.ix_(J, J)]) for J in map(np.asarray, blocks)),
        exact,
    )


def hessian_of(problem: Problem) -> NDArray[np.float64]:
    """The matrix of the linear equations that block coordinate descent works on.

    K + n alpha S⁻¹ for the kernel machine of all rows, (1/n) Zᵀ S Z + alpha P for any other design,
    where P is the identity or the kernel matrix of the landmarks and its jitter. It takes a product
    with as many columns as there are unknowns. ``problem``: with a quadratic loss and L2 or
    RKHSNorm. Returns shape (d, d), float64.
    """
    system = equations(problem)
    size = system.shape[0]
    check_memory(32.0 * size**2, f"the equations of {size} unknowns", "take fewer features")
    H = system.product(np.eye(size), columns=np.zeros(size, dtype=int))
    return 0.5 * (H + H.T)


def _checked(hessian: ArrayLike) -> NDArray[np.float64]:
    H = np.asarray(hessian, dtype=np.float64)
    if H.ndim != 2 or H.shape[0] != H.shape[1] or not H.size:
        raise ValueError(f"hessian must be a square matrix; got shape {H.shape}.")
    if not np.all(np.isfinite(H)):
        raise ValueError("hessian must be finite; it holds NaN or infinity.")
    if np.abs(H - H.T).max() > _SYMMETRIC * np.abs(H).max():
        raise ValueError("hessian must be symmetric; mirrored entries differ.")
    return H


def _sizes(size: int, block_size: int) -> tuple[int, int]:
    size = positive_integer(size, "size")
    block_size = positive_integer(block_size, "block_size")
    if block_size > size:
        raise ValueError(f"block_size must be at most the size, {size}; got {block_size}.")
    return size, block_size


def _largest(H: NDArray) -> float:
    last = len(H) - 1
    return float(linalg.eigvalsh(H, subset_by_index=(last, last))[0])
