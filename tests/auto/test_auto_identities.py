"""Somebody or something that repeats, and scales by left-out errors, in automatic models."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import r2_score

from mercer import AutoKernelClassifier, AutoKernelRegressor, LeftOutScaler, persistence
from mercer.explain import shapley_values


def visits(n=900, n_people=60, seed=0):
    """Visits of people, whose effect no mean of the target shows: it depends on the season."""
    rng = np.random.default_rng(seed)
    who, season = rng.integers(0, n_people, n), rng.normal(size=n)
    slope = rng.normal(size=n_people)
    table = pd.DataFrame({"person": [f"p{number:03d}" for number in who], "season": season})
    table["noise"] = rng.normal(size=n)
    return table, slope[who] * np.sign(season) + 0.1 * rng.normal(size=n)


@pytest.fixture(scope="module")
def fitted():
    table, y = visits()
    return AutoKernelRegressor(random_state=0).fit(table[:700], y[:700]), table, y


def test_a_label_that_names_somebody_is_told_apart(fitted):
    model, table, y = fitted
    assert model.best_settings_["identities"]
    assert model.best_settings_["scales"] == "left-out"
    assert isinstance(model.best_estimator_["scaler"], LeftOutScaler)
    assert r2_score(y[700:], model.predict(table[700:])) > 0.8
    assert model.validation_score_ > 0.8


def test_the_final_scales_are_those_of_the_search(fitted):
    model = fitted[0]
    scaler = model.best_estimator_["scaler"]
    assert scaler.known is not None
    assert scaler.left_out_error_ < 0.4


def test_such_models_explain_columns_and_keep_their_answers_in_files(fitted, tmp_path):
    model, table, _ = fitted
    values = shapley_values(model, table[:3])
    assert values.values.shape[1] == 3
    wanted = model.predict(table[:3]) - np.ravel(values.base_values)
    tolerance = 0.2 if model.best_settings_["kernel"] == "exponential" else 1e-4
    np.testing.assert_allclose(values.values.sum(axis=1).ravel(), wanted, atol=tolerance)
    persistence.save(model, tmp_path / "model.skops")
    loaded = persistence.load(tmp_path / "model.skops")
    np.testing.assert_array_equal(loaded.predict(table[700:]), model.predict(table[700:]))


def test_people_whom_the_fit_did_not_meet_are_predicted_like_anybody(fitted):
    model, table, y = fitted
    strangers = table[:5].assign(person=list("abcde"))
    with pytest.warns(UserWarning, match="'person' holds labels that the fit has not met in 5 of"):
        predicted = model.predict(strangers)
    assert np.abs(predicted).max() < 3 * y.std()


def test_classes_of_people_are_told_apart():
    table, y = visits(1200)
    labels = np.where(y > 0, "more", "less")
    model = AutoKernelClassifier(random_state=0).fit(table[:900], labels[:900])
    assert model.best_settings_["identities"]
    assert model.score(table[900:], labels[900:]) > 0.8


def test_tables_in_which_nothing_repeats_have_no_rung_of_identities():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    model = AutoKernelRegressor(random_state=0).fit(X, X[:, 0] + 0.3 * rng.normal(size=300))
    assert "identities" not in model.search_results_["stage"]
    assert not model.best_settings_["identities"]
    assert "left-out" in model.search_results_["scales"]


def test_scales_that_few_rows_show_to_gain_nothing_are_not_sought_on_more():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = X @ [1.0, 1.0, 1.0] + rng.normal(size=600)
    model = AutoKernelRegressor(random_state=0).fit(X, y)
    assert "left-out" not in model.search_results_["scales"]


def test_weights_and_groups_reach_the_scales():
    table, y = visits(600)
    rng = np.random.default_rng(1)
    weights = rng.uniform(0.5, 2, 600)
    model = AutoKernelRegressor(random_state=0).fit(table, y, weights, rng.integers(0, 60, 600))
    assert np.isfinite(model.validation_score_)


def test_a_short_budget_leaves_these_searches_out():
    table, y = visits(600)
    model = AutoKernelRegressor(time_budget=0.05, random_state=0).fit(table, y)
    assert "left-out" not in model.search_results_["scales"]
    assert model.search_seconds_ + model.fit_seconds_ < 3


def test_a_budget_of_some_seconds_has_time_for_them():
    """As much as a fit takes without a budget many times over."""
    table, y = visits(600)
    model = AutoKernelRegressor(time_budget=60, random_state=0).fit(table, y)
    without = AutoKernelRegressor(random_state=0).fit(table, y)
    assert "left-out" in model.search_results_["scales"]
    np.testing.assert_array_equal(model.predict(table), without.predict(table))
