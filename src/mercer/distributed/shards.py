"""Shards, rows that stay together, and sums over all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.distributed.engine import Engine
from mercer.distributed.memory import Memory

__all__ = ["Shard", "add", "gathered", "summed"]


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
    """

    X: Any
    target: Any = None
    weights: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return int(self.X.shape[0])


def gathered(engine: Engine, function: Callable[..., Any], *args: Any) -> list[Any]:
    """``function(shard, *args)`` of every shard, brought here: for what is small."""
    return engine.fetch(engine.each(_of_shard, function, *args))


def summed(engine: Engine, function: Callable[..., Any], *args: Any) -> Any:
    """The sum of ``function(shard, *args)`` over the shards: numbers, arrays or tuples of them."""
    handles = engine.each(_of_shard, function, *args)
    return engine.fetch([engine.total(handles, add)])[0]


def _of_shard(memory: Memory, number: int, shard: Shard, function: Any, *args: Any) -> Any:
    return function(shard, *args)


def add(left: Any, right: Any) -> Any:
    """left + right, entry by entry of tuples; None is nothing."""
    if left is None or right is None:
        return right if left is None else left
    if isinstance(left, tuple):
        return tuple(add(a, b) for a, b in zip(left, right, strict=True))
    return left + right
