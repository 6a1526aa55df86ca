"""Contenders that take tables as they are: automatic models, and gradient boosting of others."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer.auto import AutoKernelClassifier, AutoKernelRegressor
from mercer.preparation import TableColumns, column_names, read
from mercer.preparation.calendar import days

__all__ = ["AUTOMATIC", "CONTENDERS", "RIVALS", "Contender", "TableCodes", "as_taken", "installed"]


@dataclass(frozen=True)
class Contender:
    """An estimator that chooses all by itself or has defaults, of a package that may be missing.

    >>> AUTOMATIC.estimator("regression", seed=0, n_jobs=1)
    AutoKernelRegressor(n_jobs=1, random_state=0)
    """

    name: str  # as in ``--methods`` and in the records
    label: str  # in tables and figures
    module: str = ""  # of the package that has it; "" for mercer
    prefix: str = ""  # of its classes' names, before Classifier and Regressor

    @property
    def is_rival(self) -> bool:
        """Whether it is another package's."""
        return bool(self.module)

    @property
    def is_installed(self) -> bool:
        """Whether it can be imported."""
        return not self.module or importlib.util.find_spec(self.module) is not None

    def load(self) -> None:
        """Import its package, which is no part of the time of a fit."""
        if self.module:
            importlib.import_module(self.module)

    def make(
        self, task: str, seed: int, categories: Sequence[Any] = (), n_jobs: int | None = None
    ) -> Any:
        """The estimator with its own defaults; ``categories`` names columns of a frame or array."""
        kind = "Classifier" if task == "classification" else "Regressor"
        settings: dict[str, Any] = {"random_state": seed}
        if n_jobs is not None:
            settings["thread_count" if self.name == "catboost" else "n_jobs"] = n_jobs
        if self.name == "lightgbm":
            settings |= {"verbose": -1}
        elif self.name == "xgboost" and categories:
            settings |= {"enable_categorical": True}
        elif self.name == "catboost":
            settings |= {"verbose": False, "allow_writing_files": False}
            settings |= {"cat_features": list(categories)}
        return getattr(importlib.import_module(self.module), f"{self.prefix}{kind}")(**settings)

    def estimator(self, task: str, *, seed: int, n_jobs: int | None) -> Any:
        """Unfitted estimator of raw tables: numbers, texts and dates."""
        if self.is_rival:
            return _OnCodes(self, task, seed, n_jobs)
        machine = AutoKernelClassifier if task == "classification" else AutoKernelRegressor
        return machine(random_state=seed, n_jobs=n_jobs)

    def cost(self, size: int | None, n: int, d: int, k: int) -> float:
        """Roughly the seconds of a fit, for the progress bar alone."""
        return 0.5 + 2e-4 * n if not self.is_rival else 0.3 + 3e-7 * n * d * k


AUTOMATIC = Contender("auto", "automatic")
RIVALS = {
    rival.name: rival
    for rival in (
        Contender("lightgbm", "LightGBM", "lightgbm", "LGBM"),
        Contender("xgboost", "XGBoost", "xgboost", "XGB"),
        Contender("catboost", "CatBoost", "catboost", "CatBoost"),
    )
}
"""Packages of gradient boosting by name."""

CONTENDERS = {AUTOMATIC.name: AUTOMATIC, **RIVALS}
"""All that take tables as they are, by name."""


def installed() -> tuple[str, ...]:
    """Names of the rivals whose packages are there."""
    return tuple(name for name, rival in RIVALS.items() if rival.is_installed)


def as_taken(model: Any, X: Any) -> Any:
    """Sparse rows in the type that a model takes: CatBoost knows no ``csr_array``."""
    if sparse.issparse(X) and type(model).__module__.startswith("catboost"):
        return sparse.csr_matrix(X)
    return X


class TableCodes:
    """Numbers in place of the texts and dates of a table, as boosting takes them.

    Labels become their places among those of the training rows, NaN where they are missing or were
    not met; dates become days; texts that stand for numbers or dates are read.

    >>> codes = TableCodes()
    >>> codes.fit(np.array([[2.0, "a"], [1.0, "b"]], dtype=object)).tolist()
    [[2.0, 0.0], [1.0, 1.0]]
    >>> codes.transform(np.array([[3.0, "c"], [None, "b"]], dtype=object)).tolist()
    [[3.0, nan], [nan, 1.0]]
    >>> codes.categories
    [1]
    """

    def fit(self, X: NDArray) -> NDArray[np.float64]:
        """Learn the labels of a table; returns its numbers, (n, d)."""
        columns = read(X, column_names(X))
        self._reading = columns.reading()
        self._labels = {
            place: {text: i for i, text in enumerate(labels.texts)}
            for place, labels in columns.labels.items()
        }
        self.categories = sorted(self._labels)
        return self._numbers(columns)

    def transform(self, X: NDArray) -> NDArray[np.float64]:
        """The numbers of other rows, (n, d)."""
        return self._numbers(read(X, column_names(X), self._reading))

    def _numbers(self, columns: TableColumns) -> NDArray[np.float64]:
        out = np.empty((columns.n_rows, len(self._reading.kinds)))
        out[:, columns.places] = columns.numbers
        for place, dates in columns.dates.items():
            out[:, place] = days(dates)
        for place, labels in columns.labels.items():
            known = self._labels[place]
            codes = labels.numbered(known).astype(np.float64)
            out[:, place] = np.where((codes >= 0) & (codes < len(known)), codes, np.nan)
        return out


class _OnCodes:
    """A rival behind what makes numbers of a table, and numbers of its classes."""

    def __init__(self, rival: Contender, task: str, seed: int, n_jobs: int | None):
        self._rival, self._task, self._seed, self._n_jobs = rival, task, seed, n_jobs
        self._codes: TableCodes | None = None

    def fit(self, X: Any, y: NDArray) -> _OnCodes:
        """Fit to a table of shape (n, d) and targets of shape (n,)."""
        if not sparse.issparse(X):
            self._codes = TableCodes()
            X = self._codes.fit(X)
        categories = [] if self._codes is None else self._codes.categories
        self._model = self._rival.make(self._task, self._seed, categories, self._n_jobs)
        extra: dict[str, Any] = {}
        if categories and self._rival.name == "lightgbm":
            extra["categorical_feature"] = categories
        elif categories and self._rival.name == "xgboost":
            kinds = ["c" if place in categories else "q" for place in range(X.shape[1])]
            self._model.set_params(feature_types=kinds)
        target = y
        if self._task == "classification":
            self._classes, target = np.unique(y, return_inverse=True)
        self._model.fit(self._taken(X), target, **extra)
        return self

    def predict_proba(self, X: Any) -> NDArray:
        """Probabilities of the classes, sorted, (n, k)."""
        return np.asarray(self._model.predict_proba(self._coded(X)))

    def predict(self, X: Any) -> NDArray:
        """Targets or classes, (n,)."""
        predicted = np.asarray(self._model.predict(self._coded(X)))
        if predicted.ndim == 2 and predicted.shape[1] == 1:  # CatBoost's classes
            predicted = predicted[:, 0]
        return self._classes[predicted.astype(int)] if self._task == "classification" else predicted

    def _coded(self, X: Any) -> Any:
        """The numbers that new rows are to the rival."""
        return self._taken(X if self._codes is None else self._codes.transform(X))

    def _taken(self, X: Any) -> Any:
        """Numbers as the rival takes them: CatBoost wants its categories as texts."""
        X = as_taken(self._model, X)
        if self._rival.name != "catboost" or self._codes is None or not self._codes.categories:
            return X
        cells = X.astype(object)
        for place in self._codes.categories:
            cells[:, place] = ["missing" if code != code else f"{code:.0f}" for code in X[:, place]]
        return cells
