"""Fit of a machine of many landmarks by stages: each adds its own, for what the others leave over.

A stage is fitted to rows that no other one sees while there are enough. Where other machines have
the rows, they fit two stages at a time to the same rest. Held-out rows tell the share of each
stage, when its iterations end and when the stages do. A stage gives its kernel back before the next
begins, so that time is linear in the rows, and memory bounded.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import starmap
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from sklearn.base import clone, is_classifier
from sklearn.pipeline import Pipeline

from mercer._runtime.random import Slot, shuffled
from mercer._runtime.rows import FarRows
from mercer.auto.deadline import Deadline, Ending
from mercer.auto.landmarks import Landmarks
from mercer.auto.tuning import TUNING
from mercer.estimators import KernelRegressor
from mercer.estimators.plan import FitPlan, fit_planned
from mercer.estimators.targets import signs
from mercer.preparation import rows_of

__all__ = ["fit_in_stages"]

_COEFFICIENTS = ("map_coef_", "_intercept_")


def fit_in_stages(
    fit: Any, pipeline: Pipeline, X: Any, y: NDArray, form: Landmarks, key: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Fit a pipeline whose machine gets landmarks stage by stage.

    ``fit`` is a ``Fit`` of all rows. Returns the rows held out, and the responses (h, k) to them.
    After an interruption the machine has the stages that were added before it.
    """
    machine = pipeline[-1]
    classes = np.unique(y) if is_classifier(machine) else None
    held, order = _held_and_others(y, key, classes is not None)
    table = _Treated(fit, pipeline, X, y, order)
    target, of_held = _targets(y[held], classes), table.rows(held)
    weights = None if fit.weights is None else fit.weights[held]
    responses, parts = np.zeros_like(target), list(_parts(order, form))
    # On 200 000 generated rows stages one by one end after four, with an error of .467, and by twos
    # after six, with .465 in a half more time.
    at_once = TUNING.stages_at_once if isinstance(X, FarRows) else 1
    for first in range(0, len(parts), at_once):
        start, tasks = time.perf_counter(), []
        for place, own in enumerate(parts[first : first + at_once], first):
            stage, y_own = machine, y[own]
            if place:
                stage, y_own = _stage(machine, place), _targets(y_own, classes)
            given = table.rows(own), y_own, fit.of_rows(own).weights, fit.plan
            end = _HeldOutEnd(of_held, target - responses, weights) if place else None
            tasks.append((stage, machine if first else None, *given, of_held, end))
        stages, answers = zip(*_all_fitted(X, tasks, fit.callbacks), strict=True)
        steps, gained = _steps(answers, target - responses, weights)
        if first == 0:
            machine = stages[0]
            pipeline.steps[-1] = pipeline.steps[-1][0], machine
            steps = steps if steps.any() else np.eye(len(steps))[0]
            _scale(machine, steps[0])
        elif not steps.any():
            break
        for place, (stage, step) in enumerate(zip(stages, steps, strict=True), first):
            if place and step:
                _add(machine, stage, step)
        responses = responses + np.tensordot(steps, answers, 1)
        is_enough = gained < TUNING.stage_gain * len(steps)
        if is_enough or _is_late(fit.callbacks, time.perf_counter() - start):
            break
    return held, responses


def _all_fitted(table: Any, tasks: list[Any], callbacks: tuple[Any, ...]) -> list[Any]:
    """Results of ``_fitted``, of far tables each made by one of the machines that have the rows."""
    if isinstance(table, FarRows):
        return table.results(_fitted, tasks)
    return list(starmap(partial(_fitted, callbacks=callbacks), tasks))


def _fitted(
    stage: Any,
    before: Any,
    rows: NDArray,
    y: NDArray,
    weights: NDArray | None,
    plan: FitPlan,
    of_held: NDArray,
    end: _HeldOutEnd | None,
    callbacks: tuple[Any, ...] = (),
) -> tuple[Any, NDArray[np.float64]]:
    """A stage, fitted to what the machine ``before`` it leaves over, and its held-out responses.

    Without a machine before it, it is fitted to y.
    """
    if before is not None:
        y = y - _responses(before, rows)
    stage.set_callbacks(*callbacks, *([] if end is None else [end]))
    try:
        fit_planned(stage, rows, y[:, 0] if y.shape[1:] == (1,) else y, weights, plan)
    finally:
        stage.set_callbacks()  # they are no part of the model
    if end is not None:
        end.restore_best(stage)
    return stage, _responses(stage, of_held)


class _HeldOutEnd(Ending):
    """Callback that ends a stage once an iteration hardly lowers the loss of the held-out rows."""

    def __init__(self, rows: NDArray, lacking: NDArray, weights: NDArray | None):
        self._rows, self._lacking, self._weights = rows, lacking, weights
        self._gained = 0.0
        self._best: dict[str, NDArray] = {}  # coefficients of the iteration that gained most

    def on_fit_task_end(
        self, estimator: object, context: Any, *, fitted_estimator: KernelRegressor
    ) -> bool:
        """True, which stops the fit, if the last iteration gained too little."""
        if context.task_name != "iteration":
            return False
        # Features of these rows would save nothing: they take as long as four predictions.
        answer, before = _responses(fitted_estimator, self._rows), self._gained
        gained = _steps([answer], self._lacking, self._weights)[1]
        if gained >= before:
            self._gained = gained
            self._best = {name: np.array(getattr(fitted_estimator, name)) for name in _COEFFICIENTS}
        return gained - before < TUNING.stage_step

    def restore_best(self, stage: KernelRegressor) -> None:
        """Give a stage the coefficients of its best iteration, if there was one."""
        stage.__dict__.update(self._best)


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
    if are_classes and y.ndim == 1:
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


def _targets(y: NDArray, classes: NDArray | None) -> NDArray[np.float64]:
    """Responses (n, k) of a machine without error."""
    if classes is not None:
        y = signs(np.searchsorted(classes, y), len(classes))
    return np.asarray(y, dtype=np.float64).reshape(len(y), -1)


def _responses(machine: Any, rows: Any) -> NDArray[np.float64]:
    """Responses (n, k) of a fitted machine to treated and scaled rows."""
    answer = machine.decision_function if is_classifier(machine) else machine.predict
    return np.asarray(answer(rows), dtype=np.float64).reshape(rows.shape[0], -1)


def _steps(
    answers: Sequence[NDArray], lacking: NDArray, weights: NDArray | None
) -> tuple[NDArray[np.float64], float]:
    """Shares of answers by which the held-out rows lack least, and the share of the loss gained.

    Zeros if the gain is no more than chance gives.
    """
    roots = np.sqrt(np.ones(len(lacking)) if weights is None else weights)[:, None]
    columns = np.stack([(roots * answer).ravel() for answer in answers], axis=1)
    whole = (roots * lacking).ravel()
    steps, left = nnls(columns, whole)
    gained = 1.0 - (left / (np.linalg.norm(whole) or 1.0)) ** 2
    # An answer that knows nothing gains 1 / h of h numbers on average, and rarely four times this.
    is_more = gained > 4.0 * len(steps) / lacking.size
    return (steps if is_more else np.zeros(len(steps))), gained


def _scale(machine: Any, step: float) -> None:
    """Take so much of the coefficients of a machine, in float64 as of stages."""
    machine.map_coef_ = step * machine.map_coef_.astype(np.float64)
    machine._intercept_ = step * np.asarray(machine._intercept_)


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
