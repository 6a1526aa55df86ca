"""Whether probabilities are what they say, and whether intervals and sets hold their share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer._runtime.validation import name_from, positive_integer
from mercer.plots.base import AIDS, Display, check_fitted_with, dress, label_of, thousands

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["CalibrationDisplay", "CoverageDisplay"]

_SURE = 1.96  # standard errors of an interval of 95 %
_COUNTS = 0.18  # height of the tallest bar of counts
_LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


class CalibrationDisplay(Display):
    """Calibration curve: observed share of a class against its predicted probability.

    For two classes the curve is that of the second class or ``pos_label``. For more classes it is
    that of the predicted class of each row (share of correct predictions), or of ``pos_label``.
    Create it with :meth:`from_estimator` or :meth:`from_predictions`. Unlike the display of
    scikit-learn it takes more than two classes and shows the sampling error and the counts.

    Parameters
    ----------
    prob_pred, prob_true : ndarray of shape (n_bins,)
        Mean probability, and share of rows of the class, in each bin that is not empty.
    counts : ndarray of int of shape (n_bins,)
        Number of rows in each of these bins.
    name : str, default=""
        Name in the legend.
    of_what : str, default="of the class"
        Words for the labels of the axes.
    edges : ndarray of shape (n_all_bins + 1,) or None, default=None
        Edges of all bins if they have equal width; None draws no counts.

    Attributes
    ----------
    error : float
        Expected calibration error: mean absolute difference of share and probability over the rows.
    line_ : matplotlib Line2D
        Calibration curve.
    intervals_ : matplotlib LineCollection
        95 % confidence intervals of the shares (Wilson).
    bars_ : matplotlib BarContainer or None
        Counts, the tallest bar 0.18 high; None for bins of equal counts.
    {ax_}

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.plots import CalibrationDisplay
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(2000)
    >>> display = CalibrationDisplay.from_predictions(rng.random(2000) < p, p, n_bins=5)
    >>> int(display.counts.sum()), display.error < 0.03
    (2000, True)
    """

    def __init__(
        self,
        prob_pred: NDArray,
        prob_true: NDArray,
        counts: NDArray,
        *,
        name: str = "",
        of_what: str = "of the class",
        edges: NDArray | None = None,
    ):
        self.prob_pred, self.prob_true, self.counts = prob_pred, prob_true, counts
        self.name, self.of_what, self.edges = name, of_what, edges

    @property
    def error(self) -> float:
        """Mean distance of share and probability over the rows."""
        return float(np.average(np.abs(self.prob_true - self.prob_pred), weights=self.counts))

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        n_bins: int = 10,
        strategy: str = "uniform",
        pos_label: Any = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> CalibrationDisplay:
        """Draw the calibration of a fitted classifier on held-out rows.

        Parameters
        ----------
        estimator : classifier
            Fitted classifier with ``predict_proba``.
        X, y : rows and labels of shape (n_samples,)
            Held-out rows and their labels.
        n_bins : int, default=10
            Number of bins of the probabilities, >= 1.
        strategy : {"uniform", "quantile"}, default="uniform"
            Bins of equal width, or of equal numbers of rows.
        pos_label : label or None, default=None
            Class of the curve; None takes the second of two classes, or the predicted class.
        {name, ax, line_options}

        Returns
        -------
        CalibrationDisplay

        Raises
        ------
        TypeError
            If the estimator has no ``predict_proba``, or none for its loss.
        ValueError
            If a setting is invalid, or X and y have different numbers of rows.
        """
        check_fitted_with(estimator, ("predict_proba",), "classifier with predict_proba")
        proba = estimator.predict_proba(X)
        return cls.from_predictions(
            y,
            proba,
            classes=estimator.classes_,
            n_bins=n_bins,
            strategy=strategy,
            pos_label=pos_label,
            name=type(estimator).__name__ if name is None else name,
            ax=ax,
            **kwargs,
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        classes: ArrayLike | None = None,
        n_bins: int = 10,
        strategy: str = "uniform",
        pos_label: Any = None,
        name: str = "",
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> CalibrationDisplay:
        """Draw the calibration of given probabilities.

        Parameters
        ----------
        y_true : array of shape (n_samples,)
            True labels.
        y_proba : array of shape (n_samples, n_classes) or (n_samples,)
            Probabilities of the classes, or of the second of two classes.
        classes : array of shape (n_classes,) or None, default=None
            Labels in the order of the columns; None takes the sorted labels of ``y_true``.
        n_bins, strategy, pos_label, name, ax, **kwargs
            As for ``from_estimator``.

        Returns
        -------
        CalibrationDisplay

        Raises
        ------
        ValueError
            If a setting is invalid, or shapes do not agree.
        """
        y, proba = np.asarray(y_true), np.asarray(y_proba, dtype=np.float64)
        labels = np.unique(y) if classes is None else np.asarray(classes)
        proba = np.column_stack([1 - proba, proba]) if proba.ndim == 1 else proba
        if proba.shape != (len(y), len(labels)):
            raise ValueError(
                f"y_proba must have the shape {len(y), len(labels)} of labels and classes; got "
                f"{proba.shape}."
            )
        if not len(y):
            raise ValueError("y_true must hold at least one label; got none.")
        given, is_true, of_what = _judged(y, proba, labels, pos_label)
        edges = _edges(given, positive_integer(n_bins, "n_bins"), strategy)
        bins = np.clip(np.searchsorted(edges, given, side="right") - 1, 0, len(edges) - 2)
        counts = np.bincount(bins, minlength=len(edges) - 1)
        filled = counts > 0
        means = [np.bincount(bins, weights, len(counts))[filled] for weights in (given, is_true)]
        predicted, true = (sums / counts[filled] for sums in means)
        display = cls(
            *(predicted, true, counts[filled]),
            name=name,
            of_what=of_what,
            edges=edges if strategy == "uniform" else None,
        )
        return display.plot(ax=ax, **kwargs)

    def plot(self, *, ax: Axes | None = None, **kwargs: Any) -> CalibrationDisplay:
        """Draw the figure from the stored data.

        Parameters
        ----------
        {ax, line_options}

        Returns
        -------
        CalibrationDisplay
            This display.
        """
        axes = self._begin(ax)
        if not axes.lines:
            axes.plot([0, 1], [0, 1], color=AIDS, linestyle="--", linewidth=1.2, label="ideal")
        label = f"{label_of(self.name) or 'model'}: off by {self.error:.3f}"
        looks: dict[str, Any] = {"marker": "o", "markersize": 5, "linewidth": 2, "zorder": 3}
        looks |= {"label": label, "clip_on": False}
        (self.line_,) = axes.plot(self.prob_pred, self.prob_true, **(looks | kwargs))
        colour = self.line_.get_color()
        low, high = _wilson(self.prob_true, self.counts)
        self.intervals_ = axes.vlines(self.prob_pred, low, high, color=colour, alpha=0.5)
        self.bars_ = None
        if self.edges is not None:
            places = np.searchsorted(self.edges, self.prob_pred, side="right") - 1
            places = np.clip(places, 0, len(self.edges) - 2)
            heights = _COUNTS * self.counts / self.counts.max()
            how: dict[str, Any] = {"align": "edge", "color": colour, "alpha": 0.2}
            self.bars_ = axes.bar(self.edges[places], heights, np.diff(self.edges)[places], **how)
        axes.set(xlim=(0, 1), ylim=(0, 1))
        axes.set_xlabel(f"probability {self.of_what}", parse_math=False)
        axes.set_ylabel(f"share of rows {self.of_what}", parse_math=False)
        dress(axes)
        _tell(axes, int(self.counts.sum()))
        return self


class CoverageDisplay(Display):
    """Observed against nominal coverage of prediction intervals or sets of classes.

    Create it with :meth:`from_estimator` or :meth:`from_predictions`.

    Parameters
    ----------
    levels : ndarray of shape (n_levels,)
        Nominal coverages.
    coverages : ndarray of shape (n_levels,)
        Share of the rows whose interval or set contains the target, per level.
    sizes : ndarray of shape (n_levels,)
        Mean width of the intervals, or mean number of classes in the sets, per level.
    n_rows : int
        Number of rows.
    name : str, default=""
        Name in the legend.

    Attributes
    ----------
    line_ : matplotlib Line2D
        Observed coverages.
    band_ : matplotlib PolyCollection
        95 % range of the observed coverage of n_rows rows if the true coverage is nominal.
    {ax_}

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.plots import CoverageDisplay
    >>> y = np.random.default_rng(0).uniform(size=1000)
    >>> ends = [np.tile([0.5 - p / 2, 0.5 + p / 2], (1000, 1)) for p in (0.5, 0.9)]
    >>> CoverageDisplay.from_predictions(y, ends, levels=(0.5, 0.9)).coverages.round(1)
    array([0.5, 0.9])
    """

    def __init__(
        self,
        levels: NDArray,
        coverages: NDArray,
        sizes: NDArray,
        n_rows: int,
        *,
        name: str = "",
    ):
        self.levels, self.coverages, self.sizes = levels, coverages, sizes
        self.n_rows, self.name = n_rows, name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        levels: Sequence[float] = _LEVELS,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> CoverageDisplay:
        """Draw the coverage of the intervals or sets of a fitted model on held-out rows.

        Parameters
        ----------
        estimator : estimator
            Fitted model with ``predict_interval`` or ``predict_set``.
        X, y : rows, and targets of shape (n_samples,) or (n_samples, n_outputs)
            Held-out rows and their targets.
        levels : sequence of float, default=(0.1, 0.2, ..., 0.9, 0.95)
            Nominal coverages, above 0 and below 1.
        {name, ax, line_options}

        Returns
        -------
        CoverageDisplay

        Raises
        ------
        TypeError
            If the estimator has neither method.
        """
        check_fitted_with(
            estimator,
            ("predict_interval", "predict_set"),
            "estimator with predict_interval or predict_set",
        )
        name = type(estimator).__name__ if name is None else name
        if hasattr(estimator, "predict_interval"):
            ends = [estimator.predict_interval(X, coverage=level) for level in levels]
            return cls.from_predictions(y, ends, levels=levels, name=name, ax=ax, **kwargs)
        is_label = np.asarray(y)[:, None] == np.asarray(estimator.classes_)
        sets = [np.asarray(estimator.predict_set(X, coverage=level)) for level in levels]
        display = cls(
            np.asarray(levels, dtype=np.float64),
            np.array([(each & is_label).any(axis=1).mean() for each in sets]),
            np.array([each.sum(axis=1).mean() for each in sets]),
            len(is_label),
            name=name,
        )
        return display.plot(ax=ax, **kwargs)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        intervals: Sequence[ArrayLike],
        *,
        levels: Sequence[float] = _LEVELS,
        name: str = "",
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> CoverageDisplay:
        """Draw the coverage of given intervals.

        Parameters
        ----------
        y_true : array of shape (n_samples,) or (n_samples, n_outputs)
            True targets.
        intervals : sequence of arrays of shape (n_samples, 2) or (n_samples, n_outputs, 2)
            Lower and upper ends of the intervals, one array per level.
        levels : sequence of float
            Nominal coverage of each array of ``intervals``.
        name, ax, **kwargs
            As for ``from_estimator``.

        Returns
        -------
        CoverageDisplay

        Raises
        ------
        ValueError
            If shapes do not agree.
        """
        y = np.asarray(y_true, dtype=np.float64)
        ends = [np.asarray(each, dtype=np.float64) for each in intervals]
        for each in ends:
            if each.shape != (*y.shape, 2):
                raise ValueError(
                    f"intervals must be of shape {(*y.shape, 2)}, as the targets; got {each.shape}."
                )
        if len(ends) != len(levels):
            raise ValueError(
                f"levels must be as many as intervals, {len(ends)}; got {len(levels)}."
            )
        held = [((each[..., 0] <= y) & (y <= each[..., 1])).mean() for each in ends]
        widths = [np.diff(each, axis=-1).mean() for each in ends]
        display = cls(
            np.asarray(levels, dtype=np.float64),
            np.array(held),
            np.array(widths),
            len(y),
            name=name,
        )
        return display.plot(ax=ax, **kwargs)

    def plot(self, *, ax: Axes | None = None, **kwargs: Any) -> CoverageDisplay:
        """Draw the figure from the stored data.

        Parameters
        ----------
        {ax, line_options}

        Returns
        -------
        CoverageDisplay
            This display.
        """
        axes = self._begin(ax)
        nominal = np.linspace(0, 1, 101)
        reach = _SURE * np.sqrt(nominal * (1 - nominal) / max(self.n_rows, 1))
        if not axes.lines:
            axes.plot(nominal, nominal, color=AIDS, linestyle="--", linewidth=1.2, label="ideal")
        ends = np.clip([nominal - reach, nominal + reach], 0, 1)
        self.band_ = axes.fill_between(nominal, *ends, color=AIDS, alpha=0.15, linewidth=0)
        looks: dict[str, Any] = {"marker": "o", "markersize": 5, "linewidth": 2, "zorder": 3}
        looks |= {"label": label_of(self.name) or "model", "clip_on": False}
        (self.line_,) = axes.plot(self.levels, self.coverages, **(looks | kwargs))
        axes.set(xlim=(0, 1), ylim=(0, 1))
        axes.set(xlabel="nominal coverage", ylabel="share of rows that are covered")
        dress(axes)
        _tell(axes, self.n_rows)
        return self


def _judged(
    y: NDArray, proba: NDArray, labels: NDArray, pos_label: Any
) -> tuple[NDArray, NDArray, str]:
    """Return (probabilities, outcomes, class)."""
    if pos_label is None and len(labels) != 2:
        given = proba.max(axis=1)
        is_true = labels[proba.argmax(axis=1)] == y
        of_what = "of the likeliest class"
    else:
        positive = labels[-1] if pos_label is None else pos_label
        places = np.flatnonzero(labels == positive)
        if not len(places):
            raise ValueError(f"pos_label must be one of the classes; got {pos_label!r}.")
        given, is_true = proba[:, places[0]], y == positive
        of_what = f"of {label_of(positive)}"
    return given, is_true, of_what


def _edges(given: NDArray, n_bins: int, strategy: str) -> NDArray:
    """Edges of the bins, in ascending order."""
    places = np.linspace(0, 1, n_bins + 1)
    if name_from(strategy, ("uniform", "quantile"), "strategy") == "uniform":
        return places
    edges = np.unique(np.quantile(given, places))
    return edges if len(edges) > 1 else np.append(edges, edges[0] + 1)


def _wilson(shares: NDArray, counts: NDArray) -> tuple[NDArray, NDArray]:
    """Ends of intervals that hold true shares with a probability of 95 %."""
    z2 = _SURE**2 / counts
    middle = (shares + z2 / 2) / (1 + z2)
    reach = _SURE * np.sqrt(shares * (1 - shares) / counts + z2 / (4 * counts)) / (1 + z2)
    return middle - reach, middle + reach


def _tell(axes: Any, n_rows: int) -> None:
    """A legend that begins with the number of rows."""
    looks: dict[str, Any] = {"fontsize": 8, "title_fontsize": 8, "alignment": "left"}
    axes.legend(title=f"{thousands(n_rows)} rows", loc="upper left", frameon=False, **looks)
