"""The authors' points, read from a file of theirs and put into the shape of our records."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from typing import Any

_COLUMNS = ("figure", "method", "dataset", "split", "R", "D", "sigma_column", "perf")
_FIGURES = {"fig3+fig4": (3, 4), "fig5": (5,)}
_METHODS = {
    "RandBin": "binning",
    "FOURIER": "fourier",
    "NYSTROM": "nystroem",
    "BLOCKDIAG": "blocks",
    "STANDARD": "exact",
}
_REGRESSIONS = ("cadata", "census")  # a relative error stands there, elsewhere per cent right


def read_reference(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The points of the authors' figures as records, training and test part of a fit in one.

    ``path``: CSV with the columns ``figure, method, dataset, split, R, D, sigma_column, perf`` and,
    where known, ``train_time_s, test_time_s``. For random binning ``sigma_column`` is γ, for the
    other methods 1/γ. ``perf`` is the share of right classes in per cent, or for the regressions
    (cadata, census) the relative error. With ``data``, ``method``, ``size``, ``gamma``, ``score``,
    ``seconds``, ``n_features`` and ``n_features_joint`` as in our records; ``protocol`` is
    ``"published"``.
    """
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for line, row in _rows(path):
        try:
            point = _point(row)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path}, line {line}: not a point of a figure ({error}).") from error
        key = tuple(point[name] for name in ("figures", "method", "size", "gamma"))
        known = found.setdefault((point["data"]["name"], *key), point)
        if known is not point:
            _merge(known, point)
    if not found:
        raise ValueError(f"{path} must hold the authors' points; it has none.")
    return list(found.values())


def _rows(path: str | os.PathLike[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    with open(path, encoding="utf-8", newline="") as file:
        try:
            reader = csv.DictReader(file)
            missing = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
            if missing:
                raise ValueError(
                    f"{path} must have the columns {', '.join(_COLUMNS)}; {missing[0]} is missing."
                )
            for row in reader:
                yield reader.line_num, row
        except (UnicodeDecodeError, csv.Error) as error:
            raise ValueError(f"{path} must be a CSV file of text; it is not.") from error


def _point(row: dict[str, Any]) -> dict[str, Any]:
    figures = _FIGURES[row["figure"].split(" ")[0]]
    method, name, part = _METHODS[row["method"]], row["dataset"], row["split"]
    if part not in ("train", "test"):
        raise ValueError(f"split is {part!r}")
    regression = name in _REGRESSIONS
    value, columns, width = float(row["perf"]), int(row["D"]), float(row["sigma_column"])
    score = {"relative_rmse": value} if regression else {"accuracy": value / 100}
    exact = method == "exact"
    size = None if exact else int(row["R"])
    return {
        "protocol": "published",
        "figures": figures,
        "data": {
            "name": name,
            "paper_name": name,
            "task": "regression" if regression else "classification",
            "kind": "whole",
        },
        "method": method,
        "size": size,
        "gamma": width if method == "binning" else 1 / width,
        "seed": 0,
        "n_features": columns if part == "train" else None,
        "n_features_joint": columns if part == "test" and method == "binning" else None,
        "score": {part: score},
        "seconds": {"fit": _seconds(row, "train"), "predict": _seconds(row, "test")},
        "stored_per_row": columns if exact else size,
    }


def _merge(known: dict[str, Any], point: dict[str, Any]) -> None:
    """Add the other part's score and count of columns."""
    known["score"] = {**point["score"], **known["score"]}
    for name in ("n_features", "n_features_joint"):
        known[name] = point[name] if known[name] is None else known[name]


def _seconds(row: dict[str, Any], part: str) -> float:
    text = row.get(f"{part}_time_s")
    return float(text) if text else float("nan")
