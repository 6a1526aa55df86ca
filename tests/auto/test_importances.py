"""Importances of the columns of a table: mean absolute Shapley values over training rows."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from mercer import AutoKernelClassifier, AutoKernelRegressor
from mercer.auto.tuning import TUNING
from mercer.explain import members, shapley_values


@pytest.fixture(autouse=True)
def few_candidates(monkeypatch):
    monkeypatch.setattr(TUNING, "powers", {"laplacian": (0.0, 1.0), "gaussian": (1.0,)})


def numbers(n=500, d=6, seed=0):
    """Columns 0 and 1 matter, the first more; others do not."""
    X = np.random.default_rng(seed).normal(size=(n, d))
    return X, 2 * np.sin(X[:, 0]) + X[:, 1] ** 2 / 2


def test_importances_are_mean_sizes_of_shapley_values():
    X, y = numbers(300)  # all rows are kept
    model = AutoKernelRegressor(random_state=0).fit(X, y)
    expected = np.abs(shapley_values(model, X).values).mean(axis=0)
    np.testing.assert_allclose(model.feature_importances_, expected, rtol=1e-5)


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
    contributions = shapley_values(model, X).values
    assert min(found[:2]) > 0.1 * contributions.sum(axis=1).std()
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
    assert found["age"] < 0.2 * min(found[name] for name in ("city", "shop", "sold"))
    assert found["same"] == 0


@pytest.mark.parametrize("d", [300, 2500])
def test_columns_of_sparse_rows(d):
    X = sparse.random(800, d, density=12 / d, random_state=0, format="csr")
    words = sparse.csr_array((np.random.default_rng(0).random((800, 3)) < 0.4).astype(float))
    X = sparse.csr_array(sparse.hstack([words, X]))
    y = (words @ np.array([3.0, -2.0, 1.0])).ravel()
    found = AutoKernelRegressor(random_state=0).fit(X, y).feature_importances_
    assert np.argsort(-found)[:3].tolist() == [0, 1, 2]
    assert found[3:].max() < 0.2 * found[2]
    assert np.count_nonzero(found) <= (d + 3 if d == 300 else 200)


def test_columns_told_apart_have_the_values_that_they_have_among_all(monkeypatch):
    X, y = numbers(300, 12)
    model = AutoKernelRegressor(random_state=0).fit(X, y)
    everything = model.feature_importances_
    monkeypatch.setattr(members, "_MOST_APART", 4)
    monkeypatch.setattr(members, "_APART", 5)
    few = members.mean_sizes(model)
    kept = np.flatnonzero(few)
    assert len(kept) == 5
    np.testing.assert_allclose(few[kept], everything[kept], rtol=0, atol=0.05 * everything.max())


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


def test_a_new_fit_has_its_own_importances():
    X, y = numbers(100)
    model = AutoKernelRegressor(random_state=0).fit(X, y)
    first = model.feature_importances_
    again = model.fit(X[:, ::-1], y).feature_importances_
    np.testing.assert_allclose(again[::-1], first, rtol=0.2, atol=0.1)
