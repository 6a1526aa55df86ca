"""Descent along pairs of variables, for dual kernel machines with an intercept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mercer import _core
from mercer._array import n_threads
from mercer.solvers.dual.base import DualSolver
from mercer.solvers.dual.box import BoxDual

__all__ = ["PairwiseCD"]


@dataclass
class PairwiseCD(DualSolver):
    """Sequential minimal optimisation, each step of which all threads take together.

    An intercept makes the variables sum to zero, so that two have to move at a time: the one that
    violates the conditions of optimality most, and the one with which it gains most by a second
    order model, as in LIBSVM without shrinking. Each thread makes its range of the kernel columns,
    moves its sums, and looks there for the next pair. Results do not depend on the threads beyond
    rounding.

    Parameters
    ----------
    tol : float, default=1e-3
        Stop when no pair violates the conditions of optimality by more.
    max_iter : int, default=10_000_000
        Most pairs.
    cache_size : float, default=200.0
        Megabytes for kernel columns.
    dtype : {"float32", "float64"}, default="float32"
        Of the cached kernel columns. A precomputed matrix is used as it is.
    n_jobs : int or None, default=None
        Threads; None means all.

    References
    ----------
    Fan, Chen and Lin, Working set selection using second order information for training support
    vector machines, JMLR 2005.
    Chang and Lin, LIBSVM: a library for support vector machines, ACM TIST 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> from mercer.solvers import BoxDual, PairwiseCD
    >>> x = np.linspace(-3, 3, 100)[:, None]
    >>> dual = BoxDual.epsilon_insensitive(np.sin(x[:, 0]) + 5, C=10.0, epsilon=0.05)
    >>> result = PairwiseCD().solve(dual, Gaussian(1.0), x)
    >>> bool(np.abs(result.sums + result.intercept - np.sin(x[:, 0]) - 5).max() < 0.06)
    True
    """

    name: ClassVar[str] = "pairs"
    has_intercept: ClassVar[bool] = True

    def _descent(
        self, rows: _core.KernelRows, starts: NDArray[np.int64], cache: int
    ) -> _core.PairDescent:
        return _core.PairDescent(rows, cache, n_threads(self.n_jobs))

    def _limit(self, dual: BoxDual, b: NDArray, sums: NDArray) -> float:
        return self.tol

    def _measure(self, dual: BoxDual, b: NDArray, sums: NDArray) -> float:
        return dual.violation(b, sums)
