"""The base of maps of cosines: a column per frequency and phase, or a pair of columns."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer._runtime.arrays import Matrix, n_threads
from mercer._runtime.config import device_in_force
from mercer._runtime.devices import Device
from mercer._runtime.random import RandomStateLike, Slot, Streams
from mercer._runtime.rows import Data, PreparedRows, is_sparse
from mercer._runtime.state import State
from mercer._runtime.validation import column_indices, flag, name_from, positive_integer
from mercer.designs import Design
from mercer.kernels import Kernel
from mercer.maps.members import Endless
from mercer.maps.products import Groups, ProductForm, form_of_cosines

__all__ = ["CosineMap"]


@dataclass(eq=False, repr=False)
class CosineMap(Endless):
    """Cosines of random frequencies, as ``sqrt(2/D) cos(w.x + b)`` or pairs of cosine and sine.

    A subclass says ``_frequencies(streams)``, ``_features_of(X, streams)``, the columns of some
    frequencies in the order asked for, those of a pair side by side, and ``_all_drawn()``, which
    draws what all columns need.
    Frequency s is made from stream s of the key, and so is its phase.
    """

    kernel: str | Kernel = "gaussian"
    gamma: float | ArrayLike | str = "scale"
    n_components: int = 1000
    form: str = "phase"
    _: KW_ONLY
    scale: bool = True
    random_state: RandomStateLike = None
    n_jobs: int | None = None

    default_kernel: ClassVar[str] = "gaussian"
    _kept_settings: ClassVar[tuple[str, ...]] = ("form", "scale")
    _form_: str = field(init=False)

    def parameters(self, columns: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Frequencies (b, d) and phases (b,) of some columns, regenerated from the key.

        Column j is proportional to ``cos(frequencies[j] . x + phases[j])``. In the pair form
        columns 2s and 2s + 1 share a frequency, with phases 0 and -pi/2.
        """
        columns = column_indices(columns, self.n_features_out_)
        return self._frequencies(columns // self._per_stream), self._phases_of_columns(columns)

    def _fit(self, X: Data) -> None:
        n_components = positive_integer(self.n_components, "n_components")
        name_from(self.form, ("phase", "pair"), "form")
        flag(self.scale, "scale")
        n_threads(self.n_jobs)
        if self.form == "pair" and n_components % 2:
            raise ValueError(
                f"n_components must be even for form='pair', two columns per frequency; "
                f"got {n_components}."
            )
        self.kernel_ = self._resolved_kernel(X)
        self.key_ = self._drawn_key()
        self.n_features_out_ = n_components
        self._remember()  # says now if the kernel has no frequencies

    def _all_drawn(self) -> Any:
        raise NotImplementedError

    def _frequencies(self, streams: NDArray[np.int64]) -> NDArray[np.float64]:
        raise NotImplementedError

    def _remember(self) -> Any:
        """The parameters of all columns, drawn once and never stored."""
        settings = [getattr(self, f"_{name}_") for name in self._kept_settings]
        size = self.n_features_out_, self.n_features_in_
        return self._remembered((self.key_, self.kernel_, *size, *settings), self._all_drawn)

    def _check_state(self) -> None:
        super()._check_state()
        self._check_kernel()
        state = State(self)
        state.integer("n_features_out_", 1)
        state.one_of("_form_", ("phase", "pair"))
        state.flag("_scale_")
        even = self._form_ == "phase" or self.n_features_out_ % 2 == 0
        state.check("n_features_out_", "be even for pairs of columns", even)

    @property
    def _goes_by_rows(self) -> bool:
        return True

    def _design(self, X: Data) -> Design:
        device = self._device_for(X)
        if device is None:
            return super()._design(X)
        if isinstance(X, PreparedRows):
            X = X.together()
        from mercer.designs.on_device import DeviceCosines  # which few need

        frequencies, phases = self.parameters(np.arange(self.n_features_out_))
        return DeviceCosines(X, frequencies, phases, self._amplitude, device, self.n_jobs)

    def _device_for(self, X: Data) -> Device | None:
        return None if is_sparse(X) else device_in_force()

    def _form_at(self, places: NDArray[np.int64], coef: NDArray, groups: Groups) -> ProductForm:
        frequencies = self._frequencies(places // self._per_stream)
        phases = self._phases_of_columns(places)
        return form_of_cosines(frequencies, phases, self._amplitude * coef, groups)

    def _features_of(self, X: Matrix, streams: NDArray[np.int64]) -> NDArray:
        raise NotImplementedError

    def _block(self, X: Matrix, columns: NDArray[np.int64]) -> NDArray:
        if self._form_ == "phase":
            return self._features_of(X, columns)
        streams, place = np.unique(columns // 2, return_inverse=True)
        return self._features_of(X, streams)[:, 2 * place + columns % 2]

    @property
    def _per_stream(self) -> int:
        """Columns of a frequency."""
        return 2 if self._form_ == "pair" else 1

    @property
    def _n_streams(self) -> int:
        return self.n_features_out_ // self._per_stream

    @property
    def _amplitude(self) -> float:
        columns = self.n_features_out_ if self._scale_ else 1
        return float(np.sqrt(2.0 * self.kernel_.amplitude / columns))

    def _phases(self, streams: NDArray[np.int64]) -> NDArray[np.float64]:
        return 2.0 * np.pi * Streams(self.key_, streams).uniform(1, Slot.PHASE)[:, 0]

    def _phases_of_columns(self, columns: NDArray[np.int64]) -> NDArray[np.float64]:
        """Phases of columns as cosines; a sine is a cosine a quarter turn late."""
        if self._form_ == "phase":
            return self._phases(columns)
        return np.where(columns % 2, -0.5 * np.pi, 0.0)
