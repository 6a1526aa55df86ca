"""Laws of the trust-region Newton method."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import mercer.solvers.base
import mercer.solvers.conjugate_gradient
import mercer.solvers.direct
import mercer.solvers.newton
from _problems import LOSSES, SEPARABLE, N, dense_hessian, designs, make, targets
from mercer.designs import Dense
from mercer.losses import Logistic, Multinomial, Squared, SquaredHinge
from mercer.penalties import L2
from mercer.problem import Problem
from mercer.solvers import ConjugateGradient, NewtonCG


@pytest.fixture(params=LOSSES, ids=lambda loss: loss.name)
def loss(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["unweighted", "weighted"])
def weights(request, rng):
    return rng.uniform(0, 3, size=N) if request.param else None


@pytest.fixture(params=[True, False], ids=["intercept", "no intercept"])
def fit_intercept(request):
    return request.param


def test_newton_reaches_a_vanishing_gradient(loss, weights, fit_intercept, rng):
    problem = make(loss, rng, 3, alpha=0.01, weights=weights, fit_intercept=fit_intercept)
    result = NewtonCG(tol=1e-8).solve(problem)
    assert result.converged
    assert problem.optimality(result.coef) <= 1e-8
    assert result.optimality == pytest.approx(problem.optimality(result.coef), rel=1e-6)


@pytest.mark.rounding
def test_one_newton_step_for_the_squared_loss_is_the_cg_solution(rng):
    problem = make(Squared(), rng, 2)
    result = NewtonCG(tol=1e-10).solve(problem)
    assert result.n_iter == 1
    truth = ConjugateGradient(tol=1e-12).solve(problem).coef
    np.testing.assert_allclose(result.coef, truth, atol=1e-9)


@pytest.mark.parametrize("loss", [Logistic(), Multinomial()], ids=lambda loss: loss.name)
def test_newton_equals_a_dense_newton(loss, weights, rng):
    problem = make(loss, rng, alpha=0.05, weights=weights)
    theta = problem.initial()
    for _ in range(30):
        gradient = problem.gradient(theta).ravel()
        step = np.linalg.lstsq(dense_hessian(problem, theta), gradient)[0]
        theta = theta - step.reshape(problem.shape)
    result = NewtonCG(tol=1e-11).solve(problem)
    np.testing.assert_allclose(result.coef, theta, atol=1e-8)


@pytest.mark.parametrize("loss", SEPARABLE, ids=lambda loss: loss.name)
def test_outputs_of_newton_are_solved_as_if_alone(loss, rng):
    problem = make(loss, rng, 3, alpha=0.01)
    solver = NewtonCG(tol=1e-10)
    together = solver.solve(problem)
    for c in range(3):
        alone = solver.solve(Problem(problem.design, problem.y[:, c], loss, problem.penalty))
        np.testing.assert_allclose(together.coef[:, c], alone.coef, atol=1e-8)


def test_newton_never_increases_the_objective(loss, rng):
    problem = make(loss, rng, 3, alpha=1e-4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        trace = NewtonCG(tol=1e-12, max_iter=60).solve(problem).trace
    assert np.all(np.diff([row.objective for row in trace]) <= 1e-15)


def test_newton_takes_every_design(loss, rng):
    for design in designs(rng):
        problem = Problem(design, targets(loss, 0, rng), loss, L2(0.05))
        assert NewtonCG(tol=1e-8).solve(problem).converged


@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge()], ids=lambda loss: loss.name)
def test_separable_classes_with_next_to_no_penalty_stay_finite(loss, rng):
    Z = rng.normal(size=(40, 3))
    problem = Problem(Dense(Z), np.where(Z[:, 0] > 0, 1.0, -1.0), loss, L2(1e-9))
    result = NewtonCG(tol=1e-5).solve(problem)
    assert result.converged
    assert np.all(np.isfinite(result.coef))


def test_a_single_class_gives_its_constant_model():
    Z = np.linspace(-1, 1, 20)[:, None]
    for loss in (Logistic(), SquaredHinge()):
        problem = Problem(Dense(Z), np.ones(20), loss, L2(0.1))
        responses = problem.responses(NewtonCG(max_iter=50).solve(problem).coef)
        assert np.all(responses >= 1 - 1e-6)


def test_examples_run(check_examples):
    check_examples(mercer.solvers.newton)


def test_the_radius_goes_to_the_least_of_the_parabola_along_the_step():
    # F(θ + t s) - F(θ) = -t + 0.6 t² is least at t = 1 / 1.2.
    newton = mercer.solvers.newton
    step = newton._Step(move=np.ones(1), length=np.ones(1), predicted=np.ones(1))
    fair = np.array([(newton._POOR + newton._GOOD) / 2])
    found = newton._new_radius(np.array([2.0]), step, fair, np.array([0.4]), np.array([-1.0]))
    np.testing.assert_allclose(found, 1 / 1.2)
