"""From DATA on the command line to rows and targets."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.cli.options import Task, waiting

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mercer.datasets.base import Dataset, Table
    from mercer.persistence import SavedModel

_MANY = 100  # whole numbers with more distinct values than this are taken for a quantity


@dataclass
class Labelled:
    """A data set with the name of its target and how its task was settled."""

    data: Dataset
    target: str | None
    task_note: str


def labelled(
    text: str, target: str | None, task: Task, out_of_core: bool = False, raw: bool = False
) -> Labelled:
    """The data set that ``text`` names, a known one or a file, with a target to fit.

    Columns of texts and dates and missing cells are welcome if ``raw``.
    """
    from mercer import datasets

    path = Path(text)
    if not _is_file(text, out_of_core):
        return _known(text, target, task)
    table, test = _read_with_test(path, target, out_of_core, raw)
    if table.y is None:
        raise _no_target(text, table.feature_names)
    kind, note = as_task(table.y, task)
    data = datasets.Dataset(
        name=path.name.partition(".")[0],
        task=kind,
        X=_floats(table.X),
        y=table.y,
        X_test=None if test is None else _floats(test[0]),
        y_test=None if test is None else test[1],
        feature_names=table.feature_names,
        source=path.name,
    )
    return Labelled(data, table.target_name or target, note)


def unlabelled(
    text: str, saved: SavedModel, out_of_core: bool = False
) -> tuple[Any, NDArray | None]:
    """The rows to predict, in the columns of the model, and their targets where they are there."""
    from mercer import datasets

    if _is_file(text, out_of_core):
        table = _read_for(Path(text), saved, out_of_core)
        X, y, names = table.X, table.y, table.feature_names
    else:
        data = datasets.load(text)
        X, y = (data.X, data.y) if data.X_test is None else (data.X_test, data.y_test)
        names = data.feature_names
    d = saved.model.n_features_in_
    if X.shape[1] != d:
        raise ValueError(f"{text} has {X.shape[1]} feature columns; the model was fitted on {d}.")
    known = saved.feature_names
    if names is not None and known is not None and list(names) != known:
        differing = next(a for a, b in zip(names, known, strict=True) if a != b)
        raise ValueError(f"{text} has the column {differing!r} where the model has another.")
    return _floats(X), y


def as_task(y: NDArray, task: Task) -> tuple[str, str]:
    """Classification or regression for a target, and the sentence that says why."""
    y = np.asarray(y)
    if task is Task.regression and y.dtype.kind not in "biuf":
        raise ValueError(f"--task regression needs numbers; the target holds {y.flat[0]!s:.40}")
    if task is not Task.auto:
        return str(task), f"task: {task}, as asked"
    if y.ndim == 2:
        return "regression", f"task: regression, the target has {y.shape[1]} columns"
    if y.dtype.kind not in "iuf":
        return "classification", "task: classification, the target holds labels"
    if y.dtype.kind == "f" and (y != np.floor(y)).any():
        return "regression", "task: regression, the target has fractions"
    distinct = len(np.unique(y))
    if distinct > max(2, min(_MANY, len(y) // 2)):
        return "regression", f"task: regression, the target has {distinct} distinct values"
    return "classification", f"task: classification, the target has {distinct} distinct values"


def _is_file(text: str, out_of_core: bool) -> bool:
    """Whether there is a file of that name; a data set that is not known is refused."""
    from mercer import datasets

    if Path(text).is_file():
        return True
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


def _no_target(text: str, columns: Sequence[str] | None) -> ValueError:
    names = f", one of {', '.join(columns[:6])}" if columns else ""
    return ValueError(f"{text} does not say what to predict; name the column with --target{names}")


def _stays_in_file(path: Path, out_of_core: bool) -> bool:
    """Whether a table is to be read a number of rows at a time: asked for, or too large."""
    from mercer._array import available_memory
    from mercer.datasets import mapped

    if out_of_core or not mapped.is_parquet(path):
        return out_of_core
    available = available_memory()
    # A table is read before it is made an array.
    return available is not None and 2.0 * mapped.array_bytes(path) > available


def _read_with_test(
    path: Path, target: str | None, out_of_core: bool, raw: bool
) -> tuple[Table, tuple[Any, NDArray] | None]:
    """A file's table, and the test part where it holds one (NPZ alone can)."""
    from mercer import datasets
    from mercer.datasets.readers import read_parts

    if _stays_in_file(path, out_of_core):
        if target is None:
            raise _no_target(str(path), None)
        with waiting(f"reading {path} into files beside it"):
            return datasets.memory_mapped(path, target), None
    try:
        table = datasets.read(path, target, raw=raw)
    except datasets.DataError as error:
        if target is None and "not numeric" in str(error):
            raise ValueError(f"{error}; --target names the column to predict") from error
        raise
    if path.suffix.lower() != ".npz" or table.target_name not in (None, "y_train"):
        return table, None
    parts = read_parts(path)
    if "X_test" not in parts or "y_test" not in parts:
        return table, None
    return table, (parts["X_test"], parts["y_test"])


def _read_for(path: Path, saved: SavedModel, out_of_core: bool) -> Table:
    """A file's rows in the columns that a model wants, with the target if it is there."""
    from mercer import datasets

    d = saved.model.n_features_in_
    names = saved.feature_names
    raw = hasattr(saved.model, "best_estimator_")  # an automatic model takes tables as they are
    stays = _stays_in_file(path, out_of_core)
    if names is None:
        if stays:
            return datasets.memory_mapped(path)
        table = _read_unnamed(path, d, raw)
        if table.X.shape[1] != d + 1 or saved.target is None:
            return table
        return datasets.read(path, saved.target, raw=raw)
    read: Any = datasets.memory_mapped if stays else partial(datasets.read, raw=raw)
    # Without the target, or with gaps in it, the rows can be predicted all the same.
    for target in dict.fromkeys((saved.target, None)):
        try:
            return read(path, target, columns=names)
        except datasets.DataError as error:
            refused = error
    with suppress(datasets.DataError):
        unnamed = None if stays else _read_unnamed(path, d, raw)
        if unnamed is not None and unnamed.feature_names is None:
            return unnamed  # a format without names: the order of the columns has to be trusted
    raise refused


def _read_unnamed(path: Path, d: int, raw: bool) -> Table:
    """A file without column names: LIBSVM text has to be told how many features there are."""
    from mercer import datasets

    table = datasets.read(path, raw=raw)
    if table.X.shape[1] < d and not isinstance(table.X, np.ndarray):
        return datasets.read(path, n_features=d)
    return table


def _floats(X: Any) -> Any:
    """Floating point, in the precision that holds the values as they are; objects stay objects."""
    if X.dtype.kind == "O" or (X.dtype.kind == "f" and X.dtype.itemsize >= 4):
        return X
    return X.astype(np.float32 if X.dtype.itemsize <= 2 else np.float64)


def _unknown(text: str, names: list[str]) -> Exception:
    path = Path(text)
    if os.sep in text or path.suffix:
        folder = path.parent
        beside = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
        near = get_close_matches(path.name, beside, n=1)
        hint = f"; did you mean {folder / near[0]}?" if near else ""
        return FileNotFoundError(f"there is no file {text}{hint}")
    near = get_close_matches(text, names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(names)}"
    return ValueError(f"no file and no known data set is called {text!r}; {hint}")
