"""Which map is best at equal features and at equal seconds, and how times grow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer_studies.page import Table, table
from mercer_studies.queries import Record, by_data, error, over_seeds, select
from mercer_studies.tefm.claims import EXPONENTS, exponents
from mercer_studies.tefm.grid import METHODS

_BUDGETS = tuple(base * 10.0**power for power in range(-3, 4) for base in (1, 3))
_BASES = "tefm-square"  # its base is too large to be set against the others


@dataclass(frozen=True)
class Point:
    """Error and seconds of a method at a size: means over the seeds."""

    method: str
    size: int
    error: float
    seconds: float


def points(runs: Sequence[Record], value: Callable[[Record], float]) -> list[Point]:
    """Every method at every size, on one data set.

    ``runs``: of one data set and figure; the exact kernel, which has no size, is left out;
    ``value``: the error of a run.
    """
    found = []
    for method in METHODS:
        own = [run for run in runs if run["method"] == method and run["size"] is not None]
        errors = over_seeds(own, value)
        seconds = over_seeds(own, lambda run: run["seconds"]["fit"])
        if method != _BASES:
            found += [
                Point(method, int(size or 0), errors[size][0], seconds[size][0]) for size in errors
            ]
    return found


def at_equal_features(found: Iterable[Point]) -> dict[int, list[Point]]:
    """For every size that three methods or more have, the methods from the best on."""
    sizes: dict[int, list[Point]] = {}
    for point in found:
        sizes.setdefault(point.size, []).append(point)
    return {
        size: sorted(sizes[size], key=_merit) for size in sorted(sizes) if len(sizes[size]) >= 3
    }


def at_equal_seconds(found: Sequence[Point]) -> dict[float, list[Point]]:
    """For some budgets of seconds the best that each method reaches within them, best first."""
    spans: dict[float, list[Point]] = {}
    before: list[Point] = []
    for budget in _BUDGETS:
        within = [point for point in found if point.seconds <= budget]
        if within == before:  # more time buys nothing more
            continue
        before = within
        best: dict[str, Point] = {}
        for point in sorted(within, key=_merit):
            best.setdefault(point.method, point)
        if len(best) >= 2:
            spans[budget] = list(best.values())
    return spans


def tables(records: Sequence[Record]) -> list[Table]:
    """The tables of the page."""
    kinds = (
        (
            "Error of the kernel matrix, spectral norm",
            1,
            lambda run: run["score"]["kernel"]["spectral"],
        ),
        ("Error of ridge regression on the test part", 2, error),
    )
    found = []
    for what, figure, value in kinds:
        features, seconds = [], []
        for name, runs in by_data(select(records, figure=figure, protocol="fair")).items():
            known = points(runs, value)
            features += _rows(name, at_equal_features(known), "{}")
            seconds += _rows(name, at_equal_seconds(known), "{:g} s")
        head = ["data", "at", "best", "error", "second", "error", "third", "error", "RKS"]
        numbers = (3, 5, 7, 8)
        for said, rows in (("features", features), ("seconds", seconds)):
            found.append(table(f"{what}: who leads at equal {said}", head, rows, numbers))
    found.append(_exponents(records))
    return found


def _merit(point: Point) -> tuple[float, int, float]:
    """Small errors first; among equals few features, then little time."""
    return point.error, point.size, point.seconds


def _rows(name: str, ranked: Mapping[Any, Sequence[Point]], at: str) -> list[list[str]]:
    rows = []
    for place, shown in ranked.items():
        row = [name, at.format(place)]
        for point in (*shown[:3], *(None,) * (3 - len(shown))):
            if point is None:
                row += ["–", "–"]
            else:
                row += [f"{METHODS[point.method].label} {point.size}", _percent(point.error)]
        rks = [point for point in shown if point.method == "rks"]
        rows.append([*row, _percent(rks[0].error) if rks else "–"])
    return rows


def _exponents(records: Sequence[Record]) -> Table:
    rows = [
        [
            METHODS[method].label,
            {"features": "features", "solve": "solution"}[phase],
            varied,
            f"{power:.2f}",
            f"{fit:.2f}",
            f"{EXPONENTS[key]:g}" if (key := (method, phase, varied)) in EXPONENTS else "–",
        ]
        for (method, phase, varied), (power, fit) in exponents(records).items()
    ]
    caption = "Table 1: how seconds grow with rows n, features d of the base and features l"
    head = ["method", "time of", "with", "power", "R² of the line", "power in the table"]
    return table(caption, head, rows, (3, 4, 5))


def _percent(value: float) -> str:
    return f"{100 * value:.3g} %" if np.isfinite(value) else "–"
