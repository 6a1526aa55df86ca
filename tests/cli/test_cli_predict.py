"""``mercer predict``: rows in pieces, columns by name, and what stands beside the predictions."""

import ast
import gzip
import json
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from mercer import KernelClassifier, KernelRegressor, persistence
from mercer.auto import AutoKernelRegressor
from mercer.cli import rows
from mercer.cli.app import app
from mercer.cli.predict import RunningScores
from mercer.compare.metrics import scores
from mercer.datasets import csv_text, tables


@pytest.fixture(autouse=True)
def _at_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def predict(model, data, out="p.csv", *more):
    """A prediction that goes well: what it prints as JSON."""
    done = run("predict", model, data, "--out", out, *more, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def refusal(*arguments):
    """The one sentence in which a command ends."""
    done = run(*arguments)
    assert done.exit_code in (1, 2), done.output
    [said] = done.stderr.splitlines()
    assert said.startswith("mercer: ")
    assert "internal error" not in said
    return said


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"key": [f"{i:04d}" for i in range(600)]})
    frame["place"] = rng.choice(["Rome", "Oslo", "Bern"], 600)
    frame["area"] = rng.uniform(20, 90, 600)
    frame["sold"] = np.datetime64("2020-01-01") + rng.integers(0, 900, 600).astype("m8[D]")
    frame["price"] = 100.0 * (frame["place"] == "Rome") + frame["area"] + 0.125
    frame.loc[::9, "place"] = None
    frame.loc[::7, "area"] = np.nan
    return frame


@pytest.fixture(scope="module")
def fitted(table, tmp_path_factory):
    """Files of a model of that table and of one of its classes."""
    folder = tmp_path_factory.mktemp("models")
    table.to_csv(folder / "t.csv", index=False)
    classes = table.assign(dear=np.where(table["price"] > 90, "yes", "no")).drop(columns="price")
    classes.to_csv(folder / "c.csv", index=False)
    how = ("--id", "key", "--map", "fourier", "--n-components", "20")
    for data, target, more in (("t", "price", ()), ("c", "dear", ("--loss", "logistic"))):
        out = ("--out", folder / f"{data}.skops")
        done = run("fit", folder / f"{data}.csv", "--target", target, *out, *how, *more)
        assert done.exit_code == 0, done.output
    return folder


@pytest.fixture
def small_pieces(monkeypatch):
    """Pieces of some dozens of rows."""
    monkeypatch.setattr(csv_text, "_BLOCK", 2000)
    monkeypatch.setattr(tables, "_ROWS", 100)
    monkeypatch.setattr(rows, "_ROWS", 100)


@pytest.mark.parametrize("kind", ["csv", "parquet", "csv.gz", "csv.xz"])
def test_rows_in_pieces_get_the_predictions_of_the_whole(kind, table, fitted, small_pieces):
    model = persistence.load(fitted / "t.skops")
    expected = model.predict(table[["place", "area", "sold"]])
    if kind == "parquet":
        table.to_parquet("t.parquet")
    else:
        table.to_csv(f"t.{kind}", index=False)
    calls = []
    plain = type(model).predict
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(model), "predict", lambda s, X: (calls.append(len(X)), plain(s, X))[1])
        summary = predict(fitted / "t.skops", f"t.{kind}")
    assert max(calls) <= 150
    assert sum(calls) == summary["rows"] == 600
    found = pd.read_csv("p.csv", dtype={"key": str})
    assert list(found) == ["key", "prediction"]
    assert found["key"].tolist() == table["key"].tolist()
    np.testing.assert_allclose(found["prediction"], expected, rtol=1e-9)
    whole = scores("regression", table["price"], expected)
    assert summary["score"] == pytest.approx(whole, rel=1e-9)


@pytest.mark.usefixtures("small_pieces")
def test_arrays_are_predicted_in_pieces_too():
    X = np.random.default_rng(0).normal(size=(250, 2))
    np.savez("a.npz", X=X, y=np.column_stack([X[:, 0], X[:, 1] ** 2]))
    assert run("fit", "a.npz", "--out", "m.skops", "--map", "fourier").exit_code == 0
    summary = predict("m.skops", "a.npz")
    expected = persistence.load("m.skops").predict(X)
    found = pd.read_csv("p.csv")
    assert list(found) == ["prediction_0", "prediction_1"]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    y = np.load("a.npz")["y"]
    assert summary["score"] == pytest.approx(scores("regression", y, expected))


def test_parquet_is_written_for_the_name_of_one(table, fitted, small_pieces):
    table.to_parquet("t.parquet")
    predict(fitted / "t.skops", "t.parquet", "p.parquet")
    predict(fitted / "t.skops", "t.parquet", "p.csv")
    found, text = pd.read_parquet("p.parquet"), pd.read_csv("p.csv", dtype={"key": str})
    assert found["key"].tolist() == text["key"].tolist()
    np.testing.assert_allclose(found["prediction"], text["prediction"])


def test_order_of_columns_and_others_do_not_matter(table, fitted):
    table.to_csv("t.csv", index=False)
    other = table[["sold", "area", "key", "place"]].assign(noise="x", more=1)
    other.to_csv("other.csv", index=False)
    assert "score" in predict(fitted / "t.skops", "t.csv", "p.csv")
    assert "score" not in predict(fitted / "t.skops", "other.csv", "q.csv")
    pd.testing.assert_frame_equal(pd.read_csv("p.csv"), pd.read_csv("q.csv"))


def test_probabilities_stand_in_a_column_for_each_class(table, fitted, small_pieces):
    summary = predict(fitted / "c.skops", fitted / "c.csv", "p.csv", "--proba")
    found = pd.read_csv("p.csv")
    assert list(found) == ["key", "prediction", "probability_no", "probability_yes"]
    likelier = np.where(found["probability_yes"] > 0.5, "yes", "no")
    assert (found["prediction"] == likelier).all()
    classes = pd.read_csv(fitted / "c.csv")["dear"]
    assert summary["score"]["accuracy"] == pytest.approx((classes == likelier).mean())


def test_rows_whose_target_is_missing_are_predicted_and_not_scored(table, fitted, small_pieces):
    table.assign(price=table["price"].where(table.index % 3 > 0)).to_csv("t.csv", index=False)
    summary = predict(fitted / "t.skops", "t.csv")
    assert (summary["rows"], summary["scored_rows"]) == (600, 400)
    told = run("predict", fitted / "t.skops", "t.csv", "--out", "p.csv").stdout
    assert "by the target that t.csv holds in 400 of 600 rows" in told


def test_other_columns_may_be_kept(table, fitted):
    table.to_csv("t.csv", index=False)
    predict(fitted / "t.skops", "t.csv", "p.csv", "--id", "place,key")
    found = pd.read_csv("p.csv", dtype=str, keep_default_na=False)
    assert list(found) == ["place", "key", "prediction"]
    assert found["place"].tolist() == table["place"].fillna("").tolist()


def test_quantiles_are_asked_of_the_model(table, fitted, monkeypatch):
    def levels_of(self, X, quantiles=None):
        return np.zeros(len(X)) if quantiles is None else np.tile(quantiles, (len(X), 1))

    table.to_csv("t.csv", index=False)
    model = AutoKernelRegressor()
    model.best_estimator_ = None
    monkeypatch.setattr(AutoKernelRegressor, "predict", levels_of)
    monkeypatch.setattr(AutoKernelRegressor, "n_features_in_", 3, raising=False)
    saved = persistence.SavedModel(model, "regression", "price", ["place", "area", "sold"])
    monkeypatch.setattr(persistence, "load_saved", lambda path: saved)
    monkeypatch.setattr(rows, "_kinds", lambda model: ([], set()))
    predict("any", "t.csv", "p.csv", "--quantiles", "0.1, 0.5")
    found = pd.read_csv("p.csv")
    assert list(found) == ["prediction", "quantile_0.1", "quantile_0.5"]
    assert found.iloc[0].tolist() == [0, 0.1, 0.5]


WRONG = [
    ("t", ("--quantiles", "0.5,x"), "--quantiles must be numbers above 0 and below 1"),
    ("t", ("--quantiles", "0.5,1"), "got '0.5,1'"),
    ("t", ("--quantiles", "0.5"), "--quantiles needs a regression model fitted automatically"),
    ("t", ("--coverage", "0.5"), "--coverage needs a model that held rows out"),
    ("t", ("--proba",), "--proba must be left out for MODEL, which predicts numbers"),
    ("t", ("--id", "kee"), "--id: t.csv has no column 'kee'; did you mean 'key'?"),
    ("short", (), "short.csv has no columns 'place', 'sold'"),
    ("one", (), "one.csv has no column 'place'; it has"),
    ("called", (), "--id must not name 'prediction', which predictions are called"),
]


@pytest.mark.parametrize(("data", "more", "message"), WRONG, ids=[w[2][:40] for w in WRONG])
def test_what_cannot_be_predicted_is_one_sentence(data, more, message, table, fitted, tmp_path):
    table.to_csv("t.csv", index=False)
    table[["area", "key"]].to_csv("short.csv", index=False)
    table[["area", "sold", "key"]].to_csv("one.csv", index=False)
    table.assign(prediction=1).to_csv("called.csv", index=False)
    more = ("--id", "prediction") if data == "called" else more
    given = ("predict", fitted / "t.skops", f"{data}.csv", "--out", "p.csv", *more)
    assert message in refusal(*given)
    assert not (tmp_path / "p.csv").exists()


def test_a_broken_row_far_down_leaves_no_file(table, fitted, small_pieces, tmp_path):
    numbers = table[["area"]].fillna(1.0).assign(y=table["area"].fillna(1.0))
    numbers.to_csv("n.csv", index=False)
    fit = ("fit", "n.csv", "--target", "y", "--out", "n.skops", "--map", "fourier")
    assert run(*fit).exit_code == 0
    with open("n.csv", "a") as file:
        file.write("much,1\n")
    (tmp_path / "p.csv").write_text("before")
    said = refusal("predict", "n.skops", "n.csv", "--out", "p.csv", "--force")
    assert re.search(r"Row #602: .*'much'", said)
    assert (tmp_path / "p.csv").read_text() == "before"
    assert not list(tmp_path.glob(".p.csv*"))


def test_an_interrupted_prediction_leaves_no_file(table, fitted, monkeypatch, tmp_path):
    def stop(self, X):
        raise KeyboardInterrupt

    table.to_csv("t.csv", index=False)
    monkeypatch.setattr(KernelRegressor, "predict", stop)
    done = run("predict", fitted / "t.skops", "t.csv", "--out", "p.csv")
    assert done.exit_code == 130
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_a_gzip_file_that_is_cut_off_is_one_sentence(table, fitted, tmp_path):
    whole = gzip.compress(table.to_csv(index=False).encode())
    (tmp_path / "t.csv.gz").write_bytes(whole[: len(whole) // 2])
    assert "t.csv.gz" in refusal("predict", fitted / "t.skops", "t.csv.gz", "--out", "p.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv.gz"]


def test_a_file_without_names_is_read_in_order(table):
    frame = table[["area"]].fillna(1.0).assign(b=1.5, y=lambda t: t["area"] > 50)
    frame.to_csv("bare.csv", index=False, header=False)
    assert (
        run("fit", "bare.csv", "--target", "2", "--map", "perceptron", "--out", "m").exit_code == 0
    )
    assert predict("m", "bare.csv")["score"]["accuracy"] > 0.9
    frame[["area", "b"]].to_csv("inputs.csv", index=False, header=False)
    assert "score" not in predict("m", "inputs.csv", "q.csv")
    assert pd.read_csv("p.csv").equals(pd.read_csv("q.csv"))


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_scores_of_pieces_are_those_of_the_whole(task):
    rng = np.random.default_rng(0)
    y, predicted = 1e6 + rng.normal(size=(2, 500))
    if task == "classification":
        y, predicted = (np.round(v - 1e6).astype(int) for v in (y, predicted))
    running = RunningScores(task)
    for part in np.split(np.arange(500), [1, 7, 300]):
        running.add(y[part], predicted[part])
    assert running.scores() == pytest.approx(scores(task, y, predicted), rel=1e-9)


def test_scores_without_a_row_or_a_spread_are_told_as_they_are():
    assert RunningScores("regression").scores() == {}
    running = RunningScores("regression")
    running.add(np.zeros(3), np.zeros(3))
    assert running.scores() == {"relative_rmse": 0.0, "r2": 1.0}
    running.add(np.zeros(1), np.ones(1))
    assert running.scores() == {"relative_rmse": np.inf, "r2": -np.inf}


def test_a_class_of_numbers_is_scored_whatever_its_type():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=60)})
    frame["k"] = (frame["a"] > 0).astype(int)
    frame.to_csv("k.csv", index=False)
    given = ("--target", "k", "--out", "m", "--map", "perceptron", "--loss", "logistic")
    assert run("fit", "k.csv", *given).exit_code == 0
    assert isinstance(persistence.load("m"), KernelClassifier)
    frame.assign(k=frame["k"].astype(float)).to_parquet("k.parquet")
    both = [predict("m", data)["score"] for data in ("k.csv", "k.parquet")]
    assert both[0] == both[1]
    assert both[0]["accuracy"] > 0.9


# --- what a prediction waits for ----------------------------------------------------------------

_PREDICT = """
import sys
from mercer.cli import main
try:
    main(["predict", *sys.argv[1:], "--out", "p.csv"])
except SystemExit as end:
    print(end.code, sorted(set(sys.modules)))
"""
# By fits, comparisons and plots, and by maps and kernels that these models have not.
_ELSEWHERE = {
    *("dask", "distributed", "lightgbm", "matplotlib", "onnx", "pooch", "torch", "xgboost"),
    *("mercer.compare.comparison", "mercer.dask", "mercer.onnx", "mercer.plots"),
    *("sklearn.cluster", "sklearn.decomposition", "sklearn.ensemble", "sklearn.feature_extraction"),
    *("sklearn.linear_model", "sklearn.metrics", "sklearn.model_selection", "sklearn.neighbors"),
    *("sklearn.svm", "sklearn.tree"),
}


@pytest.mark.parametrize(
    ("how", "target"), [((), "y"), (("--map", "binning"), "y"), (("--map", "fourier"), "label")]
)
def test_predictions_wait_for_no_module_of_others(how, target, tmp_path):
    X = np.random.default_rng(0).normal(size=(80, 2))
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": X.sum(axis=1), "label": X[:, 0] > 0})
    frame[["a", "b", target]].to_csv("rows.csv", index=False)
    done = run("fit", "rows.csv", "--target", target, *how, "--out", "m.skops", "--seed", "0")
    assert done.exit_code == 0, done.output
    command = [sys.executable, "-c", _PREDICT, "m.skops", "rows.csv"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    code, _, modules = said.splitlines()[-1].partition(" ")
    assert code == "0"
    assert not _ELSEWHERE & set(ast.literal_eval(modules))
