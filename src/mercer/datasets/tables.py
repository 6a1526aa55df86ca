"""Readers of tables, CSV and Parquet, by way of PyArrow."""

from __future__ import annotations

import csv
import difflib
import io
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import numpy as np

from mercer._array import check_memory

from .base import DataError, Table
from .files import Input

_MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "NULL", "null", "None")
_PANDAS_INDEX = re.compile(r"__index_level_\d+__$")
_BLOCK = 1 << 24  # bytes parsed at a time; no row may be longer
_BUFFER = 1 << 16  # bytes of a column of a Parquet file that are read at a time
_FIRST, _LAST = np.datetime64(date.min, "us"), np.datetime64(datetime.max, "us")
_SHOWN = 5  # columns named in a message before it says how many more there are


@dataclass(frozen=True)
class _Layout:
    """The form of a CSV text: delimiter, names, given or just numbers, and first data line."""

    delimiter: str
    names: list[str]
    named: bool
    skip_lines: int


def read_csv(
    source: Input,
    target: str | int | None,
    columns: Sequence[str] | None,
    header: bool | None,
    raw: bool = False,
) -> Table:
    """Read delimited text: quoted cells, with or without a header line, ',' ';' or tab."""
    arrow = _pyarrow()
    layout = _layout(source, header)
    text = _native(source)
    target_at = _target_position(source, layout.names, target, named=layout.named)
    try:
        table = _parse(text, layout, target_at, use_threads=True)
    except arrow.ArrowInvalid:
        try:  # once more in order, since only then the message names the row
            table = _parse(text, layout, target_at, use_threads=False)
        except arrow.ArrowInvalid as error:
            raise DataError(f"{source}: {_first_line(error)}") from None
    return _to_table(source, table, target_at, columns, named=layout.named, raw=raw)


def _native(source: Input) -> Callable[[], Any]:
    """A function that opens a text as a file of Arrow's own.

    Arrow reads ahead in threads that outlive the call. Were the file Python's, they would wait for
    an interpreter that is about to end, or end with it and take the process down.
    """
    arrow = _pyarrow()
    if source.is_plain:
        return lambda: arrow.OSFile(os.fsencode(source.path), "rb")
    unpacked = arrow.BufferOutputStream()
    with source.open() as stream:
        for piece in source.pieces(stream):
            unpacked.write(piece)
    text = unpacked.getvalue()
    return lambda: arrow.BufferReader(text)


def _parse(
    text: Callable[[], Any], layout: _Layout, target_at: int | None, *, use_threads: bool
) -> Any:
    """The PyArrow table of a CSV text.

    PyArrow settles a column's type on the first block, and would then stumble over the first
    fraction among integers; so numbers are asked for as float64, and the target as text.
    """
    arrow, arrow_csv = _pyarrow(), _pyarrow("csv")
    lines = {"skip_rows": layout.skip_lines, "block_size": _BLOCK, "use_threads": use_threads}
    cells = {"delimiter": layout.delimiter, "newlines_in_values": True}
    reading = {
        "read_options": arrow_csv.ReadOptions(column_names=layout.names, **lines),
        "parse_options": arrow_csv.ParseOptions(**cells),
    }
    nulls = {"null_values": list(_MISSING), "strings_can_be_null": True}
    first = arrow_csv.ConvertOptions(**nulls)
    with text() as stream, arrow_csv.open_csv(stream, convert_options=first, **reading) as reader:
        guessed = reader.schema
    types = {
        field.name: field.type if arrow.types.is_boolean(field.type) else arrow.float64()
        for field in guessed
        if _is_number(field.type)
    }
    if target_at is not None:
        types[layout.names[target_at]] = arrow.string()
    converting = arrow_csv.ConvertOptions(column_types=types, **nulls)
    with text() as stream:
        return arrow_csv.read_csv(stream, convert_options=converting, **reading)


def read_parquet(
    source: Input, target: str | int | None, columns: Sequence[str] | None, raw: bool = False
) -> Table:
    """Read a Parquet file; the index pandas may have stored in it is no feature."""
    with _parquet_file(source) as file:
        groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
        cells = float(file.metadata.num_rows) * file.metadata.num_columns
        check_memory(
            max(8.0 * cells, float(sum(group.total_byte_size for group in groups))),
            f"the table in {source}",
            "read fewer columns of it by memory_mapped, or write it in parts",
        )
        table = file.read()
        table = table.select(_without_index(source, table.column_names))
    target_at = _target_position(source, table.column_names, target, named=True)
    return _to_table(source, table, target_at, columns, named=True, raw=raw)


@contextmanager
def _parquet_file(source: Input) -> Iterator[Any]:
    """Open a Parquet file; damage found inside is a DataError."""
    arrow, parquet = _pyarrow(), _pyarrow("parquet")
    # Otherwise the whole file would be in memory while its first rows are read.
    piecewise = {"pre_buffer": False, "buffer_size": _BUFFER}
    try:
        with parquet.ParquetFile(str(source.path), **piecewise) as file:
            yield file
    except (arrow.ArrowException, OSError, UnicodeError) as error:
        raise DataError(f"{source} is not a whole Parquet file ({_first_line(error)})") from None


def parquet_outline(source: Input) -> tuple[Any, int]:
    """The schema of a Parquet file and how many rows it has."""
    with _parquet_file(source) as file:
        return file.schema_arrow, file.metadata.num_rows


def parquet_pieces(source: Input, columns: list[str], n_rows: int) -> Iterator[Any]:
    """Yield some columns of a Parquet file as tables of at most ``n_rows`` rows."""
    arrow = _pyarrow()
    with _parquet_file(source) as file:
        for batch in file.iter_batches(n_rows, columns=columns):
            yield arrow.Table.from_batches([batch])


def parquet_columns(
    source: Input, names: Sequence[str], target: str | int | None, columns: Sequence[str] | None
) -> tuple[list[str], str | None]:
    """The feature columns and the target column of a Parquet file that has these names."""
    names = _without_index(source, names)
    target_at = _target_position(source, names, target, named=True)
    name = None if target_at is None else names[target_at]
    return _feature_names(source, names, name, columns), name


def _without_index(source: Input, names: Sequence[str]) -> list[str]:
    _refuse_repeated(source, names, "schema")
    return [name for name in names if not _PANDAS_INDEX.match(name)]


def _refuse_repeated(source: Input, names: Sequence[str], place: str) -> None:
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise DataError(f"{source}: {_listed('column name', twice)} more than once in the {place}")


def _pyarrow(module: str | None = None) -> Any:
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(
            'reading CSV and Parquet files needs PyArrow: pip install "mercer[cli]"'
        ) from error
    return getattr(pyarrow, module) if module else pyarrow


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".")


def _is_number(kind: Any) -> bool:
    types = _pyarrow().types
    numeric = (types.is_integer, types.is_floating, types.is_decimal)
    return any(is_one(kind) for is_one in (*numeric, types.is_boolean, types.is_null))


def _is_text(kind: Any) -> bool:
    types = _pyarrow().types
    return types.is_string(kind) or types.is_large_string(kind)


# --- the shape of a CSV text ---------------------------------------------------------------


def _layout(source: Input, header: bool | None) -> _Layout:
    """Find delimiter, header and number of columns from the first lines."""
    start = source.start(_BLOCK)
    try:
        text = start.decode("utf-8-sig", errors="strict" if len(start) < _BLOCK else "ignore")
    except UnicodeDecodeError as error:
        raise DataError(f"{source} is not UTF-8 text (byte {error.start})") from None
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
        header = _looks_like_header(first, second)
    if not header:
        return _Layout(delimiter, [str(j) for j in range(len(first))], False, 0)
    if not second:
        raise DataError(f"{source} holds a header and no row")
    names = [name.strip() for name in first]
    _refuse_repeated(source, names, "header")
    return _Layout(delimiter, names, True, lines_of_first)


def _delimiter(text: str) -> str:
    """The character that parts both of the first two lines, most often the first."""
    lines = text.lstrip().splitlines()[:2]
    return max(",;\t", key=lambda c: (min(line.count(c) for line in lines), lines[0].count(c)))


def _looks_like_header(first: list[str], second: list[str]) -> bool:
    """Tell names from data: no number among them, a name above a number, or 0, 1, 2, ..."""
    kinds = [_cell(cell) for cell in first]
    if "number" not in kinds:
        return "text" in kinds
    if len(first) > 1 and [cell.strip() for cell in first] == [str(j) for j in range(len(first))]:
        return True
    return any(
        kind == "text" and _cell(below) == "number"
        for kind, below in zip(kinds, second, strict=False)
    )


def _cell(cell: str) -> str:
    if cell.strip() in _MISSING:
        return "missing"
    try:
        float(cell)
    except ValueError:
        return "text"
    return "number"


# --- from columns to arrays ----------------------------------------------------------------


def _target_position(
    source: Input, names: list[str], target: str | int | None, *, named: bool
) -> int | None:
    """The column number `target` means."""
    if target is None:
        return None
    if isinstance(target, str):
        if target in names and named:
            return names.index(target)
        if not re.fullmatch(r"[+-]?\d+", target):
            if not named:
                raise DataError(
                    f"{source} has no header, so the target must be a column number, got {target!r}"
                )
            raise DataError(f"{source} has no column {target!r}{near(target, names)}")
    position = int(target)
    if not -len(names) <= position < len(names):
        raise DataError(
            f"{source}: target column {position} is outside its {len(names)} columns "
            f"(0 to {len(names) - 1}, or from the end -1 to {-len(names)})"
        )
    return position % len(names)


def near(name: str, names: Sequence[str]) -> str:
    """The end of a sentence about an unknown name: what is close to it, or what there is."""
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    folded = {other.lower(): other for other in names}
    close = close or [folded[f] for f in difflib.get_close_matches(name.lower(), folded, n=3)]
    if close:
        return f"; did you mean {' or '.join(map(repr, close))}?"
    shown = ", ".join(map(repr, list(names)[:_SHOWN]))
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"; it has {shown}{more}"


def _to_table(
    source: Input,
    table: Any,
    target_at: int | None,
    columns: Sequence[str] | None,
    *,
    named: bool,
    raw: bool,
) -> Table:
    if not table.num_rows:
        raise DataError(f"{source} is empty, there is no row to read")
    names = table.column_names
    target_name = None if target_at is None else names[target_at]
    features = _feature_names(source, names, target_name, columns)
    X = _raw(source, table, features) if raw else _matrix(source, table, features)
    y = None if target_name is None else target_of(source, target_name, table.column(target_name))
    if not named:
        return Table(X, y)
    return Table(X, y, tuple(features), target_name)


def _feature_names(
    source: Input, names: Sequence[str], target: str | None, columns: Sequence[str] | None
) -> list[str]:
    """The columns that are features: all but the target, or those asked for."""
    features = [name for name in names if name != target]
    if columns is not None:
        known = set(features)
        for name in columns:
            if name not in known:
                raise DataError(f"{source} has no feature column {name!r}{near(name, features)}")
        features = list(columns)
    if not features:
        raise DataError(f"{source} has no column besides the target {target!r}")
    return features


def _matrix(source: Input, table: Any, features: list[str]) -> np.ndarray:
    """The features as one array."""
    X = np.empty((table.num_rows, len(features)), dtype=number_type(source, table.schema, features))
    faults = Faults(source, features)
    for j, name in enumerate(features):
        X[:, j] = numbers_of(table.column(name))
        faults.look_at(j, X[:, j])
    faults.report()
    return X


def number_type(source: Input, schema: Any, features: list[str]) -> Any:
    """The dtype of such features: float32 if every column is stored so, else float64."""
    types = _pyarrow().types
    kinds = [schema.field(name).type for name in features]
    text = [name for name, kind in zip(features, kinds, strict=True) if not _is_number(kind)]
    if text:
        raise DataError(
            f"{source}: {_listed('column', text)} not numeric; encode or leave out such columns"
        )
    small = all(types.is_float32(kind) or types.is_float16(kind) for kind in kinds)
    return np.float32 if small else np.float64


class Faults:
    """Counts the missing and infinite values of columns, which may come in pieces."""

    def __init__(self, source: Input, features: Sequence[str]) -> None:
        self.source, self.features = source, features
        self.counts = {"missing": np.zeros(len(features), int)}
        self.counts["infinite"] = self.counts["missing"].copy()

    def look_at(self, j: int, values: np.ndarray) -> None:
        """Count those of column ``j`` among some values."""
        if not np.isfinite(values).all():
            self.counts["missing"][j] += np.isnan(values).sum()
            self.counts["infinite"][j] += np.isinf(values).sum()

    def report(self) -> None:
        """Raise if there were any, and say where."""
        for fault, counts in self.counts.items():
            met = zip(self.features, counts, strict=True)
            complaints = [f"{name} ({count})" for name, count in met if count]
            if complaints:
                raise DataError(
                    f"{self.source} has {fault} values in "
                    f"{_listed('column', complaints, verb=False)}; "
                    "fill them in or leave those columns or rows out"
                )


def _raw(source: Input, table: Any, features: list[str]) -> np.ndarray:
    """The features as they are: float64 if all are numbers, else objects; NaN or None."""
    if all(_is_number(table.schema.field(name).type) for name in features):
        X = np.column_stack([numbers_of(table.column(name)) for name in features])
        return X.astype(np.float64, copy=False)
    X = np.empty((table.num_rows, len(features)), dtype=object)
    for j, name in enumerate(features):
        X[:, j] = _cells(source, name, table.column(name))
    return X


def _cells(source: Input, name: str, column: Any) -> np.ndarray:
    """A column as Python objects: numbers, texts or dates, None for what is missing."""
    arrow = _pyarrow()
    if arrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if _is_number(kind):
        return numbers_of(column).astype(object)
    if arrow.types.is_date(kind) or arrow.types.is_timestamp(kind):
        dates = column.cast(arrow.timestamp("us")).to_numpy().astype("datetime64[us]")
        if ((dates < _FIRST) | (dates > _LAST)).any():
            raise DataError(f"{source}: column {name} holds dates outside the years 1 to 9999")
        return dates.astype(object)
    if _is_text(kind):
        return np.array([*column.to_pylist(), None], dtype=object)[:-1]
    raise DataError(f"{source}: column {name} holds {kind}, which is no number, text or date")


def numbers_of(column: Any) -> np.ndarray:
    """A numeric column as a NumPy array with NaN for what is missing."""
    arrow = _pyarrow()
    if arrow.types.is_null(column.type):
        return np.full(len(column), np.nan)
    if arrow.types.is_decimal(column.type):
        column = column.cast(arrow.float64())
    if arrow.types.is_boolean(column.type):
        column = column.cast(arrow.uint8())
    return column.to_numpy()


def target_of(source: Input, name: str, column: Any) -> np.ndarray:
    """The target: numbers where all cells are numbers, else labels as strings."""
    arrow, compute = _pyarrow(), _pyarrow("compute")
    if arrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if _is_text(column.type):
        text = compute.utf8_trim_whitespace(column)
        text = column = compute.if_else(compute.equal(text, ""), None, text)
        for kind in (arrow.int64(), arrow.float64()):
            try:
                column = text.cast(kind)
                break
            except arrow.ArrowInvalid:
                continue
    is_number = _is_number(column.type)
    if not is_number and not _is_text(column.type):
        raise DataError(
            f"{source}: the target {name!r} must hold numbers or strings, not {column.type}"
        )
    missing = column.null_count
    if arrow.types.is_floating(column.type) or arrow.types.is_decimal(column.type):
        values = numbers_of(column)
        missing = int((~np.isfinite(values)).sum())
    if missing or arrow.types.is_null(column.type):
        raise DataError(
            f"{source}: the target {name!r} is missing or infinite in {missing} rows; "
            "fill it in or leave those rows out"
        )
    if not is_number:
        return np.array(column.to_pylist(), dtype=str)
    return column.to_numpy() if arrow.types.is_boolean(column.type) else numbers_of(column)


def _listed(noun: str, names: Sequence[str], *, verb: bool = True) -> str:
    """A phrase: "column a is", "columns a, b, ... and 3 more are"; without "is" if not verb."""
    shown = ", ".join(" ".join(name.split()) for name in names[:_SHOWN])
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    plural = len(names) > 1
    end = (" are" if plural else " is") if verb else ""
    return f"{noun}{'s' if plural else ''} {shown}{more}{end}"
