"""Files that commands write: checked before the work, so that nothing of a user is lost."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from mercer.cli.options import OUTPUT_PANEL

PARQUET = (".parquet", ".pq")
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Replace a file that is there and that mercer did not write.",
        rich_help_panel=OUTPUT_PANEL,
    ),
]
_ROWS = 65_536  # lines formatted at a time
_OF_FOLDERS = (*PARQUET, ".jsonl")  # files that commands read from a folder
_START = 1 << 16  # bytes that show the header of a table or of a page
_SHOWN = 200  # letters of a path in a message
# Columns of mercer's predictions, behind those that --id names.
_PREDICTED = re.compile(r"(prediction|probability|quantile|in_set|low|high)(_.*)?", re.DOTALL)

_EXPLAINED = re.compile(r"(base|value|error)(_.*)?", re.DOTALL)  # the same of Shapley values


@dataclass(frozen=True)
class Kind:
    """Kind of file that a command writes: its suffixes, any if empty, and a test of its files."""

    name: str
    suffixes: tuple[str, ...]
    is_own: Callable[[Path], bool]


@dataclass(frozen=True)
class Output:
    """A file that an option names."""

    option: str
    path: Path
    kind: Kind


def _is_model(path: Path) -> bool:
    with zipfile.ZipFile(path) as archive:
        root = json.loads(archive.read("schema.json"))
    return (root["__module__"], root["__class__"]) == ("mercer.persistence", "SavedModel")


def _is_page(path: Path) -> bool:
    with path.open("rb") as file:
        return b'<meta name="generator" content="mercer">' in file.read(_START)


def _names_in(path: Path) -> Sequence[str]:
    """Names of the columns of a CSV or Parquet file."""
    if path.suffix.lower() in PARQUET:
        from pyarrow import parquet

        names: Sequence[str] = parquet.read_schema(path).names
        return names
    with path.open(encoding="utf-8", newline="") as file:
        return next(csv.reader([file.readline(_START)]))


def _is_explanation(path: Path) -> bool:
    names = _names_in(path)
    first = next(at for at, name in enumerate(names) if re.fullmatch(r"base(_.*)?", name))
    return all(_EXPLAINED.fullmatch(name) for name in names[first:])


def _is_predictions(path: Path) -> bool:
    names = _names_in(path)
    first = next(at for at, name in enumerate(names) if re.fullmatch(r"prediction(_\d+)?", name))
    return all(_PREDICTED.fullmatch(name) for name in names[first:])


def _is_records(path: Path) -> bool:
    with path.open("rb") as file:
        record = json.loads(file.readline())
    return {"method", "data", "score"} <= record.keys()


def _is_figure(path: Path) -> bool:
    with path.open("rb") as file:
        start = file.read(_START)
    return start.startswith(b"\x89PNG") and b"Matplotlib" in start


MODEL = Kind("a model file", ("", ".skops"), _is_model)
PAGE = Kind("a report page", (".html", ".htm"), _is_page)
PREDICTIONS = Kind("a file of predictions", ("", ".csv", ".txt", *PARQUET), _is_predictions)

EXPLANATIONS = Kind("a file of Shapley values", ("", ".csv", ".txt", *PARQUET), _is_explanation)
RECORDS = Kind("a file of records", (".jsonl",), _is_records)
FIGURE = Kind("a figure", (".png",), _is_figure)


def is_page(path: Path) -> bool:
    """True for a path with the ending of a page."""
    return path.suffix.lower() in PAGE.suffixes


def same_columns(name: str, columns: Sequence[str]) -> Kind:
    """A kind of table, which mercer wrote if its columns are those given."""
    return Kind(
        name,
        PREDICTIONS.suffixes,
        lambda path: list(_names_in(path)) == list(columns),
    )


def check_outputs(outputs: Sequence[Output], inputs: dict[str, Path], force: bool) -> None:
    """Raise for an output that would replace an input, another output or a foreign file.

    ``inputs`` are by their names in help; ``force`` permits foreign files, never inputs.
    """
    for number, output in enumerate(outputs):
        check_writable(output.path)
        for name, path in inputs.items():
            if any(_is_same(output.path, file) for file in _files_of(path)):
                raise ValueError(
                    f"{output.option} must not name {name}, which it would replace; got "
                    f"{output.path}."
                )
        for other in outputs[:number]:
            if _is_same(output.path, other.path):
                raise ValueError(
                    f"{output.option} and {other.option} must name two files; both are "
                    f"{output.path}."
                )
    for output in outputs:
        _check_name(output)
        if not force and not _may_replace(output):
            raise FileExistsError(
                f"{output.option}: {output.path} exists and is not {output.kind.name} of mercer; "
                "choose another name, or add --force to replace it."
            )


def check_writable(path: Path) -> None:
    """Refuse before the work a file that could not be written after it."""
    from mercer._runtime.files import longest_name

    shown = _short(path)
    target = os.path.realpath(path)  # of a symbolic link, which the writer follows
    folder = os.path.dirname(target) if os.path.islink(path) else str(path.parent)
    longest, length = longest_name(folder), len(os.fsencode(path.name))
    if length > longest:
        raise OSError(
            f"cannot write {shown}: its name must have at most {longest} bytes; got {length}."
        )
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"cannot write {shown}: there is no folder {_short(folder)}.")
    if os.path.isdir(target):
        raise IsADirectoryError(f"cannot write {shown}: it is a folder.")
    if os.path.exists(target) and not os.path.isfile(target):
        raise OSError(f"cannot write {shown}: it exists and is not a plain file.")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"cannot write {shown}: the folder {folder} is not writable.")


def check_writable_folder(folder: Path) -> None:
    """Refuse before the work a folder that could not be made or written to after it."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise NotADirectoryError(f"cannot write to {folder}: {there} is not a folder.")
    if not os.access(there, os.W_OK):
        raise PermissionError(f"cannot write to {folder}: the folder {there} is not writable.")


def _short(path: str | Path) -> str:
    """A path whose end is left out if it is long."""
    text = str(path)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _check_name(output: Output) -> None:
    if str(output.path) == "-":
        raise ValueError(f"{output.option} must name a file; got -, which is standard output.")
    suffixes, suffix = output.kind.suffixes, output.path.suffix.lower()
    if suffixes and suffix not in suffixes:
        known = list(filter(None, suffixes))
        rule = f"one of {', '.join(known)}" if len(known) > 1 else known[0]
        raise ValueError(
            f"{output.option} must end in {rule} for {output.kind.name}; got {output.path}."
        )


def _files_of(path: Path) -> Iterator[Path]:
    """The file, or the tables and records below the folder."""
    if not path.is_dir():
        yield path
        return
    for folder, _, names in os.walk(path):
        yield from (Path(folder, name) for name in names if name.lower().endswith(_OF_FOLDERS))


def _may_replace(output: Output) -> bool:
    """True if there is no file, an empty one, or one of the kind that mercer wrote."""
    try:
        return output.path.stat().st_size == 0 or output.kind.is_own(output.path)
    except FileNotFoundError:
        return True
    except Exception:  # a stranger's file can be wrong in any way
        return False


def _is_same(one: Path, other: Path) -> bool:
    """True if two paths are one file, by links, or by case where the file system ignores it."""
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):  # one of them is not there yet
        real = [Path(os.path.normcase(os.path.realpath(path))) for path in (one, other)]
    if real[0] == real[1]:
        return True
    are_alike = real[0].name.casefold() == real[1].name.casefold()
    return are_alike and real[0].parent == real[1].parent and _ignores_case(real[0].parent)


def _ignores_case(folder: Path) -> bool:
    swapped = folder.with_name(folder.name.swapcase())
    return swapped != folder and swapped.exists() and os.path.samefile(swapped, folder)


def write_columns(out: Path, pieces: Iterable[Mapping[str, Any]]) -> None:
    """Write pieces of columns by name to CSV or Parquet, atomically; "-" is standard output."""
    from mercer.persistence import write_atomically

    def write(file: BinaryIO) -> None:
        target = _ParquetFile(file) if out.suffix.lower() in PARQUET else _CsvFile(file)
        for columns in pieces:
            target.write(columns)
        target.close()

    if str(out) == "-":
        write(typer.get_binary_stream("stdout"))
    else:
        write_atomically(out, write)


class _CsvFile:
    """Columns as lines of text, the names first."""

    def __init__(self, file: BinaryIO) -> None:
        self._text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        self._writer = csv.writer(self._text, lineterminator="\n")
        self._begun = False

    def write(self, columns: Mapping[str, Any]) -> None:
        """Add rows."""
        if not self._begun:
            self._writer.writerow(columns)
            self._begun = True
        n = len(next(iter(columns.values())))
        for start in range(0, n, _ROWS):
            block = [_cells(column[start : start + _ROWS]) for column in columns.values()]
            self._writer.writerows(zip(*block, strict=True))

    def close(self) -> None:
        """End the text; who opened the file closes it."""
        self._text.flush()
        self._text.detach()


class _ParquetFile:
    """Columns in a Parquet file, each piece a group of rows."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._writer: Any = None

    def write(self, columns: Mapping[str, Any]) -> None:
        """Add rows."""
        import pyarrow
        from pyarrow import parquet

        table = pyarrow.table(dict(columns))
        if self._writer is None:
            self._writer = parquet.ParquetWriter(self._file, table.schema)
        self._writer.write_table(table)

    def close(self) -> None:
        """End the file."""
        if self._writer is not None:
            self._writer.close()


def _cells(column: Any) -> list:
    return column.to_pylist() if hasattr(column, "to_pylist") else column.tolist()
