"""Delimited text as columns of PyArrow: its layout, all of it, or pieces of it."""

from __future__ import annotations

import csv
import io
import os
import re
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from .arrow import first_line, is_number, is_text, listed, pyarrow, refuse_repeated
from .base import DataError
from .files import AS_UTF8, Input
from .number_columns import (
    as_numbers,
    cells_as_numbers,
    hold_codes,
    hold_names,
    hold_thousands,
    may_be_beyond,
    may_be_thousands,
    may_hold_codes,
)

MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "NULL", "null", "None")
_BLOCK = 1 << 24  # bytes parsed at a time; no row may be longer
_SHARE = 16  # blocks over the piece that types are guessed by first, since one thread parses it
_LOOK = 1000  # lines that tell whether a comma stands before decimals
_COMMA = re.compile(r"[+-]?(?:\d*|\d{1,3}(?:\.\d{3})+),\d+")
_NUMBER = re.compile(r"[+-]?\d*[.,]?\d+|[+-]?\d{1,3}(?:\.\d{3})+(?:,\d+)?")
_POINTS = re.compile(r"[+-]?[1-9]\d{0,2}(?:\.\d{3})+(?:,\d+)?")  # between thousands
_COLUMN = re.compile(r"In CSV column #(\d+): ")  # of a message of PyArrow's
_UNPACKED_BY_ARROW = {b"\x1f\x8b": "gzip", b"BZ": "bz2"}


@dataclass(frozen=True)
class Layout:
    """The form of a CSV text: delimiter, names, given or just numbers, and first data line."""

    delimiter: str
    names: list[str]
    named: bool
    skip_lines: int
    decimal: str = "."  # what stands before decimals
    ends_blank: bool = False  # whether header and first row end in a delimiter


class CsvText:
    """A delimited text that PyArrow reads, numbers as float64 and a target as text.

    Blank cells are missing, and cells of the words ``missing``, by default ``MISSING``. PyArrow's
    own types, from the first block, would stumble over fractions after integers.
    """

    def __init__(
        self, source: Input, header: bool | None = None, missing: Collection[str] | None = None
    ) -> None:
        self.source = source
        self._asked = missing is not None
        self._missing = MISSING if missing is None else ("", *missing)
        self.layout = _layout(source, header, self._missing)
        self.names, self.named = self.layout.names, self.layout.named
        if self.layout.ends_blank:  # lines end in a delimiter, behind which there is no column
            self.names = self.names[:-1]
        self.n_rows = None  # unknown before all is read

    def table(
        self,
        as_text: Collection[str] = (),
        mixed: bool = False,
        used: Collection[str] | None = None,
    ) -> Any:
        """All of it; columns ``as_text`` are texts unless all cells are numbers.

        In ``mixed`` tables columns with texts below numbers, or leading zeros, become texts. A
        warning names labels that are taken as missing in ``as_text`` and ``used``, None for all.
        """
        text = _native(self.source)
        table = self._whole(text, set(as_text), mixed)
        if self.layout.ends_blank:
            last = table.column("").drop_null()
            if len(last):
                raise DataError(
                    f"{self.source}: the header must name every column; the last one has no name "
                    f"and holds {str(last[0].as_py())!r}"
                )
            table = table.select(self.names)
        thousands, codes, names = self._doubtful(text, table, mixed)
        if doubtful := [*dict.fromkeys([*thousands, *codes, *names])]:
            cells = self._parse(text, dict.fromkeys(doubtful, pyarrow().string()), True, doubtful)
            for name, column in zip(doubtful, cells.columns, strict=True):
                in_codes = name in codes and hold_codes(column)
                in_names = name in names and hold_names(column)
                if in_codes or in_names or (name in thousands and hold_thousands(column)):
                    table = _with_column(table, name, column)
        table = self._tidy(table, as_text, mixed)
        if not self._asked:
            kept = table.column_names if used is None else {*used, *as_text}
            self._warn_of_words(text, table.select([n for n in table.column_names if n in kept]))
        return table

    def _warn_of_words(self, text: Callable[[], Any], table: Any) -> None:
        """Warn of words that may be labels: taken as missing in columns with blank cells, too."""
        names = [f.name for f in table.schema if is_text(f.type) and _may_lose(table[f.name])]
        if not names:
            return
        arrow, compute, met = pyarrow(), pyarrow("compute"), []
        cells = self._parse(text, dict.fromkeys(names, arrow.string()), True, names, ("",))
        for name, column in zip(names, cells.columns, strict=True):
            if column.null_count:  # blank cells
                taken = column.filter(compute.is_in(column, arrow.array(MISSING)))
                counts = compute.value_counts(taken).to_pylist()
                met += [f"{name!r} (rows of {n['values']!r}: {n['counts']})" for n in counts]
        if met:
            warnings.warn(
                f"{self.source}: words beside blank cells are taken as missing in "
                f"{listed('column', met, verb=False)}; missing=[] (--missing '' on the command "
                "line) makes such words labels.",
                UserWarning,
                stacklevel=5,
            )

    def _whole(self, text: Callable[[], Any], as_text: set[str], mixed: bool) -> Any:
        """All of the text, in types of the first rows or, where they fail, of a whole block."""
        arrow = pyarrow()
        with suppress(arrow.ArrowInvalid, DataError):
            return self._parse(text, self._types(text, as_text, block=_BLOCK // _SHARE), True)
        types = self._types(text, as_text)  # which learns the columns that turn out to hold texts
        while True:
            try:
                return self._parse(text, types, True)
            except arrow.ArrowInvalid:
                try:  # once more in order, since only then the message names the row
                    return self._parse(text, types, False)
                except arrow.ArrowInvalid as error:
                    name = self._met_in(error)
                    may_be = mixed or self.layout.decimal == ","
                    if not may_be or name is None or types.get(name) == arrow.string():
                        raise self._fault(error) from None
                    types[name] = arrow.string()

    def _doubtful(
        self, text: Callable[[], Any], table: Any, mixed: bool
    ) -> tuple[list[str], list[str], list[str]]:
        """Columns of numbers whose texts decide: points between thousands, codes, and numbers
        beyond 2**53."""
        floats = [f.name for f in table.schema if pyarrow().types.is_floating(f.type)]
        thousands, codes, names = [], [], []
        if self.layout.decimal != ",":
            thousands = [n for n in floats if may_be_thousands(table.column(n).to_numpy())]
        if mixed:
            with text() as stream:
                codes = floats if may_hold_codes(stream) else []
            names = [n for n in floats if may_be_beyond(table.column(n).to_numpy())]
        return thousands, codes, names

    def pieces(
        self,
        columns: list[str],
        as_text: Collection[str],
        mixed: bool,
        numbers: Collection[str] = (),
    ) -> Iterator[Any]:
        """Some columns, a block of rows at a time, as tables.

        Columns ``as_text`` hold the texts of the file. Columns of ``numbers`` are floats in every
        block whose cells allow it, else texts. Where ``mixed``, columns of which the first block
        holds nothing are texts.
        """
        arrow, kept = pyarrow(), {*as_text, *numbers}
        text = _streamed(self.source)
        types = dict.fromkeys(kept, arrow.string())
        if not kept >= set(columns):
            types = self._types(text, kept, arrow.string() if mixed else arrow.float64())
        options = self._options(types, use_threads=False)
        options["convert_options"].include_columns = columns
        try:
            with text() as stream, pyarrow("csv").open_csv(stream, **options) as reader:
                for batch in reader:
                    if batch.num_rows:
                        table = arrow.Table.from_batches([batch])
                        for name in numbers:
                            cells = cells_as_numbers(table.column(name), self.layout.decimal)
                            table = _with_column(table, name, cells)
                        yield table
        except (arrow.ArrowInvalid, OSError) as error:
            raise self._fault(error) from None

    def _types(
        self,
        text: Callable[[], Any],
        as_text: set[str],
        unknown: Any = None,
        block: int | None = None,
    ) -> dict:
        """Types of the columns by those of the first block; ``unknown`` for empty ones."""
        arrow = pyarrow()
        options = self._options({}, use_threads=False, block=block)  # whose messages name the row
        try:
            with text() as stream, pyarrow("csv").open_csv(stream, **options) as reader:
                guessed = reader.schema
        except arrow.ArrowInvalid as error:
            raise self._fault(error) from None
        types = {}
        for field in guessed:
            if field.name in as_text:
                types[field.name] = arrow.string()
            elif arrow.types.is_null(field.type):
                types[field.name] = unknown or arrow.float64()
            elif is_number(field.type):
                is_boolean = arrow.types.is_boolean(field.type)
                types[field.name] = field.type if is_boolean else arrow.float64()
        return types

    def _parse(
        self,
        text: Callable[[], Any],
        types: dict,
        use_threads: bool,
        columns: Sequence[str] = (),  # none: all
        missing: Sequence[str] | None = None,
    ) -> Any:
        options = self._options(types, use_threads)
        options["convert_options"].include_columns = columns
        if missing is not None:
            options["convert_options"].null_values = list(missing)
        with text() as stream:
            return pyarrow("csv").read_csv(stream, **options)

    def _options(self, types: dict, use_threads: bool, block: int | None = None) -> dict[str, Any]:
        """Keyword arguments for PyArrow's CSV reader."""
        layout, arrow_csv = self.layout, pyarrow("csv")
        return {
            "read_options": arrow_csv.ReadOptions(
                column_names=layout.names,
                skip_rows=layout.skip_lines,
                block_size=block or _BLOCK,
                use_threads=use_threads,
            ),
            "parse_options": arrow_csv.ParseOptions(
                delimiter=layout.delimiter, newlines_in_values=True
            ),
            "convert_options": arrow_csv.ConvertOptions(
                column_types=types,
                null_values=list(self._missing),
                strings_can_be_null=True,
                decimal_point=layout.decimal,
            ),
        }

    def _fault(self, error: Exception) -> DataError:
        """The error of PyArrow with the name of the column."""
        name = self._met_in(error)
        said = first_line(error)
        if "UTF8" in said:
            said = f"{said}; {AS_UTF8.format('latin1')}"
        return DataError(
            f"{self.source}: {said if name is None else _COLUMN.sub(f'column {name}: ', said)}"
        )

    def _met_in(self, error: Exception) -> str | None:
        """The column whose cells were not of its type."""
        match = _COLUMN.search(str(error))
        place = int(match[1]) if match and "conversion error" in str(error) else -1
        return self.layout.names[place] if 0 <= place < len(self.layout.names) else None

    def _tidy(self, table: Any, as_text: Collection[str], mixed: bool) -> Any:
        """Columns of number texts as numbers; ``as_text`` stays texts without decimal commas."""
        has_comma = self.layout.decimal == ","
        for field in table.schema:
            if is_text(field.type) and (has_comma or not (mixed or field.name in as_text)):
                place = f"{self.source}: column {field.name!r}"
                numbers = as_numbers(table.column(field.name), self.layout.decimal, place)
                table = _with_column(table, field.name, numbers)
        return table


def _may_lose(column: Any) -> bool:
    """Whether missing cells of a column of texts may be labels: texts without digits occur beside.

    Where all texts have digits, as numbers with units, dates and codes, a word is no label.
    """
    if not 0 < column.null_count < len(column):
        return False
    compute = pyarrow("compute")
    return not compute.all(compute.match_substring_regex(column, r"\d")).as_py()


def _with_column(table: Any, name: str, column: Any) -> Any:
    """A table with another column of that name, in its place."""
    return table.set_column(table.column_names.index(name), name, column)


def _native(source: Input) -> Callable[[], Any]:
    """A function that opens a text as Arrow's own file.

    Arrow's threads that read ahead outlive the call: with a file of Python's they would block or
    crash an ending interpreter.
    """
    arrow = pyarrow()
    if source.is_plain:
        return lambda: arrow.OSFile(os.fsencode(source.path), "rb")
    unpacked = arrow.BufferOutputStream()
    with source.open() as stream:
        for piece in source.pieces(stream):
            unpacked.write(piece)
    text = unpacked.getvalue()
    return lambda: arrow.BufferReader(text)


def _streamed(source: Input) -> Callable[[], Any]:
    """Opener of a source for reading in a stream; Arrow unpacks the formats that it knows."""
    if source.member is None and not source.is_wide:
        with source.path.open("rb") as file:
            kind = _UNPACKED_BY_ARROW.get(file.read(2))
        if kind is not None:
            arrow = pyarrow()
            path = os.fsencode(source.path)
            return lambda: arrow.CompressedInputStream(arrow.OSFile(path, "rb"), kind)
    return _native(source)


# --- the shape of a CSV text ---------------------------------------------------------------


def _layout(source: Input, header: bool | None, missing: Collection[str]) -> Layout:
    """Find delimiter, header and number of columns from the first lines."""
    start = source.start(_BLOCK)
    try:
        text = start.decode("utf-8-sig", errors="strict" if len(start) < _BLOCK else "ignore")
    except UnicodeDecodeError as error:
        remedy = AS_UTF8.format("latin1")
        raise DataError(f"{source} is not UTF-8 text (byte {error.start}); {remedy}") from None
    if not text.strip():
        raise DataError(f"{source} is empty, there is no row to read")
    if "\0" in text:
        raise DataError(f"{source} is not text, it holds NUL bytes")
    delimiter = "\t" if source.suffix in (".tsv", ".tab") else _delimiter(text)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        first = next(row for row in reader if row)
        lines_of_first = reader.line_num
        second = next((row for row in reader if row), [])
    except csv.Error as error:
        raise DataError(f"{source} is no CSV: {error}") from None
    if header is None:
        header = _looks_like_header(first, second, missing)
    if not header:
        names = [str(j) for j in range(len(first))]
        return Layout(delimiter, names, False, 0, _decimal(text, delimiter))
    if not second:
        raise DataError(f"{source} holds a header and no row")
    names = [name.strip() for name in first]
    if len(set(names)) < len(names) and len(set(first)) == len(first):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(
            f"{source}: column names of the header differ in blanks alone, as those of {twice!r} "
            "do; rename one of them"
        )
    refuse_repeated(source, names, "header")
    ends_blank = len(names) > 1 and not names[-1] and len(second) == len(names)
    ends_blank = ends_blank and not second[-1].strip()
    return Layout(delimiter, names, True, lines_of_first, _decimal(text, delimiter), ends_blank)


def _delimiter(text: str) -> str:
    """The character that parts both of the first two lines, most often the first."""
    lines = text.lstrip().splitlines()[:2]
    return max(",;\t", key=lambda c: (min(line.count(c) for line in lines), lines[0].count(c)))


def _decimal(text: str, delimiter: str) -> str:
    """A comma if the first lines have decimals behind commas and none behind points."""
    if delimiter == ",":
        return "."
    cells = [
        cell.strip().strip('"')
        for line in text.splitlines()[:_LOOK]
        for cell in line.split(delimiter)
    ]
    numbers = [cell for cell in cells if _NUMBER.fullmatch(cell)]
    has_comma = any(_COMMA.fullmatch(cell) for cell in numbers)
    points = all(_POINTS.fullmatch(cell) for cell in numbers if "." in cell)
    return "," if has_comma and points else "."


def _looks_like_header(first: list[str], second: list[str], missing: Collection[str]) -> bool:
    """Tell names from data: no number among them, a name above a number, or 0, 1, 2, ..."""
    kinds = [_cell(cell, missing) for cell in first]
    if "number" not in kinds:
        return "text" in kinds
    if len(first) > 1 and [cell.strip() for cell in first] == [str(j) for j in range(len(first))]:
        return True
    return any(
        kind == "text" and _cell(below, missing) == "number"
        for kind, below in zip(kinds, second, strict=False)
    )


def _cell(cell: str, missing: Collection[str]) -> str:
    if cell.strip() in missing:
        return "missing"
    try:
        float(cell)
    except ValueError:
        return "text"
    return "number"
