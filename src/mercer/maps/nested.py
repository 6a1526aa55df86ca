"""Maps whose features are a linear function of those of another map, the base."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from sklearn.base import clone

from mercer import kernels, maps
from mercer._runtime.arrays import CHUNK_BYTES, Matrix, chunk_bytes, n_threads, row_chunks
from mercer._runtime.devices import Device
from mercer._runtime.random import RandomStateLike, Slot, Streams
from mercer._runtime.rows import Data
from mercer._runtime.state import State
from mercer._runtime.validation import float_type, name_from, positive_integer, scale_of_distance
from mercer.designs import Dense, Design, Lazy
from mercer.kernels.base import Gamma
from mercer.maps.base import FeatureMap
from mercer.maps.drawn import LAST_KEY

__all__ = ["Nested"]

_CACHED_BYTES = 4 * CHUNK_BYTES  # largest size of base features cached between passes
_SKETCH_BYTES = 24.0  # bytes per row and component while the sketch is drawn and multiplied


@dataclass(eq=False, repr=False)
class Nested(FeatureMap):
    """Features z(x) = A.T f(x) of the features f of a base.

    A subclass says what A is: ``_fit_projection`` finds it, ``_project`` multiplies by it,
    ``_columns`` gives some of its columns and ``_expand`` is A times coefficients. The base
    features of many rows are never cached: every pass over them generates them again.
    """

    base: str | FeatureMap = "fourier"
    n_components: int = 256
    _: KW_ONLY
    kernel: str | kernels.Kernel | Callable[..., NDArray] | None = None
    gamma: float | ArrayLike | str = "scale"
    n_base: int | None = None
    random_state: RandomStateLike = None
    n_jobs: int | None = None

    base_: FeatureMap = field(init=False)

    @property
    def takes_text(self) -> bool:
        fitted = vars(self).get("base_")
        if isinstance(fitted, FeatureMap):
            return fitted.takes_text
        return maps.takes_text(self.base, self.kernel)

    def _check_state(self) -> None:
        state = State(self)
        state.instance("base_", FeatureMap)._check_state()
        super()._check_state()
        state.integer("key_", 0, LAST_KEY)
        if not self.takes_text:
            d = self.base_.n_features_in_
            state.check("n_features_in_", f"be {d}, as of its base", self.n_features_in_ == d)

    def _check_fitted(self) -> None:
        super()._check_fitted()
        self.base_._check_fitted()

    def bytes_per_row(self, dtype: DTypeLike) -> float:
        features = float(np.dtype(dtype).itemsize) * self.n_features_out_
        return self.base_.bytes_per_row(dtype) + features

    def folded(self, coef: NDArray) -> tuple[FeatureMap, NDArray]:
        self._check_fitted()
        return self.base_.folded(self.of_base(coef))

    def of_base(self, coef: NDArray) -> NDArray:
        """A w, the weights of the base features, for weights w of these features."""
        return self._expand(coef).astype(coef.dtype, copy=False)

    def warn_missing(self, n_missing: int, n_rows: int) -> None:
        self.base_.warn_missing(n_missing, n_rows)

    @property
    def draws_inputs(self) -> bool:  # type: ignore[override]
        return self._stated_base().draws_inputs

    def stated_kernel(self) -> kernels.Kernel | None:
        return self._stated_base().stated_kernel()

    def state_kernel(self, kernel: kernels.Kernel) -> Self:
        base = self._stated_base().state_kernel(kernel)
        return self.set_params(base=base, kernel=None, gamma="scale", n_base=None)

    def _state_gamma(self, gamma: Gamma) -> Self:
        if isinstance(self.base, FeatureMap):
            return self.set_params(base=clone(self.base)._state_gamma(gamma))
        return super()._state_gamma(gamma)

    # What a subclass says.

    def _check_projection(self) -> None:
        """Refuse settings that make no sense for the fitted base, before any work is done."""

    def _fit_projection(self, pieces: Iterable[tuple[slice, Design]], X: Matrix) -> None:
        raise NotImplementedError

    def _project(self, piece: Design) -> NDArray:
        raise NotImplementedError

    def _columns(self, columns: NDArray[np.int64]) -> NDArray[np.float64]:
        raise NotImplementedError

    def _expand(self, coef: NDArray) -> NDArray:
        raise NotImplementedError

    # What follows.

    def _checked(self, X: Any, reset: bool) -> Matrix:
        if self.takes_text:
            return (self._stated_base() if reset else self.base_)._checked(X, reset)
        return super()._checked(X, reset)

    @property
    def _goes_by_rows(self) -> bool:
        return True  # the base makes an array of them if it has to

    def _fit(self, X: Data) -> None:
        self._fit_pieces(X)

    def _fit_design(self, X: Data) -> Design:
        pieces = self._fit_pieces(X)
        if isinstance(pieces, list) and self._device_for(X) is None:
            return self._projected(pieces, X)
        return self._design(X)

    def _fit_pieces(self, X: Data) -> Iterable[tuple[slice, Design]]:
        """Fit base and projection; the base features of X, for as many passes as wanted."""
        base = self.settled_base()
        X = base._taken(X, reset=True)
        base._fit(X)
        self._take_base(base)
        pieces: Iterable[tuple[slice, Design]] = self.pieces_of(X)
        if base.bytes_per_row(float_type(X)) * X.shape[0] <= min(_CACHED_BYTES, 4 * chunk_bytes()):
            pieces = list(pieces)
        self._fit_projection(pieces, X)
        return pieces

    def settled_base(self) -> FeatureMap:
        """The base with a seed and threads, unfitted; it begins a fit of this map."""
        n_threads(self.n_jobs)
        base = self._stated_base()
        self.key_ = self._drawn_key()
        settings = base.get_params(deep=False)
        if "random_state" in settings and settings["random_state"] is None:
            key = Streams(self.key_, np.array([0])).bits(1, Slot.BASE)
            base.set_params(random_state=int(key[0, 0]))
        if "n_jobs" in settings and settings["n_jobs"] is None:
            base.set_params(n_jobs=self.n_jobs)
        return base

    def take_base(self, base: FeatureMap, n_inputs: int) -> None:
        """Make a fitted base that of this map."""
        self.n_features_in_ = n_inputs
        self._take_base(base)

    def _take_base(self, base: FeatureMap) -> None:
        self.base_ = base
        if hasattr(base, "kernel_"):
            self.kernel_ = base.kernel_
        self.n_features_out_ = self.n_components
        self._check_projection()

    def pieces_of(self, X: Any) -> Iterable[tuple[slice, Design]]:
        """The base features of rows in pieces of bounded memory, made again in every pass."""
        return _Pieces(self.base_, X, self.n_components)

    def _stated_base(self) -> FeatureMap:
        """The base that the settings name, unfitted."""
        n_components = positive_integer(self.n_components, "n_components")
        n_base = None if self.n_base is None else positive_integer(self.n_base, "n_base")
        if isinstance(self.base, FeatureMap):
            self._check_left_out()
            return clone(self.base)
        self._refuse_number("base", "a name or a FeatureMap")
        base = maps.get(name_from(self.base, maps._NAMES, "base"), self.kernel, self.gamma)
        settings = base.get_params(deep=False)
        if "n_components" in settings:
            base.set_params(n_components=4 * n_components if n_base is None else n_base)
        elif n_base is not None:
            raise ValueError(f"n_base must be left out for base={self.base!r}; got {n_base}.")
        if "form" in settings:
            if n_base is not None and n_base % 2:
                raise ValueError(
                    f"n_base must be even for base={self.base!r}, two columns per frequency; "
                    f"got {n_base}."
                )
            base.set_params(form="pair")
        return base

    def _check_left_out(self) -> None:
        """Refuse what a base that is a map has to say itself."""
        gamma = scale_of_distance(self.gamma)
        given = {
            "kernel": self.kernel,
            "gamma": None if gamma == "scale" else gamma,
            "n_base": self.n_base,
        }
        for name, value in given.items():
            if value is not None:
                raise ValueError(
                    f"{name} must be left out beside a base that is a map; got {value!r}."
                )

    # Features.

    def _transform(self, X: Matrix) -> NDArray:
        self._check_transformed_memory(X)
        design = self._projected(_Pieces(self.base_, X, self.n_features_out_), X)
        self.warn_missing(design.n_missing, design.shape[0])
        return design.array

    def _block(self, X: Matrix, columns: NDArray[np.int64]) -> NDArray:
        out = np.empty((X.shape[0], len(columns)), dtype=float_type(X))
        projection = self._columns(columns)
        for rows, piece in _Pieces(self.base_, X, self.n_features_out_):
            out[rows] = piece.matvec(projection)
        return out

    def _device_for(self, X: Data) -> Device | None:
        return self.base_._device_for(X)

    def _design(self, X: Data) -> Design:
        if self._device_for(X) is not None:
            from mercer.designs.on_device import DeviceFeatures  # which few need

            matrix = self._columns(np.arange(self.n_features_out_))
            return DeviceFeatures(self.base_._design(X), matrix, float_type(X))
        if self._is_too_large(X):
            return Lazy(X, self, self.n_features_out_, float_type(X), n_jobs=self.n_jobs)
        return self._projected(_Pieces(self.base_, X, self.n_features_out_), X)

    def _projected(self, pieces: Iterable[tuple[slice, Design]], X: Matrix) -> Dense:
        shape = (X.shape[0], self.n_features_out_)
        design = Dense(np.empty(shape, dtype=float_type(X)), self.n_jobs)
        for rows, piece in pieces:
            design.array[rows] = self._project(piece)
            design.n_missing += piece.n_missing
        return design

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        if self.takes_text:
            tags.input_tags = self._stated_base().__sklearn_tags__().input_tags
            tags.transformer_tags.preserves_dtype = []
        return tags


@dataclass(frozen=True)
class _Pieces:
    """The features of some rows in pieces of bounded memory, generated again in every pass.

    All but the last have as many rows as the same power of two.
    """

    feature_map: FeatureMap
    X: Matrix
    n_components: int

    def __iter__(self) -> Iterator[tuple[slice, Design]]:
        bytes_per_row = self.feature_map.bytes_per_row(float_type(self.X))
        bytes_per_row += _SKETCH_BYTES * self.n_components
        length = 2 ** int(np.log2(max(1.0, chunk_bytes() / bytes_per_row)))
        for rows in row_chunks(self.X.shape[0], 1.0, budget=length):
            yield rows, self.feature_map._design(self.X[rows])
