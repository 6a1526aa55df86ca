"""Where an estimator computes: the device of its ``device``, or the one in force."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mercer._runtime.config import config_context
from mercer._runtime.devices import device_named
from mercer._runtime.messages import shown
from mercer.designs import Design

__all__ = ["device_of", "on_device", "on_device_if_there"]


@contextmanager
def on_device(device: Any) -> Iterator[None]:
    """Put an estimator's device in force; None leaves the one that is."""
    if device is None:
        yield
        return
    with config_context(device=device):
        yield


@contextmanager
def on_device_if_there(device: Any) -> Iterator[None]:
    """Compute a block on a device, or on the processor if this machine lacks the device."""
    try:
        device_named(device)
    except (ImportError, ValueError):
        device = "cpu"
    with on_device(device):
        yield


def device_of(design: Design, asked: Any) -> str:
    """Name of the device of a design, "cpu" for the processor; a ValueError if another is asked."""
    device = getattr(design, "device", None)
    if device is None and asked is not None and device_named(asked) is not None:
        raise ValueError(
            "device must be None or 'cpu' for this feature_map and these rows: devices have exact "
            "kernels, landmarks, cosines, binning, and the map 'tefm' of these, of rows that are "
            f"not sparse; got {shown(asked)}."
        )
    return "cpu" if device is None else device.name
