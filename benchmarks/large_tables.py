"""Tables beyond 20 000 rows with no settings: mercer's automatic models beside boosting.

All get the same rows with their defaults, in one process, and what they take of columns that are no
numbers: LightGBM, XGBoost and CatBoost get them as categories and dates as seconds. Sets of the
registry, and nycflights and diamonds as Parquet files, are used where they are at hand (a folder
named by MERCER_DATA, or the cache); generated tables, called so in their name, always.

    python benchmarks/large_tables.py --seeds 1 --json large.json
    python benchmarks/large_tables.py --curves nycflights-air-time diamonds --figure curves.png
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn import datasets as sklearn_sets
from sklearn.model_selection import train_test_split

from _side_by_side import environment
from mercer import datasets
from tables import contenders, report, run

# Name: file, target, columns that would tell it, task.
FRAMES = {
    "nycflights-air-time": ("nycflights.parquet", "air_time", ["late"], "regression"),
    "nycflights-late": ("nycflights.parquet", "late", ["air_time"], "classification"),
    "diamonds": ("diamonds.parquet", "price", [], "regression"),
}
REGISTRY = (
    "cod-rna-train",
    "ijcnn1-train",
    "w8a-train",
    "blogfeedback",
    "mnist",
    "susy-sample",
    "kddcup10",
)
GENERATED = ("generated-friedman1-100000", "generated-friedman1-1000000")
COMPARED = ("mercer auto", "LightGBM", "XGBoost", "CatBoost")
CURVE_SIZES = (1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000)


def whole(name: str) -> tuple[Any, NDArray, str] | None:
    """Rows, targets and task of a table, training and test part together; None if not at hand."""
    if name in FRAMES:
        file, target, others, task = FRAMES[name]
        path = Path(os.environ.get("MERCER_DATA", ".")) / file
        if not path.exists():
            return None
        frame = pd.read_parquet(path)
        y = frame.pop(target).to_numpy()
        return frame.drop(columns=others), y.astype(float) if task == "regression" else y, task
    if name.startswith("generated-friedman1-"):
        n = int(name.rsplit("-", 1)[1])
        X, y = sklearn_sets.make_friedman1(n, n_features=20, noise=1.0, random_state=0)
        return X.astype(np.float32), y, "regression"
    try:
        data = datasets.load(name)
    except (datasets.DataError, ImportError):
        return None
    if data.X_test is None:
        return data.X, data.y, data.task
    parts = data.split()
    both = np.concatenate([parts.X_train, parts.X_test])
    return both, np.concatenate([parts.y_train, parts.y_test]), data.task


def split(name: str, seed: int) -> tuple[str, tuple[Any, NDArray, Any, NDArray]] | None:
    """Task, and three quarters of the rows to fit beside one quarter to judge by."""
    table = whole(name)
    if table is None:
        return None
    X, y, task = table
    strata = (
        y if task == "classification" and np.unique(y, return_counts=True)[1].min() > 1 else None
    )
    X, X_test, y, y_test = train_test_split(
        X, y, test_size=0.25, random_state=seed, stratify=strata
    )
    return task, (X, y, X_test, y_test)


def as_boosters_take(X: Any, X_test: Any) -> tuple[Any, Any]:
    """Columns that are no numbers as categories of the training rows, dates as seconds."""
    if not isinstance(X, pd.DataFrame):
        return X, X_test
    X, X_test = X.copy(), X_test.copy()
    for column in X:
        kind = X[column].dtype.kind
        for part in (X, X_test):
            if kind == "M":
                part[column] = part[column].astype("datetime64[s]").astype("int64")
        if kind not in "iufbM":
            known = pd.Index(X[column].astype(str).unique())
            for part in (X, X_test):
                words = part[column].astype(str)
                part[column] = pd.Categorical(words.where(words.isin(known)), known)
    return X, X_test


def named_categories(X: Any) -> list[str]:
    """Columns of a frame that are categories."""
    if not isinstance(X, pd.DataFrame):
        return []
    return [str(column) for column in X if X[column].dtype == "category"]


def as_words(X: Any, columns: list[str]) -> Any:
    """A frame whose categories are words, one of them for all that are unknown."""
    if not columns:
        return X
    return X.assign(**{column: X[column].astype(str).fillna("unknown") for column in columns})


def compared(name: str, task: str, parts: Any, seed: int) -> Iterator[dict[str, Any]]:
    """A record for every contender."""
    X, y, X_test, y_test = parts
    coded = as_boosters_take(X, X_test)
    categories = named_categories(coded[0])
    makers = contenders(task, seed, categories)
    for which in COMPARED:
        if which not in makers:
            continue
        rows = (X, X_test) if which == "mercer auto" else coded
        if which == "CatBoost":  # which takes words, and those it has not met
            rows = tuple(as_words(part, categories) for part in coded)
        facts = {"data": name, "seed": seed, "contender": which, "rows": len(y)}
        try:
            yield facts | run(makers[which], task, (rows[0], y, rows[1], y_test))
        except ValueError as refusal:
            sys.stderr.write(f"  {which} refuses: {refusal}\n")


def curve(name: str, seed: int) -> Iterator[dict[str, Any]]:
    """Records of growing parts of the training rows, each part within the next."""
    found = split(name, seed)
    if found is None:
        return
    task, (X, y, X_test, y_test) = found
    order = np.random.default_rng(seed).permutation(len(y))
    for n in [*(size for size in CURVE_SIZES if size < len(y)), len(y)]:
        rows = order[:n]
        part = X.iloc[rows] if isinstance(X, pd.DataFrame) else X[rows]
        sys.stderr.write(f"{name}, {n} rows\n")
        yield from compared(name, task, (part, y[rows], X_test, y_test), seed)


def drawn(records: list[dict[str, Any]], path: Path) -> None:
    """Error and seconds against rows, a pair of panels for every table."""
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(r["data"] for r in records))
    figure, panels = plt.subplots(
        2, len(names), figsize=(3.6 * len(names), 6), sharex="col", squeeze=False
    )
    for column, name in enumerate(names):
        for which in COMPARED:
            own = [r for r in records if r["data"] == name and r["contender"] == which]
            rows = [r["rows"] for r in own]
            panels[0][column].loglog(rows, [r["error"] for r in own], "o-", label=which)
            panels[1][column].loglog(rows, [r["fit_seconds"] for r in own], "o-", label=which)
        panels[0][column].set_title(name)
        panels[1][column].set_xlabel("rows")
    panels[0][0].set_ylabel("error on new rows")
    panels[1][0].set_ylabel("seconds of a fit")
    panels[0][0].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", default=[], help="names; by default all there are")
    parser.add_argument("--seeds", type=int, default=1, help="splits of every set")
    parser.add_argument("--first-seed", type=int, default=0, help="of the splits")
    parser.add_argument("--curves", nargs="*", help="learning curves of these sets instead")
    parser.add_argument("--figure", type=Path, default=Path("curves.png"), help="of the curves")
    parser.add_argument("--json", type=Path, help="also write every run to this file")
    options = parser.parse_args()
    records: list[dict[str, Any]] = []
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        for name in options.curves or options.sets or [*FRAMES, *REGISTRY, *GENERATED]:
            sys.stderr.write(f"seed {seed}, {name}\n")
            if options.curves:
                found = curve(name, seed)
            else:
                parts = split(name, seed)
                found = iter(()) if parts is None else compared(name, *parts, seed)
            for record in found:
                records.append(record)
                if options.json:  # what was run is kept whatever happens to the rest
                    content = {"environment": environment(), "runs": records}
                    options.json.write_text(json.dumps(content, indent=1) + "\n")
    facts = ", ".join(f"{name} {value}" for name, value in environment().items() if value)
    if options.curves:
        drawn(records, options.figure)
        sys.stdout.write(f"{facts}\nwrote {options.figure}\n")
        return
    sys.stdout.write(f"{facts}\n{report(records)}\n")


if __name__ == "__main__":
    main()
