"""Sizes of bins, and the speed-up of parallel updates that they allow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.plots.base import AIDS, STYLE, dress, new_figure, thousands

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mercer.diagnostics import Collisions

__all__ = ["collisions_figure"]

_INK = STYLE["binning"][0]


def collisions_figure(collisions: Collisions) -> Figure:
    """Bin sizes on the left, the speed-up that parallel updates are sure of on the right.

    Parameters
    ----------
    collisions : Collisions
        From :func:`mercer.diagnostics.collisions`; the share of unseen bins is in the title if
        known.

    Raises
    ------
    TypeError
        If ``collisions`` is something else, a model for example.
    ImportError
        If matplotlib is missing.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import diagnostics
    >>> from mercer.maps import RandomBinning
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> map_ = RandomBinning(n_components=16, random_state=0).fit(X)
    >>> figure = collisions_figure(diagnostics.collisions(map_))
    >>> [axes.get_xlabel() for axes in figure.axes]
    ['rows in a bin', 'simultaneous updates τ']
    """
    from mercer.diagnostics import Collisions

    if not isinstance(collisions, Collisions):
        raise TypeError(
            "collisions must be what mercer.diagnostics.collisions returns; got "
            f"{type(collisions).__name__}."
        )
    figure = new_figure(10.4, 4.4)
    sizes, speedups = figure.subplots(1, 2)
    _bin_sizes(sizes, collisions)
    _speedups(speedups, collisions)
    for axes in (sizes, speedups):
        dress(axes, small=False)
    figure.suptitle(_title(collisions), fontsize=11, x=0.01, ha="left")
    return figure


def _title(collisions: Collisions) -> str:
    rows, bins = map(thousands, (collisions.n_rows, collisions.n_columns))
    title = f"{rows} rows in {bins} bins of {collisions.n_grids} grids"
    if collisions.unseen is None:
        return title
    return f"{title}; {100 * collisions.unseen:.2g}% of the bins of new rows not met in the fit"


def _bin_sizes(axes: Any, collisions: Collisions) -> None:
    """The number of bins that hold at least so many rows."""
    sizes, n_bins = collisions.occupancy.counts, collisions.occupancy.n_bins
    at_least = np.cumsum(n_bins[::-1])[::-1]
    # Down to the axis, which ends a little below one bin.
    xs, ys = np.append(sizes, sizes[-1]), np.append(at_least, 0.7)
    axes.step(xs, ys, where="pre", color=_INK, linewidth=2, zorder=3)
    axes.set(xscale="log", xlim=(0.8, collisions.n_rows * 1.25), xlabel="rows in a bin")
    axes.set(yscale="log", ylabel="bins with at least as many rows")
    axes.set_ylim(bottom=0.7)
    fullest = collisions.n_rows / collisions.kappa_hat
    axes.axvline(fullest, color=AIDS, linestyle=":", linewidth=1.4)
    place = {"xycoords": axes.get_xaxis_transform(), "ha": "right", "va": "top"}
    text = f"fullest bins: n / κ̂, κ̂ = {collisions.kappa_hat:.4g} "
    axes.annotate(text, (fullest, 0.97), fontsize=9, color=AIDS, **place)


def _speedups(axes: Any, collisions: Collisions) -> None:
    """S(τ) up to the point where it has all but reached its cap."""
    cap = collisions.kappa_bar
    most = min(collisions.n_columns, 2 ** int(np.ceil(np.log2(30 * cap + 2))))
    threads = np.geomspace(1, max(most, 2), 200)
    style = {"color": AIDS, "linewidth": 1.4}
    axes.plot(threads, threads, linestyle="--", label="ideal: τ", **style)
    axes.axhline(cap, linestyle=":", label=f"cap: κ̄ = {cap:.4g}", **style)
    axes.plot(
        threads, collisions.speedup(threads), color=_INK, linewidth=2, label="sure: S(τ)", zorder=3
    )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set(xlim=(1, threads[-1]), ylim=(0.9, max(2.5, cap * 1.8)))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set(xlabel="simultaneous updates τ", ylabel="fewer rounds by a factor of")
    axes.legend(frameon=False, fontsize=9, loc="lower right")
