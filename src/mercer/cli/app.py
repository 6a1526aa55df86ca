"""The commands' common frame: one sentence for every error, and an exit code for its kind."""

from __future__ import annotations

import _thread
import io
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from importlib.metadata import entry_points
from inspect import cleandoc
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from mercer._runtime.messages import printable
from mercer.cli import compare, explain, fit, info, predict, show, unlabelled
from mercer.cli.options import LIMIT, say
from mercer.cli.words import in_options

FAILED, WRONG_USAGE = 1, 2
_SIGNALLED = 128  # plus the number of the signal, as shells say it
# Ctrl-C, what ends a job, and what a closed terminal sends. Windows lacks the latter.
_ENDINGS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
_LONG = 1000  # characters of a path that an error prints
_SOON = 0.01  # seconds
_OF_THE_STUDIES = ("reproduce", "report")


class _SecondSignal(SystemExit):
    """Ends a command that goes on after an interrupt, which SystemExit's handlers do not catch."""


class Commands(TyperGroup):
    """The group of all commands, which turns whatever goes wrong into a sentence and a code."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **settings: Any) -> NoReturn:
        """Run a command and exit; ``--debug`` may stand anywhere and lets tracebacks through."""
        given = list(sys.argv[1:] if args is None else args)
        options = given[: given.index("--")] if "--" in given else given
        debug = "--debug" in options
        if debug:
            given.remove("--debug")
        _print_anywhere()
        with _endings() as received:
            try:
                with _short_warnings():
                    code = super().main(given, *rest, **{**settings, "standalone_mode": False})
                if code == _SIGNALLED + signal.SIGINT:  # before the command began
                    raise KeyboardInterrupt
            except _SecondSignal:
                _complain_of_an_end(received[-1])
            except (KeyboardInterrupt, typer.Abort):
                if debug:
                    raise
                _complain_of_an_end(received[0] if received else signal.SIGINT)
            except Exception as error:
                if debug:
                    raise
                # Compiled modules turn an interrupt of their import into an error of their own.
                if received and not isinstance(error, (OSError, MemoryError)):
                    _complain_of_an_end(received[0])
                _complain(*_explained(error))
            sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: Any) -> Any:
        """Run the chosen command; an interrupt passes through unchanged."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise typer.Abort() from error
        except MemoryError as error:
            if LIMIT not in ctx.meta or not str(error):
                raise
            text = str(error).strip().rstrip(".")
            raise MemoryError(f"{text}; --max-memory allows {ctx.meta[LIMIT]}.") from error

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The requested command, or an error with the names of similar ones."""
        name = args[0] if args else ""
        if name in _OF_THE_STUDIES and name not in self.commands:
            raise typer.BadParameter(
                f"{name} is a command of the studies; pip install ./studies, from a copy of the "
                "repository, brings it."
            )
        if name and not name.startswith("-") and name not in self.commands:
            near = get_close_matches(name, self.commands, n=1, cutoff=0.55)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(self.commands)}."
            raise typer.BadParameter(f"no command {name!r}; {hint}")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=Commands,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # main() sets another on a terminal
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: mercer compare letter",
)


@app.callback(invoke_without_command=True)
def _start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error; may stand anywhere.")
    ] = False,
) -> None:
    """Kernel machines at the cost of linear models."""
    if version:
        from mercer import __version__

        typer.echo(f"mercer {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        text = context.get_help()  # printed already where rich formats it
        if text:
            typer.echo(text)
        raise typer.Exit


for _name, _run, _example in (
    ("fit", fit.fit, "fit flats --target price --out model.skops"),
    ("predict", predict.predict, "predict model.skops new.csv --out guesses.csv"),
    ("explain", explain.explain, "explain model.skops new.csv --out why.html"),
    ("show", show.show, "show model.skops"),
    ("cluster", unlabelled.cluster, "cluster flats -k 4 --id city --out clusters.html"),
    ("outliers", unlabelled.outliers, "outliers flats --share 0.02 --out outliers.html"),
    ("drift", unlabelled.drift, "drift may.csv june.csv --out drift.html"),
    ("compare", compare.compare, "compare letter"),
    ("datasets", info.list_datasets, "datasets --json"),
    ("info", info.show_info, "info"),
):
    app.command(_name, epilog=f"Example: mercer {_example}")(_run)
for _addition in entry_points(group="mercer.commands"):  # of other distributions
    _addition.load()(app)
for _command in app.registered_commands:
    # Paragraphs as wide as the terminal: the lines of a docstring would be broken twice.
    _paragraphs = cleandoc(_command.callback.__doc__ or "").split("\n\n")
    _command.help = "\n\n".join(" ".join(lines.split()) for lines in _paragraphs)


def _explained(error: Exception) -> tuple[str, int]:
    """The sentence for an error, and the exit code."""
    if hasattr(error, "format_message"):  # what the interface itself raises on wrong usage
        return _usage_sentence(error), getattr(error, "exit_code", WRONG_USAGE)
    text = " ".join((str(error).strip().splitlines() or [""])[0].split())
    if isinstance(error, OSError) and error.strerror:
        text = f"{str(error.filename or 'the system')[:_LONG]}: {error.strerror}"
    if isinstance(error, MemoryError) and not text:
        text = "there is not enough memory"
    if isinstance(error, (ValueError, TypeError, OSError, MemoryError, ImportError)) and text:
        return in_options(text), FAILED
    return f"internal error, {type(error).__name__}: {text} (--debug shows where)", FAILED


def _usage_sentence(error: Any) -> str:
    option = getattr(error, "option_name", None)
    if option and type(error).__name__ == "NoSuchOption":
        parameters = error.ctx.command.get_params(error.ctx) if error.ctx else ()
        known = [name for parameter in parameters for name in parameter.opts]
        near = get_close_matches(option, known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else "--help lists them."
        return f"no option {option}; {hint}"
    return _refused_value(error) or " ".join(error.format_message().split()).removeprefix(
        "Invalid value: "
    )


def _refused_value(error: Any) -> str:
    """Option, rule and value, where the interface knows them and says less."""
    listed = getattr(error.__cause__, "errors", None)
    options = getattr(getattr(error, "param", None), "opts", None)
    if listed is None or not options:
        return ""
    [first, *_] = listed()
    reason = first["msg"].removeprefix("Value error, ")
    rule = reason.removeprefix("Input should ").partition(", unable")[0]
    if reason.startswith("Input should "):
        return f"{options[0]} must {rule}; got {first['input']!r}."
    return f"{options[0]}: {reason}"


def _complain(sentence: str, code: int) -> NoReturn:
    end = "" if sentence.endswith((".", "?", ")")) else "."
    typer.echo(printable(f"mercer: {sentence}{end}"), err=True)
    sys.exit(code)


def _complain_of_an_end(number: int) -> NoReturn:
    word = "interrupted" if number == signal.SIGINT else "terminated"
    _complain(f"{word}; nothing was left half-written.", _SIGNALLED + number)


def _print_anywhere() -> None:
    """Let a terminal that has no γ show a question mark, instead of failing when all is done."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


@contextmanager
def _endings() -> Iterator[list[int]]:
    """Handle SIGTERM and SIGHUP as Ctrl-C; the list yielded holds the signals that came.

    The first signal is a KeyboardInterrupt, after which a fit still writes its model. The second
    ends the command. Ignored signals, as under nohup, stay ignored; other threads than the main
    thread cannot install handlers.
    """
    received: list[int] = []
    is_repeated = threading.Event()
    again: list[threading.Timer] = []
    told = sys.unraisablehook

    def end(number: int, _: Any) -> None:
        if is_repeated.is_set():
            is_repeated.clear()
        else:
            received.append(number)
        if len(received) > 1:
            raise _SecondSignal(_SIGNALLED + number)
        raise KeyboardInterrupt

    def repeat(number: int) -> None:
        is_repeated.set()
        _thread.interrupt_main(signal.Signals(number))

    def end_soon(lost: Any) -> None:
        """Send a signal again whose exception was lost in a destructor or a weak reference."""
        if not (received and issubclass(lost.exc_type, (KeyboardInterrupt, _SecondSignal))):
            told(lost)
            return
        # Not at once: it would fall into this function, and be lost once more.
        again.append(threading.Timer(_SOON, repeat, (received[-1],)))
        again[-1].daemon = True
        again[-1].start()

    changed = {}
    try:
        if threading.current_thread() is threading.main_thread():
            for number in _ENDINGS:
                before = signal.getsignal(number)
                if before in (signal.SIG_DFL, signal.default_int_handler):
                    changed[number] = before
                    signal.signal(number, end)
            sys.unraisablehook = end_soon
        yield received
    finally:
        sys.unraisablehook = told
        for timer in again:
            timer.cancel()
        for number, before in changed.items():
            signal.signal(number, before)


@contextmanager
def _short_warnings() -> Iterator[None]:
    """Warnings as one line each, once, without the source line that raised them."""
    shown: set[str] = set()

    def show_warning(message: Any, category: Any, *_: Any, **__: Any) -> None:
        text = in_options(" ".join(str(message).split()))
        if text not in shown:
            shown.add(text)
            say(f"mercer: warning: {text}")

    with warnings.catch_warnings():
        warnings.showwarning = show_warning
        yield
