"""Randomness by address: every number follows from (key, slot, stream, position) alone.

A *stream* is one column of a map or one grid; a *slot* is what the numbers are for. Nothing is
drawn in sequence, so any column can be regenerated without those before it, on any machine and in
any order, to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from numbers import Integral
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from mercer import _core

RandomStateLike: TypeAlias = int | np.random.RandomState | np.random.Generator | None
"""Where random numbers come from: see :func:`key_from`."""


class Slot(IntEnum):
    """Purposes of random numbers; two purposes never share a slot."""

    FREQUENCY = 0
    RADIUS = 1
    PHASE = 2
    WIDTH = 3
    SECOND_WIDTH = 4
    SHIFT = 5
    MULTIPLIER = 6
    LANDMARK = 7
    VALIDATION = 8
    SKETCH = 9
    SKETCH_ROW = 10
    SIGN = 11
    SHUFFLE = 12
    SCALING = 13
    THRESHOLD = 14
    COORDINATE = 15
    BASE = 16
    PART = 17
    PIVOT = 18
    NET = 19
    DEPTH = 20
    STEP = 24
    TRIAL = 25
    CURVATURE = 26
    BATCH = 30
    TARGET = 31


def key_from(random_state: RandomStateLike) -> int:
    """The 64-bit key of all random numbers: from a seed, fresh for None, or NumPy's next draw."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    if isinstance(random_state, Integral) and not isinstance(random_state, (bool, np.bool_)):
        if random_state < 0:
            raise ValueError(f"random_state must be at least 0; got {random_state!r}.")
        return int(np.random.SeedSequence(int(random_state)).generate_state(1, np.uint64)[0])
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**64, dtype=np.uint64))
    if isinstance(random_state, np.random.RandomState):
        high, low = random_state.randint(2**32, size=2, dtype=np.uint64)
        return int(high) << 32 | int(low)
    raise TypeError(
        "random_state must be an integer, None, a numpy RandomState or a numpy Generator; "
        f"got {random_state!r}."
    )


def check_random_state(random_state: RandomStateLike) -> None:
    """Raise the errors of ``key_from`` without a draw."""
    if not isinstance(random_state, (np.random.Generator, np.random.RandomState)):
        key_from(random_state)


@dataclass(frozen=True, eq=False)
class Streams:
    """Independent streams of random numbers under one key, such as one for each column of a map."""

    key: int
    index: NDArray[np.int64]

    def __post_init__(self) -> None:
        object.__setattr__(self, "index", np.ascontiguousarray(self.index, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.index)

    def take(self, positions: NDArray[np.int64] | list[int]) -> Streams:
        """The streams at ``positions`` of these."""
        return Streams(self.key, self.index[positions])

    def bits(self, size: int, slot: int = 0) -> NDArray[np.uint64]:
        """Random bits, (len, size)."""
        return _core.random_bits(self.key, int(slot), self.index, size)

    def uniform(self, size: int, slot: int = 0) -> NDArray[np.float64]:
        """Uniform on the open interval (0, 1), (len, size)."""
        return _core.random_uniform(self.key, int(slot), self.index, size)

    def normal(self, size: int, slot: int = 0) -> NDArray[np.float64]:
        """Standard normal, (len, size)."""
        return ndtri(self.uniform(size, slot))

    def exponential(self, size: int, slot: int = 0) -> NDArray[np.float64]:
        """Exponential with mean 1, (len, size)."""
        return -np.log(self.uniform(size, slot))


def shuffled(key: int, n: int, m: int, slot: int) -> NDArray[np.int64]:
    """At most m of n positions in random order, as those of sorted rows have to be met."""
    if n > m:
        return distinct(key, n, m, slot)
    return np.argsort(Streams(key, np.arange(n)).uniform(1, slot)[:, 0], kind="stable")


def distinct(key: int, n: int, m: int, slot: int) -> NDArray[np.int64]:
    """m of n positions, uniform without replacement: the first distinct of a stream of draws."""
    if m == n:
        return np.arange(n)
    size = 2 * m
    while True:
        drawn = Streams(key, np.arange(size)).uniform(1, slot)[:, 0]
        positions = (drawn * n).astype(np.int64)
        first = np.sort(np.unique(positions, return_index=True)[1])
        if len(first) >= m:
            return positions[first[:m]]
        size *= 2
