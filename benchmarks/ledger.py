"""Share of every stage in the seconds of a search, and how often a stage changed the choice.

The tables are those that come with the package, and every NPZ file with arrays X and y in the
folder that MERCER_DATA names. A stage changes the choice if the best settings after it are others
than before it; gamma and ridge are not compared.

    python benchmarks/ledger.py --rows 3000
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from _side_by_side import table
from mercer import AutoKernelClassifier, AutoKernelRegressor
from mercer.auto import base
from mercer.auto.ledger import stage_seconds
from mercer.auto.search import Search
from mercer.auto.trials import Settings
from mercer.datasets import load

SHIPPED = ("flats", "flights", "letter")
MOST_CLASSES = 20  # values of a target of whole numbers that are taken as classes


class Followed(Search):
    """A search that notes the best settings at the beginning of every stage, and at its end."""

    last: Followed

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.noted: list[tuple[str, Settings]] = []
        Followed.last = self

    def enter(self, name: str) -> None:
        self.noted.append((name, self.settings))
        super().enter(name)

    def end(self) -> float:
        self.noted.append(("", self.settings))
        return super().end()

    def changes(self) -> set[str]:
        """Stages that changed more of the best settings than gamma and ridge."""
        plain = [(stage, replace(s, gamma=1.0, ridge=1.0)) for stage, s in self.noted]
        return {stage for (stage, before), (_, after) in pairwise(plain) if before != after}


def tables(n_rows: int) -> Iterator[tuple[str, Any, NDArray, bool]]:
    """Name, inputs, targets and whether they are classes, of every table."""
    found = [(name, load(name)) for name in SHIPPED]
    read = [(name, d.X, np.asarray(d.y), d.task == "classification") for name, d in found]
    for path in sorted(Path(os.environ.get("MERCER_DATA", os.devnull)).glob("*.npz")):
        with np.load(path) as arrays:
            if {"X", "y"} <= set(arrays):
                X, y = arrays["X"], arrays["y"]
                whole = y.dtype.kind != "f" or bool((y == np.round(y)).all())
                is_few = y.dtype.kind in "USOb" or (whole and len(np.unique(y)) <= MOST_CLASSES)
                read.append((path.stem, X, y, is_few))
    for name, X, y, are_classes in read:
        rows = np.sort(np.random.default_rng(0).permutation(len(y))[:n_rows])
        yield name, X.take(rows) if isinstance(X, pa.Table) else X[rows], y[rows], are_classes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=3000, help="most rows of a table")
    parser.add_argument("--n-jobs", type=int, default=None)
    options = parser.parse_args()
    base.Search = Followed
    shares: dict[str, list[float]] = defaultdict(list)
    changed: dict[str, int] = defaultdict(int)
    n = 0
    for name, X, y, are_classes in tables(options.rows):
        kind = AutoKernelClassifier if are_classes else AutoKernelRegressor
        model = kind(random_state=0, n_jobs=options.n_jobs).fit(X, y)
        n += 1
        seconds, changes = stage_seconds(model) or {}, Followed.last.changes()
        rows = []
        for stage, own in seconds.items():
            shares[stage].append(own / model.search_seconds_)
            changed[stage] += stage in changes
            mark = "changed" if stage in changes else ""
            rows.append(_row(stage, f"{own:.3g}", shares[stage][-1]) | {"choice": mark})
        _tell(f"{name}: {len(y)} rows, search of {model.search_seconds_:.3g} s", rows)
    rows = [
        _row(stage, str(len(own)), sum(own) / n, "ran") | {"changed": str(changed[stage])}
        for stage, own in shares.items()
    ]
    _tell(f"all: mean share over {n} tables; tables that a stage ran on and changed", rows)


def _tell(title: str, rows: list[dict[str, str]]) -> None:
    sys.stdout.write(f"{title}\n{table(rows)}\n\n")
    sys.stdout.flush()


def _row(stage: str, value: str, share: float, heading: str = "seconds") -> dict[str, str]:
    return {"stage": stage, heading: value, "share": f"{share:.1%}"}


if __name__ == "__main__":
    main()
