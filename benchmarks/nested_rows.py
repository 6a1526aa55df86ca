"""Automatic models of nested rows of generated tables: more rows must never make them worse.

Ten generated targets of 2 to 12 inputs, smooth and rough, half of them without noise. ``--grid``
adds the errors of a 5 x 5 grid of gammas and ridges around the chosen ones, each solved at full
size: the chosen settings shall be within 3 % of the least of them, or err by less than .001.

    python benchmarks/nested_rows.py --sizes 2500 5000 10000 --json nested-rows.json
    python benchmarks/nested_rows.py --only arm --sizes 10000 --grid
"""

from __future__ import annotations

import argparse
import json
import resource
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from _side_by_side import environment
from mercer import AutoKernelRegressor
from mercer.auto.trials import Settings, machine_responses
from mercer.auto.tuning import TUNING

N_TEST = 8000
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)  # of the chosen gamma
RIDGES = (16.0, 4.0, 1.0, 0.25, 0.0625)  # of the chosen ridge


def arm(X: NDArray) -> NDArray:
    """Distance of the end of an arm of eight links from a point, by its angles in units of 90°."""
    twists = np.random.default_rng(7).uniform(-np.pi / 2, np.pi / 2, X.shape[1])
    turn, end = np.tile(np.eye(3), (len(X), 1, 1)), np.zeros((len(X), 3))
    for angle, twist in zip(np.pi / 2 * X.T, twists, strict=True):
        cos, sin = np.cos(angle), np.sin(angle)
        about_z, about_x = np.zeros((len(X), 3, 3)), np.eye(3)
        about_z[:, 0, 0], about_z[:, 0, 1] = cos, -sin
        about_z[:, 1, 0], about_z[:, 1, 1], about_z[:, 2, 2] = sin, cos, 1
        about_x[1:, 1:] = [[np.cos(twist), -np.sin(twist)], [np.sin(twist), np.cos(twist)]]
        turn = turn @ about_z @ about_x
        end += turn[:, :, 0] / X.shape[1]
    return np.linalg.norm(end - 0.1, axis=1)


def waves(X: NDArray) -> NDArray:
    """A smooth function of two inputs with some ten hills."""
    return np.sin(5 * X[:, 0]) * np.cos(4 * X[:, 1]) + 0.5 * X[:, 0]


def friedman(X: NDArray) -> NDArray:
    """Friedman's first function of five of the inputs."""
    Z = (X + 1) / 2
    wave = 10 * np.sin(np.pi * Z[:, 0] * Z[:, 1]) + 20 * (Z[:, 2] - 0.5) ** 2
    return wave + 10 * Z[:, 3] + 5 * Z[:, 4]


def corners(X: NDArray) -> NDArray:
    """A rough function: sums of absolute values and of their largest pairs."""
    kinks = np.abs(X) @ np.linspace(1, 0.2, X.shape[1])
    return kinks + 2 * np.maximum(X[:, 0], X[:, 1])


def steps(X: NDArray) -> NDArray:
    """Boxes: a product of signs, and a step."""
    return np.sign(X[:, 0] - 0.2) * np.sign(X[:, 1] + 0.3) + (X[:, 2] > 0)


# Name: function, inputs, noise as a share of the target's deviation.
TARGETS: dict[str, tuple[Callable[[NDArray], NDArray], int, float]] = {
    "arm": (arm, 8, 0.0),
    "waves": (waves, 2, 0.0),
    "friedman": (friedman, 12, 0.0),
    "corners": (corners, 6, 0.0),
    "steps": (steps, 4, 0.0),
    "noisy arm": (arm, 8, 0.1),
    "noisy waves": (waves, 2, 0.3),
    "noisy friedman": (friedman, 12, 0.2),
    "noisy corners": (corners, 6, 0.3),
    "noisy steps": (steps, 4, 0.5),
}


def rows(name: str, n: int, seed: int) -> tuple[NDArray, NDArray]:
    """Generated inputs in [-1, 1] and targets with their noise; fewer rows are the first ones."""
    function, d, noise = TARGETS[name]
    X = np.random.default_rng(seed).uniform(-1, 1, (n, d))
    y = function(X)
    return X, y + noise * y.std() * np.random.default_rng(seed + 1).normal(size=n)


def judged(name: str, sizes: list[int], grid: bool) -> Iterator[dict[str, Any]]:
    """A record per size: errors relative to the target's deviation, seconds, memory."""
    X, y = rows(name, max(sizes), 1)
    X_test, y_test = rows(name, N_TEST, 101)
    for n in sizes:
        start = time.perf_counter()
        model = AutoKernelRegressor(random_state=0).fit(X[:n], y[:n])
        seconds = time.perf_counter() - start
        squares = np.square(model.predict(X_test) - y_test) / y_test.var()
        record = {
            "generated target": name,
            "rows": n,
            "error": float(np.sqrt(squares.mean())),
            "standard error": float(0.5 * squares.std() / np.sqrt(N_TEST * squares.mean())),
            "seconds": round(seconds, 1),
            "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            "settings": {k: model.best_settings_[k] for k in ("kernel", "gamma", "ridge")},
        }
        if grid:
            record["least of the grid"] = least_of_grid(model, X[:n], y[:n], X_test, y_test)
        yield record


def least_of_grid(model: Any, X: NDArray, y: NDArray, X_test: NDArray, y_test: NDArray) -> float:
    """Least relative error over gammas and ridges around the chosen ones, at full size."""
    settings = Settings(**model.best_settings_)
    treat = clone(model.best_estimator_[:-1]).fit(X, y)  # type: ignore[index]
    fitted, held = np.asarray(treat.transform(X)), np.asarray(treat.transform(X_test))
    least, usual = np.inf, TUNING.fine_iter
    TUNING.fine_iter = 300  # of the search: a weak ridge takes more here
    for factor in FACTORS:
        at = replace(settings, gamma=settings.gamma * factor)
        ridges = [settings.ridge * other for other in RIDGES]
        found = machine_responses(at, fitted, held, (y - y.mean())[:, None], ridges, 2e-3)
        errors = [np.square(f[:, 0] + y.mean() - y_test).mean() for f in found if f is not None]
        least = min([least, *errors])
    TUNING.fine_iter = usual
    return float(np.sqrt(least / y_test.var()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[2500, 5000, 10_000])
    parser.add_argument("--only", nargs="+", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--grid", action="store_true")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    records = []
    warnings.simplefilter("ignore")
    for name in given.only:
        last = None
        for record in judged(name, sorted(given.sizes), given.grid):
            steps_up = last is not None and record["error"] - last["error"] > 2 * np.hypot(
                record["standard error"], last["standard error"]
            )
            print("UP " if steps_up else "   ", json.dumps(record), flush=True)  # noqa: T201
            records.append(record)
            last = record
    if given.json is not None:
        given.json.write_text(json.dumps({"machine": environment(), "records": records}, indent=1))


if __name__ == "__main__":
    main()
