"""An engine whose shards are on the ranks of an MPI job."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mercer.distributed.engine import OfShard
from mercer.distributed.memory import Memory
from mercer.mpi import commands
from mercer.mpi.job import Job
from mercer.mpi.values import Held, attempt, held_in, raise_first, resolved

__all__ = ["MPIEngine"]


class MPIEngine:
    """Shards on the ranks of an MPI job, a ``mercer.distributed.Engine``.

    :func:`~mercer.mpi.shards_of` makes it. Neighbouring shards are on the same rank.

    Attributes
    ----------
    n_shards : int
    n_workers : int
        Ranks.
    columns : list of str or None
        Names of the inputs, where shards are arrays of named columns.
    """

    def __init__(
        self,
        job: Job,
        shards: Sequence[Held],
        is_changed: bool = False,
        columns: Sequence[str] | None = None,
    ):
        self._job, self._shards, self._is_changed = job, list(shards), is_changed
        self.columns = None if columns is None else list(columns)

    @property
    def n_shards(self) -> int:
        return len(self._shards)

    @property
    def n_workers(self) -> int:
        return self._job.size

    def share(self, value: Any) -> Held:
        held = self._job.hold(None)
        self._job.do(commands.share, held, value)
        return held

    def each(
        self,
        work: OfShard,
        *args: Any,
        numbers: Sequence[int] | None = None,
        own: Mapping[int, tuple[Any, ...]] | None = None,
    ) -> list[Held]:
        job = self._job
        chosen = range(self.n_shards) if numbers is None else numbers
        shards = {i: self._shards[i] for i in chosen}
        job.bring(args, None)
        parcels: list[dict[int, Any]] | None = None
        if own:
            parcels = [{} for _ in range(job.size)]
            for i in own.keys() & shards.keys():
                job.bring(own[i], shards[i].rank)
                parcels[shards[i].rank or 0][i] = own[i]
        results = {i: job.hold(shard.rank) for i, shard in shards.items()}
        tasks = [(i, shard, results[i]) for i, shard in shards.items()]
        job.do(commands.each, tasks, work, args, parcels is not None, given=parcels)
        return list(results.values())

    def once(self, work: Callable[..., Any], *args: Any) -> Held:
        job = self._job
        rank = next((held.rank for held in held_in(args) if held.rank is not None), 0)
        job.bring(args, rank)
        held = job.hold(rank)
        if rank:
            job.do(commands.once, held, work, args)
        else:  # no other rank needs to know
            made = attempt(0, lambda: work(*resolved(args, job.values)))
            job.values[held.number] = made
        return held

    def total(self, handles: Sequence[Held], add: Callable[[Any, Any], Any]) -> Held:
        held = self._job.hold(handles[0].rank or 0)
        self._job.do(commands.total, held, list(handles), add)
        return held

    def fetch(self, handles: Sequence[Held]) -> list[Any]:
        by_number = {h.number: self._job.values[h.number] for h in handles if not h.rank}
        far = [held for held in handles if held.rank]
        if far:
            for part in self._job.do(commands.fetch, far):
                by_number |= part
        values = [by_number[held.number] for held in handles]
        raise_first(values)
        return values

    def exchange(self, split: OfShard, n_shards: int, join: Callable[..., Any]) -> MPIEngine:
        new = self._job.spread_out(n_shards)
        raise_first(self._job.do(commands.exchange, self._shards, new, split, join))
        return MPIEngine(self._job, new)

    def changed(
        self, work: OfShard, *args: Any, own: Mapping[int, tuple[Any, ...]] | None = None
    ) -> MPIEngine:
        return MPIEngine(self._job, self.each(work, *args, own=own), True, self.columns)

    def everywhere(self, work: Callable[[Memory], Any]) -> list[Any]:
        values = self._job.do(commands.everywhere, work)
        raise_first(values)
        return values

    def close(self) -> None:
        self._shards = []
        if not self._is_changed:  # what is derived of changed shards, fits forget themselves
            self.everywhere(Memory.forget)
