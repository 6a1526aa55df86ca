"""Order in time: rows held out are later than all rows fitted; random splits that flatter warn."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import make_friedman1

from _polars import pl
from mercer import AutoKernelClassifier, AutoKernelRegressor
from mercer.auto import base, bench, final, own_loss
from mercer.auto.parts import later_rows
from mercer.auto.tuning import TUNING

FLATTERED = "times the squared error if no row of their time is fitted"


@pytest.fixture(autouse=True)
def few_treatments(monkeypatch):
    """The same search with fewer candidates, which all laws are about, in less time."""
    monkeypatch.setattr(TUNING, "powers", {"laplacian": (0.0, 1.0), "gaussian": (1.0,)})


@pytest.fixture
def seen(monkeypatch):
    """Stage, rows fitted and rows held out of every trial and of the fit that measures errors."""
    trials = []
    outcomes, splits = bench.Evaluator._outcomes, final.final_splits

    def noted(self, stage, *arguments):
        trials.extend((stage, part.fitted, part.held) for part in self.parts)
        return outcomes(self, stage, *arguments)

    def noted_last(*arguments):
        parts = splits(*arguments)
        trials.extend(("last", *part) for part in parts)
        return parts

    monkeypatch.setattr(bench.Evaluator, "_outcomes", noted)
    monkeypatch.setattr(final, "final_splits", noted_last)
    compared = own_loss._compare

    def noted_losses(search, goal, settings, parts):
        trials.extend(("last", part.fitted, part.held) for part in parts)
        return compared(search, goal, settings, parts)

    monkeypatch.setattr(own_loss, "_compare", noted_losses)
    return trials


def table(n, seed=100):
    """A table whose last column has ties and orders the rows, and its targets."""
    rng = np.random.default_rng(seed)
    X, y = make_friedman1(n, 6, noise=0.5, random_state=seed)
    return np.column_stack([X, rng.integers(1, 80, n)]), y


def check(seen, times, *stages):
    assert {stage for stage, _, _ in seen} >= set(stages)
    for _, fitted, held in seen:
        assert len(fitted)
        assert len(held)
        assert times[fitted].max() < times[held].min()


@pytest.mark.parametrize("n", [300, 1800, 2600])
@pytest.mark.parametrize("make", [AutoKernelRegressor, AutoKernelClassifier])
def test_rows_held_out_on_rungs_are_later(make, n, seen):
    X, y = table(n)
    y = y if make is AutoKernelRegressor else y > 15
    model = make(random_state=100, time=6).fit(X, y)
    check(seen, X[:, 6], "rung 1", "rung 2", "rung 3", *(["last"] if n > 1000 else []))
    _, held = later_rows(np.unique(X[:, 6], return_inverse=True)[1])
    assert set(model.held_out_["row"]) == set(np.flatnonzero(held))
    assert model.n_validation_rows_ == held.sum()


@pytest.mark.parametrize("make", [AutoKernelRegressor, AutoKernelClassifier])
def test_rows_held_out_on_leaves_are_later(make, seen, monkeypatch):
    monkeypatch.setattr(TUNING, "exact_rows", 1000)
    monkeypatch.setattr(TUNING, "leaf_rows", (400, 400))
    X, y = table(2400)
    y = y if make is AutoKernelRegressor else y > 15
    model = make(random_state=100, time=6).fit(X, y)
    check(seen, X[:, 6], "rung 1", "leaves")
    assert np.isfinite(model.predict(X[:5]).astype(float)).all()


def test_rows_held_out_by_features_are_later(seen):
    X, y = table(6000)
    X = sparse.csr_array(np.where(X > 0.4, X, 0.0))
    AutoKernelRegressor(random_state=100, time=6).fit(X, y)
    check(seen, X[:, [6]].toarray()[:, 0], "rung 1", "features", "last")


@pytest.mark.parametrize("spans", [False, True])
def test_rows_held_out_of_groups_are_later_and_of_others(spans, seen):
    X, y = table(1800)
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 40, 1800) if spans else X[:, 6].astype(int) // 3
    AutoKernelRegressor(random_state=100, time=6).fit(X, y, groups=groups)
    check(seen, X[:, 6], "rung 1", "rung 3", "last")
    assert not any(set(groups[fitted]) & set(groups[held]) for _, fitted, held in seen)


def test_groups_of_which_more_are_held_out_than_judge_are_not_fitted(seen, monkeypatch):
    monkeypatch.setattr(TUNING, "final_held", (60, 100))
    X, y = table(2600)
    groups = X[:, 6].astype(int)
    model = AutoKernelRegressor(random_state=100).fit(X, y, groups=groups)
    [(fitted, held)] = [parts for stage, *parts in seen if stage == "last"]
    assert len(fitted) + len(held) == 2600
    assert set(model.held_out_["row"]) == set(held)


@pytest.mark.parametrize("n_times", [2, 3, 7, 500])
def test_cut_between_times_leaves_about_a_fifth(n_times):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        times = np.r_[np.arange(n_times), (n_times * rng.random(1000) ** 2).astype(int)]
        fitted, held = later_rows(times)
        np.testing.assert_array_equal(fitted, ~held)
        assert times[fitted].max() < times[held].min()
        shares = [np.mean(times > cut) for cut in range(n_times - 1)]
        assert abs(held.mean() - 0.2) == pytest.approx(min(abs(np.array(shares) - 0.2)))


@pytest.mark.parametrize("n_groups", [2, 3, 40])
def test_later_rows_of_any_groups_leave_both_sides(n_groups):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        times = np.r_[0, 1, rng.integers(0, rng.integers(2, 9), 60)]
        times = np.unique(times, return_inverse=True)[1]
        groups = np.r_[np.arange(n_groups), rng.integers(0, n_groups, 62 - n_groups)]
        fitted, held = later_rows(times, groups)
        assert times[fitted].max() < times[held].min()
        assert not set(groups[fitted]) & set(groups[held])


@pytest.mark.parametrize(("n", "n_early"), [(2, 1), (10, 1), (100, 99), (1500, 2), (1500, 1499)])
def test_any_share_of_early_rows_leaves_a_model(n, n_early):
    X, y = table(n)
    X[:, 6] = np.arange(n) >= n_early
    model = AutoKernelRegressor(random_state=0, time=6).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    assert model.n_validation_rows_ == n - n_early


def drifting(n_days, seed, first=0):
    """Days of four rows: inputs that name the day, and a level that no other day has."""
    rng = np.random.default_rng(seed)
    day = np.repeat(np.arange(n_days), 4)
    frame = pd.DataFrame(rng.normal(size=(n_days, 3))[day], columns=["a", "b", "c"])
    frame += 0.01 * rng.normal(size=frame.shape)
    frame["x"] = rng.normal(size=len(day))
    frame["when"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(first + day, "D")
    level = 2.0 * rng.normal(size=n_days)[day]
    return frame, level + 2 * frame["x"].to_numpy() + 0.1 * rng.normal(size=len(day))


@pytest.mark.parametrize("seed", [0, 1])
def test_split_by_time_chooses_better_settings_where_days_have_levels(seed, monkeypatch):
    monkeypatch.setattr(TUNING, "left_out_inputs", 0)  # such scales may serve the future by chance
    X, y = drifting(600, seed)
    X_new, y_new = drifting(300, seed + 50, first=600)
    with pytest.warns(UserWarning, match=FLATTERED):
        blind = AutoKernelRegressor(random_state=0).fit(X, y)
    aware = AutoKernelRegressor(random_state=0, time="when").fit(X, y)
    assert blind.validation_score_ > blind.score(X_new, y_new) + 0.4
    assert abs(aware.validation_score_ - aware.score(X_new, y_new)) < 0.12
    assert aware.score(X_new, y_new) > blind.score(X_new, y_new) + 0.02
    low, high = aware.predict_interval(X_new, 0.9).T
    assert np.mean((low <= y_new) & (y_new <= high)) > 0.8
    low, high = blind.predict_interval(X_new, 0.9).T
    assert np.mean((low <= y_new) & (y_new <= high)) < 0.5


def test_warns_once_of_dates_that_flatter_and_of_no_others():
    def told(X, y, groups=None, **settings):
        with warnings.catch_warnings(record=True) as met:
            warnings.simplefilter("always")
            AutoKernelRegressor(random_state=0, **settings).fit(X, y, groups=groups)
        return [str(w.message) for w in met if FLATTERED in str(w.message)]

    X, y = drifting(200, 0)
    [message] = told(X, y)
    assert "'when'" in message
    assert "\n" not in message
    assert not told(X, y, time="when")
    assert not told(X, y, groups=np.arange(len(y)) // 4)
    texts = X.assign(when=X["when"].dt.strftime("%d/%m/%Y"))
    assert "'when'" in told(texts, y)[0]
    shuffled = X.assign(when=np.random.default_rng(0).permutation(X["when"]))
    assert not told(shuffled, y)
    assert not told(X, np.sin(X["x"]))
    assert not told(X.drop(columns="when"), y)
    assert "time=4 " in told(X.astype(object).to_numpy(), y)[0]


def test_interrupt_while_order_is_tested_leaves_a_model(monkeypatch):
    def interrupted(search):
        raise KeyboardInterrupt

    monkeypatch.setattr(base, "warn_of_order", interrupted)
    X, y = table(300)
    with pytest.warns(UserWarning, match="fit was interrupted"):
        model = AutoKernelRegressor(random_state=0).fit(X, y)
    assert model.interrupted_
    assert np.isfinite(model.predict(X)).all()


def test_warns_for_classes_and_not_without_order():
    X, y = drifting(300, 0)
    with pytest.warns(UserWarning, match=FLATTERED):
        AutoKernelClassifier(random_state=0).fit(X, np.where(y > 0, "high", "low"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "column 'x' alone explains")
        AutoKernelClassifier(random_state=0).fit(X, np.where(X["x"] > 0, "high", "low"))


def test_column_has_one_order_in_any_table(monkeypatch):
    orders = []
    codes = base.time_codes
    monkeypatch.setattr(
        base, "time_codes", lambda *given: orders.append(codes(*given)) or orders[-1]
    )
    rng = np.random.default_rng(0)
    days = rng.integers(0, 900, 200)
    when = pd.Timestamp("2020-01-01") + pd.to_timedelta(days, "D")
    frame = pd.DataFrame({"a": rng.normal(size=200), "when": when})
    y = frame["a"].to_numpy()
    forms = [
        (frame, "when"),
        (pl.from_pandas(frame), "when"),
        (frame.assign(when=when.strftime("%Y-%m-%d")), "when"),
        (frame.assign(when=days), "when"),
        (np.column_stack([y, days]), 1),
        (frame.to_numpy(dtype=object), np.int64(1)),
        (sparse.csr_array(np.column_stack([y, days])), 1),
    ]
    for X, time in forms:
        AutoKernelRegressor(time=time, random_state=0).fit(X, y)
    for order in orders:
        np.testing.assert_array_equal(order, np.unique(days, return_inverse=True)[1])


def test_rows_without_weight_take_no_part_in_the_order():
    X, y = table(400)
    weights = np.where(X[:, 6] > 40, 0.0, 1.0)
    whole = AutoKernelRegressor(random_state=0, time=6).fit(X, y, sample_weight=weights)
    part = AutoKernelRegressor(random_state=0, time=6).fit(X[weights > 0], y[weights > 0])
    np.testing.assert_array_equal(whole.predict(X), part.predict(X))


def test_classes_that_only_later_rows_have_get_probabilities():
    X, y = table(600)
    labels = np.where(X[:, 6] > 70, 2, (y > 14).astype(int))
    model = AutoKernelClassifier(random_state=0, time=6).fit(X, labels)
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-5)
    assert np.isfinite(model.validation_score_)


@pytest.mark.parametrize(
    ("time", "rule"),
    [
        ("nope", "time must name a column of X; got 'nope', not of 'a', 'city'"),
        (1, "time must name a column of X; got 1"),
        ("city", "time must name a column of numbers or dates; 'city' holds texts, such as 'A'"),
        ("gaps", "time must name a column without missing cells; 'gaps' lacks 1 of 60"),
        ("days", "time must name a column without missing cells; 'days' lacks 2 of 60"),
        ("same", "time must name a column of two values or more; 'same' has one"),
    ],
)
@pytest.mark.parametrize("make", [AutoKernelRegressor, AutoKernelClassifier])
def test_columns_without_order_get_a_sentence(make, time, rule):
    day = pd.Series(pd.date_range("2020-01-01", periods=60))
    frame = pd.DataFrame({"a": np.arange(60.0), "city": ["A", "B"] * 30, "same": 1.0})
    frame["gaps"] = np.where(np.arange(60) == 7, np.nan, 1.0)
    frame["days"] = day.where(np.arange(60) > 1)
    with pytest.raises(ValueError, match=rule) as refusal:
        make(time=time).fit(frame, np.arange(60) % 2)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("time", "error", "rule"),
    [
        (7, ValueError, "time must be the place of a column, from 0 to 6; got 7"),
        (-1, ValueError, "from 0 to 6; got -1"),
        ("x0", TypeError, "time must be the place of a column of an array, such as 0; got 'x0'"),
        (True, TypeError, "got True"),
    ],
)
def test_places_that_no_array_has_get_a_sentence(time, error, rule):
    X, y = table(60)
    with pytest.raises(error, match=rule):
        AutoKernelRegressor(time=time).fit(X, y)
