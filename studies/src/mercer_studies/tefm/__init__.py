"""Chen, Yang, King and Lyu, Training-efficient feature map, IJCAI 2015: figures 1 to 3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mercer_studies.papers import Paper
from mercer_studies.tefm.grid import FIGURES, METHODS, PROTOCOLS, SCALES, SOURCES
from mercer_studies.tefm.plan import stages

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PAPER"]


def _draw(
    found: Sequence[Mapping[str, Any]], reference: Any, figures: Sequence[int]
) -> dict[str, Figure]:
    """Every figure asked for that the records have something for."""
    from mercer_studies.tefm import figures as plots

    records = [record for record in found if "failed" not in record]
    known = {
        "figure1": (1, lambda: plots.figure1(records)),
        "figure2": (2, lambda: plots.figure2(records)),
        "figure3": (3, lambda: plots.figure3(records)),
    }
    there = {number for record in records for number in record["figures"] if "score" in record}
    drawn = {
        name: draw()
        for name, (number, draw) in known.items()
        if number in there and number in (figures or FIGURES)
    }
    if 3 in (figures or FIGURES) and any(r["protocol"] == "timing" for r in records):
        drawn["table1"] = plots.table1(records)
    if 1 in (figures or FIGURES) and plots.bounded_runs(records):
        drawn["theorems"] = plots.theorems(records)
    return drawn


PAPER = Paper(
    name="tefm",
    title="Training-efficient feature map for shift-invariant kernels",
    scales=tuple(SCALES),
    protocols=PROTOCOLS,
    figures=FIGURES,
    datasets=tuple(SOURCES),
    methods={name: method.label for name, method in METHODS.items()},
    table=2,
    stages=stages,
    draw=_draw,
)
