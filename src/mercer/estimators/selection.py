"""Choosing gamma and alpha: by held-out rows, or by leaving out every row in closed form."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mercer import solvers
from mercer._random import Slot, Streams, key_from
from mercer._rows import selected
from mercer._validation import name_from
from mercer.maps import FeatureMap
from mercer.problem import Problem

if TYPE_CHECKING:
    from mercer.estimators.base import KernelMachine

__all__ = [
    "Choice",
    "Part",
    "checked_path",
    "chosen",
    "held_out",
    "mean_loss",
    "responses",
    "split_key",
]

# Up to this number of rows, or as many products with fewer columns, every row is left out unasked:
# a second or so for every alpha.
_CHEAP_SIDE = 3000


def chosen(
    machine: KernelMachine,
    map_: FeatureMap,
    X: Any,
    target: NDArray,
    weights: NDArray | None,
    loss: Any,
) -> Choice:
    """``map_`` at the gamma of ``machine.gamma_path`` and the alpha that predict best.

    All gammas see the same rows and the same random numbers, and share one design for all alphas.
    Leaves ``machine.gamma_path_`` and the scores of ``machine.path_`` behind, if there is anything
    to choose.

    Parameters
    ----------
    machine : KernelMachine
    map_ : FeatureMap
    X : array or CSR of shape (n, d), rows to be prepared, or texts
    target : array of shape (n,) or (n, k)
    weights : array of shape (n,) or None
    loss : Loss

    Returns
    -------
    Choice
    """
    data = Part(X, target, weights)
    alphas = None if machine.alphas is None else checked_path(machine.alphas, "alphas")
    gammas: list[Any] = [None]
    if machine.gamma_path is not None:
        gammas[:] = checked_path(machine.gamma_path, "gamma_path")
        _check_no_other_gamma(map_)
        map_ = map_.with_gamma(gammas[0])
    judge = _Judge(machine, map_, data, loss, alphas)
    trials = [_trial(judge, _at(map_, gamma)) for gamma in gammas]
    scores = np.array([trial.scores for trial in trials])
    best = int(np.argmax(scores.max(axis=1)))
    winners = [_best_alpha(row, alphas) for row in scores]
    if machine.gamma_path is not None:
        machine.gamma_path_ = {
            "gamma": np.array(gammas),
            "score": scores.max(axis=1),
            "n_features": np.array([trial.n_features for trial in trials]),
            "seconds": np.array([trial.seconds for trial in trials]),
        }
        if alphas is not None:
            machine.gamma_path_["alpha"] = np.array(alphas)[winners]
    machine.selection_ = "loo" if judge.leaves_one_out else "holdout"
    alpha = None
    if alphas is not None:
        alpha = alphas[winners[best]]
        machine.path_ = {"alpha": np.array(alphas), "score": scores[best]}
    return Choice(_at(map_, gammas[best]), alpha, trials[best].thetas)


@dataclass
class Part:
    """Some rows of the data."""

    X: Any
    target: NDArray
    weights: NDArray | None

    def rows(self, chosen: NDArray[np.bool_]) -> Part:
        """Some of these rows."""
        weights = None if self.weights is None else self.weights[chosen]
        return Part(selected(self.X, np.flatnonzero(chosen)), self.target[chosen], weights)


@dataclass
class Choice:
    """What is to be fitted.

    Attributes
    ----------
    map_ : FeatureMap
        Unfitted, at the gamma that was chosen.
    alpha : float or None
        None where there was no choice of it.
    thetas : list of ndarray or None
        Solutions for all rows and every alpha, where judging them took these.
    """

    map_: FeatureMap
    alpha: float | None
    thetas: list[NDArray] | None


@dataclass
class _Trial:
    """What one gamma gave."""

    scores: NDArray[np.float64]  # one per alpha, or a single one
    thetas: list[NDArray] | None
    n_features: int
    seconds: float


def _at(map_: FeatureMap, gamma: float | None) -> FeatureMap:
    return map_ if gamma is None else map_.with_gamma(gamma)


def _trial(judge: _Judge, map_: FeatureMap) -> _Trial:
    start = time.perf_counter()
    with _quietly():
        scores, thetas = judge.scores(map_)
    return _Trial(np.array(scores), thetas, map_.n_features_out_, time.perf_counter() - start)


class _Judge:
    """How well a map predicts rows that the model has not seen, for several alphas at once."""

    def __init__(
        self,
        machine: KernelMachine,
        map_: FeatureMap,
        data: Part,
        loss: Any,
        alphas: list[float] | None,
    ):
        self.machine, self.data, self.loss, self.alphas = machine, data, loss, alphas
        name = name_from(machine.selection, ("auto", "holdout", "loo"), "selection")
        # Unasked, gammas alone are judged by held-out rows: each would take a factor of its own.
        self._undecided = name == "auto" and alphas is not None
        self.leaves_one_out = name == "loo"
        if not self.leaves_one_out:
            key = split_key(machine, map_)
            strata = machine._strata(data.target)
            held = held_out(key, data.target, strata, machine.validation_fraction)
            self.fitted, self.judged = data.rows(~held), data.rows(held)

    def scores(self, map_: FeatureMap) -> tuple[list[float], list[NDArray] | None]:
        """Of every alpha, or of the machine's own, greater is better; solutions for all rows."""
        if self.leaves_one_out:
            return self._by_leaving_out(map_)
        problem = self._problem(map_, self.fitted)
        if self._undecided:
            self._undecided = False
            self.leaves_one_out = _is_cheap(problem)
            if self.leaves_one_out:
                return self._by_leaving_out(map_)
        return self._by_held_out(map_, problem), None

    def _by_leaving_out(self, map_: FeatureMap) -> tuple[list[float], list[NDArray]]:
        problem = self._problem(map_, self.data)
        if "a linear system" not in problem.capabilities:
            raise ValueError(
                "selection='loo' needs a quadratic loss and penalty; got loss "
                f"{problem.loss.name!r} and penalty {problem.penalty.name!r}."
            )
        if problem.n_rows < 2:
            raise ValueError("selection='loo' needs two rows or more; got n_samples=1.")
        alphas = [problem.penalty.alpha] if self.alphas is None else self.alphas
        scores, thetas = [], []
        for found in solvers.leave_one_out(problem, alphas):
            scores.append(self._score(found.predictions, self.data))
            thetas.append(found.coef)
        return scores, thetas

    def _by_held_out(self, map_: FeatureMap, problem: Problem) -> list[float]:
        machine = self.machine
        solver = solvers.get(machine.solver, problem, tol=machine.tol, max_iter=machine.max_iter)
        if isinstance(solver, solvers.BlockCoordinateDescent):
            solver = replace(solver, checkpoint=None)  # the folder is that of the fit to all rows
        if self.alphas is None:
            results = [solver.solve(problem)]
        else:
            results = solver.solve_path(problem, self.alphas)
        for result in results:
            if result.interrupted:
                machine.feature_map_ = map_
                machine._adopt(solver, result)
        thetas = np.stack([result.coef for result in results])
        found = responses(machine, map_, thetas, self.judged)
        return [self._score(each, self.judged) for each in found]

    def _problem(self, map_: FeatureMap, part: Part) -> Problem:
        design = map_.fit_design(part.X)
        return self.machine._problem(design, part.target, part.weights, self.loss)

    def _score(self, found: NDArray, part: Part) -> float:
        return self.machine._judged(found, part, self.loss)


def _is_cheap(problem: Problem) -> bool:
    """Whether every row can be left out for little more than one solution costs."""
    n, n_columns = problem.design.shape
    products = float(n) * min(n, n_columns) ** 2  # for every alpha
    return "a linear system" in problem.capabilities and products <= _CHEAP_SIDE**3


def mean_loss(found: NDArray, part: Part, loss: Any) -> float:
    """Of the responses to some rows, by their weights; outputs add up as in the objective."""
    values = loss.value(found.astype(np.float64), part.target.astype(np.float64))
    values = values if values.ndim == 1 else values.sum(axis=1)
    return float(np.average(values, weights=part.weights))


def responses(
    machine: KernelMachine, map_: FeatureMap, thetas: NDArray, part: Part
) -> NDArray[np.float64]:
    """Of several models of one map, (q, n) or (q, n, k), with one look at the rows."""
    weights = thetas[:, :-1] if machine.fit_intercept else thetas
    n_responses = thetas[:, 0].size
    beside = np.moveaxis(weights, 1, 0).reshape(weights.shape[1], n_responses)
    found = np.empty((len(part.target), n_responses))
    for rows, design in map_.designs(part.X):
        found[rows] = design.matvec(np.ascontiguousarray(beside))
    found = np.moveaxis(found.reshape(len(found), len(thetas), *thetas.shape[2:]), 1, 0)
    return found + thetas[:, -1:] if machine.fit_intercept else found


def split_key(machine: KernelMachine, map_: FeatureMap) -> int:
    """What decides which rows are held out: the map's realisation, or the seed beside it."""
    if "random_state" in map_.get_params(deep=False):
        return map_.settled()
    return key_from(machine.random_state)


def held_out(key: int, target: NDArray, strata: NDArray | None, fraction: Any) -> NDArray[np.bool_]:
    """Which rows are held out: a random share, of every class if there are classes."""
    if not isinstance(fraction, Real) or isinstance(fraction, (bool, np.bool_)):
        raise TypeError(f"validation_fraction must be a number; got {fraction!r}.")
    share = float(fraction)
    if not 0 < share < 1:
        raise ValueError(f"validation_fraction must be above 0 and below 1; got {fraction!r}.")
    n = len(target)
    drawn = Streams(key, np.arange(n)).uniform(1, Slot.VALIDATION)[:, 0]
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


def checked_path(values: Any, name: str) -> list[float]:
    """Values to choose from, as positive numbers."""
    found = np.asarray(values)
    if found.ndim != 1 or not len(found) or found.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be a one-dimensional array of numbers; got {values!r}.")
    found = found.astype(np.float64)
    bad = ~(np.isfinite(found) & (found > 0))
    if bad.any():
        raise ValueError(f"{name} must be positive and finite; got {found[int(np.argmax(bad))]}.")
    return found.tolist()


def _best_alpha(scores: NDArray, alphas: list[float] | None) -> int:
    """The place of the best score, of equal ones that of the strongest penalty."""
    if alphas is None:
        return 0
    tied = np.flatnonzero(scores == scores.max())
    return int(tied[np.argmax(np.array(alphas)[tied])])


@contextmanager
def _quietly() -> Iterator[None]:
    """Without what the fit on everything says once."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "bins with faded edges")
        yield


def _check_no_other_gamma(map_: FeatureMap) -> None:
    kernel = map_.stated_kernel()
    if kernel is None or kernel.gamma is None:
        raise ValueError(f"gamma_path must be left out for {map_!r}, which has no gamma to choose.")
    if kernel.gamma != "scale":
        raise ValueError(f"gamma must be left out beside gamma_path; got {kernel.gamma!r}.")
