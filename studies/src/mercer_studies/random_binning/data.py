"""The data sets of the study: which are run, under which name in the paper, and how scaled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mercer.compare.metrics import accuracy, scores
from mercer.datasets import Dataset, Split
from mercer_studies import sources
from mercer_studies.independent_blocks import indicators
from mercer_studies.inputs import scaled
from mercer_studies.sources import drawn


@dataclass(frozen=True)
class Source(sources.Source):
    """One data set as the study declares it.

    ``window``: the γ of random binning beyond the figure that goes through all; ``train_rows``: use
    so many of the training rows, as the paper does; None takes all; ``largest``: largest size of a
    method that is worth its time here at less than the paper's scale; of "exact" and "search" the
    most rows for the exact kernel, and while its γ is looked for.
    """

    window: tuple[float, ...] = ()
    outputs: int = 1
    _: KW_ONLY
    train_rows: int | None = None
    largest: Mapping[str, int] = field(default_factory=dict)

    def shape(self) -> tuple[int, int, int]:
        n, m, d = super().shape()
        return min(n, self.train_rows or n), m, d


class Loaded(sources.Loaded):
    """A data set as the runs want it.

    ``raw``, ``scaled``: inputs as they came, and scaled as the source says; ``is_series``: whether
    neighbouring rows resemble each other.
    """

    source: Source

    def __init__(self, source: Source, data: Dataset, parts: Split, n_jobs: int | None = None):
        super().__init__(source, data, parts, n_jobs)
        self.is_series = data.is_series
        self.raw = parts

    @cached_property
    def scaled(self) -> Split:
        train, test = scaled(self.raw.X_train, self.raw.X_test, self.source.inputs)
        return replace(self.raw, X_train=train, X_test=test)

    @cached_property
    def targets(self) -> NDArray:
        """Targets of the square loss: responses, or ±1 in one column per class."""
        if self.task == "regression":
            return np.asarray(self.raw.y_train, dtype=np.float64)
        targets = indicators(self.raw.y_train)[1]
        return targets[:, 0] if targets.shape[1] == 1 else targets

    def scores(self, y: NDArray, responses: NDArray) -> dict[str, float]:
        """Scores of responses on the rows of y.

        With several classes there is the accuracy of never predicting the last one, too: on letter
        the authors' runs do so, and this is what compares with theirs.
        """
        if self.task == "regression":
            return scores(self.task, y, responses)
        classes = np.unique(self.raw.y_train)
        if responses.ndim == 1:
            return scores(self.task, y, classes[(responses > 0).astype(int)])
        found = scores(self.task, y, classes[responses.argmax(axis=1)])
        without_last = classes[responses[:, :-1].argmax(axis=1)]
        return found | {"accuracy_without_last": accuracy(y, without_last)}

    def with_rows(self, rows: int) -> Loaded:
        """Copy of the data with ``rows`` training rows drawn at random."""
        n = self.raw.X_train.shape[0]
        kept = np.sort(drawn(n, rows))
        y = self.raw.y_train[kept]
        some = Loaded(self.source, self._data, self.raw, self.n_jobs)
        some.raw = replace(self.raw, X_train=self.raw.X_train[kept], y_train=y)
        some.scaled = replace(self.scaled, X_train=self.scaled.X_train[kept], y_train=y)
        return some


def load(source: Source, n_jobs: int | None = None) -> Loaded:
    """The rows of a source."""
    data = source.data()
    parts = data.split(source.test_share)
    n = parts.X_train.shape[0]
    if source.train_rows is not None and source.train_rows < n:
        kept = np.sort(drawn(n, source.train_rows))
        note = f"{parts.split_note}; {len(kept)} of the training rows, as many as in the paper"
        parts = Split(parts.X_train[kept], parts.y_train[kept], parts.X_test, parts.y_test, note)
    return Loaded(source, data, parts, n_jobs)
