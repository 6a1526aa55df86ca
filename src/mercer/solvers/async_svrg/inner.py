"""Inner loops: the steps between two snapshots of one output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._random import Slot
from mercer.problem import Point, Problem
from mercer.solvers.async_svrg.walkways import Walkway, largest_squares, walkway

__all__ = ["Inner", "Settings", "curvatures"]


@dataclass(frozen=True)
class Settings:
    """Settings of an inner loop, with everything "auto" decided; see ``AsyncSVRG``."""

    margins: str
    sampling: str
    precision: str
    batch_size: int
    block_size: int
    n_inner: int
    n_threads: int
    key: int
    slot: Slot = Slot.STEP


def curvatures(problem: Problem, sampling: str) -> NDArray[np.float64]:
    """Curvatures that step lengths are divided by, for every row of θ.

    With "uniform" sampling it is the same for all, the largest second derivative of one row's loss
    along a coordinate; with "column" it is that of the mean loss along the coordinate.
    """
    beta, q = problem.loss.lipschitz, problem.shape[0]
    largest = largest_squares(problem.design, problem.weights)
    if problem.fit_intercept:
        most = 1.0 if problem.weights is None else float(np.max(problem.weights))
        largest = max(largest, most)
    common = np.full(q, beta * largest if largest > 0 else 1.0)
    if sampling == "uniform":
        return common
    each = np.ones(q)
    problem.weights_of(each)[...] = problem.mean_squares
    return np.where(each > 0, beta * each, common)


class Inner:
    """Inner loops on one problem."""

    def __init__(self, problem: Problem, settings: Settings):
        self.problem, self.settings = problem, settings
        self.walkway: Walkway = walkway(
            problem.design, settings.margins, settings.sampling, settings.precision
        )
        self.curvatures = curvatures(problem, settings.sampling)
        q, self.n = problem.shape[0], problem.n_rows
        self.width = min(settings.block_size, q)
        plain = "array" in problem.design.views()
        if self.width > 1 and settings.sampling == "column" and not plain:
            raise ValueError(
                "block_size must be 1 for sampling='column', unless the design is dense; got "
                f"{settings.block_size}."
            )
        self.l1, self.l2 = np.zeros(q), np.zeros(q)
        problem.weights_of(self.l1)[...] = problem.penalty.l1
        problem.weights_of(self.l2)[...] = problem.penalty.l2
        wide = problem.y.reshape(self.n, -1)
        self.targets = [np.ascontiguousarray(y, dtype=np.float64) for y in wide.T]
        self.moves = 0
        self.steps = 0

    def gradient(self, point: Point) -> NDArray[np.float64]:
        """Gradient of the mean loss, without the penalty: (q, k)."""
        problem = self.problem
        gradient = np.array(point.gradient, dtype=np.float64)
        if problem.penalty.l2:
            weights = problem.weights_of(point.theta).astype(np.float64)
            problem.weights_of(gradient)[...] -= problem.penalty.gradient(weights)
        return gradient.reshape(problem.shape[0], -1)

    def run(
        self, point: Point, gradient: NDArray[np.float64], output: int, gamma: float, number: int
    ) -> NDArray[np.float64] | None:
        """θ (q,) of one output after one inner loop; None if numbers grew out of range.

        It starts at the snapshot ``point``, whose ``gradient(point)`` is given, with steps of
        ``gamma`` over the curvature; its ``number`` among all loops decides its random numbers.
        """
        problem, threads = self.problem, self.settings.n_threads
        w = np.array(point.theta.reshape(len(point.theta), -1)[:, output], dtype=np.float64)
        slopes = np.empty(self.n)
        u = None
        if self.walkway.keeps:
            u = np.array(point.responses.reshape(self.n, -1)[:, output], dtype=np.float64)
        loss = problem.loss
        given = (self.targets[output], problem.weights, loss.name, loss.parameter, w, slopes, u)
        self.walkway.core.slopes(*given, threads)
        derivative = np.ascontiguousarray(gradient[:, output])
        lengths = gamma / self.curvatures
        if not np.all(np.isfinite(lengths)):
            return None
        return w if self._walk(given, derivative, lengths, number) else None

    def _walk(
        self, given: tuple[Any, ...], derivative: NDArray, lengths: NDArray, number: int
    ) -> bool:
        """Take the steps, in calls short enough to be interrupted; whether all stayed finite."""
        settings = self.settings
        per_call = self.walkway.steps_per_call(min(settings.batch_size, self.n), self.width)
        model = (derivative, lengths, self.l1, self.l2, settings.key, int(settings.slot))
        sizes = (settings.batch_size, self.width, settings.n_threads)
        for first in range(0, settings.n_inner, per_call):
            count = min(per_call, settings.n_inner - first)
            start = number * settings.n_inner + first
            moves, finite = self.walkway.core.walk(*given, *model, start, count, *sizes)
            self.moves += moves
            self.steps += count
            if not finite:
                return False
        return True
