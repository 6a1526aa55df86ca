"""Offsets and exposures on the command line: columns that fits and predictions read."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from mercer.cli.app import app

POISSON = ("--target", "claims", "--exposure", "days", "--drop", "y,forecast", "--loss", "poisson")


@pytest.fixture(autouse=True)
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x, days, forecast = rng.normal(size=300), rng.uniform(1, 30, 300), 3 * rng.normal(size=300)
    columns = {"x": x, "days": days, "forecast": forecast, "y": forecast + np.sin(x)}
    frame = pd.DataFrame(columns | {"claims": rng.poisson(days * np.exp(np.sin(x)))})
    frame.to_csv("t.csv", index=False)
    return frame


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def done(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def predicted(table, *options):
    table.to_csv("new.csv", index=False)
    done("predict", "m.skops", "new.csv", "--out", "p.csv", "--force", *options)
    return pd.read_csv("p.csv")


def test_means_are_in_proportion_to_the_exposure(table):
    summary = json.loads(done("fit", "t.csv", *POISSON, "--out", "m.skops", "--cv", "3", "--json"))
    assert summary["exposure"] == "days"
    assert summary["cv"]["mean"] > 0.9
    counts = predicted(table)["prediction"]
    assert np.corrcoef(counts, table["claims"])[0, 1] > 0.9
    twice = predicted(table.assign(days=2 * table["days"]))["prediction"]
    np.testing.assert_allclose(twice, 2 * counts, rtol=1e-6)


def test_automatic_models_correct_a_forecast(table):
    given = ("--target", "y", "--offset", "forecast", "--features", "x")
    summary = json.loads(done("fit", "t.csv", *given, "--out", "m.skops", "--json"))
    assert summary["score"]["r2"] > 0.99
    options = ("--quantiles", "0.5", "--coverage", "0.8")
    first, moved = (
        predicted(each, *options) for each in (table, table.assign(forecast=table["forecast"] + 7))
    )
    np.testing.assert_allclose(moved, first + 7, atol=1e-6)


def test_a_preparer_stands_before_the_machine(table):
    table.assign(kind=np.where(table["x"] > 0, "a", "b")).to_csv("t.csv", index=False)
    done("fit", "t.csv", *POISSON, "--out", "m.skops", "--cv", "3")
    whole = table.assign(kind="a")
    twice = predicted(whole.assign(days=2 * table["days"]))["prediction"]
    np.testing.assert_allclose(twice, 2 * predicted(whole)["prediction"], rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--target", "y", "--exposure", "days"), "--exposure needs --loss poisson, tweedie or"),
        (
            ("--target", "claims", "--exposure", "forecast", "--loss", "poisson"),
            "--exposure must name a column of finite numbers above 0; 'forecast' holds others in",
        ),
        ((*POISSON, "--offset", "forecast"), "--exposure must be left out beside --offset."),
        (("--target", "y", "--offset", "forecas"), "did you mean 'forecast'?"),
        (("--target", "y", "--offset", "x", "--drop", "x"), "must not both name 'x'"),
        (
            ("--target", "y", "--offset", "forecast", "--scoring", "r2"),
            "--scoring must be left out beside --offset and --exposure.",
        ),
    ],
)
def test_refusals(options, words):
    result = run("fit", "t.csv", *options, "--out", "m.skops")
    assert result.exit_code in (1, 2)
    assert words in result.stderr.splitlines()[-1]


def test_predictions_need_the_column(table):
    done("fit", "t.csv", *POISSON, "--out", "m.skops")
    table[["x"]].to_csv("new.csv", index=False)
    result = run("predict", "m.skops", "new.csv", "--out", "p.csv")
    assert "new.csv has no column 'days'" in result.stderr
    np.savez("new.npz", X=np.ones((3, 1)))
    result = run("predict", "m.skops", "new.npz", "--out", "p.csv")
    assert "DATA must be a file with the column 'days'" in result.stderr


def test_explanations_add_the_offset_to_the_base(table):
    done("fit", "t.csv", *POISSON, "--out", "m.skops")
    predicted(table)
    told = done("explain", "m.skops", "new.csv", "--out", "e.csv", "--rows", "20")
    assert "20 rows, each with the offset of column 'days'" in told
    found = pd.read_csv("e.csv")
    means = np.exp(found["base"] + found.filter(like="value_").sum(axis=1))
    np.testing.assert_allclose(means, pd.read_csv("p.csv")["prediction"][:20], rtol=1e-4)
    done("explain", "m.skops", "new.csv", "--out", "e.html", "--rows", "20")
    with open("e.html", encoding="utf-8") as page:
        assert "Responses have the offset of their row" in page.read()


def test_automatic_classifiers_add_the_offset_to_log_odds(table):
    is_more = np.random.default_rng(1).uniform(size=300) < 1 / (1 + np.exp(-table["forecast"]))
    table = table[["x", "forecast"]].assign(kind=np.where(is_more, "more", "less"))
    table.to_csv("t.csv", index=False)
    given = ("--target", "kind", "--offset", "forecast", "--features", "x")
    done("fit", "t.csv", *given, "--out", "m.skops")
    options = ("--proba", "--coverage", "0.9")
    first, moved = (
        predicted(each, *options) for each in (table, table.assign(forecast=table["forecast"] + 2))
    )
    odds = [each["probability_more"] / each["probability_less"] for each in (first, moved)]
    np.testing.assert_allclose(odds[1], np.exp(2) * odds[0], rtol=1e-3)
    assert (moved["in_set_more"] >= first["in_set_more"]).all()


@pytest.mark.parametrize(("loss", "task"), [("poisson", "regression"), ("hinge", "classification")])
def test_a_loss_of_numbers_or_classes_alone_decides_the_task(table, loss, task):
    table.assign(claims=table.claims % 4).to_csv("t.csv", index=False)  # whole numbers, few
    exposure = ("--exposure", "days") if loss == "poisson" else ()
    told = done("fit", "t.csv", "--target", "claims", "--loss", loss, *exposure, "--out", "m.skops",
                "--json")  # fmt: skip
    assert json.loads(told)["task"] == task


def test_a_wrong_target_is_named_before_a_missing_output():
    wrong = run("fit", "t.csv", "--target", "claim")
    assert wrong.exit_code == 1
    assert "did you mean 'claims'" in wrong.output
    lacking = run("fit", "t.csv", "--target", "claims")
    assert lacking.exit_code == 1
    assert "--out must name the model file to write, such as model.skops." in lacking.output
