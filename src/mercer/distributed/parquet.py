"""Folders of Parquet files, of which every worker reads its own rows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.arrays import check_memory
from mercer.datasets import DataError
from mercer.datasets.arrow import is_number, is_text, near, pyarrow
from mercer.datasets.files import Input
from mercer.datasets.tables import (
    feature_columns,
    frame,
    is_known,
    numbers_of,
    parquet_file,
    target_of,
    target_position,
    without_index,
)
from mercer.engines.shards import Shard

__all__ = ["ParquetPart", "parquet_files", "parquet_parts", "read_part"]

_SUFFIXES = (".parquet", ".pq")
_NEAR = 0.1  # of the rows of a part, by which it may differ from others to end with a group


@dataclass(frozen=True)
class ParquetPart:
    """Some rows of Parquet files, to be read on a worker."""

    # (file, number of the row group, first row, row before which it ends)
    groups: tuple[tuple[str, int, int, int], ...]
    features: tuple[str, ...]  # names of columns, as target and weights
    target: str | None
    weights: str | None
    dtype: str | None  # of an array of the features; None makes frames
    offset: str | None = None

    @property
    def n_rows(self) -> int:
        """Count of rows, with or without a target."""
        return sum(stop - start for _, _, start, stop in self.groups)


def parquet_files(path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[Path]:
    """The Parquet files of a folder, recursive, or a list; names with "." or "_" first are out."""
    if not isinstance(path, (str, os.PathLike)):
        return [file for each in path for file in parquet_files(each)]
    path = Path(path).absolute()
    if not path.is_dir():
        if not path.exists():
            raise FileNotFoundError(f"there is no file or folder {path}.")
        return [path]
    inside = [file for file in sorted(path.rglob("*")) if file.suffix.lower() in _SUFFIXES]
    names = [file.relative_to(path).parts for file in inside]
    files = [
        file
        for file, parts in zip(inside, names, strict=True)
        if file.is_file() and not any(part.startswith((".", "_")) for part in parts)
    ]
    if not files:
        raise DataError(f"{path} holds no Parquet file (.parquet or .pq)")
    keyed = next((part for parts in names for part in parts[:-1] if "=" in part), None)
    if keyed is not None:
        raise DataError(
            f"{path} keeps a column in names of folders, such as {keyed!r}; write it into the files"
        )
    return files


def parquet_parts(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    n_parts: int,
    *,
    target: str | int | None = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    weights: str | None = None,
    offset: str | None = None,
    raw: bool = False,
) -> list[ParquetPart]:
    """Divide the rows of Parquet files, sorted by name; only the ends of files are read.

    ``path`` is a folder, a file or several, which every worker finds under equal names. There are
    ``n_parts`` parts of about as many rows, or one per row. ``target`` is a name or number of a
    column; ``features`` by default all columns without another use; ``raw`` makes frames also of
    tables without texts and dates.

    A DataError if files are no Parquet files, differ in their columns or lack a named one; a
    FileNotFoundError if there is nothing under a path.
    """
    files = parquet_files(path)
    source = Input(files[0])
    schema, groups = _outline(files)
    names = without_index(source, schema.names)
    at = target_position(source, names, target, named=True)
    target = None if at is None else names[at]
    for name in (*drop, *(each for each in (weights, offset) if each is not None)):
        if name not in names:
            raise DataError(f"{source} has no column {name!r}{near(name, names)}")
    if features is None:
        others = {target, weights, offset, *drop}
        features = [name for name in names if name not in others]
    features = feature_columns(source, names, target, features)
    are_numbers = all(is_number(schema.field(name).type) for name in features)
    n_rows = sum(n for *_, n in groups)
    if not n_rows:
        raise DataError(f"{source} is empty, there is no row to read")
    edges = _edges([n for *_, n in groups], max(1, min(n_parts, n_rows)))
    return [
        ParquetPart(
            _within(groups, start, stop),
            tuple(features),
            target,
            weights,
            _dtype(schema, features) if are_numbers and not raw else None,
            offset,
        )
        for start, stop in pairwise(edges)
    ]


def read_part(part: ParquetPart) -> Shard:
    """Read the rows of a part that have a target.

    X is a float32 or float64 array with NaN for missing cells, or a frame. A target of texts is one
    of labels, also where the texts are numbers, as no part knows the texts of others. A DataError
    if a file has changed or cannot be read here, a weight is negative or missing, or an offset is
    missing.
    """
    names = [part.target, part.weights, part.offset]
    columns = list(dict.fromkeys([*part.features, *(name for name in names if name is not None)]))
    width = 8.0 if part.dtype is None else np.dtype(part.dtype).itemsize
    check_memory(
        width * part.n_rows * len(part.features),
        f"{part.n_rows} rows of {len(part.features)} columns",
        "use more workers",
    )
    X = None if part.dtype is None else np.empty((part.n_rows, len(part.features)), part.dtype)
    frames, targets, weights, offsets, n = [], [], [], [], 0
    for path, group, start, stop in part.groups:
        table = _with_target(_rows(path, group, columns).slice(start, stop - start), part.target)
        if X is None:
            frames.append(frame(table, list(part.features)))
        else:
            for j, name in enumerate(part.features):
                X[n : n + table.num_rows, j] = numbers_of(table.column(name))
        n += table.num_rows
        if part.target is not None:
            targets.append(_target(Input(Path(path)), part.target, table.column(part.target)))
        if part.weights is not None:
            values = _finite("weights", path, part.weights, table.column(part.weights), 0.0)
            weights.append(values)
        if part.offset is not None:
            offsets.append(_finite("offset", path, part.offset, table.column(part.offset), -np.inf))
    return Shard(
        pyarrow().concat_tables(frames) if X is None else X[:n],
        None if part.target is None else np.concatenate(targets),
        None if part.weights is None else np.concatenate(weights),
        offset=None if part.offset is None else np.concatenate(offsets),
    )


def _outline(files: Sequence[Path]) -> tuple[Any, list[tuple[str, int, int]]]:
    """The schema of files, and (file, number, rows) of their groups of rows."""
    first: Any = None
    groups = []
    for path in files:
        with parquet_file(Input(path)) as file:
            schema = file.schema_arrow
            counts = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        first = schema if first is None else first
        _check_alike(files[0], first, path, schema)
        groups += [(str(path), i, n) for i, n in enumerate(counts)]
    return first, groups


def _check_alike(one: Path, schema: Any, other: Path, its: Any) -> None:
    """Refuse files whose columns differ; one type of numbers is as good as another."""
    for name in dict.fromkeys([*schema.names, *its.names]):
        if name not in its.names or name not in schema.names:
            with_it, without = (one, other) if name in schema.names else (other, one)
            raise DataError(f"{without} lacks the column {name!r}, which {with_it} has")
        kinds = [each.field(name).type for each in (schema, its)]
        if kinds[0] != kinds[1] and not all(map(is_number, kinds)):
            raise DataError(
                f"column {name!r} holds {kinds[0]} in {one} but {kinds[1]} in {other}; write files "
                "of the same types"
            )


def _dtype(schema: Any, features: Sequence[str]) -> str:
    """float32 if every column is stored so, else float64."""
    types = pyarrow().types
    kinds = [schema.field(name).type for name in features]
    small = all(types.is_float32(kind) or types.is_float16(kind) for kind in kinds)
    return "float32" if small else "float64"


def _edges(counts: Sequence[int], n_parts: int) -> list[int]:
    """Rows at which parts begin, and the end: even, or at the begin of a group where it is near."""
    begins = np.array([0, *accumulate(counts)])
    total = int(begins[-1])
    edges = [0]
    for j in range(1, n_parts):
        even = j * total // n_parts
        nearest = int(begins[np.abs(begins - even).argmin()])
        edges.append(nearest if abs(nearest - even) <= _NEAR * total / n_parts else even)
    return [*edges, total]


def _within(
    groups: Sequence[tuple[str, int, int]], start: int, stop: int
) -> tuple[tuple[str, int, int, int], ...]:
    """The rows from start to before stop, by groups."""
    parts, begin = [], 0
    for path, number, n in groups:
        first, last = max(start - begin, 0), min(stop - begin, n)
        if first < last:
            parts.append((path, number, first, last))
        begin += n
    return tuple(parts)


def _rows(path: str, group: int, columns: list[str]) -> Any:
    """A group of rows, as a table."""
    if not Path(path).is_file():
        raise DataError(f"there is no file {path} on a worker; all must find it under this name")
    with parquet_file(Input(Path(path))) as file:
        if group >= file.num_row_groups:
            raise DataError(f"{path} was changed while it was read")
        return file.read_row_group(group, columns=columns)


def _with_target(table: Any, target: str | None) -> Any:
    """The rows whose target is there."""
    if target is None:
        return table
    known = is_known(table.column(target))
    return table if known.all() else table.filter(pyarrow().array(known))


def _target(source: Input, name: str, column: Any) -> NDArray:
    arrow, compute = pyarrow(), pyarrow("compute")
    if arrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if is_text(column.type):
        return np.array(compute.utf8_trim_whitespace(column).to_pylist(), dtype=str)
    return target_of(source, name, column)


def _finite(kind: str, path: str, name: str, column: Any, least: float) -> NDArray[np.float64]:
    """Numbers of a column that are finite and at least ``least``: weights, or an offset."""
    if not is_number(column.type):
        raise DataError(f"{kind} must be numbers; column {name!r} of {path} holds {column.type}")
    values = numbers_of(column).astype(np.float64)
    bad = int((~(np.isfinite(values) & (values >= least))).sum())
    if bad:
        bound = f" of at least {least:g}" if np.isfinite(least) else ""
        raise DataError(
            f"{kind} must be finite numbers{bound}; column {name!r} of {path} holds others in "
            f"{bad} rows"
        )
    return values
