"""The base of feature maps: parameters from a seed, columns on request, a design for solvers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy import sparse
from sklearn import get_config
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import validate_data

from mercer import kernels
from mercer._runtime.arrays import Matrix, available_memory, check_memory, is_little, row_chunks
from mercer._runtime.devices import Device
from mercer._runtime.random import RandomStateLike, key_from
from mercer._runtime.rows import Data, PreparedRows, is_large
from mercer._runtime.sparse import canonical_csr
from mercer._runtime.state import State
from mercer._runtime.threads import one_blas_thread
from mercer._runtime.validation import FLOATS, column_indices, float_type, is_plain
from mercer.designs import Dense, Design, Lazy
from mercer.designs.tensors import CheckedOnDevice
from mercer.maps.drawn import LAST_KEY, DrawCache
from mercer.maps.products import Groups, ProductForm
from mercer.maps.stated import StatesKernel

__all__ = ["FeatureMap"]


class _Draws(DrawCache):
    """The random numbers, from this setting, that a map shares with copies at other scales."""

    def __init__(self, random_state: RandomStateLike, key: int):
        super().__init__()
        self.random_state, self.key = random_state, key


class FeatureMap(CheckedOnDevice, ClassNamePrefixFeaturesOutMixin, TransformerMixin, StatesKernel):
    """A map z from inputs to D features whose inner products approximate a kernel.

    A map says three things: ``_fit(X)`` fixes its parameters and sets ``n_features_out_``,
    ``_block(X, columns)`` regenerates some columns, and ``_transform(X)`` gives all, where that
    takes less time than a block of them. It may also say which design suits it (``_design``), and
    where (``_device_for``), and how to fit and build one in a single pass (``_fit_design``). Data
    reach these methods checked: finite, C-ordered or canonical CSR, float32 or float64.

    A fitted map computes from its fitted attributes; its settings say what the next fit will do,
    and changing them changes nothing before (``n_jobs`` apart). What can be derived from fitted
    attributes is not stored.

    Attributes
    ----------
    n_features_out_ : int
        Number of columns D.
    n_features_in_ : int
        Number of inputs d.
    kernel_ : Kernel
        Fitted kernel, with its ``gamma`` as a number; absent from maps without a kernel.
    key_ : int
        Key of the random numbers: with the parameters of the map it determines all of them.
    """

    n_features_out_: int
    _fitted_by: ClassVar[str] = "n_features_out_"
    default_kernel: ClassVar[str | None] = None
    draws_inputs: bool = False  # whether random numbers of every input are those of its kernel

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fix the parameters of the map.

        Parameters
        ----------
        X : array or CSR of shape (n, d)
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            If the data or a parameter are invalid.
        """
        with one_blas_thread(getattr(self, "n_jobs", None)):
            self._fit(self._taken(X, reset=True))
        return self

    def transform(self, X: Any) -> Any:
        """The features z(X).

        Parameters
        ----------
        X : array or CSR of shape (n, d)

        Returns
        -------
        array, or CSR where features are sparse, of shape (n, D), in the dtype of X
        """
        self._check_fitted()
        with one_blas_thread(self._n_jobs):
            return self._checked_output(self._transform(self._checked(X, reset=False)))

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """``fit(X).transform(X)`` with one look at the data.

        Parameters
        ----------
        X, y
            As for ``fit``.

        Returns
        -------
        array or CSR
            As from ``transform``.
        """
        with one_blas_thread(getattr(self, "n_jobs", None)):
            X = self._taken(X, reset=True)
            self._fit(X)
            return self._checked_output(self._transform(X))

    def transform_block(self, X: Any, columns: ArrayLike) -> NDArray:
        """Some columns of z(X), generated for this call and forgotten.

        Parameters
        ----------
        X : as for ``transform``
        columns : array of int of shape (b,), each at least 0 and below D, in any order

        Returns
        -------
        array of shape (n, b)
            ``transform(X)[:, columns]``.
        """
        self._check_fitted()
        X = self._checked(X, reset=False)
        with one_blas_thread(self._n_jobs):
            return self._block(X, column_indices(columns, self.n_features_out_))

    def design(self, X: Any) -> Design:
        """z(X) in the form that suits this map: the matrix a solver works with, for X as above."""
        self._check_fitted()
        design = self._design(self._taken(X, reset=False))
        self.warn_missing(design.n_missing, design.shape[0])
        return design

    def designs(
        self, X: Any, prepare: Callable[[Any], Any] | None = None
    ) -> Iterator[tuple[slice, Design]]:
        """``design(X)`` in pieces of bounded memory, without a warning of missing features.

        Parameters
        ----------
        X : as for ``transform``
        prepare : callable, optional
            Applied to the rows of a piece before the map, such as a scaler's ``transform``.

        Yields
        ------
        tuple of slice and Design
            Which rows of X, and their design.
        """
        self._check_fitted()
        if sparse.issparse(X):
            X = canonical_csr(X)
        elif not isinstance(X, (np.ndarray, PreparedRows)) or not X.ndim:
            X = self._checked(X, reset=False)  # into an array, whose rows can be taken by pieces
        for rows in row_chunks(X.shape[0], self.bytes_per_row(X.dtype)):
            piece = X[rows] if prepare is None else prepare(X[rows])
            yield rows, self._design(self._checked(piece, reset=False))

    def _responses(
        self, X: Data, weights: NDArray, prepare: Callable[[Any], Any]
    ) -> Iterator[tuple[slice, NDArray, int]]:
        """Yield rows of X, their ``design @ weights``, weights (D,) or (D, k), and ``n_missing``.

        Designs need not be made for it: one row is to take little time.
        """
        for rows in row_chunks(X.shape[0], self.bytes_per_row(X.dtype)):
            piece = self._checked(prepare(X[rows]), reset=False)
            yield rows, *self._product_with(piece, weights)

    def fit_design(self, X: Any, prepare: Callable[[Any], Any] | None = None) -> Design:
        """``fit(X).design(X)`` without doing anything twice.

        Parameters
        ----------
        X : array or CSR of shape (n, d)
        prepare : callable, optional
            Applied to the rows of X before the map, such as a scaler's ``transform``: to all of
            them or, of a large array and by maps that can, to pieces of them, so that memory never
            holds a second X.
        """
        if prepare is not None:
            X = canonical_csr(X)
            X = PreparedRows(X, prepare) if is_large(X) else prepare(X)
        return self._fit_design(self._taken(X, reset=True))

    def bytes_per_row(self, dtype: DTypeLike) -> float:
        """Bytes that one row takes while it is transformed: what prediction in chunks plans with.

        ``dtype`` is that of the data, float32 or float64.
        """
        return float(np.dtype(dtype).itemsize) * (self.n_features_in_ + self.n_features_out_)

    def fix_key(self) -> int:
        """The key of one realisation for all fits from now on, until ``random_state`` changes."""
        if not self._is_settled():
            key = self.key_ if hasattr(self, "key_") else key_from(self.random_state)
            self._draws = _Draws(self.random_state, key)
        return self._draws.key

    def folded(self, coef: NDArray) -> tuple[FeatureMap, NDArray]:
        """A map with less to do that gives the same responses with other coefficients.

        Where features are a linear function of those of a simpler map, z(x) = A.T f(x), responses
        are z(x).w = f(x).(A w): whoever predicts needs neither z nor A, only A w.

        Parameters
        ----------
        coef : ndarray of shape (D,) or (D, k)
            w, a column for every response.

        Returns
        -------
        feature_map : FeatureMap
            The simpler map, fitted; this one where there is none.
        coef : ndarray of shape (D',) or (D', k)
            A w, for the D' columns of that map. In float64, whatever w is, where the sum
            f(x).(A w) cancels so much that f(x) is to be computed from float64 data, too.

        Examples
        --------
        >>> import numpy as np
        >>> from mercer.maps import IdentityMap
        >>> X, w = np.eye(2), np.array([1.0, 2.0])
        >>> feature_map, coef = IdentityMap().fit(X).folded(w)
        >>> feature_map.transform(X) @ coef
        array([1., 2.])
        """
        self._check_fitted()
        return self, coef

    def product_form(self, coef: NDArray, groups: Groups, background: Matrix) -> ProductForm | None:
        """``transform(rows) @ coef`` as a sum of products over groups of columns.

        Parameters
        ----------
        coef : ndarray of shape (D, k)
        groups : sequence of ndarray of int
            Columns of each group; together all of them.
        background : array or CSR of shape (b, d)
            Rows by which random binning locates its boxes: all that it was fitted to.

        Returns
        -------
        list of Products, Additive or None
            None if the features are no products over inputs.
        """
        return None

    def warn_missing(self, n_missing: int, n_rows: int) -> None:
        """Warn if rows lack so many features that predictions suffer, which few maps let happen.

        Callers of ``designs`` do it once, with ``n_missing`` of all pieces and all ``n_rows``.
        """

    @property
    def takes_text(self) -> bool:
        """Whether data are sequences of texts instead of rows of numbers."""
        return False

    # What a subclass defines.

    def _fit(self, X: Data) -> None:
        raise NotImplementedError

    def _transform(self, X: Matrix) -> Matrix:
        self._check_transformed_memory(X)
        return self._block(X, np.arange(self.n_features_out_))

    def _block(self, X: Matrix, columns: NDArray[np.int64]) -> NDArray:
        raise NotImplementedError

    def _design(self, X: Data) -> Design:
        if self._is_too_large(X):
            return Lazy(X, self, self.n_features_out_, float_type(X), n_jobs=self._n_jobs)
        return Dense(self._whole(X), self._n_jobs)

    def _product_with(self, X: Matrix, weights: NDArray) -> tuple[NDArray, int]:
        """``z(X) @ weights`` and the number of missing features."""
        design = self._design(X)
        return design.matvec(weights), design.n_missing

    def _fit_design(self, X: Data) -> Design:
        self._fit(X)
        return self._design(X)

    def _device_for(self, X: Data) -> Device | None:
        """The device in force if this map has a design of X there."""

    @property
    def _goes_by_rows(self) -> bool:
        """Whether ``_fit_design`` and ``_design`` take ``PreparedRows`` as well as arrays."""
        return False

    # What all maps share.

    def _check_fitted(self) -> None:
        super()._check_fitted()
        # Compiled code of SciPy reads and writes wherever the indices of a CSR matrix point.
        if sparse.issparse(vars(self).get("landmarks_")):
            State(self).rows("landmarks_", self.n_features_in_)

    def _checked_output(self, Z: Matrix) -> Matrix:
        """Features, unless they are sparse and scikit-learn is to make a data frame of them."""
        own = getattr(self, "_sklearn_output_config", {})
        wanted = own.get("transform", get_config()["transform_output"])
        if wanted != "default" and sparse.issparse(Z):
            raise ValueError(
                f"set_output(transform={wanted!r}) needs dense features; those of "
                f"{type(self).__name__} are sparse here: say set_output(transform='default'), and "
                "make a frame by pandas.DataFrame.sparse.from_spmatrix if it has to be one."
            )
        return Z

    def _taken(self, X: Any, reset: bool) -> Data:
        """Checked data; rows that are prepared when they are read are checked when they are.

        ``reset`` begins a fit, which forgets the one before.
        """
        if reset:
            self._forget()
        if not isinstance(X, PreparedRows):
            return self._checked(X, reset)
        if not self._goes_by_rows:
            return self._checked(X.together(), reset)
        validate_data(self, X, reset=reset, skip_check_array=True)
        return X.then(lambda rows: self._checked(rows, reset=False))

    def _forget(self) -> None:
        super()._forget()
        self._memory = DrawCache()

    def _remembered(self, description: Any, draw: Callable[[], Any], kind: str = "all") -> Any:
        """``draw()``, called once while what is drawn follows from the same things."""
        if not isinstance(vars(self).get("_memory"), DrawCache):
            self._memory = DrawCache()
        return self._memory.remembered(description, draw, kind)

    def _check_state(self) -> None:
        state = State(self)
        if not self.takes_text:
            state.integer("n_features_in_", 1)
        state.integer("n_features_out_", 0)
        for name in self._kept_settings:
            state.value(f"_{name}_")
        if "_draws" in vars(self):
            State(state.instance("_draws", _Draws)).integer("key", 0, LAST_KEY)

    def _check_kernel(self) -> kernels.Kernel:
        """Refuse a kernel or a key that no fit leaves."""
        state = State(self)
        kernel = state.instance("kernel_", kernels.Kernel).checked()
        state.check("kernel_", "have its scale in numbers", kernel.is_resolved)
        state.integer("key_", 0, LAST_KEY)
        return kernel

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_memory"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = {name: value for name, value in state.items() if name != "_memory"}
        self._memory = DrawCache()
        super().__setstate__(state)

    def _whole(self, X: Data) -> Matrix:
        """``_transform`` of data as ``_taken`` gives them."""
        if not isinstance(X, PreparedRows):
            return self._transform(X)
        self._check_transformed_memory(X)
        out = np.empty((X.shape[0], self.n_features_out_), dtype=X.dtype)
        for rows in row_chunks(X.shape[0], self.bytes_per_row(X.dtype)):
            out[rows] = self._transform(X[rows])
        return out

    def _checked(self, X: Any, reset: bool) -> Matrix:
        if not reset and is_plain(X, self):
            return X
        X = canonical_csr(X)
        return validate_data(self, X, reset=reset, accept_sparse="csr", dtype=FLOATS, order="C")

    def _resolved_kernel(self, X: Data) -> kernels.Kernel:
        """The kernel this map stands for, with ``gamma`` in numbers for the data X."""
        kernel = self.stated_kernel().placed(vars(self).get("feature_names_in_"))
        return kernel.resolve(X)

    def _drawn_key(self) -> int:
        return self._draws.key if self._is_settled() else key_from(self.random_state)

    def _is_settled(self) -> bool:
        """Whether the realisation for this ``random_state`` is shared with copies."""
        draws = getattr(self, "_draws", None)
        return draws is not None and draws.random_state is self.random_state

    def _transformed_bytes(self, X: Data) -> float:
        return float(X.shape[0]) * self.n_features_out_ * X.dtype.itemsize

    def _is_too_large(self, X: Data) -> bool:
        """Whether a design of X had better generate its columns than hold them."""
        needed = 2.0 * self._transformed_bytes(X)
        available = None if is_little(needed) else available_memory()
        return available is not None and needed > available

    def _check_transformed_memory(self, X: Data) -> None:
        n, needed = X.shape[0], self._transformed_bytes(X)
        check_memory(
            needed,
            f"z(X) with {n} rows and {self.n_features_out_} columns",
            lambda room: (
                f"transform {max(1, int(room / needed * n))} rows at a time, or use design(X), "
                "which need not hold it"
            ),
        )

    @property
    def _n_jobs(self) -> int | None:
        return self.n_jobs

    @property
    def _n_features_out(self) -> int:  # the name scikit-learn's naming mixin reads
        return self.n_features_out_

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def responses(
    map_: FeatureMap, thetas: NDArray, fit_intercept: bool, X: Data
) -> NDArray[np.float64]:
    """Responses of several models of one map, (q, n) or (q, n, k), in one pass over the rows."""
    weights = thetas[:, :-1] if fit_intercept else thetas
    n_responses = thetas[:, 0].size
    beside = np.moveaxis(weights, 1, 0).reshape(weights.shape[1], n_responses)
    out = np.empty((X.shape[0], n_responses))
    for rows, design in map_.designs(X):
        out[rows] = design.matvec(np.ascontiguousarray(beside))
    out = np.moveaxis(out.reshape(len(out), len(thetas), *thetas.shape[2:]), 1, 0)
    return out + thetas[:, -1:] if fit_intercept else out
