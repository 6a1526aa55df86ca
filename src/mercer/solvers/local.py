"""Local kernel machines: an exact kernel machine in every leaf, each solved by itself.

::

    min over a, b of   sum_i s_i loss(y_i, (K a)_i + b) + (n alpha / 2) aᵀK a

over the rows i of a leaf, n being the number of all rows. For the squared loss these are the
equations (K + n alpha S⁻¹) a = y - b with 1ᵀa = 0: one factor of a small matrix per leaf and
strength. Other losses take Newton's method: for float32 rows and the usual losses in the core, one
leaf per thread without Python in between, else, and where float32 is too short, as a ``Problem``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from mercer import _core
from mercer._runtime.arrays import n_threads
from mercer._runtime.config import device_in_force
from mercer._runtime.rows import PreparedRows
from mercer._runtime.threads import side_by_side
from mercer.designs import KernelColumns
from mercer.designs.kernel_rows import InCore, in_core
from mercer.equations.factor import Factor
from mercer.losses import Huber, Logistic, Loss, Multinomial, SmoothHinge, SquaredHinge
from mercer.maps.local import LocalKernel
from mercer.penalties import RKHSNorm
from mercer.problem import Problem
from mercer.problem.precision import ENOUGH, rounding
from mercer.solvers.base import Result
from mercer.solvers.row_newton import newton_for, suits_rows
from mercer.solvers.smoothing import Smoothing

__all__ = ["LeafProgress", "LocalSolution", "solve_leaves"]

_TOL = 1e-6  # relative residual at which refinement of float32 factors stops
_ACCURATE = 1e-4  # relative residual above which leaves are solved again in float64
_NEWTON = (Huber, Logistic, Multinomial, SmoothHinge, SquaredHinge)  # losses the core minimises
_BATCH = 64  # leaves solved between two checks of the clock and of interrupts


@dataclass(frozen=True)
class LeafProgress:
    """Progress for a listener: leaves solved so far, and the coefficients."""

    n_solved: int
    n_leaves: int
    coef: NDArray


@dataclass
class LocalSolution:
    """Coefficients of all leaves, for every strength of the penalty."""

    coef: NDArray  # (q, D, k), as the columns of a Local design: rows of the leaves, then constants
    # (q,) largest residual or gradient of a leaf, relative to a constant model
    optimality: NDArray[np.float64]
    n_iter: int  # most Newton steps that a leaf took; 1 for the squared loss
    n_trees: int  # trees whose leaves are all solved
    stopped: bool  # whether the user or a listener stopped before all were
    interrupted: bool  # whether it was the user


def solve_leaves(
    map_: LocalKernel,
    target: NDArray,
    weights: NDArray | None,
    loss: Loss,
    alphas: Sequence[float],
    *,
    fit_intercept: bool = True,
    tol: float = 1e-2,
    max_iter: int = 1000,
    n_rows: int | None = None,
    listener: Callable[[LeafProgress], bool] | None = None,
) -> LocalSolution:
    """Solve every leaf by itself, a number of them side by side.

    The map is fitted to the rows; weights, above 0, are brought to mean 1 over the ``n_rows`` of
    the whole fit, of which the rows may be a part. The squared loss takes one factor per strength >
    0; others take Newton's method in each leaf, with ``tol`` and ``max_iter``. The listener is
    called after every few leaves; True stops.
    """
    target = np.asarray(target, dtype=np.float64).reshape(len(target), -1)
    if n_rows is None:
        n_rows = len(target)
        weights = None if weights is None else weights / np.mean(weights)
    ridges = [n_rows * alpha for alpha in alphas]
    work = _Leaves(map_, target, weights, loss, ridges, fit_intercept, tol, max_iter)
    stopped = interrupted = False
    try:
        for first in range(0, work.n_leaves, _BATCH):
            work.solve(range(first, min(first + _BATCH, work.n_leaves)))
            if listener is not None and listener(work.progress()):
                stopped = work.n_solved < work.n_leaves
                break
    except KeyboardInterrupt:
        stopped = interrupted = True
    return work.solution(stopped, interrupted)


def suits_device(loss: Loss) -> bool:
    """Whether leaves can be solved on a device for a loss."""
    return loss.quadratic or (suits_rows(loss) and not loss.joint)


class _Leaves:
    """The leaves of a map, their equations, and the coefficients solved so far."""

    def __init__(
        self,
        map_: LocalKernel,
        target: NDArray[np.float64],
        weights: NDArray | None,
        loss: Loss,
        ridges: list[float],
        fit_intercept: bool,
        tol: float,
        max_iter: int,
    ):
        self.map, self.target, self.loss, self.ridges = map_, target, loss, ridges
        self.weights = weights
        self.fit_intercept, self.tol, self.max_iter = fit_intercept, tol, max_iter
        self.members, self.X = map_.members_, map_.landmarks_
        self.n_leaves, self.n_solved = len(self.members), 0
        shape = (len(ridges), map_.n_features_out_, target.shape[1])
        self.coef = np.zeros(shape, dtype=self.X.dtype)
        self.optimality = np.zeros((len(ridges), self.n_leaves))
        self.n_iter = 1
        self._core: InCore | None = None
        self._on_device: Any = None
        device = device_in_force()
        if device is not None and suits_device(loss):
            from mercer.solvers.device_leaves import DeviceLeaves  # which few need

            given = target, weights, fit_intercept, _TOL, loss, tol, max_iter
            self._on_device = DeviceLeaves(device, map_, *given)
        elif (
            (loss.quadratic or type(loss) in _NEWTON)
            and isinstance(self.X, np.ndarray)
            and self.X.dtype == np.float32
        ):
            self._core = in_core(map_.kernel_, PreparedRows(self.X))
        if fit_intercept:
            for leaf in range(self.n_leaves):  # the model of a leaf that nobody comes to solve
                rows = self.members.of(leaf)
                own = None if self.weights is None else self.weights[rows]
                mean = partial(np.average, axis=0, weights=own)
                self.coef[:, self._constant(leaf)] = loss.start(target[rows], mean)

    def _constant(self, leaf: int) -> int:
        return len(self.members.order) + leaf

    def solve(self, leaves: range) -> None:
        """Solve some leaves side by side."""
        left: Sequence[int] = leaves
        if self._on_device is not None:
            left = self._solved_on_device(leaves)
        elif self._core is not None:
            left = self._in_core(leaves, self._core)
        one = self._direct if self.loss.quadratic else self._by_newton
        for leaf, (coef, constants, optimality) in zip(
            left, side_by_side(one, left, self.map.n_jobs), strict=True
        ):
            self.coef[:, self.members.places(leaf)] = coef
            self.coef[:, self._constant(leaf)] = constants
            self.optimality[:, leaf] = optimality
        self.n_solved = leaves.stop

    def _solved_on_device(self, leaves: range) -> list[int]:
        """Solve on the device in force; return the leaves that need a longer dtype."""
        left = []
        for leaf, coef, constants, residual in self._on_device.solve(leaves, self.ridges):
            self.coef[:, self.members.places(leaf)] = coef
            self.coef[:, self._constant(leaf)] = constants
            self.optimality[:, leaf] = residual
            if not residual.max() <= (_ACCURATE if self.loss.quadratic else self.tol):
                left.append(leaf)
        self.n_iter = max(self.n_iter, self._on_device.n_iter)
        return left

    def _in_core(self, leaves: range, core: InCore) -> list[int]:
        """Solve with factors in float32; return the leaves that need a longer dtype."""
        name, parameter, scale = core
        starts = self.members.starts[leaves.start : leaves.stop + 1]
        places = slice(int(starts[0]), int(starts[-1]))
        first = self._constant(leaves.start)
        constants = slice(first, first + len(leaves))
        large_first = np.argsort(-np.array(self.ridges), kind="stable")
        coef = np.empty((len(self.ridges), places.stop - places.start, self.target.shape[1]))
        intercept = self.coef[large_first, constants].astype(np.float64)
        residual = np.empty((len(self.ridges), len(leaves)))
        problem = (
            self.X,
            self.members.order[places],
            starts - starts[0],
            name,
            parameter,
            scale,
            self.target,
            self.weights,
            np.array(self.ridges)[large_first],
            self.fit_intercept,
        )
        solution = (coef, intercept, residual)
        threads, enough = n_threads(self.map.n_jobs), _ACCURATE
        if self.loss.quadratic:
            _core.solve_leaves(*problem, _TOL, *solution, threads)
        else:
            steps, loss, enough = np.empty(residual.shape, np.int64), self.loss, self.tol
            limits = (loss.name, loss.parameter, self.tol, self.max_iter)
            _core.minimise_leaves(*problem, *limits, *solution, steps, threads)
            self.n_iter = max(self.n_iter, int(steps.max(initial=0)))
        self.coef[large_first, places] = coef
        self.coef[large_first, constants] = intercept
        self.optimality[large_first, leaves.start : leaves.stop] = residual
        return [leaves[i] for i in np.flatnonzero(residual.max(axis=0) > enough)]

    def _rows(self, leaf: int) -> tuple[Any, NDArray[np.float64], NDArray[np.float64] | None]:
        rows = self.members.of(leaf)
        weights = None if self.weights is None else self.weights[rows]
        return self.X[rows], self.target[rows], weights

    def _direct(self, leaf: int) -> tuple[NDArray, NDArray, NDArray]:
        """Coefficients (q, m, k), constants (q, k) and residuals (q,), in float64."""
        X, y, weights = self._rows(leaf)
        kernel = np.asarray(self.map.kernel_(X.astype(np.float64)))
        m, k = y.shape
        ones = np.ones((m, 1))
        inverse_weights = np.ones(m) if weights is None else 1 / weights
        constant_model = float(np.linalg.norm(y - y.mean(axis=0))) or 1.0
        coefs, constants, residuals = [], [], []
        for ridge in self.ridges:
            matrix = kernel.copy()
            matrix[np.diag_indices(m)] += ridge * inverse_weights
            factor = Factor(matrix)
            solved = factor.solve(np.hstack([y, ones]))
            b = np.zeros(k)
            if self.fit_intercept:
                b = solved[:, :k].sum(axis=0) / solved[:, k].sum()
            a = solved[:, :k] - solved[:, k:] * b
            residual = y - b - matrix @ a
            residuals.append(float(np.linalg.norm(residual)) / constant_model)
            coefs.append(a)
            constants.append(b)
        return np.stack(coefs), np.stack(constants), np.array(residuals)

    def _by_newton(self, leaf: int) -> tuple[NDArray, NDArray, NDArray]:
        """Solve leaves for losses other than squared, in the rows' dtype if that is accurate."""
        X, y, weights = self._rows(leaf)
        wide = X.astype(np.float64)
        for rows in (wide,) if X.dtype == np.float64 else (X, wide):
            problem, results = self._minimised(rows, y, weights)
            if rows is wide or self._holds(problem, results):
                break
        thetas = np.stack([result.coef for result in results]).astype(np.float64)
        thetas = thetas.reshape(*thetas.shape[:2], -1)
        coefs, constants = thetas[:, : len(y)], np.zeros_like(thetas[:, 0])
        if self.fit_intercept:
            constants = thetas[:, len(y)]
        self.n_iter = max(self.n_iter, *(result.n_iter for result in results))
        return coefs, constants, np.array([result.optimality for result in results])

    def _minimised(
        self, X: Any, y: NDArray[np.float64], weights: NDArray[np.float64] | None
    ) -> tuple[Problem, list[Result]]:
        """The problem of a leaf at the first strength, and the results of all."""
        design = KernelColumns(X, self.map.kernel_, n_jobs=1)
        if not suits_rows(self.loss):
            design = design.held()
        total = float(len(y)) if weights is None else float(weights.sum())
        alphas = [ridge / total for ridge in self.ridges]
        target = y if self.loss.joint or y.shape[1] > 1 else y[:, 0]
        penalty = RKHSNorm(alphas[0], design)
        problem = Problem(design, target, self.loss, penalty, weights, self.fit_intercept)
        kind = newton_for(problem) if self.loss.smooth else Smoothing
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            results = kind(tol=self.tol, max_iter=self.max_iter).solve_path(problem, alphas)
        if any(result.interrupted for result in results):
            raise KeyboardInterrupt
        return problem, results

    def _holds(self, problem: Problem, results: list[Result]) -> bool:
        """Whether the digits of a problem have been enough."""
        for ridge, result in zip(self.ridges, results, strict=True):
            penalty = replace(problem.penalty, alpha=problem.penalty.alpha * ridge / self.ridges[0])
            at = problem.with_penalty(penalty)
            if not result.converged or rounding(at, result.coef) > ENOUGH[problem.dtype]:
                return False
        return True

    def progress(self) -> LeafProgress:
        """Progress for a listener."""
        return LeafProgress(self.n_solved, self.n_leaves, self.coef[0])

    def solution(self, stopped: bool, interrupted: bool) -> LocalSolution:
        """The solved trees; leaves that an interruption leaves unsolved get a constant model."""
        trees = [
            self.map.partition_.first_trees(count + 1).n_leaves
            for count in range(len(self.map.partition_.roots))
        ]
        whole = max(1, sum(n_leaves <= self.n_solved for n_leaves in trees))
        coef = self.coef
        if whole < len(trees):
            n_leaves = trees[whole - 1]
            members = int(self.members.starts[n_leaves])
            constants = coef[:, self._constant(0) : self._constant(n_leaves)]
            coef = np.concatenate([coef[:, :members], constants], axis=1)
        left = 1.0 if self.n_solved < trees[whole - 1] else 0.0  # what constants leave
        optimality = self.optimality[:, : self.n_solved].max(axis=1, initial=left)
        return LocalSolution(coef, optimality, self.n_iter, whole, stopped, interrupted)
