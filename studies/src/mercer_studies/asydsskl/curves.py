"""Figure 1, a to f: what every method reaches on the test part as the seconds of training pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import SVC, SVR

from mercer.kernels import Gaussian
from mercer.losses import Logistic, Squared
from mercer.maps import RandomFourier
from mercer.penalties import L1
from mercer.problem import Problem
from mercer.solvers import DoublySGD, PairwiseCD, Selection, polished
from mercer.solvers.dual.base import DualSolver, DualState
from mercer_studies.asydsskl.data import Chosen, Loaded, Subset, error_of, score_of
from mercer_studies.asydsskl.greedy import AsyncGreedyCD
from mercer_studies.asydsskl.machines import (
    EPSILON,
    SPARSE,
    dual_of,
    expansion,
    inner_solver,
    responses_of,
    selected,
)

_FIRST, _NEXT = 0.02, 1.7  # seconds of the first point of a curve, and their ratio
_PARTS = (32, 16, 8, 4, 2, 1)  # of the rows, for machines that have no stages
_GROWTH = 2.3  # exponent of rows in their seconds
_CACHE = 200.0
_MOST_STEPS = 400


@dataclass
class _Course:
    """A curve as it grows; seconds are those since its start, without what judging it takes."""

    loaded: Loaded
    some: Subset
    cap: float
    points: dict[str, list[float]] = field(
        default_factory=lambda: {"seconds": [], "error": [], "size": []}
    )
    stopped: bool = False
    _paused: float = 0.0
    _since: float = field(default_factory=perf_counter)

    @property
    def seconds(self) -> float:
        return perf_counter() - self._since - self._paused

    def add(self, seconds: float, responses: NDArray, size: int) -> None:
        self.points["seconds"].append(seconds)
        self.points["error"].append(error_of(self.loaded.task, self.some, responses))
        self.points["size"].append(size)

    def watched(self, found: Callable[[], tuple[NDArray, int]]) -> bool:
        """A point, if it is time for one; whether time is up."""
        stopped = perf_counter()
        now = self.seconds
        last = self.points["seconds"][-1] if self.points["seconds"] else _FIRST / _NEXT
        if now >= _NEXT * last or now > self.cap:
            self.add(now, *found())
        self.stopped = now > self.cap
        self._paused += perf_counter() - stopped
        return self.stopped


def course(
    loaded: Loaded,
    *,
    method: str,
    rows: int | None,
    test_rows: int | None,
    fitted: int,
    n_new: int,
    n_rounds: int,
    cap: float,
    seed: int,
) -> dict[str, Any]:
    """The test error of a method against its seconds.

    ``n_new``, ``n_rounds``: R and M; ``cap``: seconds after which a curve ends. Returns the results
    of a record: ``course`` has a list for each of ``seconds``, ``error`` and ``size``, and of
    ``objective`` for sparse models; ``capped`` says whether it was cut off. After asynchronous
    steps ``polished`` has ``model_size`` and ``error`` once polished.
    """
    some = loaded.subset(rows, test_rows)
    chosen = loaded.chosen(rows, fitted)
    grown = _Course(loaded, some, cap)
    if method in SPARSE:
        details = _sparse(grown, chosen, method, n_new, n_rounds, seed)
    elif method == "svc":
        details = _machine(grown, chosen)
    elif method == "doubly":
        details = _doubly(grown, chosen, seed)
    else:
        details = _dual(grown, chosen, dual_solver(method, loaded.n_jobs, seed))
    points = grown.points
    return {
        "data": loaded.describe(),
        "rows": len(some.y),
        "test_rows": len(some.y_test),
        "chosen": asdict(chosen),
        "size": None,
        "model_size": int(points["size"][-1]),
        "score": {"test": score_of(loaded.task, some, points["error"][-1])},
        "seconds": {"fit": points["seconds"][-1]},
        "course": points,
        "capped": grown.stopped,
        **details,
    }


def dual_solver(method: str, n_jobs: int | None, seed: int) -> DualSolver:
    """The solver of a support vector machine's dual.

    ``method``: "libsvm-p" or "asygcd".

    >>> dual_solver("asygcd", 1, 0).name
    'greedy'
    """
    common: dict[str, Any] = {"n_jobs": n_jobs, "cache_size": _CACHE}
    if method == "asygcd":
        return AsyncGreedyCD(**common, random_state=seed)
    return PairwiseCD(**common)


def doubly(
    loaded: Loaded,
    some: Subset,
    chosen: Chosen,
    seed: int,
    callback: Callable[[Any], bool] | None = None,
    max_iter: int = _MOST_STEPS,
) -> Any:
    """Doubly stochastic gradients with the logistic loss, in blocks with a preconditioner.

    ``callback``: sees the expansion after every step.
    """
    map_ = RandomFourier(
        "gaussian", chosen.gamma, 2, scale=False, random_state=seed, n_jobs=loaded.n_jobs
    )
    solver = DoublySGD(alpha=1.0 / (chosen.C * len(some.y)), max_iter=max_iter)
    target = some.y.astype(some.X.dtype)
    return solver.solve(map_.fit(some.X), some.X, target, Logistic(), callback=callback)[0]


def _sparse(
    grown: _Course, chosen: Chosen, method: str, n_new: int, n_rounds: int, seed: int
) -> dict[str, Any]:
    """A point after every round."""
    loaded, some = grown.loaded, grown.some

    def judged(found: Selection) -> bool:
        seconds = found.rounds[-1].time
        grown.add(seconds, responses_of(found, some.X_test), found.n_active)
        grown.points.setdefault("objective", []).append(found.rounds[-1].objective)
        grown.stopped = len(found.rounds) < n_rounds and seconds > grown.cap
        return grown.stopped

    inner = inner_solver(method, loaded.n_jobs, seed)
    loss = Squared() if method == "squared" else loaded.loss
    alpha = chosen.alpha_squared if method == "squared" else chosen.alpha
    found = selected(
        some.X, some.y, chosen.gamma, loss, alpha, inner, n_new, n_rounds, seed, callback=judged
    )
    row = found.rounds[-1]
    details = {"n_drawn": found.n_drawn, "objective": row.objective, "phases": row.phases}
    if method.startswith("asydsskl"):
        problem_of = partial(Problem, y=some.y, loss=loss, penalty=L1(alpha))
        after = polished(found, problem_of, loaded.n_jobs)
        error = error_of(loaded.task, some, responses_of(after, some.X_test))
        details["polished"] = {"model_size": after.n_active, "error": error}
    return details


def _machine(grown: _Course, chosen: Chosen) -> dict[str, Any]:
    """scikit-learn's machine on more and more of the rows: it shows nothing while it works."""
    some = grown.some
    X, X_test = (
        part.astype(np.float64) if isinstance(part, np.ndarray) else part
        for part in (some.X, some.X_test)
    )
    common = {"C": chosen.C, "gamma": chosen.gamma, "cache_size": _CACHE}
    n, spent, before = len(some.y), 0.0, 0
    for part in _PARTS:
        size = max(n // part, 20)
        if size == before:
            continue
        if before and spent * (size / before) ** _GROWTH > grown.cap:
            grown.stopped = True
            break
        if grown.loaded.task == "regression":
            model: Any = SVR(epsilon=EPSILON, **common)
        elif len(np.unique(some.y[:size])) == 2:
            model = SVC(**common)
        else:
            continue
        since = perf_counter()
        model.fit(X[:size], some.y[:size])
        spent, before = perf_counter() - since, size
        answer = model.predict if grown.loaded.task == "regression" else model.decision_function
        grown.add(spent, answer(X_test), len(model.support_))
    return {"fitted_rows": before}


def _dual(grown: _Course, chosen: Chosen, solver: DualSolver) -> dict[str, Any]:
    """Coefficients on their way."""
    some, kernel = grown.some, Gaussian(chosen.gamma)

    def responses(coef: NDArray, constant: float) -> tuple[NDArray, int]:
        used = np.flatnonzero(coef)
        found = expansion(kernel, some.X[used], coef[used], constant, some.X_test)
        return found, len(used)

    def watch(state: DualState) -> bool:
        def now() -> tuple[NDArray, int]:
            constant = state.dual.intercept(state.b, state.sums) if solver.has_intercept else 0.0
            return responses(state.coef, constant)

        return grown.watched(now)

    machine = solver.prepare(kernel, some.X)
    found = machine.solve(dual_of(grown.loaded.task, some.y, chosen.C), watch)
    if found.interrupted:
        raise KeyboardInterrupt
    if not grown.stopped:
        grown.add(grown.seconds, *responses(found.coef, found.intercept))
    return {
        "objective": found.objective,
        "dual_gap": found.dual_gap,
        "n_updates": found.n_iter,
        "n_kernel_rows": found.n_rows_made,
    }


def _doubly(grown: _Course, chosen: Chosen, seed: int) -> dict[str, Any]:
    """A point after some steps."""
    some = grown.some

    def watch(f: Any) -> bool:
        return grown.watched(lambda: (f.responses(some.X_test), f.n_features))

    f = doubly(grown.loaded, some, chosen, seed, watch)
    if not grown.stopped:
        grown.add(grown.seconds, f.responses(some.X_test), f.n_features)
    return {"n_features": f.n_features}
