"""Steps on working sets: what all kinds have in common, and proximal Newton steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mercer.solvers.base import Clock
from mercer.solvers.coordinate.columns import GramPool
from mercer.solvers.coordinate.model import Model, minimise
from mercer.solvers.coordinate.output import Iterate, Output

__all__ = ["NewtonSteps", "Steps"]

_SMALLEST, _NEW = 100, 50  # least number of columns in the first working set, and of new ones
_ARMIJO, _HALVINGS = 1e-3, 30
_NEAR = 0.5  # share of l1 below which gradients are looked at only if there are too few others
_NOISE = 16.0  # rounding of F, in units of its precision
_EXACT, _SHARE = 0.3, 0.1  # excess allowed to a model: shares of the final goal and of the gap
_STALE = 0.1  # relative change of the curvatures from which on the Gram matrix is made again
_SLOW = 0.1  # a step that leaves more than this share of the gap has the Gram matrix made again
_RIDGE = 1e-4  # added to a curvature that may vanish, relative to the mean one


@dataclass
class Steps:
    """Minimises one output: F at a working set is replaced by its quadratic model, again and again.

    ``caution`` is the share of the bound of the curvature in that of the model: 0 is Newton's, 1
    never overshoots.
    """

    output: Output
    clock: Clock
    caution: float = 0.0

    def step(self, at: Iterate, gap: float, goal: float) -> Iterate | None:
        """A better iterate, or None where rounding allows none.

        ``gap`` is an upper bound of how far F is above the minimum, ``goal`` that of the stopping
        test.
        """
        raise NotImplementedError

    def curvature(self, at: Iterate) -> NDArray[np.float64] | None:
        """h of every row for the model at the iterate, or None for ones."""
        output = self.output
        h = output.curvature(at)
        if h is None or output.loss.quadratic:
            return h
        most = output.loss.lipschitz
        if not np.isfinite(most):  # an exponential is bounded by none: the line search is enough
            most = float(np.max(h))
        bound = most if output.weights is None else most * output.weights
        caution = self.caution if np.any(h) else 1.0
        return (1.0 - caution) * h + caution * bound if caution else h

    def candidates(self, at: Iterate) -> NDArray:
        """The working set: columns with weights, and about as many of the steepest others."""
        output = self.output
        norms = np.sqrt(output.problem.mean_squares)
        active = np.flatnonzero(at.w)
        room = max(_SMALLEST - len(active), len(active), _NEW)
        near = np.flatnonzero(np.abs(at.gradient) > _NEAR * output.l1)
        if len(near) < room + len(active):
            near = np.arange(len(norms))
        with np.errstate(divide="ignore", invalid="ignore"):
            score = (np.abs(at.gradient[near]) - output.l1) / norms[near]
        useless = (norms[near] == 0) | (at.w[near] != 0)
        score[useless | output.hopeless(at, near, norms[near])] = -np.inf
        best = np.argpartition(-score, room - 1)[:room] if room < len(score) else slice(None)
        new = near[best][score[best] > -np.inf]
        return np.concatenate([active, new])

    def search(
        self, at: Iterate, ids: NDArray, change: NDArray, h: NDArray | None
    ) -> Iterate | None:
        """The first of w + change, w + change / 2, … that is enough of a decrease.

        ``h`` are the curvatures of the model that the change is from.
        """
        output = self.output
        if not np.any(change) and (output.loss.convex or at.lean == 0.0):
            return None
        start = at.w[ids]  # columns with weights are among them
        moves = output.columns.matvec(_spread(ids, change, len(at.w)))
        end = start + change
        slope = float(at.gradient[ids] @ change)
        slope += output.l1 * float(np.sum(np.abs(end)) - np.sum(np.abs(start)))
        slope += 0.5 * output.l2 * float(end @ end - start @ start)
        shift = self._shift(at, moves, h)
        slope += at.lean * shift
        noise = _NOISE * float(np.finfo(np.float64).eps) * abs(at.objective)
        if -slope <= noise:
            w = _spread(ids, end, len(at.w))
            return self._closer(at, w, at.linear + moves, shift, noise)
        t = 1.0
        for _ in range(_HALVINGS):
            end = start + t * change
            linear = at.linear + t * moves
            b = output.best_intercept(linear, at.intercept + t * shift)
            if output.objective(end, linear, b) <= at.objective + _ARMIJO * t * min(slope, 0.0):
                break
            t *= 0.5
        else:
            return None
        if t < 0.5:
            self.caution = min(1.0, 2 * self.caution + 0.1)
        elif t == 1:
            self.caution = 0.3 * self.caution if self.caution > 0.01 else 0.0
        return output.at(_spread(ids, end, len(at.w)), linear, b)

    def _shift(self, at: Iterate, moves: NDArray, h: NDArray | None) -> float:
        """The move of the intercept in the model that eliminates it, if it is not the best one."""
        output = self.output
        if not output.problem.fit_intercept or output.loss.convex or h is None:
            return 0.0
        mass = float(np.mean(h))
        return -(at.lean + float(np.mean(h * moves))) / mass if mass > 0 else 0.0

    def _closer(
        self, at: Iterate, w: NDArray, linear: NDArray, shift: float, noise: float
    ) -> Iterate | None:
        """The iterate at w if it is nearer to the goal, where F itself shows rounding alone."""
        output = self.output
        b = output.best_intercept(linear, at.intercept + shift)
        trial = output.at(w, linear, b)
        if output.loss.convex:
            nearer = trial.bound > at.bound
        else:
            nearer = output.violation(trial) < output.violation(at)
        return trial if nearer and trial.objective <= at.objective + noise else None


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
            lean = 0.0 if output.loss.convex else at.lean * self.pool.centre(ids)
            linear = gram @ w - (at.gradient[ids] - lean)
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


def _spread(ids: NDArray, values: NDArray, size: int) -> NDArray[np.float64]:
    """Zeros but for ``values`` at ``ids``."""
    out = np.zeros(size)
    out[ids] = values
    return out
