"""``mercer show``: the content of a model file, without a fit."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import mercer
from mercer import persistence
from mercer.auto.ledger import trials_of
from mercer.cli.app import app
from mercer.cli.options import print_json


@pytest.fixture(autouse=True)
def _at_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def shown(path):
    done = run("show", path, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    city = rng.choice(["Oslo", "Rome"], 80)
    area = rng.uniform(20, 90, 80)
    table = pd.DataFrame({"city": city, "area": area, "price": area + 30 * (city == "Oslo")})
    table["kind"] = np.where(table["price"] > 80, "dear", "cheap")
    table.to_csv("flats.csv", index=False)
    return table


def test_an_automatic_model_is_shown_with_its_data_and_held_out_score(table):
    run("fit", "flats.csv", "--target", "price", "--drop", "kind", "--out", "m.skops")
    content = shown("m.skops")
    model = persistence.load("m.skops")
    assert (content["estimator"], content["task"]) == ("AutoKernelRegressor", "regression")
    assert (content["target"], content["data"], content["rows"]) == ("price", "flats", 80)
    assert content["columns"] == [
        {"name": "city", "kind": "label"},
        {"name": "area", "kind": "number"},
    ]
    assert content["validation"]["score"] == pytest.approx(model.validation_score_)
    assert content["bytes"] == Path("m.skops").stat().st_size
    assert content["mercer_version"] == mercer.__version__
    text = run("show", "m.skops").stdout
    for words in ("price (regression)", "flats, 80 rows, 2 columns", "r2 ", "drop ['kind']"):
        assert words in text


def test_the_seconds_of_a_search_are_shown_by_stage(table):
    run("fit", "flats.csv", "--target", "price", "--drop", "kind", "--out", "m.skops")
    content, model = shown("m.skops"), persistence.load("m.skops")
    assert sum(content["stage_seconds"].values()) == pytest.approx(model.search_seconds_)
    text = run("show", "m.skops").stdout
    shares = [
        float(re.search(rf"^ ?{stage} .*?([\d.]+)%", text, re.M)[1])
        for stage in content["stage_seconds"]
    ]
    assert sum(shares) == pytest.approx(100, abs=0.5)
    assert content["n_tried"] == len(trials_of(model.search_results_)["loss"])


def test_a_file_without_seconds_of_stages_is_shown_without_them(table):
    X, y = table[["area"]], table["price"]
    model = mercer.AutoKernelRegressor(random_state=0).fit(X, y)
    model.search_results_ = trials_of(model.search_results_)
    del model.search_results_["machine_seconds"]  # as versions before 0.5 wrote it
    persistence.save(model, "m.skops")
    assert shown("m.skops")["stage_seconds"] is None
    text = run("show", "m.skops").stdout
    assert "chosen" in text
    assert "stage of the search" not in text


def test_commands_that_show_prints_predict(table):
    how = ("--map", "fourier", "--n-components", "8", "--loss", "logistic", "--drop", "price")
    run("fit", "flats.csv", "--target", "kind", *how, "--out", "my model.skops")
    content = shown("my model.skops")
    assert content["classes"] == ["cheap", "dear"]
    assert content["validation"] is None
    assert len(content["predict"]) == 2
    for command in content["predict"]:
        done = run(*shlex.split(command.replace("DATA", "flats.csv"))[1:])
        assert done.exit_code == 0, done.output
    text = run("show", "my model.skops").stdout
    assert "cheap, dear" in text
    assert "none, the fit held no rows out" in text


def test_models_that_python_saved_are_shown():
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = np.where(X[:, 0] > 0, 1, -1)
    for model in (mercer.DualKernelSVC(), mercer.LocalKernelClassifier(), mercer.TablePreparer()):
        persistence.save(model.fit(X, y), "m.skops")
        content = shown("m.skops")
        assert content["estimator"] == type(model).__name__
        assert len(content["columns"]) == 2
        assert run("show", "m.skops").exit_code == 0


@pytest.mark.parametrize("path", ["none.skops", "flats.csv", "."])
def test_what_is_no_model_file_is_refused_in_a_sentence(path, table):
    done = run("show", path)
    assert (done.exit_code, done.stdout) == (1, "")
    [sentence] = done.stderr.splitlines()
    assert sentence.startswith("mercer: ")
    assert path in sentence


def test_probabilities_of_a_model_of_numbers_are_refused(table):
    run("fit", "flats.csv", "--target", "price", "--map", "linear", "--out", "m.skops")
    done = run("predict", "m.skops", "flats.csv", "--proba", "--out", "p.csv")
    assert done.exit_code == 1
    assert "--proba must be left out for MODEL, which predicts numbers" in done.stderr


def test_json_escapes_every_control_character(capsys):
    print_json({"name": "a\x1b\x7f\x9bé"})
    text = capsys.readouterr().out
    assert text == '{"name": "a\\u001b\\u007f\\u009bé"}\n'
    assert json.loads(text)["name"] == "a\x1b\x7f\x9bé"
