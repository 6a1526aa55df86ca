"""Options that several commands share, and what they print."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_WIDE, _ROOMY = 160, 110
_RAW = re.compile(r"[\x7f-\x9f]")  # control characters that JSON allows inside strings
LIMIT = "mercer.max_memory"  # where a command keeps what --max-memory says

# Groups of options in the help.
DATA_PANEL, TASK_PANEL, AUTOMATIC_PANEL = "Data", "Task and score", "Automatic choice"
MODEL_PANEL, MACHINE_PANEL, OUTPUT_PANEL = "Own model", "Machine", "Output"

_live: list[Console] = []  # consoles that show a spinner or a bar, the innermost last

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="Name of a known data set (see mercer datasets) or a file: CSV, TSV, Parquet, "
        "Feather, Excel, JSON, JSON lines, NPZ or LIBSVM text; texts also as .gz, .bz2 or .xz.",
    ),
]
Json = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print JSON, and nothing else, on standard output.",
        rich_help_panel=OUTPUT_PANEL,
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        min=0, max=2**32 - 1, help="Decides every random choice.", rich_help_panel=MACHINE_PANEL
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(help="Threads; -1 or nothing takes every core.", rich_help_panel=MACHINE_PANEL),
]


def _limit(context: typer.Context, size: str | None) -> str | None:
    """Keep to so much memory until the command is over."""
    if size is not None:
        from mercer._runtime.config import config_context

        limit = config_context(max_memory=size)
        try:
            context.with_resource(limit)
        except (TypeError, ValueError) as error:
            raise ValueError(str(error).replace("max_memory", "--max-memory", 1)) from error
        context.meta[LIMIT] = size
    return size


MaxMemory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        callback=_limit,
        help="Memory to work with, such as 8GB; by default what there is.",
        rich_help_panel=MACHINE_PANEL,
    ),
]
OutOfCore = Annotated[
    bool,
    typer.Option(
        "--out-of-core",
        help="Keep the rows of a Parquet file in files beside it and read what is worked on; done "
        "without asking where they would not fit into memory.",
        rich_help_panel=DATA_PANEL,
    ),
]


class Task(StrEnum):
    """The kind of target: numbers or classes."""

    auto = "auto"
    classification = "classification"
    regression = "regression"


def _names(text: str, option: str, panel: str) -> Any:
    """An option that names columns."""
    named = typer.Option(option, metavar="NAMES", help=text, rich_help_panel=panel)
    return Annotated[str | None, named]


Target = Annotated[
    str | None,
    typer.Option(help="Column to predict: a name or a number.", rich_help_panel=DATA_PANEL),
]
Drop = _names("Columns to leave out, with commas between them.", "--drop", panel=DATA_PANEL)
Features = _names(
    "Columns to learn from; by default all that have no other use.", "--features", panel=DATA_PANEL
)
Ids = _names(
    "Columns that name the rows: no inputs, but kept beside predictions.", "--id", panel=DATA_PANEL
)
Missing = Annotated[
    str | None,
    typer.Option(
        metavar="WORDS",
        help="Words that mean a missing cell of a CSV file, with commas between them, in place of "
        "NA, None and others; '' for blank cells alone.",
        rich_help_panel=DATA_PANEL,
    ),
]
AsTask = Annotated[
    Task,
    typer.Option(
        help="auto decides by the target's values and says which.", rich_help_panel=TASK_PANEL
    ),
]


def print_json(content: Mapping[str, Any]) -> None:
    """The machine-readable answer of a command, as the only thing on standard output."""
    from mercer.compare.records import plain

    text = json.dumps(plain(content), ensure_ascii=False, allow_nan=False)
    typer.echo(_RAW.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def echo(text: str) -> None:
    """Print a result for people on standard output, control characters escaped."""
    from mercer._runtime.messages import printable

    typer.echo(printable(text))


def say(text: str) -> None:
    """Print a message for people on standard error, control characters escaped."""
    from mercer._runtime.messages import printable

    # The console of a spinner or a bar clears its line before it prints.
    console = _live[-1] if _live else _console(stderr=True)
    console.print(printable(text), markup=False, highlight=False, soft_wrap=True)


@contextmanager
def live(console: Console) -> Iterator[None]:
    """Print messages by way of a console that shows a spinner or a bar."""
    _live.append(console)
    try:
        yield
    finally:
        _live.remove(console)


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
    """Print a table on standard output, uncut where that is no terminal."""
    console = _console()
    if not console.is_terminal:
        console.width = _WIDE
    console.print(table)


def narrow() -> bool:
    """Whether standard output is a terminal with less room than a wide table takes."""
    console = _console()
    return console.is_terminal and console.width < _ROOMY


@contextmanager
def waiting(text: str, verbose: bool = False) -> Iterator[Callable[[str], None]]:
    """Show progress on a terminal alone; yield a function that changes the text.

    With ``verbose`` every line of the library's log is shown, also without a terminal.
    """
    from rich.markup import escape

    console = _console(stderr=True)
    with console.status(escape(text)) as status, live(console):

        def update(message: str) -> None:
            status.update(escape(message))

        if not (verbose or console.is_terminal):
            yield update
            return

        def tell(message: str) -> None:
            if verbose:
                console.print(message, markup=False, highlight=False, soft_wrap=True)
            update(f"{text}: {message}")

        with _listening(tell):
            yield update


class _Messages(logging.Handler):
    """Hands over the messages of a logger."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__(logging.INFO)
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        """Hand over one."""
        self._tell(record.getMessage())


@contextmanager
def _listening(tell: Callable[[str], None]) -> Iterator[None]:
    """Pass the library's log of its progress on."""
    logger = logging.getLogger("mercer")
    handler, level = _Messages(tell), logger.level
    logger.addHandler(handler)
    if not logger.isEnabledFor(logging.INFO):
        logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def _console(stderr: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=stderr)
