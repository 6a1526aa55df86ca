"""Reading a file of unknown format into a `Table`."""

from __future__ import annotations

import math
import os
import struct
import tokenize
import zipfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from mercer._runtime.arrays import check_memory
from mercer._runtime.files import array_header
from mercer._runtime.messages import shown
from mercer._runtime.sparse import canonical_csr, check_shape, compressed

from .arrow import near
from .base import DataError, Table
from .csv_text import CsvText
from .files import AS_UTF8, Input, existing
from .libsvm import looks_like_libsvm, read_libsvm
from .other_tables import OtherColumns, other_format
from .tables import ParquetColumns, read_columns, read_csv

_CSV_SUFFIXES = (".csv", ".tsv", ".tab")
_LIBSVM_SUFFIXES = (".libsvm", ".svm", ".svmlight")
_TEXT_SUFFIXES = (*_CSV_SUFFIXES, *_LIBSVM_SUFFIXES)
_PARQUET_SUFFIXES = (".parquet", ".pq")
# What a damaged archive or header raises besides what its compression does.
_UNREADABLE = (ValueError, TypeError, RuntimeError, OverflowError, SyntaxError, struct.error)
_WORDS = {
    "libsvm": "LIBSVM text",
    "csv": "CSV",
    "parquet": "Parquet",
    "npz": "NPZ",
    "feather": "Feather",
    "json": "JSON",
    "json lines": "JSON lines",
    "excel": "Excel",
}
_FORMATS = "LIBSVM text, CSV, Parquet, NPZ, Feather, JSON and Excel"


def read(
    path: str | os.PathLike[str],
    target: str | int | None = None,
    *,
    columns: Sequence[str] | None = None,
    n_features: int | None = None,
    header: bool | None = None,
    zero_based: bool | None = None,
    raw: bool = False,
    missing: Collection[str] | None = None,
) -> Table:
    """Read a data file; its content determines the format.

    Formats are LIBSVM text, CSV, Parquet, NPZ, Feather, JSON (a list of objects), JSON lines and
    the first sheet of an Excel workbook.

    Text is UTF-8, or UTF-16 with a byte order mark, and may be compressed (gzip, bzip2, xz).
    Missing and infinite values raise an error unless ``raw``, as few estimators take them.

    Parameters
    ----------
    path : path-like
        File to read.
    target : str or int, default=None
        Name or index of the target column, for files with columns (negative indices count from the
        end); None reads all columns as features. For NPZ the name of the target array, by default
        ``y`` if there is one. LIBSVM text includes its labels.
    columns : sequence of str, default=None
        Names of the feature columns, in this order, for files with columns; None takes all.
    n_features : int, default=None
        Number of features. LIBSVM text lists only non-zero features, so that a part of a data set
        may need it; for other formats it is checked.
    header : bool, default=None
        Whether the first line of a CSV file has names; None decides by the first two lines.
    zero_based : bool, default=None
        Whether indices of LIBSVM text count from 0; None means so if index 0 occurs. Set it for a
        small file whose rows may all lack the first feature.
    raw : bool, default=False
        Whether features may be texts and dates, and cells missing, for files with columns;
        :class:`mercer.TablePreparer` takes such tables.
    missing : collection of str, default=None
        Words that mean a missing cell of a CSV file; blank cells are always missing. None takes
        "?", "NA", "N/A", "NaN", "nan", "NULL", "null" and "None", and warns where such a word
        stands beside blank cells in a column of labels: with ``missing=[]`` it is a label.

    Returns
    -------
    Table
        `X` (float64, or float32 where all is stored so; NPZ keeps its dtype; sparse for LIBSVM
        and CSR; raw tables that are not all numbers are objects), `y`, `feature_names`,
        `target_name`. Query ids and comments of LIBSVM text are not kept; of an NPZ with a training
        and a test part the training part is returned.

    Raises
    ------
    DataError
        If the content is invalid; the message names the line or the column.
    TypeError
        If ``missing`` is no collection of texts.
    FileNotFoundError, IsADirectoryError, PermissionError
        If there is no such file to read.
    ImportError
        If PyArrow, or fastexcel for Excel, is not installed.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from mercer import datasets
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "small.svm"
    >>> _ = path.write_text("1 1:0.5 3:2\\n-1 2:1\\n")
    >>> table = datasets.read(path)
    >>> table.X.toarray().tolist(), table.y.tolist()
    ([[0.5, 0.0, 2.0], [0.0, 1.0, 0.0]], [1.0, -1.0])
    """
    source = Input(existing(Path(path)))
    if n_features is not None and n_features < 1:
        raise ValueError(f"n_features must be at least 1, got {n_features}")
    _check_words(missing)
    kind = _format(source)
    if kind == "libsvm":
        _refuse(kind, source, target=target, columns=columns, header=header, missing=missing)
        return read_libsvm(source, n_features, zero_based)
    if kind == "npz":
        _refuse(
            kind, source, columns=columns, header=header, zero_based=zero_based, missing=missing
        )
        table = _read_npz(source, target)
    elif kind == "csv":
        _refuse(kind, source, zero_based=zero_based)
        table = read_csv(source, target, columns, header, raw, missing)
    else:
        _refuse(kind, source, header=header, zero_based=zero_based, missing=missing)
        table = read_columns(_named_columns(source, kind), target, columns, raw)
    if n_features is not None and table.X.shape[1] != n_features:
        raise DataError(
            f"{source} holds {table.X.shape[1]} features, n_features={n_features} were expected"
        )
    return table


def _check_words(missing: Any) -> None:
    """Raise unless the words for a missing cell are a collection of texts, or None."""
    if missing is None:
        return
    is_one = isinstance(missing, str | bytes) or not isinstance(missing, Collection)
    if is_one or not all(isinstance(word, str) for word in missing):
        raise TypeError(
            "missing must be None or a collection of texts, such as ['NA', '-']; got "
            f"{shown(missing)}"
        )


def columns_of(
    path: Path, missing: Collection[str] | None = None
) -> CsvText | ParquetColumns | OtherColumns | None:
    """The columns of a file that has columns; None for LIBSVM text and NPZ.

    ``missing`` are words that mean a missing cell of a CSV file, None the usual ones.
    """
    source = Input(existing(path))
    kind = _format(source)
    if kind in ("libsvm", "npz"):
        return None
    return CsvText(source, missing=missing) if kind == "csv" else _named_columns(source, kind)


def _named_columns(source: Input, kind: str) -> ParquetColumns | OtherColumns:
    return ParquetColumns(source) if kind == "parquet" else OtherColumns(source, kind)


def read_parts(path: Path) -> dict[str, np.ndarray | sparse.csr_array]:
    """All that an NPZ file holds; a CSR triple becomes the one array ``X``."""
    source = Input(path)
    arrays = _load_npz(source)
    if "indptr" in arrays:
        arrays["X"] = _sparse(source, arrays)
    if "X_test" in arrays:
        _check_arrays(source, arrays["X_test"], arrays.get("y_test"), "X_test", "y_test")
        X = arrays["X" if "X" in arrays else "X_train"]
        if X.shape[1:] != arrays["X_test"].shape[1:]:
            raise DataError(
                f"{source}: X_test of shape {arrays['X_test'].shape} does not go with the "
                f"training rows of shape {X.shape}"
            )
    return arrays


def _refuse(kind: str, source: Input, **options: Any) -> None:
    """Raise on options that mean nothing for a format: they are not dropped in silence."""
    for name, value in options.items():
        if value is not None:
            raise DataError(f"{source} is {_WORDS[kind]}, which takes no {name}, got {value!r}")


def _format(source: Input) -> str:
    """The format by content, then by extension: "npz", "parquet", "libsvm", "csv" or another."""
    start, suffix = source.start(), source.suffix
    if not start.strip():
        raise DataError(f"{source} is empty, there is no row to read")
    if start.startswith(b"PAR1"):
        return "parquet"
    if start.startswith(b"PK\x03\x04") and (suffix == ".npz" or _holds_arrays(source.path)):
        return "npz"
    if other := other_format(source, start, suffix in _TEXT_SUFFIXES):
        return other
    if suffix in (".npz", *_PARQUET_SUFFIXES):
        raise DataError(f"{source} is not {suffix[1:].upper()} by its content")
    if 3 * start[1::2].count(0) > len(start) or 3 * start[::2].count(0) > len(start):
        raise DataError(
            f"{source} looks like UTF-16 text without a byte order mark; "
            f"{AS_UTF8.format('utf-16-le')}"
        )
    if b"\0" in start or start.startswith(b"PK\x03\x04"):
        raise DataError(f"{source} is none of the formats that can be read: {_FORMATS}")
    if suffix in _CSV_SUFFIXES:
        return "csv"
    if suffix in _LIBSVM_SUFFIXES or looks_like_libsvm(start):
        return "libsvm"
    if any(delimiter in start for delimiter in (b",", b";", b"\t")):
        return "csv"
    raise DataError(
        f"{source}: neither LIBSVM text nor CSV; name it .csv or .svm if it is one of the two"
    )


def _holds_arrays(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return all(name.endswith(".npy") for name in archive.namelist())
    except zipfile.BadZipFile:
        return False


def _load_npz(source: Input) -> dict[str, Any]:
    """The arrays of a file, of each of which the header and the size agree."""
    with source.damage_reported(), _archive(source) as archive:
        members = archive.infolist()
        total = float(sum(member.file_size for member in members))
        check_memory(total, f"what {source} holds", "write it in parts")
        return {
            member.filename.removesuffix(".npy"): _load_array(source, archive, member)
            for member in members
        }


def _archive(source: Input) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(source.path)
    except _UNREADABLE as error:
        raise DataError(f"{source} is no archive that can be read ({error})") from None


def _load_array(source: Input, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    """Read one member, not before its header was compared with its size."""
    try:
        with archive.open(member) as file:
            shape, dtype = array_header(file)
            stated = math.prod(shape) * dtype.itemsize
            if not dtype.itemsize:
                raise ValueError(f"its numbers have no size, being of dtype {dtype}")
            if not dtype.hasobject and stated != member.file_size - file.tell():
                raise ValueError(
                    f"its header states {stated} bytes, it has {member.file_size - file.tell()}"
                )
        with archive.open(member) as file:
            return np.lib.format.read_array(file, allow_pickle=False)
    except (*_UNREADABLE, KeyError, tokenize.TokenError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise DataError(
            f"{source}: its member {member.filename!r} cannot be read as an array ({reason})"
        ) from None


def _read_npz(source: Input, target: str | int | None) -> Table:
    arrays = _load_npz(source)
    X: Any = _sparse(source, arrays) if "indptr" in arrays else arrays.get("X")
    y_name = "y"
    if X is None:
        X, y_name = arrays.get("X_train"), "y_train"
    if X is None:
        raise DataError(
            f"{source} must hold an array X or X_train, or data, indices, indptr and shape; "
            f"it holds {', '.join(map(repr, arrays)) or 'nothing'}"
        )
    if target is not None:
        if target not in arrays:
            raise DataError(f"{source} has no array {target!r}{near(str(target), list(arrays))}")
        y_name = str(target)
    y = arrays.get(y_name)
    _check_arrays(source, X, y, "X", y_name)
    names = arrays.get("feature_names")
    if names is not None and names.shape != (X.shape[1],):
        raise DataError(f"{source}: {names.size} feature_names for {X.shape[1]} features")
    names = None if names is None else tuple(map(str, names))
    return Table(X, y, names, None if y is None else y_name)


def _check_arrays(source: Input, X: Any, y: np.ndarray | None, x_name: str, y_name: str) -> None:
    """Raise unless X is a numeric matrix with finite values and y goes with it."""
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise DataError(
            f"{source}: {x_name} must be a matrix of numbers, got shape {X.shape} and dtype "
            f"{X.dtype}"
        )
    if not X.shape[0]:
        raise DataError(f"{source} is empty, there is no row to read")
    if not X.shape[1]:
        raise DataError(f"{source} holds rows without features")
    values = X.data if sparse.issparse(X) else X
    bad = int((~np.isfinite(values)).sum()) if X.dtype.kind == "f" else 0
    if bad:
        raise DataError(f"{source}: {x_name} holds {bad} missing or infinite values")
    if y is None:
        return
    if y.dtype.kind not in "biufUS":
        raise DataError(f"{source}: {y_name} must hold numbers or texts, got dtype {y.dtype}")
    if y.ndim not in (1, 2) or len(y) != X.shape[0] or not y.size:
        raise DataError(
            f"{source}: {y_name} of shape {y.shape} does not go with {x_name} of shape {X.shape}"
        )
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        bad = int((~np.isfinite(y)).sum())
        raise DataError(f"{source}: {y_name} holds {bad} missing or infinite values")


def _sparse(source: Input, arrays: Mapping[str, Any]) -> sparse.csr_array:
    """Build the matrix of a CSR (or SciPy's CSC) set of arrays."""
    missing = [name for name in ("data", "indices", "indptr", "shape") if name not in arrays]
    if missing:
        raise DataError(f"{source} has indptr but lacks {' and '.join(missing)}")
    layout = arrays.get("format", np.array("csr"))
    is_text = layout.shape == () and layout.dtype.kind in "US"
    kind = layout.astype(str).item() if is_text else layout.tolist()
    if kind not in ("csr", "csc"):
        raise DataError(f"{source}: sparse format {str(kind)[:60]!r} is not one of csr and csc")
    shape = arrays["shape"]
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or (shape < 0).any():
        raise DataError(f"{source}: shape must be two whole numbers, got {shown(shape)}")
    n, d = shape.tolist()
    check_shape((n, d), str(source))
    data, indices, indptr = (arrays[name] for name in ("data", "indices", "indptr"))
    try:
        return canonical_csr(compressed(kind, data, indices, indptr, (n, d)))
    except (ValueError, TypeError) as error:
        reason = str(error).rstrip(".")
        raise DataError(f"{source} holds no valid sparse matrix ({reason})") from None
