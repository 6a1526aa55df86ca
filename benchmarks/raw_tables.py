"""Raw tables with no settings: mercer's automatic models beside gradient boosting.

A folder holds tables as Parquet files and ``raw.toml``, which names for each its target and task.
Every contender gets three quarters of the rows with its defaults, in one process; CatBoost gets
labels as texts, the others get them as codes. Errors are shares of wrong classes or root mean
squares in units of the deviation; classes also have log losses and areas under the ROC curve.

    python benchmarks/raw_tables.py FOLDER --seeds 1 --json raw_tables.json
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import tomllib
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from _side_by_side import environment
from mercer.compare.rivals import CONTENDERS
from tables import of_probabilities, report

NAMES = {"auto": "mercer auto"}


def split(folder: Path, table: dict[str, Any], seed: int) -> tuple[Any, Any, Any, Any]:
    """Training and test rows of a table, and their targets; rows without a target are left out."""
    frame = pd.read_parquet(folder / f"{table['name']}.parquet")
    frame = frame[frame[table["target"]].notna()]
    y = frame[table["target"]].to_numpy()
    strata = y if table["task"] == "classes" else None
    X = frame.drop(columns=table["target"])
    return train_test_split(X, y, test_size=0.25, random_state=seed, stratify=strata)


def run(name: str, task: str, parts: tuple[Any, Any, Any, Any], seed: int) -> dict[str, Any]:
    """Error and seconds of one contender."""
    X, X_test, y, y_test = parts
    contender = CONTENDERS[name]
    contender.load()
    if contender.is_rival:  # whose labels are coded cell by cell
        X, X_test = X.to_numpy(dtype=object), X_test.to_numpy(dtype=object)
    model = contender.estimator(task, seed=seed, n_jobs=None)
    start = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - start
    predicted = np.asarray(model.predict(X_test)).ravel()
    facts: dict[str, Any] = {"fit_seconds": seconds}
    if task == "regression":
        return facts | {
            "error": float(np.sqrt(np.mean((predicted - y_test) ** 2)) / np.std(y_test))
        }
    labels = np.searchsorted(np.unique(y), y_test)  # of which each is in both parts
    return facts | {
        "error": float(np.mean(predicted != y_test)),
        **of_probabilities(model, X_test, labels),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="of the tables and raw.toml")
    parser.add_argument("--tables", nargs="*", default=[], help="names; by default all")
    parser.add_argument("--seeds", type=int, default=1, help="splits of every table")
    parser.add_argument("--contenders", nargs="*", default=[], help="names; by default all there")
    parser.add_argument("--json", type=Path, help="also write every run to this file")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    there = [name for name, contender in CONTENDERS.items() if contender.is_installed]
    records: list[dict[str, Any]] = []
    for table in tomllib.loads((options.folder / "raw.toml").read_text())["table"]:
        if options.tables and table["name"] not in options.tables:
            continue
        task = "classification" if table["task"] == "classes" else "regression"
        for seed in range(options.seeds):
            parts = split(options.folder, table, seed)
            for name in options.contenders or there:
                label = NAMES.get(name, CONTENDERS[name].label)
                facts = {"data": table["name"], "seed": seed, "contender": label}
                facts |= {"rows": len(parts[0])} | run(name, task, parts, seed)
                records.append(facts)
                sys.stderr.write(json.dumps(facts) + "\n")
            if options.json:
                content = {"environment": environment(), "runs": records}
                options.json.write_text(json.dumps(content, indent=1) + "\n")
    sys.stdout.write(report(records) + "\n")


if __name__ == "__main__":
    main()
