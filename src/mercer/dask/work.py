"""Work of Dask's workers for an engine; a module of its own, which every worker imports."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np

from mercer._runtime.threads import one_blas_thread
from mercer.dask.packages import package
from mercer.engines.engine import add_in_pairs
from mercer.engines.memory import WORKER, WorkerStore
from mercer.engines.shards import Shard

__all__ = [
    "Answer",
    "Owned",
    "Slot",
    "add",
    "aligned",
    "calculate",
    "changed",
    "filled",
    "forget_others",
    "join",
    "of_memory",
    "on_shard",
    "packed",
    "slotted",
    "split",
]


@dataclass(frozen=True)
class Answer:
    """Result of work, and the workers by shard; a class of its own is no graph of Dask."""

    value: Any
    homes: dict[int, str]

    def __sizeof__(self) -> int:
        return _bytes_of(self.value)

    def __reduce__(self) -> Any:
        # As bytes: arrays that Dask receives beside a pickle may lie between two of their numbers.
        return _answer, (packed((self.value, self.homes)),)


def packed(value: Any) -> bytes:
    """A value as bytes; functions that workers cannot import are among them as code."""
    sent: bytes = package("cloudpickle").dumps(value)
    return sent


def _unpacked(sent: bytes) -> Any:
    return package("cloudpickle").loads(sent)


def _answer(sent: bytes) -> Answer:
    return Answer(*_unpacked(sent))


def _bytes_of(value: Any) -> int:
    """Bytes of a value with the fields that data classes and tuples have set."""
    if is_dataclass(value) and not isinstance(value, type):
        known = (getattr(value, field.name, None) for field in fields(value))
        return sum(_bytes_of(one) for one in known if one is not None)
    if isinstance(value, (tuple, list)):
        return sum(map(_bytes_of, value))
    return int(package("dask.sizeof").sizeof(value))


@dataclass(frozen=True)
class Owned:
    """The memory of this worker, as one engine sees it: the parts of its own fits."""

    memory: WorkerStore
    owner: str

    def bounded(self) -> AbstractContextManager[None]:
        return self.memory.bounded()

    def part(self, run: str, number: int, make: Callable[[], Any]) -> Any:
        return self.memory.part(f"{self.owner}/{run}", number, make)

    def forget(self, run: str | None = None, number: int | None = None) -> None:
        for own in self.runs() if run is None else (run,):
            self.memory.forget(f"{self.owner}/{own}", number)

    def runs(self) -> set[str]:
        before = f"{self.owner}/"
        return {run.removeprefix(before) for run in self.memory.runs() if run.startswith(before)}


@dataclass(frozen=True)
class Slot:
    """Placeholder for the value of a handle in a message to a worker."""

    number: int


def slotted(value: Any, slot: Callable[[Any], Any]) -> Any:
    """The value with ``slot(value)`` for handles, also in tuples, lists and dictionaries."""
    if type(value) in (tuple, list):
        return type(value)(slotted(each, slot) for each in value)
    if type(value) is dict:
        return {key: slotted(each, slot) for key, each in value.items()}
    return slot(value)


def filled(value: Any, given: Sequence[Any]) -> Any:
    """The value with its slots replaced by the values of handles."""
    if isinstance(value, Slot):
        found = given[value.number]
        return found.value if isinstance(found, Answer) else found
    if type(value) in (tuple, list):
        return type(value)(filled(each, given) for each in value)
    if type(value) is dict:
        return {key: filled(each, given) for key, each in value.items()}
    return value


@contextmanager
def _at_work() -> Iterator[None]:
    """Around all work: as many threads and as much memory as the worker was given."""
    worker = package("distributed").get_worker()
    WORKER.limit = worker.memory_manager.memory_limit or None
    with one_blas_thread(max(1, worker.state.nthreads)), WORKER.bounded():
        yield


def on_shard(owner: str, number: int, work: bytes, own: bytes, shard: Any, *given: Any) -> Answer:
    """``work`` on a shard, with common arguments and its own."""
    value = _value_on_shard(owner, number, work, own, shard, *given)
    return Answer(value, {number: package("distributed").get_worker().address})


def changed(*args: Any) -> Shard:
    """As ``on_shard``, where the result is a shard."""
    shard: Shard = _value_on_shard(*args)
    return shard


def _value_on_shard(
    owner: str, number: int, work: bytes, own: bytes, shard: Any, *given: Any
) -> Any:
    call, args = _unpacked(work)
    args = filled((*args, *_unpacked(own)), given)
    with _at_work():
        return call(Owned(WORKER, owner), number, aligned(shard), *args)


def aligned(shard: Shard) -> Shard:
    """The shard, with copies of arrays that came to lie between two of their numbers."""
    held = {each.name: getattr(shard, each.name) for each in fields(shard)}
    mended = {name: _aligned(value) for name, value in held.items()}
    mended = {name: value for name, value in mended.items() if value is not held[name]}
    return replace(shard, **mended) if mended else shard


def _aligned(value: Any) -> Any:
    arrays = [value, *(getattr(value, name, None) for name in ("data", "indices", "indptr"))]
    if all(array.flags.aligned for array in arrays if isinstance(array, np.ndarray)):
        return value
    return value.copy()


def calculate(work: bytes, *given: Any) -> Answer:
    """``work`` that needs no shard."""
    call, args = _unpacked(work)
    with _at_work():
        return Answer(call(*filled(args, given)), {})


def add(work: bytes, *answers: Answer) -> Answer:
    """The sum of answers, pair by pair in order."""
    call = _unpacked(work)
    homes = {number: home for answer in answers for number, home in answer.homes.items()}
    with _at_work():
        return Answer(add_in_pairs([answer.value for answer in answers], call), homes)


def split(owner: str, number: int, work: bytes, shard: Any) -> list[Any]:
    """The pieces that a shard gives to others."""
    with _at_work():
        return list(_unpacked(work)(Owned(WORKER, owner), number, aligned(shard)))


def join(work: bytes, *pieces: Any) -> Any:
    """A new shard of pieces."""
    with _at_work():
        return _unpacked(work)(*pieces)


def of_memory(owner: str, work: bytes) -> Any:
    """``work`` with the memory of this worker."""
    return _unpacked(work)(Owned(WORKER, owner))


def forget_others(clients: Collection[str]) -> None:
    """Drop values that this worker keeps for clients other than the given ones."""
    for run in WORKER.runs():
        whose, *rest = run.split("/")
        if rest and whose not in clients:
            WORKER.forget(run)
