"""Wu, Yen, Chen and Yan, Revisiting random binning features, KDD 2016: figures 2 to 6."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mercer_studies.papers import Paper
from mercer_studies.random_binning.grid import FIGURES, PROTOCOLS, SCALES, SOURCES
from mercer_studies.random_binning.parallel import PROTOCOL as PARALLEL
from mercer_studies.random_binning.plan import stages
from mercer_studies.random_binning.theorem import PROTOCOL as THEOREM

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PAPER"]


def _draw(
    found: Sequence[Mapping[str, Any]], reference: Any, figures: Sequence[int]
) -> dict[str, Figure]:
    """Every figure asked for that the records have something for."""
    from mercer_studies.random_binning import figures as plots
    from mercer_studies.random_binning import speedup_figures as parallel

    records = [record for record in found if "failed" not in record]
    known = {
        "figure2": ("example", 2, lambda: plots.figure2(records)),
        "figure3": ("published", 3, lambda: plots.figure3(records, reference)),
        "figure4": ("published", 4, lambda: plots.figure4(records, reference)),
        "theorem1": (THEOREM, 4, lambda: plots.theorem1(records)),
        "figure5": ("published", 5, lambda: plots.figure5(records, reference)),
        "figure5-fair": ("fair", 5, lambda: plots.figure5(records, protocol="fair")),
        "figure6": (PARALLEL, 6, lambda: parallel.figure6(records)),
    }
    there = {(record["protocol"], number) for record in records for number in record["figures"]}
    return {
        name: draw()
        for name, (protocol, number, draw) in known.items()
        if (protocol, number) in there and number in (figures or FIGURES)
    }


def _read_reference(path: Any) -> Any:
    from mercer_studies.random_binning import reference

    return reference.read_reference(path)


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
    draw=_draw,
    read_reference=_read_reference,
)
