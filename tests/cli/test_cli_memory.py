"""``mercer fit`` and ``mercer predict`` within a bound of memory, and on tables left in files."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from mercer import get_config
from mercer.cli.app import app
from mercer.datasets.tables import ParquetColumns


@pytest.fixture(autouse=True)
def _at_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=300), "b": rng.normal(size=300)})
    frame["y"] = np.sin(frame["a"])
    frame.to_parquet("big.parquet")
    return frame


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


FIT = ("fit", "big.parquet", "--target", "y", "--map", "fourier", "--n-components", 20)


def refuse(*_, **__):
    raise AssertionError("the table was read as a whole")


def test_a_table_that_stays_in_its_file_gives_the_same_model(table, monkeypatch):
    assert run(*FIT, "--out", "whole.skops").exit_code == 0
    with monkeypatch.context() as patch:
        patch.setattr(ParquetColumns, "table", refuse)
        done = run(*FIT, "--out", "left.skops", "--out-of-core")
        assert done.exit_code == 0, done.output
        for name in ("whole", "left"):
            done = run(
                "predict", f"{name}.skops", "big.parquet", "--out", f"{name}.csv", "--out-of-core"
            )
            assert done.exit_code == 0, done.output
            assert "wrote" in done.output
    whole, left = (pd.read_csv(f"{name}.csv")["prediction"] for name in ("whole", "left"))
    np.testing.assert_allclose(left, whole, atol=1e-6)


def test_new_rows_need_no_target_to_be_predicted_from_their_file(table):
    assert run(*FIT, "--out", "model.skops").exit_code == 0
    table[["b", "a"]].to_parquet("new.parquet")
    done = run("predict", "model.skops", "new.parquet", "--out", "new.csv", "--out-of-core")
    assert done.exit_code == 0, done.output
    table[["b"]].to_parquet("short.parquet")
    done = run("predict", "model.skops", "short.parquet", "--out", "new.csv", "--out-of-core")
    assert done.exit_code != 0
    assert "no column 'a'" in done.output


def test_a_table_that_would_not_fit_stays_in_its_file_unasked(table, monkeypatch):
    monkeypatch.setattr(ParquetColumns, "table", refuse)
    monkeypatch.setattr("mercer.datasets.mapped.array_bytes", lambda path: 1e15)
    done = run(*FIT, "--out", "model.skops", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["n"] == 300


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fit", "big.parquet", "--out-of-core"), "does not say what to predict"),
        (("fit", "letter", "--out-of-core"), "--out-of-core needs a Parquet"),
        (("fit", "big.csv", "--target", "y", "--out-of-core"), "--out-of-core needs a Parquet"),
        ((*FIT, "--max-memory", "much"), "--max-memory must be a positive number"),
        ((*FIT, "--max-memory", "1kB"), r"needs .* but .* available; .*; --max-memory allows 1kB"),
    ],
    ids=["no target", "known set", "csv", "no size", "too little"],
)
def test_what_cannot_be_is_one_sentence(arguments, message, table):
    table.to_csv("big.csv", index=False)
    done = run(*arguments, "--out", "model.skops")
    assert done.exit_code != 0
    said = " ".join(done.output.split())
    assert re.search(message, said), said


def test_the_bound_holds_for_the_command_alone(table, monkeypatch):
    seen = []
    read = ParquetColumns.table
    monkeypatch.setattr(
        ParquetColumns, "table", lambda *a, **k: (seen.append(get_config()), read(*a, **k))[1]
    )
    assert run(*FIT, "--out", "model.skops", "--max-memory", "2GB").exit_code == 0
    assert seen == [{"max_memory": 2 * 2**30, "device": "cpu"}]
    assert get_config() == {"max_memory": None, "device": "cpu"}
