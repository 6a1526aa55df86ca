"""Yen, Lin, Lin, Ravikumar and Dhillon, Sparse random features, NIPS 2014: tables and figure 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mercer_studies.papers import Paper
from mercer_studies.sparse_features.grid import FIGURE, METHODS, SCALES, SOURCES, TABLES, table_of
from mercer_studies.sparse_features.plan import stages
from mercer_studies.sparse_features.reference import published

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PAPER"]


def _draw(
    found: Sequence[Mapping[str, Any]], reference: Any, figures: Sequence[int]
) -> dict[str, Figure]:
    """The figure, and the tables as figures, as far as there are records for them."""
    from mercer_studies.queries import select
    from mercer_studies.sparse_features import figures as plots

    drawn = {}
    if select(found, figure=FIGURE) and (not figures or FIGURE in figures):
        drawn["figure1"] = plots.figure1(found)
    if not figures:
        for number in TABLES:
            if select(found, figure=table_of(number)):
                drawn[f"table{number}"] = plots.table(found, number, reference)
    return drawn


def _summarised(found: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The runs that stand in the tables."""
    from mercer_studies.sparse_features.figures import shown

    return [run for number in TABLES for run in shown(found, number)]


PAPER = Paper(
    name="sparse-features",
    title="Sparse random features algorithm as coordinate descent in Hilbert space",
    scales=tuple(SCALES),
    protocols=("published",),
    figures=(FIGURE,),
    datasets=tuple(SOURCES),
    methods=METHODS,
    table=None,
    stages=stages,
    draw=_draw,
    published=published,
    tables=TABLES,
    summarised=_summarised,
)
