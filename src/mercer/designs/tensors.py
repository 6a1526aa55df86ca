"""Designs of rows that are on a device already."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike

from mercer._runtime.device_arrays import DeviceArray, on_host
from mercer._runtime.state import Checked

__all__ = ["CheckedOnDevice", "example_of"]


def example_of(map_: Any, X: DeviceArray, dtype: DTypeLike) -> Any | None:
    """The design of a row of zeros, whose ``with_rows`` takes tensors like X; or None."""
    map_._check_fitted()
    design = map_._design(map_._taken(np.zeros((1, X.shape[1]), dtype=dtype), reset=False))
    is_there = getattr(design, "device", None) == X.device and hasattr(design, "with_rows")
    return design if is_there else None


class CheckedOnDevice(Checked):
    """A base of maps: rows that are on a device stay there, and so do their features."""

    _predicts_on_device: ClassVar[bool] = True

    def _transform_on_device(self: Any, X: DeviceArray) -> Any:
        """``transform`` of rows on the device in force; of what is wrong with them on the host."""
        self._check_fitted()
        is_sound = X.ndim == 2 and X.shape[1] == self.n_features_in_ and len(X) > 0
        if is_sound and X.dtype in (np.float32, np.float64) and np.isfinite(X).all():
            example = example_of(self, X, X.dtype)
            if example is not None and not hasattr(example, "codes"):  # which stand for CSR
                columns = np.arange(example.shape[1])
                design = example.with_rows(X.tensor)
                return DeviceArray(design.block_on_device(columns), X.device)
        return self.transform(on_host(X))
