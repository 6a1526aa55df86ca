"""Reading files: every format gives its table back, every broken file one sentence."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from _data import shared_data
from mercer import datasets
from mercer.datasets import DataError, readers

COMPRESS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
SVM = b"1 1:0.5 3:2\n-1 2:1\n1\n"
CSV = b"age,height,kind\n30,1.5,cat\n40,1.75,dog\n"


@pytest.fixture
def put(tmp_path):
    """Write bytes or text to a file of the given name."""

    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


# --- CSV -----------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", COMPRESS)
def test_csv_with_a_string_target(put, suffix):
    table = datasets.read(put("data.csv" + suffix, COMPRESS[suffix](CSV)), "kind")
    np.testing.assert_array_equal(table.X, [[30, 1.5], [40, 1.75]])
    assert table.X.dtype == np.float64
    assert table.y.tolist() == ["cat", "dog"]
    assert table.feature_names == ("age", "height")
    assert table.target_name == "kind"
    assert repr(table) == "Table(2 rows, 2 features, target kind)"


@pytest.mark.parametrize("target", ["a", 0, -3, "0", "-3"])
def test_the_target_may_be_a_name_or_a_number(put, target):
    table = datasets.read(put("data.csv", "a,b,c\n1,2,3\n4,5,6\n"), target)
    assert table.y.tolist() == [1, 4]
    assert table.y.dtype == np.int64
    np.testing.assert_array_equal(table.X, [[2, 3], [5, 6]])


def test_without_a_target_all_columns_are_features(put):
    table = datasets.read(put("data.csv", "a,b\n1,2\n"))
    assert table.y is None
    assert table.target_name is None
    assert table.feature_names == ("a", "b")
    assert repr(table) == "Table(1 rows, 2 features, no target)"


def test_columns_are_chosen_by_name_in_the_order_asked_for(put):
    path = put("data.csv", "id,b,a,y\nn1,2,1,0\nn2,4,3,1\n")
    table = datasets.read(path, "y", columns=["a", "b"])
    np.testing.assert_array_equal(table.X, [[1, 2], [3, 4]])
    assert table.feature_names == ("a", "b")
    with pytest.raises(DataError, match="no feature column 'A'; did you mean 'a'"):
        datasets.read(path, columns=["A"])


@pytest.mark.parametrize(
    ("text", "names", "rows"),
    [
        ("1,2\n3,4\n", None, 2),
        ("a,b\n3,4\n", ("a", "b"), 1),
        ("0,1,2\n3.5,4,5\n", ("0", "1", "2"), 1),
        ("x1,2019\n3,4\n", ("x1", "2019"), 1),
        ("1,2\n", None, 1),
    ],
    ids=["numbers", "names", "counted names", "a name above a number", "one row"],
)
def test_a_header_is_told_from_data(put, text, names, rows):
    table = datasets.read(put("data.csv", text))
    assert table.feature_names == names
    assert len(table.X) == rows


def test_a_label_in_the_first_column_is_no_header(put):
    table = datasets.read(put("letters.csv", "T,2,8\nI,5,12\n"), 0)
    assert table.y.tolist() == ["T", "I"]
    assert table.feature_names is None


def test_header_can_be_settled_by_the_caller(put):
    path = put("data.csv", "0,1\n2,3\n")
    assert len(datasets.read(path, header=False).X) == 2
    assert datasets.read(path, header=True).feature_names == ("0", "1")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("data.csv", '"a, first",b\n"1","2"\n'),
        ("data.csv", "\ufeffa, first;b\n1;2\n"),
        ("data.tsv", "a, first\tb\n1\t2\n"),
        ("data.csv", '\n"a, first" , b\r\n 1 , 2 \r\n'),
        ("data.txt", "a, first\tb\tb2\n1\t2\t3\n"),
    ],
    ids=["quoted", "semicolons and byte order mark", "tabs", "blanks", "no extension"],
)
def test_csv_dialects(put, name, text):
    table = datasets.read(put(name, text))
    assert table.feature_names[:2] == ("a, first", "b")
    np.testing.assert_array_equal(table.X[:, :2], [[1, 2]])


def test_quoted_cells_may_hold_delimiters_and_line_ends(put):
    table = datasets.read(put("data.csv", 'x,label\n1,"a, or\nb"\n2,"say ""c"""\n'), "label")
    assert table.y.tolist() == ["a, or\nb", 'say "c"']


def test_a_fraction_far_down_among_integers_is_read(put, monkeypatch):
    from mercer.datasets import csv_text

    monkeypatch.setattr(csv_text, "_BLOCK", 64)
    rows = [f"{i},{i}" for i in range(100)] + ["0.5,0.25"]
    table = datasets.read(put("data.csv", "a,y\n" + "\n".join(rows)), "y")
    assert table.X[-1, 0] == 0.5
    assert table.y[-1] == 0.25
    with pytest.raises(DataError, match=r"column a: Row #102: .*invalid value 'x'"):
        datasets.read(put("data.csv", "a,y\n" + "\n".join([*rows[:100], "x,1"])))


def test_a_row_wider_than_the_first_look_at_the_file_is_read(put):
    text = ",".join(f"column{j}" for j in range(9000)) + "\n" + ",".join(["1"] * 9000) + "\n"
    assert datasets.read(put("wide.csv", text)).X.shape == (1, 9000)


def test_blanks_around_a_target_do_not_matter(put):
    assert datasets.read(put("data.csv", "a, y\n1, 2\n2,3 \n"), "y").y.tolist() == [2, 3]
    assert datasets.read(put("data.csv", "a,y\n1, b\n2,c \n"), "y").y.tolist() == ["b", "c"]


def test_booleans_are_numbers(put):
    table = datasets.read(put("data.csv", "a,b,y\ntrue,1,true\nfalse,2,false\n"), "y")
    np.testing.assert_array_equal(table.X, [[1, 1], [0, 2]])
    assert table.y.tolist() == ["true", "false"]


CSV_FAULTS = {
    "unknown column": (CSV, "hight", "has no column 'hight'; did you mean 'height'"),
    "case": (CSV, "AGE", "has no column 'AGE'; did you mean 'age'"),
    "far from all": (CSV, "zzz", "has no column 'zzz'; it has 'age', 'height', 'kind'$"),
    "number too high": (CSV, 3, r"target column 3 is outside its 3 columns \(0 to 2"),
    "name without header": ("1,2\n3,4\n", "y", "no header, so the target must be a column number"),
    "text": (CSV, None, "column kind is not numeric"),
    "texts": ("a,b,c\nx,y,1\n", None, "columns a, b are not numeric"),
    "dates": ("a,b\n2020-01-01,1\n", None, "column a is not numeric"),
    "missing": ("a,b,c\n1,,3\n,nan,3\n", None, r"missing values in columns a \(1\), b \(2\)"),
    "all missing": ("a,b\n,1\n,2\n", None, r"missing values in column a \(2\)"),
    "infinite": ("a,b\ninf,1\n2,-inf\n", None, r"infinite values in columns a \(1\), b \(1\)"),
    "target missing": ("a,b\n1,\n2,3\n", "b", "target 'b' is missing or infinite in 1 rows"),
    "target nan": ("a,b\n1,0.5\n2,NaN\n", "b", "target 'b' is missing or infinite in 1 rows"),
    "ragged": ("a,b\n1,2\n1,2,3\n", None, "Row #3: Expected 2 columns, got 3"),
    "names twice": ("a,b,a\n1,2,3\n", None, "column name a is more than once in the header"),
    "header alone": ("a,b\n", None, "holds a header and no row"),
    "blank": ("\n \n", None, "is empty"),
    "target alone": ("y\n1\n2\n", "y", "has no column besides the target 'y'"),
    "target blank": ("a,b\n1,x\n2, \n", "b", "target 'b' is missing or infinite in 1 rows"),
    "latin": (b"a,b\n1,2\n\xe9,3\n", None, "not UTF-8 text"),
}


@pytest.mark.parametrize("fault", CSV_FAULTS)
def test_broken_csv_is_one_sentence(put, fault):
    content, target, message = CSV_FAULTS[fault]
    with pytest.raises(DataError, match=message) as caught:
        datasets.read(put("data.csv", content), target)
    assert "\n" not in str(caught.value)
    assert "data.csv" in str(caught.value)


def test_many_bad_columns_are_not_all_listed(put):
    names = [f"c{j}" for j in range(9)]
    text = ",".join(names) + "\n" + ",".join("x" * 9) + "\n"
    with pytest.raises(DataError, match="columns c0, c1, c2, c3, c4 and 4 more are not numeric"):
        datasets.read(put("data.csv", text))


# --- Parquet -------------------------------------------------------------------------------


@pytest.fixture
def frame():
    return pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5], "y": ["no", "yes"]})


def test_parquet_round_trip(tmp_path, frame):
    frame.to_parquet(tmp_path / "data.parquet")
    table = datasets.read(tmp_path / "data.parquet", "y")
    np.testing.assert_array_equal(table.X, [[1, 0.5], [2, 1.5]])
    assert table.y.tolist() == ["no", "yes"]
    assert (table.feature_names, table.target_name) == (("a", "b"), "y")


def test_parquet_is_known_by_content(tmp_path, frame):
    frame.to_parquet(tmp_path / "data.bin")
    assert datasets.read(tmp_path / "data.bin", "y").X.shape == (2, 2)


def test_parquet_keeps_float32_and_drops_the_pandas_index(tmp_path, frame):
    small = frame.drop(columns="y").astype(np.float32).set_index(pd.Index(["r", "s"]))
    small.to_parquet(tmp_path / "data.parquet")
    table = datasets.read(tmp_path / "data.parquet")
    assert table.X.dtype == np.float32
    assert table.feature_names == ("a", "b")


def test_parquet_categories_are_labels_and_decimals_are_numbers(tmp_path, frame):
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {
        "x": pa.array([1.0, 2.0]).cast(pa.decimal128(5, 1)),
        "y": pa.array(["no", "yes"]).dictionary_encode(),
        "flag": pa.array([True, False]),
    }
    pq.write_table(pa.table(columns), tmp_path / "data.parquet")
    table = datasets.read(tmp_path / "data.parquet", "y", columns=["x"])
    np.testing.assert_array_equal(table.X, [[1], [2]])
    assert table.y.tolist() == ["no", "yes"]
    flagged = datasets.read(tmp_path / "data.parquet", "flag", columns=["x"])
    assert flagged.y.tolist() == [True, False]
    with pytest.raises(DataError, match="column y is not numeric"):
        datasets.read(tmp_path / "data.parquet", "flag")


def test_broken_parquet_is_one_sentence(tmp_path, put, frame):
    frame.loc[0, "b"] = np.nan
    frame.to_parquet(tmp_path / "gap.parquet")
    with pytest.raises(DataError, match=r"missing values in column b \(1\)"):
        datasets.read(tmp_path / "gap.parquet", "y")
    with pytest.raises(DataError, match="has no column 'z'"):
        datasets.read(tmp_path / "gap.parquet", "z")
    whole = (tmp_path / "gap.parquet").read_bytes()
    with pytest.raises(DataError, match="not a whole Parquet file"):
        datasets.read(put("cut.parquet", whole[: len(whole) // 2]))
    frame[:0].to_parquet(tmp_path / "empty.parquet")
    with pytest.raises(DataError, match="is empty"):
        datasets.read(tmp_path / "empty.parquet", "y")
    with pytest.raises(DataError, match=r"not PARQUET by its content"):
        datasets.read(put("csv.parquet", CSV))


def test_a_missing_reader_names_what_to_install(put, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r'pip install "mercer\[cli\]"'):
        datasets.read(put("data.csv", CSV), "kind")


# --- NPZ -----------------------------------------------------------------------------------


def npz(**arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


@pytest.mark.parametrize("name", ["data.npz", "data.bin"])
def test_npz_keeps_its_dtype(put, name):
    X, y = np.arange(6, dtype=np.uint8).reshape(3, 2), np.array(["a", "b", "a"])
    table = datasets.read(put(name, npz(X=X, y=y, feature_names=np.array(["u", "v"]))))
    np.testing.assert_array_equal(table.X, X)
    assert table.X.dtype == np.uint8
    assert table.y.tolist() == ["a", "b", "a"]
    assert (table.feature_names, table.target_name) == (("u", "v"), "y")


def test_npz_training_part_and_named_target(put):
    X, y = np.eye(3), np.arange(3)
    path = put("data.npz", npz(X_train=X, y_train=y, X_test=X[:1], other=y * 2))
    assert datasets.read(path).target_name == "y_train"
    assert datasets.read(path, "other").y.tolist() == [0, 2, 4]
    assert datasets.read(put("plain.npz", npz(X=X))).y is None
    assert set(readers.read_parts(path)) == {"X_train", "y_train", "X_test", "other"}


@pytest.mark.parametrize("layout", ["csr", "csc"])
def test_npz_of_scipy_is_sparse(tmp_path, layout):
    X = sparse.random_array((5, 4), density=0.4, format=layout, random_state=0)
    sparse.save_npz(tmp_path / "data.npz", X)
    table = datasets.read(tmp_path / "data.npz")
    assert isinstance(table.X, sparse.csr_array)
    np.testing.assert_array_equal(table.X.toarray(), X.toarray())


GOOD_CSR = {
    "data": np.ones(2),
    "indices": np.array([0, 1]),
    "indptr": np.array([0, 1, 2]),
    "shape": np.array([2, 2]),
}
NPZ_FAULTS = {
    "no X": ({"Z": np.eye(2)}, "must hold an array X or X_train.*it holds 'Z'"),
    "vector": ({"X": np.arange(3)}, r"X must be a matrix of numbers, got shape \(3,\)"),
    "text": ({"X": np.array([["a"]])}, "X must be a matrix of numbers"),
    "objects": ({"X": np.array([[None]])}, "cannot be read"),
    "nan": ({"X": np.array([[np.nan, 1]])}, "X holds 1 missing or infinite values"),
    "y nan": ({"X": np.eye(1), "y": np.array([np.inf])}, "y holds 1 missing or infinite"),
    "lengths": ({"X": np.eye(2), "y": np.arange(3)}, r"y of shape \(3,\) does not go with X"),
    "no rows": ({"X": np.empty((0, 2))}, "is empty"),
    "no columns": ({"X": np.empty((2, 0))}, "rows without features"),
    "names": ({"X": np.eye(2), "feature_names": np.array(["a"])}, "1 feature_names for 2"),
    "no shape": ({k: v for k, v in GOOD_CSR.items() if k != "shape"}, "lacks shape"),
    "column": (GOOD_CSR | {"indices": np.array([0, 7])}, "no valid sparse matrix"),
    "layout": (GOOD_CSR | {"format": np.array(b"bsr")}, "sparse format 'bsr'"),
}


@pytest.mark.parametrize("fault", NPZ_FAULTS)
def test_broken_npz_is_one_sentence(put, fault):
    arrays, message = NPZ_FAULTS[fault]
    with pytest.raises(DataError, match=message) as caught:
        datasets.read(put("data.npz", npz(**arrays)))
    assert "\n" not in str(caught.value)


def test_npz_unknown_target_names_the_arrays(put):
    with pytest.raises(DataError, match="has no array 'z'; it has 'X', 'y'"):
        datasets.read(put("data.npz", npz(X=np.eye(2), y=np.arange(2))), "z")


# --- files that are none -------------------------------------------------------------------

FILE_FAULTS = {
    "empty.csv": (b"", "is empty"),
    "empty.npz": (b"", "is empty"),
    "empty.svm.gz": (gzip.compress(b""), "is empty"),
    "cut.csv.gz": (gzip.compress(CSV * 50)[:-9], "truncated or damaged"),
    "cut.svm.bz2": (bz2.compress(SVM * 50)[:-9], "truncated or damaged"),
    "cut.svm.xz": (lzma.compress(SVM * 50)[:-9], "truncated or damaged"),
    "hurt.csv.gz": (gzip.compress(CSV)[:12] + b"\0\0\0\0", "truncated or damaged"),
    "cut.npz": (npz(X=np.eye(9))[:300], "truncated or damaged"),
    "text.npz": (CSV, "not NPZ by its content"),
    "model.pkl": (b"\x80\x04\x95\0\0\0", "none of the formats that can be read"),
    "binary.csv": (b"a,b\n1,\0\0\n", "none of the formats that can be read"),
    "prose.txt": (b"once upon a time\n", "neither LIBSVM text nor CSV"),
}


@pytest.mark.parametrize("name", FILE_FAULTS)
def test_a_file_that_is_no_data_is_one_sentence(put, name):
    content, message = FILE_FAULTS[name]
    with pytest.raises(DataError, match=message) as caught:
        datasets.read(put(name, content))
    assert "\n" not in str(caught.value)
    assert name in str(caught.value)


def test_damage_deep_inside_a_file_is_found_too(put, rng):
    text = "\n".join(f"1 1:{v}" for v in rng.random(30_000)).encode()
    for name, packed in {"d.svm.gz": gzip.compress(text), "d.svm.xz": lzma.compress(text)}.items():
        with pytest.raises(DataError, match="truncated or damaged"):
            datasets.read(put(name, packed[: len(packed) * 3 // 4]))
    table = b"a,b\n" + text.replace(b" 1:", b",")
    with pytest.raises(DataError, match="truncated or damaged"):
        datasets.read(put("d.csv.gz", gzip.compress(table)[:-4000]))


PIECES = [
    "1",
    "-1",
    "2.5",
    "1:2",
    "2:3",
    " ",
    ",",
    ",",
    ";",
    "\t",
    "\n",
    "\n",
    "\r",
    '"',
    "a",
    "nan",
]
PIECES += ["#", "qid:1", "0:1", "\0", "é", "?", "true", "2020-01-01", "\ufeff", "x,y", "1e400"]


@settings(max_examples=300, deadline=None)
@given(
    content=st.lists(st.sampled_from(PIECES), max_size=25).map("".join).map(str.encode)
    | st.binary(max_size=40),
    name=st.sampled_from(["f.csv", "f.tsv", "f.svm", "f.txt", "f", "f.npz", "f.parquet"]),
    target=st.sampled_from([None, 0, "a"]),
)
def test_any_bytes_give_a_table_or_one_sentence(content, name, target, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(content)
    try:
        table = datasets.read(path, target)
    except DataError as error:
        sentence = str(error)
    else:
        sentence = f"{table}"
        assert min(table.X.shape) > 0
        assert table.y is None or len(table.y) == table.X.shape[0]
    assert sentence
    assert "\n" not in sentence


def test_what_cannot_be_opened_is_said(tmp_path, put, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"there is no file .*absent\.csv"):
        datasets.read(tmp_path / "absent.csv")
    with pytest.raises(IsADirectoryError, match="is a directory"):
        datasets.read(tmp_path)
    path = put("secret.csv", CSV)

    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(path), "open", refuse)
    with pytest.raises(PermissionError, match=r"secret\.csv may not be read"):
        datasets.read(path)


def test_raw_tables_keep_texts_dates_and_gaps(put):
    path = put("t.csv", "n,t,d,b,y\n1.5,cat,2020-01-02,true,1\n,,,,2\n")
    table = datasets.read(path, "y", raw=True)
    assert table.X.dtype == object
    number, text, when, boolean = table.X[0]
    assert (number, text, boolean) == (1.5, "cat", 1)
    assert str(when) == "2020-01-02 00:00:00"
    assert np.isnan(table.X[1, 0])
    assert table.X[1, 1] is None
    assert table.X[1, 2] is None


def test_raw_tables_of_numbers_are_float64_with_nan(put):
    table = datasets.read(put("t.csv", "a,b,y\n1,2,1\n,3,2\n"), "y", raw=True)
    np.testing.assert_array_equal(table.X, [[1.0, 2.0], [np.nan, 3.0]])


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("a.csv", CSV, {"zero_based": True}, "is CSV, which takes no zero_based, got True"),
        ("a.svm", SVM, {"header": True}, "is LIBSVM text, which takes no header"),
        ("a.svm", SVM, {"columns": ["a"]}, "is LIBSVM text, which takes no columns"),
        ("a.npz", npz(X=np.eye(2)), {"columns": ["a"]}, "is NPZ, which takes no columns"),
        ("a.npz", npz(X=np.eye(2)), {"n_features": 3}, "holds 2 features, n_features=3 were"),
    ],
)
def test_options_of_another_format_are_not_dropped_in_silence(put, name, content, options, message):
    with pytest.raises(DataError, match=message):
        datasets.read(put(name, content), **options)


# --- real files ----------------------------------------------------------------------------


def test_real_parquet_with_text_names_the_column():
    path = shared_data("imdb_reviews_test.parquet")
    with pytest.raises(DataError, match="column text is not numeric"):
        datasets.read(path, "stars")


def test_the_examples_run(check_examples):
    check_examples(readers)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_utf_16_text_with_a_mark_is_read(tmp_path, encoding, suffix):
    mark = "" if encoding == "utf-16" else "\ufeff"
    for name, text in (("t.csv", "größe,y\n1.5,rot\n2,grün\n"), ("t.svm", "1 1:2\n-1 2:3\n")):
        content = f"{mark}{text}".encode(encoding)
        path = tmp_path / f"{name}{suffix}"
        path.write_bytes(gzip.compress(content) if suffix else content)
        table = datasets.read(path, "y" if name == "t.csv" else None)
        if name == "t.csv":
            assert table.feature_names == ("größe",)
            assert (table.X.ravel().tolist(), table.y.tolist()) == ([1.5, 2.0], ["rot", "grün"])
        else:
            assert table.X.toarray().tolist() == [[2.0, 0.0], [0.0, 3.0]]
