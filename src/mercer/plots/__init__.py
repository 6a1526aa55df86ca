"""Figures, drawn from records or diagnostics alone."""

from mercer.plots.base import save_figure
from mercer.plots.choice import choice_figure
from mercer.plots.collisions import collisions_figure
from mercer.plots.compare import compare_figure

__all__ = ["choice_figure", "collisions_figure", "compare_figure", "save_figure"]
