"""Figures, drawn from records alone."""

from mercer.plots.base import save_figure
from mercer.plots.compare import compare_figure

__all__ = ["compare_figure", "save_figure"]
