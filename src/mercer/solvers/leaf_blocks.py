"""An approximate inverse of a kernel machine's matrix: exact within leaves, of low rank beyond."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from mercer import _core
from mercer._runtime.arrays import available_memory, check_memory, n_threads
from mercer._runtime.pages import lent
from mercer._runtime.threads import inverse_in_place, side_by_side
from mercer.designs import KernelColumns
from mercer.designs.kernel_rows import times
from mercer.maps.partition import grown
from mercer.solvers.low_rank import MEMORY_SHARE, kernel_blocks

__all__ = ["LeafBlocks", "in_leaves", "suits_leaves"]

_LEAF = 320  # most rows of a leaf: inverses of all leaves take as long as a few products with K
# Shift, relative to the diagonal, above which leaves cost more than they save, as there are few
# iterations: 8 instead of 12 at .3 (covtype), 12 instead of 31 at .03 (ijcnn1, 20 000 rows).
_MOST_SHIFT = 0.05
_LEAST_SHIFT = 1e-6  # shift per row of a leaf below which a float32 inverse may be indefinite


class LeafBlocks:
    """(FᵀF + B + shift I)⁻¹ where B is what FᵀF leaves of K between rows of the same leaf.

    A kernel is smooth far away, where a low rank has it, and rough nearby, where rows share a leaf.
    B is positive semi-definite as a Schur complement has blocks that are. With A, the inverse of B
    + shift I, this is A − A Fᵀ (I + F A Fᵀ)⁻¹ F A.

    ``factor`` F (rank, n) is that of a pivoted Cholesky factorisation of K; ``leaf_of`` (n,)
    numbers leaves from 0 on, some perhaps empty; ``block`` maps numbers of rows to their square of
    K. A LinAlgError if rounding leaves a block that is not positive definite.

    Snelson and Ghahramani (2007), Local and global sparse Gaussian process approximations. Cutajar,
    Osborne, Cunningham and Filippone (2016), Preconditioning kernel matrices.
    """

    def __init__(
        self,
        factor: NDArray,
        leaf_of: NDArray[np.int64],
        block: Callable[[NDArray[np.int64]], NDArray],
        shift: float,
        n_jobs: int | None = None,
    ):
        sizes = np.bincount(leaf_of)
        ends = np.cumsum(sizes[sizes > 0])
        leaves = np.split(np.argsort(leaf_of, kind="stable"), ends[:-1])
        self._n_threads = n_threads(n_jobs)
        count, side, rank = len(leaves), max(map(len, leaves)), len(factor)
        # Every leaf has as many places as the largest; those that are left over are of no row.
        self._places = np.empty(len(leaf_of), dtype=np.int64)
        for leaf, rows in enumerate(leaves):
            self._places[rows] = leaf * side + np.arange(len(rows))
        self._factor = lent((rank, count * side), np.float32)
        self._factor[...] = 0.0
        self._factor[:, self._places] = factor
        self._inverses = lent((count, side, side), np.float32)

        def part(leaf: int) -> NDArray[np.float32]:
            rows, columns = leaves[leaf], self._factor[:, leaf * side : (leaf + 1) * side]
            inverse = self._inverses[leaf]
            inverse[...] = 0.0
            inverse[: len(rows), : len(rows)] = block(rows)
            inverse -= columns.T @ columns
            diagonal = inverse.reshape(-1)[:: side + 1]
            diagonal[: len(rows)] += shift
            diagonal[len(rows) :] = 1.0
            if not inverse_in_place(inverse):
                raise linalg.LinAlgError(
                    "the matrix is not positive definite to the limit of float32."
                )
            return columns @ (inverse @ columns.T)

        inner = np.eye(rank)
        for term in side_by_side(part, range(count), n_jobs):
            inner += term
        self._inner = linalg.cho_factor(0.5 * (inner + inner.T), lower=True, check_finite=False)

    def __call__(self, v: NDArray[np.float64]) -> NDArray[np.float64]:
        """The inverse times v (n, C)."""
        padded = np.zeros((self._factor.shape[1], v.shape[1]))
        padded[self._places] = v
        local = self._solved(padded)
        far = linalg.cho_solve(self._inner, times(self._factor, local), check_finite=False)
        local -= self._solved(times(self._factor.T, far))
        return local[self._places]

    def _solved(self, v: NDArray[np.float64]) -> NDArray[np.float64]:
        """A v."""
        count, side, _ = self._inverses.shape
        weights = np.ascontiguousarray(v.reshape(count, side, -1).transpose(0, 2, 1))
        out = np.zeros((count, side, v.shape[1]))
        _core.held_blocks(self._inverses, weights, out, self._n_threads)
        return out.reshape(v.shape)


def suits_leaves(
    design: KernelColumns,
    factor: NDArray,
    root: NDArray[np.float64] | None,
    alphas: list[float],
) -> bool:
    """Whether leaves pay, for one strength, may be inverted in float32, and fit in memory."""
    weights = np.ones(1) if root is None else root**2
    diagonal = design.diagonal()
    least = _LEAST_SHIFT * _LEAF * weights.max() * diagonal.max(initial=0.0)
    most = _MOST_SHIFT * float(np.mean(weights * diagonal))
    available = available_memory()
    fits = available is None or _bytes_of_leaves(design, factor) <= MEMORY_SHARE * available
    is_between = bool(least <= design.shape[0] * alphas[0] <= most)
    return design.has_numbers and len(alphas) == 1 and is_between and fits


def in_leaves(
    design: KernelColumns,
    factor: NDArray,
    key: int,
    root: NDArray[np.float64] | None,
    shift: float,
) -> LeafBlocks:
    """The preconditioner of a factor of √S K √S and of the rows of leaves, cut by a random tree."""
    n, remedy = design.shape[0], "choose preconditioner='rpcholesky'"
    if not design.has_numbers:
        raise ValueError(f"preconditioner must not be 'leaves' for texts; {remedy}.")
    check_memory(_bytes_of_leaves(design, factor), f"the kernel within leaves of {n} rows", remedy)
    leaves = grown(design.points(), _LEAF, 1, 0.0, key, design.n_threads)[1]
    leaf_of = np.empty(n, dtype=np.int64)  # a row at a cut is in two leaves, and goes to the later
    leaf_of[leaves.order] = np.repeat(np.arange(len(leaves)), np.diff(leaves.starts))
    block = kernel_blocks(design, root, np.float32)
    return LeafBlocks(factor, leaf_of, block, shift, design.n_threads)


def _bytes_of_leaves(design: KernelColumns, factor: NDArray) -> float:
    """Bytes of rows, inverses of leaves (at least half full) and the reordered factor."""
    return 8.0 * factor.shape[1] * (_LEAF + len(factor)) + design.n_bytes_of_points
