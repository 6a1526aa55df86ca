"""Yen, Lin, Lin, Ravikumar and Dhillon, Sparse random features, NIPS 2014: tables and figure 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mercer_studies.papers import Paper
from mercer_studies.sparse_features.grid import FIGURE, METHODS, SCALES, SOURCES, TABLES
from mercer_studies.sparse_features.plan import stages

__all__ = ["PAPER"]


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
    tables=TABLES,
    summarised=_summarised,
)
