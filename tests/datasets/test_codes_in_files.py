"""Codes, digits behind a leading zero, are found in files, and dates are not taken for them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mercer import datasets
from mercer.datasets import csv_text, number_columns

CODES = ("007", "-01", "+00", "01.5", " 01", "01 ", "00", '"05"')
NO_CODES = ("1.5", "0.05", "-0.1", "12", "0", "1e05", "00a", "x01")
DATES = ("01/02/2020", "01.02.2020", "2020-01-02", "01 Jan", "09:30")


@settings(max_examples=150, deadline=None)
@given(
    cells=st.lists(
        st.sampled_from([*CODES, *NO_CODES, *DATES]),
        min_size=1,
    ),
    delimiter=st.sampled_from(",;\t\n"),
    end=st.sampled_from(["", "\n", "\r\n"]),
    piece=st.sampled_from([70, 256, number_columns._PIECE]),
)
def test_a_text_may_hold_codes_just_where_some_cell_is_one(cells, delimiter, end, piece):
    pyarrow = pytest.importorskip("pyarrow")
    text = pyarrow.BufferReader((delimiter.join(cells) + end).encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(number_columns, "_PIECE", piece)
        found = number_columns.may_hold_codes(text)
    assert found == any(cell in CODES for cell in cells)


@pytest.mark.parametrize("date", ["01/02/2020", "01.02.2020", "2020-01-02 03:04", "01 Jan 2020"])
def test_dates_do_not_have_a_table_read_twice(tmp_path, date, monkeypatch):
    pytest.importorskip("pyarrow")
    parse, calls = csv_text.CsvText._parse, []

    def counted(*arguments):
        calls.append(arguments)
        return parse(*arguments)

    monkeypatch.setattr(csv_text.CsvText, "_parse", counted)
    path = tmp_path / "days.csv"
    path.write_text(f"day,size,y\n{date},0.5,0\n{date},1.5,1\n")
    table = datasets.read(path, raw=True)
    assert table.X[:, 1].tolist() == [0.5, 1.5]
    assert len(calls) == 1


def test_codes_are_found_behind_blanks_and_signs_and_nowhere_else():
    pyarrow = pytest.importorskip("pyarrow")
    for text in ("007", " 007", "+01", "-00.5", "\t01,5 "):
        assert number_columns.hold_codes(pyarrow.chunked_array([["1", None, text]]))
    for text in ("0", "0.07", "-0", "01/02/2020", "01a", "700"):
        assert not number_columns.hold_codes(pyarrow.chunked_array([["1", None, text]]))
