"""The kernel of rows against the rows of their leaves as a design: blocks, made when asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from mercer import _core
from mercer._runtime.arrays import Index, Matrix, check_memory, n_threads
from mercer._runtime.config import device_in_force
from mercer._runtime.devices import Device
from mercer._runtime.rows import Data, PreparedRows
from mercer._runtime.threads import side_by_side
from mercer._runtime.validation import column_indices, float_type
from mercer.designs.base import Design
from mercer.designs.kernel import KernelColumns
from mercer.designs.kernel_rows import InCore, in_core
from mercer.designs.sparse import Sparse
from mercer.kernels import Kernel

__all__ = ["FEW_ROWS", "LeafBlock", "Local"]

FEW_ROWS = 16  # rows up to which threads do not pay


@dataclass(frozen=True)
class LeafBlock:
    """The rows that a leaf answers for, and the landmarks that it answers by."""

    leaf: int
    rows: NDArray[np.int64]  # of the design, (r,)
    shares: NDArray[np.float64]  # what the answer of the leaf counts for, (r,)
    members: NDArray[np.int64]  # landmarks of the leaf, (b,)
    first: int  # column of the first of them

    @property
    def columns(self) -> slice:
        """Columns of its landmarks."""
        return slice(self.first, self.first + len(self.members))


class Local(Design):
    """Kernel values between each row and the landmarks of its leaves, and one column per leaf.

    ::

        Z = [ s_l(x) k(x, x_j) for every leaf l and landmark j of it,   s_l(x) for every leaf l ]

    where s_l(x) is the weight of leaf l at x, mostly 0. Products compute the blocks of the leaves
    one by one and store none.

    Parameters
    ----------
    X : array or CSR of shape (n, d)
        Rows of the design.
    kernel : Kernel
        Kernel with its ``gamma`` as a number.
    landmarks : array or CSR of shape (p, d)
        Rows at which the kernel is evaluated.
    blocks : sequence of LeafBlock
        Rows and landmarks of each leaf, in the order of the leaves.
    n_members : int
        Number of landmarks, summed over the leaves.
    n_leaves : int
        Number of leaves.
    n_jobs : int or None, default=None
        Number of threads of products; None means all.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.designs.local import LeafBlock, Local
    >>> from mercer.kernels import Laplacian
    >>> X, one = np.array([[0.0], [1.0]]), np.ones(1)
    >>> blocks = [LeafBlock(i, np.array([i]), one, np.array([i]), i) for i in range(2)]
    >>> Local(X, Laplacian(gamma=1.0), X, blocks, 2, 2).toarray()
    array([[1., 0., 1., 0.],
           [0., 1., 0., 1.]])
    """

    def __init__(
        self,
        X: Matrix,
        kernel: Kernel,
        landmarks: Matrix,
        blocks: Sequence[LeafBlock],
        n_members: int,
        n_leaves: int,
        n_jobs: int | None = None,
    ):
        self.X, self.kernel, self.landmarks = X, kernel, landmarks
        self.blocks = [block for block in blocks if len(block.rows)]
        self.n_members, self.n_leaves = n_members, n_leaves
        self.shape = (X.shape[0], n_members + n_leaves)
        self.dtype = np.dtype(float_type(X))
        self._n_jobs = n_jobs
        self.device = device_in_force()
        self._core = None
        if isinstance(X, np.ndarray) and isinstance(landmarks, np.ndarray):
            self._core = in_core(kernel, PreparedRows(landmarks))

    @property
    def n_threads(self) -> int:  # type: ignore[override]
        """Threads of products; a few rows need no second one."""
        return 1 if self.shape[0] <= FEW_ROWS else n_threads(self._n_jobs)

    def columns(self, block: LeafBlock) -> KernelColumns:
        """The kernel of a block's rows against its landmarks, without shares."""
        rows = self.X[block.rows]
        landmarks = self.landmarks[block.members].astype(rows.dtype, copy=False)
        return KernelColumns(rows, self.kernel, landmarks, n_jobs=1)

    def matvec(self, w: NDArray) -> NDArray:
        w = self._check(w, self.shape[1], "w")
        out = np.zeros((self.shape[0], *w.shape[1:]))
        if not self.blocks:
            return out.astype(self.dtype)
        if self.device is not None:
            return self._matvec_on(self.device, w, out).astype(self.dtype)
        alike = self.dtype == self.landmarks.dtype
        if self._core is not None and alike and self._multiplied(self._core, w, out):
            return out.astype(self.dtype)
        constants = w[self.n_members :]

        def answers(block: LeafBlock) -> NDArray:
            return self.columns(block).matvec(w[block.columns]) + constants[block.leaf]

        for block, answer in zip(self.blocks, self._of_blocks(answers), strict=True):
            out[block.rows] += (block.shares * answer.T).T
        return out.astype(self.dtype)

    def _matvec_on(self, device: Device, w: NDArray, out: NDArray[np.float64]) -> NDArray:
        """The product on a device, written to ``out``."""
        from mercer.designs.on_device.leaves import leaf_products  # which few need

        columns = w.reshape(len(w), -1)
        flat = out.reshape(len(out), -1)
        flat += leaf_products(device, self.kernel, self.X, self.landmarks, self.blocks, columns)
        for block in self.blocks:
            flat[block.rows] += block.shares[:, None] * columns[self.n_members + block.leaf]
        return out

    def _multiplied(self, core: InCore, w: NDArray, out: NDArray[np.float64]) -> bool:
        """Whether the core could add the product to ``out``; it is given the blocks' part of w."""
        name, parameter, scale = core
        sizes = [len(b.rows) for b in self.blocks]
        coef = np.concatenate([w[b.columns] for b in self.blocks]).astype(np.float64)
        constants = w[[self.n_members + b.leaf for b in self.blocks]].astype(np.float64)
        return bool(
            _core.predict_leaves(
                self.X,
                np.concatenate([b.rows for b in self.blocks]),
                np.repeat(np.arange(len(sizes)), sizes),
                np.concatenate([b.shares for b in self.blocks]),
                self.landmarks,
                np.concatenate([b.members for b in self.blocks]),
                np.cumsum([0, *(len(b.members) for b in self.blocks)]),
                name,
                parameter,
                scale,
                coef.reshape(len(coef), -1),
                constants.reshape(len(constants), -1),
                out.reshape(len(out), -1),
                self.n_threads,
            )
        )

    def rmatvec(self, v: NDArray) -> NDArray:
        v = self._check(v, self.shape[0], "v")
        out = np.zeros((self.shape[1], *v.shape[1:]), dtype=self.dtype)

        def sums(block: LeafBlock) -> tuple[NDArray, NDArray]:
            weighted = (block.shares * v[block.rows].T).T
            return self.columns(block).rmatvec(weighted), weighted.sum(axis=0)

        for block, (of_members, of_leaf) in zip(self.blocks, self._of_blocks(sums), strict=True):
            out[block.columns] = of_members
            out[self.n_members + block.leaf] = of_leaf
        return out

    def column_sqnorms(self, weights: NDArray | None = None) -> NDArray[np.float64]:
        return Sparse(self.tocsr()).column_sqnorms(weights)

    def gram(self, weights: NDArray | None = None) -> NDArray[np.float64]:
        return Sparse(self.tocsr()).gram(weights)

    def block(self, columns: ArrayLike) -> NDArray:
        wanted = column_indices(columns, self.shape[1])
        return self.tocsr()[:, wanted].toarray()

    def rows(self, index: Index) -> Local:
        chosen = np.arange(self.shape[0])[index]
        of_block = np.full(self.shape[0], -1)
        blocks = []
        for b in self.blocks:
            of_block[b.rows] = np.arange(len(b.rows))
            places = of_block[chosen]
            rows = np.flatnonzero(places >= 0)
            shares = b.shares[places[rows]]
            blocks.append(LeafBlock(b.leaf, rows, shares, b.members, b.first))
            of_block[b.rows] = -1
        sizes = self.n_members, self.n_leaves, self.n_threads
        return Local(self.X[chosen], self.kernel, self.landmarks, blocks, *sizes)

    def tocsr(self) -> sparse.csr_array:
        counts = [len(b.rows) * (len(b.members) + 1) for b in self.blocks]
        check_memory(
            (16.0 + self.dtype.itemsize) * sum(counts),
            f"a local design of {self.shape[0]} rows with {sum(counts)} entries",
            "use its products, which make the entries as they go",
        )
        parts: list[tuple[NDArray, NDArray, NDArray]] = []
        for b in self.blocks:
            of_members = np.arange(b.first, b.first + len(b.members))
            columns = np.append(of_members, self.n_members + b.leaf)
            entries = np.column_stack([self.columns(b).toarray(), np.ones(len(b.rows))])
            entries = (b.shares[:, None] * entries).astype(self.dtype)
            rows, of_rows = np.repeat(b.rows, len(columns)), np.tile(columns, len(b.rows))
            parts.append((entries.ravel(), rows, of_rows))
        if not parts:
            return sparse.csr_array(self.shape, dtype=self.dtype)
        entries, rows, columns = (np.concatenate(part) for part in zip(*parts, strict=True))
        matrix = sparse.csr_array((entries, (rows, columns)), shape=self.shape)
        matrix.sort_indices()
        return matrix

    def toarray(self) -> NDArray:
        return self.tocsr().toarray()

    def sources(self) -> list[Data]:
        return [self.X, self.landmarks]

    @property
    def nbytes(self) -> int:
        return sum(b.rows.nbytes + b.shares.nbytes for b in self.blocks)

    def _of_blocks(self, call: Callable[[LeafBlock], Any]) -> Any:
        return side_by_side(call, self.blocks, self.n_threads)
