"""Sweeps of coordinate descent over a working set, for sets too large for a Gram matrix."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer import _core
from mercer._validation import positive_integer
from mercer.solvers.coordinate.columns import BinColumns, ColumnLists, column_lists
from mercer.solvers.coordinate.output import Iterate
from mercer.solvers.coordinate.steps import Steps

__all__ = ["DescentSteps", "eso_factor"]

_BATCH, _BATCHES = 5, 60  # sweeps between two looks at their largest step, and most such batches
_MEMORY = 5  # iterates that an extrapolation combines
_SHARE, _EXACT = 0.01, 0.03  # excess allowed to a model: shares of the gap and of the final goal
_LEAST = 1e-2  # least curvature of a row, relative to the mean one


@dataclass
class _Sweep:
    """The model on the columns at work, and where it stands."""

    ids: NDArray
    w: NDArray[np.float64]
    slope: NDArray[np.float64]
    h: NDArray[np.float64] | None
    curvature: NDArray[np.float64]
    lists: ColumnLists | None  # None: all columns of a binned design, grid by grid


@dataclass(kw_only=True)
class DescentSteps(Steps):
    """Models by the slopes of the rows, minimised by sweeps with extrapolation.

    ``mode`` and ``order`` are those of ``CoordinateDescent``.
    """

    mode: str = "auto"
    order: str = "cyclic"
    n_threads: int = 1
    draws: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0), repr=False)

    def step(self, at: Iterate, gap: float, goal: float) -> Iterate | None:
        with self.clock.phase("columns"):
            sweep = self._begin(at)
        reach = at.objective / self.output.l1 if self.output.l1 > 0 else 1.0
        enough = max(_EXACT * goal, _SHARE * gap) / max(reach, 1e-300)
        with self.clock.phase("sweeps"):
            self._minimise(sweep, enough)
        with self.clock.phase("rows"):
            before = self.caution
            better = self.search(at, sweep.ids, sweep.w - at.w[sweep.ids], sweep.h)
        if self.mode == "async" and (better is None or self.caution > before):
            self.mode = "safe"  # threads were in each other's way
            return at if better is None else better
        return at if better is None and self.order == "random" else better

    def _begin(self, at: Iterate) -> _Sweep:
        columns, h = self.output.columns, self.curvature(at)
        if h is not None and not self.output.loss.quadratic:
            h = np.maximum(h, _LEAST * float(np.mean(h)))
        ids = np.sort(self.candidates(at))
        plain = self.mode == "auto" and self.order == "cyclic"
        bins = isinstance(columns, BinColumns) and not columns.design.missing
        if plain and bins and 2 * len(ids) >= columns.n_columns:
            ids, lists = np.arange(columns.n_columns), None
            curvature = columns.design.column_sqnorms(h) / columns.n
        else:
            lists = column_lists(columns, ids)
            curvature = lists.curvatures(h, columns.n)
        return _Sweep(ids, at.w[ids], at.slopes.copy(), h, curvature, lists)

    def _minimise(self, sweep: _Sweep, enough: float) -> None:
        """Sweeps until no step is larger than ``enough``, in units of the gradient."""
        history: list[tuple[NDArray, NDArray]] = []
        if not self.output.loss.convex:
            self._centre(sweep)
        for _ in range(_BATCHES):
            largest = self._sweeps(sweep)
            self._centre(sweep)
            if largest <= enough and self.order != "random":
                return
            history.append((sweep.w.copy(), sweep.slope.copy()))
            if len(history) > _MEMORY:
                self._extrapolate(sweep, history)
                history = []

    def _centre(self, sweep: _Sweep) -> None:
        """Move the intercept to where the model is least."""
        if self.output.problem.fit_intercept:
            mass = sweep.h if sweep.h is not None else np.ones(len(sweep.slope))
            total = float(np.sum(mass))
            if total > 0:
                sweep.slope -= mass * (np.sum(sweep.slope) / total)

    def _sweeps(self, sweep: _Sweep) -> float:
        output, lists = self.output, sweep.lists
        l1, l2 = np.full(len(sweep.ids), output.l1), np.full(len(sweep.ids), output.l2)
        stand = (sweep.w, sweep.slope, sweep.h, _BATCH)
        if lists is None:
            design: Any = output.columns.design
            grids = (design.codes, design.offsets, design.scale, l1, l2, sweep.curvature, *stand)
            return _core.descend_grids(*grids, 0.0, self.n_threads)[1]
        if self.mode == "async":
            before = sweep.w.copy()
            columns = (*lists.arguments(), l1, l2, sweep.curvature, *stand)
            _core.descend_async(*columns, self.n_threads)
            return float(np.max(np.abs(sweep.w - before) * sweep.curvature, initial=0.0))
        bounds, order, factor = self._groups(sweep, lists)
        groups = (*lists.arguments(), bounds, order, l1, l2, factor * sweep.curvature, *stand)
        return _core.descend_columns(*groups, 0.0, self.n_threads)[1]

    def _groups(self, sweep: _Sweep, lists: ColumnLists) -> tuple[NDArray, NDArray | None, float]:
        """Bounds of groups that move together, the order of the columns, and the safety factor."""
        p = len(sweep.ids)
        if self.mode == "safe":
            tau = min(max(self.n_threads, 1), p)
            omega = int(np.bincount(lists.rows).max(initial=1)) if len(lists.rows) else 1
            bounds = np.append(np.arange(0, p, tau), p).astype(np.int64)
            return bounds, self.draws.permutation(p), eso_factor(min(omega, p), tau, max(p, 1))
        if self.order == "cyclic" and isinstance(self.output.columns, BinColumns):
            offsets = self.output.columns.design.offsets
            grids = np.searchsorted(offsets, sweep.ids, side="right")
            first = np.flatnonzero(np.diff(grids, prepend=-1))
            return np.append(first, p).astype(np.int64), None, 1.0
        if self.order == "cyclic":
            return np.arange(p + 1), None, 1.0
        if self.order == "permuted":
            return np.arange(p + 1), self.draws.permutation(p), 1.0
        if self.order == "random":
            return np.arange(p + 1), self.draws.integers(p, size=p), 1.0
        return self._greediest(sweep)

    def _greediest(self, sweep: _Sweep) -> tuple[NDArray, NDArray, float]:
        """The half of the columns that gains most, those first that gain most."""
        gradient = self.output.columns.rmatvec(sweep.slope)[sweep.ids] / len(sweep.slope)
        violation = self.output.problem.penalty.violation(sweep.w, gradient)
        gain = violation / np.sqrt(np.maximum(sweep.curvature + self.output.l2, 1e-300))
        order = np.argsort(-gain)[: (len(gain) + 1) // 2]
        return np.arange(len(order) + 1), order, 1.0

    def _extrapolate(self, sweep: _Sweep, history: list[tuple[NDArray, NDArray]]) -> None:
        """Go to the best combination of the last iterates, if the model is less there."""
        if sweep.h is not None and not np.all(sweep.h > 0):
            return
        ws = np.array([w for w, _ in history])
        steps = np.diff(ws, axis=0)
        products = steps @ steps.T
        size = float(np.trace(products))
        if not size > 0:
            return
        products[np.diag_indices(len(products))] += 1e-12 * size
        weights = np.linalg.solve(products, np.ones(len(products)))
        weights /= np.sum(weights)
        w = weights @ ws[1:]
        slope = weights @ np.array([slope for _, slope in history[1:]])
        if self._value(w, slope, sweep.h) < self._value(sweep.w, sweep.slope, sweep.h):
            sweep.w[:], sweep.slope[:] = w, slope

    def _value(self, w: NDArray, slope: NDArray, h: NDArray | None) -> float:
        rows = slope * slope if h is None else slope * slope / h
        smooth = 0.5 * float(np.sum(rows)) / len(slope)
        return smooth + float(self.output.problem.penalty.value(w))


def eso_factor(omega: int, tau: int, n_columns: int) -> float:
    """The factor by which curvatures have to grow for τ random columns to move at once.

    β = 1 + (ω − 1)(τ − 1) / max(1, D − 1), if no row has more than ω entries: then the objective
    does not rise on average over the choice of the columns.

    Parameters
    ----------
    omega, tau, n_columns : int
        ω, most non-zeros of a row; τ, columns moved at once; and D, all of them: from 1 to D.

    Returns
    -------
    float
        1 for τ = 1 or ω = 1, and τ for ω = D.

    References
    ----------
    Richtárik and Takáč (2016), Parallel coordinate descent methods for big data optimization.

    Examples
    --------
    >>> from mercer.solvers.coordinate import eso_factor
    >>> eso_factor(omega=11, tau=11, n_columns=101)
    2.0
    """
    omega, tau = positive_integer(omega, "omega"), positive_integer(tau, "tau")
    n_columns = positive_integer(n_columns, "n_columns")
    if max(omega, tau) > n_columns:
        raise ValueError(
            f"omega and tau must be at most n_columns={n_columns}; got {omega} and {tau}."
        )
    return 1.0 + (omega - 1) * (tau - 1) / max(1, n_columns - 1)
