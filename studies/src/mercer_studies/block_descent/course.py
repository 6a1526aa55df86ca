"""Figures 1 to 4: the test error after every block or epoch, and what the phases of one take."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from mercer.designs import Dense, Sparse
from mercer.kernels import Linear
from mercer.losses import Squared
from mercer.penalties import L2
from mercer.problem import Problem
from mercer.solvers import ConjugateGradient, Result
from mercer_studies.block_descent.data import Loaded
from mercer_studies.block_descent.systems import prepared, solver_of
from mercer_studies.timing import phase_times


def course(
    loaded: Loaded,
    *,
    block_size: int,
    epochs: int,
    cap: float,
    every: str,
    seed: int,
    accelerated: bool = False,
    **settings: Any,
) -> dict[str, Any]:
    """The test error of a system as blocks pass; judging does not count.

    ``block_size``, ``epochs``: b, and how many times all blocks are visited; ``cap``: seconds after
    which the curve ends; ``every``: "block" or "epoch", when there is a point; ``accelerated``:
    whether the algorithm is this library's form of it, not the paper's; ``settings``: those of
    ``systems.prepared``. Returns the results of a record: ``course`` has a list for each of
    ``epoch`` (a number of blocks over that of all), ``seconds``, ``error``, ``objective`` and
    ``residual`` (None where it was not worked out); ``likeliest`` is the error of stars if the
    likeliest ones are answered, not their mean; ``phases`` has, of points every block, the median
    seconds of a block by phase in the ``first`` epoch and in ``later`` ones.
    """
    made = prepared(loaded, seed=seed, **settings)
    errors: list[float] = []

    def judge(state: Any) -> bool:
        late = state.clock.seconds > cap
        errors.append(loaded.error(made.some, made.responses(state.coef)))
        return bool(late)

    solver = solver_of(block_size, made.problem, epochs, seed, every, accelerated)
    with warnings.catch_warnings():  # it is to stop after so many epochs
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = solver.solve(made.problem, callback=judge)
    points = result.trace[1:]
    n_unknowns = made.problem.design.shape[1]
    per_epoch = -(-n_unknowns // min(block_size, n_unknowns)) if every == "block" else 1
    times = [point.time for point in points]
    return {
        "data": loaded.describe(),
        "score": {"test": loaded.score(made.some, errors[-1])},
        "likeliest": loaded.likeliest(made.some, made.responses(result.coef)),
        "fitted_rows": made.some.X.shape[0],
        "n_outputs": made.problem.n_outputs,
        "n_features": n_unknowns,
        "n_blocks": -(-n_unknowns // min(block_size, n_unknowns)),
        "n_inputs": _inputs(made.some.X),
        "course": {
            "epoch": [(i + 1) / per_epoch for i in range(len(points))],
            "seconds": times,
            "error": errors,
            "objective": [point.objective for point in points],
            "residual": [point.optimality for point in points],
        },
        "phases": _phases(result, per_epoch) if every == "block" else None,
        "capped": len(points) < epochs * per_epoch,
        "seconds": {"fit": times[-1], "first_epoch": times[min(per_epoch, len(times)) - 1]},
        "chosen": {"gamma": made.chosen.gamma, "alpha": made.chosen.alpha},
    }


def linear(
    loaded: Loaded, *, rows: int | None, test_rows: int | None, fitted: int
) -> dict[str, Any]:
    """The test error of ridge regression on the inputs themselves, λ chosen as for the kernel."""
    alpha = loaded.strength(Linear(), fitted)
    some = loaded.subset(rows, test_rows)
    hold = Sparse if loaded.source.is_text else Dense
    problem = Problem(hold(some.X), some.Y, Squared(), L2(alpha))
    result = ConjugateGradient(tol=1e-3).solve(problem)
    w, b = result.coef[:-1], result.coef[-1]
    error = loaded.error(some, hold(some.X_test).matvec(w) + b)
    return {
        "data": loaded.describe(),
        "score": {"test": loaded.score(some, error)},
        "fitted_rows": some.X.shape[0],
        "seconds": {"fit": result.trace[-1].time},
        "chosen": {"gamma": None, "alpha": alpha},
    }


def _phases(result: Result, per_epoch: int) -> dict[str, dict[str, float] | None]:
    """Median seconds of a block by phase, in the first epoch and afterwards."""
    found = phase_times(result)
    parts: dict[str, dict[str, float] | None] = {"first": None, "later": None}
    for name, span in (("first", slice(0, per_epoch)), ("later", slice(per_epoch, None))):
        if len(found["other"][span]):
            parts[name] = {phase: float(np.median(own[span])) for phase, own in found.items()}
    return parts


def _inputs(X: Any) -> float:
    """Inputs of a row, or the mean number of those that are not zero."""
    return float(X.nnz / X.shape[0]) if hasattr(X, "nnz") else float(X.shape[1])
