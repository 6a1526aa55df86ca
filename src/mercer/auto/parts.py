"""Ways to hold rows out, and the rows of both sides, treated and scaled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer.auto.goals import Classes, Numbers
from mercer.auto.trials import METRICS, Settings
from mercer.estimators.scales import GradientScaler, at_unit_distance, learned_scales, scaled
from mercer.estimators.selection import random_order
from mercer.maps.partition import grown
from mercer.preparation import Columns, TablePreparer, column_names, read, treated

__all__ = ["MOST_DENSE", "LeafPart", "Part", "leaf_parts", "rows_of", "splits", "spread_out"]

MOST_DENSE = 2000  # inputs for which scales are learned and rows of a search are dense

_HELD_ROWS, _FITTED_ROWS = 1500, 4000
_FEW_ROWS, _FOLDS = 1000, 5  # so few rows are held out in turn
_CUTS = 2  # through a node, whose sides are leaves to try settings on


@dataclass
class Part:
    """A way to hold rows out: the tables of both sides, treated and scaled when asked for."""

    table: Any
    y: Any
    kind: str
    fitted: NDArray[np.int64]
    held: NDArray[np.int64]
    key: int
    made: dict[Any, Any] = field(init=False, default_factory=dict)
    locks: dict[Any, Lock] = field(init=False, default_factory=dict)

    def rows(self, settings: Settings) -> tuple[Any, Any]:
        """Rows to fit and rows to predict under settings, but for kernel, gamma and ridge."""
        treatment = settings.numbers, settings.max_integers
        return self._once(treatment, lambda: self._prepared(*treatment))

    def prepare(self, settings: Settings) -> None:
        """Treat rows and learn scales now rather than when they are asked for."""
        self.scales(settings)

    def scaled(self, settings: Settings, n_rows: int) -> tuple[Any, Any]:
        """The same in learned scales: the first rows to fit, and all to predict."""
        fitted, held = self.rows(settings)
        matrix = self.scales(settings)
        return scaled(fitted[:n_rows], matrix), scaled(held, matrix)

    def scales(self, settings: Settings) -> NDArray[np.float32]:
        """What brings rows to learned scales, at a median distance of 1."""
        which = settings.numbers, settings.max_integers, settings.turned, settings.power
        metric = METRICS[settings.kernel]
        return self._once((*which, metric), lambda: self._scales(settings, metric))

    def _scales(self, settings: Settings, metric: str) -> NDArray[np.float32]:
        fitted, _ = self.rows(settings)
        learned = np.ones(fitted.shape[1])
        if settings.power:
            which = settings.numbers, settings.max_integers, settings.turned
            learned = self._once(which, lambda: self._learned(settings.turned, fitted))
        if not settings.turned:
            learned = learned**settings.power
        return at_unit_distance(fitted, learned, metric).astype(np.float32)

    def _once(self, key: Any, make: Callable[[], Any]) -> Any:
        """The result of ``make``, which the first thread that asks for it calls."""
        with self.locks.setdefault(key, Lock()):
            if key not in self.made:
                self.made[key] = make()
            return self.made[key]

    def _prepared(self, numbers: str, max_integers: int) -> tuple[Any, Any]:
        preparer = TablePreparer(
            numbers,
            max_integers=max_integers,
            target=self.kind,
            random_state=np.random.default_rng(self.key),
        )
        y = self.y[self.fitted]
        if sparse.issparse(self.table):
            fitted = preparer.fit_transform(rows_of(self.table, self.fitted), y)
            held = preparer.transform(rows_of(self.table, self.held))
        else:
            columns = self._once("columns", self._columns)
            fitted, held = treated(preparer, columns[0], columns[1], y)
        return _short(fitted), _short(held)

    def _columns(self) -> tuple[Columns, Columns]:
        """The columns of the rows to fit and of those to predict, read once for all treatments."""
        names = column_names(self.table)
        fitted = read(rows_of(self.table, self.fitted), names)
        return fitted, read(rows_of(self.table, self.held), names, fitted.kinds())

    def _learned(self, turned: bool, fitted: Any) -> NDArray:
        scaler = GradientScaler(
            full=turned, target=self.kind, random_state=np.random.default_rng(self.key)
        )
        return learned_scales(scaler, fitted, self.y[self.fitted])


@dataclass
class LeafPart:
    """Rows of a leaf, some of them held out, treated and scaled with all rows."""

    whole: Part
    fitted_places: NDArray[np.int64]  # among the rows of ``whole``
    held_places: NDArray[np.int64]

    @property
    def fitted(self) -> NDArray[np.int64]:
        """The rows to fit, of the table."""
        return self.whole.fitted[self.fitted_places]

    @property
    def held(self) -> NDArray[np.int64]:
        """The rows held out, of the table."""
        return self.whole.fitted[self.held_places]

    def prepare(self, settings: Settings) -> None:
        """Treat rows and learn scales now rather than when they are asked for."""
        self.whole.prepare(settings)

    def scaled(self, settings: Settings, n_rows: int) -> tuple[Any, Any]:
        """The first rows to fit, and all to predict, in learned scales."""
        treated, _ = self.whole.rows(settings)
        matrix = self.whole.scales(settings)
        fitted = treated[self.fitted_places[:n_rows]]
        return scaled(fitted, matrix), scaled(treated[self.held_places], matrix)


def leaf_parts(
    whole: Part, settings: Settings, leaf_size: int, count: int, overlap: float
) -> list[LeafPart]:
    """About ``count`` leaves of the rows to fit of ``whole``, in which every fifth row is held out.

    They are the sides of several cuts through some nodes of twice the size, so that every row that
    is held out is answered for by several leaves, as it is by several trees: their mean bears a
    narrower kernel and a weaker penalty than one leaf.
    """
    treated, _ = whole.rows(settings)
    rows = scaled(treated, whole.scales(settings))
    _, nodes = grown(rows, 2 * leaf_size, 1, overlap, whole.key, 1)
    parts = []
    n_nodes = min(max(1, count // (2 * _CUTS)), len(nodes))
    for node in np.linspace(0, len(nodes) - 1, n_nodes).round().astype(int):
        own = nodes.of(int(node))
        is_held = np.zeros(len(own), dtype=bool)
        is_held[np.argsort(random_order(whole.key, len(own)))[: max(1, len(own) // _FOLDS)]] = True
        side_size = int((0.5 + overlap) * len(own)) + 2
        for cut in range(_CUTS):
            _, sides = grown(rows[own], side_size, 1, overlap, (whole.key + cut + 1) % 2**64, 1)
            for side in map(sides.of, range(len(sides))):
                held, fitted = own[side[is_held[side]]], own[side[~is_held[side]]]
                if len(held) and len(fitted):
                    parts.append(LeafPart(whole, fitted, held))
    return parts


def spread_out(leaves: list[LeafPart], n_rows: int) -> LeafPart:
    """Rows from anywhere in the table beside the rows that the leaves hold out."""
    whole = leaves[0].whole
    held = np.unique(np.concatenate([leaf.held_places for leaf in leaves]))
    free = np.setdiff1d(np.arange(len(whole.fitted)), held)
    fitted = free[np.argsort(random_order(whole.key, len(free)))[:n_rows]]
    return LeafPart(whole, fitted, held)


def rows_of(table: Any, rows: NDArray) -> Any:
    """Some rows of a frame, an array or a CSR matrix."""
    if hasattr(table, "iloc"):
        return table.iloc[rows]
    return table[rows]


def splits(
    goal: Numbers | Classes,
    key: int,
    n: int,
    most_fitted: int = _FITTED_ROWS,
    most_held: int = _HELD_ROWS,
) -> list[tuple[NDArray, NDArray]]:
    """Rows to fit and rows to hold out: one part of many rows, or each fifth of few in turn.

    Rows come in random order, classes mixed evenly, so that the first of them are a fair sample.
    """
    order = np.argsort(random_order(key, n))
    strata = goal.strata()
    if strata is not None:  # row i of a class of c rows stands at (i + 1/2) / c of the whole
        labels = strata[order]
        by_class = np.argsort(labels, kind="stable")
        counts = np.bincount(labels)
        first = np.repeat(np.cumsum(counts) - counts, counts)
        place = (np.arange(n) - first + 0.5) / counts[labels[by_class]]
        order = order[by_class[np.argsort(place, kind="stable")]]
    if n <= _FEW_ROWS:
        folds = np.arange(n) % min(_FOLDS, n)
        return [(order[folds != f], order[folds == f]) for f in range(min(_FOLDS, n))]
    n_held = min(most_held, n // 4)
    return [(order[n_held : n_held + most_fitted], order[:n_held])]


def _short(X: Any) -> Any:
    """Rows in float32, and dense unless they are long."""
    if hasattr(X, "toarray") and X.shape[1] <= MOST_DENSE:
        X = X.toarray()
    return X.astype(np.float32)
