"""Columns of a file by their roles, read: inputs, target, weights, groups, names of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.cli.roles import Roles

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mercer.datasets.base import Table


@dataclass
class Rows:
    """Rows of a file by role; X is a frame of named columns or an array."""

    table: Table
    weights: NDArray | None = None
    groups: NDArray | None = None
    n_left_out: int = 0  # rows whose target is missing
    is_raw: bool = False  # whether there is anything but numbers without gaps
    has_categories: bool = False  # true if the target is a column of categories


def read_rows(file: Any, roles: Roles, raw: bool) -> Rows:
    """The rows of a file's columns with a target.

    Numbers without gaps become an array as :func:`mercer.datasets.read` makes it, other cells, or
    named columns if ``raw``, a frame.
    """
    from mercer import datasets
    from mercer.datasets import tables

    source = file.source
    target = target_name(file, roles.target)
    inputs = _inputs(file, roles, target)
    table = file.table([] if target is None else [target], mixed=True)
    if not table.num_rows:
        raise ValueError(f"{source} holds columns and no row.")
    table, left_out = _with_target(table, target)
    y = None if target is None else tables.target_of(source, target, table.column(target))
    is_raw = raw or not _are_numbers(table, inputs)
    X: Any
    if not is_raw:
        X = tables.number_matrix(source, table, inputs)
    elif file.named:
        X = tables.frame(table, inputs)
    else:
        X = tables.raw_matrix(source, table, inputs)
    named = (tuple(inputs), target) if file.named else (None, None)
    return Rows(
        datasets.Table(X, y, *named),
        weights=None if roles.weights is None else _weights(table, roles.weights),
        groups=None if roles.groups is None else _groups(table, roles.groups),
        n_left_out=left_out,
        is_raw=is_raw,
        has_categories=target is not None and _has_categories(table.schema, target),
    )


def _has_categories(schema: Any, name: str) -> bool:
    """True for a column of categories; Parquet keeps those of numbers in pandas' metadata alone."""
    from pyarrow.types import is_dictionary

    stored = (schema.pandas_metadata or {}).get("columns", ())
    kinds = {column.get("field_name"): column.get("pandas_type") for column in stored}
    return is_dictionary(schema.field(name).type) or kinds.get(name) == "categorical"


def target_name(file: Any, target: str | None) -> str | None:
    """The column that ``--target`` means, by name or number."""
    from mercer.datasets import tables

    at = tables.target_position(file.source, file.names, target, named=file.named)
    return None if at is None else file.names[at]


def extra_columns(file: Any, roles: Roles) -> tuple[NDArray | None, NDArray | None]:
    """Weights and groups of a file whose rows stay there."""
    import pyarrow

    named = [name for name in (roles.weights, roles.groups) if name is not None]
    table = pyarrow.concat_tables(file.pieces(named)) if named else None
    return (
        None if roles.weights is None else _weights(table, roles.weights),
        None if roles.groups is None else _groups(table, roles.groups),
    )


def _inputs(file: Any, roles: Roles, target: str | None) -> list[str]:
    if not file.named:
        roles.refuse_others(f"{file.source} has no header")
    return roles.inputs(str(file.source), file.names, target)


def numbers_in(texts: NDArray) -> tuple[NDArray, str]:
    """Numbers that texts such as $1,200 stand for, and their format; else the texts and ""."""
    from mercer.preparation.recognition import TRUTH, format_of, is_date, read_as

    present, places = np.unique(texts, return_inverse=True)
    form = format_of(present.tolist())
    if not form or is_date(form) or form == TRUTH:
        return texts, ""
    values = read_as(present.tolist(), form)
    return (values[places], form) if np.isfinite(values).all() else (texts, "")


def _with_target(table: Any, target: str | None) -> tuple[Any, int]:
    """The rows whose target is there, and how many others there are; all if none has one."""
    import pyarrow

    from mercer.datasets import tables

    if target is None:
        return table, 0
    known = tables.is_known(table.column(target))
    left_out = int((~known).sum())
    if not left_out or left_out == len(known):
        return table, 0
    return table.filter(pyarrow.array(known)), left_out


def _are_numbers(table: Any, columns: Sequence[str]) -> bool:
    """Whether columns hold numbers alone, without gaps."""
    from mercer.datasets import tables
    from mercer.datasets.arrow import is_number

    return all(
        is_number(table.schema.field(name).type)
        and not table.column(name).null_count
        and not np.isnan(tables.numbers_of(table.column(name))).any()
        for name in columns
    )


def _weights(table: Any, name: str) -> NDArray:
    """A column as weights of the rows."""
    from mercer.datasets import tables
    from mercer.datasets.arrow import is_number, is_text

    column = table.column(name)
    values = tables.numbers_of(column) if is_number(column.type) else np.array(["no number"])
    if is_text(column.type) and not column.null_count:
        values, _ = numbers_in(np.array(column.to_pylist(), dtype=str))
    if values.dtype.kind == "U":
        raise ValueError(f"--weights must name a column of numbers; {name!r} holds {column.type}.")
    values = values.astype(np.float64)
    bad = int((~(np.isfinite(values) & (values >= 0))).sum())
    if bad:
        raise ValueError(
            f"--weights must name a column of finite numbers of at least 0; {name!r} holds others "
            f"in {bad} rows."
        )
    return values


def _groups(table: Any, name: str) -> NDArray:
    """A column as numbers of the groups of rows."""
    column = table.column(name)
    if column.null_count:
        raise ValueError(f"--groups must be known of every row; {column.null_count} lack {name!r}.")
    codes = column.combine_chunks().dictionary_encode()
    return codes.indices.to_numpy(zero_copy_only=False).astype(np.int64)
