"""Duality gaps: upper bounds of how far F at a point is above its minimum."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.penalties import RKHSNorm
from mercer.problem.objective import Point, Problem

__all__ = ["dual_gap", "dual_gaps", "dual_values"]


def dual_gap(point: Point) -> float | None:
    """F(θ) − D(a), an upper bound on F(θ) − min F, with the dual point a derived from θ.

    With a_i = ℓ'(y_i, u_i), moved to mean zero for an intercept and shrunk as far as an l1 part
    demands, D(a) = −(1/n) Σ s_i ℓ*(y_i, a_i) − Ω*(−Zᵀ(s·a)/n), where Ω*(v) is
    ‖max(|v| − l1, 0)‖² / (2 l2), or 0 for |v| ≤ l1 if there is no l2 part.

    Returns
    -------
    float or None
        Gap, summed over the outputs. Infinite for alpha = 0; None if the loss is not convex, or for
        ``RKHSNorm``.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.designs import Dense
    >>> from mercer.losses import Squared
    >>> from mercer.penalties import L1
    >>> from mercer.problem import Problem, dual_gap
    >>> problem = Problem(Dense(np.eye(2)), [3.0, 0.5], Squared(), L1(0.5), fit_intercept=False)
    >>> dual_gap(problem.at([2.0, 0.0]))
    0.0
    """
    gaps = dual_gaps(point)
    return None if gaps is None else float(np.sum(gaps))


def dual_gaps(point: Point, slopes: NDArray | None = None) -> NDArray[np.float64] | None:
    """``dual_gap`` of every output: (k,) if they are independent; else (1,).

    ``slopes`` (n,) or (n, k), in the domain of the conjugate, take the place of the derivatives
    ℓ'(y_i, u_i), which a loss with a kink does not have everywhere.

    The domain of every conjugate is convex and holds 0, so any share of a is a dual point as well:
    with an l1 part all of a may be infeasible, and with both parts neither a nor the share of it
    that the l1 part allows is always the better one.
    """
    problem = point.problem
    loss, penalty = problem.loss, problem.penalty
    if not loss.convex or isinstance(penalty, RKHSNorm):
        return None
    if penalty.alpha == 0:
        return np.full(point.values.shape, np.inf)
    y = problem.y.astype(np.float64, copy=False)
    a = slopes
    if a is None:
        a = loss.gradient(point.responses.astype(np.float64, copy=False), y)
    if problem.fit_intercept:
        a = loss.balance(a, y, problem.row_mean)
    w = problem.weights_of(point.theta)
    correlations = problem.weights_of(problem.mean_rows(a.astype(problem.dtype)))
    shares = [np.ones(w.shape[1:])] if penalty.l2 else []
    if penalty.l1 or not penalty.l2:
        shares.append(penalty.dual_scale(w, correlations))
    if loss.joint:
        shares = [np.full(w.shape[1:], np.min(share)) for share in shares]
    duals = [dual_values(problem, a, correlations, share) for share in shares]
    return point.values - np.max(duals, axis=0)


def dual_values(
    problem: Problem, a: NDArray, correlations: NDArray, share: NDArray[np.float64]
) -> NDArray[np.float64]:
    """D(share · a) of every output, a lower bound of its minimum: (k,) or (1,).

    The loss is convex and the strength above 0. ``a`` (n,) or (n, k), in float64, lies in the
    domain of the conjugate, of weighted mean 0 if there is an intercept; ``correlations`` are (1/n)
    Zᵀ (s·a), and a share is from 0 to 1. With an l1 part alone, D is −∞ unless share ·
    |correlations| ≤ l1.
    """
    conjugate: Any = problem.loss.conjugate(share * a, problem.y)
    conjugate = problem.row_mean(conjugate)
    of_penalty = problem.penalty.conjugate(share.astype(correlations.dtype) * correlations)
    return -np.atleast_1d(conjugate + (np.sum(of_penalty) if problem.loss.joint else of_penalty))
