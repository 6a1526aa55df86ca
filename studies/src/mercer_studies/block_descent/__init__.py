"""Tu, Roelofs, Venkataraman and Recht, Large scale kernel learning by block descent, 2016."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mercer_studies.block_descent.grid import FIGURES, METHODS, SCALES, SOURCES, TABLES
from mercer_studies.block_descent.plan import stages
from mercer_studies.block_descent.scaling import SHAPES
from mercer_studies.papers import Paper

__all__ = ["PAPER"]


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
    tables=TABLES,
    summarised=_summarised,
)
