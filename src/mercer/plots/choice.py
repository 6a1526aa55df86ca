"""The choice of an automatic model: losses of the settings it tried beside its inputs."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._runtime.validation import positive_integer
from mercer.auto.ledger import trials_of
from mercer.plots.base import (
    AIDS,
    BLUE,
    ORANGE,
    Display,
    check_fitted_with,
    dress,
    feature_names,
    new_figure,
)
from mercer.plots.importances import ImportanceDisplay

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["SearchDisplay", "choice_figure", "name_of_settings", "stage_name"]

_STAGES = {
    "rung 1": ("o", 18),
    "rung 2": ("s", 24),
    "rung 3": ("D", 28),
    "columns": ("h", 34),
    "identities": ("P", 40),
    "more rows": ("v", 34),
    "most rows": ("*", 50),
    "log odds": ("p", 34),
    "leaves": ("D", 28),
    "landmarks": ("X", 40),
    "features": ("^", 34),
}
_SCALES = {0.0: "scales alike", 0.5: "scales learned, rooted", 1.0: "scales learned"}
_SOURCES = {
    "machine": " from a machine",
    "exponential": " from an exponential machine",
    "left-out": " by left-out errors",
}
_TARGETS = {"log": "of the target's logarithm", "log-odds": "of the classes' log odds"}
_OF_TARGETS = {"log": ", logarithms", "log-odds": ", log odds"}
_ROW, _MARGIN = 0.34, 1.2  # inches of a group, and of what is not groups
_TITLE = 120  # letters of a line of the title
_RAISED = 0.2  # of a group, by which its name stands above its marks
_LINES = "#e3e3e3"
_KNOWN = "AutoKernelClassifier or AutoKernelRegressor"


class SearchDisplay(Display):
    """Trials of an automatic model: the least loss of each group and stage.

    Trials of a group share the treatment of the columns, the scales and the kernel; gamma and the
    strength of the penalty differ. Later stages fit more rows and fewer groups. Create it with
    :meth:`from_estimator`.

    Parameters
    ----------
    results : mapping of arrays
        Trials: the ``search_results_`` of an automatic model.

    Attributes
    ----------
    groups : dict of str to dict
        Least loss per stage, and whether the group was chosen, for each group, the best first.
    marks_ : dict of str to PathCollection
        Marks of each stage, and of "chosen".
    {ax_}

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import AutoKernelRegressor
    >>> from mercer.plots import SearchDisplay
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> model = AutoKernelRegressor(random_state=0).fit(X, X[:, 1] ** 2)
    >>> display = SearchDisplay.from_estimator(model)
    >>> sum(chosen for stages in display.groups.values() for _, chosen in stages.values())
    1
    """

    def __init__(self, results: Mapping[str, Any]):
        self.results = results
        self.groups = _groups(results)

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, max_groups: int = 12, ax: Axes | None = None, **kwargs: Any
    ) -> SearchDisplay:
        """Draw the trials of a fitted automatic model.

        Parameters
        ----------
        estimator : AutoKernelClassifier or AutoKernelRegressor
            Fitted automatic model.
        max_groups : int, default=12
            Number of groups shown, the best ones, >= 1.
        {ax, marks_options}

        Returns
        -------
        SearchDisplay

        Raises
        ------
        TypeError
            If the estimator is something else, or not fitted.
        """
        check_fitted_with(estimator, ("search_results_",), _KNOWN)
        return cls(estimator.search_results_).plot(max_groups=max_groups, ax=ax, **kwargs)

    def plot(self, *, max_groups: int = 12, ax: Axes | None = None, **kwargs: Any) -> SearchDisplay:
        """Draw the figure from the stored data.

        Parameters
        ----------
        max_groups : int, default=12
            Number of groups shown, the best ones, >= 1.
        {ax, marks_options}

        Returns
        -------
        SearchDisplay
            This display.
        """
        shown = dict(list(self.groups.items())[: positive_integer(max_groups, "max_groups")])
        axes = self._begin(ax, _MARGIN + _ROW * max(len(shown), 4))
        self.marks_ = {}
        for stage, (marker, size) in _STAGES.items():
            at = [(s[stage][0], y) for y, s in enumerate(shown.values()) if stage in s]
            if at:
                colour = AIDS if stage == "rung 1" else BLUE
                looks: dict[str, Any] = {"marker": marker, "s": size, "color": colour, "zorder": 3}
                looks |= {"label": stage_name(stage)}
                self.marks_[stage] = axes.scatter(*zip(*at, strict=True), **(looks | kwargs))
        won = [(v, y) for y, s in enumerate(shown.values()) for v, chosen in s.values() if chosen]
        if won:
            looks = {"s": 110, "color": "none", "edgecolor": ORANGE, "linewidth": 2, "zorder": 4}
            looks |= {"label": "chosen"}
            self.marks_["chosen"] = axes.scatter(*zip(*won, strict=True), **looks)
        self._name(axes, list(shown))
        return self

    def _name(self, axes: Any, names: list[str]) -> None:
        """Names above the marks of their groups, where they need no room beside the axes."""
        left = len(self.groups) - len(names)
        places = np.arange(len(names))
        axes.set_yticks(places - _RAISED, names, ha="left", va="bottom")
        axes.tick_params(axis="y", length=0, pad=-3)
        axes.set_ylim(max(len(names), 4) - 0.6, -0.9)
        axes.set_xlabel("loss on held-out rows" + (f"; {left} more were worse" if left else ""))
        dress(axes)
        axes.grid(visible=False, axis="y")
        for place in places:
            axes.axhline(place, color=_LINES, linewidth=0.7, zorder=0)
        for label in axes.get_yticklabels():
            label.set_fontsize(7.5)
        axes.spines["left"].set_visible(False)
        above: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1)}
        if self.marks_:
            axes.legend(ncols=5, frameon=False, fontsize=8, **above, **_CLOSE)


_CLOSE = {"handletextpad": 0.2, "columnspacing": 1.0, "borderpad": 0.1}


def stage_name(stage: str) -> str:
    """A stage of ``search_results_`` as figures name it: "stage 1" for "rung 1"."""
    return stage.replace("rung", "stage")


def choice_figure(model: Any, n_inputs: int = 20) -> Figure:
    """Shares of the inputs on the left, losses of the trials on the right.

    Parameters
    ----------
    model : AutoKernelClassifier or AutoKernelRegressor
        Fitted automatic model.
    n_inputs : int, default=20
        Number of inputs shown, those with the largest shares.

    Raises
    ------
    TypeError
        If ``model`` is something else, or not fitted.
    ImportError
        If matplotlib is missing.

    See Also
    --------
    ImportanceDisplay, SearchDisplay : each on axes of your own.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import AutoKernelRegressor
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> figure = choice_figure(AutoKernelRegressor(random_state=0).fit(X, X[:, 1] ** 2))
    >>> [axes.get_xlabel() for axes in figure.axes]
    ['share of the distance between rows', 'loss on held-out rows']
    """
    if not hasattr(model, "input_shares_") or not hasattr(model, "search_results_"):
        raise TypeError(f"model must be a fitted {_KNOWN}; got {type(model).__name__}.")
    shares, search = model.input_shares_, SearchDisplay(model.search_results_)
    n_shown = min(positive_integer(n_inputs, "n_inputs"), len(shares))
    n_groups = max(len(search.groups), 4)
    figure = new_figure(11.0, 1.6 + max(0.24 * n_shown, _ROW * n_groups))
    inputs, tried = figure.subplots(1, 2)
    names = feature_names(model, len(shares))
    ImportanceDisplay(names, None, shares).plot(max_features=n_shown, ax=inputs)
    search.plot(max_groups=n_groups, ax=tried)
    title = f"{type(model).__name__}: {', '.join(_title(model.best_settings_))}"
    figure.suptitle("\n".join(wrap(title, _TITLE)), fontsize=11, x=0.01, ha="left")
    return figure


def _title(chosen: Mapping[str, Any]) -> list[str]:
    parts = [
        name_of_settings(chosen),
        f"γ {chosen['gamma']:.3g}",
        f"ridge {chosen['ridge']:.3g}",
    ]
    of_target = _TARGETS.get(chosen["transform"])
    return parts if of_target is None else [*parts, of_target]


def name_of_settings(settings: Mapping[str, Any]) -> str:
    """Settings by name, but for gamma, ridge and transform."""
    numbers = settings["numbers"] + (", categories" if settings["max_integers"] else "")
    numbers += {"codes": ", labels alone", "words": ", words"}.get(settings["labels"], "")
    numbers += ", identities" if settings.get("identities") else ""
    numbers += ", fewer columns" if settings.get("without") else ""
    scales = _SCALES.get(float(settings["power"]), f"scales to the power {settings['power']:g}")
    turned = " and turned" if settings["turned"] else ""
    source = _SOURCES.get(settings["scales"], "")
    return f"{settings['kernel']}, {numbers}, {scales}{turned}{source}"


def _groups(results: Mapping[str, Any]) -> dict[str, dict[str, tuple[float, bool]]]:
    """Least loss of every group per stage, and whether it was chosen.

    The chosen group is first: losses of early stages, of fewer rows, can be below its own.
    """
    results, groups = trials_of(results), dict[str, dict[str, tuple[float, bool]]]()
    for i, loss in enumerate(results["loss"]):
        name = name_of_settings({key: results[key][i] for key in results})
        # Trials of logarithms are ranked with a handicap, and log odds have another loss: they are
        # groups of their own.
        name += _OF_TARGETS.get(str(results["transform"][i]), "")
        stages = groups.setdefault(name, {})
        stage, chosen = str(results["stage"][i]), bool(results["chosen"][i])
        least, before = stages.get(stage, (np.inf, False))
        # The loss of what was chosen, which need not be the least, goes before others.
        if chosen or (not before and float(loss) < least):
            stages[stage] = float(loss), chosen

    def place(item: tuple[str, dict[str, tuple[float, bool]]]) -> tuple[bool, tuple[float, bool]]:
        found = item[1].values()
        return not any(chosen for _, chosen in found), min(found)

    return dict(sorted(groups.items(), key=place))
