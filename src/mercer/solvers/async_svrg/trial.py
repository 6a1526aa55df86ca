"""The length of steps that lowers the objective most, tried on a part of the rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mercer._random import Slot, distinct
from mercer.problem import Point, Problem
from mercer.solvers.async_svrg.inner import Inner, Settings

__all__ = ["GRID", "falling", "try_lengths"]

GRID = tuple(10.0**-k for k in range(-2, 6))  # 100 … 0.00001
_ROWS, _LOOPS = 2000, 2


def part(problem: Problem, key: int) -> Problem:
    """The problem on at most 2000 of its rows."""
    n = problem.n_rows
    if n <= _ROWS:
        return problem
    rows = np.sort(distinct(key, n, _ROWS, Slot.TRIAL))
    weights = None if problem.weights is None else problem.weights[rows]
    if weights is not None and not np.any(weights):
        weights = None
    design, y = problem.design.rows(rows), problem.y[rows]
    return Problem(design, y, problem.loss, problem.penalty, weights, problem.fit_intercept)


def try_lengths(
    problem: Problem, theta: NDArray, settings: Settings, gammas: tuple[float, ...]
) -> dict[float, float]:
    """F on at most 2000 rows after a few inner loops from θ, by γ, of those that let it fall."""
    small = part(problem, settings.key)
    n_inner = min(settings.n_inner, small.n_rows)
    inner = Inner(small, replace(settings, n_inner=n_inner, n_threads=1, slot=Slot.TRIAL))
    start = small.at(theta)
    values = {gamma: _value_after(inner, start, gamma) for gamma in gammas}
    return {gamma: value for gamma, value in values.items() if value is not None}


def _value_after(inner: Inner, point: Point, gamma: float) -> float | None:
    """F after the loops, or None if it rose in one of them."""
    problem = inner.problem
    noise = 16 * float(np.finfo(problem.dtype).eps) * abs(point.value)
    for loop in range(_LOOPS):
        gradient, columns = inner.gradient(point), []
        for output in range(problem.n_outputs):
            w = inner.run(point, gradient, output, gamma, loop * problem.n_outputs + output)
            if w is None:
                return None
            columns.append(w)
        theta = np.stack(columns, axis=1).reshape(problem.shape).astype(problem.dtype)
        if not np.all(np.isfinite(theta)):
            return None
        before, point = point.value, problem.at(theta)
        if not point.value <= before + noise:
            return None
    return point.value


def falling(reached: dict[float, float]) -> float | None:
    """The γ with the least F, if there is any."""
    return min(reached, key=lambda gamma: reached[gamma]) if reached else None
