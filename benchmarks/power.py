"""Rejection rates of two-sample and independence tests, beside those of hyppo.

Every test sees the same draws and rejects at p <= 0.05 from 199 permutations. Two samples share
``--rows`` rows in two dimensions; pairs are simulations of hyppo with Gaussian noise. In the
rows "none" both samples or columns are independent draws from one distribution: the rate is the
level. Standard errors are at most 0.5 / sqrt(draws).

    OMP_NUM_THREADS=1 python benchmarks/power.py --json benchmarks/records/power.jsonl
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from hyppo.independence import Dcorr, Hsic
from hyppo.ksample import MMD
from hyppo.tools import circle, linear, sin_four_pi

from _side_by_side import environment, table
from mercer.statistics import hsic_test, mmd_test

LEVEL, PERMUTATIONS = 0.05, 199
Draw, Test = Callable[..., tuple[Any, Any]], Callable[..., float]


def _two(n: int, rng: np.random.Generator, shift=0.0, scale=1.0, laplace=False) -> Any:
    """Standard normal rows, and rows of another mean, spread or distribution."""
    half = n // 2, 2
    X = rng.normal(size=half)
    Y = rng.laplace(scale=0.5**0.5, size=half) if laplace else rng.normal(size=half)
    return X, shift + scale * Y


def _independent(n: int, rng: np.random.Generator) -> Any:
    return rng.normal(size=(n, 1)), rng.normal(size=(n, 1))


def _pairs(simulation: Any, noise: float, n: int, rng: np.random.Generator) -> Any:
    """Rows of a simulation of hyppo, which draws from NumPy's global state, and noise."""
    np.random.seed(int(rng.integers(2**31)))  # noqa: NPY002
    x, y = simulation(n, 1, noise=False)
    return x, y + noise * rng.normal(size=y.shape)


def _ours(test: Any, X: Any, Y: Any, seed: int) -> float:
    return test(X, Y, n_permutations=PERMUTATIONS, random_state=seed, n_jobs=1).p_value


def _hyppo(test: Any, X: Any, Y: Any, seed: int) -> float:
    return test().test(X, Y, reps=PERMUTATIONS, workers=1, auto=False, random_state=seed)[1]


TWO_SAMPLES: dict[str, Draw] = {
    "none": _two,
    "mean shifted by 0.3": partial(_two, shift=0.3),
    "standard deviation times 1.3": partial(_two, scale=1.3),
    "Laplace, variance 1": partial(_two, laplace=True),
}
DEPENDENCE: dict[str, Draw] = {
    "none": _independent,
    "linear": partial(_pairs, linear, 3.0),
    "sine, two periods": partial(_pairs, sin_four_pi, 1.5),
    "circle": partial(_pairs, circle, 0.7),
}
OF_SAMPLES = {"mercer mmd_test": partial(_ours, mmd_test), "hyppo MMD": partial(_hyppo, MMD)}
OF_PAIRS = {
    "mercer hsic_test": partial(_ours, hsic_test),
    "hyppo Hsic": partial(_hyppo, Hsic),
    "hyppo Dcorr": partial(_hyppo, Dcorr),
}


def rates(examples: dict[str, Draw], tests: dict[str, Test], n: int, draws: int) -> Iterator[Any]:
    """A record for each example and test."""
    for number, (example, draw) in enumerate(examples.items()):
        rejected = dict.fromkeys(tests, 0)
        for seed in range(draws):
            X, Y = draw(n, np.random.default_rng([seed, number]))
            for name, test in tests.items():
                rejected[name] += test(X, Y, seed) <= LEVEL
        for name in tests:
            facts = {"difference": example, "test": name, "rows": n, "draws": draws}
            yield facts | {"rate": rejected[name] / draws}


def main() -> None:
    """Run, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--json", type=Path, help="file to append a line per record to")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", "The number of replications is low")
    date = datetime.now(UTC).isoformat(timespec="seconds")
    common = {"hyppo": version("hyppo"), "environment": environment(), "date": date}
    lines = []
    for examples, tests in ((DEPENDENCE, OF_PAIRS), (TWO_SAMPLES, OF_SAMPLES)):
        for record in rates(examples, tests, options.rows, options.draws):
            lines.append({name: str(value) for name, value in record.items()})
            if options.json:
                with options.json.open("a") as file:
                    file.write(json.dumps(record | common) + "\n")
    sys.stdout.write(table(lines) + "\n")


if __name__ == "__main__":
    main()
