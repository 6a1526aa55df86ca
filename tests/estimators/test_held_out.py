"""A first solution without some rows is that of a fit to the other rows."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from mercer import KernelClassifier, KernelRegressor
from mercer.estimators.plan import FitPlan, HeldOut, fit_planned
from mercer.maps import ExactKernel, Nystroem
from mercer.solvers import ConjugateGradient


def machine(kind, n, tol, landmarks=None, **settings):
    map_ = ExactKernel("gaussian", 0.5)
    if landmarks is not None:
        map_ = Nystroem("gaussian", 0.5, landmarks=landmarks, whiten=False)
    solver = ConjugateGradient(tol, rank=40)
    return kind(map_, scale=False, alpha=0.1 / n, solver=solver, **settings)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", [KernelRegressor, KernelClassifier])
@pytest.mark.parametrize("n_landmarks", [None, 60])
@pytest.mark.parametrize("tol", [1e-6, 1e-2])  # products in float32 or more; numbers of 16 bits
def test_first_responses_are_those_of_a_fit_to_the_other_rows(kind, weighted, tol, n_landmarks):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3)).astype(np.float32)
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=400) + 5
    y = y.astype(np.float32) if kind is KernelRegressor else np.digitize(y, [4.7, 5.2])
    weights = rng.uniform(0.5, 1.5, 400) if weighted else np.ones(400)
    rows, others = np.arange(40), np.arange(40, 400)
    landmarks = None if n_landmarks is None else X[-n_landmarks:]
    held = HeldOut(rows, lambda responses: tol)
    plan = FitPlan(calibrates=False, first_without=held)
    whole = fit_planned(machine(kind, 400, tol, landmarks), X, y, weights, plan)
    # The same ridge for a row: alpha times the sum of the weights.
    total = 400 * weights[others].sum() / weights.sum()
    without = machine(kind, total, 1e-8, landmarks)
    without.fit(X[others], y[others], sample_weight=weights[others])
    method = "predict" if kind is KernelRegressor else "decision_function"
    expected = getattr(without, method)(X[rows]).reshape(40, -1)
    np.testing.assert_allclose(held.responses, expected, atol=max(20 * tol, 1e-4))
    plain = machine(kind, 400, 1e-8, landmarks).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(
        getattr(whole, method)(X), getattr(plain, method)(X), atol=max(20 * tol, 1e-4)
    )


def test_the_second_solution_has_the_tolerance_that_responses_ask_for():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(300, 2)), rng.normal(size=300)
    plan = FitPlan(first_without=HeldOut(np.arange(30), lambda responses: 1e-9))
    model = fit_planned(machine(KernelRegressor, 300, 1e-1), X, y, None, plan)
    assert model.converged_
    assert model.optimality_ <= 1e-9


def test_other_machines_are_fitted_as_without():
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(100, 2)), rng.normal(size=100)
    held = HeldOut(np.arange(10), lambda responses: 1e-9)
    model = KernelRegressor("exact", solver="cholesky")
    fit_planned(model, X, y, None, FitPlan(first_without=held))
    assert held.responses is None
    np.testing.assert_array_equal(
        model.predict(X), KernelRegressor("exact", solver="cholesky").fit(X, y).predict(X)
    )


@pytest.mark.parametrize("weights", [None, np.linspace(1, 2, 50)], ids=["plain", "weighted"])
def test_estimators_of_others_are_fitted_as_without_a_plan(weights):
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(50, 2)), rng.normal(size=50)
    found = fit_planned(LinearRegression(), X, y, weights, FitPlan(calibrates=False))
    expected = LinearRegression().fit(X, y, weights)
    np.testing.assert_array_equal(found.coef_, expected.coef_)
