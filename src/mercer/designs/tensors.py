"""Designs of rows that are on a device already."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike

from mercer._device_array import DeviceArray, on_host
from mercer._state import Checked

__all__ = ["CheckedOnDevice", "design_of"]


def design_of(map_: Any, X: DeviceArray, dtype: DTypeLike) -> Any | None:
    """The design of a fitted map for rows on the device in force; None if that is on the host."""
    map_._check_fitted()
    design = map_._design(map_._taken(np.zeros((1, X.shape[1]), dtype=dtype), reset=False))
    if getattr(design, "device", None) != X.device or not hasattr(design, "with_rows"):
        return None
    return design.with_rows(X.astype(dtype, copy=False).tensor)


class CheckedOnDevice(Checked):
    """A base of maps: rows that are on a device stay there, and so do their features."""

    _predicts_on_device: ClassVar[bool] = True

    def _transform_on_device(self: Any, X: DeviceArray) -> Any:
        """``transform`` of rows on the device in force; of what is wrong with them on the host."""
        self._check_fitted()
        is_sound = X.ndim == 2 and X.shape[1] == self.n_features_in_ and len(X) > 0
        if is_sound and X.dtype in (np.float32, np.float64) and np.isfinite(X).all():
            design = design_of(self, X, X.dtype)
            if design is not None and not hasattr(design, "codes"):  # which stand for CSR
                columns = np.arange(design.shape[1])
                return DeviceArray(design.block_on_device(columns), X.device)
        return self.transform(on_host(X))
