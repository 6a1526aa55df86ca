"""Choosing gamma and alpha: by held-out rows, or by a criterion of all rows and its gradient."""

from __future__ import annotations

import time
from collections.abc import Callable, Sized
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_regressor

from mercer import solvers
from mercer._runtime.arrays import check_memory
from mercer._runtime.random import RandomStateLike, Slot, Streams, distinct, key_from
from mercer._runtime.rows import PreparedRows, is_sparse
from mercer._runtime.validation import is_name, name_from, real_number
from mercer.designs import Design
from mercer.equations.criteria import LeftOut, Likelihood, likes_own_scales, optimum
from mercer.estimators.preprocessing import TrainingSample
from mercer.estimators.targets import Target
from mercer.kernels import Stationary
from mercer.kernels.groups import OfVarying
from mercer.maps import FeatureMap
from mercer.maps.base import responses
from mercer.problem import Problem

__all__ = [
    "CRITERIA",
    "Choice",
    "Interrupted",
    "Task",
    "checked_path",
    "choose",
    "choose_by",
    "criterion_of",
    "held_out",
    "random_order",
    "split_key",
]

# Criteria that choose gamma and alpha by their gradient, and the fitted attributes of their values.
CRITERIA = {"evidence": "evidence_", "leave-one-out": "left_out_error_"}

# Most rows of a criterion: choosing by more takes minutes on one core.
_CRITERION_ROWS = 2000
_FEWEST_HALVED = 20  # rows: halves of fewer do not tell whether inputs differ in relevance
# Rows, or as many products with fewer columns, up to which every row is left out unasked: about a
# second for every alpha.
_CHEAP_SIDE = 3000


@dataclass
class Task:
    """The alternatives of a choice, and the ways to fit and to judge one."""

    rows: TrainingSample  # scaled
    alphas: list[float] | None  # None where there is nothing to choose
    gammas: list[float] | None
    selection: str  # "auto", "holdout" or "loo"
    fraction: float  # of the rows, held out
    key: Callable[[FeatureMap], int]  # which decides the rows that are held out
    target: Target
    problem: Callable[[Design, TrainingSample], Problem]
    solver: Callable[[Problem], solvers.Solver]


@dataclass
class Choice:
    """The settings to fit all rows with, and the scores of all alternatives."""

    map_: FeatureMap  # unfitted, at the gamma that was chosen
    alpha: Any  # None where there was no choice of it; (L,) where each of several labels has one
    thetas: list[NDArray] | None  # for all rows and every alpha, where judging took them
    tables: dict[str, Any]  # the fitted attributes that tell of the choice


class Interrupted(KeyboardInterrupt):
    """The user stopped a fit to some of the rows; it carries the result so far."""

    def __init__(self, map_: FeatureMap, solver: solvers.Solver, result: solvers.Result):
        super().__init__()
        self.map_, self.solver, self.result = map_, solver, result


@dataclass
class _Trial:
    """The scores of one gamma."""

    scores: NDArray[np.float64]  # one per alpha, or a single one; of several labels one for each
    thetas: list[NDArray] | None
    n_features: int
    seconds: float


def choose(task: Task, map_: FeatureMap) -> Choice:
    """``map_`` at the gamma, and the alpha, that predict best; or ``Interrupted``.

    All gammas share rows and random numbers; alphas share one design.
    """
    alphas, gammas = task.alphas, task.gammas
    if gammas is not None:
        _check_no_other_gamma(map_)
        map_ = map_.with_gamma(gammas[0])
    judge = _Judge(task, map_)
    trials = [judge.trial(_at(map_, gamma)) for gamma in ([None] if gammas is None else gammas)]
    scores = np.array([trial.scores for trial in trials])
    of_gammas = scores.max(axis=1)
    of_gammas = of_gammas if of_gammas.ndim == 1 else of_gammas.mean(axis=1)  # over labels
    best = int(np.argmax(of_gammas))
    winners = [_best_alpha(row, alphas) for row in scores]
    tables: dict[str, Any] = {"selection_": "loo" if judge.leaves_one_out else "holdout"}
    if gammas is not None:
        tables["gamma_path_"] = {
            "gamma": np.array(gammas),
            "score": of_gammas,
            "n_features": np.array([trial.n_features for trial in trials]),
            "seconds": np.array([trial.seconds for trial in trials]),
        }
        if alphas is not None:
            tables["gamma_path_"]["alpha"] = np.array(alphas)[winners]
    alpha = None
    if alphas is not None:
        alpha = np.array(alphas)[winners[best]]
        alpha = alpha if alpha.ndim else float(alpha)
        tables["path_"] = {"alpha": np.array(alphas), "score": scores[best]}
    return Choice(_at(map_, gammas[best] if gammas else None), alpha, trials[best].thetas, tables)


def criterion_of(model: Any) -> str | None:
    """The criterion by which a model chooses gamma and alpha, or None; checks other settings."""
    name = getattr(model, "selection", None)
    if not any(is_name(name, each) for each in CRITERIA):
        return None
    for setting in ("alphas", "gamma_path"):
        path = getattr(model, setting, None)
        if path is not None:
            raise ValueError(
                f"{setting} must be left out beside selection={name!r}, which chooses from all "
                f"positive numbers; got {path!r}."
            )
    loss, penalty = model._loss_, getattr(model, "penalty", "l2")
    fits = is_name(name, "leave-one-out") or is_regressor(model)
    if not (loss.quadratic and is_name(penalty, "l2") and fits):
        kind = "model" if is_name(name, "leave-one-out") else "regressor"
        raise ValueError(
            f"selection={name!r} needs a {kind} with loss='squared' and penalty='l2'; got a "
            f"{type(model).__name__} with loss={loss.name!r} and penalty={penalty!r}."
        )
    return str(name)


def choose_by(
    criterion: str,
    rows: TrainingSample,
    map_: FeatureMap,
    alpha: float,
    fit_intercept: bool,
    key: int,
) -> tuple[FeatureMap, float, dict[str, float]]:
    """``map_`` at the best gammas for scaled rows, alpha, and the criterion's fitted attribute.

    The search starts at the kernel of ``map_``, whose gamma is a number or an array, and at
    ``alpha``, for weights with a mean of 1, whatever their unit. ``key`` decides which rows it
    takes if there are too many, and their halves.
    """
    stated, one, n = map_.stated_kernel(), np.ones((1, 1)), len(rows)
    kernel = stated.kernel if isinstance(stated, OfVarying) else stated
    if not isinstance(kernel, Stationary) or kernel.slope(one, one) is None:
        raise ValueError(
            f"selection={criterion!r} needs the kernel 'gaussian', 'laplacian', 'exponential', "
            f"'matern' or 'rational_quadratic'; got {kernel!r} with {type(map_).__name__}."
        )
    if n < 2:
        raise ValueError(f"selection={criterion!r} needs two rows or more; got n_samples={n}.")
    weights = None if rows.weights is None else rows.weights / np.mean(rows.weights)
    if n > _CRITERION_ROWS:
        few = np.sort(distinct(key, n, _CRITERION_ROWS, Slot.VALIDATION))
        rows, weights = rows.taken(few), None if weights is None else weights[few]
    targets = rows.target.reshape(len(rows), -1).astype(np.float64)
    if fit_intercept:
        targets = targets - targets.mean(axis=0)
    targets = targets[:, targets.any(axis=0)]
    if not targets.size:  # no kernel predicts constant targets better than another
        constant = {"evidence": np.inf, "leave-one-out": 0.0}
        return map_, alpha, {CRITERIA[criterion]: constant[criterion]}
    sizes = np.sqrt(np.mean(np.square(targets), axis=0))
    check_memory(
        24.0 * np.prod(rows.X.shape, dtype=float),
        f"selection={criterion!r} with {len(rows)} dense rows of {rows.X.shape[1]} inputs",
        "give gamma and alpha instead",
    )
    X = rows.X.together() if isinstance(rows.X, PreparedRows) else rows.X
    X = (X.toarray() if is_sparse(X) else X).astype(np.float64)
    X = X[:, stated.places] if isinstance(stated, OfVarying) else X
    kind = Likelihood if criterion == "evidence" else LeftOut
    judged = kind(kernel, X, targets / sizes, weights, fit_intercept)
    start = np.full(X.shape[1], kernel.gamma), alpha * n
    ties = np.zeros(X.shape[1], dtype=np.int64)
    if X.shape[1] > 1 and len(X) >= _FEWEST_HALVED:
        order = random_order(key, len(X))
        if likes_own_scales(judged, *start, order < np.median(order)):
            ties = np.arange(X.shape[1])
    found = optimum(judged, *start, ties)
    if criterion == "evidence":
        value = found.value - len(X) * float(np.sum(np.log(sizes)))  # in units of the targets
    else:
        value = float(np.exp(-found.value / len(X)))
    return map_.with_gamma(found.gamma), found.ridge / n, {CRITERIA[criterion]: value}


@dataclass
class _Judge:
    """Scores of maps on rows that the model has not seen, for several alphas at once."""

    task: Task
    map_: FeatureMap
    leaves_one_out: bool = field(init=False)

    def __post_init__(self) -> None:
        task = self.task
        name = name_from(task.selection, ("auto", "holdout", "loo"), "selection")
        # Unasked, gammas alone are judged by held-out rows: each would take a factor of its own.
        self.undecided = name == "auto" and task.alphas is not None and task.rows.are_here
        self.leaves_one_out = name == "loo"
        if not self.leaves_one_out:
            strata = task.rows.strata(task.target.strata)
            held = held_out(task.key(self.map_), task.rows, strata, task.fraction)
            self.fitted, self.judged = task.rows.taken(~held), task.rows.taken(held)

    def trial(self, map_: FeatureMap) -> _Trial:
        """Scores of a map, which is fitted, at every alpha or at that of the problem."""
        start = time.perf_counter()
        scores, thetas = self._scores(map_)
        seconds = time.perf_counter() - start
        return _Trial(np.array(scores), thetas, map_.n_features_out_, seconds)

    def _scores(self, map_: FeatureMap) -> tuple[list[float], list[NDArray] | None]:
        """Greater is better; solutions for all rows if judging took them."""
        if self.leaves_one_out:
            return self._by_leaving_out(map_)
        problem = self._problem(map_, self.fitted)
        if self.undecided:
            self.undecided = False
            self.leaves_one_out = _is_cheap(problem)
            if self.leaves_one_out:
                return self._by_leaving_out(map_)
        return self._by_held_out(map_, problem), None

    def _by_leaving_out(self, map_: FeatureMap) -> tuple[list[float], list[NDArray]]:
        rows = self.task.rows
        problem = self._problem(map_, rows)
        if "a linear system" not in problem.capabilities:
            raise ValueError(
                "selection='loo' needs a quadratic loss and penalty; got loss "
                f"{problem.loss.name!r} and penalty {problem.penalty.name!r}."
            )
        if problem.n_rows < 2:
            raise ValueError("selection='loo' needs two rows or more; got n_samples=1.")
        alphas = [problem.penalty.alpha] if self.task.alphas is None else self.task.alphas
        scores, thetas = [], []
        for left_out in solvers.leave_one_out(problem, alphas):
            scores.append(self.task.target.score(left_out.predictions, rows))
            thetas.append(left_out.coef)
        return scores, thetas

    def _by_held_out(self, map_: FeatureMap, problem: Problem) -> list[float]:
        solver = self.task.solver(problem)
        if isinstance(solver, solvers.BlockCoordinateDescent):
            solver = replace(solver, checkpoint=None)  # the folder is that of the fit to all rows
        if self.task.alphas is None:
            results = [solver.solve(problem)]
        else:
            results = solver.solve_path(problem, self.task.alphas)
        for result in results:
            if result.interrupted:
                raise Interrupted(map_, solver, result)
        thetas = np.stack([result.coef for result in results])
        answer = partial(responses, map_, thetas, problem.fit_intercept)
        return self.judged.scores(answer, self.task.target.score)

    def _problem(self, map_: FeatureMap, rows: TrainingSample) -> Problem:
        return self.task.problem(rows.fit_design(map_), rows)


def _at(map_: FeatureMap, gamma: float | None) -> FeatureMap:
    return map_ if gamma is None else map_.with_gamma(gamma)


def _is_cheap(problem: Problem) -> bool:
    """True if every row can be left out for little more than one solution costs."""
    n, n_columns = problem.design.shape
    products = float(n) * min(n, n_columns) ** 2  # for every alpha
    return "a linear system" in problem.capabilities and products <= _CHEAP_SIDE**3


def split_key(map_: FeatureMap, random_state: RandomStateLike) -> int:
    """The number that decides which rows are held out: of the map, or of a seed if it has none."""
    if "random_state" in map_.get_params(deep=False):
        return map_.fix_key()
    return key_from(random_state)


def held_out(key: int, rows: Sized, strata: NDArray | None, fraction: Any) -> NDArray[np.bool_]:
    """Mask of held-out rows: a random share, of every class if there are classes."""
    share = real_number(fraction, "validation_fraction")
    if not 0 < share < 1:
        raise ValueError(f"validation_fraction must be above 0 and below 1; got {fraction!r}.")
    n = len(rows)
    drawn = random_order(key, n)
    if strata is None:
        candidates = np.argsort(drawn)
    else:
        _, codes, counts = np.unique(strata, return_inverse=True, return_counts=True)
        candidates = np.lexsort((drawn, codes))
        candidates = candidates[counts[codes[candidates]] > 1]  # a single row is to learn from
    # Rows of a class lie side by side, so every 1/fraction-th of them takes its share of each.
    marks = np.floor(np.arange(len(candidates) + 1) * share + 0.5)
    held = np.zeros(n, dtype=bool)
    held[candidates[np.diff(marks) > 0]] = True
    if held.all() or not held.any():
        raise ValueError(
            f"validation_fraction must leave rows to fit and rows to hold out; got {fraction!r} "
            f"with n_samples={n}."
        )
    return held


def random_order(key: int, n: int) -> NDArray[np.float64]:
    """A number for every row, by whose order rows are held out."""
    return Streams(key, np.arange(n)).uniform(1, Slot.VALIDATION)[:, 0]


def checked_path(values: Any, name: str) -> list[float]:
    """Values to choose from, as positive numbers."""
    path = np.asarray(values)
    if path.ndim != 1 or not len(path) or path.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be a one-dimensional array of numbers; got {values!r}.")
    path = path.astype(np.float64)
    bad = ~(np.isfinite(path) & (path > 0))
    if bad.any():
        raise ValueError(f"{name} must be positive and finite; got {path[int(np.argmax(bad))]}.")
    return path.tolist()


def _best_alpha(scores: NDArray, alphas: list[float] | None) -> Any:
    """The place of the best score, of equal ones that of the strongest penalty; or one per label.

    ``scores`` (n_alphas,) or (n_alphas, L).
    """
    if alphas is None:
        return 0
    if scores.ndim == 2:
        return np.array([_best_alpha(of_label, alphas) for of_label in scores.T])
    tied = np.flatnonzero(scores == scores.max())
    return int(tied[np.argmax(np.array(alphas)[tied])])


def _check_no_other_gamma(map_: FeatureMap) -> None:
    kernel = map_.stated_kernel()
    if kernel is None or kernel.gamma is None:
        raise ValueError(f"gamma_path must be left out for {map_!r}, which has no gamma to choose.")
    if kernel.gamma != "scale":
        raise ValueError(f"gamma must be left out beside gamma_path; got {kernel.gamma!r}.")
