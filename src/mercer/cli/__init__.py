"""The command line: ``mercer fit | predict | explain | show | compare | datasets | info``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]

_INTERFACE = {"typer", "click", "rich", "shellingham"}  # what the [cli] extra brings for this


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line on the arguments, by default the process's, and exit.

    The code is 0 when all went well, 1 for wrong data or models, 2 for wrong usage, 130 after
    Ctrl-C, 143 after SIGTERM and 129 after SIGHUP.
    """
    try:
        from mercer.cli.app import app
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _INTERFACE:
            raise
        sys.stderr.write(
            f"mercer: the command line needs {error.name}; pip install 'mercer[cli]' brings it.\n"
        )
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    # What reads a pipe wants no frames around help, and need not wait for them.
    app.rich_markup_mode = "rich" if sys.stdout and sys.stdout.isatty() else None
    app(None if arguments is None else list(arguments))
