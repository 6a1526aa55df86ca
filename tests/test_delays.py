"""Laws of steps that see old weights, and of the step sizes that theory allows."""

import numpy as np
import pytest

from mercer.designs import Dense
from mercer.losses import Logistic, Squared
from mercer.penalties import L1
from mercer.problem import Problem
from mercer.solvers import CoordinateDescent, simulate_delays, step_bounds


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(600, 4))
    Z = np.sqrt(2) * np.cos(0.7 * X @ rng.normal(size=(4, 60)) + rng.uniform(0, 6.3, size=60))
    y = np.where(Z[:, :6].sum(axis=1) + rng.normal(size=600) > 0, 1.0, -1.0)
    return Problem(Dense(Z), y, Logistic(), L1(3e-3))


def excess(problem, run):
    """F above the minimum relative to what it was at the start."""
    best = CoordinateDescent(tol=1e-9).solve(problem).trace[-1].objective
    return (run.objective - best) / (run.objective[0] - best)


def test_short_steps_do_not_mind_delays(problem):
    prompt = excess(problem, simulate_delays(problem, 0, 0.1))
    for delay in (8, 32, 128):
        late = excess(problem, simulate_delays(problem, delay, 0.1))
        np.testing.assert_allclose(late, prompt, rtol=0.1)


def test_long_steps_get_worse_with_delay(problem):
    def last(delay):
        runs = (simulate_delays(problem, delay, 1.5, random_state=seed) for seed in range(3))
        return np.mean([excess(problem, run)[-1] for run in runs])

    reached = [last(delay) for delay in (0, 128, 256, 512)]
    assert reached[0] < 0.02
    assert 2 * reached[0] < reached[1]
    assert 4 * reached[1] < reached[2] < 0.8 * reached[3]


def test_steps_that_are_too_long_leave_the_range(problem):
    squared = Problem(problem.design, problem.y, Squared(), problem.penalty)
    run = simulate_delays(squared, 4, 50.0)
    assert run.objective[-1] == np.inf
    assert len(run.objective) < 11


def test_one_step_old_weights_are_the_current_ones_or_those_before(problem):
    runs = [simulate_delays(problem, d, 0.5, max_iter=1, n_inner=2).coef for d in (0, 1)]
    assert np.allclose(*runs, atol=0.1)
    assert np.array_equal(
        *(simulate_delays(problem, d, 0.5, max_iter=1, n_inner=1).coef for d in (0, 9))
    )


def test_delays_that_make_no_sense_are_refused(problem):
    for call in (simulate_delays, step_bounds):
        with pytest.raises(ValueError, match="delay must be at least 0; got -1"):
            call(problem, -1)
        with pytest.raises(TypeError, match=r"delay must be an integer; got 1\.5"):
            call(problem, 1.5)
    two = Problem(problem.design, np.ones((600, 2)), Squared(), L1(0.1))
    with pytest.raises(ValueError, match="one output; got 2"):
        simulate_delays(two, 1)


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
