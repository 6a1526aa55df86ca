"""Theorem 1: what whole grids, drawn one after the other, reach, and what is proved of it."""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from mercer.kernels import Laplacian
from mercer.losses import Squared
from mercer.maps import RandomBinning
from mercer.penalties import L1
from mercer.problem import Problem
from mercer.solvers import CoordinateDescent, Stream, WorkingSet
from mercer_studies.random_binning.collisions import collisions
from mercer_studies.random_binning.data import Loaded
from mercer_studies.sparse_features import exact

PROTOCOL = "theorem"
LAM_N = 1.0
"""n λ of these runs: the theorem's proof is for an l1 penalty, which the paper's own runs lack."""

_GAP = 1e-4  # relative duality gap at which a round ends


def theorem(
    loaded: Loaded, *, gamma: float, rows: int, n_grids: int, n_trials: int
) -> dict[str, Any]:
    """The l1 objective after every grid, and the kernel machine that the theorem compares it with.

    The loss is squared, there is no constant term, and targets (of several classes, those of the
    first) have mean square 1. ``rows``: training rows at most; ``n_grids``: R at the end;
    ``n_trials``: sequences of grids. Returns the results of a record: ``course`` has ``grids`` and
    for every trial a list under ``objectives``; ``exact`` the ``objective`` λ‖w*‖ + loss(w*) and
    the ``norm`` ‖w*‖ of the reference; ``start`` is F(0) and ``kappa`` κ̂, the mean over all grids.
    """
    some = loaded.with_rows(rows) if rows < loaded.scaled.X_train.shape[0] else loaded
    X, targets = some.scaled.X_train, some.targets
    y = targets if targets.ndim == 1 else targets[:, 0]
    y = y / np.sqrt(np.mean(y**2))
    n, lam = len(y), LAM_N / len(y)
    K = Laplacian(gamma)(X)
    machine = exact.ridge(K, y, lam, False)
    loss = float(Squared().value(K @ machine.coef, y).mean())
    problem_of = partial(Problem, y=y, loss=Squared(), penalty=L1(lam), fit_intercept=False)
    inner = CoordinateDescent(tol=_GAP, n_jobs=loaded.n_jobs)
    search = WorkingSet(inner, n_new=1, max_rounds=n_grids, tol=0.0, patience=n_grids)
    objectives, kappas, since = [], [], perf_counter()
    for seed in range(n_trials):
        map_ = RandomBinning(gamma=gamma, n_components=2, scale=False, random_state=seed).fit(X)
        found = search.solve(Stream(map_, X), problem_of)
        if found.interrupted:
            raise KeyboardInterrupt
        objectives.append([row.objective for row in found.rounds])
        kappas.append(collisions(map_.set_params(n_components=n_grids).fit(X)).kappa_hat)
    return {
        "data": loaded.describe(),
        "rows": n,
        "alpha": lam,
        "n_features": None,
        "start": 0.5,
        "exact": {"objective": lam * machine.norm + loss, "norm": machine.norm},
        "kappa": float(np.mean(kappas)),
        "course": {"grids": list(range(1, n_grids + 1)), "objectives": objectives},
        "seconds": {"fit": perf_counter() - since},
    }
