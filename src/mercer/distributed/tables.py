"""Tables whose rows are on shards: some come here, all are prepared where they are.

Whatever an estimator learns of some rows, such as the kinds of columns or scales of the inputs, it
learns here, of the rows that it would look at on one machine: they are drawn by their numbers among
all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import is_classifier

from mercer._runtime.arrays import Index, check_memory
from mercer._runtime.rows import FarRows, PreparedRows
from mercer.distributed.parts import Coding
from mercer.engines.engine import Engine
from mercer.engines.memory import WorkerStore
from mercer.engines.shards import NumberedRows, Shard, gathered
from mercer.estimators.targets import Target, checked_labels
from mercer.preparation import TablePreparer, checked_table, column_names, read
from mercer.preparation.columns import Labels, Reading
from mercer.preparation.frames import frame_of
from mercer.preparation.repeats import row_numbers

__all__ = ["FarTable", "TargetCode", "brought", "targets_of"]

# Numbers of rows, increasing, of columns, and what these hold whatever a treatment makes of them.
_Known: TypeAlias = Sequence[tuple[NDArray[np.int64], NDArray[np.int64], NDArray]]


@dataclass(frozen=True)
class TargetCode:
    """Map from the targets of shards to the targets that leaves are solved for."""

    # transforms of numbers before the coding, such as a logarithm
    steps: Sequence[Callable[[NDArray], NDArray]]
    coding: Coding  # differences from the mean, or signs and indicators of classes
    dtype: Any  # precision that coded targets are rounded to

    def __call__(self, target: Any) -> NDArray[np.float64]:
        """Targets (n, k)."""
        n, shape = len(target), () if self.coding.classes_ is not None else self.coding.shape
        target = np.asarray(target).reshape(n, *shape)
        for step in self.steps:
            target = step(target.astype(np.float64))
        coded = self.coding.apply(target).astype(self.dtype).astype(np.float64)
        return coded.reshape(n, int(np.prod(coded.shape[1:])))


class FarTable(FarRows):
    """A table by its shards, with the ``sizes`` of all and an ``example`` of rows of one.

    ``index`` holds the increasing numbers of its rows; None means all rows.
    """

    callback: Any = None  # called with solved leaves, besides the callbacks of the model
    target_steps: tuple[Callable[[NDArray], NDArray], ...] = ()  # transforms before coding

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
        """The table of all shards; a ValueError if it is empty, sparse, or its columns differ."""
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
        other.target_steps = self.target_steps
        return other

    def row_numbers(self) -> NDArray[np.uint64]:
        numbers: NDArray[np.uint64] = np.concatenate(gathered(self.engine, _numbers_of))
        return numbers if self.index is None else numbers[self.index]

    def results(self, work: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]) -> list[Any]:
        arrays = {id(each): each for task in tasks for each in task if isinstance(each, np.ndarray)}
        shared = {key: self.engine.share(array) for key, array in arrays.items()}
        calls = [tuple(shared.get(id(each), each) for each in task) for task in tasks]
        return self.engine.fetch([self.engine.once(work, *call) for call in calls])

    def recoded(self, step: Callable[[NDArray], NDArray]) -> FarTable:
        other = copy(self)
        other.target_steps = (*self.target_steps, step)
        return other

    def checked_for(self, estimator: Any, reset: bool) -> FarTable:
        checked_table(estimator, self.example, reset)
        if not self._is_checked:
            gathered(self.engine, _check)
            self._is_checked = True
        return self

    def labels(self, reading: Reading, places: list[int]) -> dict[int, Labels]:
        check_memory(
            16.0 * len(places) * self.shape[0],
            f"the labels of {len(places)} columns of {self.shape[0]} rows",
            "leave out columns of many labels",
        )
        names, own = column_names(self), self._places()
        handles = self.engine.each(_labels_of, names, reading, places, own=own)
        pieces = [each for each in self.engine.fetch(handles) if each]
        return {place: _merged([piece[place] for piece in pieces]) for place in places}

    def treated(
        self,
        treat: Callable[[Any], Any],
        known: _Known,
        like: NDArray,
    ) -> PreparedRows:
        return PreparedRows(_Treated(self, treat, known, like))

    def _places(self) -> dict[int, tuple[NDArray[np.int64] | None]]:
        """Rows of every shard that belong to the selection; None means all."""
        if self.index is None:
            return dict.fromkeys(range(len(self.sizes)), (None,))
        cuts = np.searchsorted(self.index, self.edges)
        return {
            i: (self.engine.share(self.index[first:last] - self.edges[i]),)
            for i, (first, last) in enumerate(pairwise(cuts))
        }

    def numbered(
        self,
        steps: Sequence[Callable[[Any], Any]],
        like: NDArray,
        target: Target,
        outputs: tuple[int, ...],
        weights: NDArray | None,
        known: _Known = (),
    ) -> Engine:
        code = TargetCode(self.target_steps, Coding.of(target, outputs), like.dtype)
        share, places = self.engine.share, self._places()
        index = np.arange(self.edges[-1]) if self.index is None else self.index
        own = {}
        for i, (first, last) in enumerate(pairwise(np.searchsorted(index, self.edges))):
            beside = None if weights is None else share(weights[first:last])
            of_shard = [_of_shard(each, int(first), int(last)) for each in known]
            own[i] = int(first), *places[i], beside, share(of_shard)
        return self.engine.changed(_numbered, tuple(steps), like[:0], share(code), own=own)


class _Treated(FarRows):
    """A table after its treatment; rows the treatment was learned from keep its results."""

    def __init__(
        self,
        table: FarTable,
        treat: Callable[[Any], Any],
        known: _Known,
        like: NDArray,
    ):
        self.table, self.treat, self.known, self.like = table, treat, known, like
        self.shape, self.dtype = (table.shape[0], like.shape[1]), like.dtype
        self.callback, self.target_steps = table.callback, table.target_steps

    def __getitem__(self, rows: Index) -> Any:
        rows = np.arange(self.shape[0])[rows]
        out = self.treat(self.table[rows])
        for numbers, columns, values in self.known:
            places = np.minimum(np.searchsorted(numbers, rows), len(numbers) - 1)
            here = np.flatnonzero(numbers[places] == rows)
            out[np.ix_(here, columns)] = values[places[here]]
        return out

    def row_numbers(self) -> NDArray[np.uint64]:
        return self.table.row_numbers()

    def taken(self, rows: NDArray[np.int64]) -> _Treated:
        known = []
        for numbers, columns, values in self.known:
            stay = np.isin(numbers, rows)
            known.append((np.searchsorted(rows, numbers[stay]), columns, values[stay]))
        return _Treated(self.table.taken(rows), self.treat, known, self.like)

    def numbered(
        self,
        steps: Sequence[Callable[[Any], Any]],
        like: NDArray,
        target: Target,
        outputs: tuple[int, ...],
        weights: NDArray | None,
    ) -> Engine:
        given = target, outputs, weights
        return self.table.numbered((self.treat, *steps), like, *given, self.known)


def brought(engine: Engine, edges: NDArray[np.int64], rows: NDArray[np.int64]) -> Any:
    """Some rows of shards, of which number i begins at row ``edges[i]``, in the order asked for."""
    order = np.argsort(rows, kind="stable")
    cuts = np.searchsorted(rows[order], edges)
    own = {
        i: (rows[order[first:last]] - edges[i],)
        for i, (first, last) in enumerate(pairwise(cuts))
        if last > first
    }
    numbers = sorted(own) or [0]
    own = own or {0: (np.arange(0),)}
    pieces = engine.fetch(engine.each(_picked, numbers=numbers, own=own))
    back = np.empty(len(rows), dtype=np.int64)
    back[order] = np.arange(len(rows))
    return _joined(pieces)[back]


def targets_of(model: Any, engine: Engine) -> tuple[NDArray, NDArray | None, NDArray | None]:
    """Targets, weights and offsets of all rows, brought here.

    A ValueError for several labels per row.
    """
    found = gathered(engine, _targets)
    found = [each for each in found if len(each[0])] or found[:1]
    target, *beside = zip(*found, strict=True)
    weights, offset = (None if each[0] is None else np.concatenate(each) for each in beside)
    targets = np.concatenate(target)
    if is_classifier(model):
        checked_labels(type(model).__name__, targets)
    return targets, weights, offset


# -- on workers ---------------------------------------------------------------------------------


def _look(shard: Shard) -> tuple[int, Any]:
    X = shard.X
    return len(shard), X.iloc[:1] if hasattr(X, "iloc") else X[:1]


def _columns_of(example: Any) -> str:
    frame = frame_of(example)
    return f"{example.shape[1]} columns" if frame is None else f"columns {list(frame.columns)}"


def _check(shard: Shard) -> None:
    """Raise for cells that have no treatment."""
    if len(shard):
        checked_table(TablePreparer(), shard.X, reset=True)


def _targets(shard: Shard) -> tuple[NDArray, NDArray | None, NDArray | None]:
    return np.asarray(shard.target), shard.weights, shard.offset


def _numbers_of(shard: Shard) -> NDArray[np.uint64]:
    frame = frame_of(shard.X)
    return row_numbers(shard.X if frame is None else frame)


def _of_shard(known: Any, first: int, last: int) -> Any:
    """Known values of the rows from ``first`` on, numbered from there."""
    numbers, columns, values = known
    some = slice(*np.searchsorted(numbers, [first, last]))
    return numbers[some] - first, columns, values[some]


def _labels_of(
    memory: WorkerStore,
    number: int,
    shard: Shard,
    names: list[str],
    reading: Reading,
    wanted: list[int],
    places: NDArray[np.int64] | None,
) -> dict[int, Labels]:
    """Some columns of labels; none of a shard without rows."""
    X = _rows_of(shard.X, places)
    if not X.shape[0]:
        return {}
    labels = read(X, names, reading).labels
    return {place: labels[place] for place in wanted}


def _merged(pieces: Sequence[Labels]) -> Labels:
    """The labels of all rows, numbered in the order in which they are met."""
    texts = dict.fromkeys(text for piece in pieces for text in piece.texts)
    known = {text: i for i, text in enumerate(texts)}
    return Labels(list(texts), np.concatenate([piece.numbered(known) for piece in pieces]))


def _picked(memory: WorkerStore, number: int, shard: Shard, places: NDArray[np.int64]) -> Any:
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
    frames = [frame for frame in map(frame_of, pieces) if frame is not None]
    if not frames:
        return sparse.vstack(pieces) if sparse.issparse(pieces[0]) else np.concatenate(pieces)
    # Categories differ between shards: they meet as texts.
    named = [name for name, kind in frames[0].schema.items() if kind in (nw.Categorical, nw.Enum)]
    if not named or len(frames) == 1:
        return nw.concat(frames)
    texts = [frame.with_columns(nw.col(*named).cast(nw.String)) for frame in frames]
    return nw.concat(texts).with_columns(nw.col(*named).cast(nw.Categorical))


def _numbered(
    memory: WorkerStore,
    number: int,
    shard: Shard,
    steps: tuple[Callable[[Any], Any], ...],
    like: NDArray,
    target: TargetCode,
    first: int,
    places: NDArray[np.int64] | None,
    weights: NDArray | None,
    known: _Known,
) -> NumberedRows:
    n = len(shard) if places is None else len(places)
    rows = slice(None) if places is None else places
    X = _rows_of(shard.X, places) if n else like
    for place, step in enumerate(steps if n else ()):
        X = step(X)
        if place == 0:
            for places_of, columns, values in known:
                X[np.ix_(places_of, columns)] = values
    X = np.ascontiguousarray(X, dtype=like.dtype)
    coded = target(np.asarray(shard.target)[rows])
    return NumberedRows(X, coded, weights, first + np.arange(n))
