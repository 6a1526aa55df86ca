"""Automatic choice of treatment, scales, kernel and strength, on raw tables."""

from mercer.auto.means import MeanClassifier, MeanRegressor
from mercer.auto.models import AutoKernelClassifier, AutoKernelRegressor
from mercer.auto.targets import LogTargetRegressor

__all__ = [
    "AutoKernelClassifier",
    "AutoKernelRegressor",
    "LogTargetRegressor",
    "MeanClassifier",
    "MeanRegressor",
]
