"""Loading data sets by name: shipped, from a folder, from the cache, or from their public home."""

from __future__ import annotations

import fnmatch
import os
import zipfile
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from .arrow import near
from .base import DataError, Dataset
from .cache import VARIABLE, fetch, find_in_cache, find_in_folder, in_cache, in_folder
from .csv_text import CsvText
from .files import Input
from .libsvm import read_libsvm
from .readers import read_parts
from .registry import DATA, ENTRIES, Entry, File
from .tables import frame, read_csv, target_of

_CacheArgument = str | os.PathLike[str] | None


@dataclass(frozen=True)
class Description:
    """Facts about a data set that need no reading.

    `n_train`, `n_test` and `n_features` are the official shape (`n_test` None without an official
    split, `n_train` None where papers differ); `where` is one of "shipped", "in the folder",
    "in the cache", "to be fetched" and "to be put there by hand"; `urls` are the files a fetch
    brings.
    """

    name: str
    task: str
    n_train: int | None
    n_test: int | None
    n_features: int
    source: str
    licence: str
    note: str
    is_sample: bool
    stand_in_for: str | None
    where: str
    urls: tuple[str, ...]


def names() -> list[str]:
    """The names of all data sets that `load` knows, sorted.

    Examples
    --------
    >>> from mercer import datasets
    >>> "letter" in datasets.names()
    True
    """
    return sorted(ENTRIES)


def describe(name: str, *, cache: _CacheArgument = None) -> Description:
    """Shape, task, public home, licence and whereabouts of a data set.

    Parameters
    ----------
    name : str
        One of `names()`; case does not matter, ``_`` reads as ``-``.
    cache : path-like, default=None
        Folder of fetched files; None is the user's cache folder.

    Raises
    ------
    DataError
        If no set has that name.

    Examples
    --------
    >>> from mercer import datasets
    >>> datasets.describe("letter").where
    'shipped'
    """
    entry = _entry(name)
    urls = tuple(file.url for file in entry.files)
    return Description(**_facts(entry, Description), where=_where(entry, cache), urls=urls)


def load(name: str, *, cache: _CacheArgument = None) -> Dataset:
    """Load a data set by its name.

    The function looks in the package (``letter``, ``flats``), in the folder of the environment
    variable ``MERCER_DATA`` and in the cache, in this order, and else downloads the set from its
    public home into the cache. It checks each file against its SHA-256, known or recorded at the
    first download, and each set against its official shape.

    Parameters
    ----------
    name : str
        One of `names()`; case does not matter, ``_`` reads as ``-``. Parts of a set have names
        of their own, such as ``covtype-sample``.
    cache : path-like, default=None
        Folder of fetched files; None is the user's cache folder.

    Returns
    -------
    Dataset
        `X` is float32, dense or CSR, or a PyArrow table where columns are mixed (``flats``);
        labels are int64, responses float64.

    Raises
    ------
    DataError
        If no set has that name, if the set is not available, or if a file fails a check.
    ImportError
        If the package that downloads or reads the set is not installed.

    Examples
    --------
    >>> from mercer import datasets
    >>> datasets.load("letter")
    Dataset('letter', classification, 15000 rows, 16 features, 5000 test rows)
    """
    entry = _entry(name)
    if entry.table is not None:
        parts = _from_table(entry, entry.table)
        _check_shapes(entry, parts)
        return Dataset(**parts, **_facts(entry, Dataset))
    prepared = DATA / f"{entry.name}.npz" if entry.shipped else None
    if prepared is None and entry.prepared is not None:
        prepared = in_folder(entry.prepared)
    parts = _from_prepared(entry, prepared) if prepared else _from_home(entry, cache)
    _check_shapes(entry, parts)
    return Dataset(**parts, **_facts(entry, Dataset))


def shipped_table(name: str) -> tuple[Path, str] | None:
    """The CSV file and the target of a set that is shipped as one; None for every other name."""
    entry = ENTRIES.get(_key(name))
    if entry is None or entry.table is None or entry.target is None:
        return None
    return entry.table, entry.target


def _key(name: str) -> str:
    return str(name).strip().lower().replace("_", "-")


def _facts(entry: Entry, kind: type[Dataset] | type[Description]) -> dict[str, Any]:
    """The fields of ``kind`` that an entry knows."""
    return {f.name: getattr(entry, f.name) for f in fields(kind) if hasattr(entry, f.name)}


def _entry(name: str) -> Entry:
    key = _key(name)
    if key not in ENTRIES:
        raise DataError(f"there is no data set {name!r}{near(key, names())}")
    return ENTRIES[key]


def _check_shapes(entry: Entry, parts: dict[str, Any]) -> None:
    """Raise unless the parts have the official shape: nothing else may pass for the set."""
    for part, n in (("", entry.n_train), ("_test", entry.n_test)):
        shape = parts["X" + part].shape if "X" + part in parts else None
        if shape is None and n is None:
            continue
        if shape is None or shape != (shape[0] if n is None else n, entry.n_features):
            raise DataError(
                f"what was found for the {'test' if part else 'training'} part of {entry.name!r} "
                f"has shape {shape}, not {(n, entry.n_features)}"
            )


def _where(entry: Entry, cache: _CacheArgument) -> str:
    if entry.shipped:
        return "shipped"
    if entry.prepared is not None and find_in_folder(entry.prepared):
        return "in the folder"
    if not entry.files:
        return "to be put there by hand"
    if all(find_in_folder(file) for file in entry.files):
        return "in the folder"
    try:
        at_hand = all(find_in_folder(f) or find_in_cache(f, cache) for f in entry.files)
    except ImportError:  # without pooch there is no cache
        at_hand = False
    return "in the cache" if at_hand else "to be fetched"


# --- from files to arrays ------------------------------------------------------------------


def _from_prepared(entry: Entry, path: Path) -> dict[str, Any]:
    """The fields of a data set from its NPZ file."""
    arrays = read_parts(path)
    whole = "X" in arrays
    parts: dict[str, Any] = {}
    for part, suffix in (("", "" if whole else "_train"), ("_test", "_test")):
        if "X" + suffix in arrays:
            y = arrays["y" + suffix]
            if entry.y_columns is not None:
                y = y[:, entry.y_columns]
            parts["X" + part] = _features(entry, arrays["X" + suffix])
            parts["y" + part] = _response(entry, y)
    names = arrays.get("feature_names")
    parts["feature_names"] = None if names is None else tuple(map(str, names))
    return parts


def _from_table(entry: Entry, path: Path) -> dict[str, Any]:
    """The fields of a data set from a CSV file of mixed columns."""
    source = Input(path)
    file = CsvText(source)
    table = file.table(mixed=True)
    names = [name for name in file.names if name != entry.target]
    y = target_of(source, str(entry.target), table.column(entry.target))
    return {"X": frame(table, names), "y": _response(entry, y), "feature_names": tuple(names)}


def _from_home(entry: Entry, cache: _CacheArgument) -> dict[str, Any]:
    """The fields of a data set from the files of its public home."""
    parts: dict[str, Any] = {}
    for part, file in (("", entry.train), ("_test", entry.test)):
        if file is None:
            continue
        X, y, names = _read_public(entry, file, _locate(entry, file, cache))
        parts["X" + part] = _features(entry, X)
        parts["y" + part] = _response(entry, y)
        parts.setdefault("feature_names", names)
    if not parts:
        name = entry.prepared.name if entry.prepared else f"{entry.name}.npz"
        raise DataError(
            f"the data set {entry.name!r} cannot be fetched: write X of {entry.n_features} "
            f"features and y, from {entry.source}, as arrays to {name} "
            f"in {_folder()}{_parts_at_hand(entry)}"
        )
    return parts


def _locate(entry: Entry, file: File, cache: _CacheArgument) -> Path:
    path = in_folder(file) or in_cache(file, cache)
    if path is not None:
        return path
    try:
        return fetch(file, cache)
    except OSError as error:
        raise DataError(
            f"the data set {entry.name!r} is not at hand and fetching it failed "
            f"({type(error).__name__}): get {file.name} from {file.url} and put it into "
            f"{_folder()}{_parts_at_hand(entry)}"
        ) from error


def _folder() -> str:
    named = os.environ.get(VARIABLE)
    return f"the folder {named}" if named else f"a folder that {VARIABLE} names"


def _parts_at_hand(entry: Entry) -> str:
    """The end of a sentence that lists the parts available for a missing set."""
    nearby = [
        repr(other.name)
        for other in ENTRIES.values()
        if other.stand_in_for == entry.name and other.prepared and find_in_folder(other.prepared)
    ]
    return f"; at hand, under its own name, is {' and '.join(nearby)}" if nearby else ""


def _read_public(entry: Entry, file: File, path: Path) -> tuple[Any, Any, Any]:
    """Features, target and feature names of one public file."""
    if not file.members and not file.name.endswith((".tsv.gz", ".csv")):
        table = read_libsvm(Input(path), entry.n_features, None)
        return table.X, table.y, None
    sources = [Input(path)]
    if file.members:
        with Input(path).damage_reported(), zipfile.ZipFile(path) as archive:
            members = sorted(archive.namelist())
        sources = [
            Input(path, m) for m in members if any(fnmatch.fnmatch(m, p) for p in file.members)
        ]
        if not sources:
            raise DataError(f"{path} holds no {' or '.join(file.members)}")
    tables = [read_csv(source, None, None, None) for source in sources]
    X = np.concatenate([table.X for table in tables])
    names = tables[0].feature_names
    features = slice(*entry.features)
    return (
        X[:, features],
        X[:, entry.targets[0]] if len(entry.targets) == 1 else X[:, entry.targets],
        None if names is None else names[features],
    )


def _features(entry: Entry, X: Any) -> Any:
    """Features as float32, sparse or dense as the set is meant to be."""
    if sparse.issparse(X):
        X = sparse.csr_array(X.astype(np.float32, copy=False))
        return X if entry.sparse else X.toarray()
    return np.ascontiguousarray(X, dtype=np.float32)


def _response(entry: Entry, y: np.ndarray) -> np.ndarray:
    """Labels as words or int64, responses as float64, one column as a vector."""
    if y.dtype.kind in "OU":
        return y.astype(str)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if entry.task == "regression":
        return y.astype(np.float64)
    labels = y.astype(np.int64)
    if not np.array_equal(labels, y):
        raise DataError(f"the labels of {entry.name!r} are not integers")
    return labels
