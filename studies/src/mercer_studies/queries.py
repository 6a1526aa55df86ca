"""Selections of records that figures, claims and tables share."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

Record = Mapping[str, Any]

METHODS = {
    "binning": "random binning",
    "fourier": "random Fourier",
    "nystroem": "Nyström",
    "blocks": "independent blocks",
    "exact": "exact kernel",
}


def is_regression(record: Record) -> bool:
    """Whether its score is a relative error, not an accuracy.

    >>> is_regression({"score": {"test": {"accuracy": 0.9}}})
    False
    """
    return any("relative_rmse" in (part or {}) for part in record["score"].values())


def of_task(records: Iterable[Record], *tasks: str) -> list[Record]:
    """The runs of some kinds that came to an end.

    ``*tasks``: what runs of a study say in "task".

    >>> of_task([{"task": "curve"}, {"task": "curve", "failed": "no memory."}], "curve")
    [{'task': 'curve'}]
    """
    return [
        record for record in records if record.get("task") in tasks and not record.get("failed")
    ]


def score(record: Record, part: str = "test") -> float:
    """The leading score of a part: accuracy, or the relative error of a regression.

    ``part``: "test" or "train". NaN where the record has none.
    """
    found = record["score"].get(part) or {}
    value = found.get("relative_rmse" if is_regression(record) else "accuracy")
    return float("nan") if value is None else float(value)


def error(record: Record, part: str = "test") -> float:
    """Share of wrong classes, or relative error of a regression.

    ``part``: "test" or "train".
    """
    value = score(record, part)
    return value if is_regression(record) else 1.0 - value


def select(
    records: Iterable[Record],
    *,
    figure: int | str | None = None,
    protocol: str | None = None,
    method: str | None = None,
) -> list[Record]:
    """The runs that came to an end, of one figure, protocol or method.

    As published, γ is picked by the test score; there only the least seed counts, so that luck is
    not picked besides. ``figure``: a table by its name, such as "Table 1"; ``protocol``:
    "published", "fair" or "example".
    """
    found = [
        record
        for record in records
        if "score" in record
        and not record.get("failed")
        and (figure is None or figure in record.get("figures", ()))
        and (protocol is None or record.get("protocol") == protocol)
        and (method is None or record["method"] == method)
    ]
    if protocol != "published":
        return found
    least = min((record.get("seed", 0) for record in found), default=0)
    return [record for record in found if record.get("seed", 0) == least]


def by_data(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Records by the name of their data, in the order of first appearance.

    >>> list(by_data([{"data": {"name": "b"}}, {"data": {"name": "a"}}]))
    ['b', 'a']
    """
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(record["data"]["name"], []).append(record)
    return found


def training_rows(records: Iterable[Record]) -> int:
    """Training rows of one data set, whether fitted or not; 0 if no record has their number.

    Reduced records have it where the data set comes first.

    >>> training_rows([{"data": {"name": "a"}}, {"data": {"name": "a", "n_train": 9}}])
    9
    """
    known = (record["data"].get("n_train") for record in records)
    return next((number for number in known if number), 0)


def paper_name(record: Record) -> str:
    """The name its data have in the paper; their own where the paper has none."""
    data = record["data"]
    return str(data.get("paper_name") or data["name"])


def data_kind(record: Record) -> str:
    """Relation of the data to the paper's; an empty string for the whole set.

    >>> data_kind({"data": {"name": "a", "kind": "sample", "stand_in_for": "covtype"}})
    'a sample of covtype'
    """
    data = record["data"]
    other = data.get("stand_in_for") or data.get("paper_name") or "a larger set"
    if data.get("kind") == "sample":
        return f"a sample of {other}"
    if data.get("kind") == "stand-in":
        return f"a stand-in for {other}"
    return "generated" if data.get("kind") == "generated" else ""


def full_name(record: Record) -> str:
    """The name of the data, and their relation to the paper's in parentheses."""
    kind = data_kind(record)
    return f"{record['data']['name']} ({kind})" if kind else str(record["data"]["name"])


def listing(names: Sequence[str]) -> str:
    """Names in parentheses, behind a number of data sets; nothing for none.

    >>> listing(["mnist", "cpu"]), listing([])
    (' (mnist, cpu)', '')
    """
    return f" ({', '.join(names)})" if names else ""


def best(records: Iterable[Record]) -> Record:
    """The run with the least test error; the first among equals.

    ``records``: at least one.
    """
    return min(records, key=_order)


def best_by_size(records: Iterable[Record]) -> dict[int, Record]:
    """For each size the run with the least test error, γ picked anew each time.

    ``records``: those without a size are left out. Sizes ascend.
    """
    found: dict[int, list[Record]] = {}
    for record in records:
        if record["size"] is not None:
            found.setdefault(int(record["size"]), []).append(record)
    return {size: best(found[size]) for size in sorted(found)}


def exact_kernel(records: Iterable[Record]) -> Record | None:
    """The best run of the exact kernel on the most rows; None where there is none.

    On large data its γ is looked for on a sample: those runs do not count.
    """
    found = [record for record in records if record["method"] == "exact"]
    most = max((record.get("rows") or 0 for record in found), default=0)
    found = [record for record in found if (record.get("rows") or 0) == most]
    return best(found) if found else None


def gamma_sweep(records: Iterable[Record]) -> list[Record]:
    """The scored runs over γ at one size: the size with the most values of γ, γ ascending.

    >>> runs = [{"size": 8, "gamma": 1.0}, {"size": 16, "gamma": 2.0}, {"size": 16, "gamma": 1.0}]
    >>> scored = [{**run, "score": {"test": {"accuracy": 0.5}}} for run in runs]
    >>> [(run["size"], run["gamma"]) for run in gamma_sweep(scored)]
    [(16, 1.0), (16, 2.0)]
    """
    sizes: dict[int, dict[float, Record]] = {}
    for record in records:
        if np.isfinite(score(record)):
            sizes.setdefault(record["size"], {})[record["gamma"]] = record
    if not sizes:
        return []
    size = max(sizes, key=lambda size: (len(sizes[size]), size))
    return [sizes[size][gamma] for gamma in sorted(sizes[size])]


def over_seeds(
    records: Iterable[Record], value: Any = score
) -> dict[int | None, tuple[float, float, int]]:
    """Mean, standard deviation and number of seeds for each size.

    ``value``: what to read off a record. Sizes ascend; the deviation of a single seed is 0.

    >>> runs = [{"size": 8, "score": {"test": {"accuracy": value}}} for value in (0.25, 0.75)]
    >>> over_seeds(runs)
    {8: (0.5, 0.3535533905932738, 2)}
    """
    found: dict[int | None, list[float]] = {}
    for record in records:
        found.setdefault(record["size"], []).append(value(record))
    return {size: _spread(found[size]) for size in sorted(found, key=lambda size: size or 0)}


def averaged(records: Iterable[Record]) -> list[Record]:
    """One record for each method and size: scores and fit times are means over the seeds.

    ``records``: of one data set and protocol. Of the other entries, those of the first run.

    >>> runs = [
    ...     {"method": "exact", "size": None, "score": {"test": {"accuracy": value}}}
    ...     for value in (0.5, 1.0)
    ... ]
    >>> [score(run) for run in averaged(runs)]
    [0.75]
    """
    groups: dict[tuple[Any, Any], list[Record]] = {}
    for record in records:
        groups.setdefault((record["method"], record["size"]), []).append(record)
    found: list[Record] = []
    for runs in groups.values():
        metric = "relative_rmse" if is_regression(runs[0]) else "accuracy"
        scores = {
            part: {metric: float(np.mean([score(run, part) for run in runs]))}
            for part in runs[0]["score"]
        }
        seconds = [run["seconds"]["fit"] for run in runs if "seconds" in run]
        times = {"seconds": {"fit": float(np.mean(seconds))}} if seconds else {}
        means: dict[str, Any] = {"score": scores, **times}
        found.append(ChainMap(means, runs[0]))  # type: ignore[arg-type]  # both are only read
    return found


def _spread(values: Sequence[float]) -> tuple[float, float, int]:
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return float(np.mean(values)), deviation, len(values)


def _order(record: Record) -> float:
    value = error(record)
    return float("inf") if np.isnan(value) else value
