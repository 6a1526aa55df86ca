"""Proximal Newton steps on working sets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mercer.solvers.coordinate.columns import GramPool
from mercer.solvers.coordinate.model import Model, minimise
from mercer.solvers.coordinate.output import Point
from mercer.solvers.coordinate.steps import Steps

__all__ = ["NewtonSteps"]

_EXACT, _SHARE = 0.3, 0.1  # goal of a model: of what is asked for in the end, of the gap now
_STALE = 0.1  # relative change of the curvatures that asks for a new Gram matrix
_SLOW = 0.1  # share of the gap that a step may leave before the slightest change asks for one
_RIDGE = 1e-4  # added to a curvature that may vanish, relative to the mean one


@dataclass(kw_only=True)
class NewtonSteps(Steps):
    """Models by their Gram matrix, solved far beyond what sweeps reach.

    Attributes
    ----------
    pool : GramPool
        Where Gram matrices are kept.
    """

    pool: GramPool
    last_gap: float = np.inf

    def step(self, point: Point, gap: float, goal: float) -> Point | None:
        output = self.output
        with self.clock.phase("gram"):
            self._set_curvature(point, _STALE if gap <= _SLOW * self.last_gap else 0.0)
            self.last_gap = gap
            ids, gram = self.pool.gram(self.candidates(point))
        with self.clock.phase("model"):
            w = point.w[ids]
            linear = gram @ w - self._gradient(point)[ids]
            reach = point.objective / output.l1 if output.l1 > 0 else np.sum(np.abs(w)) + 1.0
            model = Model(gram, linear, output.l1, output.l2, float(reach))
            target = minimise(model, w, max(_EXACT * goal, _SHARE * gap))
        with self.clock.phase("rows"):
            return self.search(point, ids, target - w, self.pool.columns.curvature)

    def _gradient(self, point: Point) -> NDArray[np.float64]:
        """Of the model that eliminates the intercept, which may not be the best one."""
        if self.output.loss.convex:
            return point.gradient
        return point.gradient - self.output.lean(point) * self.pool.centre()

    def _set_curvature(self, point: Point, stale: float) -> None:
        output, pool = self.output, self.pool
        h = self.curvature(point)
        if h is None:
            pool.set_curvature(None)
            return
        used = pool.curvature
        if used is None or np.sum(np.abs(h - used)) > stale * float(np.sum(used)):
            pool.set_curvature(h, 0.0 if output.loss.quadratic else _RIDGE)
