"""Progress of long fits: lines of the logger "mercer" or of a verbose model, and callbacks."""

from __future__ import annotations

import copy
import functools
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from inspect import Parameter, signature
from math import isfinite
from typing import Any, TypeVar

__all__ = [
    "HAVE_CALLBACKS",
    "CallbackSupportMixin",
    "Iterations",
    "OwnCallbacks",
    "is_heard",
    "tell",
    "verbosity",
    "with_callbacks",
    "with_own_callbacks",
]

_LOGGER = logging.getLogger("mercer")
_LOGGER.addHandler(logging.NullHandler())
_SECONDS = 2.0  # between two lines of the same loop

# Of the fit that is running in this thread, where it is verbose: the least level of its lines, and
# the time of its start. Threads of a fit inherit it, and those of other fits do not see it.
_verbose: ContextVar[tuple[int, float]] = ContextVar("verbose", default=(logging.CRITICAL + 1, 0.0))


@contextmanager
def verbosity(verbose: int) -> Iterator[None]:
    """Write the log to stderr: from INFO on for 1, from DEBUG on for more; 0 changes nothing."""
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
    """Callback that logs a solver's state every two seconds, and never stops the solver."""

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


Method = TypeVar("Method", bound=Callable[..., Any])

_HOOKS = ("setup", "teardown", "on_fit_task_begin", "on_fit_task_end")


class _Task:
    """Part of a fit whose beginning and end are passed to the callbacks."""

    def __init__(self, callbacks: list[Any], task_name: str, parent: _Task | None = None):
        self.task_name, self.parent, self.task_id = task_name, parent, 0
        self._callbacks, self._n_subtasks = callbacks, 0

    def subcontext(self, task_name: str = "", **_: Any) -> _Task:
        """A part of this part."""
        task = _Task(self._callbacks, task_name, self)
        task.task_id, self._n_subtasks = self._n_subtasks, self._n_subtasks + 1
        return task

    def call_on_fit_task_begin(self, **told: Any) -> _Task:
        """Tell the callbacks that this part begins."""
        self._call("on_fit_task_begin", **told)
        return self

    def call_on_fit_task_end(self, **told: Any) -> bool:
        """Tell the callbacks that this part has ended; whether one stops its siblings."""
        return self._call("on_fit_task_end", **told)

    def _call(
        self,
        hook: str,
        estimator: Any,
        reconstruction_attributes: Callable[[], dict[str, Any] | None] | None = None,
        **told: Any,
    ) -> bool:
        """Call a hook with the keywords it accepts; True if any callback returns True."""
        stops = False
        for callback in self._callbacks:
            parameters = signature(getattr(callback, hook)).parameters.values()
            names = [p.name for p in parameters if p.kind is Parameter.KEYWORD_ONLY]
            if "fitted_estimator" in names and "fitted_estimator" not in told:
                attributes = reconstruction_attributes and reconstruction_attributes()
                told["fitted_estimator"] = fitted = None
                if attributes is not None:
                    told["fitted_estimator"] = fitted = copy.copy(estimator)
                    vars(fitted).update(attributes)
            asked = {name: told.get(name) for name in names}
            stops |= bool(getattr(callback, hook)(estimator, self, **asked))
        return stops


class OwnCallbacks:
    """Calls callbacks where scikit-learn does not."""

    _skl_callbacks: list[Any]

    def set_callbacks(self, *callbacks: Any) -> Any:
        """Set the callbacks of the next fits, or none.

        Parameters
        ----------
        *callbacks : objects
            With ``setup``, ``teardown``, ``on_fit_task_begin`` and ``on_fit_task_end``, which are
            called with the estimator and the task; the last stops the fit by returning True.

        Returns
        -------
        self
        """
        for callback in callbacks:
            if isinstance(callback, type) or not all(hasattr(callback, hook) for hook in _HOOKS):
                raise TypeError(
                    f"callbacks must be objects with {', '.join(_HOOKS)}; got {callback!r}."
                )
        if callbacks:
            self._skl_callbacks = list(callbacks)
        else:
            self.__dict__.pop("_skl_callbacks", None)
        return self

    def __sklearn_clone__(self) -> Any:
        clone = super().__sklearn_clone__()  # type: ignore[misc]
        if hasattr(self, "_skl_callbacks"):
            clone._skl_callbacks = self._skl_callbacks
        return clone

    def _init_callback_context(self, task_name: str = "fit", **_: Any) -> _Task:
        """The task of a whole fit, for which the callbacks are set up."""
        callbacks = getattr(self, "_skl_callbacks", [])
        self._task, self._set_up = _Task(callbacks, task_name), []
        for callback in callbacks:
            self._set_up.append(callback)
            callback.setup(self, self._task)
        return self._task


def with_own_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
    """Tear the callbacks down after ``method``, however it ends."""

    @functools.wraps(method)
    def managed(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        finally:
            task, done = self.__dict__.pop("_task", None), self.__dict__.pop("_set_up", [])
            for callback in done:
                callback.teardown(self, task)

    return managed


try:
    from sklearn.callback import CallbackSupportMixin
    from sklearn.callback import with_callbacks as managed

    HAVE_CALLBACKS = True
except ModuleNotFoundError:
    CallbackSupportMixin, managed = OwnCallbacks, with_own_callbacks
    HAVE_CALLBACKS = False


def with_callbacks(method: Method) -> Method:
    """Tear the callbacks down after ``method``, by scikit-learn where it has callbacks."""
    return managed(method)
