"""Parquet files as arrays that stay in files: the same table, whole files, found again."""

import os
import tracemalloc

import numpy as np
import pandas as pd
import pytest

from mercer import datasets
from mercer.datasets import DataError, mapped, memory_mapped

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "a": rng.normal(size=500),
            "b": rng.integers(0, 9, size=500),
            "c": rng.random(500) < 0.5,
            "label": np.where(rng.random(500) < 0.5, "no", "yes"),
            "y": rng.normal(size=500),
        }
    )


@pytest.fixture
def path(tmp_path, frame):
    frame.to_parquet(tmp_path / "big.parquet", row_group_size=70)
    return tmp_path / "big.parquet"


def files(path):
    return sorted(p.name for p in (path.parent / (path.name + ".mapped")).iterdir())


@pytest.mark.parametrize("target", ["y", "label", -1, None])
@pytest.mark.parametrize("rows", [1, 64, 10**6])
def test_the_arrays_are_those_of_the_table(path, target, rows, monkeypatch):
    columns = ["b", "a", "c"] if target != "y" else None
    if target == "y":
        pq.write_table(pq.read_table(path).drop_columns(["label"]), path)
    monkeypatch.setattr(mapped, "chunk_bytes", lambda: 24 * 4 * rows)
    expected = datasets.read(path, target, columns=columns)
    found = memory_mapped(path, target, columns=columns)
    for one, other in ((found.X, expected.X), (found.y, expected.y)):
        if other is None:
            assert one is None
            continue
        assert isinstance(one, np.memmap)
        assert not one.flags.writeable
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    assert (found.feature_names, found.target_name) == (
        expected.feature_names,
        expected.target_name,
    )


@pytest.mark.parametrize("dtype", ["float32", np.float64])
def test_the_type_can_be_asked_for(path, dtype):
    X = memory_mapped(path, "y", columns=["a"], dtype=dtype).X
    assert X.dtype == dtype
    np.testing.assert_array_equal(X[:, 0], pd.read_parquet(path)["a"].astype(dtype))


def test_columns_stored_in_float32_stay_so(path, frame):
    frame[["a", "y"]].astype(np.float32).to_parquet(path)
    assert memory_mapped(path, "y").X.dtype == np.float32


def test_arrays_are_found_again_until_the_file_changes(path, frame, monkeypatch):
    before = memory_mapped(path, "y", columns=["a", "b"])
    names = files(path)
    with monkeypatch.context() as patch:
        patch.setattr(mapped, "parquet_pieces", lambda *_: 1 / 0)
        again = memory_mapped(path, -1, columns=["a", "b"])
        np.testing.assert_array_equal(again.X, before.X)
        assert files(path) == names
        with pytest.raises(ZeroDivisionError):
            memory_mapped(path, "y", columns=["b", "a"])
    frame["a"] += 1.0
    frame.to_parquet(path)
    os.utime(path, ns=(1, 1))
    after = memory_mapped(path, "y", columns=["a", "b"])
    np.testing.assert_array_equal(after.X[:, 0], before.X[:, 0] + 1.0)
    assert len(files(path)) == 2
    assert set(files(path)).isdisjoint(names)


def test_a_folder_can_be_named_and_what_else_is_in_it_stays(path, tmp_path):
    folder = tmp_path / "deep" / "er"
    folder.mkdir(parents=True)
    (folder / "X.npy").write_text("somebody else's")
    memory_mapped(path, "y", columns=["a"], folder=folder)
    memory_mapped(path, "y", columns=["b"], folder=folder)
    assert (folder / "X.npy").read_text() == "somebody else's"
    assert len(list(folder.iterdir())) == 3
    assert not (tmp_path / "big.parquet.mapped").exists()


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError("disk full")])
def test_an_interrupted_reading_leaves_no_file(path, error, monkeypatch):
    pieces = mapped.parquet_pieces

    def some(*arguments):
        yield next(pieces(*arguments))
        raise error

    monkeypatch.setattr(mapped, "chunk_bytes", lambda: 10_000)
    with monkeypatch.context() as patch:
        patch.setattr(mapped, "parquet_pieces", some)
        with pytest.raises((KeyboardInterrupt, OSError)):
            memory_mapped(path, "y", columns=["a"])
    assert files(path) == []
    assert memory_mapped(path, "y", columns=["a"]).X.shape == (500, 1)


@pytest.mark.parametrize(
    ("change", "target", "message"),
    [
        ({}, "y", r"column label is not numeric; encode or leave out"),
        ({"a": pd.Categorical(["u"] * 500)}, "label", "column a is not numeric; encode or leave"),
        ({"a": [np.nan] * 3 + [1.0] * 497}, "label", r"missing values in column a \(3\)"),
        ({"a": [np.inf] + [1.0] * 499}, "label", r"infinite values in column a \(1\)"),
        ({"y": [None] + [1.0] * 499, "label": 0}, "y", "the target 'y' is missing or infinite in"),
        ({}, "z", "has no column 'z'"),
    ],
)
def test_what_cannot_be_used_is_one_sentence_and_leaves_no_arrays(
    path, frame, change, target, message, monkeypatch
):
    monkeypatch.setattr(mapped, "chunk_bytes", lambda: 10_000)
    frame.assign(**change).to_parquet(path)
    with pytest.raises(DataError, match=message):
        memory_mapped(path, target)
    folder = path.parent / "big.parquet.mapped"
    assert not list(folder.glob("y-*"))
    assert not list(folder.glob("*.npy.*"))


def test_other_files_are_refused(path, tmp_path, frame):
    frame.to_csv(tmp_path / "big.csv")
    with pytest.raises(DataError, match="is no Parquet file; write it as one"):
        memory_mapped(tmp_path / "big.csv", "y")
    frame[:0].to_parquet(path)
    with pytest.raises(DataError, match="is empty, there is no row"):
        memory_mapped(path, "y", columns=["a"])


def test_other_types_are_refused(path):
    with pytest.raises(TypeError, match="dtype must be float32, float64 or None; got 'int8'"):
        memory_mapped(path, "y", columns=["a"], dtype="int8")


def test_a_disk_that_is_too_full_is_told_before_the_work(path, monkeypatch):
    monkeypatch.setattr(mapped.shutil, "disk_usage", lambda _: type("", (), {"free": 10})())
    with pytest.raises(OSError, match=r"the arrays need 3\.9 kB of disk but 10 B are free in"):
        memory_mapped(path, "y", columns=["a"])


def test_no_more_is_in_memory_than_is_being_read(tmp_path, monkeypatch):
    n, d = 300_000, 4
    rng = np.random.default_rng(0)
    table = pa.table({f"x{j}": rng.normal(size=n) for j in range(d)})
    how = {"row_group_size": n, "use_dictionary": False, "data_page_size": 2**14}
    pq.write_table(table, tmp_path / "big.parquet", **how)
    del table
    monkeypatch.setattr("mercer._runtime.arrays.CHUNK_BYTES", 2**19)
    taken = []
    pieces = mapped.parquet_pieces

    def watched(*arguments):
        for piece in pieces(*arguments):
            taken.append(pa.total_allocated_bytes())
            yield piece

    monkeypatch.setattr(mapped, "parquet_pieces", watched)
    start = pa.total_allocated_bytes()
    tracemalloc.start()
    X = memory_mapped(tmp_path / "big.parquet").X
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < X.nbytes / 4
    assert max(taken) - start < X.nbytes / 2
