"""Random binning: a random grid per feature group, one bin per point and grid."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, field
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from sklearn.base import clone

from mercer import _core, kernels
from mercer._runtime.arrays import Matrix, check_setting, chunk_bytes, n_threads, row_chunks
from mercer._runtime.config import device_in_force
from mercer._runtime.devices import Device
from mercer._runtime.random import RandomStateLike
from mercer._runtime.rows import Data, PreparedRows, is_sparse
from mercer._runtime.state import State
from mercer._runtime.validation import column_indices, flag, positive_integer
from mercer.designs import Binned
from mercer.maps._documentation import SHARED, documented
from mercer.maps.codes import buffers, check_codes, in_bytes
from mercer.maps.grids import RandomGrids
from mercer.maps.products import form_of_boxes

__all__ = ["RandomBinning"]

_PIECE_BYTES = 32 * 2**20  # bytes of rows prepared and binned together
_MAX_HASHED = 2**31  # most columns of a grid of hashed boxes
_MANY_MISSING = 1 / 3  # share of unseen boxes from which a warning is issued
_FEW_ROWS = 1000  # rows whose range tells an input far from 0
_FEW_CODES = 50_000  # codes up to which the core starts no threads


@documented(SHARED)
@dataclass(eq=False, repr=False)
class RandomBinning(RandomGrids):
    """Random binning features of a product kernel.

    Each of ``n_components`` random grids cuts the inputs into boxes. A point has one non-zero
    column per grid: the column of its box. Two points share a box with probability k(x, y), so that
    the map is unbiased with variance ``k (1 - k) / n_components``.

    Parameters
    ----------
    kernel : str or kernel, default="laplacian"
        Kernel to approximate: a product of one-dimensional convex, non-increasing profiles such as
        "laplacian". Other kernels have no distribution of bin widths and raise an error.
    {gamma}
    n_components : int, default=256
        Number R of grids, >= 1.
    bins : "exact" or int, default="exact"
        Columns of a grid. "exact" gives each box of the training rows its own column and ignores
        other boxes. A number B, from 2 to 2**31, hashes the boxes of a grid into B columns: this
        needs no dictionary and has no unseen boxes, but the kernel becomes ``k + (1 - k) / B``.
    scale : bool, default=True
        Whether non-zeros have the factor ``1/sqrt(n_components)``, so that ``z(x) @ z(y)``
        estimates the kernel. Without it they are 1. Both are multiplied by the square root of the
        kernel's ``amplitude``.
    {random_state}
    n_jobs : int or None, default=None
        Number of threads; None and -1 mean all that the process may use. The result does not depend
        on it.

    Attributes
    ----------
    kernel_ : kernel
        Fitted kernel, with its gamma as a number or an array.
    n_features_out_ : int
        Number of columns D: the boxes of all grids.
    n_bins_ : ndarray of shape (n_components,)
        Number of columns per grid.
    occupancy_ : mercer.designs.Occupancy
        Numbers of training rows per box.
    n_features_in_ : int
        Number of input columns.

    Raises
    ------
    {ValueError}

    References
    ----------
    Wu, Yen, Chen and Yan, Revisiting random binning features, KDD 2016, Algorithm 1. Rahimi and
    Recht, Random features for large-scale kernel machines, NIPS 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.maps import RandomBinning
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> Z = RandomBinning(gamma=0.3, n_components=32, random_state=0).fit_transform(X)
    >>> Z.shape[0], set(np.diff(Z.indptr).tolist())
    (100, {32})

    The paper numbers the boxes of training and test rows together, and its D counts both. A fit to
    all these rows gives this D, at a gamma that is a number. Boxes of test rows alone have columns
    of zeros in the training rows, so that ridge and L1 solutions give them no weight, and
    predictions are those of a fit to the training rows, which leaves such boxes out.

    >>> test = np.random.default_rng(1).normal(size=(50, 3))
    >>> map_ = RandomBinning(gamma=0.3, n_components=32, random_state=0)
    >>> map_.fit(X).n_features_out_, map_.fit(np.vstack([X, test])).n_features_out_
    (247, 267)
    """

    kernel: str | kernels.Kernel = "laplacian"
    gamma: float | ArrayLike | str = "scale"
    n_components: int = 256
    bins: str | int = "exact"
    _: KW_ONLY
    scale: bool = True
    random_state: RandomStateLike = None
    n_jobs: int | None = None

    _fitted_by: ClassVar[str] = "n_bins_"
    _kept_settings: ClassVar[tuple[str, ...]] = ("scale",)
    n_bins_: NDArray[np.int64] = field(init=False)
    _scale_: bool = field(init=False)

    def bytes_per_row(self, dtype):
        return 4.0 * self._n_grids + self.n_features_in_ * np.dtype(dtype).itemsize

    def _fit(self, X):
        self._fit_design(X)

    def fit_transform(self, X, y=None):
        return self._checked_output(self.fit_design(X).tocsr())

    @property
    def _goes_by_rows(self) -> bool:
        return True

    def _fit_design(self, X):
        n_grids = positive_integer(self.n_components, "n_components")
        flag(self.scale, "scale")
        n_hashed = self._hashed_bins()
        self.kernel_ = self._resolved_kernel(X)
        self.key_, device = self._drawn_key(), self._device_for(X)
        if device is None:
            code_type = np.uint16 if n_hashed is None else np.min_scalar_type(n_hashed - 1)
            self._check_room(n_grids, X, code_type)
        self.n_bins_ = np.full(n_grids, n_hashed or 0, dtype=np.int64)
        if not is_sparse(X):
            self._check_range(X[:: max(1, X.shape[0] // _FEW_ROWS)])
        if n_hashed is not None:
            design = self._design(X)
        elif device is not None:
            design = self._design_on(device, X, is_new=True)
        else:
            design = self._number_boxes(X)
        self.occupancy_ = design.occupancy()
        return design

    def _check_range(self, few: NDArray) -> None:
        """Refuse inputs whose bins most grids cannot number, by a few rows."""
        inverse_widths = self._parameters(0, min(self._n_grids, self._grids_at_once))[0]
        check_codes(few.min(axis=0), few.max(axis=0), inverse_widths)

    def _forget(self):
        super()._forget()
        for name in ("_table", "_places"):
            self.__dict__.pop(name, None)

    def _check_state(self):
        super()._check_state()
        self._check_kernel()
        state = State(self)
        state.flag("_scale_")
        n_bins = state.array("n_bins_", (None,), "l", 0, _MAX_HASHED)
        if "_places" in vars(self):
            state.array("_places", n_bins.shape, "l", 0)
        if "_table" in vars(self):
            state.instance("_table", _core.BinTable)
        self._check_bins()

    def _check_bins(self) -> None:
        """Refuse numbers of columns that codes of rows could exceed."""
        state, n_bins = State(self), self.n_bins_
        if not self._is_hashed:
            rule, holds = "be those of its boxes", np.array_equal(n_bins, self._table.n_bins)
        else:
            rule = "be one number of at least 2 for every grid of hashed boxes"
            holds = bool(len(n_bins) and n_bins[0] >= 2 and (n_bins == n_bins[0]).all())
        state.check("n_bins_", rule, holds)

    def warn_missing(self, n_missing, n_rows):
        if "_places" in self.__dict__:
            return  # an excerpt lacks most boxes on purpose
        n_pairs = n_rows * self._n_grids
        if n_missing > _MANY_MISSING * n_pairs:
            warnings.warn(
                f"{n_missing / n_pairs:.0%} of the bins of these rows were not met at fit, so "
                "predictions fall back on the constant; a smaller gamma or more rows at fit help.",
                UserWarning,
                stacklevel=3,
            )

    def _design(self, X):
        if (device := self._device_for(X)) is not None:
            return self._design_on(device, X)
        codes = self._empty_codes(X, self._layout[1])
        n_unseen = self._bin(X, codes)
        return self._binned(X, codes, n_unseen)

    def _product_with(self, X, weights):
        if self._device_for(X) is not None:
            return super()._product_with(X, weights)
        weights = np.ascontiguousarray(weights, dtype=X.dtype)
        out = np.zeros((X.shape[0], *weights.shape[1:]), dtype=X.dtype)
        n_unseen, threads = 0, self._threads(self._n_grids * out.size)
        if self._is_hashed:
            codes = self._empty_codes(X, self._layout[1])
            self._bin(X, codes)
            _core.binned_matvec(codes, self._layout[0], weights, out, self._value, False, threads)
            return out, n_unseen
        for start, stop in self._batches(0, self._n_grids):
            given = buffers(X), *self._parameters(start, stop), weights, out, threads
            n_unseen += self._table.add_matvec(start, *given)
        out *= self._value
        return out, n_unseen

    def _device_for(self, X):
        return None if is_sparse(X) else device_in_force()

    def _design_on(self, device: Device, X: Data, is_new: bool = False) -> Any:
        from mercer.maps.bins_on_device import design_on  # which few need

        return design_on(device, self, X, is_new)

    def _transform(self, X):
        design = self._design(X)
        self.warn_missing(design.n_missing, design.shape[0])
        return design.tocsr()

    def _block(self, X, columns):
        grids = np.searchsorted(self._offsets, columns, side="right") - 1
        block = np.zeros((X.shape[0], len(columns)), dtype=X.dtype)
        codes = np.empty((1, X.shape[0]), dtype=np.uint32)
        for grid in np.unique(grids):
            self._bin(X, codes, first=int(grid))
            for position in np.flatnonzero(grids == grid):
                rows = codes[0] == columns[position] - self._offsets[grid]
                block[rows, position] = self._value
        return block

    def product_form(self, coef, groups, background):
        if self._is_hashed:
            return None
        background = background.toarray() if is_sparse(background) else background
        codes, starts = self._design(background).codes.astype(np.int64), self._offsets[:-1]
        boxes = np.where(codes < self.n_bins_[:, None], codes + starts[:, None], -1)
        inverse_widths, shifts, _ = self._grids

        def intervals(rows: NDArray, columns: NDArray[np.int64]) -> NDArray[np.float64]:
            rows = rows[:, None, columns].astype(np.float64)
            return np.floor(rows * inverse_widths[:, columns] - shifts[:, columns])

        return form_of_boxes(boxes, background, intervals, self._value * coef, groups)

    def all_boxes(self, X: Matrix) -> Binned:
        """Design of rows with a column for each of their boxes, met at fit or not."""
        if self._is_hashed:
            return self._design(X)
        return self._at(self._grid_places())._number_boxes(X)

    # -- the endless sequence of grids --------------------------------------------------------

    def stream(self, X, first, count):
        self._check_fitted()
        if self._scale_ or self._is_hashed:
            return super().stream(X, first, count)
        part = self._at(np.arange(first, first + count))
        return part, part._number_boxes(self._checked(X, reset=False))

    def excerpt(self, columns):
        columns = column_indices(columns, self.n_features_out_)
        grids = np.searchsorted(self._offsets, columns, side="right") - 1
        used, n_bins = np.unique(grids, return_counts=True)
        return self._at(self._grid_places()[used], self._table.keys()[columns], n_bins)

    def followed_by(self, other):
        return self._at(
            np.concatenate([self._grid_places(), other._grid_places()]),
            np.concatenate([self._table.keys(), other._table.keys()]),
            np.concatenate([self.n_bins_, other.n_bins_]),
        )

    def tidied(self):
        # Parts that were found at different times may have boxes of one grid.
        places = np.repeat(self._grid_places(), self.n_bins_)
        order = np.argsort(places, kind="stable")
        grids, n_bins = np.unique(places, return_counts=True)
        return self._at(grids, self._table.keys()[order], n_bins), order

    def addresses(self):
        grids = np.repeat(self._grid_places().astype(np.uint64), self.n_bins_)
        return np.column_stack([grids, self._table.keys()])

    def take_boxes(self, keys: NDArray[np.uint64], n_bins: NDArray[np.int64]) -> None:
        """Make other boxes those of this fitted map: their keys, grid after grid."""
        self._table, self.n_bins_ = _core.BinTable.from_keys(keys, n_bins), n_bins

    def _at(self, places: NDArray, keys: NDArray | None = None, n_bins: Any = None) -> Any:
        """The map of other grids of the sequence, with the boxes of these keys."""
        part = clone(self).set_params(n_components=len(places))
        for name in ("n_features_in_", "feature_names_in_", "kernel_", "key_", "_scale_"):
            if hasattr(self, name):
                setattr(part, name, getattr(self, name))
        part._places = places
        part.n_bins_ = np.zeros(len(places), dtype=np.int64)
        if keys is not None:
            part.n_bins_ = np.asarray(n_bins, dtype=np.int64)
            part._table = _core.BinTable.from_keys(keys, part.n_bins_)
        return part

    # -- codes -------------------------------------------------------------------------------

    def _number_boxes(self, X: Matrix) -> Binned:
        """Give every box that a row of X is in its column."""
        codes = self._fit_dictionary(X)
        self.n_bins_ = self._table.n_bins
        return self._binned(X, codes, n_missing=0)

    @property
    def _offsets(self) -> NDArray[np.int64]:
        """The first column of every grid, and the number of all."""
        return np.concatenate([[0], np.cumsum(self.n_bins_)]).astype(np.int64)

    @property
    def n_features_out_(self) -> int:  # type: ignore[override]
        return int(self.n_bins_.sum())

    @property
    def _layout(self) -> tuple[NDArray[np.int64], np.dtype]:
        """``_offsets``, and the narrowest type of codes: for an unseen box, the number of boxes."""

        def found() -> tuple[NDArray[np.int64], np.dtype]:
            self._check_bins()  # the core follows every code into the columns of its grid
            return self._offsets, np.min_scalar_type(self.n_bins_.max(initial=1) - self._is_hashed)

        boxes = self.n_bins_.tobytes(), vars(self).get("_table")
        return self._remembered(boxes, found, "layout")

    def _threads(self, n_codes: int) -> int:
        """Threads for a pass over so many codes."""
        return 1 if n_codes < _FEW_CODES else n_threads(self.n_jobs)

    @property
    def _is_hashed(self) -> bool:
        """Whether boxes are hashed; otherwise every one that was met has its column."""
        return "_table" not in vars(self)

    @property
    def _value(self) -> float:
        amplitude = self.kernel_.amplitude**0.5
        return amplitude * self._n_grids**-0.5 if self._scale_ else amplitude

    def _hashed_bins(self) -> int | None:
        """Columns per grid if the settings say that boxes are hashed, None if each has its own."""
        if isinstance(self.bins, str) and self.bins == "exact":
            return None
        if isinstance(self.bins, bool) or not isinstance(self.bins, Integral):
            raise ValueError(f"bins must be 'exact' or an integer; got {self.bins!r}.")
        n_hashed = int(self.bins)
        if not 2 <= n_hashed <= _MAX_HASHED:
            raise ValueError(f"bins must be between 2 and {_MAX_HASHED}; got {n_hashed}.")
        return n_hashed

    def _fit_dictionary(self, X: Data) -> NDArray:
        """Codes of the training data, numbering the boxes of each grid as they are met."""
        n_grids, threads = self._n_grids, n_threads(self.n_jobs)
        codes = self._empty_codes(X, np.uint16)
        table = _core.BinTable(n_grids)
        whole = not isinstance(X, PreparedRows)
        for start, stop in self._batches(0, n_grids):
            grids = self._parameters(start, stop)
            for rows, part in self._pieces(X):
                fits = False
                while not fits:
                    out = codes[start:stop]
                    if not whole:
                        out = np.empty((stop - start, part.shape[0]), dtype=codes.dtype)
                    fits = table.insert(start, buffers(part), *grids, out, threads)
                    if not fits:
                        codes = codes.astype(np.uint32)  # a grid has more than 65 535 boxes
                if not whole:
                    codes[start:stop, rows] = out
        self._table = table
        if codes.dtype == np.uint16 and table.n_bins.max() <= 256:
            codes = in_bytes(codes)
        return codes

    def _pieces(self, X: Data) -> Iterator[tuple[slice, Any]]:
        """X, or its rows in pieces where they are prepared when they are read."""
        if not isinstance(X, PreparedRows):
            yield slice(0, X.shape[0]), X
            return
        bytes_per_row = 2.0 * self._n_grids + 8.0 * self.n_features_in_
        for rows in row_chunks(X.shape[0], bytes_per_row, min(_PIECE_BYTES, chunk_bytes())):
            yield rows, X[rows]

    def _empty_codes(self, X: Matrix, dtype: DTypeLike) -> NDArray:
        """Room for the codes of X, if there is room."""
        self._check_room(self._n_grids, X, dtype)
        return np.empty((self._n_grids, X.shape[0]), dtype=dtype)

    def _check_room(self, n_grids: int, X: Matrix, dtype: DTypeLike) -> None:
        """Refuse codes of X that would not fit."""
        n = X.shape[0]
        cell = float(n) * np.dtype(dtype).itemsize
        what = f"binning {n} rows into {n_grids} grids", "use fewer rows"
        check_setting("n_components", n_grids, lambda count: cell * count, *what)

    def _passes(
        self, X: Matrix, first: int, out: NDArray
    ) -> Iterator[tuple[int, Any, tuple[NDArray, NDArray, NDArray], NDArray]]:
        """(first grid, rows for the core, parameters, room) for grids ``first``.. of X.

        Room is a part of ``out`` (grids, n), or is copied there once it was filled.
        """
        for start, stop in self._batches(first, first + len(out)):
            parameters = self._parameters(start, stop)
            for rows, part in self._pieces(X):
                place = out[start - first : stop - first, rows]
                room = place if part is X else np.empty_like(place, order="C")
                yield start, buffers(part), parameters, room
                if room is not place:
                    place[...] = room

    def _bin(self, X: Matrix, codes: NDArray, first: int = 0) -> int:
        """Write the codes of grids first.. of X; returns how many had no column."""
        n_unseen, threads = 0, self._threads(codes.size)
        for start, rows, parameters, room in self._passes(X, first, codes):
            if self._is_hashed:
                _core.bin_hashed(rows, *parameters, int(self.n_bins_[0]), room, threads)
            else:
                n_unseen += self._table.lookup(start, rows, *parameters, room, threads)
        return n_unseen

    def _binned(self, X: Matrix, codes: NDArray, n_missing: int) -> Binned:
        layout = (codes, self._layout[0], self._value, X.dtype, n_missing > 0, self.n_jobs)
        return Binned(*layout, validate=False, n_missing=n_missing)

    # -- a fitted map is its key and the boxes it met ----------------------------------------------

    def __getstate__(self):
        state = super().__getstate__()
        table = state.pop("_table", None)
        return state if table is None else state | {"_bin_keys_": table.keys()}

    def __setstate__(self, state):
        keys = state.get("_bin_keys_")
        if keys is not None and state.get("n_bins_") is not None:
            table = _core.BinTable.from_keys(keys, state["n_bins_"])
            state = {k: v for k, v in state.items() if k != "_bin_keys_"} | {"_table": table}
        super().__setstate__(state)
