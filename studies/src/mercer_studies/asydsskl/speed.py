"""Figure 2: steps on several threads, and steps that see old weights, simulated."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from mercer._runtime.arrays import n_threads
from mercer.compare.records import quiet
from mercer.maps import RandomFourier
from mercer.penalties import L1
from mercer.problem import Problem
from mercer.solvers import CoordinateDescent, Result, step_bounds
from mercer_studies.asydsskl.data import Loaded
from mercer_studies.asydsskl.machines import inner_solver
from mercer_studies.simulators import simulate_delays
from mercer_studies.theory import descent_bound
from mercer_studies.timing import median

_NEAR = 0.1  # simulated runs go to where F - F* is such a share of what it was at the start
_TURNS = 3
_EXACT = 1e-6


def most_threads(n_jobs: int | None, paper: Sequence[int] = (1, 2, 4, 8, 16)) -> tuple[int, ...]:
    """The paper's numbers of threads, as far as there are cores.

    >>> most_threads(3)
    (1, 2)
    """
    return tuple(tau for tau in paper if tau <= n_threads(n_jobs))


def measured(
    loaded: Loaded,
    *,
    method: str,
    taus: Sequence[int],
    rows: int | None,
    fitted: int,
    size: int,
    loops: int,
    seed: int,
) -> dict[str, Any]:
    """Seconds of the asynchronous steps with one thread and with several.

    Numbers of threads take turns, so that a change of the machine's pace falls on all of them.
    Looking for the length of the steps, which one thread does before, does not count. ``method``:
    "asydsskl" or "asydsskl-own"; ``taus``: threads, 1 first; ``size``: random features; ``loops``:
    snapshots. Returns the results of a record; ``curve`` has for every number of threads
    ``seconds`` until F is what one thread has after half of its loops (None where it did not get
    there), and ``pace``, those of a loop. Both are medians of three runs.
    """
    problem, chosen = _problem(loaded, rows, fitted, size, seed, np.float32)
    runs: dict[int, list[Result]] = {tau: [] for tau in taus}
    since = perf_counter()
    for _ in range(_TURNS):
        for tau in taus:
            solver = inner_solver(method, tau, seed, loops)
            solver.tol = _EXACT
            with threadpool_limits(tau), quiet():
                runs[tau].append(solver.solve(problem))
    alone = runs[taus[0]][0].trace
    target = alone[len(alone) // 2].objective
    curve = [{"tau": tau, **_timing(runs[tau], target)} for tau in taus]
    return {
        **_about(loaded, problem, chosen.alpha),
        "target": target,
        "start": problem.value(problem.initial()),
        "curve": curve,
        "seconds": {"fit": perf_counter() - since},
    }


def delayed(
    loaded: Loaded,
    *,
    step_size: float,
    taus: Sequence[int],
    rows: int,
    fitted: int,
    size: int,
    loops: int,
    draws: int,
    seed: int,
) -> dict[str, Any]:
    """Loops of steps that see weights of up to τ steps ago.

    ``step_size``: γ; ``taus``: delays, 0 first; ``size``: random features; ``loops``: snapshots at
    most; ``draws``: runs that a number of loops is the mean of. Returns the results of a record;
    ``curve`` has for every τ the ``loops`` until F is near its minimum, None where it did not get
    there. ``course`` has F - F* after every loop without delay (None where it left the range) and,
    if the loss is convex, what rate (11) allows for these steps under ``allowed``, and for steps as
    long as theory lets them be under ``allowed_short``; ``step_allowed`` has that length for every
    τ.
    """
    problem, chosen = _problem(loaded, rows, fitted, size, seed, np.float64)
    best = _minimum(problem, loaded.n_jobs)
    least, start = problem.value(best), problem.value(problem.initial())
    target = least + _NEAR * (start - least)
    since = perf_counter()
    curve = []
    for tau in taus:
        runs = []
        for draw in range(draws):
            found = simulate_delays(
                problem, tau, step_size, max_iter=loops, random_state=seed + draw
            )
            runs.append(_crossing(np.arange(len(found.objective)), found.objective, target))
            if tau == taus[0] and draw == 0:
                prompt = found.objective
        known = [run for run in runs if run is not None]
        reached = float(np.mean(known)) if len(known) == draws else None
        curve.append({"tau": tau, "loops": reached, "runs": runs})
    return {
        **_about(loaded, problem, chosen.alpha),
        "target": target,
        "start": start,
        "curve": curve,
        **_proved(problem, step_size, taus, best, prompt - least),
        "seconds": {"fit": perf_counter() - since},
    }


def _proved(
    problem: Problem, step_size: float, taus: Sequence[int], best: NDArray, gaps: NDArray
) -> dict[str, Any]:
    """The steps that the paper's theorems allow and, for convex losses, rate (11)."""
    bounds = [step_bounds(problem, tau) for tau in taus]
    measured = [float(gap) if np.isfinite(gap) else None for gap in gaps]
    if not problem.loss.convex:
        return {"course": {"gap": measured}, "step_allowed": [each.nonconvex for each in bounds]}
    allowed = [
        descent_bound(
            np.arange(len(gaps)),
            gaps[0],
            float(np.linalg.norm(best - problem.initial())),
            step_size=length,
            largest=bounds[0].largest,
            n_coordinates=len(best),
            n_inner=problem.n_rows,
        ).tolist()
        for length in (step_size, bounds[0].convex)
    ]
    return {
        "course": {"gap": measured, "allowed": allowed[0], "allowed_short": allowed[1]},
        "step_allowed": [each.convex for each in bounds],
    }


def _problem(
    loaded: Loaded, rows: int | None, fitted: int, size: int, seed: int, dtype: Any
) -> tuple[Problem, Any]:
    """The problem of one round, on features of the width and under the λ chosen for the data."""
    some = loaded.subset(rows, 1)
    chosen = loaded.chosen(rows, fitted)
    map_ = RandomFourier("gaussian", chosen.gamma, size, scale=False, random_state=seed)
    design = map_.fit(some.X.astype(dtype)).design(some.X.astype(dtype))
    return Problem(design, some.y, loaded.loss, L1(chosen.alpha)), chosen


def _minimum(problem: Problem, n_jobs: int | None) -> NDArray:
    """θ at the minimum, or at a stationary point if the loss is not convex."""
    with quiet():
        return CoordinateDescent(tol=_EXACT, n_jobs=n_jobs).solve(problem).coef


def _timing(runs: Sequence[Result], target: float) -> dict[str, Any]:
    """Median seconds to a target, None unless most runs got there, and of a loop."""
    reached = [_seconds_to(run, target) for run in runs]
    return {
        "seconds": median(reached),
        "pace": median([_stepping(run.trace[-1]) / max(1, run.n_iter) for run in runs]),
        "n_iter": runs[-1].n_iter,
        "objective": float(min(row.objective for row in runs[-1].trace)),
    }


def _stepping(row: Any) -> float:
    """Seconds so far, without those in which the length of steps was looked for."""
    return float(row.time - row.phases.get("step size", 0.0))


def _seconds_to(run: Result, target: float) -> float | None:
    seconds = np.array([_stepping(row) for row in run.trace])
    return _crossing(seconds, np.array([row.objective for row in run.trace]), target)


def _crossing(times: Any, values: Any, target: float) -> float | None:
    """When a falling curve, straight between its points, gets to a value."""
    for i, value in enumerate(values):
        if value <= target:
            if i == 0:
                return float(times[0])
            share = (values[i - 1] - target) / (values[i - 1] - value)
            return float(times[i - 1] + share * (times[i] - times[i - 1]))
    return None


def _about(loaded: Loaded, problem: Problem, alpha: float) -> dict[str, Any]:
    return {
        "data": loaded.describe(),
        "rows": problem.n_rows,
        "n_features": problem.design.shape[1],
        "alpha": alpha,
    }
