"""Data frames of all libraries are one table, and columns are found by their names."""

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from _polars import pl
from mercer import AutoKernelClassifier, TablePreparer


def table(n=120, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "size": rng.normal(size=n),
            "count": pd.Series(rng.integers(0, 9, n)).astype("Int64"),
            "free": rng.random(n) < 0.5,
            "city": rng.choice(["Rome", "Oslo", "Lima"], n),
            "grade": pd.Categorical(rng.choice(["a", "b"], n)),
            "sold": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
            "took": pd.to_timedelta(rng.integers(0, 900, n), "s"),
        }
    )
    frame.loc[::9, ["city", "sold", "took", "count"]] = None
    return frame


def forms(frame):
    yield "pandas", frame
    yield "polars", pl.from_pandas(frame)
    yield "a query of polars", pl.from_pandas(frame).lazy()
    yield "Arrow", pa.Table.from_pandas(frame, preserve_index=False)
    yield "narwhals", nw.from_native(frame)


def test_frames_of_all_libraries_come_out_alike():
    frame = table()
    expected = TablePreparer(random_state=0).fit_transform(frame)
    assert expected.shape[1] > 12
    for name, form in forms(frame):
        preparer = TablePreparer(random_state=0).fit(frame)
        np.testing.assert_allclose(preparer.transform(form), expected, err_msg=name)
        np.testing.assert_allclose(
            TablePreparer(random_state=0).fit_transform(form), expected, err_msg=name
        )


def test_a_relation_of_duckdb_is_a_frame():
    duckdb = pytest.importorskip("duckdb")
    numbers = pd.DataFrame({"a": [1.0, 2.0, 5.0], "b": ["x", "y", "x"]})
    relation = duckdb.sql("select * from numbers")
    np.testing.assert_allclose(
        TablePreparer().fit_transform(relation), TablePreparer().fit_transform(numbers)
    )


@pytest.mark.parametrize("name", ["pandas", "polars", "Arrow"])
def test_automatic_models_take_frames_of_all_libraries(name):
    frame = table()
    y = np.where(frame["size"] > 0, "large", "small")
    form = dict(forms(frame))[name]
    model = AutoKernelClassifier(random_state=0).fit(form, y)
    expected = AutoKernelClassifier(random_state=0).fit(frame, y)
    np.testing.assert_array_equal(model.predict(form), expected.predict(frame))


def test_columns_are_put_in_order_by_name_and_others_left_out():
    frame = table()
    preparer = TablePreparer().fit(frame)
    other = frame[frame.columns[::-1]].assign(more=1.0)
    np.testing.assert_array_equal(preparer.transform(other), preparer.transform(frame))


def test_missing_columns_are_named():
    frame = table()
    preparer = TablePreparer().fit(frame)
    with pytest.raises(
        ValueError, match=r"^X must have the columns of the fit; it lacks \['size', 'city'\]\.$"
    ):
        preparer.transform(frame.drop(columns=["city", "size"]).assign(town="Rome"))


def test_two_columns_of_one_name_get_a_sentence():
    frame = pd.DataFrame([[1.0, 2.0]], columns=["a", "a"])
    with pytest.raises(ValueError, match=r"^X must name every column once; 'a' stands twice\.$"):
        TablePreparer().fit(frame)


def test_clocks_are_seconds_of_the_day():
    clocks = pl.DataFrame({"at": [12.5, 0.0, 23.0]}).select(
        (pl.col("at") * 3600e9).cast(pl.Int64).cast(pl.Time)
    )
    out = TablePreparer("standard").fit_transform(clocks)[:, 0]
    seconds = np.array([12.5, 0.0, 23.0])
    np.testing.assert_allclose(out, (seconds - seconds.mean()) / seconds.std())
