"""The data sets of the study: scaled inputs, responses in [0, 1], and the widths of kernels."""

from __future__ import annotations

import time
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold, StratifiedKFold

from mercer import datasets, kernels, maps
from mercer.compare.metrics import scores
from mercer.compare.records import quiet
from mercer.estimators import KernelClassifier, KernelRegressor
from mercer.maps import FeatureMap
from mercer_studies import sources
from mercer_studies.inputs import scaled
from mercer_studies.sources import drawn, remembered

_EXPONENTS = range(-5, 5)  # γ is 2 to such a power, times the kernel's own "scale"
_FOLDS = 5


@dataclass(frozen=True)
class Source(sources.Source):
    """One data set as the study declares it."""

    inputs: str = "[0,1]"
    _: KW_ONLY
    table: int  # the table that it belongs to: 1 has regressions, 2 has classes

    @property
    def stands_in(self) -> bool:
        """Whether the rows are others than the paper's."""
        if self.is_generated:
            return False
        known = datasets.describe(self.name)
        return known.stand_in_for is not None and not known.is_sample


@dataclass(frozen=True)
class Subset:
    """Some rows, scaled: classes are ±1, responses of a regression lie in [0, 1]."""

    X: NDArray
    y: NDArray
    X_test: NDArray
    y_test: NDArray


@dataclass(frozen=True)
class Width:
    """The γ of a kernel, and how it was found."""

    gamma: float | None  # none for a kernel without
    multiple: float | None = None  # γ as a multiple of the kernel's "scale"
    error: float | None = None  # in cross-validation
    seconds: float = 0.0


class Loaded(sources.Loaded):
    """A data set as the runs want it: what several of them share is worked out once."""

    @remembered
    def subset(self, rows: int | None, test_rows: int | None) -> Subset:
        """Random training and test rows, scaled by the training rows."""
        parts = self._some(rows, test_rows)
        X, X_test = scaled(parts.X_train, parts.X_test, self.source.inputs)
        y, y_test = self._responses(parts.y_train, parts.y_test)
        return Subset(X.astype(np.float32), y, X_test.astype(np.float32), y_test)

    @remembered
    def width(self, kernel: str, rows: int | None, fitted: int, size: int) -> Width:
        """γ of a kernel by cross-validation with random features, on some of the training rows.

        Rows of a series are taken in their order, so that the folds are blocks of it.
        """
        if kernel == "perceptron":
            return Width(None)
        some = self.subset(rows, 1)
        chosen = drawn(self._parts.X_train.shape[0], rows)[:fitted]
        order = np.argsort(chosen) if self._data.is_series else np.arange(len(chosen))
        X, y = some.X[order], some.y[order]
        since = time.perf_counter()
        scale = float(kernels.get(kernel).resolve(some.X).gamma)
        with quiet():  # what a worse width warns of is nobody's concern
            errors = {i: self._error(kernel, scale * 2.0**i, X, y, size) for i in _EXPONENTS}
        best = min(errors, key=lambda i: errors[i])
        seconds = time.perf_counter() - since
        return Width(scale * 2.0**best, 2.0**best, errors[best], seconds)

    def _error(self, kernel: str, gamma: float, X: NDArray, y: NDArray, size: int) -> float:
        """Mean error over the folds; those of a series are not mixed."""
        series = self._data.is_series
        folds = KFold if series or self.task == "regression" else StratifiedKFold
        parts = folds(_FOLDS, shuffle=not series, random_state=None if series else 0)
        errors = []
        for kept, held in parts.split(X, y):
            map_ = feature_map(kernel, gamma, size, 0, self.n_jobs)
            model = dense_model(map_, self.task, len(kept), self.n_jobs).fit(X[kept], y[kept])
            found = scores(self.task, y[held], model.predict(X[held]))
            errors.append(found.get("relative_rmse", 1.0 - found.get("accuracy", 0.0)))
        return float(np.mean(errors))

    def _responses(self, y: NDArray, y_test: NDArray) -> tuple[NDArray, NDArray]:
        if self.task == "regression":
            low, high = float(y.min()), float(y.max())
            both = [(np.asarray(part, np.float64) - low) / (high - low) for part in (y, y_test)]
            return both[0], both[1]
        last = np.unique(self._parts.y_train)[-1]
        return np.where(y == last, 1.0, -1.0), np.where(y_test == last, 1.0, -1.0)


def load(source: Source, n_jobs: int | None = None) -> Loaded:
    """The rows of a source."""
    data = source.data()
    return Loaded(source, data, data.split(source.test_share), n_jobs)


def feature_map(
    kernel: str, gamma: float | None, size: int, seed: int, n_jobs: int | None
) -> FeatureMap:
    """Random functions whose mean product is the kernel: cosines, or perceptrons."""
    if kernel == "perceptron":
        return maps.RandomPerceptron(size, random_state=seed, n_jobs=n_jobs)
    width = "scale" if gamma is None else gamma
    return maps.RandomFourier(kernel, width, size, random_state=seed, n_jobs=n_jobs)


def dense_model(map_: FeatureMap, task: str, n_rows: int, n_jobs: int | None) -> Any:
    """Random features with an l2 penalty, n λ = 1: closed form, or Newton's method.

    >>> dense_model(feature_map("perceptron", None, 8, 0, 1), "regression", 50, 1).alpha
    0.02
    """
    common: dict[str, Any] = {"alpha": 1.0 / n_rows, "scale": False, "n_jobs": n_jobs}
    if task == "regression":
        return KernelRegressor(map_, loss="squared", solver="cholesky", **common)
    return KernelClassifier(map_, loss="squared_hinge", solver="newton-cg", tol=1e-3, **common)
