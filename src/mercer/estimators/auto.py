"""The former address of :mod:`mercer.auto`, whose models stand above this package."""

from mercer.auto import AutoKernelClassifier, AutoKernelRegressor, LogTargetRegressor

__all__ = ["AutoKernelClassifier", "AutoKernelRegressor", "LogTargetRegressor"]
