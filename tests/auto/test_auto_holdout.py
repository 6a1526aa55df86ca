"""Laws of the delivered model: its errors are measured, and its intervals hold."""

import numpy as np
import pytest
from sklearn.base import clone

from mercer import AutoKernelClassifier, AutoKernelRegressor, kernels
from mercer.auto.goals import Classes, Numbers
from mercer.auto.holdout import final_splits, final_tol, leave_one_out, relative_error
from mercer.auto.rungs import beyond_ends
from mercer.auto.trials import Settings
from mercer.preparation import TablePreparer


def smooth_rows(n, noise, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 4))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * np.cos(3 * X[:, 3])
    return X, y / y.std() + noise * rng.normal(size=n)


@pytest.mark.parametrize("weighted", [False, True])
def test_leave_one_out_equals_fits_without_each_row(weighted):
    rng = np.random.default_rng(0)
    X, Y, ridge = rng.normal(size=(30, 2)), rng.normal(size=(30, 2)), 0.3
    weights = rng.uniform(0.5, 2.0, 30) if weighted else None
    K = kernels.Gaussian(0.7)(X)
    found = leave_one_out(K.copy(), Y, ridge, weights)
    for i in range(30):
        others = np.arange(30) != i
        A = K[np.ix_(others, others)] + ridge * np.diag(
            np.ones(29) if weights is None else 1 / weights[others]
        )
        bordered = np.block([[A, np.ones((29, 1))], [np.ones((1, 29)), np.zeros((1, 1))]])
        solution = np.linalg.solve(bordered, np.vstack([Y[others], np.zeros((1, 2))]))
        expected = K[i, others] @ solution[:-1] + solution[-1]
        np.testing.assert_allclose(found.responses[i], expected, atol=1e-9)
    A = K + ridge * np.diag(np.ones(30) if weights is None else 1 / weights)
    of_all = A @ found.theta[:-1] + found.theta[-1]
    np.testing.assert_allclose(of_all, Y, atol=1e-9)
    np.testing.assert_allclose(found.theta[:-1].sum(axis=0), 0, atol=1e-9)


def _machine(model):
    return getattr(model.best_estimator_, "regressor_", model.best_estimator_)[-1]


def test_leave_one_out_of_a_matrix_without_a_factor_is_none():
    assert leave_one_out(-np.eye(4), np.ones((4, 1)), 0.1, None) is None


@pytest.mark.parametrize(("n", "ways"), [(2500, 3), (6000, 1), (40_000, 1)])
def test_final_splits_hold_out_a_tenth_of_the_rows_or_less(n, ways):
    labels = np.random.default_rng(1).integers(0, 3, n)
    parts = final_splits(Classes(labels, 3), 7, n)
    assert len(parts) == ways
    held = np.concatenate([part[1] for part in parts])
    assert len(np.unique(held)) == len(held) >= 600
    for fitted, own in parts:
        np.testing.assert_array_equal(np.sort(np.concatenate([fitted, own])), np.arange(n))
        shares = np.bincount(labels[own]) / len(own) - np.bincount(labels) / n
        assert len(own) <= min(n // 10, 3000)
        assert abs(shares).max() < 0.01


def test_final_splits_hold_out_whole_groups():
    groups = np.random.default_rng(2).integers(0, 60, 3000)
    goal = Numbers(np.arange(3000.0)[:, None], None, groups)
    for fitted, held in final_splits(goal, 3, 3000):
        assert not set(groups[fitted]) & set(groups[held])


def test_tolerance_is_a_tenth_of_the_error_and_never_rougher_than_asked():
    assert final_tol(0.02, error=0.9) == 0.02
    assert final_tol(0.02, error=0.01) == pytest.approx(0.001)
    assert final_tol(0.02, error=0.01, growth=100.0) == pytest.approx(0.0001)
    assert final_tol(0.02, error=0.0) > 0


def test_relative_error_is_that_of_the_target_learned_best():
    rng = np.random.default_rng(4)
    y = rng.normal(size=(500, 2)) * [1.0, 100.0]
    off = rng.normal(size=(500, 2)) * [0.5, 1.0]
    found = relative_error(Numbers(y), np.arange(500), y + off, "identity")
    assert found == pytest.approx(off[:, 1].std() / y[:, 1].std(), rel=0.02)


def test_steps_go_past_the_ends_of_what_was_tried_and_not_inside():
    inner = Settings(kernel="laplacian", gamma=1.0, ridge=0.1)
    around = [Settings(gamma=g, ridge=r) for g in (0.5, 2.0) for r in (0.03, 0.3)]
    assert not beyond_ends(inner, [inner, *around])
    weakest = Settings(gamma=1.0, ridge=0.01)
    steps = beyond_ends(weakest, [weakest, *around])
    assert sorted(step.gamma for step, _ in steps) == [0.5, 1.0, 2.0]
    assert {tuple(ridges) for _, ridges in steps} == {(0.0025,)}
    narrowest = Settings(gamma=4.0, ridge=0.1)
    [(step, ridges)] = beyond_ends(narrowest, [narrowest, *around])
    assert step.gamma > 4.0
    assert ridges == [0.1]


# 2000 rows are left out in turn; 3000 have refits without a tenth.
@pytest.mark.parametrize(
    ("n", "noise"),
    [
        pytest.param(2000, 0.0, marks=pytest.mark.slow),
        (2000, 1.0),
        pytest.param(3000, 0.0, marks=pytest.mark.slow),
        pytest.param(3000, 0.1, marks=pytest.mark.slow),
    ],
)
def test_intervals_hold_as_many_targets_as_they_promise(n, noise):
    X, y = smooth_rows(n + 5000, noise, seed=5)
    model = AutoKernelRegressor(random_state=0).fit(X[:n], y[:n])
    for coverage in (0.8, 0.9, 0.95):
        low, high = model.predict_interval(X[n:], coverage).T
        share = np.mean((low <= y[n:]) & (y[n:] <= high))
        assert abs(share - coverage) < 0.035  # 0.03, and the noise of 5000 fresh rows
    assert abs(model.score(X[n:], y[n:]) - model.validation_score_) < 0.05


def test_more_rows_never_raise_the_error_of_a_noiseless_target():
    X, y = smooth_rows(5000, 0.0, seed=6)
    errors = []
    for n in (300, 600, 1200):
        model = AutoKernelRegressor(random_state=0).fit(X[:n], y[:n])
        errors.append(np.sqrt(np.mean(np.square(model.predict(X[1200:]) - y[1200:]))))
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 2e-3


@pytest.mark.slow
def test_the_final_fit_errs_as_a_tight_solve_of_its_settings():
    X, y = smooth_rows(8000, 0.003, seed=7)
    n = 3000
    model = AutoKernelRegressor(random_state=0).fit(X[:n], y[:n])
    tight = clone(model.best_estimator_)
    tight[-1].set_params(solver="cholesky")
    tight.fit(X[:n], y[:n])

    def error(estimator):
        return np.sqrt(np.mean(np.square(estimator.predict(X[n:]) - y[n:])))

    assert error(model) <= 1.02 * error(tight)


@pytest.mark.slow
def test_probabilities_are_those_of_the_delivered_size():
    rng = np.random.default_rng(8)
    X = rng.uniform(-1, 1, size=(9000, 2))
    y = np.sin(4 * X[:, 0]) * X[:, 1] > 0
    n = 4000
    model = AutoKernelClassifier(random_state=0).fit(X[:n], y[:n])
    covered = model.predict_set(X[n:], 0.95)[np.arange(5000), y[n:].astype(int)]
    least = max(0.95, model.score(X[n:], y[n:]))  # sets hold the predicted class in any case
    assert abs(covered.mean() - least) < 0.03
    assert abs(model.score(X[n:], y[n:]) - model.validation_score_) < 0.02


@pytest.mark.usefixtures("few_treatments")
@pytest.mark.parametrize("has_logs", [False, True])
def test_rows_that_were_treated_to_be_left_out_are_not_treated_again(has_logs, monkeypatch, rng):
    X, fits = rng.normal(size=(1100, 3)), []
    y = X[:, 0] + X[:, 1] + 0.1 * rng.normal(size=1100)
    y = np.exp(y) if has_logs else y
    plain = TablePreparer.fit_transform

    def noted(self, X, *given):
        fits.append(X.shape[0])
        return plain(self, X, *given)

    monkeypatch.setattr(TablePreparer, "fit_transform", noted)
    model = AutoKernelRegressor(random_state=0).fit(X, y)
    assert model.n_validation_rows_ == 1100
    assert fits.count(1100) == 2  # to see kinds of columns, and here
    weighted = AutoKernelRegressor(random_state=0).fit(X, y, np.linspace(1, 1 + 1e-12, 1100))
    # The solution that leaves each row out is that of all rows: it takes no step.
    assert [len(_machine(each).trace_) for each in (model, weighted)] == [1, 2]
    np.testing.assert_allclose(model.predict(X), weighted.predict(X), rtol=1e-4, atol=1e-4)
