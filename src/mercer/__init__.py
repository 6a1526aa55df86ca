"""Kernel machines at the cost of linear models.

A kernel defines a map; a map applied to data is a design; a design with a loss and a penalty is a
problem; a solver solves problems; an estimator names the choices.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mercer._runtime.config import config_context, get_config, set_config

if TYPE_CHECKING:
    __version__: str
    from mercer.auto import AutoKernelClassifier, AutoKernelRegressor
    from mercer.estimators import (
        DoublySGDClassifier,
        DoublySGDRegressor,
        DualKernelSVC,
        GradientScaler,
        KernelClassifier,
        KernelRegressor,
        LeftOutScaler,
        SparseKernelClassifier,
        SparseKernelRegressor,
    )
    from mercer.preparation import TablePreparer

__all__ = [
    "AutoKernelClassifier",
    "AutoKernelRegressor",
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
    "TablePreparer",
    "config_context",
    "get_config",
    "set_config",
]

# Parts that ``import mercer`` leaves for when they are asked for.
_MODULES = (
    "auto",
    "compare",
    "dask",
    "datasets",
    "designs",
    "diagnostics",
    "distributed",
    "engines",
    "equations",
    "estimators",
    "explain",
    "kernels",
    "losses",
    "maps",
    "onnx",
    "persistence",
    "penalties",
    "plots",
    "preparation",
    "problem",
    "solvers",
    "statistics",
    "unsupervised",
)


def __getattr__(name: str) -> Any:
    # The estimators bring SciPy and scikit-learn along, for which ``mercer --help`` need not wait.
    if name == "__version__":
        return _version()
    if name in _MODULES:
        return import_module(f"mercer.{name}")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "auto" if name.startswith("Auto") else "estimators"
    home = "preparation" if name == "TablePreparer" else home
    return getattr(import_module(f"mercer.{home}"), name)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("mercer")
    except PackageNotFoundError:  # a source tree that was never installed
        return "0+unknown"


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES, "__version__"})
