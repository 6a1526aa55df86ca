"""The data sets of the study: scaled rows, ±1 or class numbers, and settings by validation."""

from __future__ import annotations

import time
import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from mercer import kernels
from mercer.datasets import Dataset, Split
from mercer.estimators import KernelClassifier, KernelRegressor
from mercer.kernels import Gaussian
from mercer.losses import Correntropy, Logistic, Loss, Squared
from mercer.maps import RandomFourier
from mercer.solvers import CoordinateDescent, PairwiseCD
from mercer_studies import sources
from mercer_studies.asydsskl.machines import dual_of, responses_of, selected
from mercer_studies.inputs import scaled
from mercer_studies.sources import remembered

ALPHAS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
STRENGTHS = (1.0, 10.0, 100.0)
_EXPONENTS = (-4, -2, 0, 2, 4)  # γ is 2 to such a power, times the kernel's own "median"
_FITTED = 0.75  # of the rows that settings are chosen on
_ROUGH = 1e-2  # relative duality gap while λ is chosen
_SIZE = 400  # features with which γ and λ are chosen


@dataclass(frozen=True)
class Source(sources.Source):
    """One data set as the study declares it.

    ``sample_of``: a larger set that the paper has instead, where the catalogue does not know of it.
    """

    inputs: str = "[0,1]"
    _: KW_ONLY
    task: str  # classes of a regression are predicted by their number, as in the paper
    replaces: str | None = None  # set of the paper that it replaces
    sample_of: str | None = None


@dataclass(frozen=True)
class Subset:
    """Some rows, scaled: classes are ±1, other targets have mean 0 and deviation 1.

    ``spread`` is the deviation that they had.
    """

    X: Any
    y: NDArray
    X_test: Any
    y_test: NDArray
    spread: float


@dataclass(frozen=True)
class Chosen:
    """Settings that serve all methods, and how long it took to find them.

    ``alpha``, ``alpha_squared``: λ of the sparse models, under the paper's loss and under squared
    loss.
    """

    gamma: float  # of the Gaussian kernel
    multiple: float  # γ as a multiple of the median rule's
    alpha: float
    alpha_squared: float
    C: float  # of the support vector machines; ``1 / (C n)`` is ν of doubly stochastic gradients
    seconds: float


class Loaded(sources.Loaded):
    """A data set as the runs want it: what several of them share is worked out once."""

    source: Source

    def __init__(self, source: Source, data: Dataset, parts: Split, n_jobs: int | None = None):
        super().__init__(source, data, parts, n_jobs)
        self.task = source.task

    @property
    def loss(self) -> Loss:
        """Loss of the paper: logistic for classes, correntropy for class numbers."""
        return Correntropy() if self.task == "regression" else Logistic()

    @remembered
    def subset(self, rows: int | None, test_rows: int | None) -> Subset:
        """Random training and test rows, scaled by the training rows."""
        parts = self._some(rows, test_rows)
        X, X_test = parts.X_train, parts.X_test
        if not sparse.issparse(X):
            X, X_test = scaled(X, X_test, self.source.inputs)
        y, y_test, spread = self._targets(parts.y_train, parts.y_test)
        X, X_test = (part.astype(np.float32) for part in (X, X_test))
        return Subset(X, y, X_test, y_test, spread)

    @remembered
    def chosen(self, rows: int | None, fitted: int) -> Chosen:
        """Settings by validation on some training rows: λ on all, γ and C on half of them."""
        some = self.subset(rows, 1)
        parts, few = _parted(some, fitted), _parted(some, fitted // 2)
        since = time.perf_counter()
        with warnings.catch_warnings():  # what worse settings warn of is nobody's concern
            warnings.simplefilter("ignore", ConvergenceWarning)
            gamma, multiple = self.width(rows, fitted)
            alpha = squared = self._alpha(parts, gamma, self.loss)
            if self.task == "regression":
                squared = self._alpha(parts, gamma, Squared())
            C = self._strength(few, gamma)
        seconds = time.perf_counter() - since
        return Chosen(gamma, multiple, alpha, squared, C, seconds)

    @remembered
    def width(self, rows: int | None, fitted: int) -> tuple[float, float]:
        """γ, and the same as a multiple of the median rule's."""
        return self._width(_parted(self.subset(rows, 1), fitted // 2))

    def describe(self) -> dict[str, Any]:
        """Entries of a record on the data."""
        source = self.source
        found = super().describe() | {"task": self.task}
        if sparse.issparse(self._parts.X_train):
            found["inputs"] = "as is"
        if source.replaces:
            found |= {"kind": "stand-in", "stand_in_for": source.replaces}
        elif source.sample_of:
            found |= {"kind": "sample", "stand_in_for": source.sample_of}
        return found

    def _width(self, parts: Subset) -> tuple[float, float]:
        """γ with which random features under an l2 penalty err least."""
        kernel: Any = kernels.get("gaussian", "median").resolve(parts.X)
        middle = float(kernel.gamma)
        estimator = KernelRegressor if self.task == "regression" else KernelClassifier
        errors = {}
        for i in _EXPONENTS:
            map_ = RandomFourier(
                "gaussian", middle * 2.0**i, _SIZE, random_state=0, n_jobs=self.n_jobs
            )
            model = estimator(
                map_, loss="squared", alpha=1e-4, scale=False, n_jobs=self.n_jobs
            ).fit(parts.X, parts.y)
            errors[i] = error_of(self.task, parts, model.predict(parts.X_test))
        best = min(errors, key=lambda i: errors[i])
        return middle * 2.0**best, 2.0**best

    def _alpha(self, parts: Subset, gamma: float, loss: Loss) -> float:
        """λ of the sparse model that errs least, from strong to weak, until that does not help."""
        inner = CoordinateDescent(tol=_ROUGH, max_iter=100, n_jobs=self.n_jobs)
        errors: dict[float, float] = {}
        found = None
        for alpha in ALPHAS:
            if found is not None:
                found.n_drawn = 0
            found = selected(parts.X, parts.y, gamma, loss, alpha, inner, _SIZE, 1, 0, start=found)
            errors[alpha] = error_of(self.task, parts, responses_of(found, parts.X_test))
            if errors[alpha] > 1.02 * min(errors.values()):
                break
        return min(errors, key=lambda alpha: errors[alpha])

    def _strength(self, parts: Subset, gamma: float) -> float:
        """C of the support vector machine that errs least."""
        solver = PairwiseCD(tol=1e-2, n_jobs=self.n_jobs, max_iter=50_000)
        kernel = Gaussian(gamma)
        machine = solver.prepare(kernel, parts.X)
        across = kernel(parts.X_test, parts.X)
        errors = {}
        for C in STRENGTHS:
            found = machine.solve(dual_of(self.task, parts.y, C))
            errors[C] = error_of(self.task, parts, across @ found.coef + found.intercept)
        return min(errors, key=lambda C: errors[C])

    def _targets(self, y: NDArray, y_test: NDArray) -> tuple[NDArray, NDArray, float]:
        if self.task == "regression":
            centre, spread = float(np.mean(y)), float(np.std(y)) or 1.0
            both = [(np.asarray(part, np.float64) - centre) / spread for part in (y, y_test)]
            return both[0], both[1], spread
        last = np.unique(self._parts.y_train)[-1]
        return np.where(y == last, 1.0, -1.0), np.where(y_test == last, 1.0, -1.0), 1.0


def error_of(task: str, some: Subset, responses: NDArray) -> float:
    """Mean squared error in the units that the targets came in, or the share of wrong classes."""
    if task == "regression":
        return float(some.spread**2 * np.mean((responses - some.y_test) ** 2))
    return float(np.mean(np.where(responses > 0, 1.0, -1.0) != some.y_test))


def score_of(task: str, some: Subset, error: float) -> dict[str, float]:
    """Entries of a record on an error: MSE and relative root of it, or accuracy."""
    if task == "classification":
        return {"accuracy": 1.0 - error}
    worst = some.spread**2 * float(np.mean(some.y_test**2))
    return {"relative_rmse": float(np.sqrt(error / worst)), "mse": error}


def load(source: Source, n_jobs: int | None = None) -> Loaded:
    """The rows of a source."""
    data = source.data()
    return Loaded(source, data, data.split(source.test_share), n_jobs)


def _parted(some: Subset, rows: int) -> Subset:
    """The first rows, three quarters to fit and a quarter to judge by."""
    X, y = some.X[:rows], some.y[:rows]
    cut = max(1, int(_FITTED * len(y)))
    return Subset(X[:cut], y[:cut], X[cut:], y[cut:], 1.0)
