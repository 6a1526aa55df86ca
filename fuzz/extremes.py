"""Random cases of the sweep over scales and strengths, until the time is up.

    python fuzz/extremes.py --seconds 60 --seed 0 [--maps exact,binning] [--table]

Exits with 1 if a fit was neither right nor warned nor refused, and prints what makes it again.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from _extremes import ALPHAS, GAMMAS, MAPS, NEAR, Case, References, judged

KINDS = ("right", "to tol", "warned, right", "warned", "refused", "silent")
LOSSES = ("squared", "squared", "squared", "logistic", "squared_hinge")


def some_cases(rng: np.random.Generator, names: list[str]) -> list[Case]:
    """Cases that share a kernel matrix: one map and scale, some strengths, every solver."""
    name, loss = str(rng.choice(names)), str(rng.choice(LOSSES))
    solvers = ("cholesky", "cg", "block") if loss == "squared" else ("newton-cg",)
    form = {
        "dtype": str(rng.choice(["float32", "float64"])),
        "gamma": float(rng.choice(GAMMAS)),
        "intercept": bool(rng.integers(2)),
        "scale": bool(rng.integers(2)),
        "weighted": loss == "squared" and bool(rng.integers(2)),
        "seed": int(rng.integers(1000)),
    }
    strengths = rng.choice(ALPHAS, size=3 if loss != "squared" else 6, replace=False)
    return [
        Case(name, solver=solver, alpha=float(alpha), loss=loss, **form)
        for alpha in strengths
        for solver in solvers
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--maps", default=",".join(MAPS))
    parser.add_argument("--table", action="store_true", help="counts by map, dtype and solver")
    settings = parser.parse_args()
    rng, references = np.random.default_rng(settings.seed), References()
    names, counts = settings.maps.split(","), defaultdict(Counter)
    silent, end = [], time.monotonic() + settings.seconds
    while time.monotonic() < end:
        for case in some_cases(rng, names):
            verdict = judged(case, references)
            kind = verdict.kind
            kind = "warned, right" if kind == "warned" and verdict.error <= NEAR else kind
            counts["all"][kind] += 1
            for row in (f"{case.map} {case.dtype}", f"{case.solver} {case.dtype}"):
                counts[row][kind] += 1
            if kind == "silent":
                silent.append(verdict)
    lines = [f"{'':20}" + "".join(f"{kind:>15}" for kind in KINDS)]
    for row in sorted(counts) if settings.table else ["all"]:
        lines.append(f"{row:20}" + "".join(f"{counts[row][kind]:>15}" for kind in KINDS))
    worst_first = sorted(silent, key=lambda one: -np.nan_to_num(one.error, nan=np.inf))
    sys.stdout.write("\n".join([*lines, *map(str, worst_first[:20]), ""]))
    return 1 if silent else 0


if __name__ == "__main__":
    sys.exit(main())
