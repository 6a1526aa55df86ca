"""Parallel coordinate descent on simulated processors, round by round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer._runtime.random import key_from
from mercer._runtime.validation import name_from, positive_integer
from mercer.problem import Problem
from mercer.solvers.coordinate import eso_factor

STEPS = ("safe", "strict", "plain")


@dataclass
class Rounds:
    """Results of a simulated run."""

    coef: NDArray[np.float64]  # shape (D,) or (D + 1,), θ after the last round
    objective: NDArray[np.float64]  # F at the start and after every round
    factor: float  # of the curvatures


def simulate_rounds(
    problem: Problem,
    tau: int,
    mode: str = "safe",
    *,
    n_rounds: int = 1000,
    target: float = -np.inf,
    random_state: int | None = 0,
) -> Rounds:
    """Parallel coordinate descent as it would run on τ processors, on one.

    In every round τ columns, drawn without replacement, take their steps by the same responses.
    ``problem``: with one output; the intercept, if any, takes a step of its own after every round;
    ``tau``: columns moved at once, from 1 to D; ``mode``: "safe", "strict" or "plain", what the
    curvature of a column is multiplied with: "safe", `eso_factor`, at which F falls on average;
    "strict", min(ω, τ), at which it falls in every round; "plain", 1, at which it may diverge;
    ``n_rounds``: most rounds; ``target``: stop when F is at most this.
    """
    name_from(mode, list(STEPS), "mode")
    tau, n_rounds = positive_integer(tau, "tau"), positive_integer(n_rounds, "n_rounds")
    if len(problem.shape) != 1:
        raise ValueError(f"simulate needs a problem with one output; got {problem.n_outputs}.")
    state = _Simulated(problem)
    if tau > state.n_columns:
        raise ValueError(f"tau must be at most the number of columns; got {tau}.")
    omega = max(1, int(np.diff(state.matrix.tocsr().indptr).max(initial=1)))
    factor = {
        "safe": eso_factor(omega, tau, state.n_columns),
        "strict": float(min(omega, tau)),
        "plain": 1.0,
    }[mode]
    draws = np.random.default_rng(key_from(random_state))
    objective = [state.objective()]
    for _ in range(n_rounds):
        if not np.isfinite(objective[-1]) or objective[-1] <= target:
            break
        state.round(draws.choice(state.n_columns, size=tau, replace=False), factor)
        objective.append(state.objective())
    return Rounds(state.coef(), np.array(objective), factor)


class _Simulated:
    """Responses, and steps along columns with curvatures bounded by that of the loss."""

    def __init__(self, problem: Problem):
        self.problem = problem
        self.matrix: Any = sparse.csc_array(problem.design.tocsr().astype(np.float64))
        self.n, self.n_columns = self.matrix.shape
        self.w = np.zeros(self.n_columns)
        self.y = problem.y.astype(np.float64)
        self.weights = np.ones(self.n) if problem.weights is None else problem.weights
        sqnorms = problem.design.column_sqnorms(problem.weights)
        self.curvature = problem.loss.lipschitz * sqnorms / self.n
        self.b = float(problem.initial()[-1]) if problem.fit_intercept else 0.0
        self.u = np.full(self.n, self.b)

    def objective(self) -> float:
        """F."""
        with np.errstate(over="ignore", invalid="ignore"):
            loss = self.weights @ self.problem.loss.value(self.u, self.y) / self.n
            return float(loss + self.problem.penalty.value(self.w))

    def coef(self) -> NDArray[np.float64]:
        """θ."""
        return np.append(self.w, self.b) if self.problem.fit_intercept else self.w.copy()

    def round(self, chosen: NDArray, factor: float) -> None:
        """One step along every chosen column, by the same slopes."""
        penalty = self.problem.penalty
        some = self.matrix[:, np.sort(chosen)]
        chosen = np.sort(chosen)
        chosen_curvature = factor * self.curvature[chosen]
        slopes = some.T @ self._slopes() / self.n
        moves = chosen_curvature > 0
        bend = np.where(moves, chosen_curvature, 1.0)
        aim = self.w[chosen] - slopes / bend
        shrunk = np.sign(aim) * np.maximum(np.abs(aim) - penalty.l1 / bend, 0.0)
        new = np.where(moves, shrunk / (1.0 + penalty.l2 / bend), 0.0)
        self.u += some @ (new - self.w[chosen])
        self.w[chosen] = new
        if self.problem.fit_intercept:
            step = -float(np.mean(self._slopes())) / self.problem.loss.lipschitz
            self.b += step
            self.u += step

    def _slopes(self) -> NDArray[np.float64]:
        return self.weights * self.problem.loss.gradient(self.u, self.y)
