"""Losses that are not convex, in all solvers and estimators that take them."""

import numpy as np
import pytest

from _conventions import parametrize_with_settings
from mercer import KernelClassifier, KernelRegressor, SparseKernelClassifier, SparseKernelRegressor
from mercer.designs import Dense
from mercer.losses import Correntropy, Sigmoid
from mercer.penalties import L1, L2, ElasticNet
from mercer.problem import Problem
from mercer.solvers import CoordinateDescent, NewtonCG
from test_coordinate import at_strength, make_designs

N = 150
LOSSES = [Correntropy(), Correntropy(0.5), Sigmoid()]


@pytest.fixture(params=LOSSES, ids=repr)
def loss(request):
    return request.param


def target(loss, Z, rng, k=0):
    """A linear function, or its sign, with a third of the rows wrong."""
    u = Z @ rng.normal(size=(Z.shape[1], k) if k else Z.shape[1]) + 0.5
    wrong = rng.random(u.shape) < 0.3
    if loss.is_classification:
        return np.where((u > 0) != wrong, 1.0, -1.0)
    return u + 0.1 * rng.normal(size=u.shape) + np.where(wrong, 20.0, 0.0)


def violation(problem, theta):
    """The largest violation of the optimality condition, by its definition."""
    Z = problem.design.toarray()
    w, b = (theta[:-1], theta[-1]) if problem.fit_intercept else (theta, 0.0)
    s = np.ones(len(Z)) if problem.weights is None else problem.weights
    slopes = s * problem.loss.gradient(Z @ w + b, problem.y) / len(Z)
    g, l1 = Z.T @ slopes + problem.penalty.l2 * w, problem.penalty.l1
    of_weights = np.where(w == 0, np.maximum(np.abs(g) - l1, 0), np.abs(g + l1 * np.sign(w)))
    of_intercept = abs(np.sum(slopes)) if problem.fit_intercept else 0.0
    return max(of_weights.max(), of_intercept)


@pytest.mark.parametrize("method", ["newton", "descent"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_coordinate_descent_falls_to_a_stationary_point(method, fit_intercept, loss, rng):
    for design in make_designs(rng, N):
        weights = rng.uniform(0.5, 2.0, size=N)
        y = target(loss, design.toarray(), rng)
        problem = Problem(design, y, loss, L1(1.0), weights, fit_intercept)
        for l1_ratio in (1.0, 0.5):
            strong = at_strength(problem, 0.2, l1_ratio)
            result = CoordinateDescent(tol=1e-5, method=method).solve(strong)
            assert result.converged
            assert result.criterion == "stationarity"
            nothing = violation(strong, strong.initial())
            assert violation(strong, result.coef) <= 2e-5 * np.sqrt(strong.shape[0]) * nothing
            objective = np.array([row.objective for row in result.trace])
            assert np.all(np.diff(objective) <= 1e-13)
            assert objective[-1] < objective[0]


def test_newton_and_coordinate_descent_agree_on_a_ridge_penalty(loss, rng):
    for design in make_designs(rng, N):
        problem = Problem(design, target(loss, design.toarray(), rng), loss, L2(0.02))
        newton = NewtonCG(tol=1e-9).solve(problem)
        descent = CoordinateDescent(tol=1e-7).solve(problem, start=newton.coef)
        assert newton.converged
        assert descent.n_iter <= 1
        assert violation(problem, newton.coef) < 1e-9


def test_outputs_are_solved_each_as_if_alone(loss, rng):
    design = make_designs(rng, N)[0]
    y = target(loss, design.toarray(), rng, 3)
    together = CoordinateDescent(tol=1e-6).solve(Problem(design, y, loss, ElasticNet(0.02)))
    for k in range(3):
        alone = CoordinateDescent(tol=1e-6).solve(Problem(design, y[:, k], loss, ElasticNet(0.02)))
        np.testing.assert_allclose(together.coef[:, k], alone.coef, atol=1e-3)


def test_an_intercept_stays_near_where_rows_are(rng):
    """The best constant under the sigmoid loss is infinite, and no gradient is left there."""
    Z = rng.normal(size=(400, 3))
    y = np.where(Z[:, 0] > 1.0, 1.0, -1.0)  # one row in six
    problem = Problem(Dense(Z), y, Sigmoid(), L1(1e-3))
    theta = CoordinateDescent(tol=1e-4).solve(problem).coef
    assert np.mean((Z @ theta[:-1] + theta[-1] > 0) == (y > 0)) > 0.97


def test_no_weight_at_the_largest_strength_and_some_just_below(loss, rng):
    design = make_designs(rng, N)[0]
    problem = Problem(design, target(loss, design.toarray(), rng), loss, L1(1.0), None, False)
    solver, nothing = CoordinateDescent(tol=1e-9), problem.initial()
    assert not np.any(solver.solve(at_strength(problem, 1 + 1e-9), nothing).coef)
    assert np.any(solver.solve(at_strength(problem, 0.98), nothing).coef)


def test_models_begin_where_a_convex_loss_ends(rng):
    """Without weights the intercept of a rare class lies where the sigmoid loss is flat."""
    Z = rng.normal(size=(2000, 3))
    y = np.where(Z[:, 0] > 1.8, 1.0, -1.0)
    problem = Problem(Dense(Z), y, Sigmoid(), L1(1e-3))
    found = CoordinateDescent(tol=1e-3).solve(problem)
    flat = CoordinateDescent(tol=1e-3).solve(problem, problem.initial())
    assert problem.value(found.coef) < problem.value(flat.coef)
    theta = found.coef
    assert np.mean((Z @ theta[:-1] + theta[-1] > 0) == (y > 0)) > 0.985


@pytest.mark.filterwarnings("ignore:.*of the bins of these rows")  # checks have few rows
@parametrize_with_settings(
    [],
    [
        KernelRegressor("fourier", loss="correntropy", random_state=0),
        KernelClassifier("binning", loss="sigmoid", random_state=0),
    ],
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def test_targets_that_are_far_off_do_not_move_a_regression(rng):
    X = rng.uniform(-2, 2, size=(400, 2))
    truth = np.sin(2 * X).sum(axis=1)
    y = truth + 0.05 * rng.normal(size=400)
    y[rng.random(400) < 0.3] += 100.0
    for make in (
        lambda loss: KernelRegressor("fourier", loss=loss, alpha=1e-3, random_state=0),
        lambda loss: SparseKernelRegressor(loss=loss, random_state=0),
    ):
        robust, squared = (make(loss).fit(X, y) for loss in ("correntropy", "squared"))
        assert robust.score(X, truth) > 0.95
        assert squared.score(X, truth) < 0.0
    assert robust.dual_gap_ is None
    assert np.all(np.isnan(robust.rounds_["dual_gap"]))


def test_wrong_labels_move_a_classification_by_the_sigmoid_loss_less(rng):
    X = rng.normal(size=(600, 2))
    truth = np.where(X[:, 0] > 0.3 * X[:, 1], 1, 0)
    y = truth.copy()
    y[(rng.random(600) < 0.45) & (X[:, 0] > 1)] = 0  # wrong, and far from the boundary
    for cls, strength in ((KernelClassifier, 1e-3), (SparseKernelClassifier, 1e-3)):
        model = cls("fourier", loss="sigmoid", alpha=strength, random_state=0).fit(X, y)
        assert model.score(X, truth) > 0.9
        likeliest = model.classes_[model.predict_proba(X).argmax(axis=1)]
        np.testing.assert_array_equal(likeliest, model.predict(X))


def test_three_classes_and_wrong_use(rng):
    X = rng.normal(size=(300, 2))
    y = np.argmax(X @ rng.normal(size=(2, 3)), axis=1)
    model = KernelClassifier("fourier", loss="sigmoid", alpha=1e-3, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.85
    with pytest.raises(ValueError, match="loss must be one for classification"):
        KernelClassifier("binning", loss="correntropy").fit(X, y)
    with pytest.raises(ValueError, match="loss must be one for regression"):
        KernelRegressor("binning", loss="sigmoid").fit(X, y)
    with pytest.raises(ValueError, match="needs a quadratic loss"):
        KernelRegressor("binning", loss="correntropy", solver="cg").fit(X, y)
