"""An engine whose shards are on the workers of a Dask cluster, and which lives through their loss.

What is lost is made again. Results of work are made again by Dask itself, from shards and
arguments; shards by whatever has made them, as reading a file; shared values are kept by the
client and sent again. A shard's work is asked of the worker that did it last, since what was
derived from the shard is there, but any other may do it.
"""

from __future__ import annotations

import asyncio
import operator
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.dask import work as worker
from mercer.dask.hung import Watch, check_running
from mercer.dask.packages import package
from mercer.dask.work import packed
from mercer.engines.engine import Handle, OfShard
from mercer.engines.memory import WorkerStore

if TYPE_CHECKING:
    from distributed import Client, Future

__all__ = ["DaskEngine"]

_FAN_IN = 8  # results that one task adds; a power of two, so that sums are those of add_in_pairs
_SMALL = 2**16  # bytes of a value that may be in every task; larger ones are sent to workers once
_PAUSE, _LONGEST_PAUSE = 0.1, 5.0  # seconds before the first retry, doubled up to the last
_ATTEMPTS = 10  # times that a value is asked for whose ingredients go on being lost

Submit = Callable[..., Any]


@dataclass(eq=False)
class _Shared:
    """A value that was sent to the workers, and is kept here to be sent again."""

    value: Any
    future: Any = None  # None: small, in every task that needs it


@dataclass(eq=False)
class _Recipe:
    """Task that makes a value on workers from the values of other tasks; it holds no results."""

    submit: Submit
    of: tuple[_Recipe | _Shared, ...]


@dataclass(eq=False)
class _Made:
    """A value that workers make, freed when its last handle goes."""

    recipe: _Recipe
    name: str  # of the work, under which its time is measured
    future: Future


class DaskEngine:
    """Shards on the workers of a Dask cluster, by a synchronous client.

    ``shards`` are futures of one ``Shard`` each, kept until the engine is closed. Computed futures
    outlive their workers, as Dask computes them again; scattered ones do not. ``columns`` names the
    inputs.

    After ``timeout`` seconds a worker that others wait for is hung and removed from the cluster: a
    silent one, earlier where equal work was measured to take less, or one that works on one task
    for so long while others have done theirs. ``removed`` lists their addresses.
    """

    def __init__(
        self,
        client: Client,
        shards: Sequence[Future],
        *,
        columns: list[str] | None = None,
        timeout: float = 600.0,
    ):
        if client.asynchronous:
            raise ValueError("client must be synchronous; got one with asynchronous=True.")
        self.client, self.columns, self.timeout = client, columns, timeout
        self.owner = f"{_identity(client.id)}/{uuid.uuid4().hex}"
        self._shards = list(shards)
        self._homes: dict[int, str] = {}  # workers that answered last for a shard
        self._n_losses = 0  # requests, the last ones, in each of which a worker was lost
        self._watch = Watch(client, timeout)
        self._forget_the_gone()

    @property
    def n_shards(self) -> int:
        return len(self._shards)

    @property
    def n_workers(self) -> int:
        return len(self.client.nthreads())

    @property
    def removed(self) -> list[str]:
        return self._watch.removed

    def share(self, value: Any) -> Handle:
        if isinstance(value, (_Shared, _Made)):
            return value
        shared = _Shared(value)
        if len(packed(value)) > _SMALL:
            self._send(shared)
        return shared

    def each(
        self,
        work: OfShard,
        *args: Any,
        numbers: Sequence[int] | None = None,
        own: Mapping[int, tuple[Any, ...]] | None = None,
    ) -> list[Handle]:
        name = _name(work, args)
        common: list[Handle] = []
        call, made = _packed((work, args), common), []
        sent: dict[int, _Shared] = {}
        for number in range(self.n_shards) if numbers is None else numbers:
            handles = list(common)
            mine = tuple(self._sent_once(value, sent) for value in (own or {}).get(number, ()))
            parts = (self.owner, number, call, _packed(mine, handles))
            made.append(self._made(partial(self._on_shard, name, parts), handles, name))
        return made

    def once(self, work: Callable[..., Any], *args: Any) -> Handle:
        name = _name(work, args)
        handles: list[Handle] = []
        call = _packed((work, args), handles)
        return self._made(partial(self._submit, name, worker.calculate, call), handles, name)

    def total(self, handles: Sequence[Handle], add: Callable[[Any, Any], Any]) -> Handle:
        submit, handles = (
            partial(self._submit, "sum", worker.add, packed(add)),
            [*handles],
        )
        while True:
            groups = [handles[i : i + _FAN_IN] for i in range(0, len(handles), _FAN_IN)]
            handles = [self._made(submit, group, group[0].name) for group in groups]
            if len(handles) == 1:
                return handles[0]

    def fetch(self, handles: Sequence[Handle]) -> list[Any]:
        made = [handle for handle in handles if isinstance(handle, _Made)]
        for attempt in range(_ATTEMPTS):
            try:
                if attempt:
                    self._make_again(made)
                answers = self._gathered(made)
            except CancelledError:  # what was shared is lost, and whatever depends on it
                self._complain_of_lost_shards()
                if attempt < _ATTEMPTS - 1:
                    _pause(attempt)
                continue
            except package("distributed").KilledWorker as error:
                raise RuntimeError(
                    f"{error.allowed_failures + 1} workers died one after the other in the work "
                    f'"{made[0].name}"; it may need more memory than a worker has.'
                ) from error
            break
        else:
            raise RuntimeError(
                f'workers must stay for the work "{made[0].name}"; values that it needs were lost '
                f"{_ATTEMPTS} times in a row: give workers more memory, or use more of them."
            )
        self._settle({i: home for answer in answers for i, home in answer.homes.items()})
        values = iter(answers)
        return [(next(values) if isinstance(each, _Made) else each).value for each in handles]

    def changed(
        self, work: OfShard, *args: Any, own: Mapping[int, tuple[Any, ...]] | None = None
    ) -> DaskEngine:
        # What is shared is in the tasks, however large: Dask can make these shards again.
        common: list[Handle] = []
        call, shards = _packed((work, args), common, inside=True), []
        for number, shard in enumerate(self._shards):
            handles = list(common)
            mine = _packed((own or {}).get(number, ()), handles, inside=True)
            parts = (self.owner, number, call, mine, shard)
            given = [handle.future for handle in handles]
            home = self._homes.get(number)
            shards.append(self._submit("shard", worker.changed, *parts, *given, home=home))
        other = self._with(shards)
        other._homes.update(self._homes)
        return other

    def _settle(self, homes: dict[int, str]) -> None:
        """Remember who answered; workers that die in every request may lack memory."""
        lost = {self._homes[i] for i in homes if self._homes.get(i, homes[i]) != homes[i]}
        self._homes.update(homes)
        if not lost:
            self._n_losses = 0
        elif lost - set(self.client.nthreads()):
            self._n_losses += 1
            if self._n_losses == _ATTEMPTS:
                raise RuntimeError(
                    f"Workers died in each of the last {_ATTEMPTS} requests; they may need more "
                    "memory than they have."
                )

    def exchange(self, split: OfShard, n_shards: int, join: Callable[..., Any]) -> DaskEngine:
        splits, joins = packed(split), packed(join)
        given = [
            self._submit(
                "split", worker.split, self.owner, i, splits, shard, home=self._homes.get(i)
            )
            for i, shard in enumerate(self._shards)
        ]
        addresses, shards = sorted(self.client.nthreads()), []
        for j in range(n_shards):
            pieces = [self._submit("piece", operator.getitem, every, j) for every in given]
            home = addresses[j % len(addresses)]
            shards.append(self._submit("join", worker.join, joins, *pieces, home=home))
        return self._with(shards)

    def everywhere(self, work: Callable[[WorkerStore], Any]) -> list[Any]:
        return self._on_workers(worker.of_memory, self.owner, packed(work))

    def done(self, number: int) -> None:
        """Nothing: a shard that a lost worker had is made again from those it came from."""

    def close(self) -> None:
        self._shards = []
        if self.client.status == "running":
            self.everywhere(operator.methodcaller("forget"))

    def _with(self, shards: Sequence[Future]) -> DaskEngine:
        return DaskEngine(self.client, shards, columns=self.columns, timeout=self.timeout)

    def _submit(self, name: str, function: Callable, *args: Any, home: str | None = None) -> Future:
        check_running(self.client)
        where = {"workers": [home], "allow_other_workers": True} if home else {}
        key = f"mercer-{name}-{uuid.uuid4().hex}"
        return self.client.submit(function, *args, key=key, **where)

    def _on_shard(self, name: str, call: tuple[Any, ...], *given: Future) -> Future:
        number = call[1]
        args = (*call, self._shards[number], *given)
        return self._submit(name, worker.on_shard, *args, home=self._homes.get(number))

    def _made(self, submit: Submit, handles: Iterable[Handle], name: str) -> _Made:
        handles = tuple(handles)
        of = tuple(handle.recipe if isinstance(handle, _Made) else handle for handle in handles)
        recipe = _Recipe(submit, of)
        return _Made(recipe, name, submit(*(self._future(handle) for handle in handles)))

    def _future(self, handle: _Made | _Shared) -> Future:
        if isinstance(handle, _Shared) and handle.future is None:
            self._send(handle)
        return handle.future

    def _make_again(self, made: Sequence[_Made]) -> None:
        """Ask again for values, and for all that they are made of."""
        futures: dict[int, Future] = {}

        def again(recipe: _Recipe | _Shared) -> Future:
            if id(recipe) not in futures:
                if isinstance(recipe, _Recipe):
                    futures[id(recipe)] = recipe.submit(*map(again, recipe.of))
                else:
                    if recipe.future is None or not self._is_on_workers(recipe.future):
                        self._send(recipe)
                    futures[id(recipe)] = recipe.future
            return futures[id(recipe)]

        for each in made:
            each.future = again(each.recipe)

    def _is_on_workers(self, future: Future) -> bool:
        # Asked of the scheduler: the client is not told of a value that was lost while it was sent.
        return not future.cancelled() and self.client.run_on_scheduler(_is_kept, future.key)

    def _send(self, shared: _Shared) -> None:
        """Send a value to all workers, boxed, since Dask takes known types apart."""
        box = worker.Answer(shared.value, {})
        for attempt in range(_ATTEMPTS):
            scatter = partial(
                self.client.scatter, [box], broadcast=not attempt, hash=False, asynchronous=True
            )
            try:
                (shared.future,) = self._watch.result(scatter, "share")
                return
            except (OSError, KeyError, CancelledError):  # of a worker that is lost meanwhile
                self._complain_of_lost_shards()
                if attempt == _ATTEMPTS - 1:
                    raise
                _pause(attempt)

    def _sent_once(self, value: Any, sent: dict[int, _Shared]) -> Any:
        """A large array, also in a tuple, as a handle; arrays that are the same are sent once."""
        if isinstance(value, tuple):
            return tuple(self._sent_once(each, sent) for each in value)
        if not isinstance(value, np.ndarray) or value.nbytes <= _SMALL:
            return value
        if id(value) not in sent:
            sent[id(value)] = self.share(value)
        return sent[id(value)]

    def _gathered(self, made: Sequence[_Made]) -> list[Any]:
        if not made:
            return []
        futures = [each.future for each in made]
        gather = partial(self.client.gather, futures, asynchronous=True)
        return self._watch.result(gather, made[0].name)

    def _complain_of_lost_shards(self) -> None:
        check_running(self.client)
        lost = [i for i, shard in enumerate(self._shards) if shard.cancelled()]
        if lost:
            raise RuntimeError(
                f"The rows of {len(lost)} of {self.n_shards} shards are lost: they were on workers "
                "only, which died, and cannot be read again. Give data that Dask reads or computes."
            )

    def _on_workers(self, function: Callable, *args: Any) -> list[Any]:
        """Results of a function on each worker that is alive and answers in time."""

        async def ask(address: str) -> Any:
            answers = self.client.run(function, *args, workers=[address], asynchronous=True)
            try:
                return await asyncio.wait_for(answers, min(self.timeout, 60.0))
            except (OSError, TimeoutError):
                return {}

        async def ask_all() -> list[dict[str, Any]]:
            scheduler: Any = self.client.scheduler
            addresses = await scheduler.ncores()
            return await asyncio.gather(*map(ask, addresses))

        return [answer for each in self._watch.result(ask_all) for answer in each.values()]

    def _forget_the_gone(self) -> None:
        """Free values that workers keep for clients that have left."""
        clients = set(map(_identity, self.client.run_on_scheduler(_clients)))
        self._on_workers(worker.forget_others, clients)


def _pause(attempt: int) -> None:
    """Wait for workers to come back: the nine pauses of ten attempts take 21 seconds."""
    time.sleep(min(_PAUSE * 2.0**attempt, _LONGEST_PAUSE))


def _identity(client: str) -> str:
    return client.replace("/", "-")


def _clients(dask_scheduler: Any) -> list[str]:
    return list(dask_scheduler.clients)


def _is_kept(key: str, dask_scheduler: Any) -> bool:
    task = dask_scheduler.tasks.get(key)
    return task is not None and bool(task.who_has)


def _packed(value: Any, handles: list[Handle], inside: bool = False) -> bytes:
    """A value as bytes with slots for handles; small shared values are packed in place."""

    def slot(value: Any) -> Any:
        if isinstance(value, _Shared) and (inside or value.future is None):
            return value.value
        if not isinstance(value, (_Shared, _Made)):
            return value
        handles.append(value)
        return worker.Slot(len(handles) - 1)

    return packed(worker.slotted(value, slot))


def _name(work: Callable[..., Any], args: Iterable[Any]) -> str:
    """Name of work in keys of tasks: the function, and the request if there is one."""
    while isinstance(work, partial):
        work = work.func
    words = [
        getattr(work, "__name__", type(work).__name__),
        *(a for a in args if isinstance(a, str)),
    ]
    return "-".join(filter(None, ("".join(filter(str.isalpha, word)) for word in words)))
