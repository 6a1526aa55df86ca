"""Folders of Parquet files: every row is read once, by the part that has it."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.datasets import DataError
from mercer.distributed.parquet import parquet_files, parquet_parts, read_part

pyarrow = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402


@pytest.fixture
def folder(tmp_path):
    """230 rows in two files, groups of 60 rows."""
    rng = np.random.default_rng(0)
    for name, n in (("a.parquet", 150), ("sub/b.pq", 80)):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        table = {
            "x": rng.normal(size=n),
            "z": rng.integers(0, 9, size=n),
            "w": rng.uniform(size=n),
            "y": np.where(np.arange(n) % 50 == 7, np.nan, rng.normal(size=n)),
        }
        parquet.write_table(pyarrow.table(table), path, row_group_size=60)
    (tmp_path / "_SUCCESS.parquet").write_text("of Spark")
    return tmp_path


def whole(folder):
    tables = [parquet.read_table(path) for path in parquet_files(folder)]
    return {name: np.concatenate([table[name].to_numpy() for table in tables]) for name in "xzwy"}


@pytest.mark.parametrize("n_parts", [1, 2, 3, 7, 230, 1000])
def test_parts_hold_every_row_that_has_a_target_once(folder, n_parts):
    rows = whole(folder)
    known = np.isfinite(rows["y"])
    parts = parquet_parts(folder, n_parts, target="y", weights="w")
    assert len(parts) == min(n_parts, 230)
    assert sum(part.n_rows for part in parts) == 230
    shards = [read_part(part) for part in parts]
    X = np.concatenate([shard.X for shard in shards])
    np.testing.assert_array_equal(X, np.column_stack([rows["x"], rows["z"]])[known])
    np.testing.assert_array_equal(np.concatenate([s.target for s in shards]), rows["y"][known])
    np.testing.assert_array_equal(np.concatenate([s.weights for s in shards]), rows["w"][known])


def test_parts_are_even_and_end_with_groups_where_that_is_near(folder):
    # groups begin at 0, 60, 120, 150 and 210
    assert [part.n_rows for part in parquet_parts(folder, 2, target="y")] == [120, 110]
    sizes = [part.n_rows for part in parquet_parts(folder, 5, target="y")]
    assert min(sizes) >= 41
    assert max(sizes) <= 51


def test_columns_are_those_that_are_asked_for(folder):
    (part,) = parquet_parts(folder, 1, target="y", drop=["x"])
    assert part.features == ("z", "w")
    (part,) = parquet_parts(folder, 1, target=-1, features=["w", "x"])
    np.testing.assert_array_equal(read_part(part).X[:, 0], whole(folder)["w"][np.isfinite(
        whole(folder)["y"]
    )])  # fmt: skip
    (part,) = parquet_parts(folder / "a.parquet", 1)
    assert read_part(part).target is None


def test_texts_make_frames_and_labels(tmp_path):
    table = pyarrow.table({
        "town": ["Rom", None, "Ulm"], "n": [1, 2, None], "kind": [" 1", "2 ", ""],
    })  # fmt: skip
    parquet.write_table(table, tmp_path / "t.parquet")
    (part,) = parquet_parts(tmp_path, 1, target="kind")
    shard = read_part(part)
    assert shard.X.column_names == ["town", "n"]
    assert shard.X.shape == (2, 2)
    assert shard.target.tolist() == ["1", "2"]
    assert len(shard) == 2
    (part,) = parquet_parts(tmp_path, 1, target="kind", features=["n"])
    np.testing.assert_array_equal(read_part(part).X, [[1.0], [2.0]])
    (part,) = parquet_parts(tmp_path, 1, target="kind", features=["n"], raw=True)
    assert read_part(part).X.column_names == ["n"]


def test_numbers_are_single_where_all_are_stored_so(tmp_path):
    table = pyarrow.table(
        {"a": np.ones(3, np.float32), "b": np.ones(3, np.float32), "y": [1, 2, 3]}
    )
    parquet.write_table(table, tmp_path / "t.parquet")
    (part,) = parquet_parts(tmp_path, 1, target="y")
    assert read_part(part).X.dtype == np.float32
    (part,) = parquet_parts(tmp_path, 1)
    assert read_part(part).X.dtype == np.float64


def _other(folder, columns, path="other.parquet"):
    (folder / path).parent.mkdir(exist_ok=True)
    parquet.write_table(pyarrow.table(columns), folder / path)


@pytest.mark.parametrize(
    ("break_it", "asked", "message"),
    [
        (lambda f: None, {"target": "pricee"}, "has no column 'pricee'"),
        (lambda f: None, {"target": "y", "drop": ["q"]}, "has no column 'q'"),
        (lambda f: None, {"target": "y", "weights": "ww"}, "did you mean 'w'"),
        (lambda f: _other(f, {"x": [1.0]}), {}, "lacks the column"),
        (
            lambda f: _other(f, {"x": ["a"], "z": [1], "w": [1.0], "y": [1.0]}),
            {},
            "column 'x' holds double in .* but string in",
        ),
        (lambda f: (f / "bad.parquet").write_text("no"), {}, "not a whole Parquet file"),
        (lambda f: _other(f, {"x": [1.0]}, "day=1/c.parquet"), {}, "such as 'day=1'"),
    ],
    ids=["target", "drop", "weights", "columns", "types", "damage", "keys"],
)
def test_what_cannot_be_read_is_refused_in_one_sentence(folder, break_it, asked, message):
    break_it(folder)
    with pytest.raises(DataError, match=message):
        parquet_parts(folder, 2, **asked)


def test_faults_that_show_on_a_worker_name_the_file(folder):
    (part,) = parquet_parts(folder, 1, target="y", weights="x")
    with pytest.raises(DataError, match=r"at least 0; column 'x' of .*a\.parquet holds others"):
        read_part(part)
    (folder / "a.parquet").unlink()
    with pytest.raises(DataError, match="on a worker; all must find it under this name"):
        read_part(part)
    with pytest.raises(FileNotFoundError, match="no file or folder"):
        parquet_files(folder / "none")
    (folder / "empty").mkdir()
    with pytest.raises(DataError, match="holds no Parquet file"):
        parquet_files(folder / "empty")
