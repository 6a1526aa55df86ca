"""A user's file that ``mypy --strict`` accepts: the public names with their types."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer import (
    AutoKernelClassifier,
    AutoKernelRegressor,
    DoublySGDClassifier,
    DualKernelSVC,
    GradientScaler,
    KernelClassifier,
    KernelRegressor,
    LeftOutScaler,
    LocalKernelRegressor,
    SparseKernelClassifier,
    TablePreparer,
    config_context,
    datasets,
    designs,
    diagnostics,
    kernels,
    losses,
    maps,
    penalties,
    persistence,
    solvers,
)
from mercer.problem import Problem

Array = NDArray[Any]


def labels(path: str) -> Array:
    """A classifier, fitted, saved and read again."""
    letter = datasets.load("letter")
    model = KernelClassifier(maps.RandomBinning(64, random_state=0), loss="logistic")
    model = model.fit(letter.X, letter.y, sample_weight=np.ones(len(letter.y)))
    assert letter.X_test is not None
    persistence.save(model, path, target="letter")
    probabilities: Array = model.predict_proba(letter.X_test)
    again: KernelClassifier = persistence.load(path)
    return again.predict(letter.X_test[probabilities[:, 0] > 0])


def numbers(X: NDArray[np.float64], y: NDArray[np.float64]) -> list[Array]:
    """Regressors of every kind."""
    path = KernelRegressor("exact", gamma=1.0, alphas=[1e-3, 1.0]).fit(X, y).at_alpha(1.0)
    local = LocalKernelRegressor(leaf_size=100).fit(X, y)
    automatic = AutoKernelRegressor(time_budget=10.0, random_state=0).fit(X, y)
    return [path.predict(X), local.predict(X), automatic.predict(X)]


def classes(X: NDArray[np.float64], y: NDArray[np.int64]) -> list[Array]:
    """Classifiers of every kind."""
    return [
        AutoKernelClassifier().fit(X, y).predict_proba(X),
        SparseKernelClassifier().fit(X, y).decision_function(X),
        DoublySGDClassifier().partial_fit(X, y, classes=[0, 1]).predict(X),
        DualKernelSVC().fit(X, y).predict(X),
    ]


def parts(X: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """Maps, kernels, designs, problems and solvers by themselves."""
    Z = maps.Nystroem(n_components=5).fit(TablePreparer().fit(X, y).transform(X)).transform(X)
    scaled = GradientScaler().fit(X, y).transform(X)
    scaled += LeftOutScaler().fit(X, y).transform(X)
    problem = Problem(designs.Dense(Z), y, losses.Squared(), penalties.L2(0.1))
    with config_context(max_memory="1GB"):
        result = solvers.ConjugateGradient(tol=1e-8).solve(problem)
    error = diagnostics.kernel_error((kernels.Gaussian(0.1), scaled), maps.RandomFourier().fit(X))
    return float(result.coef.sum() + error.spectral)
