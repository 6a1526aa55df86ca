"""The linear kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer._runtime.arrays import Matrix, row_chunks
from mercer._runtime.rows import is_sparse
from mercer._runtime.validation import matrix
from mercer.kernels.base import Kernel
from mercer.kernels.distances import row_cost, scaled

_TOO_LARGE = "X is too large for this kernel: products overflow; rescale it."


@dataclass(frozen=True)
class Linear(Kernel):
    """Dot product of two rows. It has no gamma and no random features; its feature map is X.

    Examples
    --------
    >>> from mercer.kernels import Linear
    >>> Linear()([[1.0, 2.0]], [[3.0, 4.0]])
    array([[11.]])
    """

    _other_maps: ClassVar[str] = "feature_map='linear' or 'nystroem'"
    _why_no_widths = "it is not a function of differences"

    def diag(self, X: Matrix) -> NDArray:
        X = matrix(X, "X")
        with np.errstate(over="ignore"):
            squares = X.multiply(X).sum(axis=1) if is_sparse(X) else np.einsum("ij,ij->i", X, X)
        if not np.isfinite(squares).all():
            raise ValueError(_TOO_LARGE)
        return np.asarray(squares, dtype=X.dtype).ravel()  # a sparse matrix gives a column

    def _fill(self, out: NDArray, X: Matrix, Y: Matrix) -> None:
        one = np.ones(X.shape[1])
        y = scaled(Y, one)
        with np.errstate(over="ignore", invalid="ignore"):
            for rows in row_chunks(X.shape[0], 16.0 * Y.shape[0] + 2.0 * row_cost(X)):
                product = scaled(X[rows], one) @ y.T
                out[rows] = product.toarray() if sparse.issparse(product) else product
        if not np.isfinite(out).all():
            raise ValueError(_TOO_LARGE)
