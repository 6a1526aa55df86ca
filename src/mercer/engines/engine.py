"""Interface of an engine for fits over many machines, and an engine in this process.

An engine holds shards, rows that stay together, each in the memory of a worker. Everything that
touches rows is a function that an engine calls there; what it returns is small, or is summed where
it is made. This is all that an engine offers: ``Here`` in this process, ``DaskEngine`` over many.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from mercer.engines.memory import WorkerStore

__all__ = ["Engine", "Handle", "Here", "OfShard", "add_in_pairs"]

Handle = Any  # of a value that lies where it was made, or where every worker can read it
# A function of (memory of the worker, number of the shard, shard, further arguments): it is in a
# module that workers can import, changes no argument, and may be called again with the same ones.
OfShard = Callable[..., Any]


class Engine(Protocol):
    """Where shards live, and where work on them is done.

    Attributes
    ----------
    n_shards : int
        Shards, numbered from 0.
    n_workers : int
        Workers that are alive, as far as is known.
    """

    @property
    def n_shards(self) -> int: ...

    @property
    def n_workers(self) -> int: ...

    def share(self, value: Any) -> Handle:
        """Send a value to all workers, once to each; a handle that stands for it in arguments."""
        ...

    def each(
        self,
        work: OfShard,
        *args: Any,
        numbers: Sequence[int] | None = None,
        own: Mapping[int, tuple[Any, ...]] | None = None,
    ) -> list[Handle]:
        """Handles of ``work(memory, number, shard, *args, *own[number])`` for shards.

        ``numbers`` says for which shards, None for all. Handles among the arguments are replaced
        by what they stand for. Results stay where they are made.
        """
        ...

    def once(self, work: Callable[..., Any], *args: Any) -> Handle:
        """The handle of ``work(*args)``, called on one worker, with handles replaced."""
        ...

    def total(self, handles: Sequence[Handle], add: Callable[[Any, Any], Any]) -> Handle:
        """The handle of the sum of what handles stand for, ``add``-ed pair by pair in order."""
        ...

    def fetch(self, handles: Sequence[Handle]) -> list[Any]:
        """Bring here the values that handles stand for."""
        ...

    def exchange(self, split: OfShard, n_shards: int, join: Callable[..., Any]) -> Engine:
        """An engine of the same workers with other shards, to which every shard has given rows.

        ``split(memory, number, shard)`` is a list of ``n_shards`` pieces; ``join(*pieces)`` makes
        new shard j from the j-th pieces of all shards, in their order. The shards of this engine
        stay.
        """
        ...

    def changed(
        self, work: OfShard, *args: Any, own: Mapping[int, tuple[Any, ...]] | None = None
    ) -> Engine:
        """An engine of the same workers whose shard i is ``work(memory, i, shard i, *args,
        *own[i])``, made and kept where shard i is.

        The shards of this engine stay; to close the new one forgets the new shards alone.
        """
        ...

    def everywhere(self, work: Callable[[WorkerStore], Any]) -> list[Any]:
        """``work(memory)`` of every worker that is alive, fetched."""
        ...

    def done(self, number: int) -> None:
        """Allow the engine to drop a shard, which is not asked for again."""
        ...

    def close(self) -> None:
        """Forget the shards, and whatever this engine has made on workers."""
        ...


def add_in_pairs(values: Sequence[Any], add: Callable[[Any, Any], Any]) -> Any:
    """The sum of values, first with second, third with fourth, then of these sums."""
    values = list(values)
    while len(values) > 1:
        pairs = [values[i : i + 2] for i in range(0, len(values), 2)]
        values = [add(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return values[0]


class Here:
    """Shards in this process, worked on one after the other: the obvious twin of every engine.

    Parameters
    ----------
    shards : sequence of Shard
    n_workers : int, default=1
        Memories among which the shards are spread, as over so many workers.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.distributed import Here, Shard, summed
    >>> engine = Here([Shard(np.eye(2), np.ones(2)), Shard(np.eye(2), np.zeros(2))])
    >>> summed(engine, lambda shard: shard.target.sum())
    np.float64(2.0)
    """

    def __init__(self, shards: Sequence[Any], n_workers: int = 1):
        self.shards = list(shards)
        self.memories = [WorkerStore() for _ in range(n_workers)]

    @property
    def n_shards(self) -> int:
        return len(self.shards)

    @property
    def n_workers(self) -> int:
        return len(self.memories)

    def memory_of(self, number: int) -> WorkerStore:
        """The memory of the worker that has a shard."""
        return self.memories[number % len(self.memories)]

    def share(self, value: Any) -> Handle:
        return value

    def each(
        self,
        work: OfShard,
        *args: Any,
        numbers: Sequence[int] | None = None,
        own: Mapping[int, tuple[Any, ...]] | None = None,
    ) -> list[Handle]:
        chosen = range(self.n_shards) if numbers is None else numbers
        return [
            work(self.memory_of(i), i, self.shards[i], *args, *(own or {}).get(i, ()))
            for i in chosen
        ]

    def once(self, work: Callable[..., Any], *args: Any) -> Handle:
        return work(*args)

    def total(self, handles: Sequence[Handle], add: Callable[[Any, Any], Any]) -> Handle:
        return add_in_pairs(handles, add)

    def fetch(self, handles: Sequence[Handle]) -> list[Any]:
        return list(handles)

    def exchange(self, split: OfShard, n_shards: int, join: Callable[..., Any]) -> Engine:
        pieces = self.each(split)
        shards = [join(*(given[j] for given in pieces)) for j in range(n_shards)]
        return Here(shards, self.n_workers)

    def changed(
        self, work: OfShard, *args: Any, own: Mapping[int, tuple[Any, ...]] | None = None
    ) -> Engine:
        other = Here(self.each(work, *args, own=own))
        other.memories = self.memories
        return other

    def everywhere(self, work: Callable[[WorkerStore], Any]) -> list[Any]:
        return [work(memory) for memory in self.memories]

    def done(self, number: int) -> None:
        self.shards[number] = None

    def close(self) -> None:
        self.shards = []
        for memory in self.memories:
            memory.forget()
