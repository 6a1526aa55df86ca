"""Types of columns of CSV files are those of all their cells."""

import pytest

from mercer.datasets import csv_text
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
