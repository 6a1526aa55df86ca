"""Files that no command reads, and names that a terminal would act on."""

import zipfile

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from mercer import datasets
from mercer._words import printable
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
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("[Content_Types].xml", "types")
        archive.writestr("xl/workbook.xml", "sheets")


@pytest.mark.parametrize("name", ["{}", "no_suffix"])
@pytest.mark.parametrize(
    ("write", "suffix", "kind", "reader"),
    [
        (FRAME.to_feather, ".feather", "a Feather file", "read_feather(path)"),
        (workbook, ".xlsx", "a workbook", "read_excel(path)"),
        (lambda p: FRAME.to_json(p, orient="records"), ".json", "JSON", "read_json(path)"),
        (
            lambda p: FRAME.to_json(p, orient="records", lines=True),
            ".jsonl",
            "JSON lines",
            "read_json(path, lines=True)",
        ),
    ],
)
def test_a_format_that_is_not_read_names_what_converts_it(name, write, suffix, kind, reader):
    path = f"t{suffix}" if name == "{}" else name
    write(path)
    expected = f"is {kind}, which is not read: convert it to Parquet or CSV, as pandas.{reader}"
    assert expected in refusal("fit", path, "--target", "y", "--out", "m.skops")
    with pytest.raises(datasets.DataError, match="which is not read: convert it"):
        datasets.read(path)


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
