"""Steps that see old weights, one after the other: what asynchrony does, on any number of cores."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.random import Slot, Streams, key_from
from mercer._runtime.validation import positive_integer, positive_number
from mercer.problem import Problem
from mercer.solvers.async_svrg.inner import curvatures


@dataclass
class Delayed:
    """Results of a simulated run.

    ``objective``: F at the start and after every inner loop; infinite from where numbers left their
    range.
    """

    coef: NDArray[np.float64]  # shape (q,), θ after the last loop
    objective: NDArray[np.float64]


def simulate_delays(
    problem: Problem,
    delay: int,
    step_size: float = 1.0,
    *,
    max_iter: int = 10,
    batch_size: int = 32,
    n_inner: int | None = None,
    random_state: Any = 0,
) -> Delayed:
    """``AsyncSVRG`` in the form of its paper, with weights up to ``delay`` steps old.

    Every step reads every coordinate as it was some steps ago, 0 to ``delay``, each as likely and
    chosen anew for every coordinate and step: reads are inconsistent, as they are among threads.
    ``problem``: with one output; the design is made dense; ``delay``: τ, at least 0; with 0 it is
    what one thread does, by the same draws; ``step_size``: γ, above 0; ``max_iter``: snapshots;
    ``n_inner``: steps between two snapshots; None means the number of rows.
    """
    if not isinstance(delay, Integral) or isinstance(delay, bool):
        raise TypeError(f"delay must be an integer; got {delay!r}.")
    if delay < 0:
        raise ValueError(f"delay must be at least 0; got {delay!r}.")
    if len(problem.shape) != 1:
        raise ValueError(
            f"simulate_delays needs a problem with one output; got {problem.n_outputs}."
        )
    gamma = positive_number(step_size, "step_size")
    size = positive_integer(batch_size, "batch_size")
    m = problem.n_rows if n_inner is None else positive_integer(n_inner, "n_inner")
    run = _Run(problem, int(delay), gamma, size, key_from(random_state))
    objective = [run.objective()]
    with np.errstate(over="ignore", invalid="ignore"):
        for loop in range(positive_integer(max_iter, "max_iter")):
            run.loop(loop * m, m)
            objective.append(run.objective())
            if not np.isfinite(objective[-1]):
                break
    return Delayed(run.w, np.array(objective))


class _Run:
    """Dense rows with a column of ones for the intercept, and the weights."""

    def __init__(self, problem: Problem, delay: int, gamma: float, size: int, key: int):
        self.problem, self.delay, self.size, self.key = problem, delay, size, key
        Z = problem.design.toarray().astype(np.float64)
        self.Z = np.column_stack([Z, np.ones(len(Z))]) if problem.fit_intercept else Z
        self.y = problem.y.astype(np.float64)
        self.weights = np.ones(len(Z)) if problem.weights is None else problem.weights
        self.lengths = gamma / curvatures(problem, "uniform")
        self.w = problem.initial().astype(np.float64)
        self.draws = np.random.default_rng(key)  # of the delays

    def objective(self) -> float:
        """F, infinite where it is out of range."""
        with np.errstate(over="ignore", invalid="ignore"):
            loss = self.weights @ self.problem.loss.value(self.Z @ self.w, self.y) / len(self.y)
            value = float(loss + self.problem.penalty.value(self.problem.weights_of(self.w)))
        return value if np.isfinite(value) else np.inf

    def slopes(self, rows: Any, w: NDArray) -> NDArray[np.float64]:
        """s_i ℓ'(y_i, z_iᵀw)."""
        return self.weights[rows] * self.problem.loss.gradient(self.Z[rows] @ w, self.y[rows])

    def loop(self, first: int, m: int) -> None:
        """The steps between two snapshots, with draws as the core's."""
        n, q = self.Z.shape
        whole = self.size >= n
        size = 0 if whole else self.size
        streams = Streams(self.key, np.arange(first, first + m))
        bits = streams.bits((size + 2) // 2, Slot.STEP)
        words = np.stack([bits & 0xFFFFFFFF, bits >> np.uint64(32)], axis=2).reshape(m, -1)
        coordinates = (words[:, 0] * np.uint64(q)) >> np.uint64(32)
        rows = ((words[:, 1 : size + 1] * np.uint64(n)) >> np.uint64(32)).astype(np.int64)
        snapshot = self.slopes(slice(None), self.w)
        gradient = self.Z.T @ snapshot / n
        recent = _Recent(self.delay)
        for t in range(m):
            j = int(coordinates[t])
            batch = slice(None) if whole else rows[t]
            change = self.slopes(batch, recent.unseen(self.w, t, self.draws)) - snapshot[batch]
            v = float(change @ self.Z[batch, j]) / (n if whole else size) + gradient[j]
            new = self._prox(j, self.w[j] - self.lengths[j] * v)
            recent.note(t, j, new - self.w[j])
            self.w[j] = new

    def _prox(self, j: int, x: float) -> float:
        if j == self.problem.design.shape[1]:
            return x
        return float(self.problem.penalty.prox(np.array(x), self.lengths[j]))


class _Recent:
    """The last changes, which reads may not see."""

    def __init__(self, delay: int):
        self.delay = delay
        self.times = np.full(delay, np.iinfo(np.int64).min // 2)
        self.coordinates = np.zeros(delay, dtype=np.int64)
        self.changes = np.zeros(delay)

    def note(self, t: int, j: int, change: float) -> None:
        """Remember what step t did."""
        if self.delay:
            place = t % self.delay
            self.times[place], self.coordinates[place], self.changes[place] = t, j, change

    def unseen(self, w: NDArray, now: int, draws: np.random.Generator) -> NDArray[np.float64]:
        """The weights without the changes that are younger than a coordinate's delay."""
        if not self.delay:
            return w
        delays = draws.integers(self.delay + 1, size=len(w))
        missed = (now - self.times <= delays[self.coordinates]) & (self.changes != 0.0)
        w = w.copy()
        np.subtract.at(w, self.coordinates[missed], self.changes[missed])
        return w
