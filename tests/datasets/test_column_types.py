"""Types of columns of CSV files are those of all their cells."""

import pyarrow as pa
import pytest
from pyarrow import parquet

from mercer.datasets import DataError, csv_text, read
from mercer.datasets.csv_text import CsvText
from mercer.datasets.files import Input

# Cells of the first 50 rows, and of the 50 rows below.
COLUMNS = [
    ("1", "2.5"),
    ("1", "two"),
    ("", "3"),
    ("", "three"),
    ("true", "false"),
    ("true", "1"),
    ("true", "maybe"),
    ("true", "7"),
    ("2024-01-31", "2024-02-01"),
    ("2024-01-31", "NA"),
    ("2024-01-31", "soon"),
    ("1", "2024-01-31"),
    ("a", "4"),
]


@pytest.fixture
def path(tmp_path):
    """A file with a column for each of COLUMNS, and one of numbers that differ."""

    def write(cells):
        rows = [",".join(["x", *(f"c{j}" for j in range(len(cells)))])]
        rows += [",".join([f"{i}.5", *(pair[i >= 50] for pair in cells)]) for i in range(100)]
        file = tmp_path / "rows.csv"
        file.write_text("\n".join(rows) + "\n")
        return file

    return write


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("cells", COLUMNS, ids=" ".join)
def test_types_by_few_rows_are_those_by_a_whole_block(monkeypatch, path, cells, mixed):
    source = Input(path([cells]))
    tables = []
    for share in (1, csv_text._BLOCK // 100):  # 100 bytes hold rows of the upper half alone
        monkeypatch.setattr(csv_text, "_SHARE", share)
        tables.append(CsvText(source).table(mixed=mixed))
    assert tables[0].schema == tables[1].schema
    assert tables[0].equals(tables[1])


def test_rows_longer_than_the_first_block_are_read(monkeypatch, path):
    monkeypatch.setattr(csv_text, "_SHARE", csv_text._BLOCK // 10)
    table = CsvText(Input(path(COLUMNS))).table(mixed=True)
    assert table["x"].to_pylist() == [i + 0.5 for i in range(100)]


@pytest.mark.parametrize("first", [2**60, 2**63, 10**30, -(2**60)])
def test_whole_numbers_beyond_2_to_53_keep_their_digits_in_raw_tables(tmp_path, first):
    ids = [first + row % 9 for row in range(60)]
    path = tmp_path / "ids.csv"
    path.write_text("id,x,y\n" + "".join(f"{number},{row},1\n" for row, number in enumerate(ids)))
    assert read(path, "y", raw=True).X[:, 0].tolist() == list(map(str, ids))
    table = pa.table({"id": pa.array(ids, pa.decimal128(38, 0)), "x": ids_below(ids)})
    parquet.write_table(table, tmp_path / "ids.parquet")
    X = read(tmp_path / "ids.parquet", raw=True).X
    assert X[:, 0].tolist() == list(map(str, ids))
    assert X[:, 1].tolist() == ids_below(ids)


def ids_below(ids):
    return [float(number % 7) for number in ids]


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_whole_numbers_of_parquet_files_keep_their_digits_beside_missing_cells(tmp_path, dtype):
    ids = [None, *(2**60 + row for row in range(9))]
    table = pa.table({"id": pa.array(ids, dtype), "x": list(range(10))})
    parquet.write_table(table, tmp_path / "ids.parquet")
    X = read(tmp_path / "ids.parquet", raw=True).X
    assert X[:, 0].tolist() == [None, *map(str, ids[1:])]


def test_floats_and_fractions_beyond_2_to_53_stay_numbers(tmp_path):
    path = tmp_path / "numbers.csv"
    path.write_text("a,b\n1e20,9007199254740993.5\n2,3\n")
    assert read(path, raw=True).X.dtype.kind == "f"


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize(
    "price", ["3'185.17", "3\u2019185,17", "3\u00a0185,17", "3\u202f185.17", "3 185.17"]
)
def test_targets_with_separators_of_thousands_are_numbers(tmp_path, price, raw):
    path = tmp_path / "prices.csv"
    rows = [f"{row};{price if row % 2 else '999'}" for row in range(20)]
    path.write_text("\n".join(["x;price", *rows]) + "\n")
    assert read(path, "price", raw=raw).y.tolist() == 10 * [999.0, 3185.17]


def test_targets_in_indian_groups_are_numbers(tmp_path):
    path = tmp_path / "prices.csv"
    path.write_text("x;price\n1;1,23,456\n2;99,999\n3;7\n")
    assert read(path, "price").y.tolist() == [123456, 99999, 7]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_delimiter_at_the_end_of_every_line_makes_no_column(tmp_path, delimiter):
    path = tmp_path / "ends.csv"
    lines = ["a,b,y,", *(f"{row},{row}.5,{row}," for row in range(9))]
    path.write_text("\n".join(lines).replace(",", delimiter) + "\n")
    for raw in (False, True):
        table = read(path, "y", raw=raw)
        assert table.feature_names == ("a", "b")
        assert table.X.shape == (9, 2)
    assert CsvText(Input(path)).names == ["a", "b", "y"]
    path.write_text(path.read_text() + delimiter.join(["9", "9", "9", "more"]) + "\n")
    with pytest.raises(DataError, match="the last one has no name and holds 'more'"):
        read(path, "y")
