"""Laws of steps along several columns at once, on simulated processors."""

import numpy as np
import pytest

from mercer.designs import Binned, Dense
from mercer.losses import Logistic, Squared
from mercer.maps import RandomBinning
from mercer.penalties import L1
from mercer.problem import Problem
from mercer.solvers import CoordinateDescent
from mercer.solvers.coordinate import eso_factor
from mercer_studies.simulators import simulate_rounds

N = 150


def binned(rng, gamma=0.5, n_components=10):
    X = rng.normal(size=(N, 2))
    return RandomBinning(gamma=gamma, n_components=n_components, random_state=0).fit_design(X)


def lasso(design, rng, share=0.1, loss=None, fit_intercept=False):
    y = np.sin(np.arange(N)) + 0.1 * rng.normal(size=N)
    loss = Squared() if loss is None else loss
    y = np.sign(y) if loss.is_classification else y
    problem = Problem(design, y, loss, L1(1.0), None, fit_intercept)
    return problem.with_penalty(L1(share * problem.alpha_max()))


def test_safe_rounds_fall_on_average_and_strict_ones_always(rng):
    design = binned(rng, gamma=1.0)
    problem = lasso(design, rng)
    D = design.shape[1]
    assert D > 64
    for tau in (1, 8, 64, D):
        strict = simulate_rounds(problem, tau, "strict", n_rounds=60).objective
        assert np.all(np.diff(strict) <= 1e-14)
        safe = [
            simulate_rounds(problem, tau, n_rounds=60, random_state=k).objective for k in range(5)
        ]
        assert np.all(np.diff(np.mean(safe, axis=0)) <= 1e-14)


def test_safe_rounds_end_at_the_minimum(rng):
    for loss in (Squared(), Logistic()):
        problem = lasso(binned(rng), rng, 0.3, loss, fit_intercept=True)
        best = CoordinateDescent(tol=1e-12).solve(problem).trace[-1].objective
        reached = simulate_rounds(problem, 32, n_rounds=4000, target=best * (1 + 1e-7))
        assert reached.objective[-1] <= best * (1 + 1e-7)
        np.testing.assert_allclose(problem.value(reached.coef), reached.objective[-1])


def test_plain_steps_along_all_columns_at_once_diverge(rng):
    problem = lasso(binned(rng), rng)
    D = problem.design.shape[1]
    plain = simulate_rounds(problem, D, "plain", n_rounds=200).objective
    assert not plain[-1] < 100 * plain[0]
    assert simulate_rounds(problem, D, "safe", n_rounds=200).objective[-1] < plain[0]


def test_one_column_at_a_time_needs_no_factor(rng):
    problem = lasso(binned(rng), rng)
    runs = [simulate_rounds(problem, 1, mode, n_rounds=50).objective for mode in ("safe", "plain")]
    np.testing.assert_array_equal(*runs)


def test_rounds_fall_in_number_as_the_factor_promises(rng):
    """At least 0.75 τ / β, and about that where rows have few of many columns."""
    design = binned(rng, gamma=3.0, n_components=8)
    problem = lasso(design, rng, 0.05)
    D = design.shape[1]
    best = CoordinateDescent(tol=1e-12).solve(problem).trace[-1].objective
    target = best + 0.01 * (problem.value(problem.initial()) - best)

    def rounds(tau):
        runs = [
            len(
                simulate_rounds(
                    problem, tau, n_rounds=100_000, target=target, random_state=k
                ).objective
            )
            for k in range(2)
        ]
        return np.mean(runs) - 1

    alone = rounds(1)
    for tau in (4, 16):
        promised = tau / eso_factor(8, tau, D)
        gained = alone / rounds(tau)
        assert gained >= 0.75 * promised
        if 4 * tau <= D / 8:
            assert gained <= 1.25 * promised


def test_simulations_repeat_and_refuse_what_they_cannot_do(rng):
    problem = lasso(Binned(rng.integers(3, size=(2, N)).astype(np.uint8), [0, 3, 6], 1.0), rng)
    a, b = (simulate_rounds(problem, 3, n_rounds=20, random_state=7).objective for _ in range(2))
    np.testing.assert_array_equal(a, b)
    with pytest.raises(ValueError, match="tau"):
        simulate_rounds(problem, 7)
    with pytest.raises(ValueError, match="mode"):
        simulate_rounds(problem, 2, "fast")
    several = Problem(Dense(np.eye(3)), np.eye(3), Squared(), L1(0.1))
    with pytest.raises(ValueError, match="one output"):
        simulate_rounds(several, 1)
