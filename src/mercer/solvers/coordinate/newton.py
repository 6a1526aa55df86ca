"""Proximal Newton steps on working sets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer.solvers.coordinate.columns import GramPool
from mercer.solvers.coordinate.model import Model, minimise
from mercer.solvers.coordinate.output import Iterate
from mercer.solvers.coordinate.steps import Steps

__all__ = ["NewtonSteps"]

_EXACT, _SHARE = 0.3, 0.1  # excess allowed to a model: shares of the final goal and of the gap
_STALE = 0.1  # relative change of the curvatures from which on the Gram matrix is made again
_SLOW = 0.1  # a step that leaves more than this share of the gap has the Gram matrix made again
_RIDGE = 1e-4  # added to a curvature that may vanish, relative to the mean one


@dataclass(kw_only=True)
class NewtonSteps(Steps):
    """Models by their Gram matrix, which the pool keeps, solved far beyond what sweeps reach."""

    pool: GramPool
    last_gap: float = np.inf

    def step(self, at: Iterate, gap: float, goal: float) -> Iterate | None:
        output = self.output
        with self.clock.phase("gram"):
            self._set_curvature(at, _STALE if gap <= _SLOW * self.last_gap else 0.0)
            self.last_gap = gap
            ids, gram = self.pool.gram(self.candidates(at))
        with self.clock.phase("model"):
            w = at.w[ids]
            # The model eliminates the intercept, which is not the best one unless F is convex.
            lean = 0.0 if output.loss.convex else at.lean * self.pool.centre()
            linear = gram @ w - (at.gradient - lean)[ids]
            reach = at.objective / output.l1 if output.l1 > 0 else np.sum(np.abs(w)) + 1.0
            model = Model(gram, linear, output.l1, output.l2, float(reach))
            target = minimise(model, w, max(_EXACT * goal, _SHARE * gap))
        with self.clock.phase("rows"):
            return self.search(at, ids, target - w, self.pool.columns.curvature)

    def _set_curvature(self, at: Iterate, stale: float) -> None:
        output, pool = self.output, self.pool
        h = self.curvature(at)
        if h is None:
            pool.set_curvature(None)
            return
        used = pool.curvature
        if used is None or np.sum(np.abs(h - used)) > stale * float(np.sum(used)):
            pool.set_curvature(h, 0.0 if output.loss.quadratic else _RIDGE)
