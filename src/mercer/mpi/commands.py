"""Commands of all ranks at once: functions of the job, of what rank 0 has, and of what is sent.

Every rank does its part; an exception in work on shards becomes a value, which is raised where it
is fetched. Any other ends the job.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mercer.distributed.engine import OfShard
from mercer.distributed.memory import WORKER, Memory
from mercer.distributed.shards import Shard
from mercer.mpi.job import Job
from mercer.mpi.values import Failed, Held, attempt, first_failure, resolved
from mercer.mpi.waiting import wait

__all__ = ["each", "everywhere", "exchange", "fetch", "load_shards", "once", "share", "total"]


def share(job: Job, given: Any, held: Held, value: Any) -> None:
    """Keep a value on every rank."""
    job.values[held.number] = value


def load_shards(
    job: Job, given: Any, shards: list[Held], load: Callable[[int], Any]
) -> list[Failed]:
    """Make the shards of this rank; on rank 0, the failures of all."""

    def made(number: int) -> Shard:
        value = load(number)
        return value if isinstance(value, Shard) else Shard(*value)

    for number, held in enumerate(shards):
        if held.rank == job.rank:
            job.values[held.number] = attempt(job.rank, made, number)
    return _failures(job, shards)


def each(
    job: Job,
    given: list[dict[int, tuple[Any, ...]]] | None,
    tasks: list[tuple[int, Held, Held]],
    work: OfShard,
    args: tuple[Any, ...],
    has_own: bool,
) -> None:
    """Work on the shards of this rank; a task is (number, shard, result)."""
    own: dict[int, Any] = job.comm.scatter(given, 0) if has_own else {}
    for i, shard, result in tasks:
        if shard.rank == job.rank:
            more = (*args, *own.get(i, ()))
            job.values[result.number] = attempt(job.rank, _on_shard, job, work, i, shard, more)


def _on_shard(job: Job, work: OfShard, i: int, shard: Held, more: tuple[Any, ...] = ()) -> Any:
    return work(WORKER, i, *resolved((shard, *more), job.values))


def once(job: Job, given: Any, held: Held, work: Callable[..., Any], args: Any) -> None:
    """Work on the rank that is to hold the result."""
    if held.rank == job.rank:
        made = attempt(job.rank, lambda: work(*resolved(args, job.values)))
        job.values[held.number] = made


def total(job: Job, given: Any, held: Held, handles: list[Held], add: Any) -> None:
    """Terms as (rank, value where it is there), joined as ``add_in_pairs`` joins values."""
    terms = [(handle.rank or 0, job.values.get(handle.number)) for handle in handles]
    while len(terms) > 1:
        terms = [_joined(job, add, *terms[i : i + 2]) for i in range(0, len(terms), 2)]
    if held.rank == job.rank:
        job.values[held.number] = terms[0][1]


def _joined(job: Job, add: Any, left: Any, right: Any = None) -> Any:
    """The sum of two terms on the rank of the first; the second is sent there."""
    if right is None:
        return left
    (to, a), (origin, b) = left, right
    if job.rank == origin != to:
        job.comm.send(b, to)
    if job.rank != to:
        return to, None
    if origin != to:
        wait(lambda: job.comm.iprobe(source=origin))
        b = job.comm.recv(source=origin)
    return to, first_failure((a, b)) or attempt(job.rank, add, a, b)


def fetch(job: Job, given: Any, handles: list[Held]) -> list[dict[int, Any]]:
    """On rank 0, what handles of the others stand for, by number."""
    numbers = {held.number for held in handles if held.rank == job.rank}
    return job.gathered({number: job.values[number] for number in numbers})


def exchange(
    job: Job,
    given: Any,
    shards: list[Held],
    new: list[Held],
    split: OfShard,
    join: Callable[..., Any],
) -> list[Failed]:
    """Make new shards of pieces of all; on rank 0, the failures."""
    out: list[list[tuple[int, int, Any]]] = [[] for _ in range(job.size)]
    for i, shard in enumerate(shards):
        if shard.rank == job.rank:
            pieces = attempt(job.rank, _on_shard, job, split, i, shard)
            for j, held in enumerate(new):
                piece = pieces if isinstance(pieces, Failed) else pieces[j]
                out[held.rank or 0].append((j, i, piece))
    received: dict[int, dict[int, Any]] = {}
    for parcel in job.comm.alltoall(out):
        for j, i, piece in parcel:
            received.setdefault(j, {})[i] = piece
    for j, by_shard in received.items():
        ordered = [by_shard[i] for i in sorted(by_shard)]
        made = first_failure(ordered) or attempt(job.rank, join, *ordered)
        job.values[new[j].number] = made
    return _failures(job, new)


def everywhere(job: Job, given: Any, work: Callable[[Memory], Any]) -> list[Any]:
    """On rank 0, what work says of the memories of all ranks."""
    return job.gathered(attempt(job.rank, work, WORKER))


def _failures(job: Job, shards: list[Held]) -> list[Failed]:
    """Errors of work on shards of all ranks, on rank 0."""
    made = [job.values[held.number] for held in shards if held.rank == job.rank]
    failed = [value for value in made if isinstance(value, Failed)]
    return [value for part in job.gathered(failed) for value in part]
