"""Fits over the ranks of an MPI job, such as ``mpiexec -n 4 python fit.py``.

Rank 0 runs the user's code and holds shards as all others do. What its engine is asked becomes a
command that all ranks get and do at once; only what is named in it travels. MPI makes no loss good:
where a rank dies the job ends, and the same command with a checkpoint goes on from there.
"""

from __future__ import annotations

import itertools
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, NoReturn

from mercer._blas import blas_threads
from mercer._machine import cores
from mercer.distributed.engine import OfShard
from mercer.distributed.memory import WORKER, Memory
from mercer.distributed.shards import Shard

__all__ = ["MPIEngine", "run", "shards_of"]

_PATIENCE = 200  # questions without a pause, some tenths of a millisecond
_PAUSE = 1e-3  # seconds at most between two later ones

_job: _Job | None = None  # of this process, while ``run`` goes on


def run(main: Callable[..., Any], *args: Any) -> Any:
    """Call ``main(*args)`` on rank 0, while the other ranks work for it.

    Every rank calls this, with the same function. Fits belong into it; what stands after it is done
    by every rank.

    Parameters
    ----------
    main : callable
        The user's code.
    *args
        What it is called with.

    Returns
    -------
    object
        What ``main`` returns on rank 0, None on the others.

    Raises
    ------
    ImportError
        If mpi4py is not installed.
    Exception
        On rank 0, what ``main`` raises; the other ranks then end as well. An exception in work on
        shards, wherever it is done, is raised by the fit on rank 0, with a note of the rank.

    Notes
    -----
    A rank that is killed takes the job with it, as MPI has it. The same command with the same
    folder of checkpoints goes on where the fit was, on any number of ranks. Ctrl-C reaches rank 0
    once the command that ranks are at is done; the others do not listen to it.

    Examples
    --------
    >>> from mercer import mpi
    >>> mpi.run(max, 1, 2)  # doctest: +SKIP
    2
    """
    global _job
    if _job is not None:
        raise RuntimeError("mercer.mpi.run must not be called inside of itself.")
    _job = job = _Job(_communicator())
    try:
        with _share_of_cores(job.comm):
            if job.rank:
                return job.serve()
            try:
                return main(*args)
            finally:
                job.end()
    finally:
        _job = None


def shards_of(load: Callable[[int], Any], n_shards: int | None = None) -> MPIEngine:
    """Shards that ranks make themselves, each its own, from a function.

    Parameters
    ----------
    load : callable
        ``load(number)``, called on the rank that shall have the shard, is ``(X, y)``,
        ``(X, y, sample_weight)`` or a Shard; it stands in a module or in the script that all
        ranks run.
    n_shards : int, default=None
        None makes one for every rank.

    Returns
    -------
    MPIEngine

    Raises
    ------
    RuntimeError
        Outside of :func:`run`.
    Exception
        What ``load`` raises, on whatever rank.
    """
    if _job is None:
        raise RuntimeError("shards_of must be called inside of mercer.mpi.run, on rank 0.")
    shards = _job.spread_out(_job.size if n_shards is None else n_shards)
    _raise_first(_job.do(_make, shards, load))
    return MPIEngine(_job, shards)


class Held:
    """Stands for a value that one rank has under a number, or that all have.

    Copies that travel keep nothing alive; when the one of the client dies, ranks drop the value.
    """

    def __init__(self, number: int, rank: int | None, freed: deque[int] | None = None):
        self.number, self.rank, self._freed = number, rank, freed

    def __reduce__(self) -> Any:
        return Held, (self.number, self.rank)

    def __del__(self) -> None:
        if self._freed is not None:
            self._freed.append(self.number)


class MPIEngine:
    """Shards on the ranks of an MPI job; an :class:`~mercer.distributed.Engine`.

    Made by :func:`shards_of`. Neighbouring shards are on the same rank.

    Attributes
    ----------
    n_shards : int
    n_workers : int
        Ranks.
    """

    def __init__(self, job: _Job, shards: Sequence[Held], is_changed: bool = False):
        self._job, self._shards, self._is_changed = job, list(shards), is_changed

    @property
    def n_shards(self) -> int:
        return len(self._shards)

    @property
    def n_workers(self) -> int:
        return self._job.size

    def share(self, value: Any) -> Held:
        held = self._job.hold(None)
        self._job.do(_share, held, value)
        return held

    def each(
        self,
        work: OfShard,
        *args: Any,
        numbers: Sequence[int] | None = None,
        own: Mapping[int, tuple[Any, ...]] | None = None,
    ) -> list[Held]:
        job = self._job
        chosen = {i: self._shards[i] for i in (range(self.n_shards) if numbers is None else numbers)}
        job.bring(args, None)
        parcels: list[dict[int, Any]] | None = None
        if own:
            parcels = [{} for _ in range(job.size)]
            for i in own.keys() & chosen.keys():
                rank = chosen[i].rank
                job.bring(own[i], rank)
                parcels[rank or 0][i] = own[i]
        results = {i: job.hold(shard.rank) for i, shard in chosen.items()}
        tasks = [(i, shard, results[i]) for i, shard in chosen.items()]
        job.do(_each, tasks, work, args, parcels is not None, given=parcels)
        return list(results.values())

    def once(self, work: Callable[..., Any], *args: Any) -> Held:
        job = self._job
        rank = next((held.rank for held in _held_in(args) if held.rank is not None), 0)
        job.bring(args, rank)
        held = job.hold(rank)
        if rank == 0:
            job.values[held.number] = _attempt(0, lambda: work(*_resolved(args, job.values)))
        else:
            job.do(_once, held, work, args)
        return held

    def total(self, handles: Sequence[Held], add: Callable[[Any, Any], Any]) -> Held:
        held = self._job.hold(handles[0].rank or 0)
        self._job.do(_total, held, list(handles), add)
        return held

    def fetch(self, handles: Sequence[Held]) -> list[Any]:
        values = self._job.values
        found = {held.number: values[held.number] for held in handles if not held.rank}
        far = [held for held in handles if held.rank]
        if far:
            for part in self._job.do(_fetch, far):
                found |= part
        got = [found[held.number] for held in handles]
        _raise_first(got)
        return got

    def exchange(self, split: OfShard, n_shards: int, join: Callable[..., Any]) -> MPIEngine:
        shards = self._job.spread_out(n_shards)
        _raise_first(self._job.do(_exchange, list(enumerate(self._shards)), shards, split, join))
        return MPIEngine(self._job, shards)

    def changed(
        self, work: OfShard, *args: Any, own: Mapping[int, tuple[Any, ...]] | None = None
    ) -> MPIEngine:
        return MPIEngine(self._job, self.each(work, *args, own=own), is_changed=True)

    def everywhere(self, work: Callable[[Memory], Any]) -> list[Any]:
        got = self._job.do(_everywhere, work)
        _raise_first(got)
        return got

    def close(self) -> None:
        self._shards = []
        if not self._is_changed:  # what is derived of changed shards, fits forget themselves
            self.everywhere(Memory.forget)


@dataclass(frozen=True)
class _Failed:
    """Stands where a value would be if its making had not raised."""

    error: Exception


class _Job:
    """The ranks as one of them sees them: what it holds, and the commands that all do at once."""

    def __init__(self, comm: Any):
        self.comm, self.rank, self.size = comm, comm.Get_rank(), comm.Get_size()
        self.values: dict[int, Any] = {}
        self._numbers = itertools.count()
        self._freed: deque[int] = deque()
        self._lock = threading.RLock()
        self._call = bytearray(1)  # tells the others that a command follows

    def hold(self, rank: int | None) -> Held:
        """The handle of a value that is to come, on a rank or on all."""
        return Held(next(self._numbers), rank, self._freed)

    def spread_out(self, n: int) -> list[Held]:
        """Handles of n shards, neighbours on the same rank."""
        return [self.hold(j * self.size // n) for j in range(n)]

    def bring(self, args: Any, rank: int | None) -> None:
        """See that what handles stand for is where it is needed: on a rank, or on all."""
        for held in _held_in(args):
            if held.rank not in (None, rank):
                self.do(_spread, held)
                held.rank = None

    def do(self, command: Callable[..., Any], *args: Any, given: Any = None) -> Any:
        """``command(job, given, *args)`` of this rank, while all others do the same.

        ``given`` is of rank 0 alone, from which commands send parts; others see None.
        """
        with self._lock, _undisturbed():
            freed = [self._freed.popleft() for _ in range(len(self._freed))]
            self.comm.Ibcast(self._call, 0).Wait()
            try:
                self.comm.bcast((command, args, freed), 0)
            except (pickle.PicklingError, AttributeError, TypeError):  # nothing was sent yet
                self.comm.bcast((_nothing, (), freed), 0)
                self._drop(freed)
                raise
            return self._obey(command, args, freed, given)

    def serve(self) -> None:
        """Do what rank 0 commands, until it has no more."""
        with _deaf():
            while True:
                _wait(self.comm.Ibcast(self._call, 0).Test)
                command, args, freed = self.comm.bcast(None, 0)
                if command is _end:
                    return
                self._obey(command, args, freed, None)

    def end(self) -> None:
        """Let the other ranks go."""
        self.do(_end)
        self.values.clear()

    def _obey(self, command: Any, args: Any, freed: list[int], given: Any) -> Any:
        self._drop(freed)
        try:
            return command(self, given, *args)
        except BaseException:  # others may wait for this rank now, for ever
            self._abort()

    def _drop(self, freed: list[int]) -> None:
        for number in freed:
            self.values.pop(number, None)

    def _abort(self) -> NoReturn:
        sys.stderr.write(f"mercer: rank {self.rank} of {self.size} cannot go on:\n")
        traceback.print_exc()
        sys.stderr.flush()
        self.comm.Abort(1)
        raise SystemExit(1)

    def gathered(self, value: Any) -> list[Any]:
        """The values of all ranks on rank 0, none elsewhere."""
        _wait(self.comm.Ibarrier().Test)
        return self.comm.gather(value, 0) or []


# -- commands: functions of (job, what rank 0 alone has, what all have been sent) -------------------


def _nothing(job: _Job, given: Any) -> None: ...


def _end(job: _Job, given: Any) -> None: ...


def _share(job: _Job, given: Any, held: Held, value: Any) -> None:
    job.values[held.number] = value


def _spread(job: _Job, given: Any, held: Held) -> None:
    value = job.comm.bcast(job.values.get(held.number), held.rank)
    job.values.setdefault(held.number, value)


def _make(job: _Job, given: Any, shards: list[Held], load: Callable[[int], Any]) -> list[Any]:
    for number, held in enumerate(shards):
        if held.rank == job.rank:
            job.values[held.number] = _attempt(job.rank, lambda i=number: _as_shard(load(i)))
    return _failures(job, shards)


def _each(
    job: _Job,
    given: Any,
    tasks: list[tuple[int, Held, Held]],
    work: OfShard,
    args: tuple[Any, ...],
    has_own: bool,
) -> None:
    own: dict[int, Any] = job.comm.scatter(given, 0) if has_own else {}
    for i, shard, result in tasks:
        if shard.rank == job.rank:
            inputs = (shard, *args, *own.get(i, ()))
            job.values[result.number] = _attempt(
                job.rank, lambda i=i, inputs=inputs: work(WORKER, i, *_resolved(inputs, job.values))
            )


def _once(job: _Job, given: Any, held: Held, work: Callable[..., Any], args: Any) -> None:
    if held.rank == job.rank:
        job.values[held.number] = _attempt(
            job.rank, lambda: work(*_resolved(args, job.values))
        )


def _total(job: _Job, given: Any, held: Held, handles: list[Held], add: Any) -> None:
    """Terms as (rank, value where it is there), joined as ``add_in_pairs`` joins values."""
    terms = [(handle.rank or 0, job.values.get(handle.number)) for handle in handles]
    while len(terms) > 1:
        terms = [_joined(job, add, *terms[i : i + 2]) for i in range(0, len(terms), 2)]
    if held.rank == job.rank:
        job.values[held.number] = terms[0][1]


def _joined(job: _Job, add: Any, left: Any, right: Any = None) -> Any:
    """The sum of two terms on the rank of the first; the second is sent there."""
    if right is None:
        return left
    (there, a), (from_, b) = left, right
    if job.rank == from_ != there:
        job.comm.send(b, there)
    if job.rank != there:
        return there, None
    if from_ != there:
        _wait(lambda: job.comm.iprobe(source=from_))
        b = job.comm.recv(source=from_)
    failed = next((term for term in (a, b) if isinstance(term, _Failed)), None)
    return there, failed or _attempt(job.rank, lambda: add(a, b))


def _fetch(job: _Job, given: Any, handles: list[Held]) -> list[Any]:
    here = {held.number for held in handles if held.rank == job.rank}
    return job.gathered({number: job.values[number] for number in here})


def _exchange(
    job: _Job,
    given: Any,
    shards: list[tuple[int, Held]],
    new: list[Held],
    split: OfShard,
    join: Callable[..., Any],
) -> list[Any]:
    out: list[list[Any]] = [[] for _ in range(job.size)]
    for i, shard in shards:
        if shard.rank == job.rank:
            pieces = _attempt(
                job.rank, lambda i=i, s=shard: split(WORKER, i, *_resolved((s,), job.values))
            )
            for j, held in enumerate(new):
                piece = pieces if isinstance(pieces, _Failed) else pieces[j]
                out[held.rank or 0].append((j, i, piece))
    given_to: dict[int, dict[int, Any]] = {}
    for parcel in job.comm.alltoall(out):
        for j, i, piece in parcel:
            given_to.setdefault(j, {})[i] = piece
    for j, pieces in given_to.items():
        failed = next((piece for piece in pieces.values() if isinstance(piece, _Failed)), None)
        job.values[new[j].number] = failed or _attempt(
            job.rank, lambda pieces=pieces: join(*(pieces[i] for i in sorted(pieces)))
        )
    return _failures(job, new)


def _everywhere(job: _Job, given: Any, work: Callable[[Memory], Any]) -> list[Any]:
    return job.gathered(_attempt(job.rank, lambda: work(WORKER)))


# -- errors, handles, waiting ------------------------------------------------------------------------


def _attempt(rank: int, work: Callable[[], Any]) -> Any:
    """What work returns, or its exception as a value, with a note of where it was raised."""
    try:
        return work()
    except Exception as error:
        if rank and not getattr(error, "__notes__", None):
            error.add_note(f"On rank {rank}:\n{traceback.format_exc()}")
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            return _Failed(RuntimeError(f"{type(error).__name__} on rank {rank}: {error}"))
        return _Failed(error)


def _failures(job: _Job, shards: list[Held]) -> list[Any]:
    """What went wrong with shards, on rank 0."""
    made = [job.values[held.number] for held in shards if held.rank == job.rank]
    failed = [value for value in made if isinstance(value, _Failed)]
    return [value for part in job.gathered(failed) for value in part]


def _raise_first(values: Sequence[Any]) -> None:
    for value in values:
        if isinstance(value, _Failed):
            raise value.error


def _held_in(value: Any) -> Iterator[Held]:
    """The handles in an argument, also in tuples, lists and dicts."""
    if isinstance(value, Held):
        yield value
    elif type(value) in (tuple, list):
        for each in value:
            yield from _held_in(each)
    elif type(value) is dict:
        yield from _held_in(list(value.values()))


def _resolved(value: Any, values: Mapping[int, Any]) -> Any:
    """An argument with handles replaced; raises where one stands for what has failed."""
    if isinstance(value, Held):
        found = values[value.number]
        _raise_first((found,))
        return found
    if type(value) in (tuple, list):
        return type(value)(_resolved(each, values) for each in value)
    if type(value) is dict:
        return {key: _resolved(each, values) for key, each in value.items()}
    return value


def _as_shard(value: Any) -> Shard:
    return value if isinstance(value, Shard) else Shard(*value)


def _wait(done: Callable[[], Any]) -> None:
    """Wait without taking the core from a rank that shares it; MPI itself would keep it busy."""
    for _ in range(_PATIENCE):
        if done():
            return
    pause = 0.0
    while not done():
        pause = min(_PAUSE, pause + 1e-5)
        time.sleep(pause)


def _handled() -> list[int]:
    """The signals that end a process, here those that Python handles."""
    names = ("SIGINT", "SIGTERM", "SIGHUP")
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    return [number for number in numbers if callable(signal.getsignal(number))]


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Let Ctrl-C wait for the end of a command: ranks that have done half of one never meet."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[Any] = []
    handlers = {number: signal.getsignal(number) for number in _handled()}
    for number in handlers:
        signal.signal(number, lambda *got: came.append(got))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number, frame in came[:1]:
            handlers[number](number, frame)  # type: ignore[operator]


@contextmanager
def _deaf() -> Iterator[None]:
    """Leave it to rank 0 to answer Ctrl-C, which launchers pass on to all ranks."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in _handled()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _communicator() -> Any:
    """All ranks, with messages of their own; large arrays travel without a copy."""
    try:
        from mpi4py import MPI
        from mpi4py.util import pkl5
    except ImportError as error:
        raise ImportError(
            f"fits over MPI need mpi4py and an MPI ({error}); pip install 'mercer[mpi]' brings the "
            "first."
        ) from error
    return pkl5.Intracomm(MPI.COMM_WORLD.Dup())


@contextmanager
def _share_of_cores(comm: Any) -> Iterator[None]:
    """Divide cores among the ranks of a machine that may use the same ones.

    What ``OMP_NUM_THREADS`` says is left as it is, as :func:`~mercer._machine.cores` reads it.
    """
    if "OMP_NUM_THREADS" in os.environ:
        yield
        return
    masked = hasattr(os, "sched_getaffinity")
    mine = (os.uname().nodename, sorted(os.sched_getaffinity(0)) if masked else None)
    share = max(1, cores() // comm.allgather(mine).count(mine))
    os.environ["OMP_NUM_THREADS"] = str(share)
    try:
        with blas_threads(share):
            yield
    finally:
        with suppress(KeyError):
            del os.environ["OMP_NUM_THREADS"]
