"""Tu, Roelofs, Venkataraman and Recht, Large scale kernel learning by block descent, 2016."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mercer_studies.block_descent.grid import FIGURES, METHODS, SCALES, SOURCES, TABLES
from mercer_studies.block_descent.plan import stages
from mercer_studies.block_descent.scaling import SHAPES
from mercer_studies.papers import Paper

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PAPER"]


def _draw(
    found: Sequence[Mapping[str, Any]], reference: Any, figures: Sequence[int]
) -> dict[str, Figure]:
    """Every figure asked for that the records have something for."""
    from mercer_studies.block_descent import figures as plots
    from mercer_studies.block_descent.scaling_figures import figure5

    known = {
        "figure1": (1, plots.of_task(found, "curve"), plots.figure1),
        "figure2": (2, plots.of_task(found, "sizes"), plots.figure2),
        "figure3": (3, plots.of_task(found, "curve"), plots.figure3),
        "figure4": (4, plots.long_runs(found), plots.figure4),
        "figure5": (5, plots.of_task(found, "scaling"), figure5),
    }
    return {
        name: draw(found)
        for name, (number, records, draw) in known.items()
        if records and (not figures or number in figures)
    }


def _summarised(found: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The ends of the curves."""
    from mercer_studies.queries import of_task

    return of_task(found, "curve")


PAPER = Paper(
    name="block-descent",
    title="Large scale kernel learning using block coordinate descent",
    scales=tuple(SCALES),
    protocols=("fair",),
    figures=FIGURES,
    datasets=(*SOURCES, *SHAPES),
    methods=METHODS,
    table=1,
    stages=stages,
    draw=_draw,
    tables=TABLES,
    summarised=_summarised,
)
