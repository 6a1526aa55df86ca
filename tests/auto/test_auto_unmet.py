"""Labels that the fit has not met: intervals and sets that know it, and one warning."""

import copy
import warnings

import numpy as np
import pandas as pd
import pytest

from mercer import AutoKernelClassifier, AutoKernelRegressor, persistence
from mercer.preparation import TablePreparer
from mercer.preparation.numeric import rare_share

FIT, N_USERS = 400, 40


def purchases(n, first, seed, names="{:05d}"):
    """Targets of users from ``first`` on, whose means differ by much, and of a number."""
    rng = np.random.default_rng(seed)
    users = first + rng.integers(0, N_USERS, n)
    means = np.random.default_rng(5).normal(size=1000)
    amount = rng.uniform(-1, 1, n)
    y = 5 * means[users] + amount + 0.1 * rng.normal(size=n)
    return pd.DataFrame({"user": [names.format(u) for u in users], "amount": amount}), y


def classes(y):
    return np.where(y > 2, "high", np.where(y > -2, "middle", "low"))


@pytest.fixture(scope="module")
def regressor():
    return AutoKernelRegressor(random_state=0).fit(*purchases(FIT, 0, 0))


@pytest.fixture(scope="module")
def classifier():
    table, y = purchases(FIT, 0, 0)
    return AutoKernelClassifier(random_state=0).fit(table, classes(y))


def the_warning(call):
    """Result of a call and the text of its one warning."""
    with warnings.catch_warnings(record=True) as met:
        warnings.simplefilter("always")
        found = call()
    assert [each.category for each in met] == [UserWarning]
    return found, str(met[0].message)


def test_intervals_of_labels_never_met_hold_about_their_share_of_targets(regressor):
    table, y = purchases(400, 100, 1)
    intervals, said = the_warning(lambda: regressor.predict_interval(table))
    assert "column 'user' holds labels that the fit has not met in 400 of 400 rows" in said
    assert 0.75 < np.mean((intervals[:, 0] <= y) & (y <= intervals[:, 1])) < 0.99
    quantiles, _ = the_warning(lambda: regressor.predict(table, quantiles=[0.05, 0.5, 0.95]))
    assert (np.diff(quantiles) >= 0).all()
    np.testing.assert_allclose(quantiles[:, [0, 2]], intervals, atol=0.3)


def test_intervals_of_known_labels_do_not_depend_on_unknown_ones_beside(regressor):
    known, _ = purchases(20, 0, 2)
    new, _ = purchases(20, 100, 2)
    both, _ = the_warning(lambda: regressor.predict_interval(pd.concat([known, new])))
    alone = regressor.predict_interval(known)
    np.testing.assert_allclose(both[:20], alone, rtol=1e-6)
    assert np.median(np.diff(both[20:])) > 5 * np.median(np.diff(alone))


def test_sets_of_labels_never_met_hold_classes_and_none_is_empty(classifier):
    table, y = purchases(400, 100, 1)
    sets, said = the_warning(lambda: classifier.predict_set(table))
    assert "'user'" in said
    places = np.searchsorted(classifier.classes_, classes(y))
    assert sets[np.arange(400), places].mean() > 0.75
    assert sets.any(axis=1).all()
    known = classifier.predict_set(purchases(400, 0, 3)[0], coverage=0.5)
    assert known.any(axis=1).all()
    assert known.sum() < sets.sum()


def test_every_prediction_warns_once_with_column_share_and_example(regressor, classifier):
    table = pd.concat([purchases(10, 0, 1)[0], purchases(10, 100, 1)[0]])
    example = table["user"].iloc[10]
    calls = regressor.predict, classifier.predict, classifier.predict_proba
    for call in calls:
        _, said = the_warning(lambda call=call: call(table))
        assert f"not met in 10 of 20 rows, such as {example!r}" in said


def test_a_label_in_another_form_is_named_beside_that_of_the_fit(regressor):
    table, _ = purchases(10, 0, 1)
    number = int(table["user"].iloc[0])
    for other in (number, f"{number}.0", f" {number:05d} "):
        few = table.iloc[:1].assign(user=other)
        _, said = the_warning(lambda few=few: regressor.predict(few))
        assert f"such as {str(other)!r}" in said
        assert f"the fit has met '{number:05d}': write labels as in the rows of the fit" in said


def test_whole_numbers_that_name_users_are_labels_too():
    table, y = purchases(FIT, 0, 0)
    numbers = 7 * table["user"].astype(int) % 41 + 1000  # in no order of the targets
    model = AutoKernelRegressor(random_state=0).fit(table.assign(user=numbers), y)
    assert model.best_settings_["identities"]
    new, of_new = purchases(300, 100, 1)
    new = new.assign(user=7 * new["user"].astype(int) % 41 + 1041)
    intervals, said = the_warning(lambda: model.predict_interval(new))
    assert "'user'" in said
    assert np.mean((intervals[:, 0] <= of_new) & (of_new <= intervals[:, 1])) > 0.7


def test_few_rare_labels_and_labels_that_say_nothing_need_no_warning(regressor):
    table, _ = purchases(100, 0, 1)
    table.loc[0, "user"] = "someone else"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(regressor.predict(table)).all()
    rng = np.random.default_rng(0)
    table, y = purchases(300, 0, 0)
    y = table["amount"].to_numpy() + 0.1 * rng.normal(size=300)
    model = AutoKernelRegressor(random_state=0).fit(table, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ends = model.predict_interval(purchases(100, 100, 1)[0])
    assert np.ptp(ends, axis=1).max() < 1.0  # as wide as the noise asks for


def test_models_in_files_know_their_labels(regressor, tmp_path):
    persistence.save(regressor, tmp_path / "model.skops")
    loaded = persistence.load(tmp_path / "model.skops")
    table, _ = purchases(20, 100, 1)
    both = [the_warning(lambda m=m: m.predict_interval(table)) for m in (regressor, loaded)]
    np.testing.assert_array_equal(both[0][0], both[1][0])
    assert both[0][1] == both[1][1]
    del loaded._unmet_  # as in files of earlier versions
    loaded.predict_interval(table)


@pytest.mark.parametrize("spoilt", [None, 0, {0: None}, [1.0]])
def test_errors_that_no_fit_leaves_are_refused(regressor, spoilt):
    model = copy.copy(regressor)
    model._unmet_ = spoilt
    with pytest.raises(ValueError, match="_unmet_ of a fitted AutoKernelRegressor must hold"):
        copy.deepcopy(model)


def test_the_share_of_new_labels_bounds_that_of_rows_beside_the_fit():
    rng = np.random.default_rng(0)
    users = (100 * rng.pareto(1.0, size=4000)).astype(int)
    counts = np.unique(users[:2000], return_counts=True)[1]
    share = rare_share(counts)
    new = np.mean(~np.isin(users[2000:], users[:2000]))
    assert 0.8 * new < share < 1.2 * new + 0.01
    table = pd.DataFrame({"user": [f"u{user}" for user in users[:2000]]})
    preparer = TablePreparer(labels="plain").fit(table, users[:2000] % 2)
    assert dict(preparer.parts_)[0].rare == share


def test_whole_numbers_that_are_quantities_to_the_model_may_name_users_too(tmp_path):
    rng = np.random.default_rng(1)
    users, amount = rng.integers(0, 300, 900), rng.normal(size=900)
    y = 4.9 * np.random.default_rng(2).normal(size=300)[users] + np.sin(2 * amount)
    table, is_fit = pd.DataFrame({"user": 1000 + users, "amount": amount}), users < 200
    model = AutoKernelRegressor(random_state=0).fit(table[is_fit], y[is_fit])
    (ends, found), said = the_warning(lambda: ends_and_share(model, table[~is_fit], y[~is_fit]))
    assert "column 'user' holds labels that the fit has not met in" in said
    assert found > 0.5  # .03 if they count as quantities alone
    persistence.save(model, tmp_path / "m.skops")
    loaded = persistence.load(tmp_path / "m.skops")
    again, _ = the_warning(lambda: loaded.predict_interval(table[~is_fit]))
    np.testing.assert_array_equal(again, ends)


def ends_and_share(model, table, y):
    """Intervals, and the share of targets that they hold."""
    ends = model.predict_interval(table)
    return ends, np.mean((ends[:, 0] <= y) & (y <= ends[:, 1]))
