"""The base of maps of random grids: what grids are made of, drawn when it is used, not stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer import kernels
from mercer._runtime.random import Slot, Streams
from mercer.kernels.groups import OfVarying
from mercer.maps.members import FeatureSequence

__all__ = ["RandomGrids"]

_PARAMETER_BYTES = 24  # bytes of inverse width, shift and multipliers per input and grid
_BATCH_BYTES = 64 * 2**20  # bytes of parameters of the grids drawn together


class RandomGrids(FeatureSequence):
    """Grids of a product kernel, numbered without end; ``n_bins_`` has an entry for each of a map.

    Grids of an excerpt are those at ``_places`` of the sequence.
    """

    draws_inputs = True
    n_bins_: NDArray[np.int64]
    kernel_: Any
    key_: int

    @property
    def _n_grids(self) -> int:
        return len(self.n_bins_)

    def _grid_places(self) -> NDArray[np.int64]:
        """Places of the grids of this map in the sequence."""
        return self.__dict__.get("_places", np.arange(self._n_grids))

    def _parameters(self, first: int, stop: int) -> tuple[NDArray, NDArray, NDArray]:
        """Inverse widths, shifts and multipliers of grids first..stop-1, each (grids, d).

        A code is floor(x / width - shift) and the shift is uniform on [0, 1).
        """
        if self._n_grids > self._grids_at_once:
            return self._inverted(first, stop)
        inverse_widths, shifts, multipliers = self._grids
        return inverse_widths[first:stop], shifts[first:stop], multipliers[first:stop]

    @property
    def _grids(self) -> tuple[NDArray, NDArray, NDArray]:
        """The parameters of all grids, drawn once and never stored."""
        places = self._places.tobytes() if "_places" in vars(self) else None
        description = self.key_, self.kernel_, self.n_features_in_, self._n_grids, places
        return self._remembered(description, lambda: self._inverted(0, self._n_grids))

    def _inverted(self, first: int, stop: int) -> tuple[NDArray, NDArray, NDArray]:
        widths, shifts, multipliers = self._drawn(first, stop)
        return np.ascontiguousarray(1.0 / widths), shifts, multipliers

    def _drawn(self, first: int, stop: int) -> tuple[NDArray, NDArray, NDArray]:
        """Widths, shifts and multipliers of grids first..stop-1, each (grids, d).

        Copies of the map at other scales differ in the widths alone, and there by a factor: if
        all grids are drawn at once, they are drawn once for all copies.
        """
        d, kernel = self.n_features_in_, self.kernel_.unscaled
        streams = Streams(self.key_, self._grid_places()[first:stop])

        def draw(widths: Callable[..., NDArray]) -> tuple[NDArray, NDArray, NDArray]:
            sampled = widths(streams, d)
            if not isinstance(kernel, OfVarying):
                return sampled, streams.uniform(d, Slot.SHIFT), streams.bits(d, Slot.MULTIPLIER)
            own, n_own = kernel.places, len(kernel.columns)
            shifts = np.zeros((len(streams), d))
            multipliers = np.ones((len(streams), d), dtype=np.uint64)
            shifts[:, own] = streams.uniform(n_own, Slot.SHIFT)
            multipliers[:, own] = streams.bits(n_own, Slot.MULTIPLIER)
            return sampled, shifts, multipliers

        if not isinstance(kernel, kernels.Stationary):
            return draw(kernel.widths)
        shared = self._is_settled() and "_places" not in self.__dict__
        if shared and (first, stop) == (0, self._n_grids):
            description = self.key_, kernel.with_gamma(1.0), len(streams), d
            drawn = self._draws.remembered(description, lambda: draw(kernel.unit_widths))
        else:
            drawn = draw(kernel.unit_widths)
        widths, shifts, multipliers = drawn
        with np.errstate(over="ignore"):  # of a gamma near 0: one bin holds all rows
            return widths / kernel.input_scale(d), shifts, multipliers

    def _batches(self, first: int, stop: int) -> Iterator[tuple[int, int]]:
        """Grids in groups whose parameters fit the working memory."""
        for start in range(first, stop, self._grids_at_once):
            yield start, min(stop, start + self._grids_at_once)

    @property
    def _grids_at_once(self) -> int:
        fitting = _BATCH_BYTES // (_PARAMETER_BYTES * max(1, self.n_features_in_))
        return max(4, fitting // 4 * 4)  # the core sums over grids by fours
