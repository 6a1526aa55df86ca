"""The fields of Tables 1 and 2: ours alone, and beside the authors'."""

from __future__ import annotations

from collections.abc import Sequence

from mercer_studies.page import Table, table
from mercer_studies.queries import (
    Record,
    by_data,
    data_kind,
    is_regression,
    paper_name,
    score,
    select,
)
from mercer_studies.sparse_features.figures import chosen, rms, shown
from mercer_studies.sparse_features.grid import FAMILIES, KERNELS, TABLES, table_of

_NUMBERS = tuple(range(3, 10))  # columns of our own tables
_POINT, _SHARE = 0.01, 0.1  # near: within a point of accuracy, or 10 % of the error
_FIELDS = {
    "size": lambda run: run.get("model_size"),
    "train": lambda run: run["seconds"].get("fit"),
    "predict": lambda run: run["seconds"].get("predict"),
    "memory": lambda run: run["memory"].get("added"),
}


def measured(records: Sequence[Record]) -> list[Table]:
    """Our cells, a table for each of theirs, and one for every λ of Sparse-RF."""
    head = ["data", "kernel", "method", "n λ", "drawn", "size", "error"]
    head += ["train", "predict", "memory"]
    captions = {1: "Table 1: regression", 2: "Table 2: classification"}
    found = [
        table(captions[number], head, [_cells(run) for run in shown(records, number)], _NUMBERS)
        for number in TABLES
    ]
    paths = [
        _cells(run)
        for number in TABLES
        for run in select(records, figure=table_of(number))
        if run["family"] == "sparse"
    ]
    return [*found, table("Sparse-RF at every λ", head, paths, _NUMBERS)]


def beside(records: Sequence[Record], reference: Sequence[Record]) -> list[Table]:
    """Our cells beside the authors'; what stands in for their data says so in every row."""
    head = ["data", "kernel", "method", "size", "theirs", "score", "theirs", "verdict"]
    head += ["train", "theirs", "predict", "theirs", "memory", "theirs"]
    found = []
    for number in TABLES:
        theirs: dict[str, list[Record]] = {}
        for point in select(reference, figure=table_of(number)):
            theirs.setdefault(paper_name(point), []).append(point)
        rows = []
        for name, runs in by_data(select(records, figure=table_of(number))).items():
            points = theirs.get(paper_name(runs[0]), [])
            rows += _pairs(name, runs, points)
        numbers = (3, 4, 5, 6, *range(8, 14))
        found.append(table(table_of(number), head, rows, numbers, verdict=7))
    return found


def _pairs(name: str, runs: Sequence[Record], points: Sequence[Record]) -> list[list[str]]:
    rows = []
    for kernel in KERNELS:
        ours, theirs = chosen(runs, kernel), chosen(points, kernel)
        for family in FAMILIES:
            if family in ours and family in theirs:
                rows.append(_pair(name, ours[family], theirs[family]))
    return rows


def _pair(name: str, ours: Record, theirs: Record) -> list[str]:
    own, other = (_numbers(run) for run in (ours, theirs))
    return [
        _name(name, ours),
        ours["kernel"],
        FAMILIES[ours["family"]],
        *(own["size"], other["size"]),
        *(_score(ours), _score(theirs)),
        _verdict(ours, theirs),
        *(said for field in ("train", "predict", "memory") for said in (own[field], other[field])),
    ]


def _name(name: str, run: Record) -> str:
    """The data, what they are of the paper's, and how many of their rows were fitted."""
    rows, whole = run.get("rows"), run["data"].get("n_train")
    part = f"{rows:,} rows" if rows and whole and rows < whole else ""
    kind = ", ".join(said for said in (data_kind(run), part) if said)
    return f"{name} ({kind})" if kind else name


def _verdict(ours: Record, theirs: Record) -> str:
    """Near is within a point of accuracy or 10 % of the error; else better or worse."""
    if ours["data"].get("kind") in ("stand-in", "generated"):
        return "other data"
    if is_regression(ours):
        better, near = 1.0 - rms(ours) / score(theirs), _SHARE
    else:
        better, near = score(ours) - score(theirs), _POINT
    return "near" if abs(better) <= near else "better" if better > 0 else "worse"


def _score(run: Record) -> str:
    if is_regression(run):
        return f"{rms(run):.3f}"
    return f"{100 * score(run):.1f} %"


def _cells(run: Record) -> list[str]:
    said = _numbers(run)
    relative = (
        f"{100 * score(run):.2f} %" if is_regression(run) else f"{100 - 100 * score(run):.2f} %"
    )
    return [
        _name(run["data"]["name"], run),
        run["kernel"],
        FAMILIES[run["family"]],
        f"{run['lam_n']:g}",
        _count(run.get("n_drawn") or run["size"]),
        said["size"],
        relative,
        said["train"],
        said["predict"],
        said["memory"],
    ]


def _numbers(run: Record) -> dict[str, str]:
    """Size, seconds and memory in words; a dash for what is not known."""
    values = {name: read(run) for name, read in _FIELDS.items()}
    return {
        "size": _count(values["size"]),
        **{name: _seconds(values[name]) for name in ("train", "predict")},
        "memory": "–" if values["memory"] is None else _bytes(values["memory"]),
    }


def _count(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _seconds(value: float | None) -> str:
    if value is None:
        return "–"
    if value < 0.1:
        return f"{1e3 * value:.2g} ms"
    return f"{value:.3g} s" if value < 1000 else f"{value:,.0f} s"


def _bytes(value: float) -> str:
    return f"{value / 1e9:.3g} GB" if value >= 1e9 else f"{value / 1e6:.0f} MB"
