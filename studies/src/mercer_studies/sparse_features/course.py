"""Figure 1: what Sparse-RF and boosting reach as they draw, and the exact kernel's level."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from mercer.compare.metrics import scores
from mercer.losses import SquaredHinge
from mercer.penalties import L1
from mercer.problem import Problem
from mercer.solvers import CoordinateDescent, Selection, Stream, WorkingSet
from mercer_studies.sparse_features.boosting import Boosting, Perceptrons
from mercer_studies.sparse_features.data import Loaded, Subset, feature_map
from mercer_studies.sparse_features.fits import expansion, kernel_machine

KERNEL = "perceptron"
TOLERANCE = 1e-4


def level(
    loaded: Loaded, *, rows: int | None, test_rows: int | None, lam_n: float, seed: int = 0
) -> dict[str, Any]:
    """The exact kernel machine: λ‖w*‖ plus its loss, the dashed line, and its error.

    There is no constant term, so that the theorem's bound is what it says. ``lam_n``: n λ.
    """
    some = loaded.subset(rows, test_rows)
    lam = lam_n / len(some.y)
    kernel, machine, loss = kernel_machine(some, loaded.task, KERNEL, None, lam, False)
    responses = expansion(kernel, machine, some)
    return {
        "data": loaded.describe(),
        "rows": len(some.y),
        "alpha": lam,
        "norm": machine.norm,
        "loss": loss,
        "objective": lam * machine.norm + loss,
        "model_size": int(np.count_nonzero(machine.coef)),
        "score": {"test": scores(loaded.task, some.y_test, np.where(responses > 0, 1.0, -1.0))},
    }


def search(
    loaded: Loaded,
    *,
    method: str,
    rows: int | None,
    test_rows: int | None,
    lam_n: float,
    size: int,
    n_new: int,
    seed: int,
) -> dict[str, Any]:
    """The objective and the test error after every round of a search.

    ``method``: "sparse-perceptron" or "boosting-perceptron", random perceptrons, or those that a
    surrogate finds; ``lam_n``: n λ; ``size``, ``n_new``: features drawn in all, and in a round.
    Returns the results of a record: ``course`` has a list for each of ``drawn``, ``active``,
    ``seconds``, ``objective`` and ``error``; an empty model comes first.
    """
    some = loaded.subset(rows, test_rows)
    lam = lam_n / len(some.y)
    problem_of = partial(
        Problem, y=some.y, loss=SquaredHinge(), penalty=L1(lam), fit_intercept=False
    )
    inner, n_rounds = CoordinateDescent(tol=TOLERANCE, n_jobs=loaded.n_jobs), -(-size // n_new)
    source: Any
    tool: WorkingSet
    if method == "boosting-perceptron":
        source, tool = Perceptrons(some.X), Boosting(inner, max_rounds=n_rounds)
    else:
        map_ = feature_map(KERNEL, None, 2, seed, loaded.n_jobs).set_params(scale=False)
        source = Stream(map_.fit(some.X), some.X)
        tool = WorkingSet(inner, n_new, n_rounds, tol=0.0, patience=n_rounds)
    errors: list[float] = []
    found = tool.solve(
        source, problem_of, callback=lambda state: errors.append(_error(state, some))
    )
    if found.interrupted:
        raise KeyboardInterrupt
    nothing = float(np.mean(some.y_test != -1.0))  # the sign of 0 is taken for the first class
    rounds = found.rounds
    last = errors[-1] if errors else nothing
    return {
        "data": loaded.describe(),
        "rows": len(some.y),
        "alpha": lam,
        "model_size": found.n_active,
        "score": {"test": {"accuracy": 1.0 - last}},
        "seconds": {"fit": rounds[-1].time if rounds else 0.0},
        "course": {
            "drawn": [0, *(row.n_drawn for row in rounds)],
            "active": [0, *(row.n_active for row in rounds)],
            "seconds": [0.0, *(row.time for row in rounds)],
            "objective": [1.0, *(row.objective for row in rounds)],
            "error": [nothing, *errors],
        },
    }


def _error(found: Selection, some: Subset) -> float:
    """Share of wrong classes on the test part."""
    if found.feature_map is None or not found.n_active:
        return float(np.mean(some.y_test != -1.0))
    responses = found.feature_map.design(some.X_test).matvec(found.coef)
    return float(np.mean(np.where(responses > 0, 1.0, -1.0) != some.y_test))
