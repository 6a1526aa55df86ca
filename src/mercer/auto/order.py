"""Order in time: ranks of rows by a column, and a test whether random splits flatter."""

from __future__ import annotations

import warnings
from dataclasses import replace
from numbers import Integral
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer._runtime.arrays import n_threads
from mercer._runtime.messages import shown
from mercer.auto.bench import Evaluator
from mercer.auto.parts import later_rows
from mercer.auto.scoring import Judge
from mercer.auto.search import Search
from mercer.preparation import column_names, read
from mercer.preparation.columns import Reading

__all__ = ["time_codes", "warn_of_order"]

_MOST_ROWS = 1000  # rows fitted, and late rows predicted, by each machine of the test: 0.2 s
_LEAST_ROWS = 50  # late rows from which the test is made
_SURE = 3.0  # standard errors of the difference: residuals near in time are not independent
_MUCH = 1.25  # ratio of squared errors from which a random split misleads
_TINY = 1e-12  # least squared error, in units of the variance, that a ratio is taken of
_LEAST_GAIN = 0.05  # of the variance: smaller differences are due to the day as an input


def time_codes(X: Any, column: Any) -> NDArray[np.int64]:
    """Ranks (n,) of the rows of a table by one of its columns, from 0 on; equal cells share one.

    ``column`` is a name in a frame or a place in an array. A ValueError or TypeError if there is no
    such column, or its cells have no order, are missing or are all equal.
    """
    place, names = _place(X, column), column_names(X)
    if sparse.issparse(X):
        cells = X[:, [place]].toarray()
    else:
        cells = X.select(X.columns[place]) if isinstance(X, nw.DataFrame) else X[:, [place]]
    columns = read(cells, [names[place]], Reading(["number"], [""]) if _is_whole(cells) else None)
    rule = f"time must name a column of numbers or dates; {shown(column)}"
    if columns.labels:
        raise ValueError(f"{rule} holds texts, such as {shown(columns.labels[0].texts[0])}.")
    values = columns.dates[0] if columns.dates else columns.numbers[:, 0]
    n_missing = int((np.isnat(values) if columns.dates else np.isnan(values)).sum())
    if n_missing:
        raise ValueError(
            f"time must name a column without missing cells; {shown(column)} lacks {n_missing} of "
            f"{len(values)}: leave these rows out."
        )
    present, codes = np.unique(_exact(cells, values), return_inverse=True)
    if len(present) < 2:
        raise ValueError(f"time must name a column of two values or more; {shown(column)} has one.")
    return codes.astype(np.int64)


def _cells(cells: Any) -> NDArray:
    """The cells of a table of one column as an array."""
    if isinstance(cells, nw.DataFrame):
        return np.asarray(cells[cells.columns[0]].to_numpy())
    return np.ravel(cells)


def _is_whole(cells: Any) -> bool:
    """Whether cells are whole numbers, also those of Python."""
    array = _cells(cells)
    if array.dtype != object:
        return array.dtype.kind in "iu"
    return all(isinstance(cell, Integral) for cell in array.tolist())


def _exact(cells: Any, values: NDArray) -> NDArray:
    """Cells that order as they are: whole numbers beyond 2**53, and times in nanoseconds."""
    array = _cells(cells)
    return array if _is_whole(cells) or array.dtype.kind == "M" else values


def _place(X: Any, column: Any) -> int:
    """Place of the column that ``time`` names."""
    if isinstance(X, nw.DataFrame):
        if column in X.columns:
            return X.columns.index(column)
        some = ", ".join(map(shown, X.columns[:5])) + (" …" if len(X.columns) > 5 else "")
        raise ValueError(f"time must name a column of X; got {shown(column)}, not of {some}.")
    if not isinstance(column, Integral) or isinstance(column, bool):
        raise TypeError(
            f"time must be the place of a column of an array, such as 0; got {shown(column)}."
        )
    place = int(column)
    if not 0 <= place < X.shape[1]:
        raise ValueError(
            f"time must be the place of a column, from 0 to {X.shape[1] - 1}; got {place}."
        )
    return place


def warn_of_order(search: Search) -> None:
    """Warn if, by a date column, later rows are harder to predict than randomly held-out ones.

    The last fifth of the searched rows is predicted twice, by exact machines of as many rows: of
    earlier rows alone, and of rows of any time but those predicted. The column whose squared error
    grows most is named, if it grows by a quarter, by a twentieth of the variance of the target and
    by three standard errors.
    """
    goal = search.goal
    if goal.has_rule or not search.finalists or sparse.issparse(search.parts[0].table):
        return
    part = search.parts[0]
    fitted, held = part.columns()
    rows = np.concatenate([part.held, part.fitted])
    worst: tuple[float, str] = (_MUCH, "")
    for place in fitted.dates:
        times = np.concatenate([held.dates[place], fitted.dates[place]])
        known = ~np.isnat(times)
        ratio = _ratio(search, rows[known], times[known])
        worst = max(worst, (ratio, fitted.names[place]))
        search.charge("order")
    if worst[1]:
        name = worst[1] if isinstance(part.table, nw.DataFrame) else int(worst[1][1:])
        warnings.warn(
            f"rows that are later by column {worst[1]!r} are predicted with {worst[0]:.2g} times "
            "the squared error if no row of their time is fitted, so that scores of randomly "
            f"held-out rows are too good for the future; time={name!r} holds out the latest rows.",
            UserWarning,
            stacklevel=5,
        )


def _ratio(search: Search, rows: NDArray[np.int64], times: NDArray) -> float:
    """Squared error at late rows of a model of earlier rows over that of a model of any rows.

    1 if chance may have made the difference.
    """
    codes = np.unique(times, return_inverse=True)[1]
    if not len(codes) or codes.max() < 1:
        return 1.0
    is_early, is_late = later_rows(codes)
    early, late = rows[is_early], rows[is_late][:_MOST_ROWS]
    m = min(_MOST_ROWS, len(early))
    if len(late) < _LEAST_ROWS or m < 2 * _LEAST_ROWS:
        return 1.0
    before = _losses(search, [(early[:m], late)])
    one, other = np.array_split(late, 2)
    any_time = [(_sampled(early, other, m), one), (_sampled(early, one, m), other)]
    within = _losses(search, any_time)
    gain = before - within
    is_sure = gain.mean() > max(_LEAST_GAIN, _SURE * gain.std() / np.sqrt(len(gain)))
    return float(before.mean() / max(within.mean(), _TINY)) if is_sure else 1.0


def _sampled(early: NDArray, late: NDArray, m: int) -> NDArray:
    """m rows, early and late in proportion."""
    pool = np.concatenate([early, late])
    return pool[np.linspace(0, len(pool) - 1, m).astype(int)]


def _losses(search: Search, rows: list[tuple[NDArray, NDArray]]) -> NDArray[np.float64]:
    """Held-out losses of exact machines in the first rungs' best settings; NaN without a factor."""
    goal, settings = search.goal, search.finalists[0]
    parts = [replace(search.parts[0], fitted=fitted, held=held) for fitted, held in rows]
    bench = Evaluator.of_rows(goal, Judge(goal), parts, search.whole.n_rows)
    [outcomes] = bench.of_machines(
        "order", bench.most_fitted, [settings], [settings.ridge], n_threads(search.n_jobs)
    )
    own = [o for o in outcomes if o.record.settings.transform == settings.transform]
    return own[0].compared() if own else np.full(len(bench.held), np.nan)
