"""Statistics of rows in shards for scalers, kernels and maps: sums, and rows by number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer._runtime.moments import Moments
from mercer.engines.shards import Shard, moments_of

__all__ = ["Summary", "summary_of"]


@dataclass(frozen=True)
class Summary:
    """Results of one pass over checked shards; the sum is of the rows of both."""

    columns: Moments | None  # of X
    target: Moments | None  # of y, where these are numbers

    def __add__(self, other: Summary) -> Summary:
        pairs = ((self.columns, other.columns), (self.target, other.target))
        return Summary(*(a if b is None else b if a is None else a + b for a, b in pairs))


def summary_of(shard: Shard, of_target: bool) -> Summary:
    """The summary of a checked shard."""
    target = None
    if of_target and len(shard):
        y = np.asarray(shard.target, dtype=np.float64)
        target = Moments.of(y.reshape(len(y), -1), shard.weights)
    return Summary(moments_of(shard), target)
