"""Quadratic model of the loss at a snapshot: start of the inner loops and their derivatives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from mercer.designs import Dense
from mercer.problem import Point, Problem
from mercer.solvers.coordinate.model import Model, minimise

__all__ = ["LARGEST", "Curvature", "QuadraticModels", "nearer_minimum"]

LARGEST = 2048  # largest number of coordinates with a Hessian: 48 MB in both precisions
_LEAST = 0.01  # least second derivative of a row, relative to the largest of the loss
_STALE = 0.1  # relative change of second derivatives that requires a new Hessian
_SHARE = 0.01  # accuracy of the minimum of a model, as a share of the gap
_HALVINGS = 6  # most halvings of the way to the minimum of a model
_TINY = 1e-12  # regularisation of the equations, relative to the mean curvature


@dataclass(frozen=True)
class Curvature:
    """The Hessian H = (1/n) Σ rows_i z_i z_iᵀ of the mean loss of one output."""

    rows: NDArray[np.float64]
    matrix: NDArray[np.float64]
    single: NDArray[np.float32]  # the matrix


class QuadraticModels:
    """Quadratic models of the mean loss of a dense problem, by output."""

    def __init__(self, problem: Problem, n_threads: int):
        self.problem, self.n_threads = problem, n_threads
        self.known: dict[int, Curvature] = {}

    def curvature(self, point: Point, output: int) -> Curvature:
        """Curvature at a point, or at an earlier one where it was much the same."""
        problem, loss = self.problem, self.problem.loss
        u, y = (
            array.reshape(problem.n_rows, -1)[:, output] for array in (point.responses, problem.y)
        )
        rows = np.asarray(loss.model_curvature(u, y), dtype=np.float64)
        rows = np.maximum(rows, _LEAST * loss.lipschitz)
        if problem.weights is not None:
            rows *= problem.weights
        known = self.known.get(output)
        if known is None or np.sum(np.abs(rows - known.rows)) > _STALE * np.sum(rows):
            known = self.known[output] = self._made(rows)
        return known

    def _made(self, rows: NDArray[np.float64]) -> Curvature:
        problem = self.problem
        design, n, q = problem.design, problem.n_rows, problem.shape[0]
        matrix = np.empty((q, q))
        weights = problem.weights_of(matrix)
        weights[:, : design.shape[1]] = Dense(design.toarray(), self.n_threads).gram(rows)
        if problem.fit_intercept:
            weights[:, -1] = matrix[-1, :-1] = design.rmatvec(rows.astype(problem.dtype))
            matrix[-1, -1] = np.sum(rows)
        matrix /= n
        with np.errstate(over="ignore"):
            return Curvature(rows, matrix, matrix.astype(np.float32))

    def towards_minimum(
        self, point: Point, gradient: NDArray[np.float64], output: int, gap: float
    ) -> NDArray[np.float64]:
        """Move (q,) to near the minimum of the model at a point about ``gap`` above it."""
        problem, penalty = self.problem, self.problem.penalty
        H = self.curvature(point, output).matrix
        if not np.all(np.isfinite(H)):
            return np.zeros(len(H))
        theta = np.asarray(point.theta, dtype=np.float64).reshape(len(H), -1)[:, output]
        w, slope, gram = problem.weights_of(theta), problem.weights_of(gradient), H
        if problem.fit_intercept:  # it goes along with the weights
            lean = H[-1, :-1] / H[-1, -1]
            gram = H[:-1, :-1] - np.outer(lean, H[-1, :-1])
            slope = slope - lean * gradient[-1]
        if penalty.l1:
            reach = float(point.values[output]) / penalty.l1  # of the absolute weights
            model = Model(gram, gram @ w - slope, penalty.l1, penalty.l2, reach)
            moved = minimise(model, w, _SHARE * gap) - w
        else:
            moved = _newton_step(gram, slope + penalty.l2 * w, penalty.l2)
        if problem.fit_intercept:
            moved = np.append(moved, -gradient[-1] / H[-1, -1] - lean @ moved)
        return moved


def _newton_step(
    gram: NDArray[np.float64], slope: NDArray[np.float64], l2: float
) -> NDArray[np.float64]:
    """−(gram + l2)⁻¹ slope, or zeros where rounding leaves no inverse."""
    system, diagonal = gram.copy(), np.diag_indices(len(gram))
    system[diagonal] += l2 + _TINY * np.mean(system[diagonal])
    try:
        return -cho_solve(cho_factor(system, overwrite_a=True, check_finite=False), slope)
    except LinAlgError:
        return np.zeros(len(slope))


def nearer_minimum(
    models: QuadraticModels,
    point: Point,
    gradient: NDArray[np.float64],
    gaps: NDArray[np.float64],
    at_work: NDArray[np.bool_],
) -> Point:
    """The best point on the way to the minima of the models, or the point itself."""
    problem = models.problem
    moves = np.zeros(gradient.shape)
    for k in np.flatnonzero(at_work):
        moves[:, k] = models.towards_minimum(point, gradient[:, k], int(k), float(gaps[k]))
    move = moves.reshape(problem.shape).astype(problem.dtype)
    ahead = problem.responses(move)
    best = point
    for halvings in range(_HALVINGS):
        share = 0.5**halvings
        theta = point.theta + np.asarray(share, dtype=problem.dtype) * move
        trial = problem.at(theta, point.responses + np.asarray(share, dtype=problem.dtype) * ahead)
        better = at_work & (trial.values < best.values)
        best = best.with_outputs(trial, better)
        at_work = at_work & ~better
        if not np.any(at_work):
            break
    return best
