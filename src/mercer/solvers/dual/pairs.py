"""Descent along pairs of variables, for dual kernel machines with an intercept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from numpy.typing import NDArray

from mercer._runtime.arrays import Matrix
from mercer.kernels import Kernel
from mercer.solvers.dual.base import DualSolver, DualState
from mercer.solvers.dual.box import Arrays, BoxDual
from mercer.solvers.dual.rows import PairRows
from mercer.solvers.dual.working_sets import SIZE, WorkingSets

__all__ = ["PairwiseCD"]


@dataclass
class PairwiseCD(DualSolver):
    """Sequential minimal optimisation within working sets of 1024 variables.

    With an intercept the variables sum to zero, so that two move at a time: the variable that
    violates the optimality conditions most, and its best partner by a second-order model, as in
    LIBSVM. Both are variables of a working set, whose kernel matrix fits into the processor cache.
    After the set all threads compute the kernel rows of the variables that moved, add them to the
    sums, and the next set follows. Results do not depend on the number of threads or the size of
    the cache.

    With more than 1024 rows and a kernel of the C++ core, float32 kernel rows have errors of up to
    2e-5. The solver therefore recomputes the sums in float64 at the end, and repeats until the
    solution meets ``tol`` with these sums.

    Parameters
    ----------
    tol : float, default=1e-3
        Tolerance: the solver stops when no pair violates the optimality conditions by more.
    max_iter : int, default=10_000_000
        Largest number of pair updates.
    cache_size : float, default=200.0
        Size of the cache of kernel rows in megabytes; it has at least 64 rows.
    dtype : {"float32", "float64"}, default="float32"
        Type of the kernel rows. A precomputed matrix keeps its type.
    n_jobs : int or None, default=None
        Number of threads; None means all.

    References
    ----------
    Fan, Chen and Lin, Working set selection using second order information for training support
    vector machines, JMLR 2005.
    Joachims, Making large-scale SVM learning practical, in Advances in kernel methods, 1999.
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

    def _descent(self, kernel: Kernel | str, X: Matrix, starts: NDArray, cache: int) -> WorkingSets:
        single = X.shape[0] > SIZE
        return WorkingSets(PairRows(kernel, X, self.dtype, cache, self.n_jobs, single))

    def _advance(
        self,
        descent: WorkingSets,
        state: DualState,
        arrays: Arrays,
        limit: float,
        n_updates: int,
    ) -> tuple[int, int]:
        most = self.max_iter - state.n_iter
        done, made, state.kept = descent.run(arrays, state.kept, limit, n_updates, most)
        return done, made

    def _is_exact(self, descent: WorkingSets) -> bool:
        return descent.is_exact

    def _limit(self, dual: BoxDual, b: NDArray, sums: NDArray) -> float:
        return self.tol

    def _measure(self, dual: BoxDual, b: NDArray, sums: NDArray) -> float:
        return dual.violation(b, sums)
