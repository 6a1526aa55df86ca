"""Words for missing cells on the command line: fits keep them, later commands read by them."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from mercer.cli.app import app

FIT = ("--target", "y", "--map", "nystroem", "--n-components", "20", "--out", "m.skops")


@pytest.fixture(autouse=True)
def table(tmp_path, monkeypatch):
    """Rows whose target says which are of the country NA; a tenth of the cells is blank."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    country = rng.choice(["NA", "DE", "FR", ""], 200, p=[0.3, 0.3, 0.3, 0.1])
    x = rng.normal(size=200)
    table = pd.DataFrame({"country": country, "x": x, "y": 3.0 * (country == "NA") + 0.1 * x})
    table.to_csv("t.csv", index=False)
    return table


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def done(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


def predicted(table):
    table.to_csv("new.csv", index=False)
    done("predict", "m.skops", "new.csv", "--out", "p.csv", "--force")
    return pd.read_csv("p.csv")["prediction"].to_numpy()


def gap(table):
    """Mean prediction of the country NA minus that of rows without a country."""
    new = table.assign(y=0.0)
    y = predicted(new)
    return y[table["country"] == "NA"].mean() - y[table["country"] == ""].mean()


@pytest.mark.filterwarnings("always:.* words beside blank cells")
def test_labels_beside_blank_cells_are_told_apart_as_the_fit_was_asked(table):
    told = done("fit", "t.csv", *FIT).stderr
    n = (table["country"] == "NA").sum()
    assert told.count("taken as missing") == 1
    assert f"taken as missing in column 'country' (rows of 'NA': {n}); missing=[]" in told
    assert abs(gap(table)) < 1
    asked = done("fit", "t.csv", *FIT, "--missing", "", "--force", "--json").stdout
    assert json.loads(asked)["missing"] == []
    assert gap(table) == pytest.approx(3, abs=0.5)


def test_predict_explain_and_drift_read_new_rows_by_the_words_of_the_fit(table):
    table["x"] = [-999.0 if j % 5 == 0 else x for j, x in enumerate(table["x"])]
    table.to_csv("t.csv", index=False)
    words = "-, -999.0"
    done("fit", "t.csv", *FIT, "--missing", words)
    marked = table.assign(country=table["country"].replace("", "-"))
    blank = table.assign(x=table["x"].replace(-999.0, np.nan))
    np.testing.assert_array_equal(predicted(marked), predicted(blank))
    found = []
    for new in (marked, blank):
        new.to_csv("new.csv", index=False)
        done("explain", "m.skops", "new.csv", "--rows", 5, "--out", "e.csv", "--force")
        drift = json.loads(done("drift", "m.skops", "new.csv", "--json").stdout)
        found.append((drift, pd.read_csv("e.csv").to_numpy().tolist()))
    assert found[0] == found[1]


def test_tables_are_clustered_and_compared_by_words_that_are_given(table):
    marked = table.assign(country=table["country"].replace("", "-"))
    marked.to_csv("u.csv", index=False)
    for name in ("t", "u"):
        done("cluster", f"{name}.csv", "-k", 2, "--missing", "-", "--out", f"{name}-k.csv")
    pd.testing.assert_frame_equal(pd.read_csv("t-k.csv"), pd.read_csv("u-k.csv"))
    given = ("--missing", "-", "--json")
    assert json.loads(done("drift", "t.csv", "u.csv", *given).stdout)["p_value"] == 1.0


@pytest.mark.parametrize("command", [("fit", *FIT), ("cluster", "-k", 2, "--out", "k.csv")])
def test_words_need_a_csv_file(table, command):
    table.to_parquet("t.parquet")
    result = run(command[0], "t.parquet", *command[1:], "--missing", "NA")
    assert result.exit_code == 1
    assert "--missing needs a CSV file; t.parquet is none." in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fit", "letter", "--out", "m.skops"), "CSV file; letter is a known data set."),
        (("fit", "t.svm", "--out", "m.skops"), "CSV file; t.svm is none."),
        (("fit", ".", *FIT, "--workers", 2), "--missing must be left out beside --workers."),
        (("drift", "m.skops", "t.csv"), "CSV file; m.skops is a model, which keeps the words"),
    ],
)
def test_data_without_words_refuse_them_even_if_they_are_none(tmp_path, arguments, message):
    (tmp_path / "t.svm").write_text("1 1:2\n2 1:3\n")
    if arguments[0] == "drift":
        done("fit", "t.csv", *FIT, "--drop", "country")
    result = run(*arguments, "--missing", "")
    assert result.exit_code == 1
    assert message in result.stderr
