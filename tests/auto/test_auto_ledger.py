"""Every second of a search stands in an entry of its results."""

import time

import numpy as np
import pandas as pd
import pytest

from mercer import AutoKernelClassifier, AutoKernelRegressor
from mercer.auto import ledger, own_loss, search
from mercer.auto.leading import Record
from mercer.auto.ledger import Ledger, stage_seconds, trials_of
from mercer.auto.parts import Split
from mercer.auto.trials import Settings

N = 90


def _table(kind):
    """Estimator class, inputs and target of a small table."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=N)
    if kind == "numbers":
        return AutoKernelRegressor, np.column_stack([x, rng.normal(size=N)]), x**2
    if kind == "classes":
        return AutoKernelClassifier, np.column_stack([x, rng.normal(size=N)]), x**2 > 0.5
    if kind == "labels":
        labels = rng.integers(0, 30, N)
        return AutoKernelClassifier, pd.DataFrame({"a": labels.astype(str), "x": x}), labels % 2
    if kind == "texts":
        words = rng.choice(["red", "green", "sky", "sea", "tree", "house"], (N, 4))
        y = (words == "sea").sum(axis=1) + 0.1 * x
        return AutoKernelRegressor, pd.DataFrame({"t": map(" ".join, words), "x": x}), y
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.permutation(N), unit="D")
    return AutoKernelRegressor, pd.DataFrame({"day": days, "x": x}), x + 0.1 * rng.normal(size=N)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("kind", ["numbers", "classes", "labels", "texts", "dates"])
def test_seconds_of_the_results_sum_to_those_of_the_search(kind, n_jobs):
    estimator, X, y = _table(kind)
    model = estimator(random_state=0, n_jobs=n_jobs).fit(X, y)
    results = model.search_results_
    assert 0.9 <= results["seconds"].sum() / model.search_seconds_ <= 1.02
    assert (results["seconds"] >= 0).all()
    assert sum(stage_seconds(model).values()) == pytest.approx(results["seconds"].sum())
    np.testing.assert_array_equal(np.isnan(results["loss"]), results["rows"] == 0)
    assert not results["chosen"][np.isnan(results["loss"])].any()


def test_the_test_of_order_has_an_entry_of_its_own():
    estimator, X, y = _table("dates")
    X, y = pd.concat([X] * 4, ignore_index=True), np.tile(y, 4)
    X["x"] += np.random.default_rng(1).normal(size=len(X))
    X["day"] = pd.date_range("2024-01-01", periods=len(X))
    results = estimator(random_state=0, n_jobs=1).fit(X, y).search_results_
    without_trial = results["stage"][np.isnan(results["loss"])].tolist()
    assert without_trial == ["preparation", "order"]


def test_a_stage_whose_fits_fail_has_an_entry_without_a_trial(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 2))
    y = X[:, 0] + rng.normal(size=N) > 0
    monkeypatch.setattr(own_loss, "_squared", lambda *_: None)
    results = AutoKernelClassifier(random_state=0, n_jobs=1).fit(X, y).search_results_
    assert results["stage"][np.isnan(results["loss"])].tolist() == ["preparation", "log odds"]
    assert "log odds" not in trials_of(results)["stage"]


def test_preparation_counts_for_the_trials_that_need_it_and_not_for_their_machines(monkeypatch):
    estimator, X, y = _table("numbers")
    seconds, prepare, slow = 0.1, Split.prepare, []

    def slowly(self, settings):
        if settings.numbers == "quantile" and not slow:
            slow.append(settings)
            time.sleep(seconds)
        prepare(self, settings)

    monkeypatch.setattr(Split, "prepare", slowly)
    results = trials_of(estimator(random_state=0, n_jobs=1).fit(X, y).search_results_)
    first = (results["stage"] == "rung 1") & (results["numbers"] == "quantile")
    first &= results["kernel"] == "laplacian"
    assert first.any()
    before = results["seconds"] - results["machine_seconds"]
    assert before[first].sum() > seconds


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is set."""
    now = [0.0]
    monkeypatch.setattr(ledger.time, "perf_counter", lambda: now[0])
    return now


def _record(stage, loss=0.5):
    return Record(stage, 9, Settings(), loss, loss, 0.0)


def test_trials_of_a_wave_share_its_time_by_their_weights(clock):
    records = []
    account, nothing = Ledger(records), _record("order", np.nan)
    clock[0] = 2.0
    account.charge(nothing)
    records += [_record("rung 1"), _record("rung 1")]
    clock[0] = 6.0
    account.charge(nothing, [1.0, 3.0])
    assert account.rows == [nothing, *records]
    assert account.seconds == [2.0, 1.0, 3.0]


@pytest.mark.parametrize("n_open", [0, 1])
def test_the_end_belongs_to_the_last_trials(clock, n_open):
    records = [_record("rung 1")]
    account = Ledger(records)
    clock[0] = 1.0
    account.charge(_record("order", np.nan))
    records += [_record("rung 2")] * n_open
    clock[0] = 5.0
    assert account.close(_record("order", np.nan)) == 5.0
    assert account.rows == records
    assert account.seconds == ([1.0, 4.0] if n_open else [5.0])


def test_a_search_interrupted_before_any_trial_has_its_seconds_in_the_results(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(search.Search, "climb", interrupted)
    estimator, X, y = _table("numbers")
    with pytest.warns(UserWarning, match="fit was interrupted"):
        model = estimator(random_state=0).fit(X, y)
    assert set(model.search_results_["stage"]) == {"preparation"}
    assert model.search_results_["seconds"].sum() == pytest.approx(model.search_seconds_)


def test_results_of_older_versions_have_no_seconds_of_stages():
    estimator, X, y = _table("numbers")
    model = estimator(random_state=0).fit(X, y)
    assert list(stage_seconds(model)) == ["preparation", "rung 1", "rung 2", "rung 3"]
    model.search_results_ = trials_of(model.search_results_)
    del model.search_results_["machine_seconds"]
    assert stage_seconds(model) is None
    assert stage_seconds(object()) is None
