"""Elo ratings of estimators with their defaults, from the stored errors of all tables.

Two contenders meet on every table and split that both were run on; the lower error wins, and equal
errors are half a win each. Every table counts once, however many splits it has and however many
records name it. Ratings are the maximum likelihood of the model of Bradley and Terry: a contender
whose rating is 400 higher wins ten times as often. One draw is added to every pair, so that ratings
stay finite. They have a mean of 1000; intervals are percentiles over samples of the
tables, drawn with replacement.

    python benchmarks/elo.py --records tables-20000 tables-20000-rivals raw-tables

References
----------
Bradley and Terry, Rank analysis of incomplete block designs, Biometrika 1952. Elo, The rating of
chessplayers, past and present, 1978.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

RECORDS = Path(__file__).parent / "records"
# Tables of 5000 rows are samples of those of 20 000, which count once.
NAMES = ("tables-20000", "tables-20000-rivals", "raw-tables", "large-tables")
UNIT, MIDDLE = 400.0 / np.log(10.0), 1000.0  # a factor of ten in the odds is 400 points


def runs_of(names: Iterable[str]) -> list[dict[str, Any]]:
    """Runs of some records; of equal data, rows, split and contender the first one."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for name in names:
        for run in finished(json.loads((RECORDS / f"{name}.json").read_text("utf-8"))["runs"]):
            found.setdefault(tuple(run[k] for k in ("data", "rows", "seed", "contender")), run)
    return list(found.values())


def finished(runs: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Runs that have an error; targets of one table are data of their own."""
    return [
        run | {"data": " ".join(run[name] for name in ("data", "target") if name in run)}
        for run in runs
        if "error" in run
    ]


def wins_of(runs: Sequence[dict[str, Any]], names: Sequence[str]) -> NDArray[np.float64]:
    """Share of the splits of each table on which i errs less than j, (tables, k, k)."""
    errors: dict[str, dict[Any, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for run in runs:
        errors[run["data"]][run["rows"], run["seed"]][run["contender"]] = run["error"]
    wins = np.zeros((len(errors), len(names), len(names)))
    for own, splits in zip(wins, errors.values(), strict=True):
        met = np.zeros_like(own)
        for split in splits.values():
            error = np.array([split.get(name, np.nan) for name in names])
            own += (error[:, None] < error) + 0.5 * (error[:, None] == error)
            met += np.isfinite(error[:, None] - error)
        np.divide(own, met, out=own, where=met > 0)
        np.fill_diagonal(own, 0.0)
    return wins


def ratings(wins: NDArray[np.float64], steps: int = 10_000, tol: float = 1e-9) -> NDArray:
    """Elo ratings (k,) from the wins (k, k) of i over j, by the steps of Hunter (2004)."""
    wins = wins + 0.5 * (1.0 - np.eye(len(wins)))
    met = wins + wins.T
    strength = np.ones(len(wins))
    for _ in range(steps):
        last = strength
        strength = wins.sum(axis=1) / (met / (last[:, None] + last)).sum(axis=1)
        strength /= np.exp(np.log(strength).mean())
        if np.abs(np.log(strength / last)).max() < tol:
            break
    return MIDDLE + UNIT * np.log(strength)


def intervals(wins: NDArray[np.float64], draws: int, coverage: float, seed: int) -> NDArray:
    """Percentiles (2, k) of ratings over samples of the tables, drawn with replacement."""
    rng, n = np.random.default_rng(seed), len(wins)
    found = [ratings(wins[rng.integers(0, n, n)].sum(axis=0), tol=1e-4) for _ in range(draws)]
    return np.quantile(found, [(1 - coverage) / 2, (1 + coverage) / 2], axis=0)


def rated(names: Sequence[str] = NAMES, draws: int = 500, seed: int = 0) -> list[dict[str, str]]:
    """A line per contender of some records, the highest rating first."""
    runs = runs_of(names)
    contenders = list(dict.fromkeys(run["contender"] for run in runs))
    wins = wins_of(runs, contenders)
    total, ends = wins.sum(axis=0), intervals(wins, draws, 0.95, seed)
    own = ratings(total)
    return [
        {
            "contender": contenders[i],
            "Elo": f"{own[i]:.0f}",
            "95 % interval": f"{ends[0, i]:.0f} to {ends[1, i]:.0f}",
            "tables": str(int((wins[:, i].sum(axis=1) + wins[:, :, i].sum(axis=1) > 0).sum())),
            "wins": f"{total[i].sum() / (total[i].sum() + total[:, i].sum()):.0%}",
        }
        for i in np.argsort(-own)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", nargs="+", default=NAMES, help="names in benchmarks/records")
    parser.add_argument("--draws", type=int, default=500, help="samples of the tables")
    options = parser.parse_args()
    from _side_by_side import table

    sys.stdout.write(table(rated(options.records, options.draws)) + "\n")


if __name__ == "__main__":
    main()
