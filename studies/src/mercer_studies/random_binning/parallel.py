"""Figure 6: how much faster coordinate descent is on several processors, measured and simulated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from mercer._runtime.arrays import n_threads
from mercer.designs import Dense
from mercer.losses import Squared, SquaredHinge
from mercer.maps import FeatureMap, RandomBinning, RandomFourier
from mercer.penalties import L1
from mercer.problem import Problem
from mercer.solvers import CoordinateDescent, Result
from mercer.solvers.coordinate import eso_factor
from mercer_studies.plans import Loading, called
from mercer_studies.random_binning.data import Loaded, Source, load
from mercer_studies.runner import Cell, Stage
from mercer_studies.simulators import simulate_rounds

FIGURE = 6
PROTOCOL = "parallel"

METHODS = {"binning": "random binning", "fourier": "random Fourier"}
MODES = {"binning": ("async", "safe", "auto"), "fourier": ("async", "safe")}
STEPS = ("safe", "plain")

_STRENGTH = 0.01  # λ as a share of the least that leaves no weights
_NEAR = 0.01  # simulated runs end when F - F* is such a share of what it was at the start
_EXACT = 1e-7
_MOST_RUNS = 7


@dataclass(frozen=True)
class Parallel:
    """Sizes of the runs of Figure 6.

    ``rows``, ``size``: rows of the measured runs; grids of random binning, and random Fourier
    features, so that both matrices have as many entries; ``few_rows``, ``few_grids``,
    ``few_columns``: rows, grids and Fourier features of the simulated ones; ``budget``: runs are
    timed again, all numbers of threads in turn, while that has taken fewer seconds.
    """

    datasets: tuple[str, ...]
    rows: int = 10_000
    size: int = 128
    few_rows: int = 500
    few_grids: int = 16
    few_columns: int = 100
    taus: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)  # processors that are simulated
    draws: int = 3  # simulated runs that a number of rounds is the mean of
    epochs: int = 200  # a simulated run on one processor ends after so many steps for every column
    tol: float = 1e-3  # relative duality gap that the measured runs go to
    budget: float = 6.0


PARALLEL = {
    "tiny": Parallel(
        ("generated-regression",),
        rows=200,
        size=8,
        few_rows=60,
        few_grids=6,
        few_columns=24,
        taus=(1, 4, 16),
        draws=1,
        epochs=20,
        budget=0.0,
    ),
    "laptop": Parallel(("cadata", "ijcnn1-train", "cod-rna-train")),
    "paper": Parallel(
        ("cadata", "ijcnn1", "cod-rna"),
        rows=50_000,
        size=256,
        few_rows=2000,
        few_grids=32,
        few_columns=400,
        budget=120.0,
    ),
}


def measured(
    loaded: Loaded,
    *,
    method: str,
    mode: str,
    taus: Sequence[int],
    rows: int,
    size: int,
    gamma: float,
    seed: int,
    tol: float,
    budget: float = 0.0,
) -> dict[str, Any]:
    """Seconds of coordinate descent with one thread, and with several.

    ``method``: "binning" or "fourier"; ``mode``: "async", "safe" or "auto", how threads share the
    columns: without waiting for each other, by safe steps, or a whole grid at once; see
    :class:`mercer.solvers.CoordinateDescent`; ``taus``: threads; they take turns, so that a change
    of the machine's pace falls on all of them; ``rows``, ``size``: training rows; grids, or Fourier
    features; ``tol``: relative duality gap to reach; ``budget``: seconds after which no further
    turn is begun. Returns the results of a record; ``curve`` has the median seconds of every number
    of threads.
    """
    problem = _problem(loaded, method, np.float32, rows, size, gamma, seed)
    runs: dict[int, list[float]] = {tau: [] for tau in taus}
    found: dict[int, Result] = {}
    since = perf_counter()
    for turn in range(_MOST_RUNS + 1):
        for tau in taus:
            seconds, found[tau] = _timed(problem, mode, tau, tol)
            if turn:  # the first one touches all memory once
                runs[tau].append(seconds)
        if turn and perf_counter() - since > budget:
            break
    curve = [
        {
            "tau": tau,
            "seconds": float(np.median(runs[tau])),
            "n_iter": found[tau].n_iter,
            "converged": found[tau].converged,
            "objective": problem.value(found[tau].coef),
        }
        for tau in taus
    ]
    return {
        **_about(loaded, problem, taus),
        "curve": curve,
        "runs": {str(tau): seconds for tau, seconds in runs.items()},
        "seconds": {"fit": perf_counter() - since},
    }


def simulated(
    loaded: Loaded,
    *,
    method: str,
    mode: str,
    taus: Sequence[int],
    rows: int,
    size: int,
    gamma: float,
    seed: int,
    epochs: int,
    draws: int = 1,
) -> dict[str, Any]:
    """Rounds of coordinate descent in which τ random columns move at once.

    ``method``: "binning" or "fourier"; ``mode``: "safe", "strict" or "plain", see
    :func:`mercer_studies.simulators.simulate_rounds`; ``taus``: processors, one first; ``rows``,
    ``size``: training rows; grids, or Fourier features; ``epochs``: on one processor a run ends
    after so many steps for every column, on several after twice the rounds of one; ``draws``: runs,
    each with columns drawn anew, that a number of rounds is the mean of. Returns the results of a
    record; ``curve`` has for every τ the ``rounds`` to within a hundredth of the way to the
    minimum, None where it was not reached.
    """
    problem = _problem(loaded, method, np.float64, rows, size, gamma, seed)
    since = perf_counter()
    best = problem.value(CoordinateDescent(tol=_EXACT).solve(problem).coef)
    start = problem.value(problem.initial())
    target = best + _NEAR * (start - best)
    most, curve = epochs * problem.design.shape[1], []
    for tau in taus:
        runs = [_rounds(problem, tau, mode, most, target, seed + draw) for draw in range(draws)]
        known = [rounds for rounds in runs if rounds is not None]
        reached = float(np.mean(known)) if len(known) == draws else None
        curve.append({"tau": tau, "rounds": reached, "runs": runs})
        if tau == 1:
            most = min(most, 2 * max(known, default=most))
    return {
        **_about(loaded, problem, taus),
        "curve": curve,
        "target": target,
        "seconds": {"fit": perf_counter() - since},
    }


def _rounds(
    problem: Problem, tau: int, mode: str, most: int, target: float, seed: int
) -> int | None:
    """Rounds to the target; None where they are too few."""
    width = min(tau, problem.design.shape[1])
    found = simulate_rounds(problem, width, mode, n_rounds=most, target=target, random_state=seed)
    return len(found.objective) - 1 if found.objective[-1] <= target else None


def _timed(problem: Problem, mode: str, tau: int, tol: float) -> tuple[float, Result]:
    """Seconds of one solution, and what it found."""
    solver = CoordinateDescent(
        tol=tol,
        max_iter=2000,
        n_jobs=tau,
        method="descent",
        mode=mode,
        order="cyclic" if mode == "auto" else "permuted",  # cyclic goes grid by grid
    )
    with threadpool_limits(tau):
        since = perf_counter()
        result = solver.solve(problem)
        seconds = perf_counter() - since
    if result.interrupted:
        raise KeyboardInterrupt
    return seconds, result


def _problem(
    loaded: Loaded, method: str, dtype: Any, rows: int, size: int, gamma: float, seed: int
) -> Problem:
    """The l1 problem on some rows, without a constant term, at a fixed share of the largest λ."""
    some = loaded.with_rows(rows)
    X = some.scaled.X_train.astype(dtype)
    kind = RandomBinning if method == "binning" else RandomFourier
    map_: FeatureMap = kind(
        kernel="laplacian", gamma=gamma, n_components=size, random_state=seed, n_jobs=loaded.n_jobs
    )
    design = map_.fit_design(X) if method == "binning" else Dense(map_.fit_transform(X))
    loss = Squared() if loaded.task == "regression" else SquaredHinge()
    y = _target(some)
    first = Problem(design, y, loss, L1(1.0), fit_intercept=False)
    penalty = L1(_STRENGTH * first.alpha_max())
    return Problem(design, y, loss, penalty, fit_intercept=False)


def _target(loaded: Loaded) -> NDArray:
    """Standardised responses, or ±1; of several classes, the first against the others."""
    if loaded.task == "regression":
        y = loaded.targets - loaded.targets.mean()
        return y / y.std()
    return loaded.targets if loaded.targets.ndim == 1 else loaded.targets[:, 0]


def _about(loaded: Loaded, problem: Problem, taus: Sequence[int]) -> dict[str, Any]:
    """Entries of a record on data and columns, and the speed-up that the theory guarantees."""
    n, n_columns = problem.design.shape
    omega = max(1, int(np.diff(problem.design.tocsr().indptr).max(initial=1)))
    widths = [min(tau, n_columns) for tau in taus]
    return {
        "data": loaded.describe(),
        "rows": n,
        "n_features": n_columns,
        "omega": omega,
        "alpha": problem.penalty.alpha,
        "predicted": [width / eso_factor(omega, width, n_columns) for width in widths],
    }


# --- what is run -----------------------------------------------------------------------------


def stages(
    sources: Sequence[Source], wanted: Sequence[str], scale: str, n_jobs: int | None
) -> list[Stage]:
    """A stage for every data set: threads there are, then processors that are simulated.

    ``sources``: all that are declared; ``wanted``: names of data sets; empty for those of the
    scale; ``n_jobs``: most threads; None means all cores.
    """
    plan = PARALLEL[scale]
    names = wanted or plan.datasets
    return [_stage(source, plan, n_jobs) for source in sources if source.name in names]


def _stage(source: Source, plan: Parallel, n_jobs: int | None) -> Stage:
    gamma, n = source.window[len(source.window) // 2], source.shape()[0]
    common: dict[str, Any] = {"protocol": PROTOCOL, "data_name": source.name}
    common |= {"inputs": source.inputs, "test_share": source.test_share}
    fit: dict[str, Any] = {"gamma": gamma, "seed": 0}
    threads = {"taus": _doubled(n_threads(n_jobs)), "rows": min(plan.rows, n), "size": plan.size}
    threads |= {**fit, "tol": plan.tol, "budget": plan.budget}
    cells = [
        _cell("measured", common, {"method": method, "mode": mode, **threads}, 1.3 * plan.budget)
        for method, modes in MODES.items()
        for mode in modes
    ]
    for method in METHODS:
        size = plan.few_grids if method == "binning" else plan.few_columns
        rounds: dict[str, Any] = {
            "taus": list(plan.taus),
            "rows": min(plan.few_rows, n),
            "size": size,
        }
        rounds |= {**fit, "epochs": plan.epochs, "draws": plan.draws}
        cost = 1e-6 * rounds["rows"] * size * plan.epochs * plan.draws
        cells += [
            _cell("simulated", common, {"method": method, "mode": mode, **rounds}, cost)
            for mode in STEPS
        ]
    return Stage(f"{source.name}, threads", lambda found: cells, Loading(load, source, n_jobs))


def _cell(kind: str, common: dict[str, Any], settings: dict[str, Any], cost: float) -> Cell:
    method, mode = settings["method"], settings["mode"]
    run = measured if kind == "measured" else simulated
    return Cell(
        {**common, "kind": kind, **settings},
        called(run, settings),
        cost,
        f"{METHODS[method]}, {mode} steps, {kind}",
        kind=f"{kind} {method} {mode}",
        notes={"label": METHODS[method], "figures": [FIGURE]},
    )


def _doubled(most: int) -> list[int]:
    """1, 2, 4, ... and the most.

    >>> _doubled(6)
    [1, 2, 4, 6]
    """
    found = [2**power for power in range(most.bit_length()) if 2**power < most]
    return [*found, most]
