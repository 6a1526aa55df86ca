"""The base of maps of features +1 and -1: parameters of each, and rows in chunks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mercer._array import n_threads, row_chunks
from mercer._state import State
from mercer._validation import flag, positive_integer
from mercer.maps.members import Endless

__all__ = ["Cuts", "Signs"]

# Cuts by a plane or a threshold: below(X) says for rows X and each feature on which side they are.
Cuts = Callable[[Any], NDArray[np.bool_]]

_CHUNK_BYTES = 4 * 2**20  # bytes of rows of a chunk, which is passed over several times
_PARAMETER_BYTES = 64 * 2**20  # bytes of parameters of the features that are made together


@dataclass(eq=False, repr=False)
class Signs(Endless):
    """Features ±1, each from a stream of random numbers of its own."""

    _: KW_ONLY
    scale: bool = True
    random_state: Any = None
    n_jobs: int | None = None

    _kept_settings: ClassVar[tuple[str, ...]] = ("scale",)
    kernel_: Any = field(init=False)

    def _fit(self, X: Any) -> None:
        n_components = positive_integer(self.n_components, "n_components")
        flag(self.scale, "scale")
        n_threads(self.n_jobs)
        self.key_ = self._drawn_key()
        self._fit_kernel(X)
        self.n_features_out_ = n_components
        self._remember()

    def _check_state(self) -> None:
        super()._check_state()
        self._check_kernel()
        state = State(self)
        state.integer("n_features_out_", 1)
        state.flag("_scale_")

    def _transform(self, X: Any) -> NDArray:
        self._check_transformed_memory(X)
        kept = self._remember()
        if kept is None:
            return self._block(X, np.arange(self.n_features_out_))
        out = np.empty((X.shape[0], self.n_features_out_), dtype=X.dtype)
        self._write(X, kept, out)
        return out

    def _block(self, X: Any, columns: NDArray[np.int64]) -> NDArray:
        out = np.empty((X.shape[0], len(columns)), dtype=X.dtype)
        for part in row_chunks(len(columns), self._bytes_of_cuts(), _PARAMETER_BYTES):
            self._write(X, self._cuts(columns[part]), out[:, part])
        return out

    def _remember(self) -> Cuts | None:
        """The parameters of all features where they are small: drawn once, and never stored."""
        if self._bytes_of_cuts() * self.n_features_out_ > _PARAMETER_BYTES:
            return None
        what = self.key_, self.kernel_, self.n_features_out_, self.n_features_in_
        return self._remembered(
            (*what, *self._box()), lambda: self._cuts(np.arange(self.n_features_out_))
        )

    def _box(self) -> tuple[bytes, ...]:
        """Fitted numbers that parameters follow from besides kernel and key."""
        return ()

    def _write(self, X: Any, below: Cuts, out: NDArray) -> None:
        entry = out.dtype.type(self.n_features_out_**-0.5 if self._scale_ else 1.0)
        minus_two = -2 * entry
        bytes_per_row = 10.0 * out.shape[1] + 8.0 * self.n_features_in_
        for rows in row_chunks(X.shape[0], bytes_per_row, _CHUNK_BYTES):
            np.multiply(below(X[rows]), minus_two, out=out[rows])
            out[rows] += entry

    # What a subclass says.

    def _fit_kernel(self, X: Any) -> None:
        """Set ``kernel_`` and what else follows from the data."""
        raise NotImplementedError

    def _cuts(self, columns: NDArray[np.int64]) -> Cuts:
        """On which side of these features rows are, (rows, len(columns))."""
        raise NotImplementedError

    def _bytes_of_cuts(self) -> float:
        """Bytes that the parameters of one feature take."""
        raise NotImplementedError
