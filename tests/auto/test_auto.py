"""Automatic estimators: what they take, what they promise, and what does not break them."""

import pickle
import time
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_friedman1
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.metrics import log_loss

from _conventions import parametrize_with_settings
from _polars import pl
from mercer import (
    AutoKernelClassifier,
    AutoKernelRegressor,
    LocalKernelRegressor,
    persistence,
)
from mercer.auto import base, fits, search
from mercer.auto.tuning import TUNING

FITS = [AutoKernelRegressor(random_state=0), AutoKernelClassifier(random_state=0)]


@pytest.fixture(autouse=True)
def few_treatments(monkeypatch):
    """The same search with fewer candidates, which all laws are about, in less time."""
    monkeypatch.setattr(TUNING, "powers", {"laplacian": (0.0, 1.0), "gaussian": (1.0,)})
    monkeypatch.setattr(TUNING, "folds", 3)


@pytest.fixture
def one_candidate(monkeypatch):
    """A search of next to nothing."""
    monkeypatch.setattr(TUNING, "powers", {"laplacian": (0.0,), "gaussian": ()})
    monkeypatch.setattr(TUNING, "gammas", {"laplacian": (1.0,)})
    monkeypatch.setattr(TUNING, "folds", 2)
    monkeypatch.setattr(
        base.AutoKernelMachine, "_treatments", lambda *_: ([("robust", 0)], ["numbers"])
    )


@pytest.mark.filterwarnings("ignore:Skipping check check_array_api_input")
@pytest.mark.usefixtures("one_candidate")
@parametrize_with_settings(
    FITS,
    expected_failed_checks=lambda model: {
        f"check_sample_weight_equivalence_on_{kind}_data": "rows given twice are held out apart"
        for kind in ("dense", "sparse")
    },
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def friedman(n=600, seed=0):
    X, y = make_friedman1(n, 6, noise=0.5, random_state=seed)
    return X, y


def rings(n=600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, np.where(np.hypot(X[:, 0], X[:, 1]) < 1.2, "in", "out")


def table(n=500, seed=0):
    """A raw table with a target that asks for its labels, numbers and dates."""
    rng = np.random.default_rng(seed)
    city = rng.choice(["Rome", "Oslo", "Lima"], n)
    age = rng.normal(40, 10, n)
    sold = np.datetime64("2020-01-01") + rng.integers(0, 900, n).astype("timedelta64[D]")
    frame = pd.DataFrame({"city": city, "age": age, "owner": rng.random(n) < 0.5, "sold": sold})
    y = 3.0 * (city == "Rome") + 0.1 * age + frame["owner"] + rng.normal(0, 0.1, n)
    frame.loc[::9, "age"] = np.nan
    frame.loc[::13, "city"] = None
    return frame, y.to_numpy()


def r2(model, X, y):
    return 1 - np.mean((model.predict(X) - y) ** 2) / np.var(y)


# what they take


def test_a_raw_table_of_pandas_or_polars_is_enough():
    X, y = table()
    model = AutoKernelRegressor(random_state=0).fit(X[:350], y[:350])
    assert r2(model, X[350:], y[350:]) > 0.6
    other = AutoKernelRegressor(random_state=0).fit(pl.from_pandas(X[:350]), y[:350])
    np.testing.assert_allclose(other.predict(pl.from_pandas(X[350:])), model.predict(X[350:]))


def test_labels_and_missing_cells_that_fit_did_not_meet_are_predicted():
    X, y = table()
    full = X.dropna()
    model = AutoKernelRegressor(random_state=0).fit(full, y[full.index])
    new = pd.DataFrame({"city": ["Bonn", None], "age": [np.nan, 1e9], "owner": [True, False]})
    new["sold"] = pd.to_datetime(["2030-01-01", None])
    with pytest.warns(UserWarning, match="'city' holds labels that the fit has not met in 1 of 2"):
        assert np.isfinite(model.predict(new)).all()


def test_sparse_rows_are_enough():
    X = sparse.random_array((400, 30), density=0.2, format="csr", random_state=0)
    y = X[:, [3]].toarray().ravel() + X[:, [4]].toarray().ravel()
    model = AutoKernelRegressor(random_state=0).fit(X[:300], y[:300])
    assert r2(model, X[300:], y[300:]) > 0.5


@pytest.mark.parametrize("n", [2, 20])
def test_a_handful_of_rows_is_enough(n):
    X, y = friedman(n)
    assert np.isfinite(AutoKernelRegressor(random_state=0).fit(X, y).predict(X)).all()
    model = AutoKernelClassifier(random_state=0).fit(X, np.arange(n) % 2)
    assert set(model.predict(X)) <= {0, 1}


def test_rows_beyond_the_exact_kernel_get_leaves(monkeypatch):
    monkeypatch.setattr(TUNING, "exact_rows", 1000)
    monkeypatch.setattr(TUNING, "leaf_rows", (500, 500))
    X, y = friedman(2400)
    model = AutoKernelRegressor(random_state=0).fit(X[:2000], y[:2000])
    assert "leaves" in model.search_results_["stage"]
    without_trial = model.search_results_["stage"][np.isnan(model.search_results_["loss"])]
    assert without_trial.tolist() == ["preparation", "leaves"]  # the worth of rows of leaves
    assert isinstance(model.kernel_machine_, LocalKernelRegressor)
    assert sum(pipeline[-1].n_leaves_ for pipeline in model._pipelines()) > 4
    assert r2(model, X[2000:], y[2000:]) > 0.9


def test_more_rows_do_no_harm_where_leaves_take_the_place_of_the_exact_kernel(monkeypatch):
    monkeypatch.setattr(TUNING, "exact_rows", 1000)
    monkeypatch.setattr(TUNING, "leaf_rows", (600, 600))
    X, y = friedman(6000)
    scores = [
        r2(AutoKernelRegressor(random_state=0).fit(X[:n], y[:n]), X[4000:], y[4000:])
        for n in (1000, 2000, 4000)
    ]
    assert scores[1] > scores[0] - 0.01
    assert scores[2] > scores[1] - 0.01


def test_sparse_rows_get_features():
    X, y = friedman(2400)
    X = sparse.csr_array(np.where(X > 0.3, X, 0))
    model = AutoKernelRegressor(random_state=0).fit(X[:2000], y[:2000])
    assert "features" in model.search_results_["stage"]


def test_counts_of_many_words_are_served_by_linear_models_or_few_words():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 900)
    words = sparse.random(900, 3000, density=0.01, format="lil", random_state=rng)
    for row, label in enumerate(labels):
        words[row, 40 * label + rng.integers(0, 40, 6)] = 1.0
    X = words.tocsr()
    model = AutoKernelClassifier(random_state=0).fit(X[:700], labels[:700])
    assert "linear" in (model.best_settings_["kernel"], model.best_settings_["scales"])
    assert model.score(X[700:], labels[700:]) > 0.95


def test_several_targets_are_predicted_at_once():
    X, y = friedman()
    Y = np.column_stack([y, X[:, 0]])
    model = AutoKernelRegressor(random_state=0).fit(X[:400], Y[:400])
    assert model.predict(X[400:]).shape == (200, 2)
    assert model.predict_interval(X[400:]).shape == (200, 2, 2)
    assert r2(model, X[400:], Y[400:]) > 0.7


# what they promise


@pytest.mark.rounding
@pytest.mark.parametrize("model", FITS, ids=lambda m: type(m).__name__)
def test_one_seed_one_model(model):
    X, y = friedman(300)
    y = y if isinstance(model, AutoKernelRegressor) else y > y.mean()
    first, second = (clone(model).fit(X, y).predict(X) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_shuffled_labels_give_chance():
    X, _ = friedman(1200)
    y = np.random.default_rng(1).integers(0, 2, 1200)
    model = AutoKernelClassifier(random_state=0).fit(X[:600], y[:600])
    assert abs(np.mean(model.predict(X[600:]) == y[600:]) - 0.5) < 0.08
    chosen = model.search_results_["chosen"]
    assert model.search_results_["loss"][chosen][0] > 0.95


def test_columns_that_say_nothing_do_no_harm():
    rng = np.random.default_rng(0)
    X, y = friedman(900)
    plain = AutoKernelRegressor(random_state=0).fit(X[:600], y[:600])
    frame = pd.DataFrame(X).add_prefix("x")
    frame["row"] = np.arange(len(y))
    frame["id"] = [f"id {i}" for i in range(len(y))]
    frame["constant"] = 1.0
    frame["noise"] = rng.normal(size=len(y))
    with pytest.warns(UserWarning, match=r"left out: 'id' tells every row .*; 'constant' has one"):
        full = AutoKernelRegressor(random_state=0).fit(frame[:600], y[:600])
    errors = [1 - r2(plain, X[600:], y[600:]), 1 - r2(full, frame[600:], y[600:])]
    assert errors[1] < 2 * errors[0]
    assert full.input_shares_[-4:].sum() < 0.3


def test_results_tell_what_was_tried_and_chosen():
    X, y = friedman()
    model = AutoKernelRegressor(random_state=0).fit(X, y)
    results = pd.DataFrame(model.search_results_)
    [chosen] = results[results["chosen"]].to_dict("records")
    settings = model.best_settings_ | {"without": ""}  # names are one text
    assert {name: chosen[name] for name in settings} == settings
    last = results[results["stage"] == chosen["stage"]]
    assert chosen["loss"] <= last["loss"].min() * 1.2
    assert (results["seconds"] >= 0).all()


def test_the_model_learns_the_scales_that_were_chosen(monkeypatch):
    monkeypatch.setattr(TUNING, "sure_of_scales", (0.0, -100.0, 100.0))
    monkeypatch.setattr(TUNING, "left_out_inputs", 0)
    monkeypatch.setattr(TUNING, "turned_inputs", 0)  # turned inputs get no scales of a machine
    X, y = friedman()
    model = AutoKernelRegressor(random_state=0).fit(X[:, :5], y)
    settings = model.best_settings_
    kernels = {"machine": settings["kernel"], "exponential": "exponential"}
    assert model.best_estimator_["scaler"].kernel == kernels[settings["scales"]]
    assert "machine" in set(model.search_results_["scales"])


def test_inputs_that_matter_have_the_largest_shares():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 5))
    y = np.sin(2 * X[:, 1]) + X[:, 3]
    shares = AutoKernelRegressor(random_state=0).fit(X, y).input_shares_
    np.testing.assert_allclose(shares.sum(), 1)
    assert shares[[1, 3]].min() > shares[[0, 2, 4]].max()


def test_rows_in_order_are_judged_like_shuffled_ones():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 3))
    X = X[np.argsort(X[:, 0])]  # neighbours are alike in the input that matters
    with pytest.warns(UserWarning, match="column 'x0' alone explains nearly all of the target"):
        model = AutoKernelRegressor(random_state=0).fit(X, np.sin(2 * X[:, 0]))
    assert model.input_shares_.argmax() == 0
    assert model.input_shares_[0] > 0.8


def test_targets_that_vary_by_factors_are_fitted_as_logarithms():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 2))
    y = np.exp(1.5 * X.sum(axis=1) + 0.1 * rng.normal(size=900))
    model = AutoKernelRegressor(random_state=0).fit(X[:700], y[:700])
    assert model.best_settings_["transform"] == "log"
    assert np.median(np.abs(model.predict(X[700:]) / y[700:] - 1)) < 0.2
    low, high = model.predict_interval(X[700:]).T
    assert np.corrcoef(high - low, y[700:])[0, 1] > 0.5


def test_intervals_hold_as_many_targets_as_they_say():
    X, y = friedman(1600)
    model = AutoKernelRegressor(random_state=0).fit(X[:600], y[:600])
    for coverage in (0.5, 0.9):
        low, high = model.predict_interval(X[600:], coverage).T
        held = np.mean((low <= y[600:]) & (y[600:] <= high))
        assert coverage - 0.05 < held < coverage + 0.12


def test_sets_hold_as_many_labels_as_they_say():
    X, y = rings(1600)
    flipped = np.where(np.random.default_rng(0).random(1600) < 0.1, "in", y)
    model = AutoKernelClassifier(random_state=0).fit(X[:600], flipped[:600])
    right = model.score(X[600:], flipped[600:])
    for coverage in (0.8, 0.95):
        sets = model.predict_set(X[600:], coverage)
        held = sets[np.arange(1000), np.searchsorted(model.classes_, flipped[600:])].mean()
        least = max(coverage, right)  # as every set has the predicted label
        assert least - 0.05 < held < least + 0.05


@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_are_calibrated_and_agree_with_predictions(n_classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 3))
    odds = np.exp(2 * np.column_stack([X[:, j % 3] for j in range(n_classes)]))
    truth = odds / odds.sum(axis=1, keepdims=True)
    y = (truth.cumsum(axis=1) > rng.random((1500, 1))).argmax(axis=1)
    model = AutoKernelClassifier(random_state=0).fit(X[:700], y[:700])
    proba = model.predict_proba(X[700:])
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_array_equal(model.classes_[proba.argmax(axis=1)], model.predict(X[700:]))
    assert log_loss(y[700:], proba) < log_loss(y[700:], truth[700:]) + 0.08


# the model that is left


def test_the_best_estimator_is_ordinary(tmp_path):
    X, y = table()
    model = AutoKernelRegressor(random_state=0).fit(X, y)
    expected = model.predict(X)
    np.testing.assert_array_equal(model.best_estimator_.predict(X), expected)
    again = clone(model.best_estimator_).fit(X, y)
    np.testing.assert_allclose(again.predict(X), expected, rtol=5e-3)  # float32, other threads
    for kept in (model, model.best_estimator_):
        persistence.save(kept, tmp_path / "m.skops", task="regression")
        loaded = persistence.load(tmp_path / "m.skops")
        np.testing.assert_array_equal(loaded.predict(X), expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), expected)


def test_saved_classifiers_keep_probabilities_and_sets(tmp_path):
    X, y = rings(200)
    model = AutoKernelClassifier(random_state=0).fit(X, y)
    persistence.save(model, tmp_path / "m.skops", task="classification")
    again = persistence.load(tmp_path / "m.skops")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.predict_set(X), model.predict_set(X))


def test_scikit_learn_explains_the_model():
    X, y = table(300)
    X = X.drop(columns="sold")
    model = AutoKernelRegressor(random_state=0).fit(X, y)
    found = permutation_importance(model, X, y, n_repeats=2, random_state=0)
    assert found.importances_mean[0] == found.importances_mean.max()
    known = X.dropna()  # scikit-learn sorts the labels
    curve = partial_dependence(model, known, ["city"], categorical_features=["city"])
    assert curve["average"].shape[1] == 3


# time and interruptions


def test_no_candidate_is_begun_after_the_deadline(monkeypatch):
    X, y = friedman()
    ticks = iter(range(10**9))
    monkeypatch.setattr(search.time, "perf_counter", lambda: float(next(ticks)))
    every = AutoKernelRegressor(random_state=0).fit(X, y)
    some = AutoKernelRegressor(random_state=0, time_budget=20.0).fit(X, y)
    assert 0 < len(some.search_results_["loss"]) < len(every.search_results_["loss"])
    assert np.isfinite(some.predict(X)).all()


@pytest.mark.parametrize("most_exact", [3000, 1000])
def test_the_last_fit_ends_by_the_clock(monkeypatch, most_exact):
    X, y = friedman(1500)
    monkeypatch.setattr(TUNING, "end_share", 0.0)
    monkeypatch.setattr(TUNING, "exact_rows", most_exact)
    model = AutoKernelRegressor(random_state=0, time_budget=60.0).fit(X, y)
    assert model.kernel_machine_.n_iter_ == 1
    assert not getattr(model.kernel_machine_, "_skl_callbacks", [])
    assert np.isfinite(model.predict(X[:100])).all()


def test_a_time_budget_is_about_kept():
    # Seconds at work, of two threads: others may be at work beside this test, and a half more is
    # forgiven.
    X, y = friedman(20_000)
    start = time.process_time()
    model = AutoKernelRegressor(random_state=0, time_budget=4.0, n_jobs=2).fit(X, y)
    assert time.process_time() - start < 2 * 6.0
    assert r2(model, X, y) > 0.9


@pytest.mark.parametrize("after", [0, 3])
def test_interrupting_the_search_leaves_the_best_model_so_far(monkeypatch, after):
    X, y = friedman()
    calls = iter(range(100))
    plain = search.Search._try

    def interrupted(self, *args):
        if next(calls) == after:
            raise KeyboardInterrupt
        return plain(self, *args)

    monkeypatch.setattr(search.Search, "_try", interrupted)
    with pytest.warns(UserWarning, match="fit was interrupted; the model is the best one so far"):
        model = AutoKernelRegressor(random_state=0).fit(X, y)
    assert model.interrupted_
    assert np.corrcoef(model.predict(X), y)[0, 1] > 0.8


def test_interrupting_the_last_fit_leaves_the_best_model_so_far(monkeypatch):
    X, y = friedman()
    plain, calls = fits.Fit.__call__, iter(range(100))

    def interrupted(self, *args):
        if next(calls) == 0:
            raise KeyboardInterrupt
        return plain(self, *args)

    monkeypatch.setattr(fits.Fit, "__call__", interrupted)
    with pytest.warns(UserWarning, match="fitted to"):
        model = AutoKernelRegressor(random_state=0).fit(X, y)
    assert model.interrupted_
    assert r2(model, X, y) > 0.8


# what is refused


@pytest.mark.parametrize("model", FITS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("budget", [0, -1.0, np.nan, "long"])
def test_time_budgets_that_make_no_sense_get_a_sentence(model, budget):
    X, _ = friedman(20)
    with pytest.raises((ValueError, TypeError), match="time_budget must be"):
        clone(model).set_params(time_budget=budget).fit(X, np.arange(20) % 2)


def test_one_class_gets_a_sentence():
    with pytest.raises(ValueError, match="y must hold at least two classes; got one class, 1"):
        AutoKernelClassifier().fit([[0.0], [1.0]], [1, 1])


def test_no_warning_comes_out():
    X, y = table()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        AutoKernelRegressor(random_state=0).fit(X, y).predict(X)
    assert [str(warning.message) for warning in caught] == []
