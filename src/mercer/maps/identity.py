"""The data themselves as features."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import OneToOneFeatureMixin

from mercer._runtime.arrays import Matrix
from mercer._runtime.rows import Data, PreparedRows, is_sparse
from mercer.designs import Dense, Design, Sparse
from mercer.maps.base import FeatureMap
from mercer.maps.products import Groups, ProductForm, linear_form

__all__ = ["IdentityMap"]


class IdentityMap(OneToOneFeatureMixin, FeatureMap):
    """Inputs as features: a machine with this map is a linear model.

    Parameters
    ----------
    n_jobs : int or None, default=None
        Number of threads for the products of the design; None means all.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.maps import IdentityMap
    >>> IdentityMap().fit_transform(np.eye(2))
    array([[1., 0.],
           [0., 1.]])
    """

    _fitted_by: ClassVar[str] = "n_features_in_"

    def __init__(self, *, n_jobs: int | None = None):
        self.n_jobs = n_jobs

    def _fit(self, X: Data) -> None:
        """Nothing is to be found."""

    @property
    def n_features_out_(self) -> int:  # type: ignore[override]
        return self.n_features_in_

    def product_form(self, coef: NDArray, groups: Groups, background: Matrix) -> ProductForm:
        return linear_form(coef, groups)

    def _transform(self, X: Matrix) -> Matrix:
        return X

    def _block(self, X: Matrix, columns: NDArray[np.int64]) -> NDArray:
        block = X[:, columns]
        return block.toarray() if is_sparse(block) else block

    def _design(self, X: Data) -> Design:
        if isinstance(X, PreparedRows) and not is_sparse(X):
            return super()._design(X)
        X = X.together() if isinstance(X, PreparedRows) else X
        return Sparse(X, self.n_jobs) if sparse.issparse(X) else Dense(X, self.n_jobs)

    @property
    def _goes_by_rows(self) -> bool:
        return True
