"""Numbers on one scale: standard, robust or by quantiles."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.arrays import row_chunks
from mercer._runtime.random import Slot, distinct
from mercer._runtime.state import State, is_array, is_finite

__all__ = [
    "MOST_IDENTITIES",
    "TREATMENTS",
    "Numbers",
    "Values",
    "few_integers",
    "frequent_ones",
    "quantile_rows",
    "rare_share",
    "repeating_integers",
    "repeats",
    "worth_keeping",
]

TREATMENTS = ("robust", "standard", "quantile")

_SAMPLE = 20_000  # rows that quantiles are taken from
_LEVELS = 201
_BEND = 3.0  # robust values are bent so that none is beyond this
_CACHED = 2**19  # bytes of rows that are bent together
_FAR = 1e150  # what has a square
# Shares of the rows whose spread is one unit, the first pair that has any.
_SPREADS = ((0.25, 0.75), (0.1, 0.9), (0.05, 0.95), (0.01, 0.99), (0.0, 1.0))
_NORMAL = 1.349  # between the quartiles of the standard normal law
MOST_IDENTITIES = 1000  # labels, or whole numbers, of a column that get a column each
_LEAST_IDENTITIES = 9  # whole numbers, of which fewer are told apart by their distances
_LOOK = 512  # rows by which columns that may be equal are found


@dataclass
class Numbers:
    """Columns of numbers brought to one scale, and marks where nothing is known.

    ``standard`` gives mean 0 and variance 1. ``robust`` measures from the median in units of the
    spread of the inner half, z, bends that to z / sqrt(1 + (z / 3)**2), which no outlier leaves,
    and makes it mean 0 and variance 1. ``quantile`` gives ranks among the rows of the fit.
    ``robust`` and ``quantile`` make columns of two values 0 and 1. What is missing gets the mean.
    """

    treatment: str
    indicators: bool
    centre: NDArray = field(default_factory=lambda: np.empty(0))
    unit: NDArray = field(default_factory=lambda: np.empty(0))
    mean: NDArray = field(default_factory=lambda: np.empty(0))
    deviation: NDArray = field(default_factory=lambda: np.empty(0))
    binary: NDArray = field(default_factory=lambda: np.empty(0, dtype=bool))
    tables: list[tuple[NDArray, NDArray]] = field(default_factory=list)
    marked: NDArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def fit_transform(self, X: NDArray, rows: NDArray) -> NDArray:
        """Learn from X, of shape (n, p), quantiles from ``rows`` of it; and ``transform`` it."""
        unknown = np.isnan(X)
        self.marked = np.flatnonzero(unknown.any(axis=0)) if self.indicators else np.arange(0)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.filterwarnings("ignore", category=RuntimeWarning)  # columns without a number
            low, high = np.nanmin(X, axis=0), np.nanmax(X, axis=0)
            self.binary = ((low == X) | (high == X) | unknown).all(axis=0)
            if self.treatment == "standard":
                self.binary[:] = False
            few = X[rows].astype(np.float64)
            self.centre, self.unit = low.astype(np.float64), high.astype(np.float64) - low
            if self.treatment == "robust":
                self._spread(few)
            elif self.treatment == "quantile":
                self.tables = _ranks(few)
            self.unit = np.where((self.unit > 0) & np.isfinite(self.unit), self.unit, 1.0)
            self.centre = np.where(np.isfinite(self.centre), self.centre, 0.0)
            bent = self._bent(X)
            if unknown.any():
                self.mean, self.deviation = np.nanmean(bent, axis=0), np.nanstd(bent, axis=0)
            else:
                self.mean, self.deviation = bent.mean(axis=0), bent.std(axis=0)
        self.mean = np.where(self.binary | ~np.isfinite(self.mean), 0.0, self.mean)
        usable = ~self.binary & (self.deviation > 0)
        self.deviation = np.where(usable, self.deviation, 1.0)
        return self._on_scale(bent, X)

    def transform(self, X: NDArray) -> NDArray:
        """The columns of numbers, then a column of 0 and 1 for each where some were missing."""
        with np.errstate(over="ignore", invalid="ignore"):
            bent = self._bent(X)
        return self._on_scale(bent, X)

    def _on_scale(self, out: NDArray, X: NDArray) -> NDArray:
        """Bent numbers, which are overwritten, as ``transform`` gives them."""
        with np.errstate(over="ignore", invalid="ignore"):
            out -= self.mean
            out /= self.deviation
        if len(self.marked):
            marks = np.isnan(X[:, self.marked])
        unknown = np.isnan(out)
        if unknown.any():
            out[unknown] = 0.0
            middle = np.flatnonzero(self.binary)  # whose mean is not 0
            out[:, middle] += 0.5 * unknown[:, middle]
        if len(self.marked):
            out = np.column_stack([out, marks])
        return out

    def names(self, names: list[str]) -> list[str]:
        """Names of the columns that the part makes of columns ``names``."""
        return names + [f"{names[j]}=missing" for j in self.marked]

    def origins(self) -> NDArray[np.int64]:
        """For each column that comes out, that of the columns that go in."""
        return np.concatenate([np.arange(len(self.centre)), self.marked])

    def check_state(self, n_columns: int) -> None:
        """Raise for attributes other than a fit's to so many columns."""
        state, size = State(self), (n_columns,)
        state.one_of("treatment", TREATMENTS)
        for name in ("centre", "mean"):
            state.array(name, size, "d")
        for name in ("unit", "deviation"):
            state.check(name, "be positive", (state.array(name, size, "d") > 0).all())
        state.array("binary", size, "?")
        state.array("marked", (None,), "l", 0, n_columns - 1)
        if self.treatment == "quantile":
            tables = state.instance("tables", list)
            valid = len(tables) == n_columns and all(map(_is_table, tables))
            state.check("tables", f"hold {n_columns} pairs of arrays", valid)

    def _spread(self, few: NDArray) -> None:
        """The median of every column and the spread of its inner rows."""
        levels = sorted({0.5, *(level for pair in _SPREADS for level in pair)})
        unit = np.zeros(few.shape[1])
        if not few.size:
            return
        quantiles = dict(zip(levels, _quantiles(few, levels), strict=True))
        for low, high in _SPREADS:
            spread = quantiles[high] - quantiles[low]
            unit = np.where(unit > 0, unit, spread)
        width = np.where(unit > 0, unit / _NORMAL, self.unit)
        self.centre = np.where(self.binary, self.centre, quantiles[0.5])
        self.unit = np.where(self.binary, self.unit, width)

    def _bent(self, X: NDArray) -> NDArray[np.float64]:
        z = X.astype(np.float64)
        z -= self.centre
        z /= self.unit
        if self.treatment == "robust":
            np.clip(z, -_FAR, _FAR, out=z)
            for some in row_chunks(len(z), 8.0 * z.shape[1], _CACHED):
                curve = z[some] / _BEND
                curve *= curve
                curve += 1
                np.sqrt(curve, out=curve)
                curve[:, self.binary] = 1
                z[some] /= curve
        if self.treatment == "quantile":
            for j in np.flatnonzero(~self.binary):
                z[:, j] = np.interp(X[:, j], *self.tables[j])
        return z


def _is_table(table: Any) -> bool:
    """Whether this is a pair such as ``_ranks`` makes."""
    if not (isinstance(table, tuple) and len(table) == 2):
        return False
    values, ranks = table
    alike = is_array(values, (None,)) and is_array(ranks, values.shape) and len(values) > 0
    return alike and is_finite(values) and is_finite(ranks)


def _quantiles(X: NDArray, levels: Any) -> NDArray:
    """Quantiles of the known numbers of every column, (levels, p)."""
    if np.isnan(X).any():
        return np.nanquantile(X, levels, axis=0)
    return np.quantile(X, levels, axis=0)


def _ranks(X: NDArray) -> list[tuple[NDArray, NDArray]]:
    """Values of every column and their ranks in [0, 1]; a value of many rows gets its middle."""
    levels = np.linspace(0, 1, _LEVELS)
    tables = []
    for quantiles in _quantiles(X, levels).T if len(X) else np.full((X.shape[1], 1), np.nan):
        if np.isnan(quantiles).any():  # nothing is known
            tables.append((np.zeros(1), np.zeros(1)))
            continue
        starts = np.flatnonzero(np.diff(quantiles, prepend=-np.inf) > 0)
        counts = np.diff(starts, append=len(levels))
        tables.append((quantiles[starts], np.add.reduceat(levels, starts) / counts))
    return tables


@dataclass
class Values:
    """Whole numbers as a column of 0 and 1 for each of them, instead of or ``beside`` the number.

    Numbers that have no column are 0 in all of them.
    """

    values: NDArray
    beside: bool = False
    rare: float = 1.0  # share of new rows whose number has no column, at most, by ``rare_share``

    @classmethod
    def of(cls, column: NDArray, values: NDArray, beside: bool = False) -> Values:
        """Columns for ``values`` among the numbers of the rows of the fit."""
        n_without = int(np.count_nonzero(~(np.isin(column, values) | np.isnan(column))))
        return cls(values, beside, _upper_share(n_without, len(column)))

    def check_state(self) -> None:
        """Refuse attributes that no fit leaves."""
        State(self).number("rare", 0.0)
        State(self).array("values", (None,), "d")
        State(self).flag("beside")

    def transform(self, column: NDArray) -> NDArray:
        """One column in, of shape (n,), one for every value out."""
        return (column[:, None] == self.values).astype(np.float64)

    def names(self, name: str) -> list[str]:
        """Names of the columns that the part makes."""
        return [f"{name}={value:g}" for value in self.values]


def quantile_rows(key: int, n: int) -> NDArray[np.int64]:
    """Rows, of n, that quantiles are taken from."""
    return np.arange(n) if n <= _SAMPLE else distinct(key, n, _SAMPLE, Slot.SHUFFLE)


def few_integers(places: NDArray[np.int64], block: NDArray, most: int) -> dict[int, NDArray]:
    """The values of those columns (n, p) that hold 3 to ``most`` whole numbers, by their place."""
    few = {}
    for place, column in zip(places.tolist(), block.T, strict=True):
        if not most:
            break
        if len(np.unique(column[: 8 * most + 64])) > most + 1:
            continue
        values = np.unique(column[~np.isnan(column)])
        whole = bool((values == np.round(values)).all())
        if whole and 3 <= len(values) <= most:
            few[place] = values.astype(np.float64)
    return few


def repeating_integers(places: NDArray[np.int64], block: NDArray) -> dict[int, NDArray]:
    """The values, met twice at least, of columns (n, p) of whole numbers that may name something.

    Such a column holds 9 different numbers or more, and most rows share theirs; at most
    ``MOST_IDENTITIES`` values are kept, the most frequent ones.
    """
    found = {}
    for place, column in zip(places.tolist(), block.T, strict=True):
        present = column[~np.isnan(column)]
        some = present[:_LOOK]  # tell most other columns apart
        if not ((some == np.round(some)).all() and (present == np.round(present)).all()):
            continue
        values, codes, counts = np.unique(present, return_inverse=True, return_counts=True)
        if len(values) >= _LEAST_IDENTITIES and repeats(codes):
            found[place] = values[frequent_ones(counts, 2, MOST_IDENTITIES)].astype(np.float64)
    return found


def frequent_ones(counts: NDArray, least: int, most: int | None = None) -> NDArray[np.bool_]:
    """Mask of counts of at least ``least``, of the ``most`` largest ones alone."""
    kept: NDArray[np.bool_] = counts >= least
    if most is not None:
        kept[np.argsort(-counts, kind="stable")[most:]] = False
    return kept


def rare_share(counts: NDArray) -> float:
    """Most probable share of labels unknown to a fit among new rows, by counts of its labels.

    Good, The population frequencies of species, Biometrika 1953: the share of rows whose label no
    other row has; plus two standard errors.
    """
    return _upper_share(int(np.count_nonzero(counts == 1)), int(counts.sum()))


def _upper_share(n_new: int, n: int) -> float:
    return min(1.0, float(n_new + 2 * n_new**0.5 + 1) / max(n, 1))


def repeats(codes: NDArray) -> bool:
    """Whether most rows share their code with another row; codes below 0 are of none."""
    counts = np.bincount(codes[codes >= 0])
    return 2 * int(counts[counts > 1].sum()) > int(counts.sum())


def worth_keeping(out: NDArray) -> NDArray[np.bool_]:
    """Mask of columns that are neither constant nor equal to an earlier one; the first if none."""
    kept = out.min(axis=0) < out.max(axis=0)
    look = np.ascontiguousarray(out[:_LOOK].T)
    alike: dict[bytes, list[int]] = {}
    for j in np.flatnonzero(kept).tolist():
        alike.setdefault(look[j].tobytes(), []).append(j)
    for columns in alike.values():
        if len(columns) > 1:  # those that begin alike are told apart by a digest of the whole
            digests = [blake2b(out[:, j].tobytes(), digest_size=16).digest() for j in columns]
            seen = set[bytes]()
            for j, digest in zip(columns, digests, strict=True):
                kept[j] = digest not in seen
                seen.add(digest)
    if not kept.any():
        kept[:1] = True
    return kept
