"""Solutions for many strengths of the penalty, each from the one before."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from mercer.problem import Problem
from mercer.solvers.base import Result, Solver
from mercer.solvers.coordinate.solver import CoordinateDescent

__all__ = ["path"]


def path(problem: Problem, alphas: Iterable[float], solver: Solver | None = None) -> list[Result]:
    """Minimisers for every alpha, in the order given; every one starts at the one before.

    ``CoordinateDescent`` keeps the Gram matrices of its working sets along the way.

    Parameters
    ----------
    problem : Problem
        Its penalty gives everything but alpha.
    alphas : iterable of float
        Descending ones save most. ``problem.alpha_max()`` is where weights begin.
    solver : Solver, optional
        ``CoordinateDescent()`` by default.

    Returns
    -------
    list of Result

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.designs import Dense
    >>> from mercer.losses import Squared
    >>> from mercer.penalties import L1
    >>> from mercer.problem import Problem
    >>> from mercer.solvers import path
    >>> problem = Problem(Dense(np.eye(2)), [4.0, 2.0], Squared(), L1(), None, False)
    >>> [result.coef.round(6).tolist() for result in path(problem, [1.5, 0.5])]
    [[1.0, 0.0], [3.0, 1.0]]
    """
    solver = (CoordinateDescent() if solver is None else solver)._for_path(problem)
    results: list[Result] = []
    for alpha in alphas:
        problem = problem.with_penalty(replace(problem.penalty, alpha=float(alpha)))
        start = results[-1].coef if results else None
        if start is not None and not np.any(problem.weights_of(start)):
            start = None
        results.append(solver.solve(problem, start))
    return results
