"""Ways to hold rows out, and the rows of both sides, treated and scaled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer.auto.goals import Classes, Numbers
from mercer.auto.trials import METRICS, KnownScales, Settings
from mercer.auto.tuning import TUNING
from mercer.estimators.left_out_scales import FoundScales, LeftOutSearch, scales_by_name
from mercer.estimators.scales import GradientScaler, learned_scales
from mercer.estimators.scaling import at_unit_distance, scaled
from mercer.estimators.selection import random_order
from mercer.maps.partition import grown
from mercer.preparation import TableColumns, TablePreparer, column_names, read, rows_of, treated

__all__ = [
    "LeafSplit",
    "Split",
    "last_scale_rows",
    "later_rows",
    "leaf_parts",
    "scale_rows",
    "splits",
    "spread_out",
]


_HELD_SHARE = 0.2  # of the rows: the latest ones, which are held out by time


@dataclass
class Split:
    """A way to hold rows out: the tables of both sides, treated and scaled on first use."""

    table: Any
    y: Any
    kind: str
    fitted: NDArray[np.int64]
    held: NDArray[np.int64]
    key: int
    weights: NDArray | None = None  # of the rows of the table
    groups: NDArray | None = None
    is_later: bool = False  # whether the rows held out are later than the rows to fit
    n_of_scales: int | None = None  # rows that scales are learned from; None follows their number
    # Scales of least left-out error of other rows, as ``KnownScales`` has them.
    known_scales: KnownScales = field(default_factory=dict)
    made: dict[Any, Any] = field(init=False, default_factory=dict)
    locks: dict[Any, Lock] = field(init=False, default_factory=dict)

    @property
    def leaf_rows(self) -> NDArray[np.int64]:
        """Rows that leaves are cut from: those to fit and, by a rule, those held out."""
        return np.concatenate([self.fitted, self.held]) if self.has_rule else self.fitted

    @property
    def has_rule(self) -> bool:
        """Whether groups or time, not chance alone, decide which rows are held out."""
        return self.is_later or self.groups is not None

    def treated_leaf_rows(self, settings: Settings) -> NDArray:
        """Treated rows that leaves are cut from, before they are scaled."""
        fitted, held = self.rows(settings)
        if not self.has_rule:
            return fitted
        return self._once((id(fitted), "leaves"), lambda: np.concatenate([fitted, held]))

    def rows(self, settings: Settings) -> tuple[Any, Any]:
        """Rows to fit and rows to predict under settings, but for kernel, gamma and ridge."""
        fitted, held, _ = self._treated(settings)
        return fitted, held

    def _treated(self, settings: Settings) -> tuple[Any, Any, NDArray]:
        """Treated rows of both sides, and the names of their columns."""
        if not settings.without:
            return self._whole(settings)[:3]
        return self._once(settings.treatment, lambda: self._selected(settings))

    def _whole(self, settings: Settings) -> tuple[Any, Any, NDArray, NDArray]:
        """Treated rows of both sides, and the names of their columns and of the input of each."""
        treatment = replace(settings, without=()).treatment
        found: tuple[Any, Any, NDArray, NDArray]
        found = self._once(treatment, lambda: self._prepared(*treatment[:4]))
        return found

    def _selected(self, settings: Settings) -> tuple[Any, Any, NDArray]:
        fitted, held, names, inputs = self._whole(settings)
        kept = ~np.isin(inputs, settings.without)
        return np.ascontiguousarray(fitted[:, kept]), held[:, kept], names[kept]

    def of_many_labels(self, settings: Settings) -> list[str]:
        """Input columns of labels too many for a column each, those that count most first.

        The first one is not among them where there are no others.
        """
        if sparse.issparse(self.table):
            return []
        columns, most = self.columns()[0], TablePreparer().max_labels
        many = [
            str(columns.names[place])
            for place, labels in columns.labels.items()
            if len(np.unique(labels.codes)) > most
        ]
        if not many:
            return []
        inputs = self._whole(settings)[3]
        inputs = inputs[~np.isin(inputs, settings.without)]
        plain = replace(settings, turned=False)
        counts = self.rows(plain)[0].std(axis=0) * self.scales(plain)
        shares = {name: float(counts[inputs == name].sum()) for name in set(inputs)}
        many = sorted((name for name in many if name in shares), key=lambda name: -shares[name])
        return many[1:] if len(many) == len(shares) else many

    def prepare(self, settings: Settings) -> None:
        """Treat rows and learn scales ahead of their first use."""
        self.scales(settings)

    def scaled(self, settings: Settings, n_rows: int) -> tuple[Any, Any]:
        """The first ``n_rows`` rows to fit, and all rows to predict, in learned scales."""
        fitted, held = self.rows(settings)
        matrix = self.scales(settings)
        return scaled(fitted[:n_rows], matrix), scaled(held, matrix)

    def scales(self, settings: Settings) -> NDArray[np.float32]:
        """Vector or matrix that scales treated rows: to a median distance of 1, or to a gamma of 1
        of the machine of least left-out error."""
        if settings.scales == "left-out":
            return self._once(
                (*settings.treatment, settings.kernel, settings.power),
                lambda: self._of_left_out(settings),
            )
        which = *settings.treatment, settings.turned, settings.power
        metric = METRICS[settings.kernel]
        return self._once((*which, settings.scales, metric), lambda: self._scales(settings, metric))

    def _scales(self, settings: Settings, metric: str) -> NDArray[np.float32]:
        fitted, _ = self.rows(settings)
        learned = np.ones(fitted.shape[1])
        if settings.power:
            which = *settings.treatment, settings.turned
            kernel, first = settings.scales_kernel, None
            if kernel not in ("exponential", "linear"):
                learned = first = self._once(which, lambda: self._learned(settings.turned, fitted))
            if kernel is not None:
                learned = self._learned(settings.turned, fitted, kernel, first)
        if not settings.turned:
            learned = learned**settings.power
        return at_unit_distance(fitted, learned, metric).astype(np.float32)

    def _of_left_out(self, settings: Settings) -> NDArray[np.float32]:
        found, search = self.left_out(settings), self.left_out_search(settings)
        return search.spread_out(settings.kernel, found, settings.power).astype(np.float32)

    def left_out(self, settings: Settings, refined: bool = True) -> FoundScales:
        """Scales of the treated inputs by which the kernel predicts left-out rows best.

        They are found on few of the rows to fit, and ``refined`` on more.
        """
        which, search = (*settings.treatment, settings.kernel), self.left_out_search(settings)
        kernel = settings.kernel

        def few() -> FoundScales:
            first: FoundScales = self._once((*which, "few"), lambda: search.rough(kernel))
            return first

        def more() -> FoundScales:
            known = self.known_scales.get((settings.treatment, kernel))
            if known is None:
                return search.refined(kernel, few())
            scales = search.of_ties(scales_by_name(known[0], self._treated(settings)[2]))
            return search.from_others(kernel, FoundScales(scales, known[1], np.inf))

        found: FoundScales = self._once((*which, "more"), more) if refined else few()
        return found

    def named_scales(self, settings: Settings) -> tuple[dict[str, float], float]:
        """Scales of least left-out error by the names of columns, and the ridge."""
        found, search = self.left_out(settings), self.left_out_search(settings)
        names = self._treated(settings)[2].tolist()
        return dict(zip(names, found.scales[search.ties].tolist(), strict=True)), found.ridge

    def left_out_error(self, settings: Settings) -> float:
        """Left-out error, on few rows, of the machine of settings in the scales they have."""
        search, given = self.left_out_search(settings), (settings.gamma, settings.ridge)
        return search.error_of(settings.kernel, self.scales(settings), *given)

    def at_least_left_out(self, settings: Settings) -> Settings:
        """Settings with the gamma and the ridge of the machine of least left-out error."""
        return replace(settings, gamma=1.0, ridge=self.left_out(settings).ridge)

    def left_out_search(self, settings: Settings) -> LeftOutSearch:
        """Rows on which scales are sought by left-out errors."""
        which = *settings.treatment, "left out"
        search: LeftOutSearch = self._once(which, lambda: self._search(settings))
        return search

    def _search(self, settings: Settings) -> LeftOutSearch:
        fitted, _ = self.rows(settings)
        y, weights = self.y[self.fitted], self._of_fitted(self.weights)
        return LeftOutSearch.of(fitted, y, weights, self.kind, self.key, TUNING.left_out_rows)

    def _once(self, key: Any, make: Callable[[], Any]) -> Any:
        """The result of ``make``, which the first thread that asks for it calls."""
        with self.locks.setdefault(key, Lock()):
            if key not in self.made:
                self.made[key] = make()
            return self.made[key]

    def _prepared(
        self, numbers: str, max_integers: int, labels: str, identities: bool
    ) -> tuple[Any, Any, NDArray, NDArray]:
        preparer = TablePreparer(
            numbers,
            max_integers=max_integers,
            labels=labels,
            identities=identities,
            target=self.kind,
            random_state=np.random.default_rng(self.key),
        )
        y = self.y[self.fitted]
        if sparse.issparse(self.table):
            fitted = preparer.fit_transform(rows_of(self.table, self.fitted), y)
            held = preparer.transform(rows_of(self.table, self.held))
            names = preparer.get_feature_names_out()
            return _short(fitted), _short(held), names, names
        columns = self.columns()
        rows = self._of_fitted(self.weights), self._of_fitted(self.groups)
        # Targets, kind and key are those of this split; so parts of equal settings are equal.
        fitted, held = treated(preparer, columns[0], columns[1], y, *rows, self._once)
        inputs = np.array(list(map(str, columns[0].names)))[preparer.origins_]
        names = preparer.get_feature_names_out(columns[0].names)
        return _short(fitted), _short(held), names, inputs

    def columns(self) -> tuple[TableColumns, TableColumns]:
        """The columns of the rows of both sides, read once for all treatments."""
        both: tuple[TableColumns, TableColumns] = self._once("columns", self._columns)
        return both

    def _columns(self) -> tuple[TableColumns, TableColumns]:
        names = column_names(self.table)
        fitted = read(rows_of(self.table, self.fitted), names)
        return fitted, read(rows_of(self.table, self.held), names, fitted.reading())

    def _learned(
        self, turned: bool, fitted: Any, kernel: str | None = None, first: NDArray | None = None
    ) -> NDArray:
        scaler = GradientScaler(
            full=turned,
            kernel=kernel,
            target=self.kind,
            n_components=TUNING.scale_cosines,
            max_rows=self.n_of_scales or scale_rows(len(self.fitted)),
            random_state=np.random.default_rng(self.key),
        )
        weights = self._of_fitted(self.weights)
        return learned_scales(scaler, fitted, self.y[self.fitted], first, weights)

    def _of_fitted(self, values: NDArray | None) -> NDArray | None:
        return None if values is None else values[self.fitted]


@dataclass
class LeafSplit:
    """Rows of a leaf, some of them held out, treated and scaled with all rows."""

    whole: Split
    fitted_places: NDArray[np.int64]  # among the rows that ``whole`` has for leaves
    held_places: NDArray[np.int64]

    @property
    def fitted(self) -> NDArray[np.int64]:
        """The rows to fit, of the table."""
        return self.whole.leaf_rows[self.fitted_places]

    @property
    def held(self) -> NDArray[np.int64]:
        """The rows held out, of the table."""
        return self.whole.leaf_rows[self.held_places]

    def prepare(self, settings: Settings) -> None:
        """Treat rows and learn scales ahead of their first use."""
        self.whole.prepare(settings)

    def scaled(self, settings: Settings, n_rows: int) -> tuple[Any, Any]:
        """The first rows to fit, and all to predict, in learned scales."""
        treated = self.whole.treated_leaf_rows(settings)
        matrix = self.whole.scales(settings)
        fitted = treated[self.fitted_places[:n_rows]]
        return scaled(fitted, matrix), scaled(treated[self.held_places], matrix)


def leaf_parts(
    whole: Split, settings: Settings, leaf_size: int, count: int, overlap: float
) -> list[LeafSplit]:
    """About ``count`` leaves of the rows to fit of ``whole``, two at each of as many places.

    Both are sides of cuts through a node of twice their size, and what is held out of them are rows
    that they share: it is answered for by several leaves, as it is by several trees, whose mean
    bears a narrower kernel and a weaker penalty than one leaf. Losses differ between places more
    than within them, so that places have to be many. Of groups or by time, what is held out are
    those rows of both leaves that ``whole`` holds out.
    """
    treated = whole.treated_leaf_rows(settings)
    rows = scaled(treated, whole.scales(settings))
    _, nodes = grown(rows, 2 * leaf_size, 1, overlap, whole.key, 1)
    parts = []
    n_nodes = min(max(1, count // 2), len(nodes))
    for place, node in enumerate(np.linspace(0, len(nodes) - 1, n_nodes).round().astype(int)):
        own = nodes.of(int(node))
        first, second = (_halves(rows[own], overlap, whole.key + cut) for cut in (1, 2))
        side = first[place % 2]
        other = max(second, key=lambda half: len(np.intersect1d(half, side)))
        both = np.intersect1d(side, other)
        if not whole.has_rule:
            order = np.argsort(random_order(whole.key, len(both)))
            held = both[order[: max(1, int(TUNING.shared_held * len(both)))]]
        else:
            held = both[own[both] >= len(whole.fitted)]
        for leaf in (side, other):
            fitted = np.setdiff1d(leaf, held)
            if whole.has_rule:
                fitted = fitted[own[fitted] < len(whole.fitted)]
            if len(held) and len(fitted):
                parts.append(LeafSplit(whole, own[fitted], own[held]))
    return parts


def _halves(rows: Any, overlap: float, key: int) -> list[NDArray[np.int64]]:
    """Both sides of a cut through the middle of some rows."""
    size = int((0.5 + overlap) * rows.shape[0]) + 2
    _, sides = grown(rows, size, 1, overlap, key % 2**64, 1)
    return [sides.of(side) for side in (0, len(sides) - 1)]


def spread_out(leaves: list[LeafSplit], n_rows: int) -> LeafSplit:
    """Rows from anywhere in the table beside the rows that the leaves hold out."""
    whole = leaves[0].whole
    held = np.unique(np.concatenate([leaf.held_places for leaf in leaves]))
    free = np.setdiff1d(np.arange(len(whole.fitted)), held)
    fitted = free[np.argsort(random_order(whole.key, len(free)))[:n_rows]]
    return LeafSplit(whole, fitted, held)


def scale_rows(n: int) -> int:
    """Number of rows, of n, for the scales of trials; scales of few rows are noisy."""
    if n <= TUNING.many_scale_rows:
        return TUNING.scale_rows
    return min(max(TUNING.scale_rows, n // TUNING.scale_share), TUNING.most_scale_rows)


def last_scale_rows(n: int) -> int:
    """Number of rows, of n, that the scales of the final fit are learned from, once."""
    return max(scale_rows(n), TUNING.last_scale_rows)


def splits(
    goal: Numbers | Classes,
    key: int,
    n: int,
    most_fitted: int = TUNING.fitted_rows,
    most_held: int = TUNING.held_rows,
) -> list[tuple[NDArray, NDArray]]:
    """Rows to fit and rows to hold out: one part of many rows, or each fifth of few in turn.

    Rows are in random order, classes mixed evenly; by time the last fifth is held out, once.
    """
    order = np.argsort(random_order(key, n))
    n_folds = min(TUNING.folds, n)
    strata = goal.strata()
    if strata is not None:  # row i of a class of c rows stands at (i + 1/2) / c of the whole
        labels = strata[order]
        by_class = np.argsort(labels, kind="stable")
        counts = np.bincount(labels)
        first = np.repeat(np.cumsum(counts) - counts, counts)
        place = (np.arange(n) - first + 0.5) / counts[labels[by_class]]
        order = order[by_class[np.argsort(place, kind="stable")]]
    if goal.times is not None:
        early, late = (order[mask[order]] for mask in later_rows(goal.times, goal.groups))
        return [(early[:most_fitted], late[:most_held])]
    if goal.groups is not None:
        folds = folds_of_groups(goal.groups, strata, n_folds, key)[order]
        parts = [(order[folds != f], order[folds == f]) for f in range(folds.max() + 1)]
        if n <= TUNING.fold_rows:
            return parts
        fitted, held = min(parts, key=lambda part: abs(len(part[1]) - n // n_folds))
        return [(fitted[:most_fitted], held[:most_held])]
    if n <= TUNING.fold_rows:
        folds = np.arange(n) % n_folds
        return [(order[folds != f], order[folds == f]) for f in range(n_folds)]
    n_held = min(most_held, n // 4)
    return [(order[n_held : n_held + most_fitted], order[:n_held])]


def later_rows(
    times: NDArray[np.int64], groups: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Masks of the rows to fit and of the rows to hold out, about the last fifth; ties share one.

    Of groups, the latest ones are held out, about a fifth of the rows: their rows before the cut,
    and the rows of all others after it, are on neither side. Times are ranks from 0 on; there are
    at least two ranks, and two groups.
    """
    n = len(times)
    n_until = np.cumsum(np.bincount(times))[:-1]  # rows up to each time but the last
    early = times <= int(np.argmin(np.abs(n_until - (1 - _HELD_SHARE) * n)))
    if groups is None:
        return early, ~early
    sizes = np.bincount(groups)
    share = np.bincount(groups, ~early) / sizes
    order = np.lexsort((np.bincount(groups, times) / sizes, share))
    n_kept = int(np.searchsorted(np.cumsum(sizes[order]), (1 - _HELD_SHARE) * n, "right"))
    is_late = np.zeros(len(sizes), dtype=bool)
    is_late[order[min(max(n_kept, 1), len(sizes) - 1) :]] = True
    return early & ~is_late[groups], ~early & is_late[groups]


def folds_of_groups(
    groups: NDArray[np.int64], strata: NDArray | None, n_folds: int, key: int
) -> NDArray[np.int64]:
    """The fold of every row: rows of a group share one, and folds are alike as far as groups allow.

    At least two groups make between two and ``n_folds`` folds, each with its share of every class
    of ``strata`` as far as groups allow; the key decides which groups come together.
    """
    n, n_groups = len(groups), int(groups.max()) + 1
    n_folds = min(n_folds, n_groups)
    order = np.argsort(random_order(key, n_groups))
    place = np.argsort(order)
    few = n_groups <= TUNING.balanced_groups
    if few and strata is not None and np.bincount(strata).min() >= n_folds:
        folds = np.zeros(n, dtype=np.int64)
        from sklearn.model_selection import StratifiedGroupKFold  # which few need

        balanced = StratifiedGroupKFold(n_folds).split(groups, strata, place[groups])
        for fold, (_, held) in enumerate(balanced):
            folds[held] = fold
    else:  # groups lie end to end in random order, and belong to the fold of their middle
        sizes = np.bincount(groups)[order]
        middles = np.cumsum(sizes) - 0.5 * sizes
        folds = (n_folds * middles / n).astype(np.int64)[place][groups]
    return np.unique(folds, return_inverse=True)[1]


def _short(X: Any) -> Any:
    """Rows in float32, and dense unless they are long."""
    if hasattr(X, "toarray") and X.shape[1] <= TUNING.most_dense:
        X = X.toarray()
    return X.astype(np.float32)
