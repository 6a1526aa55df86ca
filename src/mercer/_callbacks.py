"""Callbacks of a fit as scikit-learn has them since 1.9, and a user's own ones before.

With an earlier scikit-learn, which has no ``ProgressBar`` or ``ScoringMonitor``, estimators call
the callbacks that are set on them themselves, and meta-estimators do not pass theirs on.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any, TypeVar

__all__ = [
    "HAVE_CALLBACKS",
    "CallbackSupportMixin",
    "OwnCallbacks",
    "with_callbacks",
    "with_own_callbacks",
]

Method = TypeVar("Method", bound=Callable[..., Any])

_HOOKS = ("setup", "teardown", "on_fit_task_begin", "on_fit_task_end")


class _Task:
    """A part of a fit, whose beginning and end the callbacks are told."""

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
        """Call a hook with what it asks for by keyword; whether any callback says True."""
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
