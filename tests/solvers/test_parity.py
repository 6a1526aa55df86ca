"""One problem in other people's words: every convention of λ, against what they would solve."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import HuberRegressor, LogisticRegression, Ridge
from sklearn.svm import LinearSVC

from mercer.designs import Dense
from mercer.losses import Huber, Logistic, Multinomial, Squared, SquaredHinge
from mercer.penalties import L2
from mercer.problem import Problem
from mercer.solvers import Cholesky, ConjugateGradient, NewtonCG

pytestmark = pytest.mark.rounding

N, D, ALPHA = 80, 6, 0.03


@pytest.fixture
def Z(rng):
    return rng.normal(size=(N, D)) + 0.5


@pytest.fixture
def target(Z, rng):
    return Z @ rng.normal(size=D) + rng.normal(size=N) + 2


@pytest.fixture
def signs(target):
    return np.where(target > np.median(target), 1.0, -1.0)


@pytest.fixture(params=[False, True], ids=["unweighted", "weighted"])
def weights(request, rng):
    return rng.uniform(0, 2, size=N) if request.param else None


def total(weights):
    return N if weights is None else weights.sum()


def solve(Z, y, loss, alpha, weights=None, fit_intercept=True):
    problem = Problem(Dense(Z), y, loss, L2(alpha), weights, fit_intercept)
    solver = Cholesky(tol=1e-8) if loss.quadratic else NewtonCG(tol=1e-10)
    return solver.solve(problem).coef


# -- scikit-learn ----------------------------------------------------------------------------


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_ridge_has_alpha_times_n(Z, target, weights, fit_intercept):
    theirs = Ridge(ALPHA * total(weights), fit_intercept=fit_intercept).fit(Z, target, weights)
    theta = solve(Z, target, Squared(), ALPHA, weights, fit_intercept)
    np.testing.assert_allclose(theta[:D], theirs.coef_, rtol=1e-9)
    if fit_intercept:
        assert theta[D] == pytest.approx(theirs.intercept_, rel=1e-9)


def test_kernel_ridge_has_alpha_times_n(Z, target, weights):
    theirs = KernelRidge(alpha=N * ALPHA).fit(Z, target, weights)
    # Its weights multiply the loss without being scaled to mean 1.
    alpha = ALPHA if weights is None else ALPHA / weights.mean()
    theta = solve(Z, target, Squared(), alpha, weights, fit_intercept=False)
    np.testing.assert_allclose(Z @ theta, theirs.predict(Z), rtol=1e-9)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_logistic_regression_has_c_of_one_over_n_alpha(Z, signs, weights, fit_intercept):
    theirs = LogisticRegression(
        C=1 / (ALPHA * total(weights)), tol=1e-10, max_iter=1000, fit_intercept=fit_intercept
    ).fit(Z, signs, weights)
    theta = solve(Z, signs, Logistic(), ALPHA, weights, fit_intercept)
    np.testing.assert_allclose(theta[:D], theirs.coef_[0], atol=1e-6)
    if fit_intercept:
        assert theta[D] == pytest.approx(theirs.intercept_[0], abs=1e-6)
    positive = Logistic().proba(Z @ theta[:D] + (theta[D] if fit_intercept else 0))
    np.testing.assert_allclose(positive, theirs.predict_proba(Z)[:, 1], atol=1e-6)


def test_multinomial_regression_has_c_of_one_over_n_alpha(Z, target, weights):
    labels = np.digitize(target, np.quantile(target, [0.2, 0.7]))
    theirs = LogisticRegression(C=1 / (ALPHA * total(weights)), tol=1e-10, max_iter=1000)
    theirs.fit(Z, labels, weights)
    theta = solve(Z, np.eye(3)[labels], Multinomial(), ALPHA, weights)
    np.testing.assert_allclose(theta[:D].T, theirs.coef_, atol=1e-6)
    np.testing.assert_allclose(theta[D], theirs.intercept_ - theirs.intercept_.mean(), atol=1e-5)
    proba = Multinomial().proba(Z @ theta[:D] + theta[D])
    np.testing.assert_allclose(proba, theirs.predict_proba(Z), atol=1e-6)


def test_linear_svc_has_c_of_one_over_n_alpha(Z, signs, weights):
    # Without intercept, which LIBLINEAR penalises.
    theirs = LinearSVC(
        C=1 / (ALPHA * total(weights)), fit_intercept=False, tol=1e-10, dual=False, max_iter=10_000
    ).fit(Z, signs, weights)
    theta = solve(Z, signs, SquaredHinge(), ALPHA, weights, fit_intercept=False)
    np.testing.assert_allclose(theta, theirs.coef_[0], atol=1e-6)


def test_huber_regression_minimises_over_the_scale_too(Z, target, weights):
    # At its scale s the problem is ours with delta = epsilon * s and alpha = theirs * s / n.
    theirs = HuberRegressor(epsilon=1.35, alpha=2.0, tol=1e-10, max_iter=10_000)
    theirs.fit(Z, target, weights)
    scale = theirs.scale_
    theta = solve(Z, target, Huber(1.35 * scale), 2.0 * scale / total(weights), weights)
    np.testing.assert_allclose(theta[:D], theirs.coef_, atol=1e-4)
    assert theta[D] == pytest.approx(theirs.intercept_, abs=1e-4)


# -- the papers ------------------------------------------------------------------------------


def minimiser(objective):
    return minimize(objective, np.zeros(D), tol=1e-12, method="BFGS").x


def check(theta, objective):
    """``theta`` minimises ``objective``: no direction decreases it, to first order."""
    np.testing.assert_allclose(theta, minimiser(objective), atol=1e-4)


def test_random_binning_reports_n_times_alpha(Z, target):
    # (ZᵀZ + λI) w = Zᵀy, the system solved there with λ = 0.01.
    reported = 0.01
    theta = solve(Z, target, Squared(), reported / N, fit_intercept=False)
    direct = np.linalg.solve(Z.T @ Z + reported * np.eye(D), Z.T @ target)
    np.testing.assert_allclose(theta, direct, rtol=1e-9)
    cg = ConjugateGradient(tol=1e-12)
    problem = Problem(Dense(Z), target, Squared(), L2(reported / N), fit_intercept=False)
    np.testing.assert_allclose(cg.solve(problem).coef, direct, rtol=1e-9)


def test_training_efficient_maps_use_alpha(Z, target):
    def objective(w):
        return 0.5 * ALPHA * w @ w + np.mean(0.5 * (Z @ w - target) ** 2)

    check(solve(Z, target, Squared(), ALPHA, fit_intercept=False), objective)


def test_sparse_random_features_report_n_times_alpha(Z, signs):
    reported = N * ALPHA

    def objective(w):  # ½‖w‖² + C Σ max(0, 1 - yu)², C = 1 / reported
        return 0.5 * w @ w + np.sum(np.maximum(1 - signs * (Z @ w), 0) ** 2) / reported

    check(solve(Z, signs, SquaredHinge(), reported / N, fit_intercept=False), objective)


def test_asynchronous_learning_has_alpha_for_squares_and_half_of_it_elsewhere(Z, target, signs):
    lam = ALPHA

    def squares(w):
        return lam * w @ w + np.mean((Z @ w - target) ** 2)

    def logistic(w):
        return lam * w @ w + np.mean(np.logaddexp(0, -signs * (Z @ w)))

    check(solve(Z, target, Squared(), lam, fit_intercept=False), squares)
    check(solve(Z, signs, Logistic(), 2 * lam, fit_intercept=False), logistic)


def test_block_descent_uses_alpha(Z, target):
    def objective(w):
        return np.mean((Z @ w - target) ** 2) + ALPHA * w @ w

    theta = solve(Z, target, Squared(), ALPHA, fit_intercept=False)
    check(theta, objective)
    direct = np.linalg.solve(Z.T @ Z + N * ALPHA * np.eye(D), Z.T @ target)
    np.testing.assert_allclose(theta, direct, rtol=1e-9)


def test_kernel_solution_has_n_times_alpha_on_the_diagonal(Z, target):
    dual = np.linalg.solve(Z @ Z.T + N * ALPHA * np.eye(N), target)
    theta = solve(Z, target, Squared(), ALPHA, fit_intercept=False)
    np.testing.assert_allclose(Z.T @ dual, theta, rtol=1e-9)
