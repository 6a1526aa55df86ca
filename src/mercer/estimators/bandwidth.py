"""Choosing gamma on held-out rows: one realisation of the map, tried at several scales."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mercer import solvers
from mercer._random import Slot, Streams
from mercer._rows import selected
from mercer.designs import Design
from mercer.maps import FeatureMap

if TYPE_CHECKING:
    from mercer.estimators.base import KernelMachine

__all__ = ["Part", "at_chosen_gamma", "held_out", "mean_loss"]


def at_chosen_gamma(
    machine: KernelMachine,
    map_: FeatureMap,
    X: Any,
    target: NDArray,
    weights: NDArray | None,
    loss: Any,
) -> FeatureMap:
    """``map_``, unfitted, at the gamma of ``machine.gamma_path`` that predicts held-out rows best.

    All scales see the same rows and the same random numbers, so that they differ in gamma alone.
    Leaves ``machine.gamma_path_`` behind.
    """
    path = _checked_path(machine.gamma_path)
    _check_no_other_gamma(map_)
    map_ = map_.with_gamma(path[0])
    held = held_out(map_, target, machine._strata(target), machine.validation_fraction)
    everything = Part(X, target, weights)
    fitted, judged = everything.rows(~held), everything.rows(held)
    scores, n_features, seconds = [], [], []
    for gamma in path:
        start = time.perf_counter()
        map_ = map_.with_gamma(gamma)
        with warnings.catch_warnings():  # the fit on everything says it, once
            warnings.filterwarnings("ignore", "bins with faded edges")
            design = map_.fit_design(fitted.X)
        theta = _solution(machine, map_, design, fitted, loss)
        del design  # before the next one is made
        scores.append(-mean_loss(machine, map_, theta, judged, loss))
        n_features.append(map_.n_features_out_)
        seconds.append(time.perf_counter() - start)
    machine.gamma_path_ = {
        "gamma": np.array(path),
        "score": np.array(scores),
        "n_features": np.array(n_features),
        "seconds": np.array(seconds),
    }
    return map_.with_gamma(path[int(np.argmax(scores))])


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


def _solution(
    machine: KernelMachine, map_: FeatureMap, design: Design, part: Part, loss: Any
) -> NDArray:
    problem = machine._problem(design, part.target, part.weights, loss)
    solver = solvers.get(machine.solver, problem, tol=machine.tol, max_iter=machine.max_iter)
    result = solver.solve(problem)
    if result.interrupted:
        machine.feature_map_ = map_
        machine._adopt(solver, result)
    return result.coef


def mean_loss(
    machine: KernelMachine, map_: FeatureMap, theta: NDArray, part: Part, loss: Any
) -> float:
    """Of the held-out rows, by their weights; outputs add up as in the objective."""
    responses = np.empty(part.target.shape)
    weights = theta[:-1] if machine.fit_intercept else theta
    for rows, design in map_.designs(part.X):
        responses[rows] = design.matvec(weights)
    if machine.fit_intercept:
        responses += theta[-1]
    values = loss.value(responses, part.target.astype(np.float64))
    values = values if values.ndim == 1 else values.sum(axis=1)
    return float(np.average(values, weights=part.weights))


def held_out(
    map_: FeatureMap, target: NDArray, strata: NDArray | None, fraction: Any
) -> NDArray[np.bool_]:
    """Which rows are held out: a random share, of every class if there are classes.

    It follows from the map's realisation, hence from ``random_state``.
    """
    if not isinstance(fraction, Real) or isinstance(fraction, (bool, np.bool_)):
        raise TypeError(f"validation_fraction must be a number; got {fraction!r}.")
    share = float(fraction)
    if not 0 < share < 1:
        raise ValueError(f"validation_fraction must be above 0 and below 1; got {fraction!r}.")
    n = len(target)
    drawn = Streams(map_._drawn_key(), np.arange(n)).uniform(1, Slot.VALIDATION)[:, 0]
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


def _checked_path(gamma_path: Any) -> list[float]:
    values = np.asarray(gamma_path)
    if values.ndim != 1 or not len(values) or values.dtype.kind not in "iuf":
        raise TypeError(
            f"gamma_path must be a one-dimensional array of numbers; got {gamma_path!r}."
        )
    values = values.astype(np.float64)
    bad = ~(np.isfinite(values) & (values > 0))
    if bad.any():
        raise ValueError(
            f"gamma_path must be positive and finite; got {values[int(np.argmax(bad))]}."
        )
    return values.tolist()


def _check_no_other_gamma(map_: FeatureMap) -> None:
    kernel = map_.stated_kernel()
    if kernel is None or kernel.gamma is None:
        raise ValueError(f"gamma_path must be left out for {map_!r}, which has no gamma to choose.")
    if kernel.gamma != "scale":
        raise ValueError(f"gamma must be left out beside gamma_path; got {kernel.gamma!r}.")
