"""Rows divided among workers, here one after the other in one process."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.validation import positive_integer
from mercer.equations import Equations, equations_of
from mercer.problem import Problem

__all__ = ["ShardedProblem"]


@dataclass
class Meter:
    """Counts the numbers that workers send each other, by what they are."""

    words: dict[str, float] = field(default_factory=dict)

    def add(self, kind: str, words: float) -> None:
        """Count some."""
        self.words[kind] = self.words.get(kind, 0.0) + words

    @property
    def total(self) -> float:
        """All of them."""
        return sum(self.words.values())


class ShardedProblem(Problem):
    """A problem whose linear equations are summed over workers that share the rows.

    The workers are simulated: what each would do is done in turn, and what they would send each
    other is counted. Solvers of linear equations take it as they take any problem. ``problem``:
    with linear equations; ``n_workers``: at most one for every row. ``meter``: numbers sent so far,
    by what they are.
    """

    def __init__(self, problem: Problem, n_workers: int):
        self.__dict__.update(problem.__dict__)
        self.n_workers = positive_integer(n_workers, "n_workers")
        if self.n_workers > self.n_rows:
            raise ValueError(
                f"n_workers must be at most the number of rows, {self.n_rows}; got {n_workers}."
            )
        self.meter = Meter()


@equations_of.register(ShardedProblem)
def _(problem: ShardedProblem, alphas: NDArray[np.float64]) -> Equations:
    """Equations in one part for each worker, whose messages the meter counts."""
    whole = equations_of.dispatch(Problem)(problem, alphas, problem.n_workers)
    whole.sent = problem.meter.add
    return whole
