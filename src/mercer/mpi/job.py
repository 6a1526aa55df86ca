"""The ranks of an MPI job: rank 0 commands, and all do the same at once."""

from __future__ import annotations

import itertools
import pickle
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable
from typing import Any, NoReturn

from mercer.mpi.values import Held, held_in
from mercer.mpi.waiting import deaf, undisturbed, wait

__all__ = ["Job"]


class Job:
    """The ranks as one of them sees them.

    Parameters
    ----------
    comm : mpi4py.util.pkl5.Intracomm
        Of all ranks, for nothing else.

    Attributes
    ----------
    rank, size : int
    values : dict of int to object
        What this rank holds.
    """

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
        for held in held_in(args):
            if held.rank not in (None, rank):
                self.do(_spread, held)
                held.rank = None

    def do(self, command: Callable[..., Any], *args: Any, given: Any = None) -> Any:
        """``command(job, given, *args)`` of this rank, while all others do the same.

        ``given`` is of rank 0 alone, from which commands send parts; others see None.
        """
        with self._lock, undisturbed():
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
        with deaf():
            while True:
                wait(self.comm.Ibcast(self._call, 0).Test)
                command, args, freed = self.comm.bcast(None, 0)
                if command is _end:
                    return
                self._obey(command, args, freed, None)

    def end(self) -> None:
        """Let the other ranks go."""
        self.do(_end)
        self.values.clear()

    def gathered(self, value: Any) -> list[Any]:
        """In a command: the values of all ranks on rank 0, none elsewhere."""
        wait(self.comm.Ibarrier().Test)
        return self.comm.gather(value, 0) or []

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


def _nothing(job: Job, given: Any) -> None: ...


def _end(job: Job, given: Any) -> None: ...


def _spread(job: Job, given: Any, held: Held) -> None:
    """Give to all what one rank has."""
    value = job.comm.bcast(job.values.get(held.number), held.rank)
    job.values.setdefault(held.number, value)
