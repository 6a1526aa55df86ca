"""Progress of the search and of the final fit: lines of the log, and tasks of callbacks."""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from sklearn.pipeline import Pipeline

from mercer._runtime.progress import is_heard, tell
from mercer._runtime.validation import integer
from mercer.auto.landmarks import Landmarks
from mercer.auto.leading import Outcome, Record
from mercer.auto.leaves import Cut
from mercer.auto.targets import LogTargetRegressor
from mercer.auto.trials import Settings

__all__ = ["Monitor", "Relay", "checked_verbose", "form_in_words"]

_TASKS = 9  # of a fit, at most: eight stages of the search, and the final fit


class Monitor:
    """Follows a search and the final fit for the callbacks of ``model``; without one, for the log.

    A callback may stop the search after a trial or a stage, and the final fit after an iteration.
    The model is then the best one so far. Callbacks receive ``X`` and ``y``.
    """

    is_stopped = False  # whether a callback asked for the end of the search

    def __init__(self, model: Any = None, X: Any = None, y: Any = None):
        self.model, self.data = model, {"X": X, "y": y}
        self._root: Any = None  # contexts of callbacks, where there are any
        self._stage: Any = None
        self._fit: Any = None
        self._name, self._n_tried = "", 0
        self._best: Record | None = None
        self._start = self._stage_start = time.perf_counter()
        if getattr(model, "_skl_callbacks", None):
            self._root = model._init_callback_context(max_subtasks=_TASKS)
            self._root.call_on_fit_task_begin(estimator=model, **self.data)

    # -- the search ----------------------------------------------------------------------------

    def enter(self, stage: str) -> None:
        """A stage of the search begins, and with it the one before ends."""
        self.leave()
        self._name, self._stage_start = stage, time.perf_counter()
        if self._root is not None:
            self._stage = self._begun(self._root, stage, max_subtasks=None)

    def tried(self, outcomes: Sequence[Outcome], best: Record | None) -> None:
        """Trials of the stage have ended; ``best`` are ahead in it."""
        self._n_tried, self._best = self._n_tried + len(outcomes), best
        if is_heard(logging.DEBUG):
            for outcome in outcomes:
                _tell_trial(outcome.record)
        if self._stage is not None and outcomes:
            self.is_stopped |= self._ended(self._begun(self._stage, "trial"))

    def leave(self) -> None:
        """The stage has ended, if there was one."""
        best = self._best
        if best is not None and self._n_tried and is_heard():
            tell(
                "%s: %d settings tried on %d rows in %.2f s; ahead, with a loss of %.4g: %s.",
                self._name.capitalize(),
                self._n_tried,
                best.rows,
                time.perf_counter() - self._stage_start,
                best.loss,
                in_words(best.settings),
            )
        self._best, self._n_tried = None, 0
        if self._stage is not None:
            stage, self._stage = self._stage, None
            self.is_stopped |= self._ended(stage)

    # -- the final fit -------------------------------------------------------------------------

    def begin_fit(self, form: str) -> None:
        """The search is over, and a model of a form in words is fitted."""
        self.leave()
        model = self.model
        if is_heard():
            tell("Chosen: %s.", in_words(Settings(**model.best_settings_)))
            if model.partner_settings_ is not None:
                tell(
                    "And for half of the trees: %s.", in_words(Settings(**model.partner_settings_))
                )
            tell("Final fit: %s.", form)
        if self._root is not None:
            self._fit = self._begun(self._root, "final fit", max_subtasks=None)

    def relays(self) -> list[Relay]:
        """Callbacks by which a kernel machine tells of the iterations of the final fit."""
        return [] if self._root is None else [Relay(self._iterated)]

    def _iterated(self, machine: Any, fitted: Any) -> bool:
        """Whether a callback stops the final fit, after an iteration of a machine."""
        if self._fit is None:
            return False
        attributes = _attributes(self.model, machine, fitted)
        return self._ended(self._begun(self._fit, "iteration"), attributes)

    def end_fit(self) -> None:
        """The model is there, after an interruption without a final fit that was followed."""
        self.leave()
        seconds = time.perf_counter() - self._start, self.model.search_seconds_
        tell("Done in %.1f s, of which the search took %.1f s.", *seconds)
        for task in (self._fit, self._root):
            if task is not None:
                self._ended(task, dict)

    # -- tasks ---------------------------------------------------------------------------------

    def _begun(self, parent: Any, name: str, **options: Any) -> Any:
        task = parent.subcontext(task_name=name, **options)
        return task.call_on_fit_task_begin(estimator=self.model, **self.data)

    def _ended(self, task: Any, attributes: Callable[[], dict[str, Any]] | None = None) -> bool:
        """True if a callback stops the task's loop; ``attributes`` gives those to predict with."""
        stops = task.call_on_fit_task_end(
            estimator=self.model, reconstruction_attributes=attributes, **self.data
        )
        return bool(stops)


def checked_verbose(value: Any) -> int:
    """``value`` as an integer of at least 0, True as 1."""
    return integer(int(value) if isinstance(value, bool) else value, "verbose", least=0)


class Relay:
    """Callback of a machine: calls ``told(machine, fitted copy)``; True stops the fit."""

    def __init__(self, told: Callable[[Any, Any], bool]):
        self.told = told

    def setup(self, estimator: Any, context: Any) -> None:
        """Nothing is needed."""

    def teardown(self, estimator: Any, context: Any) -> None:
        """Nothing is left."""

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Ignored: only ends of tasks are passed on."""

    def on_fit_task_end(self, estimator: Any, context: Any, *, fitted_estimator: Any) -> bool:
        """Whether to stop."""
        is_iteration = context.task_name == "iteration"
        return is_iteration and self.told(estimator, fitted_estimator)


def _attributes(model: Any, machine: Any, fitted: Any) -> Callable[[], dict[str, Any]] | None:
    """The model's attributes with a machine as fitted so far; None if its mean has another part."""
    estimator = model.best_estimator_
    pipeline = getattr(estimator, "regressor_", estimator)
    if not isinstance(pipeline, Pipeline) or pipeline[-1] is not machine:
        return None

    def attributes() -> dict[str, Any]:
        so_far: Any = Pipeline([*pipeline.steps[:-1], (pipeline.steps[-1][0], fitted)])
        if isinstance(estimator, LogTargetRegressor):
            so_far, regressor = copy.copy(estimator), so_far
            so_far.regressor_ = regressor
        return {"best_estimator_": so_far}

    return attributes


def _tell_trial(record: Record) -> None:
    tell(
        "%s: %s, fitted to %d rows: held-out loss %.4g, error %.4g, in %.3f s.",
        record.stage.capitalize(),
        in_words(record.settings),
        record.rows,
        record.loss,
        record.error,
        record.seconds,
        level=logging.DEBUG,
    )


_LABELS = {
    "codes": ", texts as labels alone",
    "words": ", words of labels",
    "plain": ", texts as codes",
}
_SOURCES = {
    "machine": " of a kernel machine",
    "exponential": " of an exponential kernel machine",
    "left-out": " by left-out errors",
}

_TARGETS = {"log": ", logarithms of the target", "log-odds": ", log odds of the classes"}


def in_words(settings: Settings) -> str:
    """Settings as a line of the log names them."""
    treatment = f"{settings.numbers} numbers"
    if settings.max_integers:
        treatment += f" (up to {settings.max_integers} integers as categories)"
    treatment += _LABELS.get(settings.labels, "")
    treatment += ", values that repeat told apart" if settings.identities else ""
    if settings.without:
        treatment += f", without {', '.join(settings.without)}"
    scales = "equal scales"
    if settings.power:
        scales = "learned scales" + (
            "" if settings.power == 1 else f" to the power {settings.power:g}"
        )
        scales += " that turn inputs" if settings.turned else ""
        scales += _SOURCES.get(settings.scales, "")
    transform = _TARGETS.get(settings.transform, "")
    return (
        f"the {settings.kernel} kernel, gamma {settings.gamma:.3g}, ridge {settings.ridge:.3g}, "
        f"{treatment}, {scales}{transform}"
    )


def form_in_words(form: int | Landmarks | Cut | None, n_pipelines: int, n: int) -> str:
    """Form of the model of all rows, in the words of the log."""
    if form is None:
        return f"the exact kernel machine of {n} rows"
    if isinstance(form, int):
        return f"{form} random features of {n} rows"
    if isinstance(form, Landmarks):
        if form.n_rows is not None:
            several = f"{form.n_stages} stage{'s' * (form.n_stages > 1)}"
            return f"{several} of {form.count} landmarks and {form.n_rows} of {n} rows"
        return f"{form.count} landmarks of {n} rows"
    mean = " in two pipelines, whose mean it is," if n_pipelines > 1 else ""
    return f"{form.n_trees} trees{mean} with leaves of up to {form.leaf_size} of {n} rows"
