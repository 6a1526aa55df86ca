"""Numbers, codes and columns of files, as fit and predict read them."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import r2_score
from typer.testing import CliRunner

from mercer import datasets, persistence
from mercer.cli.app import app
from mercer.datasets import csv_text

HOW = ("--map", "fourier", "--n-components", "20", "--out", "m.skops", "--json")


@pytest.fixture(autouse=True)
def _at_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(*arguments):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return done


def fit(table, name="t.csv", target="y", **form):
    table.to_csv(name, index=False, **form)
    return json.loads(run("fit", name, "--target", target, *HOW).stdout)


def predicted(table, name="p.csv", **form):
    table.to_csv(name, index=False, **form)
    run("predict", "m.skops", name, "--out", "out.csv")
    return pd.read_csv("out.csv")["prediction"].to_numpy()


def german(values, digits=0):
    """Numbers with points between thousands and a decimal comma."""
    return [f"{v:,.{digits}f}".translate(str.maketrans(",.", ".,")) for v in values]


def numbers(n=200, seed=0):
    rng = np.random.default_rng(seed)
    sold = rng.integers(200, 5000, n)
    return pd.DataFrame({"sold": sold, "rate": rng.uniform(0, 9, n).round(2), "y": 3 * sold + 7})


@pytest.mark.filterwarnings("ignore:.*between thousands")
@pytest.mark.parametrize("sep", [",", ";"])
def test_points_between_thousands_reach_inputs_and_target(sep):
    plain = numbers()
    table = plain.assign(sold=german(plain["sold"]), y=german(plain["y"]))
    if sep == ";":
        table["rate"] = german(plain["rate"], 2)
    fit(table, sep=sep)
    found = predicted(table.drop(columns="y"), sep=sep)
    assert r2_score(plain["y"], found) > 0.98
    score = json.loads(run("predict", "m.skops", "t.csv", "--out", "o.csv", "--json").stdout)
    assert score["score"]["r2"] == pytest.approx(r2_score(plain["y"], found))


@pytest.mark.parametrize("sep", [",", ";"])
def test_points_between_thousands_reach_matrices(sep):
    plain = numbers()
    table = plain.assign(sold=german(plain["sold"]), y=german(plain["y"]))
    if sep == ";":
        table["rate"] = german(plain["rate"], 2)
        read = datasets.read
    else:

        def read(path, target):
            with pytest.warns(UserWarning, match="between thousands"):
                return datasets.read(path, target)

    table.to_csv("t.csv", sep=sep, index=False)
    found = read("t.csv", "y")
    np.testing.assert_array_equal(found.X, plain[["sold", "rate"]])
    np.testing.assert_array_equal(found.y, plain["y"])


def test_a_target_with_thousands_and_decimals_is_a_number():
    plain = numbers()
    y = plain["y"] + 0.25
    fit(plain.assign(rate=german(plain["rate"], 2), y=german(y, 2)), sep=";")
    table = datasets.read("t.csv", "y")
    np.testing.assert_array_equal(table.y, y)
    done = json.loads(run("predict", "m.skops", "t.csv", "--out", "o.csv", "--json").stdout)
    assert done["score"]["r2"] > 0.98
    assert done["scored_rows"] == len(plain)


@pytest.mark.filterwarnings("ignore:.*between thousands")
@pytest.mark.parametrize("sep", [",", ";"])
def test_weights_times_and_ids_are_read_as_the_inputs(sep):
    plain = numbers()
    plain.insert(0, "key", [f"0{i}" for i in range(len(plain))])
    table = plain.assign(sold=german(plain["sold"]))
    if sep == ";":
        table["rate"] = german(plain["rate"], 2)
        table["key"] = table["key"] + ",5"
    outputs = []
    for rows, form in ((plain, {}), (table, {"sep": sep})):
        rows.to_csv("w.csv", index=False, **form)
        ids = ("--id", "key")
        more = ("--weights", "sold", "--features", "rate", *ids)
        run("fit", "w.csv", "--target", "y", *more, *HOW)
        run("predict", "m.skops", "w.csv", "--out", "out.csv")
        outputs.append(pd.read_csv("out.csv", dtype={"key": str}))
        assert outputs[-1]["key"].tolist() == rows["key"].tolist()
    np.testing.assert_allclose(outputs[0]["prediction"], outputs[1]["prediction"])
    assert run("fit", "w.csv", "--target", "y", "--time", "sold", *ids, "--out", "a.skops").stdout


def test_fractions_of_three_digits_stay_fractions():
    rng = np.random.default_rng(0)
    values = rng.uniform(0, 9, 200).round(3)
    pd.DataFrame({"a": values, "y": values}).to_csv("t.csv", index=False)
    np.testing.assert_array_equal(datasets.read("t.csv", "y").X[:, 0], values)
    pd.DataFrame({"a": [f"{v:.3f}" for v in values], "y": values}).to_csv("t.csv", index=False)
    np.testing.assert_array_equal(datasets.read("t.csv", "y").X[:, 0], values)


def codes(n=300, seed=0):
    """Codes of which some begin with zero, and a target that they decide."""
    rng = np.random.default_rng(seed)
    code = rng.choice(["00501", "501", "A7", "77"], n)
    y = pd.Series(code).map({"00501": 1.0, "501": 5.0, "A7": 9.0, "77": 3.0}).to_numpy()
    amount = rng.uniform(1, 5, n).round(2)
    return pd.DataFrame({"code": code, "amount": amount, "y": y + 0.01 * amount})


def test_leading_zeros_make_a_column_of_texts():
    table = codes()
    table = table[table["code"] != "A7"].sort_values("code", ascending=False)
    fit(table)
    assert persistence.load("m.skops").named_steps["preparer"].kinds_ == ["label", "number"]
    np.testing.assert_allclose(predicted(table), table["y"], atol=0.5)
    only = table[table["code"] == "00501"]
    np.testing.assert_allclose(predicted(only), only["y"], atol=0.5)
    pd.DataFrame({"a": [1.0, 2.0], "y": ["007", "7"]}).to_csv("l.csv", index=False)
    assert datasets.read("l.csv", "y").y.tolist() == ["007", "7"]


@pytest.mark.parametrize("block", [2000, 1 << 24])
def test_predictions_do_not_depend_on_the_size_of_blocks(block, monkeypatch):
    table = codes()
    table["amount"] = table["amount"].astype(object)
    table.loc[[1, 5], "amount"] = ["n/a", "-"]
    fit(table)
    late = table.sort_values("code").reset_index(drop=True)  # "A7" stands last
    late["amount"] = sorted(late["amount"], key=lambda cell: isinstance(cell, str))
    whole = persistence.load("m.skops").predict(late[["code", "amount"]].astype(str))
    monkeypatch.setattr(csv_text, "_BLOCK", block)
    np.testing.assert_allclose(predicted(late), whole, rtol=1e-9)


def test_a_text_among_numbers_is_named_with_its_row_in_the_file(monkeypatch):
    table = codes()
    fit(table)
    monkeypatch.setattr(csv_text, "_BLOCK", 1000)
    table.astype(str).assign(amount=lambda t: [*t["amount"][:-1], "much"]).to_csv("p.csv")
    done = CliRunner().invoke(app, ["predict", "m.skops", "p.csv", "--out", "o.csv"])
    found = re.search(r"it holds 'much' in row (\d+) \(row 0 is row (\d+) of DATA\)", done.stderr)
    assert int(found[1]) + int(found[2]) == len(table) - 1


@pytest.mark.filterwarnings("ignore:columns are left out")
def test_columns_without_use_need_not_be_there_at_predict():
    table = numbers().assign(empty=np.nan, same="x", twin=lambda t: t["sold"], **{"": np.nan})
    fit(table)
    rows = table[["rate", "sold"]]
    np.testing.assert_array_equal(predicted(rows), predicted(table))
    model = persistence.load("m.skops")
    np.testing.assert_array_equal(model.predict(rows), model.predict(table.drop(columns="y")))
    with pytest.raises(ValueError, match=r"it lacks \['rate'\]"):
        model.predict(rows.drop(columns="rate"))
