"""Designs whose rows and products live on a device, by way of PyTorch."""

from mercer.designs.on_device.binned import DeviceBinned
from mercer.designs.on_device.cosines import DeviceCosines
from mercer.designs.on_device.features import DeviceFeatures
from mercer.designs.on_device.kernel import DeviceKernel, DeviceMatrix

__all__ = ["DeviceBinned", "DeviceCosines", "DeviceFeatures", "DeviceKernel", "DeviceMatrix"]
