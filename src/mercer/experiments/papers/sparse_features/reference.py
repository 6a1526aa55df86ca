"""The authors' tables, read from a file and put into the shape of our records."""

from __future__ import annotations

import csv
import os
from typing import Any

from mercer.experiments.papers.sparse_features.grid import FAMILIES, KERNELS, METHODS, table_of

__all__ = ["read_reference"]

_COLUMNS = ("paper", "table", "dataset", "method", "kernel", "metric", "value")
_PAPER = "SRF"
_FAMILIES = {label: family for family, label in FAMILIES.items()}
_SIZES = ("SV", "D", "NZ")
_NOT_RUN = "not run"


def read_reference(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The cells of the authors' two tables as records.

    Parameters
    ----------
    path : str or path-like
        CSV with the columns ``paper, table, dataset, method, kernel, metric, value``; rows of other
        papers than SRF are left out. Metrics are SV, D or NZ, RMSE or accuracy, "train time" and
        "predict time" in seconds, and "train memory" in gigabytes.

    Returns
    -------
    list of dict
        With ``data``, ``method``, ``model_size``, ``score``, ``seconds`` and ``memory`` as in our
        records; ``protocol`` is ``"published"``. What the authors did not run is not there.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is not such a table; the line is named.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> head = "paper,table,dataset,method,kernel,metric,value,unit"
    >>> cells = ["RF,Gaussian,D,10000,count", "RF,Gaussian,RMSE,0.037,"]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "tables.csv")
    ...     _ = path.write_text("\\n".join([head, *(f"SRF,Table 1,CPU,{c}" for c in cells)]))
    ...     [found] = read_reference(path)
    >>> found["method"], found["model_size"], found["score"]
    ('rf-gaussian', 10000, {'test': {'relative_rmse': 0.037}})
    """
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    facts: dict[str, dict[str, int]] = {}
    for line, row in _rows(path):
        if row["paper"] != _PAPER or not row["table"].startswith("Table"):
            continue
        try:
            if row["method"]:
                _add(found, row)
            else:
                facts.setdefault(row["dataset"], {})[row["metric"]] = int(row["value"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path}, line {line}: not a cell of a table ({error}).") from error
    complete = [point for point in found.values() if point["score"]["test"]]
    if not complete:
        raise ValueError(f"{path} must hold the authors' tables; it has none.")
    for point in complete:
        known = facts.get(point["data"]["name"], {})
        point["data"] |= {"n_train": known.get("N_train"), "n_test": known.get("N_test")}
    return complete


def _rows(path: str | os.PathLike[str]) -> list[tuple[int, dict[str, Any]]]:
    with open(path, encoding="utf-8", newline="") as file:
        try:
            reader = csv.DictReader(file)
            missing = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
            if missing:
                raise ValueError(
                    f"{path} must have the columns {', '.join(_COLUMNS)}; {missing[0]} is missing."
                )
            return [(reader.line_num, row) for row in reader]
        except (UnicodeDecodeError, csv.Error) as error:
            raise ValueError(f"{path} must be a CSV file of text; it is not.") from error


def _add(found: dict[tuple[str, str, str], dict[str, Any]], row: dict[str, Any]) -> None:
    """Put one number where it belongs."""
    family, kernel, name = _FAMILIES[row["method"]], row["kernel"].lower(), row["dataset"]
    if kernel not in KERNELS:
        raise ValueError(f"kernel is {row['kernel']!r}")
    number = int(row["table"].removeprefix("Table "))
    method = f"{family}-{kernel}"
    point = found.setdefault((name, family, kernel), _empty(name, number, method))
    metric, text = row["metric"], row["value"]
    if text == _NOT_RUN:
        return
    if metric in _SIZES:
        point["model_size"] = int(text)
    elif metric == "RMSE":
        point["score"]["test"]["relative_rmse"] = float(text)
    elif metric == "accuracy":
        point["score"]["test"]["accuracy"] = float(text)
    elif metric == "train memory":
        point["memory"]["added"] = 1e9 * float(text)
    else:
        point["seconds"][{"train time": "fit", "predict time": "predict"}[metric]] = float(text)


def _empty(name: str, number: int, method: str) -> dict[str, Any]:
    family, kernel = method.split("-")
    return {
        "protocol": "published",
        "figures": [table_of(number)],
        "data": {
            "name": name,
            "paper_name": name,
            "task": "regression" if number == 1 else "classification",
            "kind": "whole",
        },
        "family": family,
        "kernel": kernel,
        "method": method,
        "label": METHODS[method],
        "size": None,
        "lam_n": None,
        "seed": 0,
        "score": {"test": {}},
        "seconds": {},
        "memory": {},
    }
