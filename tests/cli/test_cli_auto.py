"""``mercer fit`` with nothing said: raw tables in, an automatic model out."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from mercer import AutoKernelClassifier, AutoKernelRegressor, persistence
from mercer.auto.tuning import TUNING
from mercer.cli.app import app


@pytest.fixture(autouse=True)
def few_candidates(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(TUNING, "powers", {"laplacian": (0.0,), "gaussian": ()})


def mercer(*arguments):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(params=["csv", "parquet"])
def houses(request):
    """A file with texts, dates, booleans and gaps, and its table."""
    rng = np.random.default_rng(0)
    city = rng.choice(["Rome", "Oslo"], 200)
    table = pd.DataFrame(
        {
            "city": city,
            "area": rng.uniform(20, 90, 200),
            "sold": np.datetime64("2020-01-01") + rng.integers(0, 900, 200).astype("m8[D]"),
            "garden": rng.random(200) < 0.5,
        }
    )
    table["price"] = 100.0 * (city == "Rome") + table["area"] + 0.125
    table.loc[::9, "city"] = None
    table.loc[::7, "area"] = np.nan
    if request.param == "csv":
        table.to_csv("houses.csv", index=False)
    else:
        table.to_parquet("houses.parquet")
    return f"houses.{request.param}", table


def test_bounds_hold_the_target_as_often_as_asked(houses):
    path, table = houses
    mercer("fit", path, "--target", "price", "--out", "m.skops")
    mercer("predict", "m.skops", path, "--out", "p.csv", "--coverage", "0.8")
    found = pd.read_csv("p.csv")
    assert list(found) == ["prediction", "low", "high"]
    inside = (found["low"] <= table["price"]) & (table["price"] <= found["high"])
    assert 0.7 < inside.mean() <= 1
    assert found["low"].le(found["prediction"]).all()
    assert found["prediction"].le(found["high"]).all()


def test_sets_hold_the_class(houses):
    path, table = houses
    mercer("fit", path, "--target", "garden", "--task", "classification", "--out", "m.skops")
    mercer("predict", "m.skops", path, "--out", "p.csv", "--coverage", "0.9")
    found = pd.read_csv("p.csv")
    assert list(found)[1:] == ["in_set_False", "in_set_True"]
    held = np.where(table["garden"], found["in_set_True"], found["in_set_False"])
    assert held.mean() > 0.8


def test_bounds_need_rows_that_were_held_out_and_a_share(houses):
    path, _ = houses
    mercer("fit", path, "--target", "price", "--out", "auto.skops")
    numbers = pd.DataFrame({"x": np.arange(40.0), "y": np.arange(40.0) % 7})
    numbers.to_csv("numbers.csv", index=False)
    mercer("fit", "numbers.csv", "--target", "y", "--gamma", "0.1", "--out", "plain.skops")
    for model, data, coverage, message in (
        ("auto.skops", path, "1.5", "--coverage must be above 0 and below 1; got 1.5."),
        ("plain.skops", "numbers.csv", "0.9", "--coverage needs a model that held rows out"),
    ):
        arguments = ["predict", model, str(data), "--out", "p.csv", "--coverage", coverage]
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code != 0
        assert message in " ".join(done.output.split())


def test_a_raw_table_is_fitted_saved_and_predicted(houses):
    path, table = houses
    summary = json.loads(mercer("fit", path, "--target", "price", "--out", "m.skops", "--json"))
    assert summary["score"]["r2"] > 0.5
    assert summary["chosen"]["kernel"] == "laplacian"
    assert isinstance(persistence.load("m.skops"), AutoKernelRegressor)
    mercer("predict", "m.skops", path, "--out", "p.csv")
    predicted = pd.read_csv("p.csv")["prediction"]
    assert np.corrcoef(predicted, table["price"])[0, 1] > 0.7


def test_labels_come_with_probabilities(houses):
    path, table = houses
    told = mercer("fit", path, "--target", "garden", "--out", "m.skops")
    assert "chosen from" in told
    assert isinstance(persistence.load("m.skops"), AutoKernelClassifier)
    mercer("predict", "m.skops", path, "--out", "p.csv", "--proba")
    proba = pd.read_csv("p.csv").filter(like="probability").to_numpy()
    assert proba.shape == (len(table), 2)
    np.testing.assert_allclose(proba.sum(axis=1), 1)


def test_an_option_that_says_how_asks_for_a_plain_model():
    X = np.random.default_rng(0).normal(size=(60, 3))
    pd.DataFrame(X, columns=["a", "b", "y"]).to_csv("t.csv", index=False)
    mercer("fit", "t.csv", "--target", "y", "--out", "m.skops", "--kernel", "laplacian")
    assert not hasattr(persistence.load("m.skops"), "search_results_")
