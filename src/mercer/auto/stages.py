"""Fit of a machine of many landmarks by stages: each adds its own, for what the others leave over.

A stage is fitted to rows that no other one sees while there are enough, and held-out rows tell how
far to go by it. Its kernel is given back before the next begins, so that time is linear in the
rows, and memory bounded.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.pipeline import Pipeline

from mercer._runtime.random import Slot, shuffled
from mercer.auto.deadline import Deadline
from mercer.auto.landmarks import Landmarks
from mercer.auto.tuning import TUNING
from mercer.estimators import KernelRegressor
from mercer.estimators.plan import fit_planned
from mercer.estimators.targets import signs
from mercer.preparation import rows_of

__all__ = ["fit_in_stages"]


def fit_in_stages(
    fit: Any, pipeline: Pipeline, X: Any, y: NDArray, form: Landmarks, key: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Fit a pipeline whose machine gets landmarks stage by stage.

    ``fit`` is a ``Fit`` of all rows. Returns the rows held out, and the responses (h, k) to them.
    After an interruption the machine has the stages before it.
    """
    machine = pipeline[-1]
    held, order = _held_and_others(y, key, is_classifier(machine))
    table = _Treated(fit, pipeline, X, y, order)
    parts = _parts(order, form)
    first = next(parts)
    machine.set_callbacks(*fit.callbacks)
    try:
        fit_planned(machine, table.rows(first), y[first], fit.of_rows(first).weights, fit.plan)
        target, of_held = _targets(machine, y[held]), table.rows(held)
        weights = None if fit.weights is None else fit.weights[held]
        responses = _responses(machine, of_held)
        for place, own in enumerate(parts, 1):
            start, rows, stage = time.perf_counter(), table.rows(own), _stage(machine, place)
            lacking = _targets(machine, y[own]) - _responses(machine, rows)
            stage.set_callbacks(*fit.callbacks)
            y_of_stage = lacking[:, 0] if lacking.shape[1] == 1 else lacking
            fit_planned(stage, rows, y_of_stage, fit.of_rows(own).weights, fit.plan)
            answer = _responses(stage, of_held)
            step = _step(answer, target - responses, weights)
            if step == 0.0:
                break
            _add(machine, stage, step)
            responses = responses + step * answer
            if _is_late(fit.callbacks, time.perf_counter() - start):
                break
    finally:
        machine.set_callbacks()  # they are no part of the model
    return held, responses


class _Treated:
    """Treated and scaled rows of a table, by what a pipeline learns from the first of some rows."""

    def __init__(self, fit: Any, pipeline: Pipeline, X: Any, y: NDArray, order: NDArray[np.int64]):
        self._table = X
        self._known = np.sort(order[: TUNING.prepared_rows])
        # Codes of these rows are those that their own targets have no part in.
        part = rows_of(X, self._known)
        self._of_known = fit.of_rows(self._known).treated(pipeline, part, y[self._known])
        self._steps = pipeline[:-1]

    def rows(self, own: NDArray[np.int64]) -> NDArray:
        """Rows of some numbers."""
        places = np.searchsorted(self._known, own)
        is_known = self._known[np.minimum(places, len(self._known) - 1)] == own
        if is_known.all():
            found: NDArray = self._of_known[places]
            return found
        others = np.asarray(self._steps.transform(rows_of(self._table, own[~is_known])))
        out = np.empty((len(own), others.shape[1]), dtype=others.dtype)
        out[is_known], out[~is_known] = self._of_known[places[is_known]], others
        return out


def _held_and_others(
    y: NDArray, key: int, are_classes: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows to hold out, and all others in random order; the first ones are of every class."""
    order = shuffled(key, len(y), len(y), Slot.SHUFFLE)
    if are_classes:
        first = np.zeros(len(y), dtype=bool)
        first[np.unique(y[order], return_index=True)[1]] = True
        order = np.concatenate([order[first], order[~first]])
    n_held = min(TUNING.stage_held, len(y) // TUNING.stage_share)
    return np.sort(order[len(order) - n_held :]), order[: len(order) - n_held]


def _parts(order: NDArray[np.int64], form: Landmarks) -> Iterator[NDArray[np.int64]]:
    """The rows of every stage; where there are too few, the first ones come again."""
    size = min(form.n_rows or len(order), len(order))
    for place in range(form.n_stages):
        yield np.sort(np.take(order, np.arange(place * size, (place + 1) * size), mode="wrap"))


def _stage(machine: Any, place: int) -> KernelRegressor:
    """Unfitted machine of other landmarks, for numbers: what the stages before it leave over."""
    map_ = clone(machine.feature_map)
    map_.set_params(random_state=int(map_.random_state) + place)
    solver = replace(machine.solver, tol=TUNING.stage_tol)
    shared = {name: getattr(machine, name) for name in ("alpha", "device")}
    return KernelRegressor(map_, scale=False, solver=solver, **shared)


def _targets(machine: Any, y: NDArray) -> NDArray[np.float64]:
    """Responses (n, k) of a machine without error."""
    if is_classifier(machine):
        labels = np.searchsorted(machine.classes_, y)
        y = signs(labels, len(machine.classes_))
    return np.asarray(y, dtype=np.float64).reshape(len(y), -1)


def _responses(machine: Any, rows: Any) -> NDArray[np.float64]:
    """Responses (n, k) of a fitted machine to treated and scaled rows."""
    answer = machine.decision_function if is_classifier(machine) else machine.predict
    return np.asarray(answer(rows), dtype=np.float64).reshape(rows.shape[0], -1)


def _step(answer: NDArray, lacking: NDArray, weights: NDArray | None) -> float:
    """Share of an answer, from 0 to 1, by which the held-out rows lack least; 0 if hardly less."""
    counts = np.ones(len(answer)) if weights is None else weights
    square, product = counts @ (answer * answer), counts @ (answer * lacking)
    if not square.sum() > 0.0:
        return 0.0
    step = float(np.clip(product.sum() / square.sum(), 0.0, 1.0))
    gain = step * (2.0 * product - step * square).sum()
    return step if gain > TUNING.stage_gain * float((counts @ lacking**2).sum()) else 0.0


def _add(machine: Any, stage: KernelRegressor, step: float) -> None:
    """Give a machine the landmarks of a stage, with so much of their coefficients.

    Coefficients may be large and cancel, so that they are kept in float64.
    """
    map_, other = machine.feature_map_, stage.feature_map_
    landmarks = np.concatenate([map_.landmarks_, other.landmarks_])
    coef = np.concatenate([machine.map_coef_, step * stage.map_coef_.astype(np.float64)], axis=-1)
    intercept = machine._intercept_ + step * np.asarray(stage._intercept_)
    map_.landmarks_, machine.map_coef_, machine._intercept_ = landmarks, coef, intercept


def _is_late(callbacks: tuple[Any, ...], seconds: float) -> bool:
    """Whether there is no time for another stage as long as the last one."""
    ends = [callback.end for callback in callbacks if isinstance(callback, Deadline)]
    return any(time.perf_counter() + seconds > end for end in ends)
