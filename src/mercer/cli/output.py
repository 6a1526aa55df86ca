"""Files of predictions, written as these come, and the scores of rows that come in pieces."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from mercer.cli.outputs import PARQUET

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ROWS = 65_536  # lines formatted at a time


class CsvFile:
    """Columns as lines of text, the names first."""

    def __init__(self, file: BinaryIO) -> None:
        self._text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        self._writer = csv.writer(self._text, lineterminator="\n")
        self._begun = False

    def write(self, columns: Mapping[str, Any]) -> None:
        """Add rows."""
        if not self._begun:
            self._writer.writerow(columns)
            self._begun = True
        n = len(next(iter(columns.values())))
        for start in range(0, n, _ROWS):
            block = [_cells(column[start : start + _ROWS]) for column in columns.values()]
            self._writer.writerows(zip(*block, strict=True))

    def close(self) -> None:
        """End the text; who opened the file closes it."""
        self._text.flush()
        self._text.detach()


class ParquetFile:
    """Columns in a Parquet file, each piece a group of rows."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._writer: Any = None

    def write(self, columns: Mapping[str, Any]) -> None:
        """Add rows."""
        import pyarrow
        from pyarrow import parquet

        table = pyarrow.table(dict(columns))
        if self._writer is None:
            self._writer = parquet.ParquetWriter(self._file, table.schema)
        self._writer.write_table(table)

    def close(self) -> None:
        """End the file."""
        if self._writer is not None:
            self._writer.close()


def predictions_file(path: Path, file: BinaryIO) -> CsvFile | ParquetFile:
    """Writer of columns to an open file, in the format that the ending of its path names."""
    return ParquetFile(file) if path.suffix.lower() in PARQUET else CsvFile(file)


def _cells(column: Any) -> list:
    return column.to_pylist() if hasattr(column, "to_pylist") else column.tolist()


class RunningScores:
    """The scores of ``mercer.compare.metrics`` of rows that come in pieces."""

    def __init__(self, task: str) -> None:
        from mercer.distributed.targets import Scores

        self._task, self._sums = task, Scores(0)

    @property
    def n_rows(self) -> int:
        """Rows that have been taken in."""
        return self._sums.n_rows

    def add(self, y: NDArray, predicted: NDArray) -> None:
        """Add rows; a row whose target is NaN or None does not count."""
        if y.shape != predicted.shape:
            return
        known = np.array([value is not None for value in y]) if y.dtype == object else y == y
        known = known.all(axis=1) if known.ndim == 2 else known
        if known.any():
            self._sums = self._sums.plus(self._sums.of(self._task, y[known], predicted[known]))

    def scores(self) -> dict[str, float]:
        """Scores as :func:`mercer.compare.metrics.scores` gives them, defined ones alone."""
        return self._sums.scores(self._task)
