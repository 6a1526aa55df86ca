"""The data sets of the study: what their responses are, how they are scaled, which rows serve."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.sparse.linalg import eigsh

from mercer import datasets
from mercer.compare.methods import Method
from mercer.compare.records import quiet
from mercer.compare.selection import Choice, Selection
from mercer.datasets import Dataset
from mercer.kernels import Gaussian
from mercer_studies import sources
from mercer_studies.inputs import scaled
from mercer_studies.sources import drawn, remembered
from mercer_studies.theory import spread_ratio


@dataclass(frozen=True)
class Source(sources.Source):
    """One data set as the study declares it; those with a name in the paper are in figure 1.

    ``column``: which of several responses is predicted; then the training part alone serves, and is
    parted at random.
    """

    paper_rows: int | None = None  # rows of its kernel matrix in the paper
    _: KW_ONLY
    data_name: str | None = None  # in ``mercer.datasets``; None: its own name
    column: int | None = None
    response: str = "as is"  # response that is predicted
    stand_in_for: str | None = None  # the set of the paper that it takes the place of
    test_share: float = 0.25

    @property
    def catalogue_name(self) -> str:
        return self.data_name or self.name

    @property
    def is_split(self) -> bool:
        return self.column is None


@dataclass(frozen=True)
class Subset:
    """Some rows, scaled; the test part is whole."""

    X: NDArray
    y: NDArray
    X_test: NDArray
    y_test: NDArray


LAM_N = 1.0
"""n λ of the regressions that theorem 3 is drawn for."""


@dataclass(frozen=True)
class Spectrum:
    """Constants of a kernel matrix K of n rows for the theorems."""

    norm: float  # ‖K‖
    ratio: float  # r of ``theory.spread_ratio``
    y: NDArray  # shape (n,), ranks of the responses, of several those of the first, standardised
    alpha: float  # λ
    least: float  # the least of ``λ/2 ‖w‖² + mean ½ (f(x_i) - y_i)²`` in the space of the kernel


class Loaded(sources.Loaded):
    """A data set as the runs want it: what several of them share is worked out once.

    ``parts``: its training and test rows.
    """

    source: Source

    @remembered
    def kernel_matrix(self, rows: int | None) -> tuple[Gaussian, NDArray, NDArray]:
        """The kernel, so many training rows drawn at random and scaled, and their kernel matrix.

        The width σ of the kernel is the median distance between rows: γ = 1/(2σ²).
        """
        X = self._parts.X_train[self._drawn(rows)]
        X = scaled(X, X[:1], self.source.inputs)[0]
        kernel = Gaussian(float(Gaussian("median").resolve(X).gamma) / 2)
        return kernel, X, kernel(X)

    @remembered
    def spectrum(self, rows: int | None) -> Spectrum:
        """Constants of that kernel matrix, and of ridge regression with it, for the theorems."""
        K = self.kernel_matrix(rows)[2]
        n = len(K)
        responses = self._parts.y_train[self._drawn(rows)]
        first = responses if responses.ndim == 1 else responses[:, 0]
        y = np.unique(first, return_inverse=True)[1]
        y = (y - y.mean()) / y.std()
        solved = linalg.solve(K + LAM_N * np.eye(n), y, assume_a="pos", overwrite_a=True)
        norm = float(eigsh(K, k=1, return_eigenvectors=False, v0=np.ones(n), tol=1e-6)[0])
        least = 0.5 * LAM_N / n * float(y @ solved)
        return Spectrum(norm, spread_ratio(K), y, LAM_N / n, least)

    @remembered
    def subset(self, rows: int | None) -> Subset:
        """Random training rows, and the test part, scaled by the training rows."""
        kept, parts = self._drawn(rows), self._parts
        X, X_test = scaled(parts.X_train[kept], parts.X_test, self.source.inputs)
        y, y_test = self._responses
        return Subset(X, y[kept], X_test, y_test)

    @remembered
    def choice(self, method: Method, rows: int | None, selection_rows: int) -> Choice:
        """γ and λ of a method at its reference size, by a validation part of the training rows."""
        some = self.subset(rows)
        limits: dict[str, Any] = {"max_rows": selection_rows, "n_jobs": self.n_jobs}
        selection = Selection(some.X, some.y, "regression", seed=0, scale=False, **limits)
        with quiet():  # what a worse choice warns of is nobody's concern
            return selection.choose(method)

    def _drawn(self, rows: int | None) -> NDArray[np.int64]:
        return np.sort(drawn(self._parts.X_train.shape[0], rows))

    @cached_property
    def _responses(self) -> tuple[NDArray, NDArray]:
        y, y_test = (np.asarray(y, np.float64) for y in (self._parts.y_train, self._parts.y_test))
        if self.source.response == "log(1 + y)":
            return np.log1p(y), np.log1p(y_test)
        centre = y.mean() if self.source.response == "from its mean" else 0.0
        return y - centre, y_test - centre


def load(source: Source, n_jobs: int | None = None) -> Loaded:
    """The rows of a source."""
    data = source.data()
    if source.column is not None:
        names = f"{data.name}, the training part and column {source.column} of its responses"
        data = Dataset(
            source.name,
            data.task,
            data.X,
            data.y[:, source.column],
            source=data.source,
            licence=data.licence,
            note=f"{names}. {data.note}",
            stand_in_for=source.stand_in_for,
        )
    if source.response != "as is":
        data = replace(data, note=f"Predicted is y as {source.response}. {data.note}".strip())
    return Loaded(source, data, data.split(source.test_share), n_jobs)


def is_at_hand(source: Source) -> bool:
    """Whether a data set can be read without fetching it."""
    if source.is_generated:
        return True
    where = datasets.describe(source.catalogue_name).where
    return where in ("shipped", "in the folder", "in the cache")
