"""Shapley values: importances, all values of a table, one row, and one column."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.stats import rankdata

from mercer._runtime.messages import shown
from mercer._runtime.validation import positive_integer
from mercer.explain import ShapleyValues, shapley_values
from mercer.plots.base import AIDS, BLUE, ORANGE, Display, amount, dress, label_of
from mercer.preparation.frames import frame_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ShapleyDisplay"]

_ROW, _MARGIN = 0.3, 1.1  # inches of a column's line, and of what is not lines
_CELLS, _HALF = 120, 0.38  # cells that points of a line are stacked in, and half its height
_GREY = "#b5b5b5"  # points without a value
_FEW_KINDS = 12  # different values up to which a column is drawn with a tick for each
_LEADING_NUMBER = re.compile(r"\W{0,3}?([+-]?\d[\d,]*(?:\.\d+)?)")  # of texts such as "81 m²"
_FEW_BINS = 4  # of the other column's values
_BINS = 10  # of a column's values, within which another column's part in its effect is sought


class ShapleyDisplay(Display):
    """Contributions of the columns of a table to the responses of a model.

    Create it with :meth:`from_estimator`, or from the result of
    :func:`mercer.explain.shapley_values`.

    Parameters
    ----------
    explanation : ShapleyValues
        Values of one output, without interactions.

    Attributes
    ----------
    order : ndarray of int of shape (d,)
        Numbers of the columns, that with the largest mean absolute value first.
    artists_ : list of matplotlib artists
        Bars or points of the last drawing.
    {ax_}

    Raises
    ------
    ValueError
        If there are several outputs, or interactions.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRegressor
    >>> from mercer.plots import ShapleyDisplay
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> model = KernelRegressor("exact").fit(X, np.sin(X[:, 1]))
    >>> display = ShapleyDisplay.from_estimator(model, X[:50])
    >>> int(display.order[0])
    1
    """

    def __init__(self, explanation: ShapleyValues):
        if explanation.values.ndim != 2:
            raise ValueError(
                "explanation must have values of one output and no interactions; got shape "
                f"{explanation.values.shape}: choose a class by outputs=[...]."
            )
        self.explanation = explanation
        self.order = np.argsort(-np.abs(explanation.values).mean(axis=0), kind="stable")

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        background: Any = None,
        output: Any = None,
        kind: str = "beeswarm",
        max_evaluations: int = 2000,
        offset: Any = None,
        ax: Axes | None = None,
        **options: Any,
    ) -> ShapleyDisplay:
        """Draw the Shapley values of some rows.

        Parameters
        ----------
        estimator : estimator
            Fitted model.
        X : array, data frame or CSR of shape (n, d)
            Rows to explain.
        background : rows, default=None
            As for :func:`mercer.explain.shapley_values`.
        output : int, label or None, default=None
            Output, or class of a model with more than two. None takes the one whose values are
            largest.
        kind : {"bar", "beeswarm", "waterfall", "dependence"}, default="beeswarm"
            Figure, drawn by the method of this name.
        max_evaluations : int, default=2000
            Largest number of evaluations of the model per row of values that are estimated.
        offset : array of shape (n,), default=None
            Known parts of the responses, as for :func:`mercer.explain.shapley_values`.
        {ax}
        **options
            Further options of that method.

        Returns
        -------
        ShapleyDisplay
        """
        how: dict[str, Any] = {"max_evaluations": max_evaluations, "offset": offset}
        found = shapley_values(estimator, X, background, **how)
        if output is not None:
            found = found.of_output(output)
        elif found.output_names is not None:
            largest = np.abs(found.values).sum(axis=(0, 1)).argmax()
            found = found.of_output(found.output_names[largest])
        display = cls(found)
        if kind not in ("bar", "beeswarm", "waterfall", "dependence"):
            raise ValueError(
                f"kind must be 'bar', 'beeswarm', 'waterfall' or 'dependence'; got {shown(kind)}."
            )
        drawn: ShapleyDisplay = getattr(display, kind)(ax=ax, **options)
        return drawn

    # -- figures -----------------------------------------------------------------------------

    def bar(self, *, max_features: int = 15, ax: Axes | None = None) -> ShapleyDisplay:
        """Mean absolute values with intervals that hold the mean over all rows with 90 %.

        Parameters
        ----------
        max_features : int, default=15
            Largest number of columns shown, >= 1.
        {ax}

        Returns
        -------
        ShapleyDisplay
        """
        columns = self._shown(max_features)
        axes = self._lines(columns, ax)
        table, places = self.explanation.importances(), np.arange(len(columns))
        means, low, high = (table[name][: len(columns)] for name in ("importance", "low", "high"))
        bars = axes.barh(places, means, color=ORANGE, height=0.6, zorder=3)
        errors = axes.errorbar(
            means,
            places,
            xerr=np.maximum([means - low, high - means], 0),
            fmt="none",
            ecolor="black",
            elinewidth=1,
            zorder=4,
        )
        self.artists_ = [bars, errors]
        axes.set_xlabel(f"mean |value|, {self.explanation.unit}")
        return self

    def beeswarm(self, *, max_features: int = 15, ax: Axes | None = None) -> ShapleyDisplay:
        """A point per row and column: its value, coloured by the rank of the column's entry.

        Parameters
        ----------
        max_features : int, default=15
            Largest number of columns shown, >= 1.
        {ax}

        Returns
        -------
        ShapleyDisplay
        """
        columns = self._shown(max_features)
        axes = self._lines(columns, ax)
        axes.axvline(0, color=AIDS, linewidth=0.8, zorder=1)
        values, span = self.explanation.values, np.abs(self.explanation.values).max() or 1.0
        self.artists_ = []
        for place, column in enumerate(columns):
            ranks, heights = _ranks(self._entries(column)), _stacked(values[:, column] / span)
            known = np.isfinite(ranks)
            looks: dict[str, Any] = {"s": 9, "linewidth": 0, "zorder": 3, "rasterized": True}
            at = values[:, column], place + heights
            self.artists_ += [
                axes.scatter(at[0][~known], at[1][~known], color=_GREY, **looks),
                axes.scatter(at[0][known], at[1][known], c=ranks[known], cmap=_colours(), **looks),
            ]
        axes.set_xlabel(f"value, {self.explanation.unit}; low entries blue, high ones orange")
        return self

    def waterfall(
        self, row: int = 0, *, max_features: int = 12, ax: Axes | None = None
    ) -> ShapleyDisplay:
        """The way from the base value to the response of one row, column by column.

        Parameters
        ----------
        row : int, default=0
            Number of the row.
        max_features : int, default=12
            Largest number of columns shown, >= 1; the others make one bar.
        {ax}

        Returns
        -------
        ShapleyDisplay
        """
        n = len(self.explanation.values)
        if not -n <= row < n:
            raise ValueError(f"row must be below {n}, the number of rows; got {row!r}.")
        values = self.explanation.values[row]
        order = np.argsort(-np.abs(values), kind="stable")
        shown_ = order[: positive_integer(max_features, "max_features")]
        steps = values[shown_].tolist()
        names = [f"{self._name(c)} = {_text(self._entries(c)[row])}" for c in shown_]
        if len(order) > len(shown_):
            steps.append(float(values[order[len(shown_) :]].sum()))
            names.append(f"{len(order) - len(shown_)} other columns")
        axes = self._begin(ax, _MARGIN + _ROW * max(len(steps), 2))
        base = float(self.explanation.base_of_rows[row])
        starts = base + np.concatenate([[0], np.cumsum(steps)[:-1]])
        colours = [ORANGE if step > 0 else BLUE for step in steps]
        places = np.arange(len(steps))
        bars = axes.barh(places, steps, left=starts, color=colours, height=0.6, zorder=3)
        for place, (start, step) in enumerate(zip(starts, steps, strict=True)):
            axes.annotate(
                f"{'+' * (step > 0)}{amount(step)}",
                (max(start, start + step), place),
                xytext=(3, 0),
                textcoords="offset points",
                va="center",
                fontsize=8,
            )
        axes.use_sticky_edges = False
        axes.margins(x=0.12)
        axes.axvline(base, color=AIDS, linewidth=0.8, linestyle=":")
        axes.set_yticks(places, [label_of(name, 40) for name in names], parse_math=False)
        axes.invert_yaxis()
        what = "mean with offset" if self.explanation.base_values.ndim else "mean"
        axes.set_xlabel(
            f"{self.explanation.unit}: {what} {amount(base, 4)}, "
            f"this row {amount(starts[-1] + steps[-1], 4)}"
        )
        dress(axes)
        axes.grid(visible=False, axis="y")
        self.artists_ = [bars]
        return self

    def dependence(
        self, column: Any = None, *, colour: Any = None, ax: Axes | None = None
    ) -> ShapleyDisplay:
        """Values of one column against its entries, coloured by the entries of another column.

        Parameters
        ----------
        column : str or int, default=None
            Name or number of the column; None takes the most important one.
        colour : str or int, default=None
            Name or number of the other column. None takes the one that explains most of what is
            left of the values within ten groups of similar entries.
        {ax}

        Returns
        -------
        ShapleyDisplay
        """
        own = int(self.order[0]) if column is None else self._number(column, "column")
        other = self._partner(own) if colour is None else self._number(colour, "colour")
        axes = self._begin(ax)
        entries, ticks = _places(self._entries(own))
        ranks = np.nan_to_num(_ranks(self._entries(other)), nan=0.5)
        values = self.explanation.values[:, own]
        if ticks is not None:  # points of one kind side by side
            entries = entries + 0.3 * np.random.default_rng(0).uniform(-1, 1, len(entries))
            axes.set_xticks(np.arange(len(ticks)), [label_of(t, 14) for t in ticks])
        elif self._entries(own).dtype.kind == "M":
            _name_dates(axes.xaxis)
        looks: dict[str, Any] = {"s": 14, "linewidth": 0, "zorder": 3, "rasterized": True}
        points = axes.scatter(entries, values, c=ranks, cmap=_colours(), vmin=0, vmax=1, **looks)
        axes.axhline(0, color=AIDS, linewidth=0.8, zorder=1)
        axes.set_xlabel(
            f"{self._name(own)}; low entries of {self._name(other)} blue, high ones orange"
        )
        axes.set_ylabel(f"value, {self.explanation.unit}")
        dress(axes)
        self.artists_ = [points]
        return self

    # -- parts ---------------------------------------------------------------------------------

    def _shown(self, max_features: int) -> NDArray[np.int64]:
        return self.order[: positive_integer(max_features, "max_features")]

    def _lines(self, columns: NDArray[np.int64], ax: Axes | None) -> Any:
        axes = self._begin(ax, _MARGIN + _ROW * max(len(columns), 2))
        names = [label_of(self._name(c)) for c in columns]
        axes.set_yticks(np.arange(len(columns)), names, parse_math=False)
        axes.set_ylim(len(columns) - 0.4, -0.6)
        dress(axes)
        axes.grid(visible=False, axis="y")
        return axes

    def _name(self, column: int) -> str:
        return str(self.explanation.feature_names[column])

    def _number(self, column: Any, parameter: str) -> int:
        names = [str(name) for name in self.explanation.feature_names]
        if isinstance(column, str) and column in names:
            return names.index(column)
        is_number = isinstance(column, (int, np.integer)) and not isinstance(column, bool)
        if is_number and 0 <= column < len(names):
            return int(column)
        raise ValueError(f"{parameter} must be one of {shown(names)}; got {shown(column)}.")

    def _entries(self, column: int) -> NDArray:
        """Entries (n,) of a column of the rows."""
        data = self.explanation.data
        frame = frame_of(data)
        if isinstance(frame, nw.DataFrame):
            return np.asarray(frame[self._name(column)].to_numpy())
        if sparse.issparse(data):
            return data.tocsc()[:, [column]].toarray()[:, 0]
        return np.asarray(data)[:, column]

    def _partner(self, own: int) -> int:
        """The column whose groups explain most of the values within groups of equal entries."""
        values, groups = self.explanation.values[:, own], _groups(self._entries(own), _BINS)
        parts = [
            -np.inf if column == own else _explained(values, groups, self._entries(column))
            for column in range(self.explanation.values.shape[1])
        ]
        return int(np.argmax(parts))


def _groups(entries: NDArray, count: int) -> NDArray[np.int64]:
    """Groups of entries: kinds of texts, or about ``count`` groups of numbers of near ranks."""
    places, kinds = _places(entries)
    if kinds is None:
        places = np.minimum(np.floor(_ranks(entries) * count), count - 1)
    found: NDArray[np.int64] = np.unique(places, return_inverse=True)[1]
    return found


def _explained(values: NDArray[np.float64], groups: NDArray[np.int64], entries: NDArray) -> float:
    """Share of the variance within groups that means by entries explain, less that of chance."""
    others = _groups(entries, _FEW_BINS)
    cells = np.unique(groups * len(entries) + others, return_inverse=True)[1]
    within, across = (_variance_within(values, parts) for parts in (groups, cells))
    return 1 - across / within if within else 0.0


def _variance_within(values: NDArray[np.float64], groups: NDArray[np.int64]) -> float:
    """Variance around the means of groups; infinite if every value is a group."""
    left = values - (np.bincount(groups, values) / np.bincount(groups))[groups]
    degrees = len(values) - int(groups.max()) - 1
    return float(left @ left) / degrees if degrees else np.inf


def _colours() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("entries", [BLUE, "#c9c2bd", ORANGE])


def _name_dates(axis: Any) -> None:
    """Ticks of an axis of days since 1970 at dates."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(minticks=3)
    axis.set_major_locator(locator)
    axis.set_major_formatter(ConciseDateFormatter(locator))


def _places(entries: NDArray) -> tuple[NDArray[np.float64], list[str] | None]:
    """Numbers that order entries, texts by a leading number; and the texts if few."""
    if entries.dtype.kind in "mM":
        unit = np.timedelta64(1, "D")  # days since 1970 are the dates of matplotlib
        days = entries - np.datetime64(0, "D") if entries.dtype.kind == "M" else entries
        return days / unit, None
    if entries.dtype.kind in "iufb":
        return entries.astype(np.float64), None
    texts = np.array([_text(entry) for entry in entries])
    kinds, places = np.unique(texts, return_inverse=True)
    starts = [_LEADING_NUMBER.match(kind) for kind in kinds]
    if len(kinds) > _FEW_KINDS and sum(s is not None for s in starts) > len(kinds) / 2:
        numbers = [np.nan if s is None else float(s[1].replace(",", "")) for s in starts]
        return np.array(numbers)[places], None
    return places.astype(np.float64), kinds.tolist() if len(kinds) <= _FEW_KINDS else None


def _ranks(entries: NDArray) -> NDArray[np.float64]:
    """Mean ranks of entries from 0 to 1; NaN of missing ones."""
    numbers, _ = _places(entries)
    missing = np.array([entry is None or entry != entry for entry in entries])
    out = np.full(len(numbers), np.nan)
    known = ~missing & np.isfinite(numbers)
    if known.any():
        out[known] = (rankdata(numbers[known]) - 1) / max(known.sum() - 1, 1)
    return out


def _stacked(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Heights around 0 of points that would lie on each other."""
    cells = np.round(values * _CELLS).astype(np.int64)
    order = np.argsort(cells, kind="stable")
    _, starts, counts = np.unique(cells[order], return_index=True, return_counts=True)
    within = np.arange(len(cells)) - np.repeat(starts, counts)
    offsets = np.where(within % 2, -1, 1) * ((within + 1) // 2)
    heights = np.empty(len(cells))
    heights[order] = offsets * _HALF / max(1.0, counts.max() / 2)
    return heights


def _text(entry: Any) -> str:
    if entry is None or entry != entry:
        return "missing"
    if isinstance(entry, (float, np.floating)):
        return f"{entry:.4g}"
    if isinstance(entry, np.datetime64):
        return str(entry.astype("datetime64[s]")).replace("T00:00:00", "")
    return str(entry)
