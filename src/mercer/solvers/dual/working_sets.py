"""Descent along pairs within sets of variables whose kernel matrix stays in the caches."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mercer import _core
from mercer.solvers.dual.box import Arrays
from mercer.solvers.dual.rows import PairRows

__all__ = ["SIZE", "WorkingSets"]

SIZE = 1024  # variables of a working set
_INNER = 0.1  # violation at which work on a set ends, as a share of the initial one
_LONGEST = 20_000  # most pair updates per working set
_UNROUNDED = 0.9  # share of the tolerance for rounded rows; the rest is for their error


class WorkingSets:
    """Minimises over one set of variables after another, by sequential minimal optimisation.

    A set is half the variables that violate the conditions of optimality most, as many that want to
    grow as that want to shrink, and half those that came last to the set before. Of the kernel
    matrix a set takes its block, and of the variables that have moved in it the rows.
    """

    def __init__(self, rows: PairRows):
        self._rows = rows
        self._members = np.empty(0, dtype=np.int64)
        self._block = np.empty((0, 0))

    @property
    def is_exact(self) -> bool:
        """True if sums are the kernel's, but for the rounding of rows to their dtype."""
        return self._rows.exact

    def run(
        self, problem: Arrays, kept: NDArray[np.int64], tol: float, enough: int, most: int
    ) -> tuple[int, int, NDArray[np.int64]]:
        """Move the variables until no pair violates optimality by more than ``tol``.

        ``problem`` holds the arrays of ``_core.descend_pairs``, linear, lower, upper, extra,
        curvature, and b and sums, which are moved. ``kept`` are variables of an earlier set to
        begin with; any may be left out. After ``enough`` pairs no other set begins; after ``most``
        a set is left. Return the counts of pairs and of kernel rows made, and ``kept`` for the next
        run.
        """
        made, done = self._rows.n_made, 0
        tol *= 1.0 if self._rows.exact else _UNROUNDED
        while done < min(enough, most):
            violation, chosen = _choose(problem, kept)
            if not violation > tol:
                break
            is_whole = len(chosen) == len(problem[-2])  # whose block is kept from run to run
            longest = min(most, enough) - done if is_whole else min(most - done, _LONGEST)
            updates = self._minimise(problem, chosen, tol, longest)
            done += updates
            kept = chosen[-(SIZE // 2) :]
            if updates == 0:
                break
        return done, self._rows.n_made - made, kept

    def _minimise(self, problem: Arrays, chosen: NDArray[np.int64], tol: float, most: int) -> int:
        *bounds, b, sums = problem
        n, members = len(sums), chosen % len(sums)
        if not np.array_equal(members, self._members):
            self._members, self._block = members, self._rows.block(members)
        linear, lower, upper, extra, curvature = (array[chosen] for array in bounds)
        moved, moved_sums = b[chosen], sums[members]
        local = linear, lower, upper, extra, curvature, moved, moved_sums
        is_whole = len(chosen) == len(b)
        if not is_whole:
            tol = max(0.5 * tol, _INNER * _violation(local))
        updates, _ = _core.descend_pairs(self._block, *local, tol, most)
        steps = moved - b[chosen]
        b[chosen] = moved
        if is_whole:
            sums[:] = moved_sums[:n]
        else:
            some = np.flatnonzero(steps)
            self._rows.add(members[some], steps[some], sums)
        return int(updates)


def _slopes(problem: Arrays) -> tuple[NDArray, NDArray]:
    """Slopes of variables that may grow, and minus those of ones that may shrink; others inf."""
    linear, lower, upper, extra, _, b, sums = problem
    h = np.tile(sums, len(b) // len(sums)) + extra * b + linear
    return np.where(b < upper, h, np.inf), np.where(b > lower, -h, np.inf)


def _violation(problem: Arrays) -> float:
    return -float(sum(np.min(slopes, initial=np.inf) for slopes in _slopes(problem)))


def _choose(problem: Arrays, kept: NDArray[np.int64]) -> tuple[float, NDArray[np.int64]]:
    """Largest violation of optimality by a pair, and the variables of the next set."""
    grow, shrink = _slopes(problem)
    least, most = grow.min(), -shrink.min()
    if len(grow) <= SIZE:
        return most - least, np.arange(len(grow))
    grow[grow >= most] = np.inf
    shrink[shrink >= -least] = np.inf
    grow[kept] = shrink[kept] = np.inf
    room = SIZE - len(kept)
    growing = _smallest(grow, room // 2)
    shrink[growing] = np.inf
    return most - least, np.concatenate([kept, growing, _smallest(shrink, room - len(growing))])


def _smallest(values: NDArray, count: int) -> NDArray[np.int64]:
    """Places of the smallest finite numbers; of equal ones some that are far apart."""
    count = min(count, int(np.isfinite(values).sum()))
    if count == 0:
        return np.empty(0, dtype=np.int64)
    last = np.partition(values, count - 1)[count - 1]
    below, equal = np.flatnonzero(values < last), np.flatnonzero(values == last)
    count -= len(below)
    return np.concatenate([below, equal[np.arange(count) * len(equal) // count]])
