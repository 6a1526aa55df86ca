"""Scores along a path: of strengths of the penalty, or of gammas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from mercer._runtime.validation import name_from
from mercer.plots.base import AIDS, BLUE, ORANGE, Display, check_fitted_with, dress, machine_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["PathDisplay"]

_PARAMETERS = {"alpha": "strength of the penalty, alpha", "gamma": "scale of the kernel, gamma"}
_KINDS = ("score", "coefficients", "features")
_KNOWN = "kernel machine with alphas, gamma_path or alpha='cv'"
_MOST_LINES = 50  # coefficients that are drawn, those of the largest size


class PathDisplay(Display):
    """Scores along a path of one setting, and the chosen value.

    Create it with :meth:`from_estimator` or :meth:`from_estimators`.

    Parameters
    ----------
    values : array of shape (n_values,)
        Values of the setting.
    scores : array of shape (n_values,)
        Score at each value.
    parameter : str, default="alpha"
        Name of the setting.
    score_name : str, default="score"
        Label of the scores.
    chosen : float or None, default=None
        Value of the setting that is marked.
    n_features : array of shape (n_values,) or None, default=None
        Number of features of the model at each value.
    coefs : array of shape (n_values, n_coefs) or None, default=None
        Coefficients of the model at each value.

    Attributes
    ----------
    line_ : matplotlib Line2D
        Line of the scores or numbers of features; with ``kind="coefficients"`` that of the largest
        coefficient.
    lines_ : list of Line2D
        All lines of the path.
    chosen_ : matplotlib Line2D or None
        Mark of the chosen value.
    {ax_}

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRegressor
    >>> from mercer.plots import PathDisplay
    >>> X = np.linspace(0, 3, 50)[:, None]
    >>> model = KernelRegressor("exact", alphas=[1e-6, 1e-3, 1.0]).fit(X, np.sin(X[:, 0]))
    >>> display = PathDisplay.from_estimator(model)
    >>> display.chosen == model.alpha_, display.ax_.get_xscale()
    (True, 'log')
    """

    def __init__(
        self,
        values: ArrayLike,
        scores: ArrayLike,
        *,
        parameter: str = "alpha",
        score_name: str = "score",
        chosen: float | None = None,
        n_features: ArrayLike | None = None,
        coefs: ArrayLike | None = None,
    ):
        self.values, self.scores = np.asarray(values), np.asarray(scores)
        self.parameter, self.score_name, self.chosen = parameter, score_name, chosen
        self.n_features = None if n_features is None else np.asarray(n_features)
        self.coefs = None if coefs is None else np.asarray(coefs)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        parameter: str | None = None,
        kind: str = "score",
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> PathDisplay:
        """Draw the path of values that a fitted model was chosen from.

        Parameters
        ----------
        estimator : estimator
            Model fitted with ``alphas``, ``gamma_path`` or (a sparse model) ``alpha="cv"``, or a
            pipeline that ends with one.
        parameter : {"alpha", "gamma"} or None, default=None
            Setting of the path, if the model has two paths; None takes alpha.
        kind : {"score", "coefficients", "features"}, default="score"
            Quantity of the y axis: scores, the 50 largest coefficients at most, or the number of
            features.
        {ax, lines_options}

        Returns
        -------
        PathDisplay

        Raises
        ------
        TypeError
            If the estimator is not fitted or has no path.
        ValueError
            If the model has no path of ``parameter``, or did not record ``kind``.
        """
        machine = machine_of(estimator)
        check_fitted_with(machine, ("path_", "gamma_path_", "alpha_path_"), _KNOWN)
        path_of_alpha = getattr(machine, "path_", getattr(machine, "alpha_path_", None))
        given = {"alpha": path_of_alpha, "gamma": getattr(machine, "gamma_path_", None)}
        paths = {name: path for name, path in given.items() if path is not None}
        name = next(iter(paths)) if parameter is None else name_from(parameter, paths, "parameter")
        path = paths[name]
        gamma = getattr(getattr(machine.feature_map_, "kernel_", None), "gamma", None)
        is_accuracy = getattr(machine, "scoring", "loss") == "accuracy"
        kind_of_rows = "left out" if getattr(machine, "selection_", "") == "loo" else "held out"
        judged = f"{'accuracy' if is_accuracy else 'mean loss'} on rows {kind_of_rows}"
        scores, coefs = np.asarray(path["score"]), path.get("coef")
        display = cls(
            path[name],
            scores if is_accuracy else -scores,
            parameter=name,
            score_name=judged,
            chosen=machine.alpha_ if name == "alpha" else gamma,
            n_features=path.get("n_features", path.get("n_features_active")),
            coefs=None if coefs is None else np.reshape(coefs, (len(coefs), -1)),
        )
        return display.plot(kind=kind, ax=ax, **kwargs)

    @classmethod
    def from_estimators(
        cls,
        estimators: Sequence[Any],
        X: Any,
        y: Any,
        *,
        kind: str = "score",
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> PathDisplay:
        """Draw the scores of the models returned by ``path`` of a sparse machine.

        Parameters
        ----------
        estimators : sequence of estimators
            Fitted models with ``alpha_``. The model with the best score is marked.
        X, y : rows and targets
            Held-out rows and their targets, to score the models on.
        kind : {"score", "features"}, default="score"
            Quantity of the y axis: scores or the number of features.
        {ax, line_options}

        Returns
        -------
        PathDisplay

        Raises
        ------
        TypeError, ValueError
            If ``estimators`` is empty, or a model is not fitted.
        """
        if not len(estimators):
            raise ValueError("estimators must hold at least one model; got none.")
        for model in estimators:
            check_fitted_with(model, ("alpha_",), _KNOWN)
        alphas = np.array([model.alpha_ for model in estimators])
        scores = np.array([model.score(X, y) for model in estimators])
        is_classifier = hasattr(estimators[0], "classes_")
        sizes = [getattr(model, "n_features_active_", None) for model in estimators]
        display = cls(
            alphas,
            scores,
            score_name="accuracy" if is_classifier else "R²",
            chosen=float(alphas[int(np.argmax(scores))]),
            n_features=None if None in sizes else np.array(sizes),
        )
        return display.plot(kind=kind, ax=ax, **kwargs)

    def plot(self, *, kind: str = "score", ax: Axes | None = None, **kwargs: Any) -> PathDisplay:
        """Draw the figure from the stored data.

        Parameters
        ----------
        kind : {"score", "coefficients", "features"}, default="score"
            Quantity of the y axis: scores, the 50 largest coefficients at most, or the number of
            features.
        {ax, lines_options}

        Returns
        -------
        PathDisplay
            This display.

        Raises
        ------
        ValueError
            If the display has no data of that kind.
        """
        name_from(kind, _KINDS, "kind")
        drawn, label = {
            "score": (self.scores, self.score_name),
            "coefficients": (self.coefs, "coefficient"),
            "features": (self.n_features, "features"),
        }[kind]
        if drawn is None:
            raise ValueError(f"kind must be one that this path has data for; got {kind!r}.")
        axes = self._begin(ax)
        order = np.argsort(self.values, kind="stable")
        values, heights = self.values[order], drawn[order].reshape(len(order), -1)
        largest = np.argsort(-np.abs(heights).max(axis=0), kind="stable")[:_MOST_LINES]
        many = kind == "coefficients"
        looks: dict[str, Any] = {"color": BLUE, "linewidth": 1.0 if many else 2.0, "zorder": 3}
        looks |= {"alpha": 0.6} if many else {"marker": "o", "markersize": 5}
        self.lines_ = axes.plot(values, heights[:, largest], **(looks | kwargs))
        self.line_ = self.lines_[0]
        _scale(axes, values)
        self.chosen_ = self._mark(axes, values, None if many else heights[:, 0])
        axes.set_xlabel(_PARAMETERS.get(self.parameter, self.parameter))
        axes.set_ylabel(label)
        dress(axes)
        return self

    def _mark(self, axes: Any, values: np.ndarray, heights: np.ndarray | None) -> Any:
        """A ring around the value that was chosen and its number; a line for coefficients."""
        if self.chosen is None or np.ndim(self.chosen):
            return None
        place = int(np.argmin(np.abs(values - self.chosen)))
        label = f"chosen: {self.chosen:.3g}"
        if heights is None:
            mark = axes.axvline(values[place], color=AIDS, linestyle=":", label=label)
        else:
            looks: dict[str, Any] = {"marker": "o", "markersize": 11, "linestyle": "none"}
            looks |= {"markerfacecolor": "none", "markeredgecolor": ORANGE, "markeredgewidth": 2}
            mark = axes.plot(values[[place]], heights[[place]], label=label, zorder=4, **looks)[0]
        axes.legend(frameon=False, fontsize=8)
        return mark


def _scale(axes: Any, values: np.ndarray) -> None:
    """A logarithmic axis, which begins with 0 if that is among the values."""
    positive = values[values > 0]
    if len(positive) == len(values):
        axes.set_xscale("log")
    elif len(positive):
        axes.set_xscale("symlog", linthresh=positive.min())
