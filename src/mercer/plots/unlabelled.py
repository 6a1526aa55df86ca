"""Pages about clusters, outliers and the drift between two tables."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.plots.base import AIDS, BLUE, ORANGE, dress, label_of, thousands
from mercer.plots.page import Section, paragraph, table, write_html
from mercer.statistics import mmd_test
from mercer.unsupervised import KernelPCA

__all__ = ["ColumnTests", "column_tests", "write_clusters", "write_drift", "write_outliers"]

_COLUMNS = 15  # of a figure
_FIGURES = 4  # columns that have a figure each
_POINTS = 2000  # of a figure
_ROWS = 20  # outliers of a page
_REASONS = 3  # columns that are named for an outlier
_BINS = 30
_LABELS = 8  # labels of a figure
_LEVEL = 0.05
_TESTED = 5000  # rows of each table for tests of single columns: 18 columns take half a minute
_FEATURES = 50  # random features of one column
_PER_COLUMN = 40  # permutations: the smallest p-value times the number of columns is then 1/40


@dataclass(frozen=True)
class ColumnTests:
    """Tests of single columns: statistics, p-values, and p-values adjusted by Holm's method."""

    names: list[str]
    statistics: NDArray[np.float64]
    p_values: NDArray[np.float64]
    adjusted: NDArray[np.float64]

    @property
    def order(self) -> NDArray[np.int64]:
        """Columns by descending statistic."""
        return np.argsort(-self.statistics, kind="stable")


def column_tests(
    X: NDArray,
    Y: NDArray,
    origins: NDArray,
    names: Sequence[str],
    random_state: int,
    n_jobs: int | None,
) -> ColumnTests:
    """Test each raw column (``origins``) of treated tables alone, on at most 5000 random rows.

    By :func:`mercer.statistics.mmd_test`; the statistic is that of the middle scale.
    """
    rng = np.random.default_rng(random_state)
    X, Y = (
        rows[np.sort(rng.permutation(len(rows))[:_TESTED])] if len(rows) > _TESTED else rows
        for rows in (X, Y)
    )
    used = np.unique(origins)
    count = max(199, _PER_COLUMN * len(used) - 1)
    found = [
        mmd_test(
            X[:, origins == place],
            Y[:, origins == place],
            n_features=_FEATURES,
            n_permutations=count,
            random_state=random_state,
            n_jobs=n_jobs,
        )
        for place in used
    ]
    p_values = np.array([result.p_value for result in found])
    order = np.argsort(p_values, kind="stable")
    adjusted = np.empty(len(used))
    steps = p_values[order] * np.arange(len(used), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    statistics = np.array([result.statistics[1] for result in found])
    return ColumnTests([names[place] for place in used], statistics, p_values, adjusted)


def write_clusters(
    raw: Any,
    origins: NDArray,
    X: NDArray,
    labels: NDArray,
    path: str | os.PathLike[str],
    title: str,
    seed: int,
) -> None:
    """Write a page about the clusters of the rows of a table, atomically.

    ``raw`` is a table of PyArrow, ``X`` its numbers; ``origins`` their columns in ``raw``.
    """
    sizes = np.bincount(labels)
    rows = np.random.default_rng(seed).permutation(len(X))[:_POINTS]
    count = min(2, len(X) - 1, X.shape[1])
    whole = Section("Rows and sizes")
    if count == 2:
        components = KernelPCA(2, feature_map="nystroem", scale=False, random_state=seed).fit(X)
        places = components.transform(X[rows])
        caption = "Rows in the first two kernel components, coloured by cluster"
        whole.draw(partial(_scatter, places, labels[rows]), caption)
    names = [f"cluster {number}" for number in range(len(sizes))]
    draw = partial(_bars, names, sizes, "rows")
    whole.draw(draw, "Rows of each cluster", height=_high(names))
    between = _shares_between(X, origins, labels)
    columns = [raw.column_names[place] for place in between]
    shares = np.array(list(between.values()))
    order = np.argsort(-shares, kind="stable")[:_COLUMNS]
    differing = Section("Columns in which the clusters differ most")
    shown = [columns[j] for j in order]
    caption = "Share of the variance of a column, treated as numbers, between the clusters"
    draw = partial(_bars, shown, shares[order], "share between clusters")
    differing.draw(draw, caption, height=_high(shown))
    lines = [
        [names[number], *(_typical(raw.column(name), labels == number) for name in shown[:5])]
        for number in range(len(sizes))
    ]
    differing.below.append(paragraph("Medians of numbers, and the most frequent other entries:"))
    differing.below.append(table(["", *shown[:5]], lines))
    cards = _facts(raw, ("clusters", str(len(sizes))))
    write_html(path, f"Clusters: {title}", "Clusters", cards, [whole, differing])


def write_outliers(
    raw: Any,
    ids: Mapping[str, Any],
    origins: NDArray,
    X: NDArray,
    scores: NDArray,
    offset: float,
    path: str | os.PathLike[str],
    title: str,
) -> None:
    """Write a page about outliers, scores below ``offset``, atomically; ``ids`` name the rows."""
    count = int((scores < offset).sum())
    all_scores = Section("Scores of all rows")
    draw = partial(_histogram, scores, offset)
    all_scores.draw(draw, "Scores; rows on the left of the line are outliers")
    # Distances in units of the standard deviation, the largest of the columns made of one column.
    z = np.abs(X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-12)
    used = np.unique(origins)
    far = np.column_stack([z[:, origins == place].max(axis=1) for place in used])
    lines = []
    for row in np.argsort(scores, kind="stable")[: min(_ROWS, max(count, 1))].tolist():
        first = np.argsort(-far[row], kind="stable")[:_REASONS]
        names = [raw.column_names[place] for place in used[first]]
        reasons = "; ".join(f"{name} = {_entry(raw.column(name)[row])}" for name in names)
        named = [str(column[row].as_py()) for column in ids.values()] or [str(row + 1)]
        lines.append([*named, float(scores[row]), reasons])
    worst = Section("Rows with the smallest scores")
    worst.add(
        paragraph(
            "Named are the columns whose entries are farthest from the mean in units of the "
            "standard deviation. A row may also be an outlier because of usual entries that "
            "seldom meet."
        ),
        table([*(ids or ["row"]), "score", "most unusual entries"], lines),
    )
    cards = _facts(raw, ("outliers", thousands(count)))
    write_html(path, f"Outliers: {title}", "Outliers", cards, [all_scores, worst])


def write_drift(
    old: Any,
    new: Any,
    tests: ColumnTests,
    p_value: float,
    path: str | os.PathLike[str],
    title: str,
) -> None:
    """Write a page about the difference of two tables of PyArrow, atomically."""
    whole, single = Section("Which columns differ"), Section("Columns that differ most")
    names = [tests.names[j] for j in tests.order[:_COLUMNS]]
    values, adjusted = (part[tests.order[:_COLUMNS]] for part in (tests.statistics, tests.adjusted))
    colours = np.where(adjusted <= _LEVEL, ORANGE, AIDS).tolist()
    draw = partial(_bars, names, values, "squared discrepancy", colours=colours)
    caption = "Squared maximum mean discrepancy of single columns; orange: adjusted p-value ≤ 0.05"
    whole.draw(draw, caption, height=_high(names))
    whole.below.append(
        paragraph(
            f"Every column is tested alone by permutations, on at most {_TESTED} random rows of "
            "each table; p-values are adjusted by Holm's method for the number of columns. A small "
            "p-value says that a column differs, not that the difference is large."
        )
    )
    numbers = np.column_stack([tests.statistics, tests.p_values, tests.adjusted])
    lines = [[tests.names[j], *numbers[j].tolist()] for j in tests.order]
    whole.below.append(
        table(["column", "discrepancy", "p-value", "p-value, adjusted (Holm)"], lines)
    )
    for name in names[:_FIGURES]:
        draw = partial(_pair, old.column(name), new.column(name))
        single.draw(draw, f"{name}: old grey, new orange")
    cards = [
        ("old rows", thousands(old.num_rows)),
        ("new rows", thousands(new.num_rows)),
        ("columns", thousands(len(tests.names))),
        ("p-value of all columns", f"{p_value:.3g}"),
    ]
    write_html(path, f"Drift: {title}", "Drift", cards, [whole, single])


def _facts(raw: Any, more: tuple[str, str]) -> list[tuple[str, str]]:
    return [("rows", thousands(raw.num_rows)), ("columns", thousands(raw.num_columns)), more]


def _shares_between(X: NDArray, origins: NDArray, labels: NDArray) -> dict[int, float]:
    """Share of the variance of every raw column that is between clusters."""
    sizes = np.bincount(labels)
    sums = np.zeros((len(sizes), X.shape[1]))
    np.add.at(sums, labels, X - X.mean(axis=0))
    between = (sums**2 / np.maximum(sizes, 1)[:, None]).sum(axis=0) / len(X)
    whole = X.var(axis=0)
    return {
        int(place): float(
            between[origins == place].sum() / max(whole[origins == place].sum(), 1e-12)
        )
        for place in np.unique(origins)
    }


def _is_number(column: Any) -> bool:
    from pyarrow.types import is_floating, is_integer

    return bool(is_floating(column.type) or is_integer(column.type))


def _numbers(column: Any) -> NDArray[np.float64]:
    """Finite entries of a column of numbers."""
    values = np.asarray(column.to_numpy(), dtype=np.float64)
    return values[np.isfinite(values)]


def _texts(column: Any) -> NDArray:
    """Entries of a column as texts, "missing" for those that are."""
    return np.array([_entry(cell) for cell in column], dtype=object)


def _entry(cell: Any) -> str:
    value = cell.as_py()
    if value is None or value != value:
        return "missing"
    return f"{value:.6g}" if isinstance(value, float) else label_of(value, 40)


def _typical(column: Any, rows: NDArray) -> str:
    """Median of numbers in some rows, or the most frequent entry."""
    import pyarrow

    chosen = column.filter(pyarrow.array(rows))
    if _is_number(column):
        values = _numbers(chosen)
        return f"{np.median(values):.4g}" if len(values) else "missing"
    if not len(chosen):
        return "–"
    present, counts = np.unique(_texts(chosen), return_counts=True)
    return str(present[counts.argmax()])


def _high(names: Sequence[str]) -> float:
    """Inches of a figure with a bar each."""
    return 1.3 + 0.2 * max(len(names), 3)


def _scatter(places: NDArray, labels: NDArray, axes: Any) -> None:
    shown = axes.scatter(*places.T, s=9, c=labels, cmap="tab20" if labels.max() > 9 else "tab10")
    shown.set_rasterized(True)
    for number in np.unique(labels):
        axes.annotate(str(number), places[labels == number].mean(axis=0), fontweight="bold")
    axes.set(xlabel="component 1", ylabel="component 2")
    dress(axes)


def _bars(
    names: Sequence[str], values: NDArray, label: str, axes: Any, colours: Any = BLUE
) -> None:
    axes.barh(np.arange(len(names)), values, color=colours, zorder=3)
    axes.set_yticks(np.arange(len(names)), [label_of(name) for name in names], parse_math=False)
    axes.invert_yaxis()
    axes.set_xlabel(label)
    dress(axes)


def _edges(low: float, high: float) -> NDArray[np.float64]:
    """Edges of the bins of a histogram, apart even if all values are equal."""
    if high - low <= 1e-9 * abs(high):
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, _BINS + 1)


def _histogram(scores: NDArray, offset: float, axes: Any) -> None:
    axes.hist(scores, _edges(scores.min(), scores.max()), color=BLUE, zorder=3)
    axes.axvline(offset, color=ORANGE, linewidth=2, zorder=4)
    axes.set(xlabel="score", ylabel="rows")
    dress(axes)


def _pair(old: Any, new: Any, axes: Any) -> None:
    """Distribution of a column in two tables: histograms, or shares of the most frequent labels."""
    looks = ((old, AIDS), (new, ORANGE))
    if _is_number(old):
        both = np.concatenate([_numbers(old), _numbers(new)])
        low, high = np.quantile(both, [0.005, 0.995]) if len(both) else (0.0, 1.0)
        edges = _edges(low, high)
        for column, colour in looks:
            values = _numbers(column)
            weights = np.full(len(values), 1 / max(len(column), 1))
            axes.hist(values, edges, weights=weights, color=colour, alpha=0.55, zorder=3)
        axes.set_ylabel("share of rows")
    else:
        texts = [_texts(column) for column in (old, new)]
        present, counts = np.unique(np.concatenate(texts), return_counts=True)
        names = present[np.argsort(-counts, kind="stable")[:_LABELS]]
        for at, (part, colour) in enumerate(zip(texts, (AIDS, ORANGE), strict=True)):
            shares = [(part == name).mean() for name in names]
            axes.barh(np.arange(len(names)) + 0.4 * at, shares, 0.4, color=colour, zorder=3)
        labels = [label_of(name) for name in names]
        axes.set_yticks(np.arange(len(names)) + 0.2, labels, parse_math=False)
        axes.invert_yaxis()
        axes.set_xlabel("share of rows")
    dress(axes)
