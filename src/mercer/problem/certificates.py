"""How far a θ is from the minimum at most, and from which strength on nothing is worth a weight."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mercer.penalties import RKHSNorm

if TYPE_CHECKING:
    from mercer.problem.objective import Problem

__all__ = ["best_constant", "dual_gaps"]

_BISECTIONS, _ROUNDS = 60, 100


def dual_gaps(problem: Problem, theta: NDArray) -> NDArray[np.float64] | None:
    """F(θ) − D(a) of every output for the dual point a that θ suggests; see ``Problem.dual_gap``.

    The domain of every conjugate is convex and holds 0, so any share of a is a dual point as well:
    with an l1 part all of a may be infeasible, and with both parts neither a nor the share of it
    that the l1 part allows is always the better one.
    """
    loss, penalty = problem.loss, problem.penalty
    if not loss.convex or isinstance(penalty, RKHSNorm):
        return None
    if penalty.alpha == 0:
        return np.full(problem.values(theta).shape, np.inf)
    y = problem.y.astype(np.float64, copy=False)
    responses = problem.responses(theta).astype(np.float64, copy=False)
    values = problem.values(theta)
    a = loss.gradient(responses, y)
    if problem.fit_intercept:
        a = loss.balance(a, y, problem.row_mean)
    w = problem.weights_of(np.asarray(theta, dtype=problem.dtype))
    correlations = problem.weights_of(problem.mean_rows(a.astype(problem.dtype)))
    shares = [np.ones(w.shape[1:])] if penalty.l2 else []
    if penalty.l1 or not penalty.l2:
        shares.append(penalty.dual_scale(w, correlations))
    if loss.joint:
        shares = [np.full(w.shape[1:], np.min(share)) for share in shares]
    bounds = []
    for share in shares:
        conjugate = problem.row_mean(np.asarray(loss.conjugate(share * a, y)))
        of_penalty = penalty.conjugate(share.astype(w.dtype) * correlations)
        bounds.append(np.atleast_1d(conjugate + (np.sum(of_penalty) if loss.joint else of_penalty)))
    return values + np.min(bounds, axis=0)


def best_constant(problem: Problem) -> NDArray:
    """θ of the best constant model."""
    theta = problem.initial()
    if not problem.fit_intercept or problem.loss.is_classification or problem.loss.quadratic:
        return theta  # the start is one
    y = problem.y.astype(np.float64, copy=False)
    if not problem.loss.convex:
        theta[-1] = _good_constant(problem, y, theta[-1])
        return theta
    low, high = y.min(axis=0), y.max(axis=0)
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        constant = np.broadcast_to(middle, y.shape)
        rises = problem.row_mean(problem.loss.gradient(constant, y)) > 0
        low, high = np.where(rises, low, middle), np.where(rises, middle, high)
    theta[-1] = 0.5 * (low + high)
    return theta


def _good_constant(problem: Problem, y: NDArray, start: NDArray) -> NDArray:
    """The constant that is best near ``start``, by parabolas above the loss."""
    best = start.astype(np.float64)
    for _ in range(_ROUNDS):
        constant = np.broadcast_to(best, y.shape)
        slope = problem.row_mean(problem.loss.gradient(constant, y))
        bend = problem.row_mean(problem.loss.model_curvature(constant, y))
        best = best - np.divide(slope, bend, out=np.zeros_like(slope), where=bend > 0)
    return best
