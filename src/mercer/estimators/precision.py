"""Fits whose responses hold: in float64 where float32 is too short for them, or with a warning."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from mercer._runtime.rows import Data
from mercer.designs import Design
from mercer.maps import FeatureMap
from mercer.problem import Problem
from mercer.problem.precision import ENOUGH, beyond_reach, rounding, sampled_rows
from mercer.solvers import ConjugateGradient
from mercer.solvers.base import OutOfRange, Result, Solver

__all__ = ["Outcome", "Precise", "at", "warn_of_rough_features"]

# Rounding of this share of a solver's tol is far below what its last residual leaves; and of this
# one below what a solver leaves that is asked for no more than two hundredths.
_SHARE_OF_TOL, _SHARE_OF_ROUGH, _ROUGH = 0.02, 0.3, 0.02

# Largest relative residual in float32 from which iterations in float64 go on.
_MOST_OF_BEGIN = 0.5

# A solver and its results, one for every strength of the penalty.
Outcome: TypeAlias = tuple[Solver, list[Result]]


@dataclass
class Precise:
    """Solver of problems in float32 that goes on in float64 where float32 is too short."""

    # From coefficients of the solution to begin with, if any are given.
    solve: Callable[[Problem, NDArray | None], Outcome]
    alphas: list[float]  # regularization strengths, in the order of the results
    wide_rows: Callable[[NDArray[np.int64]], Design]  # some rows, with features in float64
    wide_problem: Callable[[], Problem]  # in float64; it may raise MemoryError
    tol: float = 0.0  # of the solver, where it is known beforehand

    def __call__(self, problem: Problem) -> Outcome:
        """Results at a precision that holds; others have not converged and warn."""
        if problem.dtype == np.float64:
            return self._judged(problem, self.solve(problem, None))
        outcome: Outcome | None = None
        caught: list[warnings.WarningMessage] = []
        enough = _accepted(problem, self.tol)
        if not any(beyond_reach(at(problem, alpha), enough) for alpha in self.alphas):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", ConvergenceWarning)
                with suppress(OutOfRange):  # float64 reaches further
                    outcome = self.solve(problem, None)
            if outcome is not None and self._holds(problem, outcome):
                _give_out(caught)
                return outcome
        try:
            wide = self.wide_problem()
            begin = None if outcome is None else _usable(*outcome)
            wide_outcome = self.solve(wide, begin)
        except MemoryError:
            _give_out(caught)
            return self._judged(problem, outcome or self.solve(problem, None))
        return self._judged(wide, wide_outcome)

    def _holds(self, problem: Problem, outcome: Outcome) -> bool:
        """True if float32 has sufficed, or the user has ended the work."""
        solver, results = outcome
        if any(result.interrupted for result in results):
            return True
        # Short of both tol and max_iter, rounding kept it from going on, unless a callback did.
        direct = solver.name == "cholesky"
        stalled = any(
            not (result.converged or result.stopped) and (direct or result.n_iter < solver.max_iter)
            for result in results
        )
        return not stalled and max(self._errors(problem, results)) <= _enough(problem, solver)

    def _judged(self, problem: Problem, outcome: Outcome) -> Outcome:
        """The outcome without the claim of convergence where rounding spoils it."""
        solver, results = outcome
        errors = self._errors(problem, results)
        spoilt = [
            i
            for i, result in enumerate(results)
            if errors[i] > _enough(problem, solver) and result.converged and not result.interrupted
        ]
        if not spoilt:
            return outcome
        worst = max(spoilt, key=lambda i: errors[i])
        remedy = "raise alpha" if problem.dtype == np.float64 else "raise alpha or free memory"
        warnings.warn(
            f"rounding in {problem.dtype} may have changed the responses by {errors[worst]:.2g} of "
            f"the targets' spread at alpha={self.alphas[worst]:g}; {remedy}.",
            ConvergenceWarning,
            stacklevel=5,
        )
        for i in spoilt:
            results[i] = replace(results[i], converged=False)
        return solver, results

    def _errors(self, problem: Problem, results: list[Result]) -> list[float]:
        """Error of each result's responses by rounding, in units of the targets' spread."""
        wide = None
        if problem.dtype == np.float32:
            wide = self.wide_rows(sampled_rows(problem.n_rows))
        return [
            rounding(at(problem, alpha), result.coef, wide)
            for alpha, result in zip(self.alphas, results, strict=True)
        ]


def _enough(problem: Problem, solver: Solver) -> float:
    """The largest estimate of rounding, relative to the targets' spread, that is accepted."""
    return _accepted(problem, 0.0 if solver.name == "cholesky" else solver.tol)


def _accepted(problem: Problem, tol: float) -> float:
    """Accepted rounding beside a residual of ``tol``."""
    share = _SHARE_OF_ROUGH if tol >= _ROUGH else _SHARE_OF_TOL
    return max(ENOUGH[problem.dtype], share * tol)


def at(problem: Problem, alpha: float) -> Problem:
    """The problem at a strength of its penalty."""
    if problem.penalty.alpha == alpha:
        return problem
    return problem.with_penalty(replace(problem.penalty, alpha=alpha))


def warn_of_rough_features(feature_map: FeatureMap, X: Data) -> None:
    """Warn if float32 makes features of a few rows rough, for fits without a float64 retry."""
    if X.dtype != np.float32:
        return
    rows = X[sampled_rows(X.shape[0])]
    narrow, wide = (feature_map.design(part) for part in (rows, rows.astype(np.float64)))
    size = float(np.sqrt(wide.column_sqnorms().sum()))
    error = float(np.linalg.norm(narrow.toarray() - wide.toarray()))
    if error > ENOUGH[X.dtype] * 10 * size:
        warnings.warn(
            f"features of float32 rows are off by {error / size:.2g} of their size, as gamma is "
            "large for so few digits; lower gamma, or give X in float64.",
            UserWarning,
            stacklevel=6,
        )


def _usable(solver: Solver, results: list[Result]) -> NDArray | None:
    """Coefficients in float64 for iterations to begin with; None if they are hardly a solution."""
    found = results[0]
    if not isinstance(solver, ConjugateGradient) or not found.optimality < _MOST_OF_BEGIN:
        return None
    return found.coef.astype(np.float64)


def _give_out(caught: list[warnings.WarningMessage]) -> None:
    for one in caught:
        warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
