"""The choice of an automatic model: shares of inputs, and losses of the settings it tried."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.plots.base import AIDS, STYLE, dress, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["choice_figure"]

_INK = STYLE["binning"][0]
_STAGES = {"rung 1": ("o", 18), "rung 2": ("s", 24), "rung 3": ("D", 28), "features": ("^", 34)}
_SCALES = {0.0: "scales alike", 0.5: "scales learned, rooted", 1.0: "scales learned"}


def choice_figure(model: Any, n_inputs: int = 20) -> Figure:
    """Shares of the inputs on the left, losses of the settings tried on the right.

    Parameters
    ----------
    model : AutoKernelClassifier or AutoKernelRegressor
        Fitted.
    n_inputs : int, default=20
        How many inputs are shown, those with the largest shares.

    Raises
    ------
    TypeError
        If ``model`` is something else, or not fitted.
    ImportError
        If matplotlib is missing.

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
        raise TypeError(
            "model must be a fitted AutoKernelClassifier or AutoKernelRegressor; got "
            f"{type(model).__name__}."
        )
    groups = _groups(model.search_results_)
    n_shown = min(int(n_inputs), len(model.input_shares_))
    figure = new_figure(11.0, 1.6 + 0.24 * max(n_shown, len(groups), 4))
    inputs, tried = figure.subplots(1, 2)
    _inputs(inputs, model, n_shown)
    _tried(tried, groups)
    for axes in (inputs, tried):
        dress(axes)
        axes.grid(visible=False, axis="y")
    figure.suptitle(_title(model), fontsize=11, x=0.01, ha="left")
    return figure


def _title(model: Any) -> str:
    chosen = model.best_settings_
    parts = [_group_name(chosen), f"γ {chosen['gamma']:.3g}", f"ridge {chosen['ridge']:.3g}"]
    if chosen["transform"] != "identity":
        parts.append("of the target's logarithm")
    return f"{type(model).__name__}: {', '.join(parts)}"


def _group_name(settings: dict[str, Any]) -> str:
    """Settings by name, but for gamma, ridge and transform."""
    numbers = settings["numbers"] + (", categories" if settings["max_integers"] else "")
    scales = _SCALES.get(float(settings["power"]), f"scales to the power {settings['power']:g}")
    turned = " and turned" if settings["turned"] else ""
    machine = " from a machine" if settings.get("scales") == "machine" else ""  # none in old files
    return f"{settings['kernel']}, {numbers}, {scales}{turned}{machine}"


def _inputs(axes: Any, model: Any, n_shown: int) -> None:
    """Bars, the longest above."""
    shares = model.input_shares_
    names = getattr(model, "feature_names_in_", [f"x{j}" for j in range(len(shares))])
    order = np.argsort(-shares, kind="stable")[:n_shown]
    axes.barh(np.arange(n_shown), shares[order], color=_INK, height=0.7, zorder=3)
    axes.set_yticks(np.arange(n_shown), [str(names[j]) for j in order])
    axes.invert_yaxis()
    axes.set_xlabel("share of the distance between rows")
    left = len(shares) - n_shown
    if left:
        rest = f"{left} more inputs: {shares.sum() - shares[order].sum():.2f} together"
        place = {"xycoords": "axes fraction", "ha": "right"}
        axes.annotate(rest, (0.98, 0.02), fontsize=8, color=AIDS, **place)


def _groups(results: dict[str, Any]) -> dict[str, dict[str, tuple[float, bool]]]:
    """The least loss of every group in every stage and whether it was chosen, best group first."""
    groups: dict[str, dict[str, tuple[float, bool]]] = {}
    for i, loss in enumerate(results["loss"]):
        name = _group_name({key: results[key][i] for key in results})
        stages = groups.setdefault(name, {})
        stage, chosen = str(results["stage"][i]), bool(results["chosen"][i])
        least, before = stages.get(stage, (np.inf, False))
        stages[stage] = (min(least, float(loss)), chosen or before)
    return dict(sorted(groups.items(), key=lambda item: min(item[1].values())))


def _tried(axes: Any, groups: dict[str, dict[str, tuple[float, bool]]]) -> None:
    """A line of marks for every group, one for each stage it reached."""
    for stage, (marker, size) in _STAGES.items():
        at = [(s[stage][0], y) for y, s in enumerate(groups.values()) if stage in s]
        if at:
            colour = AIDS if stage == "rung 1" else STYLE["fourier"][0]
            axes.scatter(
                *zip(*at, strict=True), marker=marker, s=size, color=colour, label=stage, zorder=3
            )
    won = [(v, y) for y, s in enumerate(groups.values()) for v, chosen in s.values() if chosen]
    if won:
        axes.scatter(
            *zip(*won, strict=True), s=110, color="none", edgecolor=AIDS, label="chosen", zorder=4
        )
    axes.set_yticks(np.arange(len(groups)), list(groups))
    axes.yaxis.tick_right()
    axes.invert_yaxis()
    axes.set_xlabel("loss on held-out rows")
    axes.legend(frameon=False, fontsize=8, loc="lower left")
