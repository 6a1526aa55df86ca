"""Columns of labels without which automatic classifiers err less."""

import json

import numpy as np
import pandas as pd
import pytest

from mercer import AutoKernelClassifier, AutoKernelRegressor, persistence
from mercer.explain import shapley_values


def animals(n=1500, seed=0):
    """Two inputs that decide, and names of streets and owners that say nothing."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    table = pd.DataFrame({"size": X[:, 0], "age": X[:, 1]})
    for name, count in (("street", 60), ("owner", 90), ("vet", 40)):
        table[name] = [f"{name} {number}" for number in rng.integers(0, count, n)]
    classes = np.where(np.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=n) > 0, "cat", "dog")
    return table, classes


@pytest.fixture(scope="module")
def fitted():
    table, classes = animals()
    return AutoKernelClassifier(random_state=0).fit(table[:1000], classes[:1000]), table, classes


def test_labels_that_mislead_are_left_out(fitted):
    model, table, classes = fitted
    without = model.best_settings_["without"]
    assert without
    assert set(without) <= {"street", "owner", "vet"}
    assert "columns" in model.search_results_["stage"]
    assert ", ".join(without) in model.search_results_["without"]
    names = model.best_estimator_["preparer"].get_feature_names_out()
    assert not any(name.startswith(tuple(without)) for name in names)
    whole = AutoKernelClassifier(random_state=0).fit(table[["size", "age"]][:1000], classes[:1000])
    best = whole.score(table[["size", "age"]][1000:], classes[1000:])
    assert model.score(table[1000:], classes[1000:]) >= best - 0.03


def test_columns_left_out_say_nothing_and_stay_so_in_files(fitted, tmp_path):
    model, table, _ = fitted
    without = model.best_settings_["without"]
    rows, other = table[1000:1010], table[1000:1010].assign(**dict.fromkeys(without, "?"))
    np.testing.assert_array_equal(model.predict_proba(other), model.predict_proba(rows))
    places = [table.columns.get_loc(name) for name in without]
    assert not np.any(np.asarray(shapley_values(model, rows).values)[:, places])
    persistence.save(model, tmp_path / "model.skops")
    loaded = persistence.load(tmp_path / "model.skops")
    np.testing.assert_array_equal(loaded.predict_proba(rows), model.predict_proba(rows))
    json.dumps(model.best_settings_)


def test_labels_that_tell_something_are_kept():
    rng = np.random.default_rng(0)
    shop = rng.integers(0, 40, 1200)
    table = pd.DataFrame({"shop": [f"shop {number}" for number in shop]})
    table["price"] = rng.normal(size=1200)
    y = rng.normal(size=40)[shop] + 0.5 * rng.normal(size=1200) > 0
    model = AutoKernelClassifier(random_state=0).fit(table, y)
    assert "columns" in model.search_results_["stage"]
    assert model.best_settings_["without"] == ()


@pytest.mark.parametrize("kind", ["few labels", "numbers as targets"])
def test_other_tables_have_no_such_trials(kind):
    table, classes = animals(600)
    if kind == "few labels":
        model = AutoKernelClassifier(random_state=0).fit(table[["size", "age"]], classes)
    else:
        model = AutoKernelRegressor(random_state=0).fit(table, classes == "cat")
    assert "columns" not in model.search_results_["stage"]
    assert model.best_settings_["without"] == ()


def test_callbacks_follow_all_stages_of_a_table_of_labels(capsys):
    callback = pytest.importorskip("sklearn.callback")
    table, classes = animals(1200)
    model = AutoKernelClassifier(random_state=0).set_callbacks(callback.ProgressBar())
    model.fit(table, classes)
    shown = capsys.readouterr().out
    for stage in ("rung 3 #2", "identities #3", "columns #4", "final fit #"):
        assert f"AutoKernelClassifier - {stage}" in shown
