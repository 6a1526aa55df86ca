"""Texts that stand for numbers, dates and time spans, and those that do not."""

from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from mercer import AutoKernelRegressor, TablePreparer
from mercer.datasets import read
from mercer.preparation.recognition import FORMATS, format_of, read_as

NUMBERS = [
    (["1", "2.5", "-3e4", ".5", "+7"], "number", [1, 2.5, -3e4, 0.5, 7]),
    (["1,234", "12", "-1,000,000.5"], "number, 1,234.5", [1234, 12, -1000000.5]),
    (["1.234,5", "2,5", "1 000,0"], "number, 1.234,5", [1234.5, 2.5, 1000]),
    (["12%", "3.5 %", "-1%"], "percent", [0.12, 0.035, -0.01]),
    (["$1,200", "-$3", "($4.50)", "$ 7"], "$, 1,234.5", [1200, -3, -4.5, 7]),
    (["€ 1.200,50", "3,20 €"], "€, 1.234,5", [1200.5, 3.2]),
    (["USD 5", "7 USD"], "USD", [5, 7]),
    (["yes", "No", "YES"], "true or false", [1, 0, 1]),
    (["True", "false"], "true or false", [1, 0]),
    (["1:30", "02:15:30"], "time span", [5400, 8130]),
    (["2 days 03:00:00", "-1 days 00:00:30.5"], "time span", [183600, -86430.5]),
    (["2h 30m", "45 min", "1 day, 2 hours"], "time span", [9000, 2700, 93600]),
    (["PT5M", "P1DT2H"], "time span", [300, 93600]),
]
DATES = [
    (["2020-01-02", "2021-12-31"], "date, year first", ["2020-01-02", "2021-12-31"]),
    (
        ["2020/1/2", "2020.3.4", "2020-05"],
        "date, year first",
        ["2020-01-02", "2020-03-04", "2020-05-01"],
    ),
    (
        ["2020-01-02T03:04:05Z", "2020-01-02 03:04:05.25+02:00"],
        "date, year first",
        ["2020-01-02T03:04:05", "2020-01-02T01:04:05.25"],
    ),
    (["01/02/2020", "12/31/2019"], "date, month first", ["2020-01-02", "2019-12-31"]),
    (["31/12/2019", "01/02/2020"], "date, day first", ["2019-12-31", "2020-02-01"]),
    (["31.12.2019", "1.2.20"], "date, day first, with points", ["2019-12-31", "2020-02-01"]),
    (
        ["1/2/2020 3:04 PM", "1/2/99 12:00 am"],
        "date, month first",
        ["2020-01-02T15:04", "1999-01-02"],
    ),
    (
        ["Jan 5, 2020", "5 January 2020", "31-Dec-1999", "Mon, 6 Jan 2020 10:11:12 GMT"],
        "date, month by name",
        ["2020-01-05", "2020-01-05", "1999-12-31", "2020-01-06T10:11:12"],
    ),
    (["2016Q3", "2017-Q1", "Q4 2015"], "date, quarter", ["2016-07-01", "2017-01-01", "2015-10-01"]),
    (["2016-W12", "2015W53", "W1 2021"], "date, week", ["2016-03-21", "2015-12-28", "2021-01-04"]),
]
LABELS = [
    ["00123", "12345"],  # codes of the post
    ["a", "1"],
    ["2020-02-30"],  # no day
    ["2020-13-01"],
    ["1_000"],
    ["inf", "1"],
    ["1e999"],
    ["$5", "€5"],  # two units
    ["1/2/2020", "13/13/2020"],
    ["3 PM", "P", "PT"],
    ["2016Q5"],  # no quarter
    ["2016-W12", "2016-W53"],  # no such week in that year
    ["Q3", "W12"],
    ["M", "F"],
    ["5 apples"],
    ["-", "", "NA"],
]


@pytest.mark.parametrize(("texts", "name", "values"), NUMBERS)
def test_numbers_are_read_in_the_format_they_share(texts, name, values):
    assert format_of(texts) == name
    np.testing.assert_allclose(read_as(texts, name), values)


@pytest.mark.parametrize(("texts", "name", "values"), DATES)
def test_dates_are_read_in_the_format_they_share(texts, name, values):
    assert format_of(texts) == name
    np.testing.assert_array_equal(read_as(texts, name), np.array(values, dtype="datetime64[us]"))


@pytest.mark.parametrize("texts", LABELS)
def test_what_is_no_number_and_no_date_stays_a_label(texts):
    assert format_of(texts) == ""


@pytest.mark.parametrize(
    ("texts", "name"),
    [
        (["1.001", "999", "12.500"], "number, 1.234,5"),
        (["€1.001", "€ 999"], "€, 1.234,5"),
        (["1.001", "999.5"], "number"),
        (["1.001", "1000"], "number"),
        (["0.523", "1.001", "2"], "number"),
        (["1.001", "2.375"], "number"),
        (["12.345%", "9%"], "percent"),
    ],
)
def test_points_with_three_digits_beside_numbers_below_1000_part_thousands(texts, name):
    assert format_of(texts) == name


def test_thousands_that_may_be_fractions_get_a_warning_and_others_none():
    with pytest.warns(UserWarning, match=r"^column 'sold' holds '1\.001' beside '999': points are"):
        preparer = TablePreparer().fit(pd.DataFrame({"sold": ["1.001", "999", "2.500"]}))
    assert preparer.formats_ == ["number, 1.234,5"]
    TablePreparer().fit(pd.DataFrame({"sold": ["1.001.000", "999", "2.500"]}))


def test_one_code_among_many_numbers_makes_labels():
    assert format_of([*map(str, range(5000)), "007", *map(str, range(5000, 9000))]) == ""


def test_what_stands_for_nothing_is_missing_in_every_format():
    for name in FORMATS:
        values = read_as(["", "NA", "?", "null", "no such thing"], name)
        assert (np.isnat(values) if values.dtype.kind == "M" else np.isnan(values)).all()
    assert format_of(["NA", "3", "?"]) == "number"


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_every_float_that_python_writes_is_read_exactly(values):
    texts = list(map(repr, values))
    assert format_of(texts) == "number"
    np.testing.assert_array_equal(read_as(texts, "number"), values)


@given(st.lists(st.datetimes(min_value=datetime(1, 1, 1)), min_size=1))
def test_every_date_that_python_writes_is_read_exactly(values):
    texts = [value.isoformat() for value in values]
    assert format_of(texts) == "date, year first"
    np.testing.assert_array_equal(
        read_as(texts, "date, year first"), np.array(values, dtype="datetime64[us]")
    )


def test_the_first_instant_of_computers_is_a_date():
    texts = ["1970-01-01T00:00:00", "1970-01-01", "", "1970-01-02"]
    assert format_of(texts) == "date, year first"
    assert read_as(texts[:1], "date, year first").tolist() == [datetime(1970, 1, 1)]


@given(st.timedeltas(timedelta(0), timedelta(days=900)))
def test_every_time_span_that_python_writes_is_read(value):
    assert read_as([str(value)], "time span")[0] == pytest.approx(value.total_seconds())


@given(st.text())
def test_no_text_is_too_strange_to_look_at(text):
    name = format_of([text])
    if name:
        values = read_as([text], name)
        assert not (np.isnat(values) if values.dtype.kind == "M" else np.isnan(values)).any()


# in a table


def raw_table(n=300, seed=0):
    """Columns of texts beside the numbers and dates they stand for."""
    rng = np.random.default_rng(seed)
    dates = np.datetime64("2020-01-01") + rng.integers(0, 900, n).astype("timedelta64[D]")
    spent, share = rng.uniform(0, 5000, n).round(2), rng.integers(0, 100, n)
    seconds = rng.integers(0, 10_000, n)
    texts = pd.DataFrame(
        {
            "sold": dates.astype(str),
            "spent": [f"${value:,.2f}" for value in spent],
            "share": [f"{value}%" for value in share],
            "took": [str(timedelta(seconds=int(value))) for value in seconds],
        }
    )
    plain = pd.DataFrame(
        {"sold": pd.Series(dates), "spent": spent, "share": share / 100, "took": seconds * 1.0}
    )
    return texts, plain


def test_columns_of_texts_become_what_the_numbers_and_dates_themselves_would():
    texts, plain = raw_table()
    out = TablePreparer("standard").fit_transform(texts)
    np.testing.assert_allclose(out, TablePreparer("standard").fit_transform(plain), atol=1e-12)


def test_categories_and_codes_with_zeros_in_front_stay_labels():
    table = pd.DataFrame(
        {"zip": ["01234", "04711", "01234"], "grade": pd.Categorical(["1", "1", "2"])}
    )
    preparer = TablePreparer().fit(table)
    assert preparer.kinds_ == ["label", "label"]


def test_the_table_of_columns_says_what_was_found_and_made():
    texts, _ = raw_table()
    texts["id"] = [f"id {i} {i * 7919 % 300}" for i in range(len(texts))]
    texts["same"] = "x"
    y = np.random.default_rng(0).normal(size=len(texts))
    with pytest.warns(UserWarning, match=r"^columns are left out: 'id' tells .*; 'same' has one"):
        preparer = TablePreparer(random_state=0).fit(texts, y)
    columns = pd.DataFrame(preparer.columns_).set_index("column")
    assert columns["kind"].tolist() == ["date", "number", "number", "number", "label", "label"]
    assert columns["format"].tolist() == [
        "date, year first", "$, 1,234.5", "percent", "time span", "", "",
    ]  # fmt: skip
    assert columns.loc["spent", "became"] == "spent"
    assert columns.loc["sold", "became"].startswith("sold, sold:year sin")
    assert columns.loc["id", "became"].startswith("nothing: it tells every row apart")
    assert columns.loc["same", "became"] == "nothing: it has one value"


def test_new_texts_are_read_in_the_format_of_the_fit_and_others_are_missing():
    texts, _ = raw_table()
    preparer = TablePreparer().fit(texts)
    new = texts.iloc[:3].copy()
    new.loc[1, "spent"] = "a lot"
    with pytest.warns(UserWarning, match=r"^column 'spent' holds 'a lot', which is no number as "):
        out = preparer.transform(new)
    spent = preparer.get_feature_names_out().tolist().index("spent")
    assert out[1, spent] == 0
    np.testing.assert_array_equal(out[[0, 2]], preparer.transform(texts.iloc[[0, 2]]))
    with pytest.raises(
        ValueError, match=r"^column 'spent' must hold numbers, .*; it holds 'a lot' in row 0\.$"
    ):
        preparer.transform(new.assign(spent="a lot"))


def test_plain_numbers_are_read_in_the_unit_of_the_fit():
    texts, plain = raw_table()
    preparer = TablePreparer().fit(texts)
    expected = preparer.transform(texts)
    in_percent = plain.assign(share=100 * plain["share"])
    bare = in_percent.astype({"share": str, "spent": str, "took": str})
    for rows in (in_percent, bare):
        with pytest.warns(UserWarning, match="holds plain numbers") as told:
            np.testing.assert_allclose(preparer.transform(rows), expected, atol=1e-12)
        share, took = sorted(str(warning.message) for warning in told)
        assert share.startswith("column 'share' held percentages at fit and holds plain numbers")
        assert took.endswith(" s.")
    spans = plain.assign(share=texts["share"], took=pd.to_timedelta(plain["took"], unit="s"))
    np.testing.assert_allclose(preparer.transform(spans), expected, atol=1e-12)


def test_percentages_are_refused_where_the_fit_read_plain_numbers():
    _, plain = raw_table()
    preparer = TablePreparer().fit(plain)
    with pytest.raises(ValueError, match=r"^column 'share' must hold plain numbers, .*'7%': write"):
        preparer.transform(plain.assign(share="7%"))


def test_a_text_among_numbers_is_named_with_its_row():
    preparer = TablePreparer().fit(pd.DataFrame({"a": [1.0, 2.0, 4.0]}))
    with pytest.raises(ValueError, match=r"^column 'a' must hold numbers, .* 'x' in row 2\.$"):
        preparer.transform(pd.DataFrame({"a": ["1", "n/a", "x"]}))


def test_a_row_of_which_nothing_is_known_is_no_error():
    texts, _ = raw_table()
    preparer = TablePreparer().fit(texts)
    row = preparer.transform(pd.DataFrame({name: ["n/a"] for name in texts.columns}))
    nothing = preparer.transform(pd.DataFrame({name: [None] for name in texts.columns}))
    np.testing.assert_array_equal(row, nothing)


def test_columns_of_sparse_rows_are_told_too():
    X = sparse.random_array((30, 4), density=0.5, format="csr", random_state=0)
    preparer = TablePreparer().fit(X)
    assert preparer.columns_["became"].tolist() == ["x0", "x1", "x2", "x3"]
    assert "4 columns, and what became of them" in preparer._repr_html_()


def test_a_signal_in_dates_as_texts_is_not_lost():
    rng = np.random.default_rng(0)
    days = rng.integers(0, 700, 600)
    dates = np.datetime64("2020-01-01") + days.astype("timedelta64[D]")
    y = np.sin(2 * np.pi * days / 365.25) + 0.1 * rng.normal(size=600)
    table = pd.DataFrame({"when": dates.astype(str), "noise": rng.normal(size=600)})
    model = AutoKernelRegressor(random_state=0).fit(table[:400], y[:400])
    assert model.score(table[400:], y[400:]) > 0.9
    assert model.columns_["kind"].tolist() == ["date", "number"]


def test_notebooks_show_what_became_of_the_columns():
    texts, _ = raw_table()
    texts["<b>"] = np.arange(len(texts))
    preparer = TablePreparer()
    assert "columns, and what became" not in preparer._repr_html_()
    html = preparer.fit(texts)._repr_html_()
    assert "5 columns, and what became of them" in html
    assert "<td>percent</td>" in html
    assert "<td>&lt;b&gt;</td>" in html
    assert preparer._repr_mimebundle_()["text/html"].count("<td>percent</td>") == 1
    with sklearn.config_context(display="text"):
        assert not hasattr(preparer, "_repr_html_")
        assert set(preparer._repr_mimebundle_()) == {"text/plain"}
    model = AutoKernelRegressor(random_state=0).fit(texts, np.arange(len(texts)) % 7.0)
    assert "<td>percent</td>" in model._repr_html_()


def test_a_file_is_read_alike_by_the_command_line_and_by_pandas(tmp_path):
    texts, _ = raw_table()
    texts["sure"] = np.where(np.arange(len(texts)) % 3, "yes", "no")
    texts["grade"] = np.array(["A", "B", "C"])[np.arange(len(texts)) % 3]
    path = tmp_path / "table.csv"
    texts.assign(y=np.arange(len(texts)) % 7).to_csv(path, index=False)
    by_command = read(path, target="y", raw=True).X
    by_pandas = pd.read_csv(path).drop(columns="y")
    first, second = TablePreparer().fit(by_command), TablePreparer().fit(by_pandas)
    assert first.kinds_ == second.kinds_
    np.testing.assert_array_equal(first.transform(by_command), second.transform(by_pandas))


@pytest.mark.parametrize(
    "between", [",", "'", "\u2019", "\u00a0", "\u202f", "\u2009", " ", "\u066c"]
)
def test_thousands_are_read_with_every_separator(between):
    texts = ["3,185.17", "17.5", "1,006", "12,345,678.9"]
    values = [3185.17, 17.5, 1006, 12345678.9]
    points = [text.replace(",", between) for text in texts]
    assert read_as(points, format_of(points)).tolist() == values
    if between != ",":
        commas = [text.replace(".", ",") for text in (text.replace(",", between) for text in texts)]
        assert read_as(commas, format_of(commas)).tolist() == values


def test_thousands_in_indian_groups_are_read():
    texts = ["1,23,456", "99,999.5", "12,34,56,789", "7"]
    assert read_as(texts, format_of(texts)).tolist() == [123456, 99999.5, 123456789, 7]
    rupees = [f"₹ {text}" for text in texts]
    assert read_as(rupees, format_of(rupees)).tolist() == [123456, 99999.5, 123456789, 7]
    assert format_of(["1,2,3", "4,5,6"]) == ""
