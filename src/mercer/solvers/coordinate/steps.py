"""What steps of all kinds share: the model's curvature, the working set, the line search."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mercer.solvers.base import Clock
from mercer.solvers.coordinate.output import Output, Point

__all__ = ["Steps"]

_SMALLEST, _NEW = 100, 50  # columns of the first working set, and new ones at least
_ARMIJO, _HALVINGS = 1e-3, 30
_NEAR = 0.5  # share of l1 below which a gradient promises nothing while there are others
_NOISE = 16.0  # rounding of F, in units of its precision


@dataclass
class Steps:
    """Minimises one output: F at a working set is replaced by its quadratic model, again and again.

    Attributes
    ----------
    output : Output
    clock : Clock
    caution : float
        Share of the bound of the curvature in that of the model: 0 is Newton's, 1 never overshoots.
    """

    output: Output
    clock: Clock
    caution: float = 0.0
    _norms: NDArray[np.float64] | None = field(default=None, repr=False)

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
        raise NotImplementedError

    def curvature(self, point: Point) -> NDArray[np.float64] | None:
        """h of every row for the model at the point, or None for ones."""
        output = self.output
        h = output.curvature(point)
        if h is None or output.loss.quadratic:
            return h
        most = output.loss.lipschitz
        bound = most if output.weights is None else most * output.weights
        caution = self.caution if np.any(h) else 1.0
        return (1.0 - caution) * h + caution * bound if caution else h

    def candidates(self, point: Point) -> NDArray:
        """The working set: columns with weights, and those that promise most, about as many."""
        output = self.output
        if self._norms is None:
            self._norms = np.sqrt(output.columns.design.column_sqnorms(output.weights))
        norms = self._norms
        active = np.flatnonzero(point.w)
        room = max(_SMALLEST - len(active), len(active), _NEW)
        near = np.flatnonzero(np.abs(point.gradient) > _NEAR * output.l1)
        if len(near) < room + len(active):
            near = np.arange(len(norms))
        with np.errstate(divide="ignore", invalid="ignore"):
            score = (np.abs(point.gradient[near]) - output.l1) / norms[near]
        useless = (norms[near] == 0) | (point.w[near] != 0)
        score[useless | output.hopeless(point, near, norms[near])] = -np.inf
        best = np.argpartition(-score, room - 1)[:room] if room < len(score) else slice(None)
        new = near[best][score[best] > -np.inf]
        return np.concatenate([active, new])

    def search(
        self, point: Point, ids: NDArray, change: NDArray, h: NDArray | None
    ) -> Point | None:
        """The first of w + change, w + change / 2, … that is enough of a decrease.

        ``h`` are the curvatures of the model that the change is from.
        """
        output = self.output
        if not np.any(change) and (output.loss.convex or output.lean(point) == 0.0):
            return None
        start = point.w[ids]  # all there is: columns with weights are among them
        moves = output.columns.matvec(_spread(ids, change, len(point.w)))
        end = start + change
        slope = float(point.gradient[ids] @ change)
        slope += output.l1 * float(np.sum(np.abs(end)) - np.sum(np.abs(start)))
        slope += 0.5 * output.l2 * float(end @ end - start @ start)
        shift = self._shift(point, moves, h)
        slope += output.lean(point) * shift
        noise = _NOISE * float(np.finfo(np.float64).eps) * abs(point.objective)
        if -slope <= noise:
            w = _spread(ids, end, len(point.w))
            return self._closer(point, w, point.linear + moves, shift, noise)
        t = 1.0
        for _ in range(_HALVINGS):
            end = start + t * change
            linear = point.linear + t * moves
            b = output.best_intercept(linear, point.intercept + t * shift)
            if output.objective(end, linear, b) <= point.objective + _ARMIJO * t * min(slope, 0.0):
                break
            t *= 0.5
        else:
            return None
        if t < 0.5:
            self.caution = min(1.0, 2 * self.caution + 0.1)
        elif t == 1:
            self.caution = 0.3 * self.caution if self.caution > 0.01 else 0.0
        return output.at(_spread(ids, end, len(point.w)), linear, b)

    def _shift(self, point: Point, moves: NDArray, h: NDArray | None) -> float:
        """How the intercept moves in the model that eliminates it, if it is not the best one."""
        output = self.output
        if not output.fit_intercept or output.loss.convex or h is None:
            return 0.0
        mass = float(np.mean(h))
        return -(output.lean(point) + float(np.mean(h * moves))) / mass if mass > 0 else 0.0

    def _closer(
        self, point: Point, w: NDArray, linear: NDArray, shift: float, noise: float
    ) -> Point | None:
        """The point at w if it is nearer to the goal, where F itself shows rounding alone."""
        output = self.output
        b = output.best_intercept(linear, point.intercept + shift)
        found = output.at(w, linear, b)
        if output.loss.convex:
            nearer = found.bound > point.bound
        else:
            nearer = output.violation(found) < output.violation(point)
        return found if nearer and found.objective <= point.objective + noise else None


def _spread(ids: NDArray, values: NDArray, size: int) -> NDArray[np.float64]:
    """Zeros but for ``values`` at ``ids``."""
    out = np.zeros(size)
    out[ids] = values
    return out
