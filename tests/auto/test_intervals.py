"""Intervals and quantiles of automatic models: coverage, width that depends on the row, order."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from mercer import AutoKernelRegressor, persistence
from mercer.auto.intervals import HeldErrors, Spread


def uneven(n, seed=100):
    """Rows whose noise grows with the second input from 0.1 to 2.1."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, size=(n, 3))
    return X, np.sin(4 * X[:, 0]) + (0.1 + 2 * X[:, 1]) * rng.normal(size=n)


def alike(n, seed=100):
    """Rows of one noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, size=(n, 3))
    return X, np.sin(4 * X[:, 0]) + 0.3 * rng.normal(size=n)


@pytest.fixture(scope="module")
def model():
    return AutoKernelRegressor(random_state=100).fit(*uneven(1500))


def held(model, X, y, coverage=0.9):
    low, high = model.predict_interval(X, coverage).T
    return (low <= y) & (y <= high)


def test_width_follows_the_noise_and_coverage_holds_in_every_fifth(model):
    X, y = uneven(4000, seed=101)
    width = np.ptp(model.predict_interval(X), axis=1)
    assert np.corrcoef(width, 0.1 + 2 * X[:, 1])[0, 1] > 0.8
    inside = held(model, X, y)
    assert 0.86 < inside.mean() < 0.95
    fifths = np.array_split(np.argsort(X[:, 1]), 5)
    shares = [inside[rows].mean() for rows in fifths]
    reach = model.conformal_.bound(0.9)
    even = np.abs(y - model.predict(X)) <= reach
    assert np.ptp(shares) < 0.7 * np.ptp([even[rows].mean() for rows in fifths])
    assert min(shares) > 0.75


def test_even_noise_gets_intervals_of_one_width():
    X, y = alike(900)
    model = AutoKernelRegressor(random_state=100).fit(X, y)
    assert model.spread_.machine is None
    new, truth = alike(2000, seed=101)
    width = np.ptp(model.predict_interval(new), axis=1)
    np.testing.assert_allclose(width, width[0])
    assert 0.86 < held(model, new, truth).mean() < 0.95


def test_quantiles_are_in_order_and_as_many_targets_lie_below(model):
    X, y = uneven(4000, seed=101)
    levels = [0.05, 0.25, 0.5, 0.75, 0.95]
    predicted = model.predict(X, quantiles=levels)
    assert predicted.shape == (4000, 5)
    assert np.all(np.diff(predicted, axis=1) >= 0)
    np.testing.assert_allclose((y[:, None] < predicted).mean(axis=0), levels, atol=0.06)
    unsorted = model.predict(X, quantiles=levels[::-1])
    np.testing.assert_array_equal(unsorted, predicted[:, ::-1])


def test_an_interval_lies_between_the_quantiles_of_its_tails(model):
    X, _ = uneven(50, seed=101)
    low, high = model.predict_interval(X, 0.8).T
    outer, inner = model.predict(X, quantiles=[0.095, 0.101]).T
    assert np.all((outer <= low + 1e-9) & (low <= inner + 1e-9))
    assert np.all(high >= model.predict(X, quantiles=[0.895])[:, 0] - 1e-9)
    wider = model.predict_interval(X, 0.95)
    assert np.all((wider[:, 0] <= low) & (high <= wider[:, 1]))


def test_means_are_what_they_are_without_quantiles(model):
    X, _ = uneven(20, seed=101)
    np.testing.assert_array_equal(model.predict(X), model.best_estimator_.predict(X))


def test_too_few_rows_give_infinite_ends():
    X, y = alike(30)
    model = AutoKernelRegressor(random_state=100).fit(X, y)
    assert np.isfinite(model.predict_interval(X, 0.9)).all()
    assert np.isinf(model.predict_interval(X, 0.99)).all()
    low, middle, high = model.predict(X, quantiles=[0.01, 0.5, 0.99]).T
    assert np.all(low == -np.inf)
    assert np.isfinite(middle).all()
    assert np.all(high == np.inf)


def test_logarithms_of_targets_have_quantiles_that_grow_with_the_prediction():
    rng = np.random.default_rng(101)
    X = rng.normal(size=(1100, 2))
    y = np.exp(2 * X.sum(axis=1) + 0.2 * rng.normal(size=1100))
    model = AutoKernelRegressor(random_state=100).fit(X[:700], y[:700])
    assert model.best_settings_["transform"] == "log"
    assert 0.83 < held(model, X[700:], y[700:]).mean() < 0.97
    predicted = model.predict(X[700:], quantiles=[0.1, 0.5, 0.9])
    assert np.all(np.diff(predicted, axis=1) >= 0)
    assert np.corrcoef(np.ptp(predicted, axis=1), y[700:])[0, 1] > 0.5
    below = (y[700:, None] < predicted).mean(axis=0)
    np.testing.assert_allclose(below, [0.1, 0.5, 0.9], atol=0.08)


def test_several_outputs_have_one_width_each_and_quantiles():
    X, y = alike(400)
    model = AutoKernelRegressor(random_state=100).fit(X, np.column_stack([y, 5 * X[:, 2]]))
    ends = model.predict_interval(X)
    assert ends.shape == (400, 2, 2)
    np.testing.assert_allclose(ends.mean(axis=2), model.predict(X))
    predicted = model.predict(X, quantiles=[0.1, 0.5, 0.9])
    assert predicted.shape == (400, 2, 3)
    assert np.all(np.diff(predicted, axis=2) >= 0)


def test_sparse_rows_have_one_width():
    rng = np.random.default_rng(100)
    X = sparse.random_array((500, 40), density=0.2, random_state=rng, format="csr")
    y = X.sum(axis=1) + 0.1 * rng.normal(size=500)
    model = AutoKernelRegressor(random_state=100).fit(X, y)
    assert model.spread_.machine is None
    assert model.predict(X, quantiles=[0.1, 0.9]).shape == (500, 2)


@pytest.mark.parametrize("wrong", [0.5, [], [[0.5]], ["a"], [0.0], [0.5, 1.0], [np.nan]])
def test_levels_that_are_none_are_refused_in_a_sentence(wrong, model):
    with pytest.raises(ValueError, match=r"quantiles must be .*above 0 and below 1; got"):
        model.predict(uneven(3)[0], quantiles=wrong)


@pytest.mark.parametrize("wrong", [0, 1, 1.5, -0.1])
def test_coverage_is_between_zero_and_one(wrong, model):
    with pytest.raises(ValueError, match="coverage must be above 0 and below 1; got"):
        model.predict_interval(uneven(3)[0], wrong)


def test_saved_models_keep_their_sizes(model, tmp_path):
    X, _ = uneven(20, seed=101)
    expected = model.predict(X, quantiles=[0.1, 0.9])
    persistence.save(model, tmp_path / "model.skops")
    for again in (pickle.loads(pickle.dumps(model)), persistence.load(tmp_path / "model.skops")):
        np.testing.assert_array_equal(again.predict(X, quantiles=[0.1, 0.9]), expected)


def test_models_without_errors_have_intervals_of_one_width(model):
    X, _ = uneven(20, seed=101)
    state = model.__getstate__()
    del state["_errors_"]
    old = AutoKernelRegressor()
    old.__setstate__(state)
    reach = model.conformal_.bound(0.9)
    expected = np.column_stack([model.predict(X) - reach, model.predict(X) + reach])
    np.testing.assert_allclose(old.predict_interval(X), expected)
    with pytest.raises(ValueError, match="quantiles need errors on held-out rows"):
        old.predict(X, quantiles=[0.5])


def test_sizes_that_were_changed_are_refused(model):
    state = model.__getstate__()
    two = np.array([[1.0], [2.0]])
    for broken, name in (
        (HeldErrors(two, np.array([[np.nan], [0.0]])), "errors"),
        (HeldErrors(two, "none"), "errors"),
        (HeldErrors(np.ones((3, 1)), two), "responses"),
        (HeldErrors(two, two, np.array([1.0, 0.0])), "weights"),
        (HeldErrors(two, two, None, np.ones((3, 1))), "rows"),
    ):
        with pytest.raises(ValueError, match=f"{name} of a fitted HeldErrors must be"):
            AutoKernelRegressor().__setstate__({**state, "_errors_": broken})
    with pytest.raises(ValueError, match="_errors_ of a fitted AutoKernelRegressor must"):
        AutoKernelRegressor().__setstate__({**state, "_errors_": None})


def test_threads_change_no_bit():
    X, y = uneven(700)
    one, two = (AutoKernelRegressor(random_state=100, n_jobs=n).fit(X, y) for n in (1, 2))
    np.testing.assert_array_equal(one.spread_.scores, two.spread_.scores)
    np.testing.assert_array_equal(
        one.predict(X[:9], quantiles=[0.2]), two.predict(X[:9], quantiles=[0.2])
    )


def test_weights_count_as_repeated_rows_in_the_law_of_errors():
    rng = np.random.default_rng(100)
    rows, errors = rng.normal(size=(400, 2)), rng.normal(size=(400, 1))
    weights = rng.integers(1, 4, size=400).astype(float)
    twice = np.repeat(errors, weights.astype(int), axis=0)
    levels = np.array([0.1, 0.5, 0.9])
    weighted = Spread.fitted(rows, 0 * errors, errors, weights)
    plain = Spread(np.sort(twice, axis=0))
    np.testing.assert_allclose(weighted.quantiles(levels), plain.quantiles(levels), atol=0.05)


def test_constant_errors_and_perfect_predictions_leave_no_warning():
    rows, zero = np.linspace(0, 1, 200)[:, None], np.zeros((200, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for errors in (zero, zero + 1e-300, np.where(rows > 0.5, 1.0, 0.0)):
            spread = Spread.fitted(rows, zero, errors)
            sizes = spread.sizes(rows, zero[:, 0]) * np.ones(200)
            assert np.isfinite(sizes).all()
            assert np.isfinite(spread.ends(0.9)).all()


@pytest.fixture(scope="module")
def whole_table():
    rng = np.random.default_rng(0)
    labels = rng.choice(["x", "y"], 200)
    table = pd.DataFrame({"a": rng.normal(size=200), "b": rng.uniform(size=200), "c": labels})
    y = 3 * table["a"].to_numpy() + table["b"].to_numpy() + 0.1 * rng.normal(size=200)
    return table, y, AutoKernelRegressor(random_state=0).fit(table, y)


def test_a_row_of_missing_cells_has_the_quantiles_of_the_targets(whole_table):
    table, y, model = whole_table
    few = table.iloc[:2].copy()
    few.loc[1, ["a", "b"]], few.loc[1, "c"] = np.nan, None
    known, unknown = model.predict_interval(few)
    assert np.diff(known) < 0.2 * np.diff(unknown)
    low, high = np.quantile(y, [0.05, 0.95])
    np.testing.assert_allclose(unknown, [low, high], atol=0.2 * (high - low))
    np.testing.assert_allclose(model.predict(few, quantiles=[0.05, 0.95])[1], unknown, atol=0.3)


def test_a_warning_names_columns_that_had_no_gaps_at_the_fit(whole_table):
    table, _, model = whole_table
    few = table.iloc[:3].copy()
    few.loc[1, "a"] = np.nan
    with pytest.warns(UserWarning, match="too narrow for 1 row .* at the fit, 'a': fit the model"):
        model.predict_interval(few)


def test_gaps_that_the_fit_has_met_need_no_warning(whole_table):
    table, y, _ = whole_table
    gaps = table.copy()
    gaps.loc[::10, "a"] = np.nan
    gaps.loc[::9, ["b", "c"]] = [np.nan, None]
    model = AutoKernelRegressor(random_state=0).fit(gaps, y)
    few = table.iloc[:2].copy()
    few.loc[1, ["a", "b"]], few.loc[1, "c"] = np.nan, None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict_interval(few)
