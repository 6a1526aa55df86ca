"""The kernel within the leaves of random trees: features of local kernel machines."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy import sparse

from mercer._runtime.arrays import Matrix, check_memory, n_threads
from mercer._runtime.random import RandomStateLike
from mercer._runtime.rows import Data
from mercer._runtime.state import State
from mercer._runtime.validation import positive_integer, real_number
from mercer.designs import Design
from mercer.designs.local import FEW_ROWS, LeafBlock, Local
from mercer.maps.base import FeatureMap
from mercer.maps.partition import Members, Partition, expected_growth, grown, usual_overlap

__all__ = ["LocalKernel"]

_MOST_OVERLAP = 0.25  # largest share of the rows on each side of a cut in both sides
_MOST_TREES = 1000  # most trees: further trees do not change the mean noticeably


@dataclass(eq=False, repr=False)
class LocalKernel(FeatureMap):
    """Kernel values between a row and the training rows of its leaf, and one constant per leaf.

    A tree cuts the rows in two at the median of a projection to a random direction, and again until
    a leaf has at most ``leaf_size`` rows. The features of x are k(x, x_j) for the rows x_j of its
    leaf, 0 for all other rows, and 1 for the leaf itself. Each leaf thus has its own kernel
    machine, and time grows with the number of rows, not with its square. Near a cut the features
    belong to both sides, with weights that change linearly, so that responses are continuous.
    Responses are means over the trees.

    :class:`mercer.LocalKernelRegressor` and :class:`mercer.LocalKernelClassifier` fit the leaves
    one by one.

    Parameters
    ----------
    kernel : {"laplacian", "gaussian", "exponential", "cauchy", "matern"}, Kernel or callable, \
default="laplacian"
        Kernel on rows of numbers.
    gamma : float, array of shape (d,), "scale" or "median", default="scale"
        Factor of the distance in the kernel, > 0.
    leaf_size : int, default=1000
        Largest number of rows in a leaf, >= 2. The time of a fit grows with it.
    n_trees : int, default=4
        Number of trees that are averaged, from 1 to 1000.
    overlap : float or None, default=None
        Share of the rows of a node, on each side of its cut, that belong to both sides; from 0 to
        0.25. None means 0.05, or less if the leaves of a tree would have more than 1.6 times the
        rows of the data.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the directions of the cuts.
    n_jobs : int or None, default=None
        Number of threads; None means all.

    Attributes
    ----------
    landmarks_ : array or CSR of shape (n, d)
        Training rows, not copied.
    partition_ : Partition
        Cuts of the trees.
    members_ : Members
        Training rows of each leaf.
    n_features_out_ : int
        Number of columns: the rows of all leaves plus the number of leaves.
    kernel_ : Kernel
        Fitted kernel, with its ``gamma`` as a number.

    Raises
    ------
    ValueError, TypeError
        At ``fit``, if a parameter is invalid.

    References
    ----------
    Thomann, Blaschzyk, Meister and Steinwart, Spatial decompositions for large scale SVMs,
    AISTATS 2017. Dasgupta and Freund, Random projection trees and low dimensional manifolds, STOC
    2008.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.maps import LocalKernel
    >>> X = np.arange(8.0)[:, None]
    >>> map_ = LocalKernel(gamma=1.0, leaf_size=4, n_trees=1, overlap=0.0, random_state=0).fit(X)
    >>> map_.transform(X).shape
    (8, 10)
    """

    default_kernel: ClassVar[str] = "laplacian"
    _fitted_by: ClassVar[str] = "landmarks_"
    kernel: Any = "laplacian"
    gamma: float | ArrayLike | str = "scale"
    leaf_size: int = 1000
    n_trees: int = 4
    overlap: float | None = None
    _: KW_ONLY
    random_state: RandomStateLike = None
    n_jobs: int | None = None
    landmarks_: Any = field(init=False)
    partition_: Partition = field(init=False)
    members_: Members = field(init=False)

    @property
    def _number_setting(self) -> str | None:
        return "leaf_size"

    @property
    def n_features_out_(self) -> int:  # type: ignore[override]
        return len(self.members_.order) + len(self.members_)

    def with_trees(self, count: int) -> LocalKernel:
        """A fitted copy with the first ``count`` trees alone, at least 1."""
        trees = len(self.partition_.roots)
        if positive_integer(count, "count") > trees:
            raise ValueError(f"count must be at most the number of trees, {trees}; got {count}.")
        other = LocalKernel(**self.get_params())
        other.__dict__.update(vars(self))
        other.partition_ = self.partition_.first_trees(count)
        starts = self.members_.starts[: other.partition_.n_leaves + 1]
        other.members_ = Members(self.members_.order[: starts[-1]], starts)
        return other

    def fitted_to(self, landmarks: Matrix, partition: Partition, members: Members) -> LocalKernel:
        """A fitted copy whose trees were grown elsewhere, from ``fix_key()`` and their numbers."""
        other = LocalKernel(**self.get_params())
        other.key_, other.n_features_in_ = self.fix_key(), landmarks.shape[1]
        other.kernel_ = self.stated_kernel()
        other.landmarks_, other.partition_, other.members_ = landmarks, partition, members
        return other

    def bytes_per_row(self, dtype: DTypeLike) -> float:
        # Leaves that a row lies in are few, and blocks are made in tiles.
        leaves = 4.0 * len(self.partition_.roots)
        return 2.0 * np.dtype(dtype).itemsize * self.n_features_in_ + 32.0 * leaves

    def _check_state(self) -> None:
        state = State(self)
        kernel = self._check_kernel()
        state.check("kernel_", "be one of rows of numbers", not kernel.takes_text)
        d = state.integer("n_features_in_", 1)
        n = state.rows("landmarks_", d).shape[0]
        partition: Partition = state.instance("partition_", Partition)
        partition.check(d)
        members = State(state.instance("members_", Members))
        order = members.array("order", (None,), "l", 0, n - 1)
        starts = members.array("starts", (partition.n_leaves + 1,), "l", 0, len(order))
        rises = np.all(np.diff(starts) > 0)
        whole = starts[0] == 0 and starts[-1] == len(order) and rises
        members.check("starts", "divide the rows of the leaves", whole)

    def expected_members(self, n: int) -> float:
        """About how many rows the leaves of all trees would have together, fitted to n rows."""
        leaf_size, n_trees, overlap = self.tree_settings(n)
        return n * n_trees * expected_growth(n, leaf_size, overlap)

    def tree_settings(self, n: int) -> tuple[int, int, float]:
        """Size of the leaves, number of the trees and overlap for n rows, if they make sense."""
        leaf_size = positive_integer(self.leaf_size, "leaf_size")
        if leaf_size < 2:
            raise ValueError(f"leaf_size must be at least 2; got {self.leaf_size!r}.")
        n_trees = positive_integer(self.n_trees, "n_trees")
        if n_trees > _MOST_TREES:
            raise ValueError(f"n_trees must be at most {_MOST_TREES}; got {self.n_trees!r}.")
        if self.overlap is None:
            return leaf_size, n_trees, usual_overlap(n, leaf_size)
        overlap = real_number(self.overlap, "overlap")
        if not 0 <= overlap <= _MOST_OVERLAP:
            raise ValueError(f"overlap must be from 0 to {_MOST_OVERLAP}; got {self.overlap!r}.")
        return leaf_size, n_trees, overlap

    def _checked(self, X: Any, reset: bool) -> Matrix:
        if reset:
            self.check_kernel()
        return super()._checked(X, reset)

    def check_kernel(self) -> None:
        """Refuse a kernel of texts, which no projection cuts."""
        if self.stated_kernel().takes_text:
            raise ValueError(f"kernel must be one of rows of numbers; got {self.kernel!r}.")

    def _fit(self, X: Data) -> None:
        n_threads(self.n_jobs)
        shape = self.tree_settings(X.shape[0])
        check_memory(
            16.0 * self.expected_members(X.shape[0]),
            f"n_trees={self.n_trees} with overlap={shape[2]:.3g} of {X.shape[0]} rows",
            "use fewer trees, less overlap or larger leaves",
        )
        self.key_ = self._drawn_key()
        self.kernel_ = self._resolved_kernel(X)
        self.partition_, self.members_ = grown(X, *shape, self.key_, self.n_jobs)
        self.landmarks_ = X

    def _design(self, X: Data) -> Design:
        members, kinds = self.members_, (self.kernel_, self.landmarks_)
        blocks = [
            LeafBlock(
                route.leaf,
                route.rows,
                route.shares,
                members.of(route.leaf),
                int(members.starts[route.leaf]),
            )
            for route in self.partition_.routes(X, 1 if X.shape[0] <= FEW_ROWS else self.n_jobs)
        ]
        return Local(X, *kinds, blocks, len(members.order), len(members), self.n_jobs)

    def _transform(self, X: Matrix) -> sparse.csr_array:
        return self._design(X).tocsr()

    def _block(self, X: Matrix, columns: NDArray[np.int64]) -> NDArray:
        return self._design(X).block(columns)
