"""Targets on the command line: what they are taken for, and how to say otherwise."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from mercer.cli import read
from mercer.cli.app import app
from mercer.cli.options import Task
from mercer.cli.roles import Roles
from mercer.distributed.targets import Outline


@pytest.fixture(autouse=True)
def _at_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def taken(target, task=Task.auto, kind="csv"):
    """The task of a target in a file, and the sentence about it."""
    table = pd.DataFrame({"a": np.arange(len(target)) / 7, "t": target})
    table.to_csv("t.csv", index=False) if kind == "csv" else table.to_parquet("t.parquet")
    rows = read.labelled(f"t.{kind}", Roles("t"), task)
    return rows.data.task, rows.task_note


def test_body_mass_is_a_quantity():
    mass = 100 * np.random.default_rng(0).integers(27, 121, 344)
    task, note = taken(mass)
    assert task == "regression"
    assert note.endswith("distinct values; --task classification takes them as classes")
    assert taken(mass, Task.regression)[0] == "regression"


def test_few_whole_values_are_classes_and_the_line_says_how_to_change_it():
    task, note = taken(np.arange(60) % 3)
    assert task == "classification"
    assert note == (
        "task: classification, the target has 3 distinct whole values; --task regression takes "
        "them as numbers"
    )


def test_categories_of_numbers_are_classes():
    values = pd.Categorical(np.arange(60) % 30)
    assert taken(values, kind="parquet")[0] == "classification"
    assert taken(np.arange(60) % 30, kind="parquet")[0] == "regression"


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("command", ["fit", "compare"])
def test_dates_as_target_are_one_sentence(kind, command):
    days = np.datetime64("2020-01-01") + np.arange(90) // 3
    table = pd.DataFrame({"a": np.arange(90.0), "sold": days})
    table.to_csv("t.csv", index=False) if kind == "csv" else table.to_parquet("t.parquet")
    out = ("--out", "m.skops") if command == "fit" else ()
    done = run(command, f"t.{kind}", "--target", "sold", *out)
    assert done.exit_code == 1
    [sentence] = done.stderr.splitlines()
    assert "the target 'sold' holds dates" in sentence
    assert sentence.endswith("the weekday, and name that as the target.")


def test_numbers_of_many_small_classes_name_the_other_task(recwarn):
    assert taken(np.arange(300) // 2, Task.classification)[0] == "classification"
    [told] = recwarn
    assert "150 classes with 2 rows each in the median" in str(told.message)
    assert "--task regression" in str(told.message)


def test_texts_of_many_small_classes_need_an_explicit_task(recwarn):
    names = [f"name {i // 2}" for i in range(300)]
    with pytest.raises(ValueError, match="neither numbers nor classes; --task classification"):
        taken(names)
    assert not recwarn
    assert taken(names, Task.classification)[0] == "classification"
    assert "--task" not in str(recwarn[0].message)


def test_outlines_of_shards_count_the_rows_of_every_value():
    parts = [np.array([3, 1, 1, 2]), np.array([2, 5, 1])]
    first, second = (Outline(len(y), 1, "i", *np.unique(y, return_counts=True)) for y in parts)
    both = first.plus(second)
    values, counts = np.unique(np.concatenate(parts), return_counts=True)
    np.testing.assert_array_equal(both.distinct, values)
    np.testing.assert_array_equal(both.counts, counts)
