"""Groups in automatic models: rows held out never share one with the rows fitted."""

from datetime import date

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import make_friedman1

from _polars import pl
from mercer import AutoKernelClassifier, AutoKernelRegressor, TablePreparer
from mercer._runtime.validation import group_codes
from mercer.auto import bench
from mercer.auto.goals import Classes, Numbers
from mercer.auto.parts import folds_of_groups, splits
from mercer.auto.tuning import TUNING


@pytest.fixture(autouse=True)
def few_treatments(monkeypatch):
    """The same search with fewer candidates, which all laws are about, in less time."""
    monkeypatch.setattr(TUNING, "powers", {"laplacian": (0.0, 1.0), "gaussian": (1.0,)})


@pytest.fixture
def seen(monkeypatch):
    """Stage, rows fitted and rows held out of every trial."""
    trials = []
    plain = bench.Evaluator._outcomes

    def noted(self, stage, *arguments):
        trials.extend((stage, part.fitted, part.held) for part in self.parts)
        return plain(self, stage, *arguments)

    monkeypatch.setattr(bench.Evaluator, "_outcomes", noted)
    return trials


def rows(n, n_groups, random_state=100):
    """A table whose groups, of different sizes, differ by what no column tells but their name."""
    rng = np.random.default_rng(random_state)
    X, y = make_friedman1(n, 6, noise=0.5, random_state=random_state)
    groups = np.floor(n_groups * rng.random(n) ** 1.5).astype(int)
    return X, y + 3.0 * rng.normal(size=n_groups)[groups], groups


def check(seen, groups, *stages):
    assert {stage for stage, _, _ in seen} >= set(stages)
    for _, fitted, held in seen:
        assert len(fitted)
        assert len(held)
        assert not set(groups[fitted]) & set(groups[held])


@pytest.mark.parametrize("n", [300, 1800])
@pytest.mark.parametrize("make", [AutoKernelRegressor, AutoKernelClassifier])
def test_no_group_is_fitted_and_held_out_on_rungs(make, n, seen):
    X, y, groups = rows(n, 40)
    y = y if make is AutoKernelRegressor else y > 15
    model = make(random_state=100).fit(X, y, groups=groups)
    check(seen, groups, "rung 1", "rung 2", "rung 3")
    assert model.n_validation_rows_ == n if n == 300 else n // 8 < model.n_validation_rows_ < n // 3


@pytest.mark.parametrize("make", [AutoKernelRegressor, AutoKernelClassifier])
def test_no_group_is_fitted_and_held_out_on_leaves(make, seen, monkeypatch):
    monkeypatch.setattr(TUNING, "exact_rows", 1000)
    monkeypatch.setattr(TUNING, "leaf_rows", (400, 400))
    X, y, groups = rows(2400, 200)
    y = y if make is AutoKernelRegressor else y > 15
    model = make(random_state=100).fit(X, y, groups=groups)
    check(seen, groups, "rung 1", "leaves")
    assert np.isfinite(model.predict(X[:5]).astype(float)).all()


def test_no_group_is_fitted_and_held_out_by_features(seen):
    X, y, groups = rows(6000, 100)
    X = sparse.csr_array(np.where(X > 0.4, X, 0.0))
    AutoKernelRegressor(random_state=100).fit(X, y, groups=groups)
    check(seen, groups, "rung 1", "features")


def test_groups_that_lie_apart_leave_a_model(seen, monkeypatch):
    monkeypatch.setattr(TUNING, "exact_rows", 1000)
    monkeypatch.setattr(TUNING, "leaf_rows", (100, 100))
    X, y, groups = rows(1800, 3)
    X[:, 0] = 1000.0 * groups  # no leaf has rows of two groups
    model = AutoKernelRegressor(random_state=100).fit(X, y, groups=groups)
    check(seen, groups, "rung 1")
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize(
    "form",
    [
        pd.to_datetime,
        lambda days: pd.Series(pd.to_datetime(days)),
        lambda days: pd.Series(pd.to_datetime(days)).dt.tz_localize("UTC"),
        lambda days: pd.DataFrame({"day": pd.to_datetime(days)}),
        lambda days: np.array(days, "datetime64[D]"),
        lambda days: np.array(days, "datetime64[D]") - np.datetime64("2020-01-01"),
        lambda days: [date.fromisoformat(day) for day in days],
        lambda days: list(pd.to_datetime(days)),
    ],
)
def test_days_are_groups(form):
    days = ["2021-01-01", "2020-01-02", "2021-01-01", "2020-01-01"]
    assert group_codes(form(days), np.zeros((4, 1))).tolist() == [2, 1, 2, 0]


@pytest.mark.parametrize(
    "days", [np.array(["2020-01-01", "NaT"], "M8[D]"), [date(2020, 1, 1), pd.NaT], ["a", pd.NA]]
)
def test_rows_without_a_group_are_named(days):
    with pytest.raises(ValueError, match="a group for every row; that of row 1 lacks"):
        group_codes(days, np.zeros((2, 1)))


def test_a_table_that_leaks_by_its_groups_fools_nobody():
    # Every group has its own place in the noise columns, and its own target: neighbours there are
    # of the same group, which says nothing of new groups.
    def leaking(n_groups, random_state):
        rng = np.random.default_rng(random_state)
        groups = np.repeat(np.arange(n_groups), 8)
        X = np.column_stack([rng.normal(size=(n_groups, 3))[groups], rng.normal(size=len(groups))])
        X[:, :3] += 0.01 * rng.normal(size=(len(groups), 3))
        own = 2.0 * rng.normal(size=n_groups)[groups]
        return X, own + 2 * X[:, 3] + 0.1 * rng.normal(size=len(groups)), groups

    X, y, groups = leaking(150, 100)
    X_new, y_new, _ = leaking(300, 101)
    blind = AutoKernelRegressor(random_state=100).fit(X, y)
    aware = AutoKernelRegressor(random_state=100).fit(X, y, groups=groups)
    assert blind.validation_score_ > blind.score(X_new, y_new) + 0.3
    assert abs(aware.validation_score_ - aware.score(X_new, y_new)) < 0.12
    assert aware.score(X_new, y_new) > blind.score(X_new, y_new)
    low, high = aware.predict_interval(X_new, 0.9).T
    assert np.mean((low <= y_new) & (y_new <= high)) > 0.8
    low, high = blind.predict_interval(X_new, 0.9).T
    assert np.mean((low <= y_new) & (y_new <= high)) < 0.7


def test_codes_of_a_label_that_names_the_group_say_nothing():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(60), 10)
    frame = pd.DataFrame({"patient": [f"p{g}" for g in groups], "age": rng.normal(size=600)})
    y = 3.0 * rng.normal(size=60)[groups] + frame["age"].to_numpy()
    blind = TablePreparer(random_state=0).fit_transform(frame, y)
    assert abs(np.corrcoef(blind[:, 1], y)[0, 1]) > 0.8
    with pytest.warns(UserWarning, match="'patient'"):
        aware = TablePreparer(random_state=0).fit_transform(frame, y, groups=groups)
    assert aware.shape[1] == 1
    doctors = np.array([f"d{i % 25}" for i in range(600)], dtype=object)
    frame["doctor"] = doctors[rng.permutation(600)]
    with pytest.warns(UserWarning, match="'patient'"):
        aware = TablePreparer(random_state=0).fit_transform(frame, y, groups=groups)
    assert aware.shape[1] == 2


# folds


@pytest.mark.parametrize("n_groups", [2, 3, 7, 300])
@pytest.mark.parametrize("classes", [False, True])
def test_folds_hold_whole_groups_and_are_about_alike(n_groups, classes):
    rng = np.random.default_rng(0)
    groups = np.concatenate([np.arange(n_groups), rng.integers(0, n_groups, 3000)])
    strata = rng.integers(0, 3, len(groups)) if classes else None
    folds = folds_of_groups(groups, strata, 5, 7)
    assert 2 <= folds.max() + 1 <= min(5, n_groups)
    assert all(len(np.unique(folds[groups == group])) == 1 for group in range(n_groups))
    if n_groups == 300:
        assert np.bincount(folds).max() < 1.1 * np.bincount(folds).min()
        assert not np.array_equal(folds, folds_of_groups(groups, strata, 5, 8))


@pytest.mark.parametrize("sizes", [[1, 98, 1], [98, 2], [1, 1], [1, 1, 1, 1, 996]])
@pytest.mark.parametrize("key", range(4))
def test_groups_of_any_size_make_two_folds_or_more(sizes, key):
    folds = folds_of_groups(np.repeat(np.arange(len(sizes)), sizes), None, 5, key)
    assert np.bincount(folds).min() > 0
    assert folds.max() >= 1


def test_a_large_group_is_not_held_out_where_smaller_ones_serve():
    groups = np.repeat(np.arange(41), [3000, *40 * [50]])
    for key in range(5):
        [(fitted, held)] = splits(Numbers(np.arange(5000.0)[:, None], None, groups), key, 5000)
        assert 0 in groups[fitted]
        assert not set(groups[fitted]) & set(groups[held])
        assert len(held) >= 250


def test_every_class_is_held_out_where_groups_allow_it():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(400), 5)
    labels = (groups % 20 == 0) * 2 + (groups % 3 == 0)
    labels = np.unique(labels, return_inverse=True)[1]
    for random_state in range(3):
        goal = Classes(labels, 4, None, rng.permutation(400)[groups])
        [(_, held)] = splits(goal, random_state, 2000)
        shares = np.bincount(labels[held], minlength=4) / len(held)
        np.testing.assert_allclose(shares, np.bincount(labels) / 2000, atol=0.01)


def test_labels_of_any_kind_are_groups():
    X, y, groups = rows(300, 20)
    names = np.array([f"group {g}" for g in groups], dtype=object)
    forms = names, names.tolist(), pd.Series(names), pl.Series(names), pd.Categorical(names)
    models = [AutoKernelRegressor(random_state=100).fit(X, y, groups=form) for form in forms]
    for model in models[1:]:
        np.testing.assert_array_equal(model.predict(X), models[0].predict(X))


def test_rows_without_weight_take_their_groups_with_them():
    X, y, groups = rows(60, 2)
    with pytest.raises(ValueError, match="groups must hold at least two groups; got one"):
        AutoKernelRegressor().fit(X, y, sample_weight=groups, groups=groups)


@pytest.mark.parametrize(
    ("groups", "rule"),
    [
        (np.zeros(60), "groups must hold at least two groups; got one"),
        (np.arange(59), "inconsistent numbers of samples"),
        (np.zeros((60, 2)), r"groups must have shape \(n,\)"),
        ([None] * 60, "groups must hold a group for every row; that of row 0 lacks"),
        (np.where(np.arange(60) == 7, np.nan, 1.0), "that of row 7 lacks"),
        (np.array([1, "a"] * 30, dtype=object), "groups must hold labels that sort"),
        (3, r"groups must have shape \(n,\)"),
    ],
)
@pytest.mark.parametrize("make", [AutoKernelRegressor, AutoKernelClassifier])
def test_groups_that_make_no_sense_get_a_sentence(make, groups, rule):
    X, _, _ = rows(60, 2)
    with pytest.raises((ValueError, TypeError), match=rule) as refusal:
        make().fit(X, np.arange(60) % 2, groups=groups)
    assert "\n" not in str(refusal.value)
