"""Files of every format, and names that a terminal would act on."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from mercer import datasets
from mercer._runtime.messages import printable
from mercer.cli.app import app
from mercer.cli.roles import names_in, require

FRAME = pd.DataFrame({"a": [1.0, 2.0, 3.0], "y": [1.5, 2.5, 3.5]})


@pytest.fixture(autouse=True)
def _at_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def refusal(*arguments):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code in (1, 2), done.output
    [sentence] = done.stderr.splitlines()
    assert "internal error" not in sentence
    return sentence


def workbook(path):
    pytest.importorskip("fastexcel")
    pytest.importorskip("openpyxl")
    FRAME.to_excel(f"{path}.xlsx", index=False)
    Path(f"{path}.xlsx").rename(path)


FORMATS = {
    ".feather": FRAME.to_feather,
    ".xlsx": workbook,
    ".json": lambda path: FRAME.to_json(path, orient="records"),
    ".jsonl": lambda path: FRAME.to_json(path, orient="records", lines=True),
}


@pytest.mark.parametrize("has_suffix", [True, False])
@pytest.mark.parametrize("suffix", FORMATS)
def test_tables_of_every_format_are_those_of_csv(suffix, has_suffix):
    path = f"t{suffix}" if has_suffix else "t"
    FORMATS[suffix](path)
    FRAME.to_csv("twin.csv", index=False)
    for raw in (False, True):
        table, twin = datasets.read(path, "y", raw=raw), datasets.read("twin.csv", "y", raw=raw)
        np.testing.assert_array_equal(table.X, twin.X)
        np.testing.assert_array_equal(table.y, twin.y)
        assert table.feature_names == twin.feature_names


@pytest.mark.parametrize("suffix", FORMATS)
def test_models_are_fitted_to_and_predict_every_format(suffix):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=60), "b": rng.choice(["x", "y"], 60)})
    frame["y"] = frame["a"] + (frame["b"] == "x")
    frame.to_csv("twin.csv", index=False)
    if suffix == ".xlsx":
        pytest.importorskip("fastexcel")
        pytest.importorskip("openpyxl")
        frame.to_excel("t.xlsx", index=False)
    elif suffix == ".feather":
        frame.to_feather("t.feather")
    else:
        frame.to_json(f"t{suffix}", orient="records", lines=suffix == ".jsonl", double_precision=15)
    models = []
    for name in (f"t{suffix}", "twin.csv"):
        done = CliRunner().invoke(app, ["fit", name, "--target", "y", "--out", f"{name}.skops"])
        assert done.exit_code == 0, done.output
        out = f"{name}.out.csv"
        done = CliRunner().invoke(app, ["predict", f"{name}.skops", f"t{suffix}", "--out", out])
        assert done.exit_code == 0, done.output
        models.append(pd.read_csv(out).iloc[:, -1])
    np.testing.assert_allclose(*models, rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("t.feather", b"ARROW1\0\0" + b"\1" * 40, "is not a whole Feather file"),
        ("t.xlsx", b"PK\x03\x04" + b"\0" * 40, "is not a workbook"),
        ("t.json", b'[{"a": 1', "is not JSON"),
        ("t.json", b"[1, 2]", "must hold a list of objects, one for each row"),
        ("t.json", b'[{"a": 1}, {"a": "x"}]', "t.json: "),
        ("t.jsonl", b'{"a": 1}\n{"a": ', "is not JSON lines"),
        ("t.jsonl", b'{"a": 1}\n{"a": "x"}\n', "is not JSON lines"),
    ],
)
def test_damaged_tables_are_one_sentence(name, content, sentence):
    if name == "t.xlsx":
        pytest.importorskip("fastexcel")
    Path(name).write_bytes(content)
    assert sentence in refusal("fit", name, "--target", "y", "--out", "m.skops")


def test_further_sheets_of_a_workbook_are_named():
    pytest.importorskip("fastexcel")
    pytest.importorskip("openpyxl")
    with pd.ExcelWriter("t.xlsx") as book:
        FRAME.to_excel(book, sheet_name="data", index=False)
        FRAME.to_excel(book, sheet_name="notes", index=False)
    with pytest.warns(UserWarning, match="the first sheet, 'data', is read; 'notes' are left out"):
        datasets.read("t.xlsx", "y")


def test_a_csv_whose_text_looks_like_json_is_read(tmp_path):
    (tmp_path / "t.csv").write_text('{"a",y\n1,2\n3,4\n')
    assert datasets.read("t.csv", "y").y.tolist() == [2, 4]


def test_names_that_differ_in_blanks_alone_are_one_sentence(tmp_path):
    (tmp_path / "t.csv").write_text("y ,y,a\n1,2,3\n2,3,4\n")
    sentence = refusal("fit", "t.csv", "--target", "y", "--out", "m.skops")
    assert "differ in blanks alone, as those of 'y' do; rename one of them" in sentence
    (tmp_path / "t.csv").write_text("y,y,a\n1,2,3\n2,3,4\n")
    assert "column name y is more than once" in refusal(
        "fit", "t.csv", "--target", "y", "--out", "m.skops"
    )


@pytest.mark.parametrize("names", ["a\nb", "x" * 200_000])
@pytest.mark.parametrize("option", ["--drop", "--features", "--id"])
def test_names_that_are_no_columns_are_one_short_sentence(option, names):
    FRAME.to_csv("t.csv", index=False)
    sentence = refusal("fit", "t.csv", "--target", "y", option, names, "--out", "m.skops")
    assert len(sentence) < 400


def test_a_quoted_name_holds_an_end_of_line():
    assert names_in('"a\nb",c') == ("a\nb", "c")
    require("t.csv", ["a\nb"], ["a\nb"])


def test_a_very_long_path_is_one_short_sentence():
    assert len(refusal("fit", "x" * 5000, "--target", "y", "--out", "m.skops")) < 1200


def test_control_characters_are_escaped():
    assert printable("a\x1b[31mb\x9b\r\n\tü γ") == "a\\x1b[31mb\\x9b\\r\n\tü γ"


@pytest.mark.parametrize("command", ["fit", "compare"])
def test_names_of_columns_reach_no_terminal_with_their_control_characters(command):
    red = "\x1b[31mred"
    frame = pd.DataFrame({red: np.arange(40.0), "same": 1.0, "y": np.arange(40.0) / 3})
    frame[f"{red} again"] = frame[red]
    frame.to_csv("t.csv", index=False)
    more = ("--out", "m.skops") if command == "fit" else ("--methods", "linear", "--fast")
    invoke = CliRunner().invoke
    for target in ("y", "nothing", ""):
        done = invoke(app, [command, "t.csv", "--target", target, *more])
        assert "\x1b" not in done.output
    done = invoke(app, [command, "t.csv", *more])
    assert "\\x1b[31mred" in done.output
    frame["label"] = [f"{red} {i}" for i in range(40)]
    frame.iloc[np.arange(400) % 40].assign(n=range(400)).to_csv("t.csv", index=False)
    done = invoke(app, [command, "t.csv", "--target", "label", "--features", red, *more])
    assert "\x1b" not in done.output
