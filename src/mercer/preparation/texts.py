"""Columns of words: what their n-grams say of the target, and in which they differ."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer._runtime.state import State
from mercer.preparation.columns import Labels

__all__ = ["Texts", "has_long_texts", "has_words", "is_prose"]

_HASHES = 2**20  # with 2**14, errors on 20 000 short texts rise from .119 to .193 by collisions
_MOST_KNOWN = 50_000  # n-grams of a model, those of the most rows
_COMPONENTS = 30  # directions in which texts differ most
_RIDGE = 1.0  # of the linear model of n-grams, whose rows are of length 1
_MANY_WORDS = 2  # in the middle text, from which words are counted, else parts of words
_LONG = 5  # letters of the middle text from which its parts may be words
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


def has_long_texts(texts: list[str]) -> bool:
    """Whether parts of most labels can be words, as those of "c54" cannot."""
    return bool(texts) and bool(np.median([len(text) for text in texts]) >= _LONG)


@dataclass
class Texts:
    """Numbers made of the n-grams of texts.

    Counts of the n-grams that are in two rows or more, weighted by how rare they are, make vectors
    of length 1. Columns are, for every target, the response of a linear ridge model (for the rows
    of the fit: of a model fitted to the other folds), and the leading singular directions. Columns
    whose correlation with every target may be chance are left out; without targets only the
    directions are returned. N-grams are known by their hashes.
    """

    analyzer: str = "word"
    hashes: NDArray = field(default_factory=lambda: np.arange(0))  # of known n-grams, ascending
    weights: NDArray = field(default_factory=lambda: np.empty(0))  # of known n-grams
    coef: NDArray = field(default_factory=lambda: np.empty((0, 0)))  # (known n-grams, columns)
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
        hashes = state.array("hashes", (None,), "l", 0, _HASHES - 1)
        state.check("hashes", "ascend", (np.diff(hashes) > 0).all())
        state.array("weights", hashes.shape, "d")
        state.array("coef", (len(hashes), m), "d")
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
        self._choose(counts, met)
        grams = self._weighted(counts)  # of the different texts
        directions = _directions(grams, met, key)
        names = [f"topic {i}" for i in range(directions.shape[1])]
        constants = np.zeros(len(names))
        out = _by_row(grams @ directions, labels.codes)
        if target is not None and fold is not None and len(self.hashes):
            coef, intercept, codes = _ridge(grams, labels.codes, target, fold, weights)
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

    def _choose(self, counts: Any, met: NDArray[np.int64]) -> None:
        """Know the n-grams of two rows or more; ``met`` counts the rows of every text."""
        in_rows = np.bincount(counts.indices, met[_row_of(counts)], minlength=_HASHES)
        known = np.flatnonzero(in_rows > 1)
        if len(known) > _MOST_KNOWN:
            most = np.argsort(-in_rows[known], kind="stable")[:_MOST_KNOWN]
            known = np.sort(known[most])
        self.hashes = known
        self.weights = 1 + np.log((1 + met.sum()) / (1 + in_rows[self.hashes]))

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
        """CSR (texts, known n-grams) with rows of length 1, or 0 where no n-gram is known."""
        places = np.searchsorted(self.hashes, counts.indices)
        places = np.minimum(places, max(len(self.hashes) - 1, 0))
        kept = self.hashes[places] == counts.indices if len(self.hashes) else places < 0
        starts = np.concatenate([[0], np.cumsum(kept)])[counts.indptr]
        shape = counts.shape[0], len(self.hashes)
        data = (1 + np.log(counts.data[kept])) * self.weights[places[kept]]
        grams = sparse.csr_array((data, places[kept], starts), shape=shape)
        lengths = np.sqrt(np.bincount(_row_of(grams), grams.data**2, minlength=grams.shape[0]))
        grams.data /= np.where(lengths > 0, lengths, 1.0)[_row_of(grams)]
        return grams


def _row_of(matrix: Any) -> NDArray[np.int64]:
    """The row of every number that a CSR matrix stores."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def _directions(grams: Any, met: NDArray[np.int64], key: int) -> NDArray[np.float64]:
    """Leading right singular vectors of the rows, of which ``met`` have each text: (n-grams, m)."""
    from sklearn.decomposition import TruncatedSVD  # which few need

    n_components = min(_COMPONENTS, grams.shape[1])
    if n_components < 2:
        return np.eye(n_components)
    of_rows = sparse.csr_array(sparse.diags_array(np.sqrt(met)) @ grams)
    with np.errstate(invalid="ignore"):  # variances may be 0
        svd = TruncatedSVD(n_components, random_state=int(key % 2**32)).fit(of_rows)
    vectors: NDArray[np.float64] = svd.components_.T
    return vectors


def _by_row(of_texts: NDArray, codes: NDArray[np.int64]) -> NDArray:
    """Values of the texts of every row, 0 for rows without a text."""
    return np.vstack([of_texts, np.zeros((1, of_texts.shape[1]))])[codes]


def _ridge(
    grams: Any,
    text_of: NDArray[np.int64],
    target: NDArray,
    fold: NDArray[np.int64],
    weights: NDArray | None,
) -> tuple[NDArray, NDArray, NDArray]:
    """Coefficients, constants and codes of the rows, each fold by the others; equal texts pool."""
    from sklearn.linear_model import Ridge  # which few need

    weights = np.ones(len(target)) if weights is None else weights / weights.mean()
    grams = sparse.csr_array(sparse.vstack([grams, sparse.csr_array((1, grams.shape[1]))]))
    text_of = np.where(text_of < 0, grams.shape[0] - 1, text_of)

    def fitted(rows: NDArray) -> Ridge:
        texts, places = np.unique(text_of[rows], return_inverse=True)
        total = np.bincount(places, weights[rows])
        sums = [np.bincount(places, weights[rows] * column) for column in target[rows].T]
        means = np.column_stack(sums) / total[:, None]
        return Ridge(_RIDGE, solver="sparse_cg", tol=1e-4).fit(grams[texts], means, total)

    codes = np.zeros(target.shape)
    for which in np.unique(fold):
        own = np.flatnonzero(fold == which)
        others = np.flatnonzero(fold != which)
        if len(others):
            texts, places = np.unique(text_of[own], return_inverse=True)
            codes[own] = fitted(others).predict(grams[texts]).reshape(len(texts), -1)[places]
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
