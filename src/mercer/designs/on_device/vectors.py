"""Vectors that come to a design on a device, and go back as they came."""

from __future__ import annotations

from typing import Any

from mercer._device import Device

__all__ = ["like_kind"]


def like_kind(tensor: Any, vector: Any, device: Device) -> Any:
    """A tensor as a tensor or an array, whichever ``vector`` is."""
    return tensor if type(vector).__module__ == "torch" else device.host(tensor)
