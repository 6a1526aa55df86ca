"""Gu, Miao, Huo and Huang, Asynchronous doubly stochastic sparse kernel learning, AAAI 2018."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mercer_studies.asydsskl.grid import FIGURES, METHODS, PROTOCOLS, SCALES, SOURCES
from mercer_studies.asydsskl.plan import stages
from mercer_studies.papers import Paper

__all__ = ["PAPER"]


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
    summarised=_summarised,
)
