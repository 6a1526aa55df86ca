"""Section 3.2: several λ at once against one."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from mercer_studies.block_descent.data import Loaded
from mercer_studies.block_descent.systems import prepared, solver_of
from mercer_studies.timing import RUNS


def path(
    loaded: Loaded, *, block_size: int, epochs: int, n_alphas: int, seed: int, **settings: Any
) -> dict[str, Any]:
    """Seconds of one λ and of several that share blocks, for the same number of epochs.

    ``n_alphas``: λ of the path, the chosen one among them; ``settings``: those of
    ``systems.prepared``. Returns the results of a record: ``seconds`` with ``one`` and ``path``,
    medians of three runs, ``ratio``, ``alphas`` and their ``errors``, and ``away``: how far the
    path's solution for the chosen λ is from that of one alone, relative to its size.
    """
    made = prepared(loaded, seed=seed, **settings)
    alphas = _around(made.chosen.alpha, n_alphas)
    solver = solver_of(block_size, made.problem, epochs, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        runs = [
            (solver.solve(made.problem), solver.solve_path(made.problem, alphas))
            for _ in range(RUNS)
        ]
    before, found = runs[0]
    one = float(np.median([alone.trace[-1].time for alone, _ in runs]))
    several = float(np.median([max(one.trace[-1].time for one in many) for _, many in runs]))
    shared = found[alphas.index(made.chosen.alpha)].coef
    errors = [loaded.error(made.some, made.responses(result.coef)) for result in found]
    return {
        "data": loaded.describe(),
        "score": {"test": loaded.score(made.some, min(errors))},
        "fitted_rows": made.some.X.shape[0],
        "n_features": made.problem.design.shape[1],
        "seconds": {"fit": several, "one": one, "path": several},
        "ratio": several / one,
        "alphas": alphas,
        "errors": errors,
        "away": float(np.linalg.norm(shared - before.coef) / np.linalg.norm(before.coef)),
        "chosen": {"gamma": made.chosen.gamma, "alpha": made.chosen.alpha},
    }


def _around(alpha: float, count: int) -> list[float]:
    """``count`` strengths, half a decade apart, around a given one."""
    return [alpha if 2 * i == count else alpha * 10.0 ** (count / 4 - i / 2) for i in range(count)]
