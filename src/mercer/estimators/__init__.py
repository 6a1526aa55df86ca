"""Estimators: a feature map, a loss, a penalty and a solver behind scikit-learn's interface."""

from typing import TYPE_CHECKING, Any

from mercer.estimators.classification import KernelClassifier
from mercer.estimators.doubly import DoublySGDClassifier, DoublySGDRegressor
from mercer.estimators.dual import DualKernelSVC
from mercer.estimators.regression import KernelRegressor
from mercer.estimators.scales import GradientScaler
from mercer.estimators.sparse_models import SparseKernelClassifier, SparseKernelRegressor

if TYPE_CHECKING:
    from mercer.estimators.auto import AutoKernelClassifier, AutoKernelRegressor

__all__ = [
    "AutoKernelClassifier",
    "AutoKernelRegressor",
    "DoublySGDClassifier",
    "DoublySGDRegressor",
    "DualKernelSVC",
    "GradientScaler",
    "KernelClassifier",
    "KernelRegressor",
    "SparseKernelClassifier",
    "SparseKernelRegressor",
]


def __getattr__(name: str) -> Any:
    # The automatic models are made of these estimators, so they cannot be imported before them.
    if name in __all__:
        from mercer.estimators import auto

        return getattr(auto, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
