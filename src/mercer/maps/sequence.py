"""Maps that are the start of an endless sequence of random functions, and excerpts of it."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer.designs import Dense, Design
from mercer.maps.base import FeatureMap

__all__ = ["Excerpt", "FeatureSequence", "feature_sequence"]


class FeatureSequence(FeatureMap):
    """A map whose features are members of an endless sequence of random functions.

    A feature follows from the key and its place in the sequence alone, so that those beyond
    ``n_components`` are as well defined as those before.
    """

    def stream(self, X: Any, first: int, count: int) -> tuple[FeatureSequence, Design]:
        """Features of the sequence that this map is the start of, fitted to X, and their design.

        Parameters
        ----------
        X : array or CSR of shape (n, d)
        first, count : int
            Which places: columns or, for maps whose columns come in grids, grids.

        Raises
        ------
        ValueError
            If the columns of the map depend on their number, or on each other.
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

    def bytes_per_row(self, dtype: Any) -> float:
        # Features, and what maps use to make them.
        return 8.0 * self.n_features_in_ + 24.0 * self.n_features_out_

    def _design(self, X: Any) -> Design:
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
