"""Steps on working sets: what all kinds have in common, and proximal Newton steps."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from mercer.solvers.base import Clock
from mercer.solvers.coordinate.columns import spread
from mercer.solvers.coordinate.gram import GramPool
from mercer.solvers.coordinate.model import Model, minimise
from mercer.solvers.coordinate.output import Iterate, Output

__all__ = ["EXACT", "NewtonSteps", "Steps", "room_for"]

_SMALLEST, _NEW = 100, 50  # least number of columns of the first working set, and of new columns
_ARMIJO, _HALVINGS = 1e-3, 30  # least share of the predicted decrease; most halvings of a step
_NEAR = 0.5  # share of l1 below which a gradient counts only if there are too few larger ones
_NOISE = 16.0  # rounding error of F, in units of its precision
EXACT, _SHARE = 0.3, 0.1  # accuracy of a model: share of the final tolerance, and of the gap
_INNER, _STEPS = 1e-3, 10  # gap within a working set as a share of the whole; most steps in it
_FEW_STEPS = 2  # steps up to which iterating within a working set gains nothing
_MULTIPLIED = 64  # multiplications in a Gram matrix that take as long as one memory read
_STALE = 0.1  # relative change of curvatures that requires a new Gram matrix
_SLOW = 0.1  # share of the gap left by a step above which the Gram matrix is recomputed
_FLAT = 1e-3  # curvature as a share of its bound if no row has any
_PROMISED = 0.9  # share of the predicted decrease below which rows update their curvature
_MOVED = 1e-6  # least change of a response that updates the curvature of its row
_RIDGE = 1e-4  # ridge added to curvatures that may be 0, relative to the mean
_LEAST = 1e-13  # least ridge: rounding error of the Gram matrix


def room_for(n_active: int) -> int:
    """Most columns without weights that join a working set of ``n_active`` columns with weights."""
    return max(_SMALLEST - n_active, n_active, _NEW)


@dataclass
class Steps:
    """Minimises one output: F at a working set is replaced by its quadratic model, again and again.

    ``caution`` is the share of the bound of the curvature in that of the model: 0 is Newton's, 1
    never overshoots. ``shown`` are the curvatures that rows had along a step that promised too
    much: the next model has at least these, as rows far from the bend of their loss would move
    across it again and again.
    """

    output: Output
    clock: Clock
    caution: float = 0.0
    shown: NDArray[np.float64] | None = field(default=None, repr=False)

    def step(self, at: Iterate, gap: float, goal: float) -> Iterate | None:
        """A better iterate, or None where rounding allows none.

        ``gap`` bounds F above the minimum; ``goal`` is the gap of the stopping test.
        """
        raise NotImplementedError

    def curvature(self, at: Iterate) -> NDArray[np.float64] | None:
        """h of every row for the model at the iterate, or None for ones."""
        output = self.output
        h = output.curvature(at)
        if h is None or output.loss.quadratic:
            return h
        if self.shown is not None:
            h = np.maximum(h, self.shown)
        most = output.loss.lipschitz
        if not np.isfinite(most):  # an exponential is bounded by none: the line search is enough
            most = float(np.max(h))
        bound = most if output.weights is None else most * output.weights
        # A model of the bound everywhere makes steps so short that they would never end.
        caution = self.caution if np.any(h) else max(self.caution, _FLAT)
        return (1.0 - caution) * h + caution * bound if caution else h

    def candidates(self, at: Iterate) -> NDArray:
        """The working set: columns with weights, and about as many of the steepest others."""
        output = self.output
        norms = output.norms
        active = at.active
        room = room_for(len(active))
        near = np.flatnonzero(np.abs(at.gradient) > _NEAR * output.l1)
        if len(near) < room + len(active):
            near = np.arange(len(norms))
        with np.errstate(divide="ignore", invalid="ignore"):
            score = (np.abs(at.gradient[near]) - output.l1) / norms[near]
        useless = (norms[near] == 0) | output.hopeless(at, near, norms[near])
        useless &= np.abs(at.gradient[near]) <= output.l1  # as norms may be estimates
        score[useless | (at.w[near] != 0)] = -np.inf
        best = np.argpartition(-score, room - 1)[:room] if room < len(score) else slice(None)
        new = near[best][score[best] > -np.inf]
        return np.concatenate([active, np.sort(new)])

    def search(
        self, at: Iterate, ids: NDArray, change: NDArray, h: NDArray | None
    ) -> Iterate | None:
        """First of w + change / 2^j that lowers F enough; ``h`` is the model's curvature."""
        output = self.output
        if not np.any(change) and (output.loss.convex or at.lean == 0.0):
            return None
        start = at.w[ids]  # columns with weights are among them
        moves = output.columns.matvec(spread(ids, change, len(at.w)))
        end = start + change
        slope = float(at.gradient[ids] @ change)
        slope += output.l1 * float(np.sum(np.abs(end)) - np.sum(np.abs(start)))
        slope += 0.5 * output.l2 * float(end @ end - start @ start)
        shift = self._shift(at, moves, h)
        slope += at.lean * shift
        noise = _NOISE * float(np.finfo(np.float64).eps) * abs(at.objective)
        if -slope <= noise:
            w = spread(ids, end, len(at.w))
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
        better = output.at(spread(ids, end, len(at.w)), linear, b)
        self._learn(at, better, slope, moves, h)
        return better

    def _learn(
        self, at: Iterate, to: Iterate, slope: float, moves: NDArray, h: NDArray | None
    ) -> None:
        """Have the next model know how rows curved on the way, if that was not as h had it."""
        self.shown = None
        promised = slope + 0.5 * float(np.mean(moves * moves if h is None else h * moves * moves))
        loss = self.output.loss
        if loss.quadratic or not loss.convex or to.objective - at.objective <= _PROMISED * promised:
            return
        moved = to.linear - at.linear + (to.intercept - at.intercept)
        with np.errstate(invalid="ignore"):  # infinite losses have slopes that are no numbers
            change = to.slopes - at.slopes
        known = (np.abs(moved) > _MOVED) & np.isfinite(change)
        self.shown = np.divide(change, moved, out=np.zeros(len(moved)), where=known)

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
        with self.clock.phase("gram"):
            self._set_curvature(at, gap)
            ids, gram = self.pool.gram(self.candidates(at))
        # As many steps as cost about as much as a look at all columns.
        steps = 1 + len(at.w) // (len(ids) + len(ids) ** 2 // _MULTIPLIED)
        settles = self.output.loss.convex and steps > _FEW_STEPS
        part = self.output.restricted(ids) if settles else None
        if part is None:
            return self._newton(at, ids, ids, gram, gap, goal)
        with self.clock.phase("rows"):
            start = part.at(at.w[ids], at.linear, at.intercept)
        inside = replace(self, output=part, last_gap=start.objective - start.bound)
        end = inside.settle(start, ids, gram, max(EXACT * goal, _INNER * gap), steps)
        self.caution, self.shown = inside.caution, inside.shown
        if end is start:
            return None
        with self.clock.phase("rows"):
            return self.output.at(spread(ids, end.w, len(at.w)), end.linear, end.intercept)

    def hold(self, at: Iterate, gap: float, ids: NDArray) -> None:
        """Have the pool make the Gram matrix of the columns at once."""
        with self.clock.phase("gram"):
            self._set_curvature(at, gap)
            self.pool.hold(ids)

    def settle(self, at: Iterate, ids: NDArray, gram: NDArray, goal: float, steps: int) -> Iterate:
        """Iterate within ``goal`` of the minimum over columns ``ids``, or after ``steps`` steps."""
        here = np.arange(len(ids))
        bound, gap = at.bound, at.objective - at.bound
        for left in range(min(steps, _STEPS), 0, -1):
            better = self._newton(at, here, ids, gram, gap, goal)
            if better is None:
                break
            at, bound = better, max(bound, better.bound)
            gap = at.objective - bound
            if gap <= goal or left == 1:
                break
            with self.clock.phase("gram"):
                self._set_curvature(at, gap)
                gram = self.pool.gram(ids)[1]
        return at

    def _newton(
        self, at: Iterate, ids: NDArray, known: NDArray, gram: NDArray, gap: float, goal: float
    ) -> Iterate | None:
        """A step over columns ``ids``, which the pool knows as ``known``."""
        output = self.output
        with self.clock.phase("model"):
            w = at.w[ids]
            # The model eliminates the intercept, which is not the best one unless F is convex.
            lean = 0.0 if output.loss.convex else at.lean * self.pool.centre(known)
            linear = gram @ w - (at.gradient[ids] - lean)
            reach = at.objective / output.l1 if output.l1 > 0 else np.sum(np.abs(w)) + 1.0
            model = Model(gram, linear, output.l1, output.l2, float(reach))
            target = minimise(model, w, max(EXACT * goal, _SHARE * gap))
        with self.clock.phase("rows"):
            return self.search(at, ids, target - w, self.pool.columns.curvature)

    def _set_curvature(self, at: Iterate, gap: float) -> None:
        """Have the pool weigh rows by the curvature at the iterate, or one that is near enough."""
        stale = _STALE if gap <= _SLOW * self.last_gap else 0.0
        self.last_gap = gap
        output, pool = self.output, self.pool
        h = self.curvature(at)
        if h is None:
            pool.set_curvature(None)
            return
        used = pool.curvature
        if used is None or np.sum(np.abs(h - used)) > stale * float(np.sum(used)):
            pool.set_curvature(h, 0.0 if output.loss.quadratic else self._ridge(at, h))

    def _ridge(self, at: Iterate, h: NDArray) -> float:
        """Ridge of the Gram matrix in units of the mean curvature.

        With weights it is in units of F where F is smaller: curvatures of heavy rows would hide
        others.
        """
        mean = float(np.mean(h))
        if self.output.weights is None or not mean > 0:
            return _RIDGE
        return max(_RIDGE * min(1.0, abs(at.objective) / mean), _LEAST)
