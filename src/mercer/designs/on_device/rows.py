"""Designs of rows that are on a device already."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from mercer._device_array import DeviceArray

__all__ = ["design_of"]


def design_of(map_: Any, X: DeviceArray, dtype: DTypeLike) -> Any | None:
    """The design of a fitted map for rows on the device in force; None if that is on the host."""
    design = map_.design(np.zeros((1, X.shape[1]), dtype=dtype))
    if getattr(design, "device", None) != X.device or not hasattr(design, "with_rows"):
        return None
    return design.with_rows(X.astype(dtype, copy=False).tensor)
