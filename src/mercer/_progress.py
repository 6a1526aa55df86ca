"""Progress of long fits: lines of the logger "mercer", or of a verbose model on stderr."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import isfinite
from typing import Any

__all__ = ["Iterations", "is_heard", "tell", "verbosity"]

_LOGGER = logging.getLogger("mercer")
_LOGGER.addHandler(logging.NullHandler())
_SECONDS = 2.0  # between two lines of the same loop

# Of the fit that is running in this thread, where it is verbose: the least level of its lines, and
# the time of its start. Threads of a fit inherit it, and those of other fits do not see it.
_verbose: ContextVar[tuple[int, float]] = ContextVar("verbose", default=(logging.CRITICAL + 1, 0.0))


@contextmanager
def verbosity(verbose: int) -> Iterator[None]:
    """Write what is told inside to stderr: from level INFO on for 1, from DEBUG on for more.

    Inside of 0 it is left as it is outside.
    """
    if not verbose:
        yield
        return
    level = logging.INFO if verbose == 1 else logging.DEBUG
    token = _verbose.set((level, time.perf_counter()))
    try:
        yield
    finally:
        _verbose.reset(token)


def is_heard(level: int = logging.INFO) -> bool:
    """Whether anybody would read a line of this level: a question of next to no time."""
    return level >= _verbose.get()[0] or _LOGGER.isEnabledFor(level)


def tell(message: str, *values: Any, level: int = logging.INFO) -> None:
    """A line for the user, ``message % values``, which is made only where somebody reads it."""
    least, start = _verbose.get()
    if _LOGGER.isEnabledFor(level):
        _LOGGER.log(level, message, *values, stacklevel=2)
        if _is_shown(level):
            return
    if level >= least:
        seconds = time.perf_counter() - start
        handler = logging.StreamHandler()  # of what stderr is now
        handler.setFormatter(logging.Formatter(f"[{seconds:7.1f} s] %(message)s"))
        handler.handle(_LOGGER.makeRecord("mercer", level, __file__, 0, message, values, None))


def _is_shown(level: int) -> bool:
    """Whether a handler of the user's shows lines of this level, other than in a file."""
    logger: logging.Logger | None = _LOGGER
    while logger is not None:
        for handler in logger.handlers:
            hidden = isinstance(handler, (logging.NullHandler, logging.FileHandler))
            if not hidden and level >= handler.level:
                return True
        logger = logger.parent if logger.propagate else None
    return False


class Iterations:
    """Tells of a loop every two seconds, the first time after as many.

    Called with the state of a solver after every iteration; it never stops the loop.

    Parameters
    ----------
    name : str
        Of the estimator.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from mercer._progress import Iterations
    >>> Iterations("KernelRegressor")(SimpleNamespace(optimality=0.5))
    False
    """

    def __init__(self, name: str):
        self.name, self.count = name, 0
        self._start = self._last = time.perf_counter()

    def __call__(self, state: Any) -> bool:
        """Count an iteration, and tell of it if it is time for another line."""
        self.count += 1
        now = time.perf_counter()
        if now - self._last >= _SECONDS:
            self._last = now
            tell("%s: %s after %.1f s.", self.name, self._in_words(state), now - self._start)
        return False

    def _in_words(self, state: Any) -> str:
        if hasattr(state, "n_leaves"):
            return f"{state.n_solved} of {state.n_leaves} leaves solved"
        if hasattr(state, "n_expected"):
            return f"{state.n_solved} of about {state.n_expected} rows of leaves solved"
        optimality = getattr(state, "optimality", None)
        known = isinstance(optimality, float) and isfinite(optimality)
        return f"iteration {self.count}" + (f", optimality {optimality:.2g}" if known else "")
