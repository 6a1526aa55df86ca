"""One row of a frame is treated, predicted and refused as a row among many, and as by the long way.

The long way passes each check of a frame and reads it column by column through narwhals, as it does
for a frame that narwhals already wraps.
"""

import pickle
import warnings
from functools import cache

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from _polars import pl
from mercer import AutoKernelClassifier, AutoKernelRegressor, TablePreparer
from mercer.preparation import frames
from mercer.preparation.columns import Labels
from mercer.preparation.frames import plain_numbers
from mercer.preparation.labels import OneHot

ROWS = 12


def numbers(n=90, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 5)), columns=list("abcde"))
    frame.loc[::7, "b"] = np.nan
    return frame


def mixed(n=90, seed=0):
    rng = np.random.default_rng(seed)
    words = ["oak", "elm", "ash", "fir", "yew", "box"]
    frame = numbers(n, seed)[["a", "b"]].assign(
        count=rng.integers(0, 50, n),
        free=rng.random(n) < 0.5,
        town=rng.choice(["Rome", "Oslo", "Lima"], n),
        grade=pd.Categorical(rng.choice(["x", "y", "z"], n)),
        share=[f"{v} %" for v in rng.integers(0, 99, n)],
        note=[" ".join(rng.choice(words, 4)) for _ in range(n)],
        sold=pd.Timestamp("1969-12-01") + pd.to_timedelta(rng.integers(0, 10**7, n), "s"),
    )
    frame.loc[::7, ["town", "sold", "note"]] = None
    return frame


def new_rows(make):
    """Rows of a table, of which some have missing cells and a label that the fit has not met."""
    rows = make(ROWS, seed=1)
    if "town" in rows:
        rows.loc[[2, 5], "town"] = "Quito"
        rows.loc[3, "grade"] = None
    return rows


@cache
def model(kind, make):
    frame = make(240)
    y = frame["a"].to_numpy()
    if make is mixed:
        y = y + frame["town"].map({"Rome": 4.0, "Oslo": -4.0}).fillna(0.0).to_numpy()
    y = y if kind is AutoKernelRegressor else y > 0.2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return kind(random_state=0, n_jobs=1).fit(frame, y, offset=np.linspace(0, 1, len(frame)))


FORMS = {
    "pandas": lambda frame: frame,
    "Polars": lambda frame: pl.from_pandas(frame),
    "Arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "narwhals": nw.from_native,
    "nullable": lambda frame: frame.convert_dtypes(),
    "short": lambda frame: frame.astype({"a": np.float32}),
    "reversed": lambda frame: frame[frame.columns[::-1]],
    "array": lambda frame: frame.to_numpy(),
}
METHODS = {
    AutoKernelRegressor: ["predict", "predict_interval"],
    AutoKernelClassifier: ["predict_proba", "predict_set"],
}


@pytest.mark.rounding
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("make", [numbers, mixed])
@pytest.mark.parametrize("kind", METHODS)
@pytest.mark.filterwarnings("ignore::UserWarning")  # of labels, gaps, and arrays without names
def test_each_row_alone_equals_its_row_in_a_batch(kind, make, form):
    known, offset = model(kind, make), np.linspace(-1, 1, ROWS)
    rows = new_rows(make)
    for method in METHODS[kind]:
        predict = getattr(known, method)
        batch = predict(FORMS[form](rows), offset=offset)
        for i in range(ROWS):
            alone = predict(FORMS[form](rows[i : i + 1]), offset=offset[i : i + 1])
            np.testing.assert_array_equal(alone[0], batch[i], err_msg=f"{method}, row {i}")


@pytest.mark.parametrize("form", ["pandas", "Polars", "short"])
@pytest.mark.parametrize("make", [numbers, mixed])
def test_the_quick_way_gives_the_bits_of_the_long_way(make, form):
    preparer = TablePreparer(random_state=0).fit(make(), numbers()["a"])
    rows = FORMS[form](new_rows(make))
    quick, long = preparer.transform(rows), preparer.transform(nw.from_native(rows))
    assert quick.dtype == long.dtype
    assert quick.tobytes() == long.tobytes()
    assert (plain_numbers(rows, list(make().columns)) is not None) == (
        make is numbers and form in ("pandas", "Polars", "short")
    )


def test_short_numbers_alone_become_float32():
    frame = pd.DataFrame({"a": np.arange(9, dtype=np.uint16), "b": np.arange(9) % 2 == 0})
    preparer = TablePreparer(random_state=0).fit(frame)
    for rows in (frame, frame.astype({"a": np.int64})):
        quick, long = preparer.transform(rows), preparer.transform(nw.from_native(rows))
        assert quick.dtype == long.dtype
        assert quick.tobytes() == long.tobytes()


def test_unmet_labels_of_one_row_are_warned_of():
    known, row = model(AutoKernelRegressor, mixed), new_rows(mixed)[2:3]
    with pytest.warns(UserWarning, match="holds labels that the fit has not met in 1 of 1 rows"):
        known.predict(row, offset=0.0)


WRONG = {
    "no rows": lambda row: row[:0],
    "a missing column": lambda row: row.drop(columns="a"),
    "a text for a number": lambda row: row.astype(object).assign(c="many"),
    "texts of numbers": lambda row: row.assign(c=["1.5"]),
    "labels as categories": lambda row: row.assign(c=pd.Categorical(["x"])),
    "categories of numbers": lambda row: row.assign(c=pd.Categorical([1.5])),
    "a date": lambda row: row.assign(c=pd.Timestamp("2020-01-01")),
    "a span": lambda row: row.assign(c=pd.Timedelta("1s")),
    "complex numbers": lambda row: row.assign(c=1j),
    "infinity": lambda row: row.assign(c=np.inf),
    "a list": lambda row: row.assign(c=[[1.0, 2.0]]),
    "nullable": lambda row: row.assign(c=pd.array([None], dtype="Float64")),
    "sparse": lambda row: row.assign(c=pd.arrays.SparseArray([0.0])),
    "another name": lambda row: row.rename(columns={"a": "A"}),
    "a number as a name": lambda row: row.rename(columns={"a": 0}),
    "one name twice": lambda row: row.rename(columns={"a": "b"}),
    "a further column": lambda row: row.assign(z="x"),
    "another order": lambda row: row[list("edcba")],
    "half floats": lambda row: row.astype({"c": np.float16}),
    "another byte order": lambda row: row.assign(c=np.array([1.5], dtype=">f8")),
}


def outcome(function, *given):
    """Values of a call and its warnings, or its error, as bytes and texts."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            result = function(*given).tobytes()
        except (ValueError, TypeError) as error:
            result = f"{type(error).__name__}: {error}"
    return result, [str(each.message) for each in told]


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("with_predict", [False, True])
def test_the_quick_way_refuses_and_accepts_what_the_long_way_does(name, with_predict, monkeypatch):
    row = WRONG[name](numbers(1, seed=2))
    known = TablePreparer(random_state=0).fit(numbers())
    ask = known.transform
    if with_predict:
        ask = lambda X: model(AutoKernelRegressor, numbers).predict(X, offset=0.0)  # noqa: E731
    quick = outcome(ask, row)
    monkeypatch.setattr("mercer.preparation.gaps.plain_numbers", lambda X, names: None)
    monkeypatch.setattr(frames, "_is_plain", lambda kind: False)
    assert outcome(ask, row) == quick


@pytest.mark.parametrize("texts", [["5 %", "7 %", "9 %"] * 30, [f"{v} %" for v in range(90)]])
def test_plain_numbers_in_a_column_of_percentages_keep_their_unit(texts):
    rows = numbers()
    preparer = TablePreparer("standard", random_state=0).fit(rows.assign(c=texts))
    for form in ("pandas", "Polars", "narwhals"):
        with pytest.warns(UserWarning, match="held percentages at fit and holds plain numbers"):
            out = preparer.transform(FORMS[form](rows.assign(c=7.0)))
        expected = preparer.transform(rows.assign(c="7 %"))
        np.testing.assert_allclose(out, expected)


def test_arrays_of_numbers_in_a_column_of_percentages_keep_their_unit():
    texts = np.array([["5 %", 1.0], ["7 %", 2.0], ["9 %", 4.0]], dtype=object)
    preparer = TablePreparer("standard").fit(texts)
    with pytest.warns(UserWarning, match="held percentages at fit and holds plain numbers"):
        out = preparer.transform(np.array([[7.0, 2.0]]))
    np.testing.assert_allclose(out, preparer.transform(texts[1:2]))


def test_models_of_sparse_rows_take_dense_ones():
    from scipy import sparse

    X = sparse.random_array((200, 30), density=0.2, format="csr", rng=0)
    known = AutoKernelRegressor(random_state=0).fit(X, X.toarray()[:, 0])
    for method in (known.predict, known.predict_interval):
        np.testing.assert_array_equal(method(X[:3].toarray()), method(X[:3]))


def test_numbers_of_labels_are_no_part_of_a_stored_model():
    part = OneHot(texts=["a", "b"])
    assert part.number_of == {"a": 0, "b": 1}
    assert part.number_of is part.number_of
    assert vars(pickle.loads(pickle.dumps(part))) == vars(OneHot(texts=["a", "b"]))


def test_a_part_that_is_fitted_again_forgets_its_labels():
    part = OneHot()
    for texts in (["x", "y", "z"], ["p", "q", "z"]):
        labels = Labels(texts, np.arange(3))
        np.testing.assert_array_equal(part.fit(labels).transform(labels), np.eye(3))
