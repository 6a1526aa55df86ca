"""The data sets of the study: rows or counts of n-grams, signs of classes, and settings chosen."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.preprocessing import normalize

from mercer import kernels
from mercer.datasets import DataError, Dataset, Split
from mercer.datasets.cache import VARIABLE, find_in_folder
from mercer.datasets.registry import Prepared
from mercer.kernels import Kernel, Linear
from mercer_studies import sources
from mercer_studies.inputs import GENERATED, scaled
from mercer_studies.sources import remembered

REVIEWS = "imdb-reviews"
ORDERS, STOP_WORDS = (1, 2, 3), "english"  # of n-grams of words
ALPHAS = tuple(10.0**-i for i in range(1, 7))
"""λ that settings are chosen from."""

_GENERATED_REVIEWS = "generated-reviews"
_EXPONENTS = (-4, -2, 0, 2)  # γ is 2 to such a power, times the kernel's own "median"
_FITTED = 0.75  # of the rows that settings are chosen on
_NEAR = 1.02  # of the least error: the strongest λ with as little is taken


@dataclass(frozen=True)
class Source(sources.Source):
    """One data set as the study declares it: a name, or ``REVIEWS``.

    N-grams are counted instead of scaled, and their counts have length 1. Data with a name in the
    paper stand in for what has it there. ``sample_of``: a larger set that it is a part of, where
    the catalogue does not know of it.
    """

    inputs: str = "standard"
    _: KW_ONLY
    task: str  # regressions are of stars: classes in order, judged by the error of the number
    sample_of: str | None = None

    @property
    def is_text(self) -> bool:
        """Whether rows are texts."""
        return self.name.endswith("reviews")

    def shape(self) -> tuple[int, int, int]:
        return (25_000, 25_000, 3_500_000) if self.name == REVIEWS else super().shape()

    def is_available(self) -> bool:
        if self.name != REVIEWS:
            return super().is_available()
        return all(find_in_folder(_review_file(part)) for part in ("train", "test"))


@dataclass(frozen=True)
class Subset:
    """Some rows as the systems take them.

    ``X``, ``X_test``: float32; of texts, counts of n-grams of length 1; ``Y``: shape (n,) or (n,
    k), ±1: a column for each class, or one for the second of two classes; ``y``, ``y_test``: places
    of the classes; ``texts``, ``texts_test``: what the counts are of.
    """

    X: Any
    X_test: Any
    Y: NDArray
    y: NDArray
    y_test: NDArray
    values: NDArray  # the numbers that classes stand for: stars
    texts: Any = None
    texts_test: Any = None

    def classes(self, responses: NDArray) -> NDArray:
        """Places of the classes that responses are largest for."""
        if responses.ndim == 1:
            return (responses > 0).astype(int)
        return np.argmax(responses, axis=1)

    def numbers(self, responses: NDArray) -> NDArray[np.float64]:
        """Mean of the numbers under the shares that responses stand for.

        A response to ±1 under squared loss estimates 2 P(class) - 1.
        """
        both = responses if responses.ndim == 2 else np.column_stack([-responses, responses])
        shares = np.maximum(both + 1.0, 1e-6)
        return np.asarray(shares @ self.values / shares.sum(axis=1), dtype=np.float64)


@dataclass(frozen=True)
class Chosen:
    """Settings that serve all methods."""

    kernel: Kernel
    gamma: float | None  # of the Gaussian kernel
    alpha: float  # λ


class Loaded(sources.Loaded):
    """A data set as the runs want it: what several of them share is worked out once.

    ``data``: of texts, without features.
    """

    source: Source

    @remembered
    def subset(self, rows: int | None, test_rows: int | None) -> Subset:
        """Random training and test rows, scaled or counted by the training rows."""
        parts = self._some(rows, test_rows)
        X, X_test = parts.X_train, parts.X_test
        values, y = np.unique(parts.y_train, return_inverse=True)
        y_test = np.searchsorted(values, parts.y_test)
        texts: tuple[Any, Any] = (None, None)
        if self.source.is_text:
            texts = X, X_test
            X, X_test = counted(X, X_test)
        else:
            X, X_test = scaled(X, X_test, self.source.inputs)
        X, X_test = (part.astype(np.float32) for part in (X, X_test))
        Y = _signs(y, len(values))
        return Subset(X, X_test, Y, y, y_test, values, *texts)

    @remembered
    def chosen(self, fitted: int) -> Chosen:
        """γ and λ with which the exact kernel on some training rows does well on others."""
        some = self.subset(fitted, 1)
        cut = int(_FITTED * len(some.y))
        tried = [
            (self._error_of(some, responses, some.y[cut:]), kernel, alpha)
            for kernel in self._kernels(some.X)
            for alpha, responses in _ridges(kernel, some.X, some.Y, cut)
        ]
        least = min(error for error, _, _ in tried)
        good = [one for one in tried if one[0] <= _NEAR * least]
        _, kernel, alpha = max(good, key=lambda one: one[2])
        gamma = getattr(kernel, "gamma", None)
        return Chosen(kernel, None if gamma is None else float(gamma), alpha)

    def strength(self, kernel: Kernel, fitted: int) -> float:
        """λ with which another kernel does best, on the same rows."""
        some = self.subset(fitted, 1)
        cut = int(_FITTED * len(some.y))
        ridges = _ridges(kernel, some.X, some.Y, cut)
        return min(ridges, key=lambda one: self._error_of(some, one[1], some.y[cut:]))[0]

    def error(self, some: Subset, responses: NDArray) -> float:
        """Error of test responses: share of wrong classes, or root mean square error of stars."""
        return self._error_of(some, responses, some.y_test)

    def likeliest(self, some: Subset, responses: NDArray) -> float | None:
        """The error of the stars with the largest response; None for classes."""
        if self.source.task == "classification":
            return None
        away = some.values[some.classes(responses)].astype(np.float64) - some.values[some.y_test]
        return float(np.sqrt(np.mean(away**2)))

    def score(self, some: Subset, error: float) -> dict[str, float]:
        """Entries of a record on an error."""
        if self.source.task == "classification":
            return {"accuracy": 1.0 - error}
        size = float(np.sqrt(np.mean(np.square(some.values[some.y_test], dtype=np.float64))))
        return {"relative_rmse": error / size, "rmse": error}

    def describe(self) -> dict[str, Any]:
        """Entries of a record on the data."""
        source = self.source
        found = super().describe() | {"task": source.task}
        if source.is_text:
            found |= {"inputs": "counts of n-grams", "d": None, "dtype": "text"}
        if not source.is_generated:
            if source.paper_name:
                found |= {"kind": "stand-in", "stand_in_for": source.paper_name}
            elif source.sample_of:
                found |= {"kind": "sample", "stand_in_for": source.sample_of}
        return found

    def _as_matrices(self) -> Split:
        parts = self._parts
        if not self.source.is_text:
            return parts
        X, X_test = parts.X_train[:, None], parts.X_test[:, None]
        return Split(X, parts.y_train, X_test, parts.y_test, parts.split_note)

    def _kernels(self, X: Any) -> list[Kernel]:
        if self.source.is_text:
            return [Linear()]
        kernel: Any = kernels.get("gaussian", "median").resolve(X)
        middle = float(kernel.gamma)
        return [kernels.Gaussian(middle * 2.0**i) for i in _EXPONENTS]

    def _error_of(self, some: Subset, responses: NDArray, truth: NDArray) -> float:
        if self.source.task == "classification":
            return float(np.mean(some.classes(responses) != truth))
        away = some.numbers(responses) - some.values[truth]
        return float(np.sqrt(np.mean(away**2)))


def counted(texts: NDArray, others: NDArray) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Counts of the n-grams of some texts, and of the same n-grams in others, of length 1.

    Their inner products are the kernel ``NGram(ORDERS, stop_words=STOP_WORDS)``, except that an
    n-gram which the first texts lack does not count for the length of another.
    """
    counter = CountVectorizer(
        ngram_range=(ORDERS[0], ORDERS[-1]), stop_words=STOP_WORDS, dtype=np.float32
    )
    first = counter.fit_transform(texts)
    both = (normalize(counts) for counts in (first, counter.transform(others)))
    train, test = (sparse.csr_array(counts) for counts in both)
    return train, test


def load(source: Source, n_jobs: int | None = None) -> Loaded:
    """The rows of a source."""
    if source.name == _GENERATED_REVIEWS:
        data, parts = _texts(source, *_made_up())
    elif source.is_text:
        data, parts = _texts(source, *_reviews())
    else:
        data = source.data()
        parts = data.split(source.test_share)
    return Loaded(source, data, parts, n_jobs)


def _review_file(part: str) -> Prepared:
    return Prepared(f"imdb_reviews_{part}.parquet")


def _reviews() -> tuple[list[NDArray], str]:
    """Texts and stars of the training part, then of the test part, and what to say of them."""
    found: list[NDArray] = []
    for part in ("train", "test"):
        path = find_in_folder(_review_file(part))
        if path is None:
            raise DataError(
                f"{REVIEWS} must be two files imdb_reviews_train.parquet and "
                "imdb_reviews_test.parquet with the columns text and stars, in the folder that "
                f"{VARIABLE} names; there is no imdb_reviews_{part}.parquet"
            )
        from pyarrow import parquet

        table = parquet.read_table(path, columns=["text", "stars"])
        found.append(np.array(table["text"].to_pylist(), dtype=object))
        found.append(table["stars"].to_numpy().astype(np.int64))
    return found, "Maas et al. (2011), Large Movie Review Dataset"


def _made_up() -> tuple[list[NDArray], str]:
    """Texts of words that go with one of four stars more than with others."""
    rng = np.random.default_rng(0)
    words = np.array([a + b + c for a in "bdfkl" for b in "aeiou" for c in "mnrst"])
    liked = rng.dirichlet(np.full(len(words), 0.3), size=4)
    found: list[NDArray] = []
    for n in GENERATED[:2]:
        stars = rng.integers(4, size=n)
        texts = [" ".join(rng.choice(words, size=20, p=liked[star])) for star in stars]
        found += [np.array(texts, dtype=object), stars + 1]
    return found, "generated"


def _texts(source: Source, parts: list[NDArray], home: str) -> tuple[Dataset, Split]:
    """Texts in the clothes of numbers: a data set without features describes them."""
    X, y, X_test, y_test = parts
    empty = np.zeros((len(y), 1), dtype=np.float32)
    data = Dataset(source.name, "regression", empty, y.astype(np.float64), source=home)
    note = f"official split, {len(y)} training and {len(y_test)} test texts"
    return data, Split(X, y, X_test, y_test, note)


def _signs(y: NDArray, n_classes: int) -> NDArray[np.float32]:
    if n_classes == 2:
        return np.where(y == 1, 1.0, -1.0).astype(np.float32)
    return np.where(y[:, None] == np.arange(n_classes), 1.0, -1.0).astype(np.float32)


def _ridges(kernel: Kernel, X: Any, Y: NDArray, cut: int) -> list[tuple[float, NDArray]]:
    """Responses of the exact kernel machine to the later rows, for every λ."""
    K = np.asarray(kernel(X), dtype=np.float64)
    eigenvalues, vectors = linalg.eigh(K[:cut, :cut], driver="evd")
    rotated = vectors.T @ Y[:cut]
    across = K[cut:, :cut] @ vectors
    found = []
    for alpha in ALPHAS:
        scale = np.maximum(eigenvalues, 0.0) + cut * alpha
        found.append((alpha, across @ (rotated.T / scale).T))
    return found
