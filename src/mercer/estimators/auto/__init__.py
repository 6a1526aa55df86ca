"""Automatic choice of treatment, scales, kernel and strength, on raw tables."""

from mercer.estimators.auto.models import AutoKernelClassifier, AutoKernelRegressor
from mercer.estimators.auto.targets import LogTargetRegressor

__all__ = ["AutoKernelClassifier", "AutoKernelRegressor", "LogTargetRegressor"]
