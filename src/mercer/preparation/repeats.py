"""Rows that occur more than once: copies become weights, other repeats a warning.

A held-out row whose copy is fitted is not unseen. Copies are merged before a model chooses by rows,
so that folds, left-out errors, marginal likelihoods and intervals see every row once. Rows that
repeat in nature stay: new rows will repeat as well.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from mercer._runtime.arrays import row_chunks
from mercer._runtime.random import Slot, Streams
from mercer._runtime.rows import FarRows, PreparedRows, is_sparse
from mercer.preparation.frames import rows_of

__all__ = ["REMEDY", "Copies", "copies_in", "row_numbers"]

# What a user does whose new rows will not repeat, for models that take no groups.
REMEDY = "if they will not, choose settings by GroupKFold of scikit-learn"

_LEAST_ROWS = 20  # fewer rows show no pattern of repeats
_TOLD = 0.1  # share of rows with an equal one from which a held-out score depends on them
_COPIED = 0.5  # share of equal rows, or of the rows of a class, above which they are copies
_BY_CHANCE = 0.1  # share of repeated rows that agree with different ones in half of the columns
_EXAMINED = 20_000  # different rows whose columns are compared; agreement by chance grows with them
_FEW_COLUMNS = 100  # of CSR, up to which each is compared; of more columns two halves
_KEY = 0  # of the factors of columns; equal rows have equal numbers in every process


@dataclass(frozen=True)
class Copies:
    """Different rows of a table of copies, and the row of these that each row equals."""

    first: NDArray[np.int64]  # (m,), increasing: places of the first of equal rows
    number: NDArray[np.int64]  # (n,), from 0 to m - 1

    @classmethod
    def of(cls, numbers: NDArray[np.uint64]) -> Copies:
        """Copies by the numbers of rows, which equal rows share."""
        _, first, number = np.unique(numbers, return_index=True, return_inverse=True)
        order = np.argsort(first)
        return cls(first[order], np.argsort(order)[number])

    def weights(self, given: NDArray | None) -> NDArray[np.float64]:
        """Sum of the weights of equal rows, (m,)."""
        return np.bincount(self.number, given, minlength=len(self.first)).astype(np.float64)


def copies_in(
    X: Any,
    y: NDArray,
    beside: Sequence[NDArray | None] = (),
    labels: NDArray | None = None,
    remedy: str | None = None,
    warns: bool = True,
) -> Copies | None:
    """Copies among the rows of X, if they make up the table or a class; else None.

    Rows are copies of each other if inputs, targets and the arrays ``beside`` are equal, where half
    of the columns already tell different rows apart. A warning tells of copies. Other repeats of
    inputs in a tenth of the rows are a warning that ends in the ``remedy``, if it is given.
    ``labels`` (n,) are the classes of the rows.
    """
    n = len(y)
    inputs = None if n < _LEAST_ROWS else _repeated(X)
    if inputs is None:
        return None
    numbers, targets = inputs.copy(), np.asarray(y).reshape(n, -1)
    others = [np.asarray(each) for each in beside if each is not None]
    for place, values in enumerate((*targets.T, *others), 1):
        numbers += _hashed(values) * _factor(-place)
    twin = _have_twins(numbers)
    if _are_many(twin, labels) and not _by_chance(X, numbers, targets):
        found = Copies.of(numbers)
        if warns:
            _warn(
                f"{np.count_nonzero(twin)} of {n} rows are copies of others, in the inputs and the "
                f"target: they are fitted as {len(found.first)} rows with weights, because a "
                "held-out copy of a fitted row tells nothing; leave copies out and give "
                "sample_weight to say so."
            )
        return found
    if remedy is not None and not _by_chance(X, inputs):
        _warn(
            f"{np.count_nonzero(_have_twins(inputs))} of {n} rows have the same inputs as another "
            "row: scores of held-out rows hold for new rows that repeat rows of the fit as often; "
            f"{remedy}."
        )
    return None


def _warn(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=6)


def row_numbers(X: Any) -> NDArray[np.uint64]:
    """A number for every row of X, equal for equal rows.

    X is an array, CSR, a frame of narwhals, texts, or rows that are prepared or far.
    """
    if isinstance(X, FarRows):
        return X.row_numbers()
    if isinstance(X, PreparedRows) and isinstance(X.data, FarRows):
        numbers = X.data.row_numbers()
        return numbers if X.index is None else numbers[X.index]
    numbers = np.zeros(X.shape[0], dtype=np.uint64)
    if isinstance(X, PreparedRows):
        for some in row_chunks(len(X), 64.0 * X.shape[1]):
            numbers[some] = row_numbers(X[some])
        return numbers
    for place, values in _columns(X):
        numbers += values * _factor(place)
    return numbers


def _repeated(X: Any) -> NDArray[np.uint64] | None:
    """Numbers of the rows; None if few have a twin, as the first columns of most tables show."""
    if isinstance(X, (FarRows, PreparedRows)):
        numbers = row_numbers(X)
    else:
        numbers, until = np.zeros(X.shape[0], dtype=np.uint64), 1
        for done, (place, values) in enumerate(_columns(X), 1):
            numbers += values * _factor(place)
            if done == until:
                if np.mean(_have_twins(numbers)) < _TOLD:
                    return None
                until *= 2
    return None if np.mean(_have_twins(numbers)) < _TOLD else numbers


def _have_twins(numbers: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Mask of the numbers that occur more than once."""
    order = np.argsort(numbers)
    same = np.diff(numbers[order]) == 0
    found = np.zeros(len(numbers), dtype=bool)
    found[order[1:]] = same
    found[order[:-1]] |= same
    return found


def _are_many(twin: NDArray[np.bool_], labels: NDArray | None) -> bool:
    """True if more than half of the rows, or of those of a class, have a twin."""
    if np.mean(twin) > _COPIED:
        return True
    if labels is None:
        return False
    codes = np.unique(labels, return_inverse=True)[1]
    sizes, repeated = np.bincount(codes), np.bincount(codes, twin)
    return bool(np.any((sizes >= _LEAST_ROWS) & (repeated > _COPIED * sizes)))


def _by_chance(X: Any, numbers: NDArray[np.uint64], targets: NDArray | None = None) -> bool:
    """True if equal rows may be due to chance: rows alike in half of the columns often differ.

    The half is every second column, in the order of the numbers of their values; with targets both
    halves must tell rows apart, as one may follow from the other. A single column shows nothing,
    but for a table given several times: then all counts of equal rows have a common divisor.
    """
    _, first, counts = np.unique(numbers, return_index=True, return_counts=True)
    if len(counts) < _LEAST_ROWS or (targets is not None and np.gcd.reduce(counts) > 1):
        return len(counts) < _LEAST_ROWS
    some = np.sort(np.argsort(first)[:_EXAMINED])
    first, counts = first[some], counts[some]
    columns = [values for _, values in _columns(rows_of(X, first))]
    columns += [] if targets is None else [_hashed(values) for values in targets[first].T]
    if len(columns) < 2:
        return True
    columns.sort(key=lambda values: -len(np.unique(values)))
    repeated = counts > 1
    halves = [columns[::2], columns[1::2]][: 1 if targets is None else 2]
    for half in halves:
        own = sum(values * _factor(place) for place, values in enumerate(half))
        alike = _have_twins(np.asarray(own))[repeated]
        if np.average(alike, weights=counts[repeated]) > _BY_CHANCE:
            return True
    return False


def _columns(X: Any) -> Iterator[tuple[int, NDArray[np.uint64]]]:
    """Places of columns and a number for each cell; of wide CSR the sums of halves of columns."""
    if isinstance(X, nw.DataFrame):
        names = X.columns
        numeric = [X.schema[name].is_numeric() for name in names]
        for place in np.argsort(np.logical_not(numeric), kind="stable").tolist():
            yield place, _hashed(X.get_column(names[place]).to_numpy())
    elif is_sparse(X) and X.shape[1] > _FEW_COLUMNS:
        yield from enumerate(_sparse_halves(X))
    elif is_sparse(X):
        yield from ((place, _hashed(X[:, [place]].toarray()[:, 0])) for place in range(X.shape[1]))
    elif X.ndim == 1:
        yield 0, _hashed(X)
    else:
        for place in range(X.shape[1]):
            yield place, _hashed(X[:, place])


def _sparse_halves(X: Any) -> Iterable[NDArray[np.uint64]]:
    """Sums of the numbers of stored cells in every second column, from the first and the second."""
    cells = _hashed(X.data) * _factors(X.shape[1])[X.indices]
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    for half in (0, 1):
        sums = np.zeros(X.shape[0], dtype=np.uint64)
        inside = (X.indices % 2 == half) & (X.data != 0)
        np.add.at(sums, rows[inside], cells[inside])
        yield sums


def _hashed(values: NDArray) -> NDArray[np.uint64]:
    """A number for every value, equal for equal ones; missing ones are equal."""
    if values.dtype.kind in "biuMm":
        bits = np.ascontiguousarray(values).astype(np.int64).view(np.uint64)
    elif values.dtype.kind == "f":
        numbers = values.astype(np.float64) + 0.0  # zeros of either sign are equal
        numbers[np.isnan(numbers)] = np.nan
        bits = numbers.view(np.uint64)
    else:
        cells = (cell + 0.0 if isinstance(cell, float) else cell for cell in values.tolist())
        texts = list(map(repr, cells))
        codes = {text: _digest(text) for text in set(texts)}
        return np.fromiter((codes[text] for text in texts), dtype=np.uint64, count=len(texts))
    return bits ^ (bits >> np.uint64(32))


def _digest(text: str) -> int:
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _factor(place: int) -> np.uint64:
    """Odd factor of a column; targets have places below 0."""
    return np.uint64(_factors(1, place)[0])


def _factors(n: int, first: int = 0) -> NDArray[np.uint64]:
    places = np.arange(first, first + n) % 2**32  # streams are numbered from 0 on
    bits: NDArray[np.uint64] = Streams(_KEY, places).bits(1, Slot.VALIDATION)[:, 0]
    return bits | np.uint64(1)
