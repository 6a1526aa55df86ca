"""Options that several commands share, and what they print."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_WIDE, _ROOMY = 160, 110

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="Name of a known data set (see mercer datasets) or a file: LIBSVM text "
        "(plain, .gz, .bz2, .xz), CSV, Parquet or NPZ.",
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print JSON, and nothing else, on standard output.")
]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Decides every random choice.")]
Jobs = Annotated[int | None, typer.Option(help="Threads; -1 or nothing takes every core.")]


def _limit(context: typer.Context, size: str | None) -> str | None:
    """Keep to so much memory until the command is over."""
    if size is not None:
        from mercer._config import config_context

        context.with_resource(config_context(max_memory=size))
    return size


MaxMemory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        callback=_limit,
        help="Memory to work with, such as 8GB; by default what there is.",
    ),
]
OutOfCore = Annotated[
    bool,
    typer.Option(
        "--out-of-core",
        help="Keep the rows of a Parquet file in files beside it and read what is worked on; done "
        "without asking where they would not fit into memory.",
    ),
]


class Task(StrEnum):
    """The kind of target: numbers or classes."""

    auto = "auto"
    classification = "classification"
    regression = "regression"


Target = Annotated[str | None, typer.Option(help="Column to predict: a name or a number.")]
AsTask = Annotated[Task, typer.Option(help="auto reads it off the target and says which.")]


def check_writable(path: Path) -> None:
    """Refuse before the work a file that could not be written after it."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: there is no folder {path.parent}.")
    if path.is_dir():
        raise IsADirectoryError(f"cannot write {path}: it is a folder.")
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"cannot write {path}: the folder {path.parent} is not writable.")


def check_writable_folder(folder: Path) -> None:
    """Refuse before the work a folder that could not be made or written to after it."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise NotADirectoryError(f"cannot write to {folder}: {there} is not a folder.")
    if not os.access(there, os.W_OK):
        raise PermissionError(f"cannot write to {folder}: the folder {there} is not writable.")


def print_json(content: Mapping[str, Any]) -> None:
    """The machine-readable answer of a command, as the only thing on standard output."""
    from mercer.compare.records import plain

    typer.echo(json.dumps(plain(content), ensure_ascii=False, allow_nan=False))


def say(text: str) -> None:
    """A message for people, on standard error."""
    _console(stderr=True).print(text, markup=False, highlight=False, soft_wrap=True)


def simple_table(title: str | None = None, caption: str | None = None) -> Table:
    """A table in the style of this command line, close-set where the terminal is narrow."""
    from rich import box
    from rich.table import Table

    return Table(
        title=title,
        caption=caption,
        box=box.SIMPLE_HEAD,
        title_justify="left",
        caption_justify="left",
        pad_edge=False,
        padding=0 if narrow() else (0, 1),
    )


def show_table(table: Table) -> None:
    """Print a table on standard output, whole: what goes to a file is not cut to a width."""
    console = _console()
    if not console.is_terminal:
        console.width = _WIDE
    console.print(table)


def narrow() -> bool:
    """Whether standard output is a terminal with less room than a wide table takes."""
    console = _console()
    return console.is_terminal and console.width < _ROOMY


@contextmanager
def waiting(text: str) -> Iterator[None]:
    """Show that something goes on, on a terminal alone."""
    with _console(stderr=True).status(text):
        yield


def _console(stderr: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=stderr)
