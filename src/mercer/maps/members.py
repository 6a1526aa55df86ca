"""Endless sequences of random functions: maps that are the start of one, and members of it."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from sklearn.base import clone

from mercer._runtime.arrays import Matrix
from mercer._runtime.rows import Data
from mercer._runtime.state import State
from mercer._runtime.validation import column_indices, float_type
from mercer.designs import Dense, Design
from mercer.maps.base import FeatureMap
from mercer.maps.products import Groups, ProductForm

__all__ = ["Endless", "Excerpt", "FeatureSequence", "Members", "feature_sequence"]

_LAST = 2**53  # largest index: larger ones are not exact as float64 in a model file


class FeatureSequence(FeatureMap):
    """A map whose features are members of an endless sequence of random functions.

    A feature follows from the key and its place in the sequence alone, so that those beyond
    ``n_components`` are as well defined as those before.
    """

    def stream(self, X: Matrix, first: int, count: int) -> tuple[FeatureSequence, Design]:
        """Features of the sequence that this map is the start of, fitted to X, and their design.

        ``first`` and ``count`` are places: columns or, for maps whose columns come in grids, grids.
        Maps whose columns depend on their number, or on each other, raise a ValueError.
        """
        raise ValueError(_no_sequence(self))

    def excerpt(self, columns: ArrayLike) -> Self:
        """The map of increasing ``columns`` of a ``stream``, which stores what they need alone."""
        raise ValueError(f"feature_map must come from stream(); got {self!r}.")

    def followed_by(self, other: Any) -> Self:
        """The columns of this excerpt, then those of another one of the same fitted map."""
        raise ValueError(f"feature_map must come from stream(); got {self!r}.")

    def tidied(self) -> tuple[Self, NDArray[np.int64]]:
        """An excerpt with its columns in the order that is quickest to compute, and that order."""
        return self, np.arange(self.n_features_out_)

    def addresses(self) -> NDArray:
        """(D, m) integers, by which every column of an excerpt differs from all of the sequence."""
        raise ValueError(f"feature_map must come from stream(); got {self!r}.")


class Excerpt(FeatureSequence):
    """A few features of a sequence: their design holds them."""

    def bytes_per_row(self, dtype: DTypeLike) -> float:
        # Features, and what maps use to make them.
        return 8.0 * self.n_features_in_ + 24.0 * self.n_features_out_

    def _design(self, X: Data) -> Design:
        return Dense(self._transform(X), self._n_jobs)


def feature_sequence(feature_map: FeatureMap) -> FeatureSequence:
    """The map itself if its features are those of a sequence; else a ValueError."""
    if not isinstance(feature_map, FeatureSequence):
        raise ValueError(_no_sequence(feature_map))
    return feature_map


def _no_sequence(feature_map: Any) -> str:
    stated = " ".join(repr(feature_map).split())  # several lines of some maps
    return (
        "feature_map must be an endless sequence of random functions with scale=False, such as "
        f"RandomFourier, RandomBinning or RandomPerceptron; got {stated}."
    )


class Endless(FeatureSequence):
    """A map whose raw columns are functions of the key and their place alone, without an end.

    ``_block`` then takes any places, also those beyond ``n_features_out_``.
    """

    n_components: int
    _scale_: bool

    def product_form(self, coef: NDArray, groups: Groups, background: Matrix) -> ProductForm | None:
        return self._form_at(np.arange(self.n_features_out_), coef, groups)

    def _form_at(
        self, places: NDArray[np.int64], coef: NDArray, groups: Groups
    ) -> ProductForm | None:
        """``product_form`` of the features at some places of the sequence."""
        return None

    def stream(self, X: Matrix, first: int, count: int) -> tuple[FeatureSequence, Design]:
        self._check_fitted()
        if self._scale_:
            return super().stream(X, first, count)
        part = Members.of(self, np.arange(first, first + count))
        return part, part.design(X)


class Members(Excerpt):
    """Features at given indices of the endless sequence of a map.

    The map stores the key of the sequence and the indices, not the other features.

    Parameters
    ----------
    feature_map : FeatureMap
        Map with ``scale=False``, in which each column has its own stream of random numbers.
    places : array of int of shape (b,)
        Indices of the features, >= 0, in any order and without an upper limit.

    Attributes
    ----------
    base_ : FeatureMap
        Fitted map of the sequence.
    n_features_out_ : int
        Number of features b.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.maps import Members, RandomFourier
    >>> X = np.eye(3)
    >>> fourier = RandomFourier(n_components=4, scale=False, random_state=0)
    >>> two = Members(fourier, [3, 10**9]).fit(X)
    >>> bool((two.transform(X)[:, 0] == fourier.fit_transform(X)[:, 3]).all())
    True
    """

    _fitted_by: ClassVar[str] = "base_"

    def __init__(self, feature_map: Any, places: ArrayLike):
        self.feature_map = feature_map
        self.places = places

    @classmethod
    def of(cls, fitted: FeatureMap, places: NDArray[np.int64]) -> Self:
        """The members at ``places`` of a fitted map."""
        members = cls(fitted, places)
        members._adopt(fitted)
        return members

    def _fit(self, X: Data) -> None:
        if not isinstance(self.feature_map, Endless) or self.feature_map.scale:
            raise ValueError(
                "feature_map must be an endless sequence of random functions with scale=False; "
                f"got {self.feature_map!r}."
            )
        self._adopt(clone(self.feature_map).fit(X))

    def _adopt(self, fitted: FeatureMap) -> None:
        self.base_ = fitted
        self._places = column_indices(self.places, _LAST, "places")
        self.n_features_in_ = fitted.n_features_in_

    @property
    def n_features_out_(self) -> int:  # type: ignore[override]
        return len(self._places)

    def _check_state(self) -> None:
        state = State(self)
        base = state.instance("base_", Endless)
        base._check_state()
        state.check("base_", "have scale=False", not base._scale_)
        state.array("_places", (None,), "l", 0, _LAST - 1)
        d = base.n_features_in_
        state.check("n_features_in_", f"be {d}", state.integer("n_features_in_") == d)

    def stream(self, X: Matrix, first: int, count: int) -> tuple[FeatureSequence, Design]:
        return self.base_.stream(X, first, count)

    def product_form(self, coef: NDArray, groups: Groups, background: Matrix) -> ProductForm | None:
        return self.base_._form_at(self._places, coef, groups)

    def excerpt(self, columns: ArrayLike) -> Members:
        return Members.of(self.base_, self._places[np.asarray(columns, dtype=np.int64)])

    def followed_by(self, other: Members) -> Members:
        return Members.of(self.base_, np.concatenate([self._places, other._places]))

    def addresses(self) -> NDArray[np.int64]:
        return self._places[:, None]

    def stated_kernel(self) -> Any:
        return self.feature_map.stated_kernel()

    def _drawn_key(self) -> int:
        return self.base_.key_

    def _block(self, X: Matrix, columns: NDArray[np.int64]) -> NDArray:
        if not len(columns):
            return np.empty((X.shape[0], 0), dtype=float_type(X))
        return self.base_._block(X, self._places[columns])

    @property
    def _n_jobs(self) -> int | None:
        return self.base_._n_jobs
