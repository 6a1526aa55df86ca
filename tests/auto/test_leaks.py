"""Hints at columns that give the target away."""

import warnings

import numpy as np
import pandas as pd
import pytest

from mercer import AutoKernelClassifier, AutoKernelRegressor


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    return pd.DataFrame(rng.normal(size=(200, 3)), columns=["age", "height", "week"])


def hints(model, table, y):
    with warnings.catch_warnings(record=True) as met:
        warnings.simplefilter("always")
        model.fit(table, y)
    return [str(each.message) for each in met if "alone explains" in str(each.message)]


def test_a_column_that_tells_the_class_is_named(table):
    y = np.where(table["week"] > 0.3, "arrested", "free")
    [hint] = hints(AutoKernelClassifier(random_state=0), table, y)
    assert hint.startswith("column 'week' alone explains nearly all of the target, AUC ")


def test_a_column_that_tells_the_number_is_named(table):
    table["week"] = np.round(table["week"])
    y = 3 * table["week"] + 0.1 * table["age"]
    [hint] = hints(AutoKernelRegressor(random_state=0), table, y)
    assert hint.startswith("column 'week' alone explains nearly all of the target, R² ")


def test_columns_that_matter_together_are_not_named(table):
    y = table["week"] + table["age"]
    assert not hints(AutoKernelRegressor(random_state=0), table, y)
    assert not hints(AutoKernelClassifier(random_state=0), table, y > 0)


def test_labels_of_one_row_each_tell_nothing(table):
    table["name"] = [f"name {i}" for i in range(200)]
    y = np.random.default_rng(1).random(200) > 0.5
    assert not hints(AutoKernelClassifier(random_state=0), table, y)


def test_a_column_that_tells_one_of_three_classes_is_named(table):
    y = np.select([table["week"] > 0.5, table["week"] > -0.5], ["late", "middle"], "early")
    [hint] = hints(AutoKernelClassifier(random_state=0), table, y)
    assert hint.startswith("column 'week' alone explains nearly all of the target, AUC ")


def test_a_column_that_tells_several_labels_is_named(table):
    y = np.column_stack([table["week"] > 0.3, table["week"] < -0.4]).astype(int)
    [hint] = hints(AutoKernelClassifier(random_state=0), table, y)
    assert hint.startswith("column 'week' alone explains nearly all of the target, AUC ")


def test_columns_of_plain_arrays_are_named_by_their_places(table):
    y = np.where(table["week"] > 0.3, "arrested", "free")
    [hint] = hints(AutoKernelClassifier(random_state=0), table.to_numpy(), y)
    assert hint.startswith("column 'x2' alone explains nearly all of the target, AUC ")
