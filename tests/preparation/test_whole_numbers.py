"""Whole numbers that float64 cannot hold: names stay different, quantities stay numbers."""

from decimal import Decimal

import narwhals as nw
import numpy as np
import pandas as pd
import pytest

from mercer import KernelClassifier, TablePreparer
from mercer._runtime.validation import group_codes
from mercer.auto.order import time_codes
from mercer.preparation import column_names, read

USERS = np.repeat(np.arange(30), 5)
IDS = 2**60 + USERS
OTHER = np.arange(len(USERS))

with_gap = pd.array(IDS, dtype="Int64")
with_gap[3] = pd.NA


@pytest.mark.parametrize(
    "ids",
    [
        IDS,
        IDS.astype(np.uint64) + np.uint64(2**63),
        with_gap,
        IDS.astype(str),
        IDS.astype(object),
        [Decimal(number) for number in IDS.tolist()],
        [10**30 + number for number in IDS.tolist()],
        1_700_000_000_000_000_000 + 100_003 * USERS,  # snowflakes, all of which floats tell apart
    ],
)
def test_ids_beyond_2_to_53_are_labels_one_each(ids):
    table = pd.DataFrame({"id": ids, "other": OTHER})
    preparer = TablePreparer(labels="codes", max_labels=50).fit(table)
    assert preparer.kinds_ == ["label", "number"]
    rows = preparer.transform(table)[:, preparer.origins_ == 0]
    assert len(np.unique(rows, axis=0)) == 30 + table["id"].isna().any()
    other = preparer.transform(table.assign(id=table["id"].astype(str)))
    np.testing.assert_array_equal(other, preparer.transform(table))


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, object])
def test_arrays_of_ids_keep_them_beside_other_numbers(dtype):
    X = np.column_stack([IDS, OTHER]).astype(dtype)
    preparer = TablePreparer(max_labels=50).fit(X)
    assert preparer.kinds_ == ["label", "number"]
    rows = preparer.transform(X[::5])
    assert len(np.unique(rows[:, preparer.origins_ == 0], axis=0)) == 30


@pytest.mark.parametrize(
    "numbers",
    [
        1_700_000_000_000_000_001 + 10**9 * OTHER,  # nanoseconds, one a row
        2**60 + 1024 * USERS,  # float64 holds each
        2.0**60 * (1 + USERS),
        2**53 - USERS,
    ],
)
def test_quantities_that_floats_tell_apart_stay_numbers(numbers):
    table = pd.DataFrame({"number": numbers, "other": OTHER})
    assert TablePreparer().fit(table).kinds_ == ["number", "number"]


def test_numbers_of_a_fit_stay_numbers_where_later_ones_are_larger():
    preparer = TablePreparer().fit(pd.DataFrame({"a": OTHER, "b": OTHER**2}))
    rows = preparer.transform(pd.DataFrame({"a": IDS, "b": OTHER**2}))
    assert np.isfinite(rows).all()


@pytest.mark.parametrize(
    "groups",
    [
        IDS,
        IDS.tolist(),
        pd.Series(pd.array(IDS, dtype="Int64")),
        [2**63 + int(user) if user else -1 for user in USERS],
    ],
)
def test_groups_of_large_numbers_are_not_joined(groups):
    codes = group_codes(groups, np.zeros((len(USERS), 1)))
    np.testing.assert_array_equal(codes, USERS)


def test_classes_of_large_numbers_are_not_joined():
    y = pd.Series(pd.array(2**60 + USERS % 2, dtype="Int64"))
    model = KernelClassifier(random_state=0).fit(OTHER[:, None] % 10, y)
    assert model.classes_.tolist() == [2**60, 2**60 + 1]
    assert set(model.predict(OTHER[:, None] % 10).tolist()) <= set(model.classes_.tolist())
    with pytest.raises(ValueError, match=r"int64 or uint64 holds; got 10+1: give such labels"):
        KernelClassifier().fit(OTHER[:, None], [10**30 + int(user) % 2 for user in USERS])


@pytest.mark.parametrize("kind", ["int64", "datetime64[ns]", "object"])
def test_times_are_in_order_to_the_nanosecond(kind):
    times = (1_700_000_000_000_000_000 + OTHER[::-1]).astype(kind)
    table = nw.from_native(pd.DataFrame({"time": times, "a": OTHER}))
    np.testing.assert_array_equal(time_codes(table, "time"), OTHER[::-1])
    if kind != "object":
        np.testing.assert_array_equal(time_codes(times[:, None], 0), OTHER[::-1])


def test_columns_without_large_numbers_are_read_at_once():
    X = np.column_stack([OTHER, OTHER])
    assert read(X, column_names(X)).numbers.shape == X.shape
