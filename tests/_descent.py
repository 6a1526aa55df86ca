"""Coordinate descent as plainly as it can be written: the truth for solvers of l1 problems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mercer.problem import dual_gap
from mercer.solvers.base import Solver, State


@dataclass
class PlainDescent(Solver):
    """One step after the other along every coordinate of a dense copy of the design."""

    max_iter: int = 20_000
    name: ClassVar[str] = "plain-descent"

    def init(self, problem, theta, clock):
        state = State(problem=problem, clock=clock, x=theta)
        Z = problem.design.toarray().astype(np.float64)
        state.Z = np.column_stack([Z, np.ones(len(Z))]) if problem.fit_intercept else Z
        state.scale = max(1e-30, problem.value(problem.initial()))
        state.optimality = dual_gap(problem.at(theta)) / state.scale
        return state

    def step(self, problem, state):
        n, Z, theta = problem.n_rows, state.Z, state.x
        weights = np.ones(n) if problem.weights is None else problem.weights
        curvature = problem.loss.lipschitz * (weights @ Z**2) / n
        y = problem.y.reshape(n, -1)
        wide = theta.reshape(len(theta), -1)
        for c in range(wide.shape[1]):
            u = Z @ wide[:, c]
            for j in np.flatnonzero(curvature):
                slope = (weights * problem.loss.gradient(u, y[:, c])) @ Z[:, j] / n
                new = wide[j, c] - slope / curvature[j]
                if j < problem.design.shape[1]:
                    new = problem.penalty.prox(np.array(new), 1.0 / curvature[j])
                u += (new - wide[j, c]) * Z[:, j]
                wide[j, c] = new
        if state.iteration % 10 == 9:
            state.optimality = dual_gap(problem.at(theta)) / state.scale


def minimiser(problem, tol=1e-12):
    """θ of the minimum, to all the digits that tests look at."""
    return PlainDescent(tol=tol).solve(problem).coef
