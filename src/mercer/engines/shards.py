"""Shards, rows that stay together, and sums over all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.moments import Moments
from mercer.engines.engine import Engine
from mercer.engines.memory import WorkerStore

__all__ = ["NumberedRows", "Shard", "add", "gathered", "moments_of", "summed"]


@dataclass(frozen=True)
class Shard:
    """Rows of one worker, as the user gives them.

    Attributes
    ----------
    X : array, CSR or data frame of shape (n_i, d)
        n_i may be 0.
    target : array of shape (n_i,) or (n_i, k), or None
        As given: numbers, or labels of any kind.
    weights : ndarray of shape (n_i,) or None
        None in all shards, or in none of them.
    offset : ndarray of shape (n_i,) or None
        Known parts of the responses; None in all shards, or in none of them.
    """

    X: Any
    target: Any = None
    weights: NDArray[np.float64] | None = None
    offset: NDArray[np.float64] | None = field(default=None, kw_only=True)

    def __len__(self) -> int:
        return int(self.X.shape[0])


@dataclass(frozen=True)
class NumberedRows(Shard):
    """Rows of a fit as a kernel sees them, and their numbers among all rows of the fit.

    Attributes
    ----------
    X : ndarray of shape (n_i, d)
    target : ndarray of shape (n_i, k)
    weights : ndarray of shape (n_i,) or None
    numbers : ndarray of shape (n_i,)
        Increasing, and larger than those of the shard before.
    held : ndarray of bool of shape (n_i,) or None
        Which rows are held out.
    """

    numbers: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    held: NDArray[np.bool_] | None = None


def gathered(engine: Engine, function: Callable[..., Any], *args: Any) -> list[Any]:
    """``function(shard, *args)`` of every shard, brought here: for what is small."""
    return engine.fetch(engine.each(_of_shard, function, *args))


def summed(engine: Engine, function: Callable[..., Any], *args: Any) -> Any:
    """The sum of ``function(shard, *args)`` over the shards: numbers, arrays or tuples of them."""
    handles = engine.each(_of_shard, function, *args)
    return engine.fetch([engine.total(handles, add)])[0]


def moments_of(shard: Shard) -> Moments | None:
    """Moments of the columns of a checked shard; None for no rows."""
    return Moments.of(shard.X, shard.weights) if len(shard) else None


def _of_shard(memory: WorkerStore, number: int, shard: Shard, function: Any, *args: Any) -> Any:
    return function(shard, *args)


def add(left: Any, right: Any) -> Any:
    """left + right, entry by entry of tuples; None is nothing."""
    if left is None or right is None:
        return right if left is None else left
    if isinstance(left, tuple):
        return tuple(add(a, b) for a, b in zip(left, right, strict=True))
    return left + right
