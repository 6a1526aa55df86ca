"""Exact and local kernel machines: how many times longer other losses take than the squared one.

Everybody gets the same rows, kernel, alpha and tol. A residual is that of the equations of the
rows, s ℓ' + n alpha a, relative to the best constant model; iterations are Newton's steps.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from _side_by_side import Benchmark, Row, repeated
from mercer import KernelClassifier, LocalKernelClassifier
from mercer.datasets import load

SETS = ("cod-rna-train", "letter")
MOST = 5  # times the seconds of the squared loss that others may take
LOSSES = ("squared", "logistic", "squared_hinge", "smooth_hinge")


def rows(name: str, n: int, seed: int) -> tuple[NDArray, NDArray]:
    """Rows drawn from a table, in float32."""
    split = load(name).split(random_state=seed)
    chosen = np.random.default_rng(seed).permutation(len(split.y_train))[:n]
    X = split.X_train[chosen]
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X, np.float32), split.y_train[
        chosen
    ]


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 4000, 10_000, 20_000])
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--machines", nargs="+", default=["exact", "local"])
    parser.add_argument("--tol", type=float, default=1e-2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=200)


def makers(tol: float, n_jobs: int) -> dict[str, Callable[..., Any]]:
    """Machines by name."""
    settings = {"kernel": "gaussian", "tol": tol, "n_jobs": n_jobs}
    return {
        "exact": partial(KernelClassifier, "exact", **settings),
        "local": partial(LocalKernelClassifier, random_state=0, **settings),
    }


def losses_for(y: NDArray) -> tuple[str, ...]:
    return LOSSES if len(np.unique(y)) == 2 else ("squared", "logistic", "multinomial")


def speed_rows(quick: bool = False) -> Iterator[Row]:
    """Lines of the speed table."""
    cases = [(machine, name, 4000) for machine in ("exact", "local") for name in SETS]
    for machine, name, n in cases:
        X, y = rows(name, 300 if quick else n, 200)
        maker = makers(1e-2, 1)[machine]
        fits = {loss: partial(maker(loss=loss).fit, X, y) for loss in losses_for(y)}
        with threadpool_limits(1):
            seconds = repeated(fits, 2)
        squared = seconds.pop("squared")
        for loss, each in seconds.items():
            work = f"{machine} machine: {name}, {len(y)} rows, {loss}"
            yield Row(work, each, "the squared loss", squared, 1 / MOST)


def main() -> None:
    benchmark = Benchmark(__doc__.splitlines()[0], options)
    given = benchmark.options
    made = makers(given.tol, given.threads)
    for machine in given.machines:
        for name in given.sets:
            for n in [300] if benchmark.quick else given.rows:
                X, y = rows(name, n, given.seed)
                if len(y) < n:
                    continue
                models = {loss: made[machine](loss=loss) for loss in losses_for(y)}
                fits = {"mercer " * (loss == "squared") + loss: partial(model.fit, X, y)
                        for loss, model in models.items()}  # fmt: skip
                with threadpool_limits(given.threads):
                    benchmark.compare(f"{machine} machine", {f"{name}, {n} rows": fits})
                reached = (f"{k} {m.optimality_:.0e} ({m.n_iter_})" for k, m in models.items())
                benchmark.write("residual (iterations): " + ", ".join(reached))


if __name__ == "__main__":
    main()
