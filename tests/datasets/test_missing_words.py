"""Words for missing cells of CSV files: given by the reader's caller, or warned of as labels."""

import gzip
import warnings

import numpy as np
import pytest

from mercer import datasets
from mercer.datasets import DataError, csv_text
from mercer.datasets.readers import columns_of

pytest.importorskip("pyarrow")

COUNTRIES = "country,x,y\nNA,1,2\nDE,2,3\n,3,4\nNA,4,5\n"


@pytest.fixture
def put(tmp_path):
    """Write a text to a file; returns the path."""

    def write(text, name="t.csv"):
        path = tmp_path / name
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return path

    return write


def cells(path, column=0, **options):
    return datasets.read(path, raw=True, **options).X[:, column].tolist()


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_given_words_stand_in_place_of_the_usual_ones_and_blank_cells_stay_missing(put, name):
    path = put(COUNTRIES, name)
    assert cells(path, missing=[]) == ["NA", "DE", None, "NA"]
    assert cells(path, missing={"DE"}) == ["NA", None, None, "NA"]
    assert cells(path, missing=csv_text.MISSING) == [None, "DE", None, None]
    pieces = columns_of(path, ("DE",)).pieces(["country"], ["country"], True)
    assert [cell for piece in pieces for cell in piece["country"].to_pylist()] == [
        "NA",
        None,
        None,
        "NA",
    ]


@pytest.mark.parametrize("mixed", [True, False])
def test_given_words_are_missing_among_numbers(put, mixed):
    path = put("a,b\n1,2.5\n-999,3\n4,-999\n")
    for read in (
        columns_of(path, ["-999"]).table((), mixed),
        next(columns_of(path, ["-999"]).pieces(["a", "b"], (), mixed, ["a", "b"])),
    ):
        assert read["a"].to_pylist() == [1, None, 4]
        assert read["b"].to_pylist() == [2.5, 3, None]


def test_a_target_keeps_labels_that_are_no_words_for_missing_cells(put):
    path = put("x,kind\n1,None\n2,Stone\n3,None\n")
    with pytest.raises(DataError, match="missing or infinite in 2 rows"):
        datasets.read(path, "kind")
    assert datasets.read(path, "kind", missing=[]).y.tolist() == ["None", "Stone", "None"]


def test_a_first_line_of_words_that_are_labels_is_a_header(put):
    path = put("NA,NULL\na,b\n")
    assert datasets.read(path, raw=True).feature_names is None
    assert datasets.read(path, raw=True, missing=[]).feature_names == ("NA", "NULL")


@pytest.mark.parametrize("words", ["NA", b"NA", 3, ["NA", None], iter(["NA"])])
def test_words_must_be_a_collection_of_texts(put, words):
    with pytest.raises(TypeError, match=r"missing must be None or a collection of texts, .*; got "):
        datasets.read(put(COUNTRIES), raw=True, missing=words)


def test_other_formats_take_no_words(put, tmp_path):
    pandas = pytest.importorskip("pandas")
    np.savez(tmp_path / "t.npz", X=np.eye(2))
    pandas.DataFrame({"a": [1.0]}).to_parquet(tmp_path / "t.parquet")
    for path in (put("1 1:2\n", "t.svm"), tmp_path / "t.npz", tmp_path / "t.parquet"):
        with pytest.raises(DataError, match=r"which takes no missing, got \[\]"):
            datasets.read(path, missing=[])


def test_one_warning_names_words_beside_blank_cells_of_labels(put):
    path = put("country,masonry,x\nNA,None,1\nDE,Stone,2\n,,3\nNA,Brick,4\nFR,?,5\n", name="t.csv")
    with pytest.warns(UserWarning, match="taken as missing") as told:
        read = cells(path)
    assert read == [None, "DE", None, None, "FR"]
    assert len(told) == 1
    assert told[0].filename == __file__
    assert str(told[0].message) == (
        f"{path}: words beside blank cells are taken as missing in columns 'country' (rows of "
        "'NA': 2), 'masonry' (rows of 'None': 1), 'masonry' (rows of '?': 1); missing=[] "
        "(--missing '' on the command line) makes such words labels."
    )


def test_columns_that_are_not_taken_are_not_warned_of(put):
    assert datasets.read(put(COUNTRIES), "y", columns=["x"]).X.tolist() == [[1], [2], [3], [4]]


def test_words_in_a_target_beside_blank_cells_are_warned_of(put):
    path = put("x,kind\n1,None\n2,Stone\n3,\n")
    with (
        pytest.warns(UserWarning, match=r"column 'kind' \(rows of 'None': 1\)"),
        pytest.raises(DataError, match="missing or infinite in 2 rows"),
    ):
        datasets.read(path, "kind")


@pytest.mark.parametrize(
    "column",
    [
        ["NA", "DE", "NA", "FR"],  # words alone
        ["", "DE", "", "FR"],  # blank cells alone
        ["NA", "1", "", "2.5"],  # numbers
        ["NA", "$1", "", "$2"],  # amounts
        ["NA", "1 May 2020", "", "2 May 2020"],  # dates
        ["NA", "007", "", "011"],  # codes
        ["NA", "", "NA", ""],  # no label
    ],
)
def test_columns_without_doubt_are_read_without_a_warning(put, column):
    path = put("c,x\n" + "".join(f"{cell},{j}\n" for j, cell in enumerate(column)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(datasets.read(path, raw=True).X) == len(column)


@pytest.mark.parametrize(
    ("text", "n"), [("c,x\nNA,1\nDE,\n", 1), ("c,x\nDE,1\nFR,\n", 0), ("x,y\n1,NA\n2,\n", 0)]
)
def test_a_table_is_read_twice_just_where_a_column_of_texts_has_gaps(put, monkeypatch, text, n):
    parse, calls = csv_text.CsvText._parse, []

    def counted(*arguments):
        calls.append(arguments)
        return parse(*arguments)

    monkeypatch.setattr(csv_text.CsvText, "_parse", counted)
    datasets.read(put(text), raw=True)
    assert len(calls) == 1 + n
