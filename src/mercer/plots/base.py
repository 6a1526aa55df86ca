"""Canvas, looks of methods and files of figures."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mercer.persistence import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["AIDS", "OTHERS", "STYLE", "dress", "new_figure", "save_figure", "thousands"]

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
    "compact": ("#F2C75C", "d"),
    "nystroem": ("#009E73", "^"),
    "nystroem-kmeans": ("#7BCBB4", "<"),
    "nystroem-leverage": ("#00543D", ">"),
    "nystroem-rpcholesky": ("#4D9221", "h"),
    "perceptron": ("#999999", "X"),
    "stump": ("#BBBBBB", "p"),
    "tree": ("#555555", "h"),
    "exact": ("#000000", "*"),
    "linear": ("#CC79A7", "D"),
    "blocks": ("#7A5C00", "v"),
}
AIDS = "#666666"
"""Colour of what only helps to read a figure."""

OTHERS = (("#56B4E9", "p"), ("#E69F00", "h"), ("#999999", "X"))


def new_figure(width: float = 7.2, height: float = 4.8) -> Figure:
    """An empty figure, with a width and height in inches."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ImportError(
            "figures need matplotlib; pip install 'mercer[cli]' brings it."
        ) from error
    # A figure of its own: no pyplot, hence no global state and no display.
    return Figure(figsize=(width, height), layout="constrained")


def dress(axes: Axes, small: bool = True) -> None:
    """Light lines behind the data, no frame on the right and above, and small ticks if wanted."""
    axes.grid(True, which="major", color="#e3e3e3", linewidth=0.7, zorder=0)
    axes.spines[["top", "right"]].set_visible(False)
    if small:
        axes.tick_params(labelsize=8)
        axes.xaxis.label.set_fontsize(9)
        axes.yaxis.label.set_fontsize(9)


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
