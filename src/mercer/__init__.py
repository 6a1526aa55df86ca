"""Kernel machines at the cost of linear models.

A kernel defines a map; a map applied to data is a design; a design with a loss and a penalty is a
problem; a solver solves problems; an estimator names the choices.
"""

from importlib.metadata import PackageNotFoundError, version

from mercer.estimators import KernelClassifier, KernelRegressor

__all__ = ["KernelClassifier", "KernelRegressor"]

try:
    __version__ = version("mercer")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"
