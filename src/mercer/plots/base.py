"""Canvas, looks of methods and files of figures."""

from __future__ import annotations

import inspect
import os
from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from sklearn.pipeline import Pipeline

from mercer._runtime.documentation import documented, entries
from mercer.persistence import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "AIDS",
    "BLUE",
    "ORANGE",
    "OTHERS",
    "STYLE",
    "Display",
    "amount",
    "check_fitted_with",
    "dress",
    "feature_names",
    "label_of",
    "machine_of",
    "new_figure",
    "save_figure",
    "thousands",
]

# Okabe and Ito's colours, told apart with every common colour vision, and a mark for each besides.
# Relatives have shades of one colour: blue for frequencies, ochre for embeddings, green for
# landmarks, grey for signs.
STYLE = {
    "binning": ("#D55E00", "o"),
    "fourier": ("#0072B2", "s"),
    "fourier-orthogonal": ("#56B4E9", "D"),
    "fourier-qmc": ("#003F63", "v"),
    "fastfood": ("#7FA8C9", "^"),
    "tefm-g": ("#E69F00", "P"),
    "tefm-s": ("#A67200", "X"),
    "nystroem": ("#009E73", "^"),
    "nystroem-kmeans": ("#7BCBB4", "<"),
    "nystroem-leverage": ("#00543D", ">"),
    "nystroem-rpcholesky": ("#4D9221", "h"),
    "perceptron": ("#999999", "X"),
    "exact": ("#000000", "*"),
    "linear": ("#CC79A7", "D"),
    "blocks": ("#7A5C00", "v"),
    "auto": ("#9B1D64", "p"),
    "lightgbm": ("#6A3D9A", "H"),
    "xgboost": ("#B58900", "8"),
    "catboost": ("#5C3A21", "<"),
}
AIDS = "#666666"
"""Colour of what only helps to read a figure."""

BLUE, ORANGE = "#0072B2", "#D55E00"
_CYCLE = (BLUE, ORANGE, "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
_LETTERS = 28  # of a name in a figure
_MISSING = "figures need matplotlib; pip install 'mercer[cli]' brings it."

# Entries of the docstrings of displays.
_SHARED = entries(
    """
    ax : matplotlib Axes or None, default=None
        Axes to draw on; None creates a new figure.
    name : str or None, default=None
        Name in the legend; None takes the class name of the estimator.
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the last drawing.
    """
)
_SHARED |= {
    f"{artists}_options": f"**kwargs\n    Options of {words}, passed to matplotlib."
    for artists, words in (
        *((name, f"the {name}") for name in ("line", "lines", "bars", "image")),
        ("marks", "all marks"),
    )
}

# Looks of methods that STYLE does not name: no two alike, and none of STYLE.
OTHERS = tuple(look for look in product(_CYCLE, "ph8d") if look not in STYLE.values())


def new_figure(width: float = 7.2, height: float = 4.8) -> Figure:
    """An empty figure, with a width and height in inches."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ImportError(_MISSING) from error
    # A figure of its own: no pyplot, hence no global state and no display.
    return Figure(figsize=(width, height), layout="constrained")


@documented(_SHARED)
class Display:
    """Data of a figure and the artists that draw it, as the displays of scikit-learn.

    ``plot`` may be called again, on other axes or in another look: nothing is computed anew.
    Lines such as ``{ax}`` in the docstrings of a subclass become shared entries.

    Attributes
    ----------
    {ax_}
    """

    ax_: Any
    figure_: Any

    def __init_subclass__(cls) -> None:
        fill = documented(_SHARED)
        fill(cls)
        for member in vars(cls).values():
            function = getattr(member, "__func__", member)  # of a class method
            if inspect.isfunction(function):
                fill(function)

    def _begin(self, ax: Axes | None, height: float | None = None) -> Any:
        """The axes to draw on, those of a new figure of pyplot if there are none."""
        if ax is None:
            try:
                from matplotlib import pyplot
            except ModuleNotFoundError as error:
                raise ImportError(_MISSING) from error
            size = None if height is None else (6.4, height)
            _, ax = pyplot.subplots(figsize=size, layout="constrained")
        if not ax.has_data():
            ax.set_prop_cycle(color=_CYCLE)
        self.ax_, self.figure_ = ax, ax.figure
        return ax


def check_fitted_with(estimator: Any, attributes: Sequence[str], kinds: str) -> None:
    """Refuse an estimator that has none of some fitted attributes, in a sentence."""
    if not any(hasattr(estimator, name) for name in attributes):
        raise TypeError(f"estimator must be a fitted {kinds}; got {type(estimator).__name__}.")


def machine_of(estimator: Any) -> Any:
    """The kernel machine at the end of a pipeline, inside a search or an automatic model."""
    if hasattr(estimator, "kernel_machine_"):
        return estimator.kernel_machine_
    if isinstance(estimator, Pipeline):
        return machine_of(estimator[-1])
    return (
        machine_of(estimator.best_estimator_)
        if hasattr(estimator, "best_estimator_")
        else estimator
    )


def feature_names(estimator: Any, n: int) -> list[str]:
    """Names of the n inputs as the estimator met them, or x0, x1 and so on."""
    names = getattr(estimator, "feature_names_in_", None)
    return [f"x{j}" for j in range(n)] if names is None else [str(name) for name in names]


def label_of(name: Any, letters: int = _LETTERS) -> str:
    """A name as a figure shows it: on one line, the middle left out of a long one."""
    text = "".join(c if c.isprintable() else " " for c in str(name))
    if len(text) <= letters:
        return text
    end = letters // 3
    return f"{text[: letters - end - 1]}…{text[-end:]}"


def dress(axes: Axes, small: bool = True) -> None:
    """Light lines behind the data, no frame on the right and above, and small ticks if wanted."""
    axes.grid(True, which="major", color="#e3e3e3", linewidth=0.7, zorder=0)
    axes.spines[["top", "right"]].set_visible(False)
    if small:
        axes.tick_params(labelsize=8)
        axes.xaxis.label.set_fontsize(9)
        axes.yaxis.label.set_fontsize(9)


def amount(value: float, digits: int = 3) -> str:
    """A number of some digits, from 1000 to 10^12 with spaces and no exponent: "117 000"."""
    if not 1000 <= abs(value) < 1e12:
        return f"{value:.{digits}g}"
    whole = int(float(f"{value:.{digits - 1}e}"))
    return f"{'-' * (whole < 0)}{thousands(abs(whole))}"


def thousands(number: int) -> str:
    """A number with thin spaces between its thousands."""
    return f"{number:,}".replace(",", "\N{THIN SPACE}")


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure as PNG, whole or not at all.

    Raises
    ------
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_figure(new_figure(), f"{folder}/empty.png")
    """
    write_atomically(path, lambda file: figure.savefig(file, format="png", dpi=160))
