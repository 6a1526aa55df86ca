"""Sizes of bins, and the speed-up of parallel updates that they allow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._runtime.validation import name_from
from mercer.plots.base import AIDS, ORANGE, Display, dress, new_figure, thousands
from mercer_studies.random_binning.collisions import Collisions, collisions

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["CollisionsDisplay", "collisions_figure"]


class CollisionsDisplay(Display):
    """Sizes of the bins of a random binning model, or the parallel speed-up that they allow.

    Create it with :meth:`from_estimator`.

    Parameters
    ----------
    collisions : Collisions
        Counts of rows per bin, from ``random_binning.collisions``.

    Attributes
    ----------
    line_ : matplotlib Line2D
        Curve of the sizes or speed-ups.
    {ax_}

    Raises
    ------
    TypeError
        If ``collisions`` is something else, a model for example.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRegressor
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> model = KernelRegressor("binning", n_components=16, random_state=0).fit(X, X[:, 0])
    >>> CollisionsDisplay.from_estimator(model).ax_.get_xlabel()
    'rows in a bin'
    """

    def __init__(self, collisions: Collisions):
        if not isinstance(collisions, Collisions):
            raise TypeError(
                "collisions must be what mercer_studies.random_binning.collisions returns; got "
                f"{type(collisions).__name__}."
            )
        self.collisions = collisions

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any = None, *, kind: str = "sizes", ax: Axes | None = None
    ) -> CollisionsDisplay:
        """Draw the bins of a fitted model or map.

        Parameters
        ----------
        estimator : estimator or RandomBinning
            Fitted model or map with random binning.
        X : array, frame or CSR of shape (n_samples, n_features) or None, default=None
            New rows, to count the share of their bins that contain no training row.
        kind : {"sizes", "speedups"}, default="sizes"
            Sizes of the bins, or speed-ups of parallel updates.
        {ax}

        Returns
        -------
        CollisionsDisplay

        Raises
        ------
        TypeError, ValueError
            If the estimator has no bins or ``kind`` is none of the above.
        """
        return cls(collisions(estimator, X)).plot(kind=kind, ax=ax)

    def plot(self, *, kind: str = "sizes", ax: Axes | None = None) -> CollisionsDisplay:
        """Draw the figure from the stored data.

        Parameters
        ----------
        kind : {"sizes", "speedups"}, default="sizes"
            "sizes": number of bins with at least a given number of rows. "speedups": least factor
            by which simultaneous updates reduce the number of rounds.
        {ax}

        Returns
        -------
        CollisionsDisplay
            This display.
        """
        name_from(kind, ("sizes", "speedups"), "kind")
        axes = self._begin(ax)
        draw = _bin_sizes if kind == "sizes" else _speedups
        self.line_ = draw(axes, self.collisions)
        dress(axes, small=False)
        return self


def collisions_figure(collisions: Collisions) -> Figure:
    """Bin sizes on the left, the least speed-up of parallel updates on the right.

    Parameters
    ----------
    collisions : Collisions
        Counts of rows per bin, from ``random_binning.collisions``. The title has the share
        of unseen bins, if it was counted.

    Raises
    ------
    TypeError
        If ``collisions`` is something else, a model for example.
    ImportError
        If matplotlib is missing.

    See Also
    --------
    CollisionsDisplay : one of the two figures on given axes.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.maps import RandomBinning
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> map_ = RandomBinning(n_components=16, random_state=0).fit(X)
    >>> figure = collisions_figure(collisions(map_))
    >>> [axes.get_xlabel() for axes in figure.axes]
    ['rows in a bin', 'simultaneous updates τ']
    """
    display = CollisionsDisplay(collisions)
    figure = new_figure(10.4, 4.4)
    for kind, axes in zip(("sizes", "speedups"), figure.subplots(1, 2), strict=True):
        display.plot(kind=kind, ax=axes)
    figure.suptitle(_title(collisions), fontsize=11, x=0.01, ha="left")
    return figure


def _title(collisions: Collisions) -> str:
    rows, bins = map(thousands, (collisions.n_rows, collisions.n_columns))
    title = f"{rows} rows in {bins} bins of {collisions.n_grids} grids"
    if collisions.unseen is None:
        return title
    return f"{title}; {100 * collisions.unseen:.2g}% of the bins of new rows not met in the fit"


def _bin_sizes(axes: Any, collisions: Collisions) -> Any:
    """The number of bins that hold at least so many rows; the line."""
    sizes, n_bins = collisions.occupancy.counts, collisions.occupancy.n_bins
    at_least = np.cumsum(n_bins[::-1])[::-1]
    # Down to the axis, which ends a little below one bin.
    xs, ys = np.append(sizes, sizes[-1]), np.append(at_least, 0.7)
    (line,) = axes.step(xs, ys, where="pre", color=ORANGE, linewidth=2, zorder=3)
    axes.set(xscale="log", xlim=(0.8, collisions.n_rows * 1.25), xlabel="rows in a bin")
    axes.set(yscale="log", ylabel="bins with at least as many rows")
    axes.set_ylim(bottom=0.7)
    fullest = collisions.n_rows / collisions.kappa_hat
    axes.axvline(fullest, color=AIDS, linestyle=":", linewidth=1.4)
    place = {"xycoords": axes.get_xaxis_transform(), "ha": "right", "va": "top"}
    text = f"fullest bins: n / κ̂, κ̂ = {collisions.kappa_hat:.4g} "
    axes.annotate(text, (fullest, 0.97), fontsize=9, color=AIDS, **place)
    return line


def _speedups(axes: Any, collisions: Collisions) -> Any:
    """S(τ) up to the point where it has all but reached its cap; the line."""
    cap = collisions.kappa_bar
    most = min(collisions.n_columns, 2 ** int(np.ceil(np.log2(30 * cap + 2))))
    threads = np.geomspace(1, max(most, 2), 200)
    style = {"color": AIDS, "linewidth": 1.4}
    axes.plot(threads, threads, linestyle="--", label="ideal: τ", **style)
    axes.axhline(cap, linestyle=":", label=f"cap: κ̄ = {cap:.4g}", **style)
    sure: dict[str, Any] = {"color": ORANGE, "linewidth": 2, "label": "sure: S(τ)", "zorder": 3}
    (line,) = axes.plot(threads, collisions.speedup(threads), **sure)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set(xlim=(1, threads[-1]), ylim=(0.9, max(2.5, cap * 1.8)))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set(xlabel="simultaneous updates τ", ylabel="fewer rounds by a factor of")
    axes.legend(frameon=False, fontsize=9, loc="lower right")
    return line
