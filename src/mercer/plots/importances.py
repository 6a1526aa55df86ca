"""The inputs that matter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.inspection import permutation_importance

from mercer._runtime.validation import positive_integer
from mercer.plots.base import (
    AIDS,
    BLUE,
    ORANGE,
    Display,
    check_fitted_with,
    dress,
    feature_names,
    label_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ImportanceDisplay"]

_SHARE = "share of the distance between rows"
_LOSS = "loss of score where the input is shuffled"
_SIZE = "mean absolute Shapley value"  # of automatic models
_KNOWN = "model with feature_importances_ or input_shares_"
_ROW, _MARGIN = 0.24, 1.1  # inches of a bar, and of what is not bars


class ImportanceDisplay(Display):
    """Importances of the inputs, and their shares of the distance between rows.

    The importance of an input is its mean absolute Shapley value, of automatic models, or the loss
    of score when its values are permuted. Its share is its part in the distance between rows that
    the kernel uses. Create it with :meth:`from_estimator`.

    Parameters
    ----------
    names : sequence of str
        Names of the inputs.
    importances : array of shape (n_features,) or None
        Importance per input; None draws the shares alone.
    shares : array of shape (n_features,) or None, default=None
        Share per input in the distance between rows; None draws the importances alone.
    importance_name : str, default="loss of score where the input is shuffled"
        Label of the importances.

    Attributes
    ----------
    order : ndarray of int of shape (n_features,)
        Indices of the inputs, the most important one first.
    bars_ : matplotlib BarContainer
        Importances, or shares if there are no importances.
    marks_ : matplotlib PathCollection or None
        Shares beside the importances.
    {ax_}

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRegressor
    >>> from mercer.plots import ImportanceDisplay
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> model = KernelRegressor(random_state=0).fit(X, np.sin(X[:, 1]))
    >>> display = ImportanceDisplay.from_estimator(model, X, np.sin(X[:, 1]), random_state=0)
    >>> int(display.order[0])
    1
    """

    def __init__(
        self,
        names: Sequence[str],
        importances: ArrayLike | None,
        shares: ArrayLike | None = None,
        *,
        importance_name: str = _LOSS,
    ):
        self.names, self.importance_name = list(names), importance_name
        self.importances = None if importances is None else np.asarray(importances)
        self.shares = None if shares is None else np.asarray(shares)

    @property
    def order(self) -> np.ndarray:
        """The inputs, the most important one first."""
        return np.argsort(-self._sizes(), kind="stable")

    def _sizes(self) -> np.ndarray:
        sizes = self.shares if self.importances is None else self.importances
        if sizes is None:
            raise ValueError("importances or shares must be given; got neither.")
        return sizes

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        y: Any = None,
        *,
        n_repeats: int = 5,
        random_state: Any = None,
        max_features: int = 20,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> ImportanceDisplay:
        """Draw the importances of the inputs of a fitted model.

        Parameters
        ----------
        estimator : estimator
            Fitted model. Automatic models have importances and need no rows. For other models, and
            if X and y are given, :func:`sklearn.inspection.permutation_importance` computes them.
        X, y : rows and targets, default=None
            Held-out rows and their targets.
        n_repeats : int, default=5
            Number of permutations per input.
        random_state : int, RandomState or None, default=None
            Seed of the permutations.
        max_features : int, default=20
            Largest number of inputs shown, >= 1.
        {ax, bars_options}

        Returns
        -------
        ImportanceDisplay

        Raises
        ------
        TypeError
            If the estimator is not fitted, or has no importances and no rows are given.
        """
        shares = getattr(estimator, "input_shares_", None)
        if X is None or y is None:
            check_fitted_with(estimator, ("feature_importances_", "input_shares_"), _KNOWN)
            importances = getattr(estimator, "feature_importances_", None)
            label = "importance" if shares is None else _SIZE  # forests have another kind
        else:
            X = X.to_pandas() if hasattr(X, "to_pandas") else X  # else its names would be lost
            how = {"n_repeats": n_repeats, "random_state": random_state}
            importances = permutation_importance(estimator, X, y, **how).importances_mean
            label = _LOSS
        names = feature_names(estimator, estimator.n_features_in_)
        display = cls(names, importances, shares, importance_name=label)
        return display.plot(max_features=max_features, ax=ax, **kwargs)

    def plot(
        self, *, max_features: int = 20, ax: Axes | None = None, **kwargs: Any
    ) -> ImportanceDisplay:
        """Draw the figure from the stored data.

        Parameters
        ----------
        max_features : int, default=20
            Largest number of inputs shown, >= 1.
        {ax, bars_options}

        Returns
        -------
        ImportanceDisplay
            This display.
        """
        sizes, order = self._sizes(), self.order
        n_shown = min(positive_integer(max_features, "max_features"), len(order))
        axes = self._begin(ax, _MARGIN + _ROW * max(n_shown, 2))
        shown, places = order[:n_shown], np.arange(n_shown)
        looks: dict[str, Any] = {"color": ORANGE, "height": 0.7, "zorder": 3}
        self.bars_ = axes.barh(places, sizes[shown], **(looks | kwargs))
        names = [label_of(self.names[j]) for j in shown]
        axes.set_yticks(places, names, parse_math=False)
        left = len(order) - n_shown
        axes.set_ylim(n_shown - 0.4 + (left > 0), -0.6)
        axes.set_xlabel(_SHARE if self.importances is None else self.importance_name)
        dress(axes)
        axes.grid(visible=False, axis="y")
        self.marks_ = None
        if self.importances is not None and self.shares is not None:
            self.marks_ = _add_shares(axes, self.shares, shown)
        if left:
            what = "more inputs" if left > 1 else "more input"
            rest = f"and {left} {what}, {sizes[order[n_shown:]].sum():.2f} together"
            where: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "va": "center"}
            axes.annotate(rest, (0.01, n_shown), fontsize=8, color=AIDS, **where)
        return self


def _add_shares(axes: Any, shares: np.ndarray, shown: np.ndarray) -> Any:
    """Shares as marks, on an axis of their own above."""
    above = axes.twiny()
    looks: dict[str, Any] = {"marker": "D", "s": 26, "edgecolor": "white", "linewidth": 0.8}
    marks = above.scatter(shares[shown], np.arange(len(shown)), color=BLUE, zorder=4, **looks)
    low, high = axes.get_xlim()
    largest = 1.05 * float(shares.max()) or 1.0
    above.set_xlim(largest * low / high if high > 0 else 0, largest)  # zeros one above the other
    axes.set_xlim(low, high)
    above.set_xlabel(_SHARE + " ◆", color=BLUE, fontsize=9)
    above.tick_params(labelsize=8, colors=BLUE)
    above.spines[["left", "right", "bottom"]].set_visible(False)
    return marks
