"""Messages of the command line in its own words: options, columns, rows."""

import numpy as np
import pytest
from typer.testing import CliRunner

from mercer.cli.app import app
from mercer.cli.words import in_options


def mercer(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    lines = ["day,x,empty,label"]
    for i, x in enumerate(rng.normal(size=60)):
        lines.append(
            f"2024-{1 + i // 28:02d}-{1 + i % 28:02d},{x:.3f},,{'up' if x > 0.5 else 'down'}"
        )
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    return tmp_path / "rows.csv"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("feature_map must be 'a' or a FeatureMap; got 'b'.", "--map must be 'a'; got 'b'."),
        ("n_jobs must not be 0.", "--n-jobs must not be 0."),
        ("needs loss='squared' and time='Year'.", "needs --loss squared and --time Year."),
        (
            "y must hold numbers; X must hold rows.",
            "the target must hold numbers; DATA must hold rows.",
        ),
        ("--alpha must be above 0.", "--alpha must be above 0."),
        ("the loss of rows; set alpha.", "the loss of rows; set alpha."),
    ],
)
def test_messages_name_options_and_not_parameters(said, told):
    assert in_options(said) == told


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("fit rows.csv --target label --drop empty --out m --map foo", "--map must be one of"),
        (
            "fit rows.csv --target x --drop empty --out m --time label",
            "--time must name a column of numbers",
        ),
        ("fit rows.csv --target x --out m --scoring r2_score", "did you mean r2?"),
        ("fit flats.csv --out m", "did you mean the known data set flats?"),
        ("fit rows.csv --target x --out m.pkl", "--out must end in .skops"),
        ("fit rows.csv --target empty --out m", "the column 'empty' is empty in all 60 rows"),
    ],
)
def test_refusals_say_what_to_write(table, command, told):
    result = mercer(*command.split())
    assert result.exit_code
    assert told in result.output


def test_a_misspelt_model_file_gets_a_suggestion(table):
    (table.parent / "model.skops").touch()
    result = mercer("predict", "modle.skops", "rows.csv", "--out", "p.csv")
    assert "did you mean model.skops?" in result.output


def test_a_fit_is_told_in_rows_and_beside_the_constant_model(table):
    told = mercer("fit", "rows.csv", "--target", "label", "--drop", "empty", "--out", "m").output
    assert "exact kernel of 60 rows" in told
    assert " 1 iteration)" in told
    assert "**" not in told
    share = np.mean([line.endswith("down") for line in table.read_text().splitlines()[1:]])
    assert f"accuracy {share:.4f} of the constant model, which predicts down" in told
    told = mercer("predict", "m", "rows.csv", "--out", "p.csv").output
    assert "as many rows as at the fit" in told


def test_comparisons_hold_out_the_latest_rows_of_a_time_column(table):
    settings = ("--drop", "empty,label", "--methods", "linear", "--time", "day", "--fast")
    told = mercer("compare", "rows.csv", "--target", "x", *settings).output
    assert "last rows of the series held out, 45 training and 15 test rows" in told
