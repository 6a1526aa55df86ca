"""Columns of words: what their n-grams say of the target, and in which they differ."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer._runtime.state import State
from mercer._runtime.threads import blas_threads
from mercer.preparation.columns import Labels

__all__ = ["Texts", "has_words", "is_prose"]

_HASHES = 2**14
_COMPONENTS = 30  # directions in which texts differ most
_RIDGE = 1.0  # of the linear model of n-grams, whose rows are of length 1
_MANY_WORDS = 2  # in the middle text, from which words are counted, else parts of words
_SIGNIFICANT = 4.0  # standard errors of a correlation with the target, beyond which it is kept
_LEAST_ROWS = 20
_MOSTLY_DIFFERENT = 0.5  # share of different labels from which a column may be one of words
_LARGEST = 1e36  # mean of a target, as automatic models bound them


def is_prose(labels: Labels) -> bool:
    """Whether hardly two rows share a label, so that only parts of it can tell rows apart."""
    known = labels.codes[labels.codes >= 0]
    different = len(np.unique(known))
    return len(known) >= _LEAST_ROWS and different > _MOSTLY_DIFFERENT * len(known)


def has_words(labels: Labels) -> bool:
    """Whether most texts are of several words."""
    return bool(np.median([len(text.split()) for text in labels.texts]) >= _MANY_WORDS)


@dataclass
class Texts:
    """Hashed n-grams of texts, as a few numbers.

    Counts of n-grams, weighted by how rare these are, make rows of length 1. Of these come out, for
    every target, the response of a linear ridge model (the rows of the fit get that of models which
    their own target, and those of a fifth of the other rows, had no part in), and the leading
    singular directions. What does not go with the target by more than chance is left out; without
    targets the directions alone come out.
    """

    analyzer: str = "word"
    weights: NDArray = field(default_factory=lambda: np.empty(0))  # of the hashes
    coef: NDArray = field(default_factory=lambda: np.empty((0, 0)))  # (hashes, columns)
    constants: NDArray = field(default_factory=lambda: np.empty(0))
    unit: NDArray = field(default_factory=lambda: np.empty(0))
    outputs: list[str] = field(default_factory=list)  # names of the columns

    def check_state(self) -> None:
        """Refuse attributes that no fit leaves."""
        state = State(self)
        state.one_of("analyzer", ("word", "char_wb"))
        outputs = state.instance("outputs", list)
        state.check("outputs", "hold texts alone", all(isinstance(name, str) for name in outputs))
        m = len(outputs)
        state.array("weights", (_HASHES,), "d")
        state.array("coef", (_HASHES, m), "d")
        state.array("constants", (m,), "d", -_LARGEST, _LARGEST)
        state.check("unit", "be positive", (state.array("unit", (m,), "d") > 0).all())

    def fit_transform(
        self,
        labels: Labels,
        target: NDArray | None,  # (n, k)
        outputs: list[str],  # names of the k targets
        fold: NDArray[np.int64] | None,
        key: int,
        weights: NDArray | None = None,  # above 0
    ) -> NDArray[np.float64]:
        """Learn from texts, with targets if there are any, and give the columns of their rows."""
        self.analyzer = "word" if has_words(labels) else "char_wb"
        counts = self._counts(labels.texts)
        met = np.bincount(labels.codes[labels.codes >= 0], minlength=len(labels.texts))
        in_rows = (counts > 0).T @ met
        self.weights = np.where(in_rows > 1, 1 + np.log((1 + met.sum()) / (1 + in_rows)), 0.0)
        grams = self._of_rows(self._weighted(counts), labels.codes)
        from sklearn.decomposition import TruncatedSVD  # which few need

        known = np.flatnonzero(self.weights)  # of many hashes few stand in two rows
        some = grams[:, known] if len(known) > _COMPONENTS else grams
        # Variances may be 0; threads of BLAS wait for each other on matrices this small.
        with np.errstate(invalid="ignore"), blas_threads(1):
            svd = TruncatedSVD(_COMPONENTS, random_state=int(key % 2**32)).fit(some)
        directions = np.zeros((grams.shape[1], len(svd.components_)))
        directions[known if some is not grams else slice(None)] = svd.components_.T
        names = [f"topic {i}" for i in range(directions.shape[1])]
        constants = np.zeros(len(names))
        out = grams @ directions
        if target is not None and fold is not None:
            with blas_threads(1):
                coef, intercept, codes = _ridge(grams, target, fold, weights)
            directions = np.hstack([coef, directions])
            out, constants = np.hstack([codes, out]), np.concatenate([intercept, constants])
            names = [*outputs, *names]
            keep = _matter(out, target)
            out, directions, constants = out[:, keep], directions[:, keep], constants[keep]
            names = [name for name, kept in zip(names, keep.tolist(), strict=True) if kept]
        centre, spread = out.mean(axis=0), out.std(axis=0)
        self.unit = np.where(spread > 0, spread, 1.0)
        self.coef, self.constants, self.outputs = directions, constants - centre, names
        return np.where(labels.codes[:, None] >= 0, (out - centre) / self.unit, 0.0)

    def transform(self, labels: Labels) -> NDArray[np.float64]:
        """(n, m) for the texts of n rows."""
        of_texts = self._weighted(self._counts(labels.texts)) @ self.coef + self.constants
        rows = np.vstack([of_texts / self.unit, np.zeros(len(self.outputs))])
        return rows[labels.codes]

    def names(self, name: str) -> list[str]:
        """Names of the columns that the part makes."""
        return [f"{name}:{output}" for output in self.outputs]

    def _counts(self, texts: list[str]) -> Any:
        """CSR (texts, hashes) of how often n-grams stand in texts."""
        if not texts:
            return sparse.csr_array((0, _HASHES))
        sizes = (1, 2) if self.analyzer == "word" else (2, 4)
        from sklearn.feature_extraction.text import HashingVectorizer  # which few need

        hasher = HashingVectorizer(
            analyzer=self.analyzer,
            ngram_range=sizes,
            n_features=_HASHES,
            alternate_sign=False,
            norm=None,
            token_pattern=r"(?u)\b\w+\b",
        )
        return sparse.csr_array(hasher.transform(texts))

    def _weighted(self, counts: Any) -> Any:
        """Rows of length 1, or 0 where no n-gram is known."""
        grams = counts.astype(np.float64)
        grams.data = (1 + np.log(grams.data)) * self.weights[grams.indices]
        lengths = np.sqrt(np.bincount(_row_of(grams), grams.data**2, minlength=grams.shape[0]))
        grams.data /= np.where(lengths > 0, lengths, 1.0)[_row_of(grams)]
        return grams

    @staticmethod
    def _of_rows(grams: Any, codes: NDArray[np.int64]) -> Any:
        empty = sparse.csr_array((1, grams.shape[1]))
        return sparse.csr_array(sparse.vstack([grams, empty]))[codes]


def _row_of(matrix: Any) -> NDArray[np.int64]:
    """The row of every number that a CSR matrix stores."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def _ridge(
    grams: Any, target: NDArray, fold: NDArray[np.int64], weights: NDArray | None
) -> tuple[NDArray, NDArray, NDArray]:
    """Coefficients, constants and the codes of the rows, of each fold by the others."""
    from sklearn.linear_model import Ridge  # which few need

    weights = None if weights is None else weights / weights.mean()

    def fitted(rows: NDArray) -> Ridge:
        own = None if weights is None else weights[rows]
        return Ridge(_RIDGE, solver="sparse_cg", tol=1e-4).fit(grams[rows], target[rows], own)

    codes = np.zeros(target.shape)
    for which in np.unique(fold):
        own = np.flatnonzero(fold == which)
        others = np.flatnonzero(fold != which)
        if len(others):
            codes[own] = fitted(others).predict(grams[own]).reshape(len(own), -1)
    whole = fitted(np.arange(len(target)))
    coef = np.reshape(whole.coef_, (target.shape[1], -1)).T
    return coef, np.reshape(whole.intercept_, -1) * np.ones(target.shape[1]), codes


def _matter(columns: NDArray, target: NDArray) -> NDArray[np.bool_]:
    """Mask of columns whose correlation with some target exceeds chance."""
    n = len(columns)
    centred, sought = columns - columns.mean(axis=0), target - target.mean(axis=0)
    lengths = np.outer(np.sqrt((centred**2).sum(axis=0)), np.sqrt((sought**2).sum(axis=0)))
    correlations = np.abs(centred.T @ sought) / np.where(lengths > 0, lengths, np.inf)
    return (correlations > _SIGNIFICANT / np.sqrt(n)).any(axis=1)
