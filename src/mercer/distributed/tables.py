"""Tables whose rows lie on the shards of an engine: some come here, all are prepared where they are.

Whatever an estimator learns of some rows, such as the kinds of columns or scales of the inputs, it
learns here, of the rows that it would look at on one machine: they are drawn by their numbers among
all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer._array import Index
from mercer._rows import FarRows, PreparedRows
from mercer.distributed.engine import Engine
from mercer.distributed.memory import Memory
from mercer.distributed.shards import Shard, gathered
from mercer.preparation import TablePreparer, checked_table
from mercer.preparation.frames import frame_of

__all__ = ["FarTable", "NumberedRows", "brought", "targets_of"]

# Numbers of rows, increasing, and what a treatment makes of them; None where they are as all.
_Known: TypeAlias = tuple[NDArray[np.int64], NDArray] | None


@dataclass(frozen=True)
class NumberedRows(Shard):
    """Rows of a fit as a kernel sees them, and their numbers among all rows of the fit.

    Attributes
    ----------
    X : ndarray of shape (n_i, d)
    target : ndarray of shape (n_i, k)
    weights : ndarray of shape (n_i,) or None
    numbers : ndarray of shape (n_i,)
        Increasing, and larger than those of the shard before.
    held : ndarray of bool of shape (n_i,) or None
        Which rows are held out.
    """

    numbers: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    held: NDArray[np.bool_] | None = None


class _Far(FarRows):
    """Rows that leaves of a kernel machine can be solved of where they are."""

    def numbered(
        self,
        steps: Sequence[Callable[[Any], Any]],
        like: NDArray,
        target: NDArray,
        weights: NDArray | None,
    ) -> Engine:
        """Shards of ``NumberedRows``: these rows after some steps, as rows that are ``like`` these.

        ``target`` (n, k) and ``weights`` are of all rows.
        """
        raise NotImplementedError

    def fit_leaves(self, model: Any, rows: Any, *how: Any) -> None:
        from mercer.distributed.leaves import fit_leaves

        data = self if rows.X.index is None else self.taken(rows.X.index)
        fit_leaves(model, data, rows, *how)


class FarTable(_Far):
    """A table by its shards.

    Parameters
    ----------
    engine : Engine
    sizes : sequence of int
        Rows of every shard.
    example : array or data frame
        Rows of one of them.
    index : ndarray of int64, default=None
        Which of all rows it has, increasing; None means all.

    Attributes
    ----------
    callback : callable or None
        Told of leaves that are solved, besides the callbacks of the model.
    """

    callback: Any = None

    def __init__(
        self,
        engine: Engine,
        sizes: Sequence[int],
        example: Any,
        index: NDArray[np.int64] | None = None,
    ):
        self.engine, self.sizes, self.example, self.index = engine, list(sizes), example, index
        self.edges = np.cumsum([0, *self.sizes])
        frame = frame_of(example)
        self.names = None if frame is None else [str(name) for name in frame.columns]
        self.dtype = np.dtype(object) if frame is not None else example.dtype
        n = int(self.edges[-1]) if index is None else len(index)
        self.shape = n, int(example.shape[1])
        self._is_checked = False

    @classmethod
    def of(cls, engine: Engine) -> FarTable:
        """The table of all shards.

        Raises
        ------
        ValueError
            If there is no row, or shards differ in their columns, or are sparse.
        """
        looks = gathered(engine, _look)
        examples = [example for _, example in looks if example.shape[0]]
        if not examples:
            raise ValueError("X must have rows; all shards are empty.")
        if any(sparse.issparse(example) for example in examples):
            raise ValueError(
                "X must be dense where leaves are solved over many machines; local models of one "
                "machine, such as mercer.LocalKernelRegressor, take CSR."
            )
        columns = {_columns_of(example) for example in examples}
        if len(columns) > 1:
            raise ValueError(f"X must have the same columns in all shards; got {sorted(columns)}.")
        return cls(engine, [size for size, _ in looks], examples[0])

    def __getitem__(self, rows: Index) -> Any:
        rows = np.arange(self.shape[0])[rows]
        return brought(self.engine, self.edges, rows if self.index is None else self.index[rows])

    def taken(self, rows: NDArray[np.int64]) -> FarTable:
        index = rows if self.index is None else self.index[rows]
        other = FarTable(self.engine, self.sizes, self.example, index)
        other.callback, other._is_checked = self.callback, self._is_checked
        return other

    def checked_for(self, estimator: Any, reset: bool) -> FarTable:
        checked_table(estimator, self.example, reset)
        if not self._is_checked:
            gathered(self.engine, _check)
            self._is_checked = True
        return self

    def treated(
        self,
        treat: Callable[[Any], Any],
        rows: NDArray[np.int64],
        out: NDArray,
        differs: bool,
    ) -> PreparedRows:
        return PreparedRows(_Treated(self, treat, (rows, out) if differs else None, out[:1]))

    def numbered(
        self,
        steps: Sequence[Callable[[Any], Any]],
        like: NDArray,
        target: NDArray,
        weights: NDArray | None,
        known: _Known = None,
    ) -> Engine:
        share, own = self.engine.share, {}
        index = np.arange(self.edges[-1]) if self.index is None else self.index
        cuts = np.searchsorted(index, self.edges)
        for i, (first, last) in enumerate(zip(cuts[:-1], cuts[1:], strict=True)):
            places = None if self.index is None else share(index[first:last] - self.edges[i])
            of_rows = None if weights is None else share(weights[first:last])
            own[i] = int(first), places, share(target[first:last]), of_rows, None
            if known is not None:
                some = slice(*np.searchsorted(known[0], [first, last]))
                own[i] = *own[i][:-1], share((known[0][some] - first, known[1][some]))
        return self.engine.changed(_numbered, tuple(steps), like[:0], own=own)


class _Treated(_Far):
    """A table after its treatment, of which some rows have what the treatment was learned with."""

    def __init__(
        self,
        table: FarTable,
        treat: Callable[[Any], Any],
        known: _Known,
        like: NDArray,
    ):
        self.table, self.treat, self.known, self.like = table, treat, known, like
        self.shape, self.dtype = (table.shape[0], like.shape[1]), like.dtype
        self.callback = table.callback

    def __getitem__(self, rows: Index) -> Any:
        rows = np.arange(self.shape[0])[rows]
        out = self.treat(self.table[rows])
        if self.known is not None:
            numbers, values = self.known
            places = np.minimum(np.searchsorted(numbers, rows), len(numbers) - 1)
            is_known = numbers[places] == rows
            out[is_known] = values[places[is_known]]
        return out

    def taken(self, rows: NDArray[np.int64]) -> _Treated:
        known = self.known
        if known is not None:
            stay = np.isin(known[0], rows)
            known = np.searchsorted(rows, known[0][stay]), known[1][stay]
        return _Treated(self.table.taken(rows), self.treat, known, self.like)

    def numbered(
        self,
        steps: Sequence[Callable[[Any], Any]],
        like: NDArray,
        target: NDArray,
        weights: NDArray | None,
    ) -> Engine:
        return self.table.numbered((self.treat, *steps), like, target, weights, self.known)


def brought(engine: Engine, edges: NDArray[np.int64], rows: NDArray[np.int64]) -> Any:
    """Some rows of shards, of which number i begins at row ``edges[i]``, in the order asked for."""
    order = np.argsort(rows, kind="stable")
    cuts = np.searchsorted(rows[order], edges)
    own = {
        i: (rows[order[first:last]] - edges[i],)
        for i, (first, last) in enumerate(zip(cuts[:-1], cuts[1:], strict=True))
        if last > first
    }
    numbers = sorted(own) or [0]
    own = own or {0: (np.arange(0),)}
    pieces = engine.fetch(engine.each(_picked, numbers=numbers, own=own))
    back = np.empty(len(rows), dtype=np.int64)
    back[order] = np.arange(len(rows))
    return _joined(pieces)[back]


def targets_of(engine: Engine) -> tuple[NDArray, NDArray | None]:
    """Targets and weights of all rows, brought here."""
    found = gathered(engine, _target_and_weights)
    found = [both for both in found if len(both[0])] or found[:1]
    targets = np.concatenate([target for target, _ in found])
    if found[0][1] is None:
        return targets, None
    return targets, np.concatenate([weights for _, weights in found])


# -- on workers ---------------------------------------------------------------------------------


def _look(shard: Shard) -> tuple[int, Any]:
    X = shard.X
    return len(shard), X.iloc[:1] if hasattr(X, "iloc") else X[:1]


def _columns_of(example: Any) -> str:
    frame = frame_of(example)
    return f"{example.shape[1]} columns" if frame is None else f"columns {list(frame.columns)}"


def _check(shard: Shard) -> None:
    """Refuse cells of which nothing can be made."""
    if len(shard):
        checked_table(TablePreparer(), shard.X, reset=True)


def _target_and_weights(shard: Shard) -> tuple[NDArray, NDArray | None]:
    return np.asarray(shard.target), shard.weights


def _picked(memory: Memory, number: int, shard: Shard, places: NDArray[np.int64]) -> Any:
    return _native(_rows_of(shard.X, places))


def _rows_of(X: Any, places: NDArray[np.int64] | None) -> Any:
    """Some rows, or all, of a frame, as one of narwhals, or of an array."""
    frame = frame_of(X)
    X = X if frame is None else frame
    return X if places is None else X[places]


def _native(X: Any) -> Any:
    return X.to_native() if isinstance(X, nw.DataFrame) else X


def _joined(pieces: Sequence[Any]) -> Any:
    """Arrays or frames below each other."""
    frames = [frame_of(piece) for piece in pieces]
    if frames[0] is None:
        return np.concatenate(pieces)
    # Categories differ between shards: they meet as texts.
    named = [name for name, kind in frames[0].schema.items() if kind in (nw.Categorical, nw.Enum)]
    if not named or len(frames) == 1:
        return nw.concat(frames)
    texts = [frame.with_columns(nw.col(*named).cast(nw.String)) for frame in frames]
    return nw.concat(texts).with_columns(nw.col(*named).cast(nw.Categorical))


def _numbered(
    memory: Memory,
    number: int,
    shard: Shard,
    steps: tuple[Callable[[Any], Any], ...],
    like: NDArray,
    first: int,
    places: NDArray[np.int64] | None,
    target: NDArray,
    weights: NDArray | None,
    known: _Known,
) -> NumberedRows:
    X = like if not len(target) else _rows_of(shard.X, places)
    for place, step in enumerate(steps if len(target) else ()):
        X = step(X)
        if place == 0 and known is not None:
            X[known[0]] = known[1]
    X = np.ascontiguousarray(X, dtype=like.dtype)
    return NumberedRows(X, target, weights, first + np.arange(len(target)))
