"""What the loss of workers costs a fit on Dask: what was killed when, the error, rebuilds, seconds.

    python benchmarks/cluster_faults.py

Every fit is compared with that of one process; lost are the seconds beyond those of a fit without a
fault just before.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
import warnings
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from _clusters import cluster, mend, pids
from _distributed_parts import arm, disarm
from mercer import KernelClassifier, KernelRegressor, maps, solvers
from mercer.dask.engine import DaskEngine
from mercer.distributed import Shard
from mercer.distributed.fitting import fit_machine

NORMAL = "mercer.distributed.normal:NormalPart"
PROBLEM = "mercer.distributed.parts:DesignPart"
# What happens, in which call of what on one worker.
FAULTS = {
    "block descent": {
        "Gram product, kill -9": [(f"{NORMAL}.gram", 3, signal.SIGKILL)],
        "block of the residual, kill -9": [(f"{NORMAL}.block", 5, signal.SIGKILL)],
        "update, kill -9": [(f"{NORMAL}.advanced", 5, signal.SIGKILL)],
        "solve, kill -9": [("mercer.distributed.solves:_factor", 2, signal.SIGKILL)],
        "Gram product, then its rebuild, kill -9": [
            (f"{NORMAL}.gram", 3, signal.SIGKILL),
            (f"{NORMAL}.derived", 1, signal.SIGKILL),
        ],
        "twice: update 3 and update 9, kill -9": [
            (f"{NORMAL}.advanced", 3, signal.SIGKILL),
            (f"{NORMAL}.advanced", 9, signal.SIGKILL),
        ],
        "update, worker hangs (SIGSTOP)": [(f"{NORMAL}.advanced", 5, signal.SIGSTOP)],
    },
    "Newton": {
        "product, kill -9": [(f"{PROBLEM}.product", 4, signal.SIGKILL)],
        "evaluation, kill -9": [(f"{PROBLEM}.evaluate", 3, signal.SIGKILL)],
    },
}


def models(n_components: int) -> dict[str, object]:
    """Unfitted models by solver."""
    fourier = maps.RandomFourier(n_components=n_components)
    settings = {"block_size": n_components // 4, "max_iter": 3, "tol": 0.0, "accelerated": False}
    descent = solvers.BlockCoordinateDescent(**settings)
    common = {"feature_map": fourier, "random_state": 100, "alpha": 1e-3}
    return {
        "block descent": KernelRegressor(**common, solver=descent),
        "Newton": KernelClassifier(**common, loss="logistic", tol=1e-8),
    }


def rows(n: int, seed: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 10))
    return X, np.sin(X @ rng.normal(size=10)) + 0.1 * rng.normal(size=n)


def fit(client, model, X, y, timeout=5.0):
    """The model fitted over three shards, seconds, and workers that were removed."""
    edges = np.linspace(0, len(X), 4).astype(int)
    shards = [client.submit(Shard, X[a:b], y[a:b], pure=False) for a, b in pairwise(edges)]
    engine = DaskEngine(client, shards, timeout=timeout)
    start = time.perf_counter()
    try:
        fitted = fit_machine(clone(model), engine)
        return fitted, time.perf_counter() - start, engine.removed
    finally:
        engine.close()


def error(fitted, local) -> float:
    """The largest difference of coefficients, relative to the largest one."""
    expected = local.map_coef_
    return float(np.abs(fitted.map_coef_ - expected).max() / np.abs(expected).max())


def fault(client, model, X, y, places, folder):
    """A fit in which workers are lost."""
    mend(client, 3)
    before = pids(client)
    for place, at, number in places:
        client.run(arm, place, folder, at, number)
    try:
        return fit(client, model, X, y)
    finally:
        client.run(disarm, on_error="ignore")
        for pid in before.values():  # whoever is stopped cannot be told
            with suppress(ProcessLookupError):
                if any(number == signal.SIGSTOP for *_, number in places):
                    os.kill(pid, signal.SIGKILL)


def tell(*cells: object) -> None:
    """A row of the table."""
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)  # noqa: T201


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=6_000)
    parser.add_argument("--components", type=int, default=256)
    options = parser.parse_args()
    X, y = rows(options.rows)
    targets = {"block descent": y, "Newton": y > 0}
    tell("solver", "fault", "happened", "error", "shards rebuilt", "seconds", "lost")
    tell(*["---"] * 7)
    warnings.simplefilter("ignore", ConvergenceWarning)  # a few epochs tell as much as many
    with cluster(3) as client:
        for solver, model in models(options.components).items():
            t = targets[solver]
            local = model.fit(X, t)
            plain = partial(fit, client, model, X, t)
            plain()
            fitted, usual, _ = plain()
            tell(solver, "none", "", f"{error(fitted, local):.0e}", 0, f"{usual:.1f}", "")
            for name, places in FAULTS[solver].items():
                mend(client, 3)
                _, usual, _ = plain()  # just before: other work on this machine comes and goes
                with tempfile.TemporaryDirectory() as folder:
                    fitted, seconds, _ = fault(client, model, X, t, places, folder)
                    happened = f"{len(list(Path(folder).iterdir()))} of {len(places)}"
                tell(
                    solver,
                    name,
                    happened,
                    f"{error(fitted, local):.0e}",
                    fitted.n_rebuilt_,
                    f"{seconds:.1f}",
                    f"{seconds - usual:.1f}",
                )


if __name__ == "__main__":
    main()
