"""Fits of the pipelines of an automatic model, step by step."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from mercer.auto.goals import Classes, Numbers
from mercer.auto.landmarks import Landmarks
from mercer.auto.means import MeanModel
from mercer.auto.stages import fit_in_stages
from mercer.auto.targets import LogTargetRegressor
from mercer.auto.trials import KnownScales
from mercer.estimators.left_out_scales import LeftOutScaler, scales_by_name
from mercer.estimators.plan import FitPlan, HeldOut, fit_planned
from mercer.preparation import TablePreparer, rows_of

__all__ = ["STEPS", "Fit", "TreatedRows", "fit_rows"]

STEPS = ("preparer", "scaler", "model")

_UNCALIBRATED = FitPlan(calibrates=False)  # held-out rows calibrate the model


@dataclass(frozen=True)
class TreatedRows:
    """Rows (n, d) that a preparer and a scaler, fitted to them and their targets, give."""

    preparer: TablePreparer
    scaler: Any
    y: NDArray  # (n,)
    rows: Any
    theta: NDArray[np.float64] | None = None  # (n + 1, k), solution of the machine of these rows


@dataclass
class Fit:
    """Weights and groups of rows to fit, for each step, and the plan of the machine's fit."""

    weights: NDArray[np.float64] | None = None  # (n,), of preparer and machine
    scaler_weights: NDArray[np.float64] | None = None  # (n,)
    groups: NDArray | None = None  # (n,)
    plan: FitPlan = _UNCALIBRATED
    callbacks: tuple[Any, ...] = ()  # of the machine, while it is fitted
    known_scales: KnownScales = field(default_factory=dict)  # of the search
    stages: Landmarks | None = None  # of the machine, if it is fitted in several
    key: int = 0  # seed of the rows of stages
    offset: NDArray[np.float64] | None = None  # (n,), of the machine
    known: TreatedRows | None = None  # of all rows, by steps of the same settings and weights
    # Rows that the stages hold out, and the responses (h, k) to them.
    held: tuple[NDArray[np.int64], NDArray[np.float64]] | None = field(default=None, init=False)
    # Of a mean: a fitted preparer and its rows, for a next pipeline that begins with an equal one.
    _of_mean: bool = field(default=False, init=False)
    _preparer: TablePreparer | None = field(default=None, init=False)
    _rows: Any = field(default=None, init=False)

    def __call__(self, estimator: Any, X: Any, y: NDArray) -> None:
        """Fit a pipeline, a mean of pipelines or a regressor of logarithms."""
        if isinstance(estimator, LogTargetRegressor):
            estimator._fit_by(self, X, y)
        elif isinstance(estimator, MeanModel):
            self._of_mean = True
            estimator._fit_by(partial(self, X=X, y=y))
        elif self.stages is not None:
            self.held = fit_in_stages(self, estimator, X, y, self.stages, self.key)
        else:
            machine = estimator[-1]
            rows = self.treated(estimator, X, y)
            machine.set_callbacks(*self.callbacks)
            theta = None if self.known is None or rows is not self.known.rows else self.known.theta
            plan = replace(self.plan, start=theta)
            try:
                fit_planned(machine, rows, y, self.weights, plan, self.offset)
            finally:
                machine.set_callbacks()  # they are no part of the model

    def of_rows(self, rows: NDArray[np.int64]) -> Fit:
        """The fit of some of the rows."""
        weights, of_scaler, groups = (
            None if values is None else values[rows]
            for values in (self.weights, self.scaler_weights, self.groups)
        )
        return replace(self, weights=weights, scaler_weights=of_scaler, groups=groups)

    def treated(self, pipeline: Pipeline, X: Any, y: NDArray) -> Any:
        """Fit the preparer and the scaler of a pipeline; return their rows."""
        if self.known is not None and np.array_equal(self.known.y, y):
            pipeline.steps[0] = "preparer", self.known.preparer
            pipeline.steps[1] = "scaler", self.known.scaler
            return self.known.rows
        preparer, scaler = pipeline["preparer"], pipeline["scaler"]
        if self._preparer is not None and self._preparer.get_params() == preparer.get_params():
            pipeline.steps[0] = "preparer", deepcopy(self._preparer)
            rows = self._rows
        else:
            self._preparer = self._rows = None  # memory that the next rows may need
            rows = preparer.fit_transform(X, y, self.weights, self.groups)
            if self._of_mean:
                self._preparer, self._rows = preparer, rows
        if isinstance(scaler, LeftOutScaler):
            self._hand_on(pipeline["preparer"], scaler)
        return scaler.fit(rows, y, self.scaler_weights).transform(rows)

    def _hand_on(self, preparer: TablePreparer, scaler: LeftOutScaler) -> None:
        """Begin with the known scales of columns of these names: rows differ in their columns."""
        p = preparer
        treatment = p.numbers, p.max_integers, p.labels, p.identities, tuple(p.without)
        known = self.known_scales.get((treatment, scaler.kernel))
        if known is not None:
            scaler.known = scales_by_name(known[0], preparer.get_feature_names_out()), known[1]


def fit_rows(
    estimator: Any,
    X: Any,
    y: NDArray,
    goal: Numbers | Classes,
    rows: NDArray[np.int64] | None = None,
    first_without: HeldOut | None = None,
    callbacks: tuple[Any, ...] = (),
    known_scales: KnownScales | None = None,
    stages: Landmarks | None = None,
    key: int = 0,
    treated: TreatedRows | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.float64]] | None:
    """Fit an estimator of pipelines to all rows or some, by their weights and groups.

    Scales are not learned from rows that the first solution of the machine must not know. Returns
    the rows that stages hold out and the responses to them, (h,) and (h, k), or None. ``treated``
    are the rows by fitted steps of the estimator, if they are known.
    """
    weights, groups, offset = goal.weights, goal.groups, goal.offset
    if rows is not None:
        X, y, weights = rows_of(X, rows), y[rows], goal.weights_of(rows)
        groups, offset = None if groups is None else groups[rows], goal.offset_of(rows)
    of_scaler = weights
    if first_without is not None:
        of_scaler = np.ones(len(y)) if weights is None else weights.copy()
        of_scaler[first_without.rows] = 0.0
    plan = replace(_UNCALIBRATED, first_without=first_without)
    known = known_scales or {}
    fit = Fit(weights, of_scaler, groups, plan, callbacks, known, stages, key, offset, treated)
    fit(estimator, X, y)
    return fit.held
