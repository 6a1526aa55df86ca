"""Estimators: a feature map, a loss, a penalty and a solver behind scikit-learn's interface."""

from mercer.estimators.classification import KernelClassifier
from mercer.estimators.doubly import DoublySGDClassifier, DoublySGDRegressor
from mercer.estimators.dual import DualKernelSVC
from mercer.estimators.left_out_scales import LeftOutScaler
from mercer.estimators.local import LocalKernelClassifier, LocalKernelRegressor
from mercer.estimators.regression import KernelRegressor
from mercer.estimators.scales import GradientScaler
from mercer.estimators.sparse_models import SparseKernelClassifier, SparseKernelRegressor

__all__ = [
    "DoublySGDClassifier",
    "DoublySGDRegressor",
    "DualKernelSVC",
    "GradientScaler",
    "KernelClassifier",
    "KernelRegressor",
    "LeftOutScaler",
    "LocalKernelClassifier",
    "LocalKernelRegressor",
    "SparseKernelClassifier",
    "SparseKernelRegressor",
]
