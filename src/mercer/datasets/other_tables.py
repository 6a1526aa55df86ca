"""Feather, JSON and Excel files as tables of PyArrow."""

from __future__ import annotations

import json
import os
import re
import warnings
import zipfile
from collections.abc import Collection, Iterator
from typing import Any

from mercer._runtime.arrays import check_memory

from .arrow import first_line, plain_table, pyarrow
from .base import DataError
from .files import Input
from .tables import without_index

__all__ = ["OtherColumns", "other_format"]

_JSON_LINES = (".jsonl", ".ndjson")
_EXCEL = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
_ROWS = 1 << 17  # most rows of a piece
_GROWTH = 4.0  # bytes of a table per byte of its file, as an estimate
# Start of an object, or of a list of objects, behind a mark of UTF-8.
_OBJECTS = re.compile(rb"(\xef\xbb\xbf)?\s*(\{\s*\"|\[\s*\{)")


def other_format(source: Input, start: bytes, is_named: bool) -> str | None:
    """ "feather", "excel", "json" or "json lines", by first bytes; None for other formats.

    ``is_named`` is true of names of delimited or LIBSVM text, which may begin as JSON does.
    """
    if start.startswith((b"ARROW1", b"FEA1")):
        return "feather"
    if source.suffix in _EXCEL or _holds_sheets(source, start):
        return "excel"
    if source.suffix in _JSON_LINES:
        return "json lines"
    if source.suffix == ".json" or (not is_named and _OBJECTS.match(start)):
        return "json" if start.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"[" else "json lines"
    return None


def _holds_sheets(source: Input, start: bytes) -> bool:
    """True for an archive with the sheets of Excel, and for its older files."""
    if start.startswith(b"\xd0\xcf\x11\xe0"):
        return True
    if not start.startswith(b"PK\x03\x04"):
        return False
    try:
        with zipfile.ZipFile(source.path) as archive:
            return "xl/workbook.xml" in archive.namelist()
    except zipfile.BadZipFile:
        return False


class OtherColumns:
    """The columns of a Feather, JSON or Excel file, with the methods of :class:`ParquetColumns`."""

    named = True

    def __init__(self, source: Input, kind: str) -> None:
        self.source = source
        size = float(os.path.getsize(source.path))
        check_memory(_GROWTH * size, f"the table in {source}", "convert it to Parquet")
        self._table = plain_table(_READERS[kind](source))
        self.n_rows: int = self._table.num_rows
        self.names = without_index(source, self._table.column_names)

    def table(
        self,
        as_text: Collection[str] = (),
        mixed: bool = False,
        used: Collection[str] | None = None,
    ) -> Any:
        """All of it; types are those of the file."""
        return self._table.select(self.names)

    def pieces(
        self,
        columns: list[str],
        as_text: Collection[str] = (),
        mixed: bool = False,
        numbers: Collection[str] = (),
    ) -> Iterator[Any]:
        """Some columns, a number of rows at a time, as tables."""
        for batch in self._table.select(columns).to_batches(_ROWS):
            yield pyarrow().Table.from_batches([batch])


def _feather(source: Input) -> Any:
    from pyarrow import feather

    try:
        table = feather.read_table(os.fspath(source.path), memory_map=False)
        table.validate(full=True)
    except (pyarrow().ArrowException, OSError, UnicodeError) as error:
        raise DataError(f"{source} is not a whole Feather file ({first_line(error)})") from None
    return table


def _json(source: Input) -> Any:
    """A list of objects, one for each row."""
    with source.open() as stream:
        text = b"".join(source.pieces(stream))
    try:
        rows = json.loads(text.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{source} is not JSON ({first_line(error)})") from None
    if not (isinstance(rows, list) and rows and all(isinstance(row, dict) for row in rows)):
        raise DataError(f"{source} must hold a list of objects, one for each row")
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: [row.get(name) for row in rows] for name in names}
    arrow = pyarrow()
    try:
        return arrow.table({name: arrow.array(column) for name, column in columns.items()})
    except (arrow.ArrowException, OverflowError) as error:
        raise DataError(f"{source}: {first_line(error)}") from None


def _json_lines(source: Input) -> Any:
    """An object in each line."""
    from pyarrow import json as arrow_json

    arrow = pyarrow()
    with source.open() as stream:
        text = b"".join(source.pieces(stream))
    options = arrow_json.ReadOptions(use_threads=False, block_size=max(len(text) + 1, 1 << 16))
    try:
        return arrow_json.read_json(arrow.BufferReader(text), read_options=options)
    except (arrow.ArrowException, OverflowError) as error:
        raise DataError(f"{source} is not JSON lines ({first_line(error)})") from None


def _excel(source: Input) -> Any:
    """The first sheet of a workbook; its first row holds the names."""
    try:
        import fastexcel
    except ImportError as error:
        raise ImportError(
            'reading Excel files needs fastexcel: pip install "mercer[excel]"'
        ) from error
    try:
        book = fastexcel.read_excel(os.fspath(source.path))
        names = list(book.sheet_names)
        batch = book.load_sheet(0).to_arrow()
    except (fastexcel.FastExcelError, OSError, ValueError, IndexError) as error:
        raise DataError(f"{source} is not a workbook ({first_line(error)})") from None
    if len(names) > 1:
        left = ", ".join(map(repr, names[1:]))
        warnings.warn(
            f"{source}: the first sheet, {names[0]!r}, is read; {left} are left out.", stacklevel=2
        )
    return pyarrow().Table.from_batches([batch])


_READERS = {"feather": _feather, "excel": _excel, "json": _json, "json lines": _json_lines}
