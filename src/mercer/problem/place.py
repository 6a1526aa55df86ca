"""Problems on the device where their design lives."""

from __future__ import annotations

from copy import copy

from mercer._runtime.device_arrays import placed
from mercer.problem.objective import Problem

__all__ = ["at_design"]


def at_design(problem: Problem) -> Problem:
    """The problem with targets, weights and vectors where its design lives; itself if they are."""
    device = problem.design.device
    if device is None or problem.device is not None:
        return problem
    other = copy(problem)
    other.y, other._facts = placed(problem.y, device), {}
    other.weights = None if problem.weights is None else placed(problem.weights, device)
    return other
