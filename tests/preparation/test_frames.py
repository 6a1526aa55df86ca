"""Data frames of all libraries are one table, and columns are found by their names."""

from decimal import Decimal

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from _polars import pl
from mercer import AutoKernelClassifier, TablePreparer
from mercer.datasets import read

NEW_ARROW = int(pa.__version__.split(".")[0]) >= 18  # earlier ones make few of these types


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


@pytest.mark.filterwarnings("ignore:column 'size' alone explains:UserWarning")  # it does
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


def view_types():
    """Columns of Arrow that few libraries have, beside columns of plain values."""
    texts, numbers = ["a", "bc", None, "a", "d", "bc"], [0, 1, None, 3, 5, 8]
    decimals = [None if value is None else Decimal(value) for value in numbers]
    days = pa.array([value and 86_400_000 * value for value in numbers], pa.int64())
    floats = pa.array(numbers, pa.float64())
    if NEW_ARROW:
        views = pa.array(texts, pa.string()).cast(pa.string_view())
        short = pa.array(["x", "y", "x", "z", "x", "y"]).cast(pa.string_view())
        codes = pa.array([0, 1, 0, 2, 0, 1], pa.int8())
        binary = pa.array([b"a", b"b"] * 3).cast(pa.binary_view())
        distinct = short.cast(pa.string()).unique().cast(short.type)
        coded = short.cast(pa.string()).dictionary_encode()
        runs = pa.RunEndEncodedArray.from_arrays(pa.array([3, 6], pa.int32()), pa.array([1.0, 2.0]))
        yield "runs", runs, pa.array([1.0] * 3 + [2.0] * 3)
        yield "string view", views, pa.array(texts)
        yield "binary view", binary, pa.array(["a", "b"] * 3)
        yield "dictionary of views", pa.DictionaryArray.from_arrays(codes, distinct), coded
    yield "large binary", pa.array([b"a", b"b"] * 3, pa.large_binary()), pa.array(["a", "b"] * 3)
    yield "fixed binary", pa.array([b"a", b"b"] * 3, pa.binary(1)), pa.array(["a", "b"] * 3)
    for kind in (pa.decimal128(20, 2), pa.decimal256(50, 2)):
        yield str(kind), pa.array(decimals, kind), floats
    for kind in (pa.uint64(), pa.uint8(), pa.float16()):
        yield str(kind), pa.array(numbers, pa.float64()).cast(kind), floats
    yield "date64", days.cast(pa.date64()), days.cast(pa.timestamp("ms"))
    yield (
        "nanoseconds",
        pa.array([1, 2, None, 4, 5, 10**15]).cast(pa.timestamp("ns")),
        pa.array([0, 0, None, 0, 0, 10**12]).cast(pa.timestamp("us")),
    )
    yield "nothing", pa.nulls(6), pa.array([None] * 6, pa.float64())


@pytest.mark.filterwarnings("ignore:columns are left out")
@pytest.mark.parametrize(("kind", "column", "plain"), list(view_types()))
def test_every_type_of_arrow_is_read_as_its_values(kind, column, plain):
    y = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    rare, usual = (pa.table({"c": c, "z": y}) for c in (column, plain))
    preparer = TablePreparer()
    expected = TablePreparer().fit_transform(usual)
    np.testing.assert_array_equal(preparer.fit_transform(rare), expected)
    np.testing.assert_array_equal(preparer.transform(rare), expected)
    np.testing.assert_array_equal(preparer.transform(usual), expected)
    weights = [1.0, 1.0, 1.0, 1.0, 1.0, 0.0]  # rows are taken
    TablePreparer().fit(rare, sample_weight=weights)


def test_pandas_columns_of_arrow_are_read_as_their_values():
    nanoseconds = pa.table({"c": pa.array([1, 2, 10**15]).cast(pa.timestamp("ns"))})
    frame = nanoseconds.to_pandas(types_mapper=pd.ArrowDtype)
    plain = nanoseconds.to_pandas()
    np.testing.assert_array_equal(
        TablePreparer().fit_transform(frame), TablePreparer().fit_transform(plain)
    )


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1], [2]]),
        pa.array([{"a": 1}, {"a": 2}]),
        pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64())),
        pa.array([[1], [2]], pa.list_view(pa.int64())),
    ],
    ids=lambda column: str(column.type),
)
def test_nested_columns_are_named(column):
    with pytest.raises(TypeError, match=r"^X must hold numbers, .*; column 'c' holds [^.]*\.$"):
        TablePreparer().fit(pa.table({"c": column}))


@pytest.mark.skipif(not NEW_ARROW, reason="this PyArrow makes no views of texts")
def test_files_hold_views(tmp_path):
    from pyarrow import feather

    views = pa.array(["a", "b", "a"]).cast(pa.string_view())
    feather.write_feather(pa.table({"c": views, "y": views}), str(tmp_path / "t.feather"))
    table = read(tmp_path / "t.feather", "y", raw=True)
    assert table.X.ravel().tolist() == table.y.tolist() == ["a", "b", "a"]
