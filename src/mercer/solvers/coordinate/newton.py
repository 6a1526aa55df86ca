"""Proximal Newton steps on working sets."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mercer.solvers.base import Clock
from mercer.solvers.coordinate.columns import GramPool
from mercer.solvers.coordinate.model import Model, minimise
from mercer.solvers.coordinate.output import Output, Point

__all__ = ["NewtonSteps", "choose"]

_SMALLEST, _NEW = 100, 50  # columns of the first working set, and new ones at least
_EXACT, _SHARE = 0.3, 0.03  # goal of a model: of what is asked for in the end, of the gap now
_STALE = 0.1  # relative change of the curvatures that asks for a new Gram matrix
_SLOW = 0.1  # share of the gap that a step may leave before the slightest change asks for one
_RIDGE = 1e-4  # added to a curvature that may vanish, relative to the mean one
_ARMIJO, _HALVINGS = 1e-3, 30
_NOISE = 16.0  # rounding of F, in units of its precision


@dataclass
class NewtonSteps:
    """Minimises one output: F at a working set is replaced by its quadratic model, again and again.

    Attributes
    ----------
    output : Output
    pool : GramPool
        Where Gram matrices are kept.
    clock : Clock
    caution : float
        Share of the bound of the curvature in that of the model: 0 is Newton's, 1 never overshoots.
    """

    output: Output
    pool: GramPool
    clock: Clock
    caution: float = 0.0
    last_gap: float = np.inf
    norms: NDArray[np.float64] | None = field(default=None, repr=False)

    def step(self, point: Point, gap: float, goal: float) -> Point | None:
        """A better point, or None where rounding allows none.

        Parameters
        ----------
        point : Point
        gap : float
            What F at the point is above the minimum at most.
        goal : float
            The gap that is asked for in the end.
        """
        output = self.output
        with self.clock.phase("gram"):
            self._set_curvature(point, _STALE if gap <= _SLOW * self.last_gap else 0.0)
            self.last_gap = gap
            ids, gram = self.pool.gram(choose(output, point, self._column_norms()))
        with self.clock.phase("model"):
            w = point.w[ids]
            linear = gram @ w - point.gradient[ids]
            reach = point.objective / output.l1 if output.l1 > 0 else np.sum(np.abs(w)) + 1.0
            model = Model(gram, linear, output.l1, output.l2, float(reach))
            target = minimise(model, w, max(_EXACT * goal, _SHARE * gap))
        with self.clock.phase("rows"):
            return self._search(point, ids, target - w)

    def _set_curvature(self, point: Point, stale: float) -> None:
        output, pool = self.output, self.pool
        h = output.curvature(point)
        if h is None:
            pool.set_curvature(None)
            return
        if not output.loss.quadratic:
            most = output.loss.lipschitz
            bound = most if output.weights is None else most * output.weights
            caution = self.caution if np.any(h) else 1.0
            if caution:
                h = (1.0 - caution) * h + caution * bound
        used = pool.curvature
        if used is None or np.sum(np.abs(h - used)) > stale * np.sum(used):
            pool.set_curvature(h, 0.0 if output.loss.quadratic else _RIDGE)

    def _column_norms(self) -> NDArray[np.float64]:
        if self.norms is None:
            self.norms = np.sqrt(self.output.columns.design.column_sqnorms(self.output.weights))
        return self.norms

    def _search(self, point: Point, ids: NDArray, change: NDArray) -> Point | None:
        """The first of w + change, w + change / 2, … that is enough of a decrease."""
        output = self.output
        if not np.any(change):
            return None
        direction = np.zeros_like(point.w)
        direction[ids] = change
        moves = output.columns.matvec(direction)
        full = point.w + direction
        slope = float(point.gradient[ids] @ change) + output.l1 * float(
            np.sum(np.abs(full)) - np.sum(np.abs(point.w))
        )
        slope += 0.5 * output.l2 * float(full @ full - point.w @ point.w)
        noise = _NOISE * float(np.finfo(np.float64).eps) * abs(point.objective)
        if -slope <= noise:
            return self._closer(point, full, point.linear + moves, noise)
        t = 1.0
        for _ in range(_HALVINGS):
            w = full if t == 1 else point.w + t * direction
            linear = point.linear + t * moves
            b = output.best_intercept(linear, point.intercept)
            if output.objective(w, linear, b) <= point.objective + _ARMIJO * t * min(slope, 0.0):
                break
            t *= 0.5
        else:
            return None
        if t < 0.5:
            self.caution = min(1.0, 2 * self.caution + 0.1)
        elif t == 1:
            self.caution = 0.3 * self.caution if self.caution > 0.01 else 0.0
        return output.at(w, linear, b)

    def _closer(self, point: Point, w: NDArray, linear: NDArray, noise: float) -> Point | None:
        """The point at w if its lower bound is better, where F itself shows rounding alone."""
        found = self.output.at(w, linear)
        better = found.bound > point.bound and found.objective <= point.objective + noise
        return found if better else None


def choose(output: Output, point: Point, norms: NDArray) -> NDArray:
    """The working set: columns with weights, and those that promise most, about as many."""
    active = np.flatnonzero(point.w)
    room = max(_SMALLEST, 2 * len(active)) - len(active)
    room = max(room, _NEW)
    with np.errstate(divide="ignore", invalid="ignore"):
        score = np.where(norms > 0, (np.abs(point.gradient) - output.l1) / norms, -np.inf)
    score[active] = -np.inf
    if room < len(score):
        new = np.argpartition(-score, room - 1)[:room]
    else:
        new = np.arange(len(score))
    new = new[score[new] > -np.inf]
    return np.concatenate([active, new])
