"""Parquet files larger than memory, as arrays that stay in files."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import DTypeLike

from mercer._runtime.arrays import chunk_bytes, format_bytes
from mercer._runtime.files import remove_leftovers, write_atomically

from .base import DataError, Table
from .files import Input, existing
from .tables import (
    Faults,
    number_type,
    numbers_of,
    parquet_columns,
    parquet_outline,
    parquet_pieces,
    target_of,
)

__all__ = ["array_bytes", "is_parquet", "memory_mapped"]

_OURS = re.compile(r"\.?(?P<array>[Xy]-[0-9a-f]{16}\.npy)(?P<temporary>\.[0-9a-f]{8}\.tmp)?")
_VERSION = 1  # of what the arrays hold for the same file


def memory_mapped(
    path: str | os.PathLike[str],
    target: str | int | None = None,
    *,
    columns: Sequence[str] | None = None,
    dtype: DTypeLike | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> Table:
    """Convert a Parquet file into memory-mapped arrays, a number of rows at a time.

    The arrays are written once and reused while the Parquet file is unchanged. Models take them
    like other arrays; only the rows in use are in memory.

    Parameters
    ----------
    path : path-like
        Parquet file. Features are numbers or booleans without missing cells.
    target : str or int, default=None
        Name or number of the target column (negative numbers count from the end), which may hold
        strings as well; None reads all columns as features.
    columns : sequence of str, default=None
        The feature columns, in this order; None takes all.
    dtype : {float32, float64}, default=None
        Type of the features; None takes float32 if all columns are stored so, else float64.
    folder : path-like, default=None
        Folder for the arrays of this file. None takes the folder beside the file with the name of
        the file and the ending ``.mapped``.

    Returns
    -------
    Table
        With `X` and `y` as read-only memory maps.

    Raises
    ------
    DataError
        If the content is invalid; the message names the column.
    TypeError
        If ``dtype`` is neither float32 nor float64.
    OSError
        If the arrays cannot be written, because the disk is full or permission is missing.
    ImportError
        If PyArrow is not installed.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import pyarrow, pyarrow.parquet
    >>> from mercer import datasets
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "houses.parquet"
    >>> columns = pyarrow.table({"rooms": [3, 5], "age": [7.5, 80.0], "price": [2.0, 4.0]})
    >>> pyarrow.parquet.write_table(columns, path)
    >>> table = datasets.memory_mapped(path, "price")
    >>> table.X.tolist(), table.X.flags.writeable
    ([[3.0, 7.5], [5.0, 80.0]], False)
    """
    source = Input(existing(Path(path)))
    if not is_parquet(source.path):
        raise DataError(f"{source} is no Parquet file; write it as one, which can be read in parts")
    schema, n = parquet_outline(source)
    features, target_name = parquet_columns(source, schema.names, target, columns)
    if not n:
        raise DataError(f"{source} is empty, there is no row to read")
    stored = number_type(source, schema, features)
    if dtype is not None and np.dtype(dtype) not in (np.float32, np.float64):
        raise TypeError(f"dtype must be float32, float64 or None; got {dtype!r}")
    kind = np.dtype(stored if dtype is None else dtype)
    place = source.path.with_name(source.path.name + ".mapped") if folder is None else Path(folder)
    mark = _mark(source.path, schema, features, target_name, kind)
    X_path, y_path = place / f"X-{mark}.npy", place / f"y-{mark}.npy"
    if not (X_path.is_file() and (target_name is None or y_path.is_file())):
        _make_room(place, float(n) * len(features) * kind.itemsize)
        y = _write_features(source, features, target_name, n, X_path, kind)
        if target_name is not None:
            write_atomically(y_path, lambda file: np.save(file, target_of(source, target_name, y)))
        _remove_others(place, mark)
    y_map = None if target_name is None else np.load(y_path, mmap_mode="r")
    return Table(np.load(X_path, mmap_mode="r"), y_map, tuple(features), target_name)


def is_parquet(path: Path) -> bool:
    """Whether a file says of itself that it is Parquet."""
    with path.open("rb") as file:
        return file.read(4) == b"PAR1"


def array_bytes(path: Path) -> float:
    """Bytes of the float64 array that would hold all columns of a Parquet file."""
    schema, n = parquet_outline(Input(path))
    return 8.0 * n * len(schema.names)


def _mark(path: Path, schema: Any, features: list[str], target: str | None, kind: Any) -> str:
    """The mark that tells these arrays of this state of a file from others."""
    state = path.stat()
    size, changed = state.st_size, state.st_mtime_ns
    identity = [_VERSION, size, changed, str(schema), features, target, kind.name]
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]


def _make_room(folder: Path, needed: float) -> None:
    """Make the folder; raise before the work if the arrays would not fit on its disk."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(
            f"cannot write to {folder} ({error.strerror}); name another folder for the arrays"
        ) from None
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise OSError(
            f"the arrays need {format_bytes(needed)} of disk but {format_bytes(free)} are free in "
            f"{folder}; name another folder or read fewer columns"
        )


def _write_features(
    source: Input, features: list[str], target: str | None, n: int, path: Path, kind: np.dtype
) -> Any:
    """Write the features as one array; returns the target column."""
    import pyarrow

    wanted = features if target is None else [*features, target]
    # Columns are met as they are stored, as numbers, and as part of the rows.
    rows = max(1, int(chunk_bytes() / (24.0 * len(wanted))))
    faults, chunks = Faults(source, features), []

    def write(file: BinaryIO) -> None:
        header = {"descr": kind.str, "fortran_order": False, "shape": (n, len(features))}
        np.lib.format.write_array_header_1_0(file, header)
        for piece in parquet_pieces(source, wanted, rows):
            block = np.empty((piece.num_rows, len(features)), dtype=kind)
            for j, name in enumerate(features):
                with np.errstate(over="ignore"):
                    block[:, j] = numbers_of(piece.column(name))
                faults.look_at(j, block[:, j])
            file.write(block.data)
            if target is not None:
                chunks.extend(piece.column(target).chunks)
        faults.report()

    write_atomically(path, write)
    return None if target is None else pyarrow.chunked_array(chunks)


def _remove_others(folder: Path, mark: str) -> None:
    """Remove the arrays of former states of the file, and what writers that died left of them."""
    for path in folder.iterdir():
        ours = _OURS.fullmatch(path.name)
        if ours is None or mark in path.name:
            continue
        with suppress(OSError):  # still mapped by somebody, on systems that mind
            if ours["temporary"]:
                remove_leftovers(folder / ours["array"])
            else:
                path.unlink()
