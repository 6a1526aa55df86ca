"""Laws of leaving each row out in turn: what it costs one model equals what n models would tell."""

from dataclasses import replace

import numpy as np
import pytest

import mercer.solvers.direct
from _machines import exact, restricted
from _problems import D, N, make
from mercer.designs import Dense
from mercer.losses import Logistic, Squared
from mercer.penalties import L2
from mercer.problem import Problem
from mercer.solvers import Cholesky, leave_one_out

ALPHAS = [1e-1, 1e-3]


def wide(rng, **options):
    """A ridge problem of more columns than rows."""
    problem = make(Squared(), rng, **options)
    return Problem(
        Dense(rng.normal(size=(N, 3 * N))),
        problem.y,
        Squared(),
        L2(),
        problem.weights,
        problem.fit_intercept,
    )


def narrow(rng, **options):
    return make(Squared(), rng, **options)


MACHINES = [narrow, wide, exact, restricted]


def predictions_of_refits(problem, alpha):
    """Each row predicted by a model that was fitted without it."""
    predictions = np.empty(problem.y.shape)
    weights = np.ones(problem.n_rows) if problem.weights is None else problem.weights
    for i in range(problem.n_rows):
        others = weights.copy()
        others[i] = 0.0
        # The sum of the losses, not their mean, keeps its strength against the penalty.
        penalty = replace(problem.penalty, alpha=alpha * weights.sum() / others.sum())
        left = Problem(problem.design, problem.y, Squared(), penalty, others, problem.fit_intercept)
        predictions[i] = left.responses(Cholesky(tol=1e-6).solve(left).coef)[i]
    return predictions


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("fit_intercept", [True, False], ids=["intercept", "no intercept"])
@pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])
def test_closed_form_equals_n_refits(machine, fit_intercept, weighted, rng):
    n = 30 if machine in (narrow, wide) else 40
    weights = rng.uniform(0.2, 3, size=n) if weighted else None
    if weighted:
        weights[4] = 0.0
    problem = machine(rng, weights=weights, fit_intercept=fit_intercept)
    for alpha, out in zip(ALPHAS, leave_one_out(problem, ALPHAS), strict=True):
        assert out.alpha == alpha
        np.testing.assert_allclose(
            out.predictions, predictions_of_refits(problem, alpha), atol=1e-7
        )


@pytest.mark.rounding
@pytest.mark.parametrize("machine", MACHINES)
def test_outputs_are_left_out_as_if_alone(machine, rng):
    problem = machine(rng, n_outputs=3)
    for out in leave_one_out(problem, ALPHAS):
        for c in range(3):
            alone = Problem(problem.design, problem.y[:, c], Squared(), problem.penalty)
            (one,) = leave_one_out(alone, [out.alpha])
            np.testing.assert_allclose(out.predictions[:, c], one.predictions, atol=1e-10)


@pytest.mark.parametrize("machine", MACHINES)
def test_the_model_of_all_rows_comes_along(machine, rng):
    problem = machine(rng)
    for out in leave_one_out(problem, ALPHAS):
        one = problem.with_penalty(replace(problem.penalty, alpha=out.alpha))
        assert one.optimality(out.coef) < 1e-7


def test_interpolation_loses_no_digits(rng):
    # The residuals of such a model are rounding error; what leaving out makes of them is not.
    problem = exact(rng, n=30)
    (out,) = leave_one_out(problem, [1e-9])
    expected = predictions_of_refits(problem, 1e-9)
    alone = np.setdiff1d(np.arange(30), [3, 7])  # those two are alike
    scale = np.abs(expected[alone]).max()
    np.testing.assert_allclose(out.predictions[alone], expected[alone], atol=1e-4 * scale)


@pytest.mark.parametrize("alpha", [0.0, np.inf, np.nan])
def test_strengths_of_zero_or_infinity_are_refused(alpha, rng):
    with pytest.raises(ValueError, match=rf"alphas must be above 0 and finite; got \[{alpha}\]"):
        leave_one_out(make(Squared(), rng), [alpha])


def test_other_losses_are_refused(rng):
    with pytest.raises(ValueError, match="got loss 'logistic'"):
        leave_one_out(make(Logistic(), rng), [0.1])


def test_one_row_is_refused(rng):
    problem = Problem(Dense(np.ones((1, D))), [1.0], Squared(), L2())
    with pytest.raises(ValueError, match="two rows of weight above 0; got 1"):
        leave_one_out(problem, [0.1])


def test_what_does_not_fit_is_refused_before_it_begins(monkeypatch, rng):
    problem = exact(rng)
    monkeypatch.setattr("mercer._runtime.arrays.available_memory", lambda: 10)
    with pytest.raises(MemoryError, match="the kernel matrix of 40 rows and its factor needs"):
        next(leave_one_out(problem, [0.1]))


def test_examples_run(check_examples):
    check_examples(mercer.solvers.direct)
