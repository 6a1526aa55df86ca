"""Step lengths that theory allows: far shorter ones than practice takes."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral

import numpy as np

from mercer._runtime.arrays import row_chunks
from mercer._runtime.validation import positive_integer
from mercer.problem import Problem
from mercer.solvers.async_svrg.inner import largest_squares

__all__ = ["StepBounds", "step_bounds"]

_RATES = 1.0 + np.logspace(-12, 3, 3001)  # values of ρ > 1 among which the best is chosen


@dataclass(frozen=True)
class StepBounds:
    """Constants of the losses of single rows, and the steps that theorems allow."""

    largest: float  # L_max, the most that a derivative along a coordinate changes with it
    restricted: float  # L_res, the most that the gradient changes with a coordinate
    whole: float  # L_nor, the most that the gradient changes with the weights
    convex: float  # least upper bound of the γ of proved convergence if the loss is convex
    nonconvex: float  # the same for any loss; 0 where there is no such γ


def step_bounds(problem: Problem, delay: int = 1, n_inner: int | None = None) -> StepBounds:
    """Step sizes for which the convergence of ``AsyncSVRG`` is proved.

    They decrease as 1 / ``n_inner`` and are far smaller than useful values such as γ = 1 or 0.1;
    they are for comparison with the γ in use.

    Parameters
    ----------
    problem : Problem
        Problem; its design should store the matrix.
    delay : int, default=1
        Largest age τ of weights that a thread reads, in steps, >= 0.
    n_inner : int or None, default=None
        Number of steps between two snapshots; None means the number of rows.

    References
    ----------
    Gu, Miao, Huo and Huang (2018), Asynchronous doubly stochastic sparse kernel learning: theorems
    1 and 2, at the best ρ.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import designs, losses, penalties, solvers
    >>> from mercer.problem import Problem
    >>> design, loss = designs.Dense(np.eye(4)), losses.Squared()
    >>> problem = Problem(design, np.ones(4), loss, penalties.L1(0.1), fit_intercept=False)
    >>> solvers.step_bounds(problem, delay=0, n_inner=1).convex
    1.0
    """
    if not isinstance(delay, Integral) or isinstance(delay, bool):
        raise TypeError(f"delay must be an integer; got {delay!r}.")
    if delay < 0:
        raise ValueError(f"delay must be at least 0; got {delay!r}.")
    m = problem.n_rows if n_inner is None else positive_integer(n_inner, "n_inner")
    tau, beta, q = int(delay), problem.loss.lipschitz, problem.shape[0]
    largest, restricted, whole = _constants(problem)
    if not largest > 0:
        return StepBounds(0.0, 0.0, 0.0, np.inf, np.inf)
    res, nor, root = restricted / largest, whole / largest, np.sqrt(q)
    # Sums of powers of ρ grow with ρ, so that the first theorem allows most as ρ goes to 1.
    convex = 1.0 / (nor + tau * tau / q + 2 * (res * tau + nor * (m - 1)) / root)
    with np.errstate(over="ignore"):
        theta1, theta2 = _powers(tau), _powers(m - 1)
        first = (root * (1 - 1 / _RATES) - 4) / (4 * (res * (1 + theta1) + nor * (1 + theta2)))
        second = root / (0.5 * root + 2 * nor * theta2 + res * theta1)
    nonconvex = max(0.0, float(np.max(np.minimum(first, second))))
    return StepBounds(beta * largest, beta * restricted, beta * whole, float(convex), nonconvex)


def _constants(problem: Problem) -> tuple[float, float, float]:
    """max ‖z‖∞², max ‖z‖∞‖z‖ and max ‖z‖² over the rows, times their weights."""
    design, ones = problem.design, float(problem.fit_intercept)
    weights = np.ones(problem.n_rows) if problem.weights is None else problem.weights
    restricted = whole = 0.0
    for rows in row_chunks(problem.n_rows, 8.0 * design.shape[1]):
        z = design.rows(rows).toarray().astype(np.float64, copy=False)
        most = np.maximum(np.max(np.abs(z), axis=1, initial=0.0), ones)
        squares = np.einsum("ij,ij->i", z, z) + ones
        restricted = max(restricted, float(np.max(weights[rows] * most * np.sqrt(squares))))
        whole = max(whole, float(np.max(weights[rows] * squares)))
    largest = max(largest_squares(design, problem.weights), ones * float(np.max(weights)))
    return largest, restricted, whole


def _powers(count: int) -> np.ndarray:
    """Σ_{i=1}^{count} ρ^{i/2} for every ρ."""
    root = np.sqrt(_RATES)
    return root * np.expm1(count * np.log(root)) / (root - 1) if count else 0.0 * root
