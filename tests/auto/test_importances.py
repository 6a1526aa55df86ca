"""Importances of the columns of a table: what the score of rows held out loses without each."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.metrics import accuracy_score, r2_score

from mercer import AutoKernelClassifier, AutoKernelRegressor, kernels
from mercer.auto import base, importance
from mercer.auto.goals import Classes, Numbers
from mercer.auto.importance import permutation_importances
from mercer.auto.search import Search
from mercer.auto.tuning import TUNING
from mercer.estimators.scales import scaled


@pytest.fixture(autouse=True)
def few_candidates(monkeypatch):
    monkeypatch.setattr(TUNING, "powers", {"laplacian": (0.0, 1.0), "gaussian": (1.0,)})


def numbers(n=500, d=6, seed=0):
    """Columns 0 and 1 matter, the first more; others do not."""
    X = np.random.default_rng(seed).normal(size=(n, d))
    return X, 2 * np.sin(X[:, 0]) + X[:, 1] ** 2 / 2


def searched(X, y, n_jobs=1, classes=False):
    goal = Classes(y, 1 + y.max()) if classes else Numbers(y.reshape(len(y), -1))
    found = Search(X, y, goal, 7, n_jobs, np.inf)
    found.run([("robust", 0)], X.shape[1])
    return found


# --- the law ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["laplacian", "gaussian", "turned", "linear"])
def test_permuted_responses_are_those_of_the_kernel_at_permuted_rows(kernel):
    X, y = numbers(300)
    found = searched(X, y)
    part = found.parts[0]
    of_kernel = [
        record.settings
        for record in found.records
        if record.settings.kernel == ("gaussian" if kernel == "turned" else kernel)
        and record.settings.turned == (kernel == "turned")
        and record.settings.power
    ]
    settings = of_kernel[0] if of_kernel else base.Settings(kernel="linear", power=1.0, ridge=1e-3)
    machine = importance._Machine.fitted(part, settings, 150, 40, found.goal)
    treated = part.rows(settings)[1][:40].copy()
    landmarks = part.scaled(settings, 150)[0].astype(np.float64)
    for place in (None, 1, 4):
        if place is not None:
            treated = part.rows(settings)[1][:40].copy()
            treated[:, place] = treated[machine.orders[2], place]
        rows = scaled(treated, part.scales(settings)).astype(np.float64)
        if kernel == "linear":
            expected = rows @ machine.landmarks.T + machine.constant
        else:
            entries = kernels.get(settings.kernel, settings.gamma)(rows, landmarks)
            expected = entries @ machine.coef.astype(np.float64) + machine.constant
        answers = machine.responses if place is None else machine.permuted(place, 2)
        np.testing.assert_allclose(answers, expected, atol=2e-3 * np.std(y))


def test_scores_are_those_of_scikit_learn():
    X, y = numbers(300)
    y = np.column_stack([y, X[:, 2]])
    found = searched(X, y)
    settings, _ = importance._settings(found)
    machines = [
        importance._Machine.fitted(part, settings, 100, 20, found.goal) for part in found.parts
    ]
    rows = np.concatenate([machine.rows for machine in machines])
    responses = [machine.responses for machine in machines]
    score = importance._of_machines(found.goal, machines, "identity", None)(responses)
    assert score == pytest.approx(r2_score(y[rows], np.concatenate(responses)))
    labels = (X[:, 0] > 0).astype(int)
    found = searched(X, labels, classes=True)
    machines = [
        importance._Machine.fitted(part, found.settings, 100, 20, found.goal)
        for part in found.parts
    ]
    rows = np.concatenate([machine.rows for machine in machines])
    responses = [machine.responses for machine in machines]
    score = importance._of_machines(found.goal, machines, "identity", None)(responses)
    predicted = np.concatenate(responses)[:, 0] > 0
    assert score == accuracy_score(labels[rows], predicted)


def test_other_scores_than_the_usual_ones_serve():
    X, y = numbers(300)
    found = searched(X, y)

    def minus_absolute_error(responses, rows):
        return -float(np.mean(np.abs(responses[:, 0] - y[rows])))

    losses = permutation_importances(found, X.shape, np.inf, minus_absolute_error)
    assert np.argsort(-losses)[:2].tolist() == [0, 1]
    refused = permutation_importances(found, X.shape, np.inf, lambda *_: np.nan)
    np.testing.assert_array_equal(refused, 0)


@pytest.mark.rounding
def test_threads_change_no_bit():
    X, y = numbers()
    one, three = (permutation_importances(searched(X, y, n), X.shape, np.inf) for n in (1, 3))
    np.testing.assert_array_equal(one, three)


# --- tables -----------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["plain", "heavy", "classes", "outputs"])
def test_columns_that_matter_stand_out(target):
    X, y = numbers()
    kind = AutoKernelClassifier if target == "classes" else AutoKernelRegressor
    y = {
        "plain": y,
        "heavy": np.exp(2 * y),
        "classes": np.digitize(y, [-1, 1]),
        "outputs": np.column_stack([y, -3 * y]),
    }[target]
    model = kind(random_state=0).fit(X, y)
    found = model.feature_importances_
    assert found.shape == (6,)
    assert found[0] > 0.1
    assert found[1] > 0.05
    assert np.abs(found[2:]).max() < 0.2 * found[:2].min()
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.feature_importances_, found)


def test_what_two_columns_both_say_is_shared():
    X, y = numbers()
    alone = AutoKernelRegressor(random_state=0).fit(X, y).feature_importances_
    X[:, 5] = X[:, 0] + np.random.default_rng(1).normal(0, 0.01, len(X))
    shared = AutoKernelRegressor(random_state=0).fit(X, y).feature_importances_
    assert 0 < shared[0] < alone[0]
    assert shared[5] > 5 * abs(alone[5])


def test_columns_of_a_raw_table():
    rng = np.random.default_rng(0)
    n = 500
    city = rng.choice(["Rome", "Oslo", "Lima", "Kyiv"], n)
    shop = rng.choice([f"shop {i}" for i in range(40)], n)
    sold = np.datetime64("2020-01-01") + rng.integers(0, 900, n).astype("timedelta64[D]")
    age = rng.normal(40, 10, n)
    worth = {name: rng.normal() for name in np.unique(shop)}
    y = 2.0 * (city == "Rome") + np.array([worth[name] for name in shop])
    y += (sold - sold.min()) / np.timedelta64(300, "D")
    frame = pd.DataFrame({"city": city, "shop": shop, "sold": sold, "age": age, "same": 1.0})
    frame["id"] = np.arange(n).astype(str)
    frame.loc[::7, "age"] = np.nan
    frame.loc[::11, "city"] = None
    left_out = pytest.warns(UserWarning, match="columns are left out")
    with pytest.warns(UserWarning, match="later by column 'sold'"), left_out:
        model = AutoKernelRegressor(random_state=0).fit(frame, y)
    found = dict(zip(frame.columns, model.feature_importances_, strict=True))
    assert min(found[name] for name in ("city", "shop", "sold")) > 0.1
    assert abs(found["age"]) < 0.03
    assert found["same"] == 0


@pytest.mark.parametrize("d", [300, 2500])
def test_columns_of_sparse_rows(d, monkeypatch):
    monkeypatch.setattr(importance, "_MOST_INPUTS", 200)
    X = sparse.random(800, d, density=12 / d, random_state=0, format="csr")
    words = sparse.csr_array((np.random.default_rng(0).random((800, 3)) < 0.4).astype(float))
    X = sparse.csr_array(sparse.hstack([words, X]))
    y = (words @ np.array([3.0, -2.0, 1.0])).ravel()
    found = AutoKernelRegressor(random_state=0).fit(X, y).feature_importances_
    assert np.argsort(-found)[:3].tolist() == [0, 1, 2]
    assert np.abs(found[3:]).max() < 0.2 * found[2]
    assert np.count_nonzero(found) <= (d + 3 if d == 300 else 200)


def test_screened_columns_are_measured_as_all_are(monkeypatch):
    words = sparse.csr_array((np.random.default_rng(0).random((600, 3)) < 0.4).astype(float))
    X = sparse.random(600, 2200, density=0.005, random_state=0, format="csr")
    X = sparse.csr_array(sparse.hstack([words, X]))
    y = (words @ np.array([3.0, -2.0, 1.0])).ravel()
    found = searched(X, y)
    # A lasso would leave three inputs, which need no screening.
    found.records = [r for r in found.records if r.settings.scales != "linear"]
    found.choice = replace(found.choice, record=found.records[-1])
    everything = permutation_importances(found, X.shape, np.inf)
    monkeypatch.setattr(importance, "_MOST_INPUTS", 50)
    few = permutation_importances(found, X.shape, np.inf)
    kept = np.flatnonzero(few)
    assert 5 < len(kept) <= 50
    np.testing.assert_array_equal(few[kept], everything[kept])
    assert set(np.argsort(-everything)[:3]) == {0, 1, 2} <= set(kept)


# --- always there -----------------------------------------------------------------------------


def test_models_of_local_machines_have_importances(monkeypatch):
    monkeypatch.setattr(TUNING, "exact_rows", 300)
    monkeypatch.setattr(TUNING, "leaf_rows", (100, 100))
    monkeypatch.setattr(TUNING, "trial_leaf_rows", 100)
    X, y = numbers(900)
    model = AutoKernelRegressor(random_state=0).fit(X, y)
    assert model.search_results_["stage"][-1] == "leaves"
    assert np.argsort(-model.feature_importances_)[:2].tolist() == [0, 1]


@pytest.mark.parametrize("seconds", [1e-6, 0.5])
def test_models_of_little_time_have_importances(seconds):
    X, y = numbers()
    found = AutoKernelRegressor(time_budget=seconds, random_state=0).fit(X, y)
    assert np.argsort(-found.feature_importances_)[:1].tolist() == [0]


@pytest.mark.parametrize("n", [2, 3, 12])
def test_models_of_few_rows_have_importances(n):
    X, y = numbers(n)
    found = AutoKernelRegressor(random_state=0).fit(X, y).feature_importances_
    assert np.isfinite(found).all()


def test_work_is_bounded(monkeypatch):
    entries = []
    moved = importance._Machine._moved

    def counted(self, apart, *others):
        entries.append(apart.size)
        return moved(self, apart, *others)

    monkeypatch.setattr(importance._Machine, "_moved", counted)
    X, y = numbers(1200, 100)
    permutation_importances(searched(X, y), X.shape, np.inf)
    assert 0.2 * 1200 * 1500 < sum(entries) < 1.2 * 1200 * 1500
    entries.clear()
    permutation_importances(searched(X, y), X.shape, 0.1)
    assert sum(entries) <= max(5e5, 100 * 100 * 100)


def test_copies_with_importances_that_do_not_fit_are_refused():
    X, y = numbers(60)
    model = AutoKernelRegressor(random_state=0).fit(X, y)
    for wrong in (np.ones(5), np.full(6, np.nan), [0.0] * 6):
        model.feature_importances_ = wrong
        with pytest.raises(ValueError, match="feature_importances_ of a fitted"):
            copy.copy(model)
