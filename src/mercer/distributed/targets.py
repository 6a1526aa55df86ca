"""Targets of all shards: what kind they are, and how well a model tells them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.validation import numbers, plus_offset
from mercer.engines.engine import Engine
from mercer.engines.memory import WorkerStore
from mercer.engines.shards import Shard

__all__ = ["DISTINCT", "Outline", "Scores", "less_offset", "outline_of", "scores_of"]

DISTINCT = 1000  # values of a target that are told apart


@dataclass(frozen=True)
class Outline:
    """A target's facts that decide its kind."""

    n_rows: int
    n_inputs: int
    kind: str  # of its dtype: "f" where any shard has floats
    distinct: NDArray  # (m,) sorted different values, at most 1001
    counts: NDArray  # (m,) rows of every value
    fraction: float | None = None  # one that is no whole number

    def plus(self, other: Outline) -> Outline:
        """The outline of the rows of both."""
        if not self.n_rows or not other.n_rows:
            return self if self.n_rows else other
        # A value among the first of both is among the first of either, so its rows are all counted.
        values = np.concatenate([self.distinct, other.distinct])
        both, places = np.unique(values, return_inverse=True)
        counts = np.bincount(places, np.concatenate([self.counts, other.counts])).astype(int)
        both, counts = both[: DISTINCT + 1], counts[: DISTINCT + 1]
        fraction = other.fraction if self.fraction is None else self.fraction
        kind = min(self.kind, other.kind)  # "f" comes before "i" and "u"
        n_rows = self.n_rows + other.n_rows
        return Outline(n_rows, self.n_inputs, kind, both, counts, fraction)


def outline_of(engine: Engine) -> Outline:
    """The outline of the target of all shards."""
    handles = engine.each(_outline)
    outline: Outline = engine.fetch([engine.total(handles, Outline.plus)])[0]
    return outline


def _outline(memory: WorkerStore, number: int, shard: Shard) -> Outline:
    y = np.asarray(shard.target)
    fraction = None
    if y.dtype.kind == "f":
        broken = y[y != np.floor(y)]
        fraction = float(broken[0]) if len(broken) else None
    distinct, counts = (part[: DISTINCT + 1] for part in np.unique(y, return_counts=True))
    return Outline(len(y), shard.X.shape[1], y.dtype.kind, distinct, counts, fraction)


def less_offset(memory: WorkerStore, number: int, shard: Shard) -> Shard:
    """The shard with numbers less the offset as targets; the shard itself without an offset."""
    if shard.offset is None:
        return shard
    y = np.asarray(numbers(shard.target, "y"), dtype=np.float64)
    return replace(shard, target=plus_offset(y, shard.offset, sign=-1.0), offset=None)


@dataclass(frozen=True)
class Scores:
    """Sums from which scores of rows follow."""

    n_rows: int
    right: int = 0
    error: float = 0.0
    square: float = 0.0
    mean: Any = 0.0
    spread: float = 0.0  # about the mean

    @classmethod
    def of(cls, task: str, y: NDArray, predicted: NDArray) -> Scores:
        """The sums of some rows."""
        if task == "classification":
            return cls(len(y), right=int((y == predicted).sum()))
        y = y.astype(np.float64)
        mean = y.mean(axis=0)
        error, square = float(np.sum((y - predicted) ** 2)), float(np.sum(y**2))
        return cls(len(y), 0, error, square, mean, float(np.sum((y - mean) ** 2)))

    def plus(self, other: Scores) -> Scores:
        """The sums of the rows of both."""
        n = self.n_rows + other.n_rows
        apart = other.mean - self.mean
        between = float(np.sum(apart**2)) * self.n_rows * other.n_rows / n if n else 0.0
        return Scores(
            n,
            self.right + other.right,
            self.error + other.error,
            self.square + other.square,
            self.mean + apart * other.n_rows / n if n else self.mean,
            self.spread + other.spread + between,
        )

    def scores(self, task: str) -> dict[str, float]:
        """Accuracy, or relative root-mean-square error and R²; none of no rows."""
        if not self.n_rows:
            return {}
        if task == "classification":
            return {"accuracy": self.right / self.n_rows}
        perfect = self.error == 0
        relative = (self.error / self.square) ** 0.5 if self.square else (np.inf, 0.0)[perfect]
        r2 = 1 - self.error / self.spread if self.spread else (-np.inf, 1.0)[perfect]
        return {"relative_rmse": float(relative), "r2": float(r2)}


def scores_of(model: Any, engine: Engine, task: str) -> dict[str, float]:
    """Scores of a model on the rows of all shards."""
    handles = engine.each(_scores, engine.share(model), task)
    sums: Scores = engine.fetch([engine.total(handles, Scores.plus)])[0]
    return sums.scores(task)


def _scores(memory: WorkerStore, number: int, shard: Shard, model: Any, task: str) -> Scores:
    if not len(shard):
        return Scores(0)
    beside = {} if shard.offset is None else {"offset": shard.offset}
    return Scores.of(task, np.asarray(shard.target), model.predict(shard.X, **beside))
