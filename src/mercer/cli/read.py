"""Tables that DATA names, read by the roles of their columns."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from mercer.cli.options import Task, say, waiting
from mercer.cli.roles import Roles, require

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mercer.datasets.base import Dataset, Table

_Beside: TypeAlias = "tuple[NDArray | None, NDArray | None, NDArray | None]"

_LONG = 1000  # characters of a path that an error prints
_ASKED = "task: {}, as asked"
_FRACTIONS = "task: regression, the target has fractions"


@dataclass
class _Rows:
    """Rows of a file by role; X is a frame of named columns or an array."""

    table: Table
    weights: NDArray | None = None
    groups: NDArray | None = None
    offset: NDArray | None = None
    n_left_out: int = 0  # rows whose target is missing
    is_raw: bool = False  # whether there is anything but numbers without gaps
    has_categories: bool = False  # true if the target is a column of categories
    X_test: Any = None  # test part, which NPZ files alone can hold
    y_test: NDArray | None = None


@dataclass
class Labelled:
    """A data set with the name of its target and how its task was settled."""

    data: Dataset
    target: str | None
    task_note: str
    weights: NDArray | None = None
    groups: NDArray | None = None
    offset: NDArray | None = None
    n_left_out: int = 0  # rows whose target is missing
    is_raw: bool = False  # whether there is anything but numbers without gaps

    def tell(self) -> None:
        """Print how the rows are taken."""
        say(self.task_note)
        if self.n_left_out:
            say(f"left out: {self.n_left_out} rows whose target is missing")


def labelled(
    text: str, roles: Roles, task: Task, out_of_core: bool = False, raw: bool = False
) -> Labelled:
    """The known data set or file that ``text`` names, with a target to fit.

    X is a frame of texts, dates or gaps in named columns, or of any if ``raw``; else an array.
    """
    from mercer import datasets

    text, target = table_of(text)
    if target is not None and roles.target is None:
        roles = replace(roles, target=target)
    path = Path(text)
    if not is_file(text, out_of_core):
        roles.refuse_others(f"{text} is a known data set")
        roles.refuse_words(f"{text} is a known data set")
        return _known(text, roles.target, task)
    rows = _read_file(path, roles, out_of_core, raw)
    table = rows.table
    if table.y is None:
        raise no_target(text, table.feature_names)
    y, form = table.y, ""
    if task is not Task.classification and np.asarray(y).dtype.kind == "U":
        y, form = numbers_in(y)
        if task is Task.auto and y.dtype.kind == "U":
            _refuse_dates(y, roles.target)
    kind, note = as_task(y, task, rows.has_categories)
    data = datasets.Dataset(
        name=path.name.partition(".")[0],
        task=kind,
        X=floats(table.X),
        y=y,
        X_test=None if rows.X_test is None else floats(rows.X_test),
        y_test=rows.y_test,
        feature_names=table.feature_names,
        source=path.name,
    )
    return Labelled(
        data,
        table.target_name or roles.target,
        f"{note}, read as {form!r}" if form else note,
        rows.weights,
        rows.groups,
        rows.offset,
        rows.n_left_out,
        rows.is_raw,
    )


def as_task(y: NDArray, task: Task, has_categories: bool = False) -> tuple[str, str]:
    """The task for a target, classification for categories, and the sentence that says why."""
    y = np.asarray(y)
    if task is Task.auto and y.ndim == 2:
        return "regression", f"task: regression, the target has {y.shape[1]} columns"
    if task is Task.auto and y.dtype.kind == "f" and (y != np.floor(y)).any():
        return "regression", _FRACTIONS
    if task is Task.regression and y.dtype.kind in "biuf":
        return "regression", _ASKED.format(task)
    return task_of(*np.unique(y, return_counts=True), task, has_categories)


def task_of(
    distinct: NDArray, counts: NDArray, task: Task, has_categories: bool = False
) -> tuple[str, str]:
    """As :func:`as_task`, from the sorted different values of a target and the rows of each."""
    from mercer.estimators.targets import are_classes, are_too_many, warn_of_small_classes

    is_number = distinct.dtype.kind in "iuf"
    if task is Task.regression and not (is_number or distinct.dtype.kind == "b"):
        raise ValueError(f"--task regression needs numbers; the target holds {distinct[0]!s:.40}")
    if task is not Task.auto:
        if task is Task.classification:
            warn_of_small_classes(distinct, counts)
        return str(task), _ASKED.format(task)
    n, n_rows = len(distinct), int(counts.sum())
    if not is_number or has_categories:
        if are_too_many(counts):
            kind = "values" if is_number else "texts"
            raise ValueError(
                f"the target holds {n} different {kind} in {n_rows} rows, such as "
                f"{distinct[0]!s:.40}: neither numbers nor classes; --task classification insists."
            )
        return "classification", "task: classification, the target holds labels"
    if (distinct != np.floor(distinct)).any():
        return "regression", _FRACTIONS
    if are_classes(distinct, counts):
        end = f"{n} distinct whole values; --task regression takes them as numbers"
        return "classification", f"task: classification, the target has {end}"
    end = f"{n} distinct values; --task classification takes them as classes"
    return "regression", f"task: regression, the target has {end}"


def _refuse_dates(y: NDArray, target: str | None) -> None:
    """Raise if all texts of a target are dates."""
    from mercer.datasets.tables import OF_DATES
    from mercer.preparation.recognition import format_of, is_date

    if is_date(format_of(np.unique(y).tolist())):
        raise ValueError(
            f"the target {target!r} holds dates, such as {y.flat[0]!s:.40}; {OF_DATES}."
        )


def table_of(text: str) -> tuple[str, str | None]:
    """The CSV file and the target of a shipped table that ``text`` names, or ``text`` and None."""
    from mercer.datasets.loading import shipped_table

    found = None if Path(text).exists() else shipped_table(text)
    return (text, None) if found is None else (str(found[0]), found[1])


def is_file(text: str, out_of_core: bool = False) -> bool:
    """Whether there is a file of that name; a data set that is not known is refused."""
    from mercer import datasets

    if Path(text).is_file():
        return True
    if Path(text).is_dir():
        raise ValueError(
            f"{text} is a folder, which mercer fit reads with --workers or --scheduler."
        )
    if text == "-" or Path(text).exists():
        raise ValueError(
            f"DATA must be a file that can be read more than once; got {text}, a stream: write it "
            "to a file first, and name that."
        )
    if text.lower().replace("_", "-") not in datasets.names():
        raise _unknown(text, datasets.names())
    if out_of_core:
        raise ValueError(f"--out-of-core needs a Parquet file; got the known data set {text}.")
    return False


def _known(name: str, target: str | None, task: Task) -> Labelled:
    from mercer import datasets

    if target is not None:
        raise ValueError(f"{name} is a known data set with a target of its own; drop --target.")
    data = datasets.load(name)
    if task not in (Task.auto, data.task):
        raise ValueError(f"{name} is a known data set for {data.task}; drop --task {task}.")
    return Labelled(data, None, f"task: {data.task}, as known of {name}")


def no_target(text: str, columns: Sequence[str] | None) -> ValueError:
    """The error of a command without a target."""
    from mercer.datasets.arrow import SHOWN

    names = ""
    if columns:
        more = f" and {len(columns) - 2 * SHOWN} more" if len(columns) > 2 * SHOWN else ""
        names = f", one of {', '.join(columns[: 2 * SHOWN])}{more}"
    return ValueError(f"{text} does not say what to predict; name the column with --target{names}")


def _stays_in_file(path: Path, out_of_core: bool) -> bool:
    """True if a table is to be read in pieces: on request, or because it is too large."""
    from mercer._runtime.arrays import available_memory
    from mercer.datasets import mapped

    if out_of_core or not mapped.is_parquet(path):
        return out_of_core
    available = available_memory()
    # A table is read before it is made an array.
    return available is not None and 2.0 * mapped.array_bytes(path) > available


def _read_file(path: Path, roles: Roles, out_of_core: bool, raw: bool) -> _Rows:
    """The rows of a file, and its test part if an NPZ file has one."""
    from mercer import datasets
    from mercer.datasets.readers import read_parts

    if out_of_core and not datasets.mapped.is_parquet(path):
        raise ValueError(f"--out-of-core needs a Parquet file; {path} is none.")
    file = _columns_in(path, roles)
    if file is None:
        roles.refuse_others(f"{path} is none")
        table = datasets.read(path, roles.target)
        if path.suffix.lower() != ".npz" or table.target_name not in (None, "y_train"):
            return _Rows(table)
        parts = read_parts(path)
        if "X_test" not in parts or "y_test" not in parts:
            return _Rows(table)
        return _Rows(table, X_test=parts["X_test"], y_test=parts["y_test"])
    if roles.target is None:
        raise no_target(str(path), file.names if file.named else None)
    if not _stays_in_file(path, out_of_core):
        return _read_rows(file, roles, raw)
    extra = _extra_columns(file, roles)
    inputs = roles.inputs(str(path), file.names, _target_name(file, roles.target))
    with waiting(f"reading {path} into files beside it"):
        table = datasets.memory_mapped(path, roles.target, columns=inputs)
    return _Rows(table, *extra)


def _columns_in(path: Path, roles: Roles) -> Any:
    """The columns of a file, None if it has none; only CSV has words for missing cells."""
    from mercer.datasets.readers import columns_of

    file = columns_of(path, roles.missing)
    if not hasattr(file, "layout"):
        roles.refuse_words(f"{path} is none")
    return file


def floats(X: Any) -> Any:
    """Floating point, in the precision that holds the values as they are; objects stay objects."""
    kind = getattr(getattr(X, "dtype", None), "kind", "O")  # frames have none
    if kind == "O" or (kind == "f" and X.dtype.itemsize >= 4):
        return X
    return X.astype(np.float32 if X.dtype.itemsize <= 2 else np.float64)


def _unknown(text: str, names: list[str]) -> Exception:
    path = Path(text)
    if len(text) > _LONG:
        return FileNotFoundError(f"there is no file {text[:_LONG]}…, of {len(text)} characters")
    if os.sep in text or path.suffix:
        hint = near_file(path)
        if os.sep not in text and path.stem.lower().replace("_", "-") in names:
            hint = f"; did you mean the known data set {path.stem}?"
        return FileNotFoundError(f"there is no file {text}{hint}")
    near = get_close_matches(text, names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(names)}"
    return ValueError(f"no file and no known data set is called {text!r}; {hint}")


def near_file(path: Path) -> str:
    """The end of an error about a missing file: a similar name in its folder, "" if none."""
    folder = path.parent
    beside = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    near = get_close_matches(path.name, beside, n=1)
    return f"; did you mean {folder / near[0]}?" if near else ""


def frame_in(
    text: str, roles: Roles, wanted: list[str] | None = None
) -> tuple[Any, dict[str, Any]]:
    """Columns of a file without a target as a table of PyArrow, and the id columns."""
    from mercer.datasets import tables

    text, _ = table_of(text)
    file = _columns_in(Path(text), roles) if is_file(text) else None
    if file is None:
        raise ValueError(f"a table must have columns, as CSV and Parquet files do; got {text}.")
    if not file.named:
        roles.refuse_others(f"{text} has no header")
    if wanted is not None:
        require(text, wanted, file.names)
    inputs = wanted or roles.inputs(text, file.names, None)
    table = file.table(roles.ids, mixed=True, used=inputs)
    if not table.num_rows:
        raise ValueError(f"{text} holds columns and no row.")
    return tables.frame(table, inputs), {name: table.column(name) for name in roles.ids}


def _read_rows(file: Any, roles: Roles, raw: bool) -> _Rows:
    """The rows of a file's columns with a target.

    Numbers without gaps become an array as :func:`mercer.datasets.read` makes it, other cells, or
    named columns if ``raw``, a frame.
    """
    from mercer import datasets
    from mercer.datasets import tables

    source = file.source
    target = _target_name(file, roles.target)
    inputs = _inputs(file, roles, target)
    table = file.table([] if target is None else [target], mixed=True, used=inputs)
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
    return _Rows(
        datasets.Table(X, y, *named),
        **dict(zip(("weights", "groups", "offset"), _columns_beside(table, roles), strict=True)),
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


def _target_name(file: Any, target: str | None) -> str | None:
    """The column that ``--target`` means, by name or number."""
    from mercer.datasets import tables

    at = tables.target_position(file.source, file.names, target, named=file.named)
    return None if at is None else file.names[at]


def _extra_columns(file: Any, roles: Roles) -> _Beside:
    """Weights, groups and offset of a file whose rows stay there."""
    import pyarrow

    wanted = roles.weights, roles.groups, roles.offset, roles.exposure
    named = [name for name in wanted if name is not None]
    return _columns_beside(pyarrow.concat_tables(file.pieces(named)) if named else None, roles)


def _columns_beside(table: Any, roles: Roles) -> _Beside:
    """Weights, groups and offset of the rows of a table."""
    return (
        None if roles.weights is None else _amounts(table, roles.weights, "--weights"),
        None if roles.groups is None else _groups(table, roles.groups),
        offset_of(table, roles.offset, roles.exposure),
    )


def offset_of(table: Any, offset: str | None, exposure: str | None) -> NDArray | None:
    """The offset of the rows of a table: a column, or the logarithms of one."""
    if exposure is not None:
        return np.log(_amounts(table, exposure, "--exposure"))
    return None if offset is None else _amounts(table, offset, "--offset")


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


def _amounts(table: Any, name: str, option: str) -> NDArray:
    """A column of numbers that an option names, in the range that it needs."""
    from mercer.datasets import tables
    from mercer.datasets.arrow import is_number, is_text

    column = table.column(name)
    values = tables.numbers_of(column) if is_number(column.type) else np.array(["no number"])
    if is_text(column.type) and not column.null_count:
        values, _ = numbers_in(np.array(column.to_pylist(), dtype=str))
    if values.dtype.kind == "U":
        raise ValueError(f"{option} must name a column of numbers; {name!r} holds {column.type}.")
    values = values.astype(np.float64)
    within, rule = {
        "--weights": (values >= 0, " of at least 0"),
        "--exposure": (values > 0, " above 0"),
        "--offset": (values == values, ""),
    }[option]
    bad = int((~(np.isfinite(values) & within)).sum())
    if bad:
        raise ValueError(
            f"{option} must name a column of finite numbers{rule}; {name!r} holds others in {bad} "
            "rows."
        )
    return values


def _groups(table: Any, name: str) -> NDArray:
    """A column as numbers of the groups of rows."""
    column = table.column(name)
    if column.null_count:
        raise ValueError(f"--groups must be known of every row; {column.null_count} lack {name!r}.")
    codes = column.combine_chunks().dictionary_encode()
    return codes.indices.to_numpy(zero_copy_only=False).astype(np.int64)
