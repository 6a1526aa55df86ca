"""Readers of tables, CSV and Parquet, by way of PyArrow."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from typing import Any

import numpy as np

from mercer._runtime.arrays import check_memory, chunk_bytes

from .arrow import (
    first_line,
    is_number,
    is_text,
    listed,
    near,
    plain_table,
    pyarrow,
    refuse_repeated,
)
from .base import DataError, Table
from .csv_text import CsvText
from .files import Input
from .number_columns import as_numbers, text_among_numbers, whole_as_text

_PANDAS_INDEX = re.compile(r"__index_level_\d+__$")
_BUFFER = 1 << 16  # bytes of a column of a Parquet file that are read at a time
_ROWS = 1 << 17  # of a Parquet file that are read at a time, at most
_CELL = 64.0  # bytes that a cell takes while it is read and predicted from
OF_DATES = (  # the remedy in errors about targets
    "derive a column to predict from them, such as days since a first date or the weekday, and "
    "name that as the target"
)
_FIRST, _LAST = np.datetime64(date.min, "us"), np.datetime64(datetime.max, "us")


def read_csv(
    source: Input,
    target: str | int | None,
    columns: Sequence[str] | None,
    header: bool | None,
    raw: bool = False,
    missing: Collection[str] | None = None,
) -> Table:
    """Read delimited text: quoted cells, with or without a header line, ',' ';' or tab."""
    text = CsvText(source, header, missing)
    target_at = target_position(source, text.names, target, named=text.named)
    as_text = () if target_at is None else [text.names[target_at]]
    table = text.table(as_text, raw, columns)
    return to_table(source, table, target_at, columns, named=text.named, raw=raw)


def read_columns(
    file: Any, target: str | int | None, columns: Sequence[str] | None, raw: bool = False
) -> Table:
    """Read a file of named columns, such as :class:`ParquetColumns`."""
    target_at = target_position(file.source, file.names, target, named=True)
    return to_table(file.source, file.table(), target_at, columns, named=True, raw=raw)


class ParquetColumns:
    """The columns of a Parquet file, with the methods of :class:`CsvText`."""

    named = True

    def __init__(self, source: Input) -> None:
        self.source = source
        schema, self.n_rows = parquet_outline(source)
        self.names = without_index(source, schema.names)

    def table(
        self,
        as_text: Collection[str] = (),
        mixed: bool = False,
        used: Collection[str] | None = None,
    ) -> Any:
        """All of it; types are those of the file."""
        with parquet_file(self.source) as file:
            groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
            cells = float(file.metadata.num_rows) * file.metadata.num_columns
            check_memory(
                max(8.0 * cells, float(sum(group.total_byte_size for group in groups))),
                f"the table in {self.source}",
                "read fewer columns of it by memory_mapped, or write it in parts",
            )
            return plain_table(file.read().select(self.names))

    def pieces(
        self,
        columns: list[str],
        as_text: Collection[str] = (),
        mixed: bool = False,
        numbers: Collection[str] = (),
    ) -> Iterator[Any]:
        """Some columns, a number of rows at a time, as tables."""
        n_rows = max(1, min(_ROWS, int(chunk_bytes() / (_CELL * len(columns)))))
        return parquet_pieces(self.source, columns, n_rows)


@contextmanager
def parquet_file(source: Input) -> Iterator[Any]:
    """Open a Parquet file; damage found inside is a DataError."""
    arrow, parquet = pyarrow(), pyarrow("parquet")
    # Otherwise the whole file would be in memory while its first rows are read.
    piecewise = {"pre_buffer": False, "buffer_size": _BUFFER}
    try:
        with parquet.ParquetFile(str(source.path), **piecewise) as file:
            yield file
    except (arrow.ArrowException, OSError, UnicodeError) as error:
        raise DataError(f"{source} is not a whole Parquet file ({first_line(error)})") from None


def parquet_outline(source: Input) -> tuple[Any, int]:
    """The schema of a Parquet file and how many rows it has."""
    with parquet_file(source) as file:
        return file.schema_arrow, file.metadata.num_rows


def parquet_pieces(source: Input, columns: list[str], n_rows: int) -> Iterator[Any]:
    """Yield some columns of a Parquet file as tables of at most ``n_rows`` rows."""
    arrow = pyarrow()
    with parquet_file(source) as file:
        for batch in file.iter_batches(n_rows, columns=columns):
            yield plain_table(arrow.Table.from_batches([batch]))


def parquet_columns(
    source: Input, names: Sequence[str], target: str | int | None, columns: Sequence[str] | None
) -> tuple[list[str], str | None]:
    """The feature columns and the target column of a Parquet file that has these names."""
    names = without_index(source, names)
    target_at = target_position(source, names, target, named=True)
    name = None if target_at is None else names[target_at]
    return feature_columns(source, names, name, columns), name


def without_index(source: Input, names: Sequence[str]) -> list[str]:
    """The columns of a Parquet file but the index that pandas may have stored."""
    refuse_repeated(source, names, "schema")
    return [name for name in names if not _PANDAS_INDEX.match(name)]


# --- from columns to arrays ----------------------------------------------------------------


def target_position(
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


def to_table(
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
    features = feature_columns(source, names, target_name, columns)
    X = raw_matrix(source, table, features) if raw else number_matrix(source, table, features)
    y = None if target_name is None else target_of(source, target_name, table.column(target_name))
    if not named:
        return Table(X, y)
    return Table(X, y, tuple(features), target_name)


def feature_columns(
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


def number_matrix(source: Input, table: Any, features: list[str]) -> np.ndarray:
    """The features as one array."""
    _refuse_texts(source, table, features)
    X = np.empty((table.num_rows, len(features)), dtype=number_type(source, table.schema, features))
    faults = Faults(source, features)
    for j, name in enumerate(features):
        X[:, j] = numbers_of(table.column(name))
        faults.look_at(j, X[:, j])
    faults.report()
    return X


def _refuse_texts(source: Input, table: Any, features: list[str]) -> None:
    """Raise for a column of numbers and texts, and name the first text."""
    for name in features:
        column = table.column(name)
        if is_text(column.type) and (cell := text_among_numbers(column)):
            row, text = cell
            raise DataError(
                f"{source}: column {name} is not numeric: row {row} holds {text!r}; encode or "
                "leave out such columns"
            )


def number_type(source: Input, schema: Any, features: list[str]) -> Any:
    """The dtype of such features: float32 if every column is stored so, else float64."""
    types = pyarrow().types
    kinds = [schema.field(name).type for name in features]
    text = [name for name, kind in zip(features, kinds, strict=True) if not is_number(kind)]
    if text:
        raise DataError(
            f"{source}: {listed('column', text)} not numeric; encode or leave out such columns"
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
                    f"{listed('column', complaints, verb=False)}; "
                    "fill them in or leave those columns or rows out"
                )


def raw_matrix(source: Input, table: Any, features: list[str]) -> np.ndarray:
    """The features as they are: float64 if all are numbers, else objects; NaN or None."""
    table = _with_whole_texts(table.select(features))
    if all(is_number(table.schema.field(name).type) for name in features):
        X = np.column_stack([numbers_of(table.column(name)) for name in features])
        return X.astype(np.float64, copy=False)
    X = np.empty((table.num_rows, len(features)), dtype=object)
    for j, name in enumerate(features):
        X[:, j] = _cells(source, name, table.column(name))
    return X


def _with_whole_texts(table: Any) -> Any:
    """A table whose whole numbers beyond 2**53 are texts, as names may be that floats confuse."""
    for place, name in enumerate(table.column_names):
        column = table.column(place)
        if (texts := whole_as_text(column)) is not column:
            table = table.set_column(place, name, [texts])
    return table


def frame(table: Any, features: list[str]) -> Any:
    """The features as a table of PyArrow whose types data frames have."""
    arrow = pyarrow()
    table = _with_whole_texts(table.select(features))
    for place, field in enumerate(table.schema):
        if arrow.types.is_null(field.type) or arrow.types.is_decimal(field.type):
            column = table.column(place).cast(arrow.float64())
            table = table.set_column(place, field.name, column)
    return table


def _cells(source: Input, name: str, column: Any) -> np.ndarray:
    """A column as Python objects: numbers, texts or dates, None for missing cells."""
    arrow = pyarrow()
    if arrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if is_number(kind):
        return numbers_of(column).astype(object)
    if arrow.types.is_date(kind) or arrow.types.is_timestamp(kind):
        dates = column.cast(arrow.timestamp("us")).to_numpy().astype("datetime64[us]")
        if ((dates < _FIRST) | (dates > _LAST)).any():
            raise DataError(f"{source}: column {name} holds dates outside the years 1 to 9999")
        return dates.astype(object)
    if is_text(kind):
        return np.array([*column.to_pylist(), None], dtype=object)[:-1]
    raise DataError(f"{source}: column {name} holds {kind}, which is no number, text or date")


def numbers_of(column: Any) -> np.ndarray:
    """A numeric column as a NumPy array with NaN for missing cells."""
    arrow = pyarrow()
    if arrow.types.is_null(column.type):
        return np.full(len(column), np.nan)
    if arrow.types.is_decimal(column.type):
        column = column.cast(arrow.float64())
    if arrow.types.is_boolean(column.type):
        column = column.cast(arrow.uint8())
    return column.to_numpy()


def is_known(column: Any) -> np.ndarray:
    """True for cells that hold a value: no null, no NaN and no empty text; (n,)."""
    arrow, compute = pyarrow(), pyarrow("compute")
    if arrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    known = compute.invert(compute.is_null(column, nan_is_null=True))
    if is_text(column.type):
        filled = compute.not_equal(compute.utf8_trim_whitespace(column), "")
        known = compute.and_(known, compute.fill_null(filled, False))
    return np.asarray(known.combine_chunks().to_numpy(zero_copy_only=False), dtype=bool)


def target_of(source: Input, name: str, column: Any) -> np.ndarray:
    """The target: numbers where all cells are numbers, else labels as strings."""
    arrow, compute = pyarrow(), pyarrow("compute")
    if arrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if is_text(column.type):
        text = compute.utf8_trim_whitespace(column)
        text = compute.if_else(compute.equal(text, ""), None, text)
        column = as_numbers(text, ".", f"{source}: the target {name!r}")
    has_numbers = is_number(column.type)
    if arrow.types.is_temporal(column.type):
        raise DataError(f"{source}: the target {name!r} holds dates or times; {OF_DATES}")
    if not has_numbers and not is_text(column.type):
        raise DataError(
            f"{source}: the target {name!r} must hold numbers or strings, not {column.type}"
        )
    missing = column.null_count
    if arrow.types.is_floating(column.type) or arrow.types.is_decimal(column.type):
        values = numbers_of(column)
        missing = int((~np.isfinite(values)).sum())
    if len(column) and (missing == len(column) or arrow.types.is_null(column.type)):
        raise DataError(
            f"{source}: the column {name!r} is empty in all {len(column)} rows; name another target"
        )
    if missing:
        raise DataError(
            f"{source}: the target {name!r} is missing or infinite in {missing} rows; "
            "fill it in or leave those rows out"
        )
    if not has_numbers:
        return np.array(column.to_pylist(), dtype=str)
    return column.to_numpy() if arrow.types.is_boolean(column.type) else numbers_of(column)
