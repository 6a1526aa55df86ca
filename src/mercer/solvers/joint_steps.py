"""Newton's steps of joint losses for kernel machines, by conjugate gradients on functions.

The equations (n alpha + W' K) δ = r of ``row_newton`` are symmetric in the inner product aᵀ K b of
functions. A smooth function sees the mean of second derivatives over many rows, so that one number
c for all rows and outputs stands for W, with the weights S of the rows:

    (n alpha + c S K)⁻¹ = √S (n alpha + c √S K √S)⁻¹ √S⁻¹

One factor of the matrix on the right serves all outputs and most steps. The coefficients γ of
``row_newton`` are no functions but differ from row to row as W does: with a factor of the kernel
for every class there, steps take five times as many iterations.
"""

from __future__ import annotations

import numpy as np

from mercer._runtime.arrays import available_memory
from mercer.problem import Problem
from mercer.solvers.base import check_range
from mercer.solvers.low_rank import MEMORY_SHARE
from mercer.solvers.row_equations import Curvature, RowKernel, Rows

__all__ = ["joint_step", "suits_functions"]

_MOST_ROWS = 8000  # rows up to which a factor of the kernel takes some seconds: 1.7e11 operations
_LEFT = 0.1  # share of the goal of a step up to which sums of residuals are left


def suits_functions(problem: Problem) -> bool:
    """True if outputs depend on each other and a factor of the whole kernel is affordable."""
    if not problem.loss.joint or problem.device is not None or problem.n_rows > _MOST_ROWS:
        return False
    available = available_memory()
    return available is None or 8.0 * problem.n_rows**2 <= MEMORY_SHARE * available


def joint_step(
    problem: Problem,
    kernel: RowKernel,
    curvature: Curvature,
    residual: Rows,
    goal: float,
    max_inner: int,
) -> tuple[Rows, Rows]:
    """δ and K δ with ‖residual − (n alpha + W' K) δ‖ ≤ goal, or after ``max_inner`` products."""
    ridge = problem.n_rows * problem.penalty.alpha
    change, linear = _start(problem, kernel, residual, goal)
    residual = residual - ridge * change - curvature.free(linear)
    inverse, bend = None, 0.0
    direction = along = image = residual
    for _ in range(max_inner):
        if np.linalg.norm(residual) <= goal:
            break
        last, inverse = inverse, kernel.shifted(problem, ridge / curvature.typical)
        steepest = residual / ridge if inverse is None else inverse(residual)
        product = kernel.product(steepest)
        if bend > 0 and inverse is last:
            # Conjugate by the image itself: rounded products make no symmetric matrix.
            back = np.vdot(product, image) / bend
            steepest, product = steepest - back * direction, product - back * along
        direction, along = steepest, product
        image = ridge * direction + curvature.free(along)
        bend = float(np.vdot(along, image))
        check_range(problem, np.array([bend]))
        if bend <= 0:
            break
        length = np.vdot(residual, along) / bend
        change, linear = change + length * direction, linear + length * along
        residual = residual - length * image
    return change, linear


def _start(problem: Problem, kernel: RowKernel, residual: Rows, goal: float) -> tuple[Rows, Rows]:
    """First δ, with the sums over rows that the solution has, and K δ; 0 where sums are nearly 0.

    Rows of weight 0 are solved, as W is 0 there. The factor keeps both.
    """
    ridge = problem.n_rows * problem.penalty.alpha
    weights = np.ones(problem.n_rows) if problem.weights is None else problem.weights
    change = np.where(weights[:, None] > 0, 0.0, residual / ridge)
    if problem.fit_intercept:
        sums = residual.sum(axis=0) / ridge - change.sum(axis=0)
        change += np.outer(weights / weights.sum(), sums)
    if ridge * np.linalg.norm(change) <= _LEFT * goal:
        return np.zeros_like(residual), np.zeros_like(residual)
    return change, kernel.product(change)
