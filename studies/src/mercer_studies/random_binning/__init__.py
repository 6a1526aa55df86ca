"""Wu, Yen, Chen and Yan, Revisiting random binning features, KDD 2016: figures 2 to 6."""

from __future__ import annotations

from mercer_studies.papers import Paper
from mercer_studies.random_binning.grid import FIGURES, PROTOCOLS, SCALES, SOURCES
from mercer_studies.random_binning.plan import stages

__all__ = ["PAPER"]


PAPER = Paper(
    name="random-binning",
    title="Revisiting random binning features: fast convergence and strong parallelizability",
    scales=tuple(SCALES),
    protocols=PROTOCOLS,
    figures=FIGURES,
    datasets=tuple(SOURCES),
    methods={
        "binning": "binning",
        "fourier": "Fourier",
        "nystroem": "Nyström",
        "blocks": "blocks",
        "exact": "exact",
    },
    table=5,
    stages=stages,
)
