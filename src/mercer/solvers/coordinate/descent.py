"""Sweeps of coordinate descent over a working set, for sets whose Gram matrix would cost more."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mercer import _core
from mercer._runtime.validation import positive_integer
from mercer.designs import Binned
from mercer.designs.lists import ColumnLists
from mercer.solvers.coordinate.columns import BinColumns
from mercer.solvers.coordinate.model import excess
from mercer.solvers.coordinate.output import Iterate, Output
from mercer.solvers.coordinate.steps import EXACT, Steps

__all__ = ["DescentSteps", "eso_factor", "step_work"]

_BATCH = 5  # sweeps per batch, the first over all columns
_FEWEST, _MOST = 6, 60  # batches of a model allowed at any cost, and the most of them
_SHARE = 0.3  # accuracy of a model as a share of the gap
_ROOMY = 2  # largest ratio of listed to needed columns in a sweep over all listed ones
_TURNS = 30  # conjugate gradients on a face, doubled while its columns nearly stay the same
_SAME = 0.01  # largest share of changed columns for a face to count as the same
_FALL = 1e-3  # decrease of the squared residual that ends the conjugate gradients
_CUTS = 4  # most quarterings of a step with too many changes of sign
_FLAT = 1e-6  # least diagonal entry that scales a residual, relative to the largest
_NOTHING = 1e-12  # least curvature of a column, relative to the largest
_LEAST = 1e-4  # least curvature of an active row, relative to the mean
_TINY = float(np.finfo(np.float64).tiny)
# Nanoseconds of one thread on binned designs of 20 000 to 50 000 rows: counted operations, not a
# clock, choose the kind of step, so that results are the same on every machine.
_BATCHES, _CG_TURNS = 4, 25  # typical batches of sweeps, and conjugate gradients, per model
_DENSE = 0.1  # ns per multiplication in a Gram matrix of dense columns
_LISTS = 3.0  # ns per row and grid to list the rows of columns
_FACTORS = 0.15  # ns per cubed number of active columns for all factorisations of a model
_PASSES = 25.0  # ns per entry of the Gram matrix for all products of a model
_COUNTS = 1 / 320  # ns per row to count the rows of two columns in bitmaps
_GROWTH = 4 / 3  # active columns after a step, relative to those before


@dataclass
class _Sweep:
    """The model on the columns at work; rows whose slope and curvature are 0 are left out."""

    ids: NDArray
    w: NDArray[np.float64]
    slope: NDArray[np.float64]
    h: NDArray[np.float64] | None
    curvature: NDArray[np.float64]
    lists: ColumnLists
    n: int  # rows of the mean, among them those left out

    def moves(self, w: NDArray, at: NDArray) -> NDArray[np.float64]:
        """Z w for weights of the columns at the positions."""
        return self.lists.times(w, len(self.slope), at)

    def gradient(self, rows: NDArray, at: NDArray | None = None) -> NDArray[np.float64]:
        """Zᵀ rows / n."""
        return self.lists.transposed_times(rows, at) / self.n

    def curved(self, moves: NDArray) -> NDArray[np.float64]:
        """Change of the rows' slopes by ``moves`` of their responses."""
        return moves if self.h is None else self.h * moves


@dataclass
class _Held:
    """Lists of columns ``ids`` over the rows ``kept``, or all of them."""

    ids: NDArray
    kept: NDArray | None
    lists: ColumnLists

    def fits(self, kept: NDArray | None) -> bool:
        """True if the cached rows are the requested ones."""
        if kept is None or self.kept is None:
            return kept is self.kept
        return np.array_equal(kept, self.kept)


@dataclass(kw_only=True)
class DescentSteps(Steps):
    """Models by the slopes of the rows: sweeps find the columns with weights, and conjugate
    gradients go on to the minimum over these.

    ``mode`` and ``order`` are those of ``CoordinateDescent``. A model whose batches of sweeps cost
    more than ``budget`` (nanoseconds by count) is left where it is, which ``slow`` tells.
    """

    mode: str = "auto"
    order: str = "cyclic"
    n_threads: int = 1
    budget: float = np.inf
    slow: bool = False
    held: _Held | None = field(default=None, repr=False)
    draws: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0), repr=False)

    def step(self, at: Iterate, gap: float, goal: float) -> Iterate | None:
        with self.clock.phase("columns"):
            h = self.curvature(at)
            sweep = self._begin(at, h)
        with self.clock.phase("sweeps"):
            self._minimise(sweep, at, max(EXACT * goal, _SHARE * gap))
        with self.clock.phase("rows"):
            before = self.caution
            better = self.search(at, sweep.ids, sweep.w - at.w[sweep.ids], h)
        if self.mode == "async" and (better is None or self.caution > before):
            self.mode = "safe"  # threads were in each other's way
            return at if better is None else better
        return at if better is None and self.order == "random" else better

    def _begin(self, at: Iterate, h: NDArray | None) -> _Sweep:
        """The model at the iterate; curvatures ``h`` that are too small for one are raised."""
        columns, slope, kept = self.output.columns, at.slopes.copy(), None
        if h is not None:
            kept = np.flatnonzero((h != 0) | (slope != 0))
            if not self.output.loss.quadratic:
                h[kept] = np.maximum(h[kept], _LEAST * float(np.mean(h)))
            if len(kept):
                h, slope = h[kept], slope[kept]
            else:
                kept = None
        ids, lists = self._lists(at, kept)
        curvature = lists.curvatures(h, columns.n)
        # Weights of columns that no row at work is in have to go to zero, not to stay.
        curvature = np.maximum(curvature, _NOTHING * np.max(curvature, initial=_TINY))
        return _Sweep(ids, at.w[ids], slope, h, curvature, lists, columns.n)

    def _lists(self, at: Iterate, kept: NDArray | None) -> tuple[NDArray, ColumnLists]:
        """The working set and its lists, of the last step where they suffice."""
        ids, held = np.sort(self.candidates(at)), self.held
        if held is None or not self._serves(held, at, ids, kept):
            self.held = None  # before there are others: they take memory
            lists = self.output.columns.design.lists(ids, kept)
            held = self.held = _Held(ids, kept, lists)
        return held.ids, held.lists

    def _serves(self, held: _Held, at: Iterate, ids: NDArray, kept: NDArray | None) -> bool:
        """True if lists hold the columns ``ids`` with weights, now or next."""
        if not held.fits(kept) or len(held.ids) > _ROOMY * len(ids):
            return False
        needed = ids[(at.w[ids] != 0) | (np.abs(at.gradient[ids]) > self.output.l1)]
        return bool(np.all(np.isin(needed, held.ids, assume_unique=True)))

    def _minimise(self, sweep: _Sweep, at: Iterate, goal: float) -> None:
        """Bring the model to at most ``goal`` above its minimum."""
        output = self.output
        reach = at.objective / output.l1 if output.l1 > 0 else np.sum(np.abs(sweep.w)) + 1.0
        if not output.loss.convex:
            self._centre(sweep)
        turns, spent, support = _TURNS, 0.0, None
        for batch in range(_MOST):
            largest = self._sweeps(sweep)
            self._centre(sweep)
            gradient = sweep.gradient(sweep.slope)
            self.slow = False
            if largest == 0.0 or excess(sweep.w, gradient, output.l1, output.l2, reach) <= goal:
                return
            at_work = np.flatnonzero(sweep.w)
            if support is not None:
                changed = np.setxor1d(at_work, support, assume_unique=True)
                turns = 2 * turns if len(changed) <= _SAME * len(at_work) else _TURNS
            used = self._to_face_minimum(sweep, gradient, at_work, turns)
            spent += _batch_work(len(sweep.lists.rows), sweep.lists.n_entries(at_work), used)
            self.slow = batch + 1 >= _FEWEST and spent > self.budget
            if self.slow:
                return
            support = np.flatnonzero(sweep.w)

    def _to_face_minimum(self, sweep: _Sweep, gradient: NDArray, at: NDArray, turns: int) -> int:
        """Go towards the minimum over columns ``at`` while signs stay; return the turns used.

        A weight that would change its sign stops at zero; the step is cut until the model falls.
        """
        output, w = self.output, sweep.w[at]
        slope = gradient[at] + output.l2 * w + output.l1 * np.sign(w)
        step, moves, used = self._face_step(sweep, at, slope, turns)
        for cut in range(_CUTS):
            end = w + step
            passed = end * w < 0
            end[passed] = 0.0
            change = end - w
            if cut or np.any(passed):
                moves = sweep.moves(change, at)
            moves = self._centred(sweep, moves)
            curved = sweep.curved(moves)
            rise = float(gradient[at] @ change) + 0.5 * float(moves @ curved) / sweep.n
            rise += output.l1 * float(np.sum(np.abs(end)) - np.sum(np.abs(w)))
            rise += 0.5 * output.l2 * float(end @ end - w @ w)
            if rise < 0:
                sweep.w[at] = end
                sweep.slope += curved
                break
            step /= 4
        return used

    def _face_step(
        self, sweep: _Sweep, at: NDArray, slope: NDArray, turns: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
        """The step to slope 0, the moves of the rows, and the conjugate gradients used."""
        diagonal = sweep.curvature[at] + self.output.l2
        diagonal = np.maximum(diagonal, _FLAT * np.max(diagonal, initial=_TINY))
        ratio = sweep.n / len(sweep.slope)
        step, moves = np.empty(len(at)), np.empty(len(sweep.slope))
        used = _core.face_step(
            *sweep.lists.arguments(),
            at,
            ratio * self.output.l2,
            self.output.problem.fit_intercept,
            ratio * diagonal,
            ratio * slope,
            sweep.h,
            turns,
            _FALL,
            step,
            moves,
        )
        return step, moves, used

    def _centred(self, sweep: _Sweep, moves: NDArray) -> NDArray[np.float64]:
        """The moves of the rows when the intercept goes to where the model is least."""
        if not self.output.problem.fit_intercept:
            return moves
        h = sweep.h if sweep.h is not None else np.ones(len(moves))
        total = float(np.sum(h))
        return moves - float(h @ moves) / total if total > 0 else moves

    def _centre(self, sweep: _Sweep) -> None:
        """Move the intercept to where the model is least."""
        if self.output.problem.fit_intercept:
            mass = sweep.h if sweep.h is not None else np.ones(len(sweep.slope))
            total = float(np.sum(mass))
            if total > 0:
                sweep.slope -= mass * (np.sum(sweep.slope) / total)

    def _sweeps(self, sweep: _Sweep) -> float:
        """A batch of sweeps; the largest step of its last one, in units of the gradient."""
        p, lists, n_rows = len(sweep.ids), sweep.lists, len(sweep.slope)
        ratio = sweep.n / n_rows  # the core's means are over the rows that are left
        l1, l2 = np.full(p, ratio * self.output.l1), np.full(p, ratio * self.output.l2)
        stand = (sweep.w, sweep.slope, sweep.h)
        if self.mode == "async":
            before = sweep.w.copy()
            alone = (*lists.arguments(), l1, l2, ratio * sweep.curvature, *stand)
            _core.descend_async(*alone, _BATCH, self.n_threads)
            return float(np.max(np.abs(sweep.w - before) * sweep.curvature, initial=0.0))
        bounds, order, factor = self._groups(sweep, lists)
        net = (l1, l2, ratio * factor * sweep.curvature, *stand)
        plain = self.mode == "auto" and self.order == "cyclic"
        count = 1 if plain else _BATCH
        every = (*lists.arguments(), bounds, order, *net, count, 0.0, self.n_threads)
        largest = _core.descend_columns(*every)[1]
        at = np.flatnonzero(sweep.w)
        if plain and len(at):
            bounds = self._bounds(sweep.ids[at])
            some = (*lists.arguments(), bounds, at, *net, _BATCH - 1, 0.0, self.n_threads)
            largest = max(largest, _core.descend_columns(*some)[1])
        return largest / ratio

    def _bounds(self, ids: NDArray) -> NDArray[np.int64]:
        """Where groups of columns begin that share no row, and the end."""
        design = self.output.columns.design
        if not isinstance(design, Binned):
            return np.arange(len(ids) + 1)
        grids = np.searchsorted(design.offsets, ids, side="right")
        return np.append(np.flatnonzero(np.diff(grids, prepend=-1)), len(ids)).astype(np.int64)

    def _groups(self, sweep: _Sweep, lists: ColumnLists) -> tuple[NDArray, NDArray | None, float]:
        """Bounds of groups that move together, the order of the columns, and the safety factor."""
        p = len(sweep.ids)
        if self.mode == "safe":
            tau = min(max(self.n_threads, 1), p)
            omega = int(np.bincount(lists.rows).max(initial=1)) if len(lists.rows) else 1
            bounds = np.append(np.arange(0, p, tau), p).astype(np.int64)
            return bounds, self.draws.permutation(p), eso_factor(min(omega, p), tau, max(p, 1))
        if self.order == "cyclic":
            return self._bounds(sweep.ids), None, 1.0
        if self.order == "permuted":
            return np.arange(p + 1), self.draws.permutation(p), 1.0
        if self.order == "random":
            return np.arange(p + 1), self.draws.integers(p, size=p), 1.0
        return self._greediest(sweep)

    def _greediest(self, sweep: _Sweep) -> tuple[NDArray, NDArray, float]:
        """The half of the columns that gains most, the largest gain first."""
        gradient = self.output.columns.rmatvec(sweep.slope)[sweep.ids] / len(sweep.slope)
        violation = self.output.problem.penalty.violation(sweep.w, gradient)
        gain = violation / np.sqrt(np.maximum(sweep.curvature + self.output.l2, 1e-300))
        order = np.argsort(-gain)[: (len(gain) + 1) // 2]
        return np.arange(len(order) + 1), order, 1.0


def _batch_work(n_entries: float, n_active: float, turns: int) -> float:
    """Nanoseconds of a batch of sweeps, about one for each entry read or written.

    ``turns`` are products of the columns with weights with a vector and back.
    """
    return 3.0 * n_entries + (8.0 + 2.0 * turns) * n_active


def step_work(output: Output, at: Iterate, n_wanted: int) -> tuple[float, float]:
    """Nanoseconds of the next Newton step and of sweeps on ``n_wanted`` columns.

    Those of sweeps are infinite unless columns are bins.
    """
    columns, active = output.columns, at.active
    if not isinstance(columns, BinColumns) or not len(active):
        return 0.0, np.inf
    h = output.curvature(at)
    n_rows = columns.n if h is None else int(np.count_nonzero(h))
    sizes = columns.norms()[active] ** 2 * n_rows / columns.design.scale**2
    in_active = float(np.sum(sizes))
    entries = in_active * n_wanted / len(active)
    n_new = n_wanted - len(active) if output.loss.quadratic else n_wanted
    gram = _COUNTS * n_rows * n_wanted * n_new
    if columns.is_small and not output.loss.quadratic:
        gram = _DENSE * columns.n * n_wanted * n_new
    model = _FACTORS * (_GROWTH * len(active)) ** 3 + _PASSES * n_wanted**2
    batches = _BATCHES * _batch_work(entries, in_active, _CG_TURNS)
    return gram + model, batches + _LISTS * columns.design.n_grids * n_rows


def eso_factor(omega: int, tau: int, n_columns: int) -> float:
    """The factor by which curvatures have to grow for τ random columns to move at once.

    β = 1 + (ω − 1)(τ − 1) / max(1, D − 1), if no row has more than ω entries: then the objective
    does not rise on average over the choice of the columns. All of ω, τ and D are in [1, D].
    Richtárik and Takáč (2016), Parallel coordinate descent methods for big data optimization.
    """
    omega, tau = positive_integer(omega, "omega"), positive_integer(tau, "tau")
    n_columns = positive_integer(n_columns, "n_columns")
    if max(omega, tau) > n_columns:
        raise ValueError(
            f"omega and tau must be at most n_columns={n_columns}; got {omega} and {tau}."
        )
    return 1.0 + (omega - 1) * (tau - 1) / max(1, n_columns - 1)
