"""Laws of the step sizes for which theory proves that asynchronous steps converge."""

import numpy as np
import pytest

from mercer.designs import Dense
from mercer.losses import Logistic, Squared
from mercer.penalties import L1
from mercer.problem import Problem
from mercer.solvers import step_bounds


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(600, 4))
    Z = np.sqrt(2) * np.cos(0.7 * X @ rng.normal(size=(4, 60)) + rng.uniform(0, 6.3, size=60))
    y = np.where(Z[:, :6].sum(axis=1) + rng.normal(size=600) > 0, 1.0, -1.0)
    return Problem(Dense(Z), y, Logistic(), L1(3e-3))


def test_delays_that_make_no_sense_are_refused(problem):
    with pytest.raises(ValueError, match="delay must be at least 0; got -1"):
        step_bounds(problem, -1)
    with pytest.raises(TypeError, match=r"delay must be an integer; got 1\.5"):
        step_bounds(problem, 1.5)


def test_constants_are_the_largest_over_the_rows(problem):
    weights = np.linspace(0.5, 1.5, 600)
    for fit_intercept in (False, True):
        weighted = Problem(problem.design, problem.y, Logistic(), L1(0.1), weights, fit_intercept)
        Z = problem.design.toarray()
        Z = np.column_stack([Z, np.ones(600)]) if fit_intercept else Z
        most, norm = np.abs(Z).max(axis=1), np.linalg.norm(Z, axis=1)
        bounds = step_bounds(weighted)
        assert bounds.largest == pytest.approx(0.25 * np.max(weights * most**2))
        assert bounds.restricted == pytest.approx(0.25 * np.max(weights * most * norm))
        assert bounds.whole == pytest.approx(0.25 * np.max(weights * norm**2))


def test_bounds_satisfy_the_conditions_they_are_from(problem):
    delay, m, q = 3, 20, problem.shape[0]
    bounds = step_bounds(problem, delay, m)
    res, nor = bounds.restricted / bounds.largest, bounds.whole / bounds.largest

    def condition(gamma, rho):
        theta1 = sum(rho ** (i / 2) for i in range(1, delay + 1))
        theta2 = sum(rho ** (i / 2) for i in range(1, m))
        theta = sum(rho**i for i in range(1, delay + 1))
        rest = 2 * (res * theta1 + nor * theta2) * gamma / np.sqrt(q)
        return 1 - nor * gamma - gamma * delay * theta / q - rest

    assert condition(0.999 * bounds.convex, 1 + 1e-9) > 0 > condition(1.001 * bounds.convex, 1.0)
    assert bounds.convex < 0.01  # far below the steps that work
    assert step_bounds(problem, delay, 10 * m).convex < 0.2 * bounds.convex


def test_the_bound_for_any_loss_needs_many_coordinates(problem):
    assert step_bounds(problem, 1, 20).nonconvex > 0
    few = Problem(Dense(np.ones((30, 9))), np.ones(30), Squared(), L1(0.1))
    assert step_bounds(few, 1, 20).nonconvex == 0
