"""Files that were made to break the readers: a table or one sentence with the file's name."""

from __future__ import annotations

import datetime
import gzip
import io
import os
import random
import struct
import subprocess
import sys
import zipfile
from decimal import Decimal

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet
from scipy import sparse

from _reader_corpus import corpus
from mercer import config_context, datasets
from mercer.datasets import DataError

CSR = {
    "data": np.ones(2),
    "indices": np.array([0, 1]),
    "indptr": np.array([0, 1, 2]),
    "shape": np.array([2, 2]),
}


def npz(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def archive(**members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in members.items():
            made.writestr(name, content)
    return file.getvalue()


def header(shape, kind="<f8"):
    file = io.BytesIO()
    stated = {"descr": kind, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, stated)
    return file.getvalue()


def table(**columns):
    file = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), file)
    return file.getvalue()


def unsupported(content):
    """An archive that says it was packed by a method nobody knows."""
    return content.replace(struct.pack("<HHH", 45, 0, 0), struct.pack("<HHH", 45, 0, 77))


REFUSED = {
    # NPZ
    "text.npz": (archive(**{"X.npy": b"hello"}), "'X.npy' cannot be read as an array"),
    "no suffix.npz": (archive(X=b"hello"), "'X' cannot be read as an array"),
    "folder.npz": (archive(**{"d/": b"", "X.npy": header((0, 3))}), "'d/' cannot be read"),
    "lie.npz": (archive(**{"X.npy": header((10**12, 3)) + b"0" * 99}), "states 24000000000000"),
    "short lie.npz": (
        archive(**{"X.npy": header((1, 1)) + b"0" * 99}),
        "states 8 bytes, it has 99",
    ),
    "negative.npz": (archive(**{"X.npy": header((-3, 3))}), "states -72 bytes"),
    "sizeless.npz": (archive(**{"X.npy": header((10**9, 10**9), "|V0")}), "have no size"),
    "method.npz": (unsupported(npz(X=np.eye(2))), "cannot be read"),
    "dates.npz": (npz(X=np.eye(2), y=np.zeros(2, "M8[s]")), "y must hold numbers or texts"),
    "complex.npz": (npz(X=np.eye(2), y=np.zeros(2, complex)), "y must hold numbers or texts"),
    "scalar.npz": (npz(X=np.array(3.0)), r"X must be a matrix of numbers, got shape \(\)"),
    "scalar y.npz": (npz(X=np.eye(2), y=np.array(1)), r"y of shape \(\)"),
    "no y.npz": (npz(X=np.eye(2), y=np.empty((2, 0))), r"y of shape \(2, 0\)"),
    "one name.npz": (npz(X=np.eye(2), feature_names=np.array("ab")), "1 feature_names for 2"),
    "record.npz": (npz(X=np.zeros(3, [("a", "f8")])), "X must be a matrix of numbers"),
    "format list.npz": (npz(**CSR, format=np.array(["csr"])), "sparse format"),
    "format number.npz": (npz(**CSR, format=np.array(3)), "sparse format '3'"),
    "format nothing.npz": (npz(**CSR, format=np.array([])), "sparse format"),
    "three.npz": (npz(**CSR | {"shape": np.array([2, 2, 2])}), "shape must be two whole numbers"),
    "minus.npz": (npz(**CSR | {"shape": np.array([-2, 2])}), "shape must be two whole numbers"),
    "fraction.npz": (npz(**CSR | {"shape": np.array([2.0, 2])}), "shape must be two whole"),
    "one.npz": (npz(**CSR | {"shape": np.array(2)}), "shape must be two whole numbers"),
    "indices.npz": (npz(**CSR | {"indices": np.array([0, -1])}), "at least 0 and below 2; got -1"),
    "far.npz": (npz(**CSR | {"indices": np.array([0, 2**40])}), "below 2; got 1099511627776"),
    "falls.npz": (npz(**CSR | {"indptr": np.array([0, 5, 2])}), "indptr must never fall"),
    "letters.npz": (npz(**CSR | {"data": np.array(["a", "b"])}), "data must be a 1-dim"),
    # LIBSVM
    "far.svm": (b"1 9223372036854775808:1\n", "line 1: a feature index must be below"),
    "digits.svm": (b"1 " + b"9" * 5000 + b":1\n", "line 1: a feature index must be below"),
    "infinite.svm": (b"1 1:1\n2 1:1e400\n", "line 2: a feature value must be finite"),
    "query.svm": (b"1 1:1 qid:3\n", "line 1: a feature index must be an integer"),
    "nul.svm": (b"1 1:1\0 2:1\n", "none of the formats"),
    "wide.svm": ("1 1:1\n".encode("utf-16-le"), "looks like UTF-16 text without a byte order mark"),
    "odd.csv": ("a,b\n1,2\n".encode("utf-16") + b"\x00\xdc", "is not whole UTF-16 text"),
    "long.svm": (b"1 " + b"x" * 10**6 + b"\n", r"line 1: .*'xxx.*\.\.\.'$"),
    # CSV
    "ragged.csv": (b"a,b\n1,2\n3\n", "Expected 2 columns, got 1"),
    "twice.csv": (b"a,a\n1,2\n", "column name a is more than once in the header"),
    "header.csv": (b"a,b\n", "holds a header and no row"),
    "nul.csv": (b"a,b\n1,\0\n", "none of the formats"),
    "latin.csv": (b"a,b\n1,\xe9\n", "is not UTF-8 text .*; write it as UTF-8, as iconv -f latin1"),
    "infinite.csv": (b"1e400,2\n3,4\n", "infinite values in column 0"),
    "quote.csv": (b'a,b\n1,"2\n3,4\n', "column b is not numeric"),
    # Parquet
    "lists.parquet": (table(x=[[1], [2, 3]]), "column x is not numeric"),
    "records.parquet": (table(x=[{"a": 1}]), "column x is not numeric"),
    "empty.parquet": (table(x=pyarrow.array([], "double")), "is empty"),
    "nothing.parquet": (table(), "is empty"),
    "cut.parquet": (table(x=[1.0])[:-9], "not a whole Parquet file"),
    "bare.parquet": (b"PAR1", "not a whole Parquet file"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_one_sentence_with_the_name_of_the_file(tmp_path, name):
    content, message = REFUSED[name]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        datasets.read(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


READ = {
    "returns.svm": (b"1 1:1\r\n2 2:1\r\n", [[1, 0], [0, 1]]),
    "mark.csv": (b"\xef\xbb\xbfa,b\r\n1,2\r\n", [[1, 2]]),
    "old.csv": (b"a,b\r1,2\r", [[1, 2]]),
    "decimals.parquet": (table(x=[Decimal("1.50"), Decimal("2.25")]), [[1.5], [2.25]]),
    "codes.parquet": (table(x=pyarrow.array([1, 2, 1]).dictionary_encode()), [[1], [2], [1]]),
    "short.npz": (npz(**CSR | {"data": np.ones(2, "f2")}), [[1, 0], [0, 1]]),
    "repeated.npz": (
        npz(**CSR | {"indices": np.array([1, 1]), "indptr": np.array([0, 2, 2])}),
        [[0, 2], [0, 0]],
    ),
}


@pytest.mark.parametrize("name", READ)
def test_what_is_unusual_is_read_as_it_is_meant(tmp_path, name):
    content, expected = READ[name]
    path = tmp_path / name
    path.write_bytes(content)
    X = datasets.read(path).X
    np.testing.assert_array_equal(X.toarray() if sparse.issparse(X) else X, expected)


def test_names_of_any_bytes_and_of_any_width_are_read(tmp_path):
    path = tmp_path / "na\udcffme.csv"
    path.write_bytes(b"1,2\n")
    assert datasets.read(path).X.shape == (1, 2)
    wide = tmp_path / "wide.csv"
    wide.write_bytes(b",".join(b"c%d" % j for j in range(5000)) + b"\n" + b"1," * 4999 + b"1\n")
    names = [f"c{j}" for j in range(4999, -1, -1)]
    assert datasets.read(wide, columns=names).X.shape == (1, 5000)


def test_dates_that_are_none_and_columns_of_one_name_are_refused(tmp_path):
    path = tmp_path / "far.parquet"
    far = pyarrow.array([2**62], pyarrow.timestamp("us"))
    parquet.write_table(pyarrow.table({"day": far}), path)
    with pytest.raises(DataError, match="day holds dates outside the years 1 to 9999"):
        datasets.read(path, raw=True)
    zoned = pyarrow.array([datetime.datetime(2020, 1, 1)], pyarrow.timestamp("ns", tz="Asia/Tokyo"))
    parquet.write_table(pyarrow.table({"day": zoned}), path)
    assert datasets.read(path, raw=True).X[0, 0] == datetime.datetime(2020, 1, 1)
    parquet.write_table(pyarrow.table([[1.0], [2.0]], names=["x", "x"]), path)
    for read in (datasets.read, datasets.memory_mapped):
        with pytest.raises(DataError, match="column name x is more than once in the schema"):
            read(path)


def _many_zeros():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made, made.open("X.npy", "w") as to:
        to.write(header((2**20, 16)))
        for _ in range(128):
            to.write(bytes(1 << 20))
    return file.getvalue()


def _many_rows():
    return table(x=pyarrow.array(np.zeros(2**24)))


BOMBS = {
    "zeros.npz": _many_zeros,
    "rows.svm.gz": lambda: gzip.compress(b"1 1:1\n" * (1 << 23)),
    "line.svm.gz": lambda: gzip.compress(b"1 " + b"x" * (1 << 27)),
    "rows.csv.gz": lambda: gzip.compress(b"1,2\n" * (1 << 25)),
    "rows.parquet": _many_rows,
    "wide.svm": lambda: b"1 2147483646:1\n",
    "wide.npz": lambda: npz(**CSR | {"shape": np.array([2, 10**15])}),
    "tall.npz": lambda: npz(**CSR | {"shape": np.array([10**15, 2])}, format=np.array("csc")),
}


@pytest.mark.parametrize("name", BOMBS)
def test_what_would_not_fit_is_refused_with_the_name_of_the_file(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(BOMBS[name]())
    # The limit is on what this process takes more than it has, of which nobody is sure.
    with (
        config_context(max_memory=_in_use() + 100 * 2**20),
        pytest.raises(MemoryError, match=r"needs .* but .* available") as caught,
    ):
        datasets.read(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def _in_use():
    with config_context(max_memory=2**50):
        from mercer._runtime.config import memory_left

        return 2**50 - memory_left()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_what_is_no_regular_file_is_refused_before_it_is_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(DataError, match="is no regular file"):
            datasets.read(path)
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    for path in (tmp_path / "a", tmp_path / "n\0ul.csv", tmp_path / ("x" * 5000)):
        with pytest.raises(DataError, match="cannot be opened"):
            datasets.read(path)


def test_flipped_bytes_and_cut_files_give_a_table_or_a_sentence(tmp_path):
    draw = random.Random(0)
    paths = corpus(tmp_path / "whole")
    for trial in range(1500):
        path = paths[trial % len(paths)]
        content = bytearray(path.read_bytes())
        if draw.random() < 0.3:
            content = content[: draw.randrange(len(content))]
        else:
            for _ in range(draw.choice((1, 1, 3))):
                content[draw.randrange(len(content))] = draw.choice((0, 255, draw.randrange(256)))
        hurt = tmp_path / path.name
        hurt.write_bytes(content)
        try:
            found = datasets.read(hurt, raw=path.suffix == ".parquet")
        except (DataError, MemoryError) as error:
            said = str(error)
        else:
            assert found.X.ndim == 2
            assert found.y is None or len(found.y) == found.X.shape[0]
            continue
        assert str(hurt) in said, bytes(content)
        assert "\n" not in said, bytes(content)


CHILD = """
import io, sys, threading
from pyarrow import csv
from mercer import datasets
opened = []
for name in ("read_csv", "open_csv"):
    def listen(source, *rest, name=name, plain=getattr(csv, name), **options):
        opened.append(type(source))
        return plain(source, *rest, **options)
    setattr(csv, name, listen)
try:
    datasets.read(sys.argv[1], "y")
except datasets.DataError as error:
    print(error)
print(*(kind.__module__ for kind in opened))
"""


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_arrow_is_given_files_of_its_own_for_its_threads_outlive_the_interpreter(tmp_path, suffix):
    content = b"name,a,y\n" + b"n1,2.5,1\n" * 1000
    path = tmp_path / f"table.csv{suffix}"
    path.write_bytes(gzip.compress(content) if suffix else content)
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(path)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    sentence, kinds = done.stdout.splitlines()
    assert sentence.endswith("column name is not numeric; encode or leave out such columns")
    assert set(kinds.split()) == {"pyarrow.lib"}
