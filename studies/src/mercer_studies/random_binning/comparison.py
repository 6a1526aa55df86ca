"""Our numbers beside those the authors published, run by run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from mercer_studies.queries import (
    Record,
    best_by_size,
    by_data,
    data_kind,
    exact_kernel,
    is_regression,
    paper_name,
    score,
    select,
)

SIZES = (64, 256, 1024)
"""Numbers of components that are compared, where we ran them."""

LOST_LAST = frozenset({"letter"})
"""Data on which the authors' runs never predict the last class: on letter their training accuracy
ends at 96.40 %, which is the share of the rows of all other classes, where ours ends at 100 %."""

_POINT, _SHARE = 0.01, 0.03  # near: within one point of accuracy, or 3 % of the relative error


@dataclass(frozen=True)
class Beside:
    """One number of ours and the authors' for it.

    ``data``, ``kind``: name of our data, and what part of the paper's was fitted ("" for the same
    whole set); ``ours``, ``theirs``: test scores, γ picked by them as the authors did;
    ``like_theirs``: our score with the flaw of theirs, if there is one: what theirs is compared
    with; ``columns``: bins over training and test rows at *their* γ, ours and theirs; None where we
    did not run it. Equal numbers mean equally scaled inputs.
    """

    data: str
    kind: str
    method: str
    size: int | None
    regression: bool  # whether the scores are relative errors, not accuracies
    ours: float
    theirs: float
    like_theirs: float
    gammas: tuple[float, float]  # ours and theirs, 1/σ for the methods that have a σ
    columns: tuple[int, int] | None

    @property
    def better(self) -> float:
        """Advantage of ours: points of accuracy, or the share by which the error is less."""
        if self.regression:
            return 1.0 - self.like_theirs / self.theirs
        return self.like_theirs - self.theirs

    @property
    def verdict(self) -> str:
        """Near is within one point of accuracy or 3 % of the error; else better or worse."""
        near = _SHARE if self.regression else _POINT
        if abs(self.better) <= near:
            return "near"
        return "better" if self.better > 0 else "worse"


def comparison(records: Iterable[Record], reference: Iterable[Record]) -> list[Beside]:
    """Our published-protocol runs beside the authors' points for the same data.

    Stand-ins and generated data have no counterpart and are left out. ``reference``: from
    ``read_reference``. By data set, then method, then size.
    """
    theirs = by_data(point for point in reference if 5 in point["figures"])
    found = []
    for name, runs in by_data(select(records, figure=5, protocol="published")).items():
        points = theirs.get(paper_name(runs[0]), [])
        if not points or runs[0]["data"].get("kind") in ("stand-in", "generated"):
            continue
        for method in ("binning", "fourier", "nystroem", "blocks", "exact"):
            own = [run for run in runs if run["method"] == method]
            other = [point for point in points if point["method"] == method]
            found += [_beside(name, a, b, own) for a, b in _pairs(method, own, other)]
    return found


def _pairs(method: str, ours: list[Record], theirs: list[Record]) -> list[tuple[Record, Record]]:
    if method == "exact":
        one, other = exact_kernel(ours), exact_kernel(theirs)
        return [] if one is None or other is None else [(one, other)]
    a, b = best_by_size(ours), best_by_size(theirs)
    return [(a[size], b[size]) for size in SIZES if size in a and size in b]


def _beside(name: str, ours: Record, theirs: Record, runs: list[Record]) -> Beside:
    return Beside(
        data=name,
        kind=", ".join(part for part in (data_kind(ours), _part(ours)) if part),
        method=ours["method"],
        size=ours["size"],
        regression=is_regression(ours),
        ours=score(ours),
        theirs=score(theirs),
        like_theirs=_like_theirs(ours),
        gammas=(ours["gamma"], theirs["gamma"]),
        columns=_columns(theirs, runs),
    )


def _like_theirs(record: Record) -> float:
    lost = record["score"]["test"].get("accuracy_without_last")
    return score(record) if lost is None or paper_name(record) not in LOST_LAST else float(lost)


def _part(record: Record) -> str:
    """Remark that not all training rows were fitted, as with the exact kernel on large data."""
    fitted, whole = record.get("rows"), record["data"].get("n_train")
    return f"{fitted:,} of {whole:,} rows" if fitted and whole and fitted < whole else ""


def _columns(theirs: Record, runs: list[Record]) -> tuple[int, int] | None:
    for run in runs:
        known = run.get("n_features_joint"), theirs.get("n_features_joint")
        same = run["size"] == theirs["size"] and np.isclose(run["gamma"], theirs["gamma"], 0.02)
        if same and all(known):
            return int(known[0] or 0), int(known[1] or 0)
    return None
