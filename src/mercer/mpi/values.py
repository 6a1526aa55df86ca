"""Values that ranks keep under numbers, handles that stand for them, and failures among them."""

from __future__ import annotations

import pickle
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Failed", "Held", "attempt", "first_failure", "held_in", "raise_first", "resolved"]


class Held:
    """Stands for a value that one rank has under a number, or that all have.

    Copies that travel keep nothing alive; when the one of the client dies, ranks drop the value.

    Attributes
    ----------
    number : int
    rank : int or None
        None: all ranks have the value.
    """

    def __init__(self, number: int, rank: int | None, freed: deque[int] | None = None):
        self.number, self.rank, self._freed = number, rank, freed

    def __reduce__(self) -> Any:
        return Held, (self.number, self.rank)

    def __del__(self) -> None:
        if self._freed is not None:
            self._freed.append(self.number)


@dataclass(frozen=True)
class Failed:
    """Stands where a value would be if its making had not raised."""

    error: Exception


def attempt(rank: int, work: Callable[..., Any], *args: Any) -> Any:
    """``work(*args)``, or its exception as a value, with a note of where it was raised.

    >>> attempt(1, abs, -2)
    2
    >>> attempt(0, abs, "x")
    Failed(error=TypeError("bad operand type for abs(): 'str'"))
    """
    try:
        return work(*args)
    except Exception as error:
        if rank and not getattr(error, "__notes__", None):
            error.add_note(f"On rank {rank}:\n{traceback.format_exc()}")
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            return Failed(RuntimeError(f"{type(error).__name__} on rank {rank}: {error}"))
        return Failed(error)


def first_failure(values: Iterable[Any]) -> Failed | None:
    """The first of the values that stands for a failure."""
    return next((value for value in values if isinstance(value, Failed)), None)


def raise_first(values: Iterable[Any]) -> None:
    """Raise what the first failure stands for, if there is one."""
    failed = first_failure(values)
    if failed is not None:
        raise failed.error


def held_in(value: Any) -> Iterator[Held]:
    """The handles in an argument, also in tuples, lists and dicts."""
    if isinstance(value, Held):
        yield value
    elif type(value) in (tuple, list):
        for each in value:
            yield from held_in(each)
    elif type(value) is dict:
        yield from held_in(list(value.values()))


def resolved(value: Any, values: Mapping[int, Any]) -> Any:
    """An argument with handles replaced; raises where one stands for what has failed."""
    if isinstance(value, Held):
        meant = values[value.number]
        raise_first((meant,))
        return meant
    if type(value) in (tuple, list):
        return type(value)(resolved(each, values) for each in value)
    if type(value) is dict:
        return {key: resolved(each, values) for key, each in value.items()}
    return value
