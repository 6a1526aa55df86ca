"""Choosing gamma per input and alpha by the errors of left-out rows."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from sklearn.base import clone
from sklearn.datasets import load_iris

from _conventions import parametrize_with_settings
from mercer import KernelClassifier, KernelRegressor, LocalKernelRegressor, kernels, persistence
from mercer.equations.criteria import LeftOut, Parameters, optimum

KERNELS = [kernels.Gaussian(), kernels.Laplacian(), kernels.Exponential(), kernels.Matern(nu=2.5)]


def waves(n=120, d=3, seed=0):
    """Rows whose first input matters most and whose last input does not matter."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.normal(size=n)


def model(kernel="gaussian", **settings):
    settings = {"random_state": 0, **settings}
    return KernelRegressor("exact", kernel=kernel, selection="leave-one-out", **settings)


def gamma_of(found):
    return np.array(found.feature_map_.kernel_.gamma)


def groups_of(n, rng):
    return rng.integers(0, 12, n)


@parametrize_with_settings(
    [],
    [
        KernelRegressor(selection="leave-one-out"),
        KernelClassifier("nystroem", kernel="laplacian", selection="leave-one-out"),
    ],
    expected_failed_checks=lambda _: {
        f"check_sample_weight_equivalence_on_{kind}_data": "a row given twice is left out by halves"
        for kind in ("dense", "sparse")
    },
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


# the criterion


@pytest.mark.rounding
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_gradient_is_that_of_central_differences(kernel, fit_intercept, weighted, grouped, rng):
    X, y = waves(40)
    Y = np.column_stack([y, rng.normal(size=40)])
    X[7] = X[3]  # rows at distance 0
    weights = rng.uniform(0.5, 2, 40) if weighted else None
    groups = groups_of(40, rng) if grouped else None
    criterion = LeftOut(kernel, X, Y, weights, fit_intercept, groups)
    logs = np.log([0.5, 0.8, 0.2, 0.3])
    steps = 1e-4 * np.eye(4)
    wanted = [(criterion(logs + h)[0] - criterion(logs - h)[0]) / 2e-4 for h in steps]
    value, slopes = criterion(logs)
    np.testing.assert_allclose(slopes, wanted, atol=1e-6 * np.abs(wanted).max())
    assert criterion.value(logs) == value


def refitted(X, Y, K, ridges, weights, fit_intercept, groups):
    """Weighted mean squared error of each group by machines of all other rows."""
    lost = 0.0
    for group in np.unique(groups):
        out, others = groups == group, groups != group
        inverse = np.linalg.inv(K[np.ix_(others, others)] + np.diag(ridges[others]))
        ones = np.ones(others.sum())
        constant = ones @ inverse @ Y[others] / (ones @ inverse @ ones) if fit_intercept else 0.0
        answers = constant + K[np.ix_(out, others)] @ inverse @ (Y[others] - constant)
        lost += weights[out] @ np.mean((Y[out] - answers) ** 2, axis=1)
    return lost / len(Y)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_errors_are_those_of_machines_fitted_without_the_rows(fit_intercept, grouped, rng):
    X, y = waves(40)
    Y = np.column_stack([y, y**2])
    weights = rng.uniform(0.5, 2, 40)
    weights /= weights.mean()
    groups = groups_of(40, rng) if grouped else np.arange(40)
    given = groups if grouped else None
    criterion = LeftOut(kernels.Laplacian(), X, Y, weights, fit_intercept, given)
    gamma, ridge = np.array([0.5, 0.8, 0.2]), 0.3
    K = kernels.Laplacian(gamma)(X)
    expected = refitted(X, Y, K, ridge / weights, weights, fit_intercept, groups)
    value = criterion(np.log([*gamma, ridge]))[0]
    assert np.exp(-value / 20) == pytest.approx(expected, rel=1e-9)


def test_groups_of_one_row_are_rows(rng):
    X, y = waves(50)
    logs = np.log([0.5, 0.8, 0.2, 0.3])
    plain = LeftOut(kernels.Gaussian(), X, y[:, None])(logs)
    single = LeftOut(kernels.Gaussian(), X, y[:, None], groups=rng.permutation(50))(logs)
    assert single[0] == pytest.approx(plain[0])
    np.testing.assert_allclose(single[1], plain[1], rtol=1e-8)


def test_gradient_along_inputs_of_two_values_and_of_one_is_that_of_differences():
    X, y = waves(50)
    X[:, 1], X[:, 2] = X[:, 1] > 0, 4.0
    criterion = LeftOut(kernels.Laplacian(), X, y[:, None])
    logs = np.log([0.5, 0.8, 0.2, 0.3])
    wanted = approx_fprime(logs, lambda at: criterion(at)[0], 1e-6)
    np.testing.assert_allclose(criterion(logs)[1], wanted, atol=1e-4 * np.abs(wanted).max())


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_criterion_in_float32_is_that_in_float64(kernel):
    X, y = waves(200)
    logs = np.log([0.5, 0.8, 0.2, 0.03])
    wide = LeftOut(kernel, X, y[:, None])(logs)
    short = LeftOut(kernel, X.astype(np.float32), y[:, None].astype(np.float32))(logs)
    assert short[0] == pytest.approx(wide[0], abs=1e-4 * 200)
    np.testing.assert_allclose(short[1], wide[1], atol=1e-4 * np.abs(wide[1]).max())


def test_tied_inputs_keep_the_ratio_of_their_first_gammas():
    X, y = waves(120)
    criterion = LeftOut(kernels.Laplacian(), X, y[:, None])
    first = np.array([0.3, 0.1, 0.2])
    found = optimum(criterion, first, 0.2, np.array([0, 1, 1]))
    assert found.gamma[2] / found.gamma[1] == pytest.approx(2.0)
    free = optimum(criterion, first, 0.2)
    assert free.value >= found.value > criterion(np.log([*first, 0.2]))[0]


def test_a_pull_keeps_gammas_near_the_first_ones():
    X, y = waves(120)
    criterion = LeftOut(kernels.Laplacian(), X, y[:, None])
    first = np.full(3, 0.3)
    free, held = (optimum(criterion, first, 0.2, pull=pull) for pull in (0.0, 1.0))
    assert np.ptp(np.log(held.gamma)) < 0.2 * np.ptp(np.log(free.gamma))
    assert held.value == pytest.approx(criterion(np.log([*held.gamma, held.ridge]))[0])


def test_score_is_the_error_of_predictions_of_other_rows():
    X, y = waves(60)
    known = np.arange(60) < 40
    whole = LeftOut(kernels.Matern(), X, y[:, None])
    part, others = (whole.taken(rows, np.array([True])) for rows in (known, ~known))
    found = Parameters(np.array([0.5, 0.2, 0.1]), 0.1, 0.0)
    machine = KernelRegressor(
        "exact", kernel="matern", gamma=found.gamma, alpha=0.1 / 40, scale=False
    ).fit(X[known], y[known])
    expected = -np.mean((machine.predict(X[~known]) - y[~known]) ** 2)
    assert part.score(found, others) == pytest.approx(expected, rel=1e-6)


# what is chosen


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian", "exponential", "matern"])
def test_inputs_of_no_use_have_small_scales_and_new_rows_gain(kernel):
    X, y = waves(300, d=4)
    new, truth = waves(500, d=4, seed=1)
    found = model(kernel).fit(X, y)
    plain = KernelRegressor("exact", kernel=kernel).fit(X, y)
    gamma = gamma_of(found)
    assert gamma.argmax() == 0
    assert gamma[2:].max() < 0.2 * gamma[0]
    assert found.score(new, truth) > plain.score(new, truth)
    error = np.sqrt(np.mean((found.predict(new) - truth) ** 2)) / truth.std()
    assert 0.6 < found.left_out_error_ / error < 1.1  # it is the least of many


@pytest.mark.rounding
def test_order_of_inputs_units_and_weights_alike_change_nothing():
    X, y = waves()
    plain = model().fit(X, y)
    order = [2, 0, 1]
    turned = model().fit(1000.0 * X[:, order] - 3.0, -50.0 * y + 7.0, np.full(len(y), 4.0))
    np.testing.assert_allclose(gamma_of(turned), gamma_of(plain)[order], rtol=1e-2)
    assert turned.left_out_error_ == pytest.approx(plain.left_out_error_, rel=1e-4)


def test_the_fit_is_that_of_the_chosen_settings():
    X, y = waves()
    found = model().fit(X, y)
    direct = KernelRegressor("exact", gamma=gamma_of(found), alpha=found.alpha_).fit(X, y)
    np.testing.assert_array_equal(found.predict(X), direct.predict(X))


def test_the_error_is_that_of_every_row_left_out():
    X, y = waves(60)
    found = model().fit(X, y)
    scores = KernelRegressor(
        "exact", gamma=gamma_of(found), alphas=[found.alpha_, 1.0], selection="loo"
    ).fit(X, y)
    expected = np.sqrt(-2 * scores.path_["score"][0]) / y.std()
    assert found.left_out_error_ == pytest.approx(expected, rel=1e-4)


def test_classes_are_left_out_too(tmp_path):
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    found = KernelClassifier(
        "exact", kernel="laplacian", selection="leave-one-out", random_state=0
    ).fit(X, names)
    assert 0 < found.left_out_error_ < 0.6
    assert found.score(X, names) > 0.95
    assert found.predict_proba(X).shape == (150, 3)  # calibrated at the settings of the choice
    persistence.save(found, tmp_path / "model.zip")
    other = persistence.load(tmp_path / "model.zip")
    assert other.left_out_error_ == found.left_out_error_
    assert not hasattr(clone(found), "left_out_error_")
    assert not hasattr(found.set_params(selection="auto").fit(X, names), "left_out_error_")


def test_leaves_take_the_choice_of_the_exact_machine():
    X, y = waves(300)
    settings = {"selection": "leave-one-out", "random_state": 0}
    found = LocalKernelRegressor("laplacian", leaf_size=100, **settings).fit(X, y)
    exact = model("laplacian").fit(X, y)
    np.testing.assert_array_equal(gamma_of(found), gamma_of(exact))
    assert (found.alpha_, found.left_out_error_) == (exact.alpha_, exact.left_out_error_)


def test_constant_targets_leave_the_settings_as_they_are():
    X, _ = waves()
    found = model(gamma=0.7).fit(X, np.full(len(X), 3.0))
    assert (found.left_out_error_, gamma_of(found)) == (0.0, 0.7)


def test_the_search_gains_on_its_start():
    X, y = waves()
    criterion = LeftOut(kernels.Gaussian(), X, y[:, None] - y.mean())
    start = criterion(np.log([0.3, 0.3, 0.3, 0.2]))[0]
    assert optimum(criterion, np.full(3, 0.3), 0.2).value > start


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: model(alphas=[0.1]), "alphas must be left out beside selection='leave-one-out'"),
        (lambda: model(loss="huber"), "needs a model with loss='squared' and penalty='l2'"),
        (lambda: model("cauchy"), "selection='leave-one-out' needs the kernel 'gaussian'"),
    ],
)
def test_what_has_no_left_out_error_in_closed_form_is_refused(made, said):
    X, y = waves(30)
    with pytest.raises(ValueError, match=said):
        made().fit(X, y)


@pytest.mark.parametrize("settings", [{}, {"alphas": [0.1, 1.0]}], ids=["alone", "with alphas"])
def test_a_misspelt_selection_is_refused_whatever_is_chosen(settings):
    X, y = waves(30)
    with pytest.raises(ValueError, match=r"one of .*'leave-one-out'.* got 'lo'"):
        KernelRegressor("exact", selection="lo", **settings).fit(X, y)
