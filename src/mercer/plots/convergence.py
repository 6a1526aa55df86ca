"""Convergence of a solver over seconds or iterations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from mercer._runtime.validation import name_from
from mercer.plots.base import AIDS, Display, check_fitted_with, dress, label_of, machine_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ConvergenceDisplay"]

_AXES = ("seconds", "iterations")
_QUANTITIES = ("optimality", "objective")
_KNOWN = "kernel machine that keeps trace_, rounds_ or loss_curve_"
_LABELS = {
    "seconds": "seconds of solving",
    "iterations": "iterations",
    "rounds": "rounds of drawing features",
    "optimality": "optimality",
    "objective": "objective above its least value",
}
_SMOOTH = 50  # parts that a curve of noisy losses is averaged in


class ConvergenceDisplay(Display):
    """Objective, or value of the stopping criterion, against time or iterations of a fit.

    Create it with :meth:`from_estimator`; draw several models on one ``ax`` to compare them.

    Parameters
    ----------
    iterations, seconds : array of shape (n_rows,)
        Iterations or rounds, and seconds of solving; seconds are NaN if not recorded.
    objective, optimality : array of shape (n_rows,)
        Objective F, and value of the stopping criterion: a relative residual, gradient or gap.
    tol : float or None, default=None
        Tolerance of the stopping criterion.
    name : str, default=""
        Name in the legend.
    unit : str, default="iterations"
        Unit of ``iterations``: "iterations" or "rounds".

    Attributes
    ----------
    line_ : matplotlib Line2D
        Curve of the fit.
    tol_ : matplotlib Line2D or None
        Horizontal line at ``tol``.
    {ax_}

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRegressor
    >>> from mercer.plots import ConvergenceDisplay
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> model = KernelRegressor(solver="cg", random_state=0).fit(X, np.sin(X[:, 0]))
    >>> display = ConvergenceDisplay.from_estimator(model, x="iterations")
    >>> len(display.line_.get_xdata()) == len(model.trace_)
    True
    """

    def __init__(
        self,
        iterations: ArrayLike,
        seconds: ArrayLike,
        objective: ArrayLike,
        optimality: ArrayLike,
        *,
        tol: float | None = None,
        name: str = "",
        unit: str = "iterations",
    ):
        self.iterations, self.seconds = np.asarray(iterations), np.asarray(seconds)
        self.objective, self.optimality = np.asarray(objective), np.asarray(optimality)
        self.tol, self.name, self.unit = tol, name, unit

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        x: str | None = None,
        y: str | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> ConvergenceDisplay:
        """Draw the convergence that a fitted model recorded.

        Parameters
        ----------
        estimator : estimator
            Fitted model with ``trace_`` (kernel machines), ``rounds_`` (sparse models) or
            ``loss_curve_`` (doubly stochastic gradients), a pipeline that ends with one, or an
            automatic model.
        x : {"seconds", "iterations"} or None, default=None
            Quantity of the x axis; None takes the first that the model recorded.
        y : {"optimality", "objective"} or None, default=None
            Quantity of the y axis; None takes the first that the model recorded.
        {name, ax, line_options}

        Returns
        -------
        ConvergenceDisplay

        Raises
        ------
        TypeError
            If the estimator is not fitted or recorded no convergence.
        ValueError
            If ``x`` or ``y`` is another word, or not recorded by this model.
        """
        machine = machine_of(estimator)
        check_fitted_with(machine, ("trace_", "rounds_", "loss_curve_"), _KNOWN)
        name = type(machine).__name__ if name is None else name
        display = cls(*_curve(machine), name=name, **_settings(machine))
        return display.plot(x=x, y=y, ax=ax, **kwargs)

    def plot(
        self,
        *,
        x: str | None = None,
        y: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> ConvergenceDisplay:
        """Draw the figure from the stored data.

        Parameters
        ----------
        x : {"seconds", "iterations"} or None, default=None
            Quantity of the x axis; None takes the first that the model recorded.
        y : {"optimality", "objective"} or None, default=None
            Quantity of the y axis; the objective is drawn minus its least value. None takes the
            first that the model recorded.
        {ax, line_options}

        Returns
        -------
        ConvergenceDisplay
            This display.

        Raises
        ------
        ValueError
            If ``x`` or ``y`` is another word, or not recorded by this model.
        """
        across, up = self._known(x, _AXES, "x"), self._known(y, _QUANTITIES, "y")
        xs, ys = getattr(self, across), getattr(self, up)
        axes = self._begin(ax)
        if up == "objective":
            ys = ys - np.nanmin(ys)
        ys = np.where(ys > 0, ys, np.nan)  # which a logarithmic axis leaves out
        looks: dict[str, Any] = {"linewidth": 2, "label": label_of(self.name), "zorder": 3}
        looks |= {"marker": "o", "markersize": 3.5} if len(xs) <= _SMOOTH else {}
        (self.line_,) = axes.plot(xs, ys, **(looks | kwargs))
        self.tol_ = None
        if np.isfinite(ys).any():
            axes.set_yscale("log")
            if up == "optimality" and self.tol:
                style = {"color": self.line_.get_color(), "linestyle": ":", "linewidth": 1.4}
                label = f"tol = {self.tol:g}"
                if label in axes.get_legend_handles_labels()[1]:
                    label = "_"  # Matplotlib leaves names that begin with it out of the legend
                self.tol_ = axes.axhline(self.tol, label=label, **style)
        else:
            axes.annotate("solved in one step", (0.5, 0.5), xycoords="axes fraction", color=AIDS)
        axes.set_xlabel(_LABELS[self.unit if across == "iterations" else across])
        axes.set_ylabel(_LABELS[up])
        axes.legend(frameon=False, fontsize=8)
        dress(axes)
        return self

    def _known(self, given: str | None, choices: tuple[str, str], parameter: str) -> str:
        """The requested quantity, or the first of two that the model keeps."""
        known = [name for name in choices if np.isfinite(getattr(self, name)).any()]
        return known[0] if given is None else name_from(given, known, parameter)


def _curve(machine: Any) -> tuple[Any, Any, Any, Any]:
    """Iterations, seconds, objective and optimality."""
    if hasattr(machine, "trace_"):
        rows = machine.trace_
        table = np.array([(row.time, row.objective, row.optimality) for row in rows])
        return np.arange(len(rows)), table[:, 0], table[:, 1], table[:, 2]
    if hasattr(machine, "rounds_"):
        rounds = machine.rounds_
        numbers = np.arange(1, len(rounds["time"]) + 1)
        return numbers, rounds["time"], rounds["objective"], rounds["dual_gap"]
    losses = np.asarray(machine.loss_curve_)
    parts = np.array_split(losses, min(_SMOOTH, len(losses)))
    steps = np.cumsum([len(part) for part in parts])
    nothing = np.full(len(parts), np.nan)
    return steps, nothing, np.array([part.mean() for part in parts]), nothing


def _settings(machine: Any) -> dict[str, Any]:
    tests = hasattr(machine, "trace_")  # gaps of rounds are not relative, as tol is
    return {
        "tol": getattr(machine, "tol", None) if tests else None,
        "unit": "rounds" if hasattr(machine, "rounds_") else "iterations",
    }
