"""One fit over the shards of an engine: what is asked of its parts, and how losses are made good.

The truth of a fit (weights, their order, the position) is with the client; what workers hold is
derived from it and from shards, under a version. A request names the version it needs. A worker
that has neither it nor the one before says that it misses it, never guesses, and is asked again
with the truth, from which it rebuilds its state in the same task.
"""

from __future__ import annotations

import threading
import uuid
import warnings
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from mercer.engines.engine import Engine, Handle
from mercer.engines.memory import WorkerStore
from mercer.engines.shards import Shard, add

__all__ = ["Partial", "Run", "ShardState"]

_ATTEMPTS = 10  # rounds of requests that are made for shards whose workers go on being lost
_SMALL = 2**16  # bytes of an argument that may be in every task; larger ones are shared
# Relative difference of a state from one that is rebuilt, as rounding leaves, by the type of a fit.
_ALIKE = {np.dtype(np.float32): 1e-2, np.dtype(np.float64): 1e-5}


class ShardState:
    """State that a worker derives from one shard for one fit; subclasses say how.

    A part is made as ``kind(shard, number, facts)``; ``facts`` are the same on all workers. Its
    states are immutable values, made from the truth or from the state before: a task that is done
    twice does no harm.
    """

    kept: ClassVar[int] = 2  # states that are held, those that were used last

    def __init__(self, shard: Shard, number: int, facts: Any):
        self.shard, self.number, self.facts = shard, number, facts
        self.lock = threading.RLock()
        self._states: OrderedDict[Any, Any] = OrderedDict()

    def working(self) -> AbstractContextManager[Any]:
        """A context around all work of the part, such as one that bounds threads."""
        return nullcontext()

    def derived(self, truth: Any) -> Any:
        """The state that follows from the truth."""
        raise NotImplementedError

    def advanced(self, state: Any, update: Any) -> Any:
        """The state after an update, as a new value; ``state`` is not written to."""
        raise NotImplementedError

    def difference(self, state: Any, rebuilt: Any) -> float:
        """Largest difference between a state and its rebuilt twin, per largest entry."""
        scale = float(np.abs(rebuilt).max(initial=0.0))
        return float(np.abs(state - rebuilt).max(initial=0.0)) / scale if scale else 0.0

    def state(self, version: Any, update: Any) -> Any:
        """The state of a version, from the one before by ``update`` if need be; None is a miss."""
        if version not in self._states and update is not None and version - 1 in self._states:
            self._keep(version, self.advanced(self._states[version - 1], update))
        return self.held(version)

    def held(self, version: Any) -> Any:
        """The state of a version, None if it is not held; a state that is used stays longer."""
        if version in self._states:
            self._states.move_to_end(version)
        return self._states.get(version)

    def made(self, version: Any, truth: Any) -> Any:
        """The state of a version, from the truth; it is not kept."""
        return self.derived(truth)

    def rebuild(self, version: Any, truth: Any) -> Any:
        """The state of a version, from the truth."""
        return self._keep(version, self.made(version, truth))

    def _keep(self, version: Any, state: Any) -> Any:
        self._states[version] = state
        self._states.move_to_end(version)
        of_a_kind = [each for each in self._states if type(each) is type(version)]
        for each in of_a_kind[: -getattr(version, "kept", self.kept)]:
            del self._states[each]
        return state


@dataclass(frozen=True)
class Partial:
    """A sum over some shards, and the shards that missed."""

    value: Any
    missed: tuple[int, ...] = ()
    rebuilt: int = 0

    def plus(self, other: Partial) -> Partial:
        """The sum over the shards of both."""
        return Partial(
            add(self.value, other.value),
            self.missed + other.missed,
            self.rebuilt + other.rebuilt,
        )


@dataclass(frozen=True)
class _Plan:
    """Class and settings of the parts of a fit; sent to every worker once."""

    run: str
    kind: type[ShardState]
    facts: Any


@dataclass
class Run:
    """A fit over the shards of an engine, as its client sees it."""

    engine: Engine
    kind: type[ShardState]
    facts: Any  # arguments of every part; shared once
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    n_rebuilt: int = 0  # shards whose state was rebuilt because a worker had lost it
    n_wrong: int = 0  # states that an audit found to be wrong
    n_requests: int = 0
    # numbers sent, by request, received, and in the truth
    words: Counter[tuple[str, str]] = field(default_factory=Counter)
    # runs of other parts of these shards, which count by themselves
    inner: list[Run] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._begun: set[type] = set()  # kinds of versions that were asked for

    @cached_property
    def _plan(self) -> Handle:
        """Handle of the plan of the parts, sent at the first request."""
        return self.engine.share(_Plan(self.id, self.kind, self.facts))

    def total(
        self,
        ask: str,
        *args: Any,
        version: Any = None,
        update: Any = None,
        truth: Callable[[int], Any] | None = None,
    ) -> Any:
        """The sum over the shards of ``part.<ask>(state, *args)``; a RuntimeError if losses go on.

        Large arrays in ``args`` are shared first; handles pass. ``version``, a number or another
        name, identifies the state needed, which ``update`` makes from the version before; without
        it ``state`` is None. ``truth(number)`` rebuilds the state of a shard: it is sent with the
        first request of a run that needs a state without an ``update``, and then only where a
        worker misses it.
        """
        begins = version is not None and update is None and type(version) not in self._begun
        common = (self._plan, ask, version, self._sent(update), self._sent(args))
        numbers: Sequence[int] = range(self.engine.n_shards)
        value: Any = None
        for attempt in range(_ATTEMPTS):
            given = version is not None and (begins or attempt > 0)
            own = self._own(truth, numbers) if given and truth is not None else None
            # No name holds handles of single shards: what is added is freed on the workers.
            engine = self.engine
            summed = engine.total(
                engine.each(answer, *common, numbers=numbers, own=own), Partial.plus
            )
            got: Partial = engine.fetch([summed])[0]
            value = add(value, got.value)
            self.n_rebuilt += 0 if begins else got.rebuilt
            numbers = got.missed
            if not numbers:
                break
        else:
            raise RuntimeError(
                f"{len(numbers)} shards were lost {_ATTEMPTS} times in a row; workers must live "
                "long enough to answer."
            )
        self._begun.add(type(version))
        self._count(ask, (args, update), value)
        return value

    def kept(self, ask: str, *args: Any) -> Handle:
        """Handle of a stateless sum on a worker, a ``Partial``; the engine remakes a lost one."""
        common = (self._plan, ask, None, None, self._sent(args))
        self._count(ask, args, None)
        return self.engine.total(self.engine.each(answer, *common), Partial.plus)

    def audit(self, version: Any, truth: Callable[[int], Any], number: int) -> float:
        """Difference between a shard's state and its rebuilt twin; 0.0 if the state is lost.

        A difference beyond rounding warns, and drops the states of all shards for a rebuild.
        """
        own = self._own(truth, [number])
        handles = self.engine.each(_audited, self._plan, version, numbers=[number], own=own)
        difference = float(self.engine.fetch(handles)[0])
        alike = _ALIKE[np.dtype(getattr(self.facts, "dtype", None) or np.float64)]
        if not difference <= alike:  # NaN is no state
            self.n_wrong += 1
            self.forget()
            warnings.warn(
                f"the state of shard {number} was off by {difference:.2g} of its size from what "
                "follows from its rows; those of all shards are made again.",
                RuntimeWarning,
                stacklevel=2,
            )
        return difference

    def within(self, kind: type[ShardState], facts: Any) -> Run:
        """Another run for the same fit, which asks other parts of the same shards."""
        inner = Run(self.engine, kind, facts, id=f"{self.id}/{kind.__name__}")
        self.inner.append(inner)
        return inner

    def whole(self) -> list[Run]:
        """This run and its inner runs."""
        return [self, *(run for inner in self.inner for run in inner.whole())]

    def forget(self) -> None:
        """Drop state derived by workers, at the end of a fit or after its failure."""
        self.engine.everywhere(_Forget(self.id))

    def _own(
        self, truth: Callable[[int], Any], numbers: Sequence[int]
    ) -> dict[int, tuple[Any, ...]]:
        """The truth of each shard; one that serves several of them is shared once."""
        truths = {number: truth(number) for number in numbers}
        sent = {}
        for value in truths.values():
            if id(value) not in sent:
                sent[id(value)] = self._sent(value)
                self.words["sent", "truth"] += _n_words(value)
        return {number: (sent[id(value)],) for number, value in truths.items()}

    def _sent(self, value: Any) -> Any:
        """Arguments as they are put into tasks: large arrays are shared first."""
        if isinstance(value, tuple):
            return tuple(self._sent(each) for each in value)
        if isinstance(value, np.ndarray) and value.nbytes > _SMALL:
            return self.engine.share(value)
        return value

    def _count(self, ask: str, sent: Any, received: Any) -> None:
        self.n_requests += 1
        self.words["sent", ask] += _n_words(sent)
        self.words["received", ask] += _n_words(received)


def _n_words(value: Any) -> int:
    """Numbers in arrays, and in tuples and lists of them."""
    if isinstance(value, (tuple, list)):
        return sum(_n_words(each) for each in value)
    return int(getattr(value, "size", 0))


@dataclass(frozen=True)
class _Forget:
    run: str

    def __call__(self, memory: WorkerStore) -> None:
        memory.forget(self.run)


def answer(
    memory: WorkerStore,
    number: int,
    shard: Shard,
    plan: _Plan,
    ask: str,
    version: Any,
    update: Any,
    args: tuple[Any, ...],
    truth: Any = None,
) -> Partial:
    """Answer a request by a part, or tell that it misses the state that it needs."""
    part = memory.part(plan.run, number, lambda: plan.kind(shard, number, plan.facts))
    rebuilt = 0
    with part.lock, part.working(), memory.bounded():
        state = None
        if version is not None:
            state = part.state(version, update)
            if state is None and truth is None:
                return Partial(None, (number,))
            if state is None:
                state, rebuilt = part.rebuild(version, truth), 1
        return Partial(getattr(part, ask)(state, *args), (), rebuilt)


def _audited(
    memory: WorkerStore, number: int, shard: Shard, plan: _Plan, version: Any, truth: Any
) -> float:
    part = memory.part(plan.run, number, lambda: plan.kind(shard, number, plan.facts))
    with part.lock, part.working(), memory.bounded():
        state = part.held(version)
        return 0.0 if state is None else part.difference(state, part.made(version, truth))
