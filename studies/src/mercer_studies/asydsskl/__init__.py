"""Gu, Miao, Huo and Huang, Asynchronous doubly stochastic sparse kernel learning, AAAI 2018."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mercer_studies.asydsskl.grid import FIGURES, METHODS, PROTOCOLS, ROBUST, SCALES, SOURCES
from mercer_studies.asydsskl.plan import stages
from mercer_studies.papers import Paper

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PAPER"]


def _draw(
    found: Sequence[Mapping[str, Any]], reference: Any, figures: Sequence[int]
) -> dict[str, Figure]:
    """Every figure asked for that the records have something for."""
    from mercer_studies.asydsskl import figures as plots

    known = {
        "figure1": (1, plots.curves(found), plots.figure1),
        "figure1-answers": (1, plots.of_task(found, "answers"), plots.answers),
        "figure2": (2, plots.of_task(found, "measured", "delayed"), plots.figure2),
        ROBUST: (ROBUST, plots.of_task(found, "robust"), plots.robustness),
    }
    return {
        name: draw(found)
        for name, (number, records, draw) in known.items()
        if records and (not figures or number in figures)
    }


def _summarised(found: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The ends of the curves."""
    from mercer_studies.asydsskl.figures import curves

    return curves(found)


PAPER = Paper(
    name="asydsskl",
    title="Asynchronous doubly stochastic sparse kernel learning",
    scales=tuple(SCALES),
    protocols=PROTOCOLS,
    figures=FIGURES,
    datasets=tuple(SOURCES),
    methods=METHODS,
    table=1,
    stages=stages,
    draw=_draw,
    summarised=_summarised,
)
