"""Laws of what says how good a θ is under a penalty with an l1 part."""

import numpy as np
import pytest

from _covering import pairwise
from _descent import PlainDescent, minimiser
from _problems import LOSSES, SEPARABLE, D, N, designs, targets
from mercer.designs import Dense
from mercer.losses import Huber, Multinomial, SmoothHinge, Squared
from mercer.penalties import L1, L2, ElasticNet
from mercer.problem import Problem, dual_gap, dual_gaps
from mercer.solvers import Cholesky, ConjugateGradient, NewtonCG

pytestmark = pytest.mark.rounding

PENALTIES = [L1(0.03), ElasticNet(0.05, 0.6), ElasticNet(0.05, 0.01)]


@pytest.fixture(params=SEPARABLE, ids=lambda loss: loss.name)
def loss(request):
    return request.param


@pytest.fixture(params=PENALTIES, ids=str)
def penalty(request):
    return request.param


@pytest.fixture(params=pairwise(SEPARABLE, PENALTIES, [False, True], [True, False]), ids=str)
def problem(request, rng):
    """Any two of loss, penalty, weights or none, intercept or none."""
    loss, penalty, weighted, fit_intercept = request.param
    weights = rng.uniform(0, 3, size=N) if weighted else None
    Z = rng.normal(size=(N, D)) + 0.3
    return Problem(Dense(Z), targets(loss, 0, rng), loss, penalty, weights, fit_intercept)


def test_gap_bounds_the_distance_to_the_minimum_and_vanishes_there(problem, rng):
    best = minimiser(problem)
    least = problem.value(best)
    assert abs(dual_gap(problem.at(best))) <= 1e-10
    assert problem.optimality(best) <= 1e-5
    for theta in (
        problem.initial(),
        *rng.normal(scale=[[0.1], [1.0], [9.0]], size=(3, *best.shape)),
    ):
        assert dual_gap(problem.at(theta)) >= problem.value(theta) - least - 1e-12
        assert problem.optimality(theta) > 1e-4


def test_gap_and_optimality_vanish_along_the_descent(penalty, loss, rng):
    problem = Problem(Dense(rng.normal(size=(N, D))), targets(loss, 0, rng), loss, penalty)
    result = PlainDescent(tol=1e-12).solve(problem)
    objectives = [row.objective for row in result.trace]
    gaps = [row.optimality for row in result.trace]
    assert np.all(np.diff(objectives) <= 1e-14)
    assert min(gaps) >= -1e-14
    assert gaps[-1] <= 1e-12


def test_no_weights_from_alpha_max_on_and_some_below(problem):
    alpha = problem.alpha_max()
    ratio = getattr(problem.penalty, "l1_ratio", 1.0)
    at = minimiser(problem.with_penalty(ElasticNet(alpha * (1 + 1e-9), ratio)), tol=1e-10)
    below = minimiser(problem.with_penalty(ElasticNet(alpha * 0.98, ratio)), tol=1e-10)
    n_columns = problem.design.shape[1]
    assert not np.any(at[:n_columns])
    assert np.any(below[:n_columns])


def test_several_outputs_are_so_many_problems(loss, penalty, rng):
    Z, y = rng.normal(size=(N, D)), targets(loss, 3, rng)
    together = Problem(Dense(Z), y, loss, penalty)
    theta = rng.normal(scale=0.2, size=together.shape)
    alone = [Problem(Dense(Z), y[:, c], loss, penalty) for c in range(3)]
    gaps = [dual_gap(problem.at(theta[:, c])) for c, problem in enumerate(alone)]
    np.testing.assert_allclose(dual_gaps(together.at(theta)), gaps, rtol=1e-9)
    assert dual_gap(together.at(theta)) == pytest.approx(sum(gaps))
    assert together.alpha_max() == pytest.approx(max(p.alpha_max() for p in alone))
    optimality = [problem.optimality(theta[:, c]) for c, problem in enumerate(alone)]
    assert together.optimality(theta) == pytest.approx(max(optimality))


@pytest.mark.parametrize("penalty", [L1(0.01), ElasticNet(0.01, 0.7), L2(0.01)], ids=str)
def test_gap_of_a_joint_loss_bounds_what_descent_gains(penalty, rng):
    problem = Problem(
        Dense(rng.normal(size=(N, D))), targets(Multinomial(), 3, rng), Multinomial(), penalty
    )
    start = rng.normal(scale=0.3, size=problem.shape)
    theta = start.copy()
    for _ in range(2000):  # proximal gradient steps
        theta -= 0.5 * problem.gradient(theta)
        theta[:-1] += 0.5 * penalty.gradient(theta[:-1])
        theta[:-1] = penalty.prox(theta[:-1], 0.5)
    assert dual_gap(problem.at(start)) >= problem.value(start) - problem.value(theta)
    assert dual_gap(problem.at(theta)) + 1e-14 >= 0
    assert dual_gap(problem.at(theta)) <= 1e-3 * dual_gap(problem.at(start))


def test_designs_of_one_matrix_have_one_gap(loss, penalty, rng):
    for design in designs(rng):
        y = targets(loss, 0, rng)
        mine, dense = (Problem(d, y, loss, penalty) for d in (design, Dense(design.toarray())))
        theta = rng.normal(scale=0.3, size=mine.shape)
        assert dual_gap(mine.at(theta)) == pytest.approx(dual_gap(dense.at(theta)), rel=1e-12)


def test_gap_in_float32_agrees_to_its_precision(loss, penalty, rng):
    Z, y = rng.normal(size=(N, D)).astype(np.float32), targets(loss, 0, rng).astype(np.float32)
    single, exact = (Problem(Dense(Z.astype(t)), y, loss, penalty) for t in (np.float32, float))
    theta = rng.normal(scale=0.3, size=single.shape).astype(np.float32)
    assert dual_gap(single.at(theta)) == pytest.approx(dual_gap(exact.at(theta)), rel=1e-5)


def test_orthonormal_columns_have_a_closed_form(rng):
    Z = np.linalg.qr(rng.normal(size=(N, D)))[0] * np.sqrt(N)
    y = rng.normal(size=N)
    problem = Problem(Dense(Z), y, Squared(), L1(0.1), fit_intercept=False)
    closed = L1(0.1).prox(Z.T @ y / N, 1.0)
    np.testing.assert_allclose(minimiser(problem), closed, atol=1e-10)
    assert problem.optimality(closed) <= 1e-14


def test_best_constant_of_a_robust_loss_is_found(rng):
    y = rng.standard_cauchy(size=(200, 2))
    y[:, 1] += 100
    Z = np.zeros((200, 1))
    problem = Problem(Dense(Z), y, Huber(0.3), L1(1.0), rng.uniform(size=200))
    assert problem.alpha_max() == 0
    skewed = Problem(Dense(rng.normal(size=(200, 3))), y, Huber(0.3), L1(1.0))
    alpha = skewed.alpha_max()
    best = minimiser(skewed.with_penalty(L1(alpha * (1 + 1e-9))))
    assert not np.any(best[:-1])


def test_another_penalty_leaves_the_first_problem_alone(rng):
    problem = Problem(Dense(rng.normal(size=(N, D))), rng.normal(size=N), Squared(), L1(0.1))
    theta = rng.normal(size=problem.shape)
    value = problem.value(theta)
    other = problem.with_penalty(ElasticNet(0.5, 0.5))
    fresh = Problem(problem.design, problem.y, Squared(), ElasticNet(0.5, 0.5))
    assert other.value(theta) == pytest.approx(fresh.value(theta), rel=1e-14)
    np.testing.assert_allclose(other.gradient(theta), fresh.gradient(theta), rtol=1e-14)
    other.value(theta + 1)
    assert problem.value(theta) == value


@pytest.mark.parametrize("solver", [Cholesky(), ConjugateGradient(), NewtonCG()], ids=str)
def test_solvers_for_smooth_penalties_refuse_an_l1_part(solver, rng):
    problem = Problem(Dense(rng.normal(size=(N, D))), rng.normal(size=N), Squared(), L1(0.1))
    with pytest.raises(
        ValueError,
        match=r"needs a (linear system|penalty of linear gradient).*; got .* penalty 'l1'",
    ):
        solver.solve(problem)


def test_every_convex_loss_is_tried():
    assert {type(loss) for loss in LOSSES} == {type(loss) for loss in SEPARABLE} | {Multinomial}
    assert SmoothHinge() in SEPARABLE
