"""Lazy arrays over shards, evaluated on the workers when a sum is requested."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import DTypeLike, NDArray

__all__ = ["Expression", "Extremes", "RemoteRows"]

_BY_ROWS = {np.where, np.clip, np.zeros_like, np.ones_like}  # functions beside the ufuncs


@dataclass(frozen=True)
class Expression:
    """A function of arrays of a shard's rows, made of NumPy's functions of single rows."""

    function: Any  # of the arguments; or the name of an array that the shard has
    arguments: tuple[Any, ...] = ()  # expressions, numbers and small arrays

    def evaluate(self, arrays: Mapping[str, NDArray]) -> NDArray:
        """Its value, given the arrays that have names."""
        if isinstance(self.function, str):
            return arrays[self.function]
        given = [a.evaluate(arrays) if isinstance(a, Expression) else a for a in self.arguments]
        return self.function(*given)

    @cached_property
    def size(self) -> int:
        """Numbers in it, as far as they are in arrays."""
        return sum(int(getattr(argument, "size", 0)) for argument in self.arguments)


@dataclass(frozen=True)
class Extremes:
    """Least and largest entry of every output; a sum has the extremes of all its terms."""

    least: NDArray
    largest: NDArray

    @classmethod
    def of(cls, rows: NDArray) -> Extremes:
        """Extremes of the columns of some rows; of no rows, infinite."""
        ends = {"least": np.inf, "largest": -np.inf}
        least = rows.min(axis=0, initial=ends["least"])
        return cls(least, rows.max(axis=0, initial=ends["largest"]))

    def __add__(self, other: Extremes) -> Extremes:
        least = np.minimum(self.least, other.least)
        return Extremes(least, np.maximum(self.largest, other.largest))

    @property
    def size(self) -> int:
        return 2 * int(np.size(self.least))


class RemoteRows(NDArrayOperatorsMixin):
    """An array (n,) or (n, k) whose rows are on workers.

    NumPy's functions of single rows and the operators give more of the kind; ``min`` and ``max``
    ask the workers, as do the means of a ``RemoteProblem``. ``ask(request, rows)`` sums the answers
    of the shards, ``like`` (0,) or (0, k) is an array of equal dtype without rows, and ``point``
    has the responses of the expression.
    """

    def __init__(
        self,
        ask: Callable[[str, RemoteRows], Any],
        expression: Expression,
        like: NDArray,
        n_rows: int,
        point: Any = None,
    ):
        self.ask, self.expression, self.like = ask, expression, like
        self.n_rows, self.point = n_rows, point

    def __len__(self) -> int:
        return self.n_rows

    @property
    def dtype(self) -> np.dtype:
        return self.like.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n_rows, *self.like.shape[1:])

    @property
    def ndim(self) -> int:
        return self.like.ndim

    def astype(self, dtype: DTypeLike, copy: bool = True) -> RemoteRows:
        """Rows in another type."""
        return (
            self if np.dtype(dtype) == self.dtype else self._made(_as_type, (self, np.dtype(dtype)))
        )

    def reshape(self, n_rows: int, n_columns: int) -> RemoteRows:
        """One column for each output, (n, -1)."""
        if (n_rows, n_columns) != (self.n_rows, -1):
            raise NotImplementedError(f"rows on workers have shape ({self.n_rows}, -1) or theirs.")
        return self._made(_as_columns, (self,))

    def column(self, number: int) -> RemoteRows:
        """One output, (n,)."""
        return self._made(_column, (self, number))

    def repeated(self, times: int) -> RemoteRows:
        """All columns so many times, (n, times k)."""
        return self._made(_repeated, (self, times))

    def min(self, axis: int = 0) -> NDArray:
        """The least entry of every output."""
        return self._extremes(axis).least

    def max(self, axis: int = 0, initial: float = -np.inf) -> NDArray:
        """The largest entry of every output, and ``initial`` at least."""
        return np.maximum(self._extremes(axis).largest, initial)

    def _extremes(self, axis: int) -> Extremes:
        if axis != 0:
            raise NotImplementedError("rows on workers have their extremes along axis 0 alone.")
        return self.ask("extremes", self)

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray:
        raise TypeError("rows are on workers; only means and extremes of them come here.")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or options:
            return NotImplemented
        return self._made(ufunc, inputs)

    def __array_function__(
        self, function: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if function is np.max and len(args) == 1 and kwargs.keys() <= {"initial"}:
            return float(np.max(self.max(**kwargs)))
        if function not in _BY_ROWS or kwargs:
            return NotImplemented
        return self._made(function, args)

    def _made(self, function: Callable[..., NDArray], arguments: tuple[Any, ...]) -> RemoteRows:
        rows = [argument for argument in arguments if isinstance(argument, RemoteRows)]
        points = {id(each.point): each.point for each in rows if each.point is not None}
        if len(points) > 1:
            raise NotImplementedError("rows on workers are made of the responses of one point.")
        with np.errstate(all="ignore"):
            like = function(*(a.like if isinstance(a, RemoteRows) else a for a in arguments))
        told = tuple(a.expression if isinstance(a, RemoteRows) else a for a in arguments)
        point = next(iter(points.values()), None)
        return RemoteRows(self.ask, Expression(function, told), like, self.n_rows, point)


def _as_columns(rows: NDArray) -> NDArray:
    return rows.reshape(len(rows), int(np.prod(rows.shape[1:])))


def _column(rows: NDArray, number: int) -> NDArray:
    return _as_columns(rows)[:, number]


def _repeated(rows: NDArray, times: int) -> NDArray:
    return np.tile(_as_columns(rows), (1, times))


def _as_type(rows: NDArray, dtype: np.dtype) -> NDArray:
    return rows.astype(dtype)
