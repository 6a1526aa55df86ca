"""Columns that a treatment of a table leaves out because it is told to."""

import warnings

import numpy as np
import pandas as pd
import pytest

from mercer import TablePreparer


def table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.normal(size=60), "age": rng.normal(size=60)})
    frame["city"] = rng.choice(["Paris", "Rome", "Oslo"], 60)
    frame["twin"] = frame["age"]
    return frame


def test_it_is_the_treatment_of_the_other_columns():
    frame = table()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        preparer = TablePreparer(without=("size", "age"), random_state=0).fit(frame)
    alone = TablePreparer(random_state=0).fit(frame[["city", "twin"]])
    wanted = alone.transform(frame[["city", "twin"]])
    np.testing.assert_allclose(preparer.transform(frame), wanted, atol=1e-12)
    assert list(preparer.get_feature_names_out()) == list(alone.get_feature_names_out())
    assert "without" in preparer.columns_["became"][0]


def test_columns_of_arrays_go_by_their_places():
    X = table()[["size", "age"]].to_numpy()
    preparer = TablePreparer(without=["x0"]).fit(X)
    assert preparer.get_feature_names_out().tolist() == ["x1"]


@pytest.mark.parametrize(
    ("without", "error", "message"),
    [
        (("town",), ValueError, "without must name columns of X; 'town' is none of them"),
        ("size", TypeError, "without must be a sequence of names"),
        ((0,), TypeError, "without must be a sequence of names"),
        (("size", "age", "city", "twin"), ValueError, "without must leave a column"),
    ],
)
def test_what_names_no_column_is_refused(without, error, message):
    with pytest.raises(error, match=message):
        TablePreparer(without=without).fit(table())


def test_sparse_rows_are_refused():
    from scipy import sparse

    with pytest.raises(ValueError, match="without must be empty for sparse rows"):
        TablePreparer(without=("x0",)).fit(sparse.random_array((9, 3), density=0.5, rng=0).tocsr())


@pytest.mark.parametrize("cells", ["text", "2024-01-31", "12 %", True, float("inf"), b"bytes"])
def test_columns_that_the_fit_makes_nothing_of_are_not_read(cells):
    rng = np.random.default_rng(0)
    number = rng.normal(size=60)
    table = pd.DataFrame({
        "number": number,
        "empty": np.nan,
        "constant": 3.0,
        "again": number,
        "left": rng.normal(size=60),
        "one label": "a",
        "label": rng.choice(list("xyz"), 60),
    })  # fmt: skip
    with pytest.warns(UserWarning, match="columns are left out"):
        preparer = TablePreparer(without=["left"]).fit(table)
    later = table.copy()
    for name in ("empty", "constant", "again", "left", "one label"):
        later[name] = pd.Series([cells] * len(table), dtype=object)
    np.testing.assert_array_equal(preparer.transform(later), preparer.transform(table))
    later["number"] = "text"
    with pytest.raises(ValueError, match="column 'number' must hold numbers, as it did at fit"):
        preparer.transform(later)
