"""Sentences on the numbers of the AsyDSSKL study, computed from records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from mercer_studies.asydsskl.claims import leaders
from mercer_studies.asydsskl.figures import curves, speedups
from mercer_studies.asydsskl.grid import METHODS
from mercer_studies.asydsskl.robustness import LOSSES
from mercer_studies.queries import Record, by_data, error, listing, of_task, training_rows

_PAPER, _OWN, _DESCENT = "asydsskl", "asydsskl-own", "working-set"
_RIVALS = ("svc", "libsvm-p", "asygcd", "doubly")
_NAMES = {**METHODS, _OWN: "AsyDSSKL with our steps", "svc": "SVC or SVR"}


def shows(records: Sequence[Record]) -> list[str]:
    """A sentence for each comparison that the records have runs for."""
    parts = (_extent, _objectives, _steps, _rivals, _squared, _threads, _wrong)
    return [sentence for part in parts for sentence in part(records)]


def _last(run: Record, name: str = "error") -> float:
    return float(run["course"][name][-1])


def _pairs(records: Sequence[Record], one: str, other: str) -> Iterator[tuple[str, Record, Record]]:
    """Name of a data set, and the first run of each of two methods on it."""
    for name, runs in by_data(curves(records)).items():
        found = [next((run for run in runs if run["method"] == m), None) for m in (one, other)]
        if found[0] and found[1]:
            yield name, found[0], found[1]


def _extent(records: Sequence[Record]) -> Iterator[str]:
    """Rows and time limits of the curves, and how many of them end before."""
    said = []
    for name, runs in by_data([run for run in curves(records) if "cap" in run]).items():
        rows, whole = runs[0]["rows"], training_rows(runs)
        part = f"all {whole:,}" if rows == whole else f"{rows:,} of {whole:,}"
        ended = sum(not run["capped"] for run in runs)
        said.append(
            f"{ended} of {len(runs)} within {runs[0]['cap']:g} s on {name} ({part} training rows)"
        )
    if said:
        yield f"Methods that end before their limit of time: {', '.join(said)}."


def _objectives(records: Sequence[Record]) -> Iterator[str]:
    """Objectives of coordinate descent against those of both forms of the steps."""
    for method in (_PAPER, _OWN):
        pairs = [
            (name, _last(theirs, "objective") < _last(ours, "objective"))
            for name, ours, theirs in _pairs(records, method, _DESCENT)
            if ours["model_size"] or theirs["model_size"]
        ]
        if pairs:
            lower = [name for name, is_lower in pairs if is_lower]
            yield (
                f"Coordinate descent ends at a lower objective than {_NAMES[method]} on "
                f"{len(lower)} of {len(pairs)} data sets whose λ leaves features{listing(lower)}."
            )


def _steps(records: Sequence[Record]) -> Iterator[str]:
    """Test errors of the paper's form of the steps against ours."""
    pairs = [
        (name, _last(own) - _last(paper)) for name, paper, own in _pairs(records, _PAPER, _OWN)
    ]
    if pairs:
        smaller = [name for name, difference in pairs if difference < 0]
        larger = [name for name, difference in pairs if difference > 0]
        yield (
            f"{_NAMES[_OWN]} ends at a smaller test error than the paper's form on {len(smaller)} "
            f"of {len(pairs)} data sets{listing(smaller)} and at a larger one on {len(larger)}"
            f"{listing(larger)}."
        )


def _rivals(records: Sequence[Record]) -> Iterator[str]:
    """Methods that lead for the most budgets and at the end, and sizes of their models."""
    for name, runs in by_data(curves(records)).items():
        budgets, first = leaders(runs, _RIVALS)
        ends = {run["method"]: _last(run) for run in reversed(runs) if run["method"] in _RIVALS}
        if not budgets or not ends:
            continue
        most = max(set(first), key=lambda method: (first.count(method), method))
        best = min(ends, key=lambda method: ends[method])
        yield (
            f"On {name}, {_NAMES[most]} leads at {first.count(most)} of {len(first)} times, and "
            f"of the rivals {_NAMES[best]} ends at the least error."
        )


def _squared(records: Sequence[Record]) -> Iterator[str]:
    """Squared loss against correntropy, on the same features and by the same solver."""
    pairs = list(_pairs(records, _DESCENT, "squared"))
    if pairs:
        smaller = [name for name, bounded, squared in pairs if _last(squared) < _last(bounded)]
        yield (
            "Of class numbers, squared loss has a smaller mean squared error than correntropy on "
            f"{len(smaller)} of {len(pairs)} data sets{listing(smaller)}."
        )


def _threads(records: Sequence[Record]) -> Iterator[str]:
    for run in of_task(records, "measured"):
        times = speedups(run, "pace")
        most = max(times, default=1)
        if most > 1 and not run.get("remark"):
            yield (
                f"{most} threads make {times[most]:.2f} times as many loops of "
                f"{_NAMES[run['method']]} in a second as one thread on {run['data']['name']}."
            )


def _wrong(records: Sequence[Record]) -> Iterator[str]:
    """Growth of the test error with the share of wrong targets, for every loss."""
    for name, runs in by_data(of_task(records, "robust")).items():
        most = max(run["share"] for run in runs)
        growth = {label: _growth(runs, method, most) for method, (label, _) in LOSSES.items()}
        said = ", ".join(f"{times:.3g} ({loss})" for loss, times in growth.items() if times)
        if most and said:
            yield (
                f"With {100 * most:.0f} % of the targets wrong, the test error on {name} is as "
                f"many times the error with right targets: {said}."
            )


def _growth(runs: Sequence[Record], method: str, most: float) -> float:
    """Mean error at the largest share of wrong targets over that at none; 0 if one is missing."""
    errors = [
        [error(run) for run in runs if run["method"] == method and run["share"] == share]
        for share in (0.0, most)
    ]
    return float(np.mean(errors[1]) / np.mean(errors[0])) if all(errors) else 0.0
