"""A fitted model on one page."""

from __future__ import annotations

import os
import pickle
import time
from functools import cached_property, partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import is_classifier
from sklearn.utils import resample
from sklearn.utils.validation import check_is_fitted

from mercer._runtime.arrays import format_bytes
from mercer._runtime.messages import shown
from mercer.auto.ledger import stage_seconds, trials_of
from mercer.maps import LocalKernel
from mercer.plots.base import machine_of, thousands
from mercer.plots.calibration import CalibrationDisplay, CoverageDisplay
from mercer.plots.choice import SearchDisplay, name_of_settings, stage_name
from mercer.plots.convergence import ConvergenceDisplay
from mercer.plots.importances import ImportanceDisplay
from mercer.plots.page import Section, details, list_of, paragraph, table, write_html
from mercer.plots.partition import PartitionDisplay
from mercer.plots.paths import PathDisplay
from mercer.plots.report_parts import (
    confusions,
    draw_confusions,
    draw_errors,
    draw_learning_curve,
    draw_residuals,
    draw_roc,
    n_bytes,
)
from mercer.plots.report_use import Origin, use_section, versions_section
from mercer.plots.report_words import (
    Score,
    changed_settings,
    machine_facts,
    measured,
    validation,
    words_of_choice,
)
from mercer.plots.shapley import ShapleyDisplay

__all__ = ["write_page", "write_report"]

# Rows, at least and of a sample, and inputs at most of importances by shuffling.
_FEWEST_SHUFFLED, _SHUFFLED_ROWS, _MOST_SHUFFLED = 20, 1000, 60
_EXPLAINED_ROWS, _EVALUATIONS = 200, 200  # rows, and evaluations of each, of contributions
_COVERED_ROWS = 2000  # rows whose intervals are made for every level
_MATRIX_CLASSES = 30  # up to which confusions are drawn


def write_report(
    model: Any,
    path: str | os.PathLike[str],
    X: Any = None,
    y: Any = None,
    title: str | None = None,
) -> None:
    """Write a report about a fitted model as one HTML file, atomically.

    The report has the chosen settings, the scores and the rows they are measured on, the importance
    of the inputs, the treatment of the columns, the trials of the search, times, and code that uses
    the model. The file contains its styles and figures, and no scripts.

    Parameters
    ----------
    model : estimator
        Fitted automatic model, kernel machine or pipeline that ends with one. Reports of other
        scikit-learn estimators are shorter.
    path : str or path-like
        File to write, usually with the ending ``.html``.
    X, y : rows and targets, default=None
        Held-out rows and their targets, for scores with standard errors, calibration or coverage,
        and confusions. Without them the report of an automatic model shows the rows of its
        ``held_out_``, which a model read from a file lacks.
    title : str or None, default=None
        Title of the report; None takes the class name of the model.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    TypeError, ValueError
        If the model cannot predict, or only one of X and y is given.
    ImportError
        If matplotlib is missing.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from mercer import AutoKernelRegressor
    >>> from mercer.plots import write_report
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> model = AutoKernelRegressor(random_state=0).fit(X[:200], X[:200, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(model, f"{folder}/page.html", X[200:], X[200:, 1], title="Tides")
    ...     "<h1>Tides</h1>" in pathlib.Path(folder, "page.html").read_text("utf-8")
    True
    """
    write_page(model, path, X, y, title)


def write_page(
    model: Any,
    path: str | os.PathLike[str],
    X: Any,
    y: Any,
    title: str | None,
    origin: Origin | None = None,
) -> None:
    """Write the page of :func:`write_report`, with further facts of the fit."""
    if not hasattr(model, "predict"):
        raise TypeError(f"model must be a fitted estimator; got {type(model).__name__}.")
    check_is_fitted(model)
    if (X is None) != (y is None):
        raise ValueError(f"{'y' if y is None else 'X'} must be given beside the other one.")
    _Report(model, X, y, origin).write(path, title)


class _Report:
    """Sections of the page about a model."""

    def __init__(self, model: Any, X: Any, y: Any, origin: Origin | None = None):
        self.model, self.machine, self.X = model, machine_of(model), X
        self.origin = origin
        self.is_automatic = hasattr(model, "search_results_")
        self.classes = model.classes_ if is_classifier(model) else None
        self.y: Any = None
        self.predicted: Any = None
        self.proba: NDArray | None = None
        self.seconds, self.n = 0.0, 0
        held = getattr(model, "held_out_", None)
        if X is not None:
            self._predict(y)
        elif held is not None and (self.classes is None or held["target"].ndim == 1):
            self.y, self.predicted = held["target"], held["predicted"]
            self.proba = held.get("probabilities")

    def _predict(self, y: Any) -> None:
        y = np.asarray(y)
        self.y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
        if self.classes is not None and self.y.ndim != 1:
            raise ValueError(f"y must have one label for every row; got shape {y.shape}.")
        start = time.perf_counter()
        self.predicted = np.asarray(self.model.predict(self.X))
        self.seconds, self.n = time.perf_counter() - start, len(self.y)
        if len(self.predicted) != self.n or not self.n:
            raise ValueError(f"y must have the {len(self.predicted)} rows of X; got {self.n}.")
        if self.classes is not None and not set(self.y.tolist()) & set(self.classes.tolist()):
            raise ValueError(
                f"y must hold classes of the model, which are {shown(self.classes.tolist())}; got "
                f"{shown(self.y[:3].tolist())} and so on."
            )
        if self.classes is not None and hasattr(self.model, "predict_proba"):
            self.proba = np.asarray(self.model.predict_proba(self.X))

    @cached_property
    def scores(self) -> list[Score]:
        """On the rows given, else on those held out, if there are any."""
        if self.y is None or self.predicted is None:
            return []
        y = self.y if self.classes is not None else self.y.astype(np.float64)
        return measured(y, self.predicted, self.proba, self.classes)

    @cached_property
    def size(self) -> str:
        """Size of the model file where one was written, else in memory, or "unknown"."""
        if self.origin is not None and self.origin.size is not None:
            return format_bytes(self.origin.size)
        try:
            return format_bytes(n_bytes(self.model))
        except (pickle.PicklingError, AttributeError, TypeError):  # a function without a name
            return "unknown"

    def write(self, path: str | os.PathLike[str], title: str | None) -> None:
        """Write the page."""
        kind = type(self.model).__name__
        cards = self._cards()  # first: sections fill caches of the model, whose size it tells
        sections = (
            self._quality(),
            self._importances(),
            self._choice(),
            self._columns(),
            self._search(),
            self._solving(),
            self._costs(),
            use_section(self.model, self.origin),
            versions_section(),
        )
        note = "" if self.origin is None else f". {self.origin.sentences()}"
        title = kind if title is None else title
        write_html(path, title, f"{kind}, a report", cards, sections, note)

    def _sample(self, most: int) -> list[Any]:
        """Some of the rows given, and their targets."""
        how: dict[str, Any] = {"replace": False, "n_samples": min(most, self.n), "random_state": 0}
        return resample(self.X, self.y, **how)

    def _cards(self) -> list[tuple[str, str]]:
        cards = [("task", "regression" if self.classes is None else "classification")]
        if self.origin is not None:
            cards.append(("rows fitted to", thousands(self.origin.n_rows)))
        cards.append(("inputs", thousands(int(getattr(self.model, "n_features_in_", 0)))))
        if self.classes is not None:
            cards.append(("classes", thousands(len(self.classes))))
        held = validation(self.model)
        if held is not None:
            cards.append((f"{held[0]}, rows held out", f"{held[1]:.3f}"))
        given = self.scores[:1] if self.X is not None else []
        for score in (s for s in given if np.isfinite(s.value)):
            cards.append((f"{score.name}, {thousands(self.n)} rows given", f"{score.value:.3f}"))
        if hasattr(self.model, "fit_seconds_"):
            seconds = self.model.search_seconds_ + self.model.fit_seconds_
            cards.append(("seconds to search and fit", f"{seconds:.3g}"))
        cards.append(("size of the model", self.size))
        return cards

    # -- how good it is ----------------------------------------------------------------------

    def _quality(self) -> Section:
        section = Section("How good it is")
        held = validation(self.model)
        if held is not None:
            n_held = f" {thousands(held[2])}" if held[2] else ""
            section.add(
                paragraph(
                    f"On{n_held} rows that the search held out, the chosen settings reached "
                    f"{held[0]} {held[1]:.4f}, fitted to fewer rows than the final model. The best "
                    "of many looks a little better than it is."
                )
            )
            time = getattr(self.model, "time", None)
            if time is not None:
                section.add(
                    paragraph(
                        f"By column {time!r} they are later than all rows fitted to reach it."
                    )
                )
        if self.X is None and held is not None:
            section.add(paragraph("No test rows were given to this report.", quiet=True))
        if self.y is None:
            return section
        rows = [(s.name, s.value, s.error, s.constant) for s in self.scores]
        if self.X is None:
            which = f"On {thousands(len(self.y))} held-out rows, as the figures below:"
        else:
            which = (
                f"On the {thousands(self.n)} rows given to this report, which count as new if the "
                "model was not fitted to them:"
            )
        section.add(
            paragraph(which), table(("score", "value", "standard error", "constant model"), rows)
        )
        if self.classes is None:
            self._errors_of_numbers(section)
        else:
            self._errors_of_classes(section, self.classes)
        if self.X is not None:
            self._coverage(section)
        return section

    def _errors_of_numbers(self, section: Section) -> None:
        y, predicted = self.y, self.predicted
        several = y.ndim > 1
        y, predicted = (a[:, 0] if several else a for a in (y, predicted))

        which = ", of the first output" if several else ""
        section.draw(
            lambda axes: draw_errors(axes, y, predicted),
            f"True targets against predictions{which}: on the line is best",
        )
        section.draw(
            lambda axes: draw_residuals(axes, y, predicted),
            f"Errors, true minus predicted, against predictions{which}: evenly around 0 is best",
        )

    def _errors_of_classes(self, section: Section, classes: NDArray) -> None:
        y, predicted = self.y, self.predicted
        labels = np.unique(np.concatenate([np.unique(y), classes]))
        if len(labels) > 2:
            rows = confusions(y, predicted, labels)
            text = "The confusions that occur most often:" if rows else "No row was confused."
            section.add(paragraph(text))
            if rows:
                section.add(table(("true", "predicted", "rows", "share of the true class"), rows))
        if len(labels) <= _MATRIX_CLASSES:
            side = min(3.4 + 0.1 * max(0, len(labels) - 8), 5.0)
            section.draw(
                lambda axes: draw_confusions(axes, y, predicted, labels),
                "Predicted classes, as shares of the rows of every true class",
                width=side + 0.6,
                height=side,
            )
        proba = self.proba
        if proba is not None and len(labels) == len(classes) == len(np.unique(y)) == 2:
            section.draw(
                lambda axes: draw_roc(axes, y, proba[:, 1], classes[1]),
                "ROC curve: the share of one class that is found, by the share of the other that "
                "is taken for it; the corner above left is best, the dashed line is chance",
            )
        if proba is not None:
            how: dict[str, Any] = {"classes": classes, "name": "model"}
            section.draw(
                lambda axes: CalibrationDisplay.from_predictions(y, proba, ax=axes, **how),
                "Probabilities against what came true; bars count the rows, thin lines are "
                "intervals of 95 %",
            )

    def _coverage(self, section: Section) -> None:
        if not (hasattr(self.model, "predict_interval") or hasattr(self.model, "predict_set")):
            return
        X, y = self._sample(_COVERED_ROWS)
        what = "Intervals" if self.classes is None else "Sets of classes"
        section.draw(
            lambda axes: CoverageDisplay.from_estimator(self.model, X, y, name="model", ax=axes),
            f"{what} of a nominal coverage, and the share of rows whose target they held; grey is "
            "chance",
        )

    # -- what it is made of ------------------------------------------------------------------

    def _importances(self) -> Section:
        section = Section("Which inputs matter")
        # Those of forests are of another kind.
        known = self.is_automatic and hasattr(self.model, "feature_importances_")
        shuffles = (
            self.n >= _FEWEST_SHUFFLED
            and not known
            and not sparse.issparse(self.X)
            and not (hasattr(self.X, "to_pandas") and find_spec("pyarrow") is None)
            and 0 < getattr(self.model, "n_features_in_", 0) <= _MOST_SHUFFLED
        )
        if not (known or shuffles or hasattr(self.model, "input_shares_")):
            return section
        rows = self._sample(_SHUFFLED_ROWS) if shuffles else []
        how: dict[str, Any] = {"n_repeats": 3, "random_state": 0, "max_features": 15}
        n_shown = min(self.model.n_features_in_, 15)
        caption = "Inputs with the largest effect"
        if shuffles:
            caption += ": what the score loses on the rows given if an input is shuffled"
        elif known:
            caption += ": the mean absolute contribution to the response (Shapley value)"
        if hasattr(self.model, "input_shares_"):
            caption += (
                "; how much of the distance between rows, as the kernel sees it, is due to it"
            )
        section.draw(
            lambda axes: ImportanceDisplay.from_estimator(self.model, *rows, ax=axes, **how),
            caption,
            width=4.6,
            height=1.3 + 0.2 * max(n_shown, 3),
        )
        if self.is_automatic and self.X is not None:
            self._contributions(section, n_shown)
        return section

    def _contributions(self, section: Section, n_shown: int) -> None:
        """The contributions of the inputs to the responses to some of the rows given."""
        rows, _ = self._sample(_EXPLAINED_ROWS)
        section.draw(
            lambda axes: ShapleyDisplay.from_estimator(
                self.model, rows, ax=axes, max_features=15, max_evaluations=_EVALUATIONS
            ),
            f"Contributions of the inputs to the responses, {thousands(rows.shape[0])} rows given",
            width=4.6,
            height=1.3 + 0.2 * max(n_shown, 3),
        )

    def _choice(self) -> Section:
        section = Section("What was chosen")
        if self.is_automatic:
            section.add(list_of(words_of_choice(self.model)))
        facts = machine_facts(self.machine)
        if facts:
            facts_table = table(("the kernel machine", "as fitted"), facts)
            section.add(details("Details", facts_table) if self.is_automatic else facts_table)
        given = changed_settings(self.model)
        if given:
            section.add(
                paragraph("Parameters that were set:"), table(("parameter", "value"), given)
            )
        return section

    def _columns(self) -> Section:
        section = Section("What became of the columns")
        steps = [step for _, step in getattr(self.model, "steps", ())]
        owner = next((each for each in (self.model, *steps) if hasattr(each, "columns_")), None)
        if owner is not None:
            told = {name: list(map(str, values)) for name, values in owner.columns_.items()}
            columns = {name: values for name, values in told.items() if any(values)}
            rows, n = zip(*columns.values(), strict=True), len(told["column"])
            listed = table(list(columns), rows)
            section.add(details(f"{n} columns", listed) if n > 20 else listed)
        return section

    def _search(self) -> Section:
        section = Section("What was tried")
        results = trials_of(self.model.search_results_) if self.is_automatic else {}
        if not len(results.get("loss", ())):
            return section
        display = SearchDisplay(results)
        n_shown = min(len(display.groups), 12)
        section.draw(
            lambda axes: display.plot(ax=axes),
            "The least loss of every group of settings in every stage; later stages fit more rows",
            width=4.6,
            height=1.3 + 0.3 * max(n_shown, 4),
        )
        rungs = np.char.startswith(results["stage"].astype(str), "rung")
        sizes = np.unique(results["rows"][rungs])
        if len(sizes) > 1:
            least = [results["error"][rungs & (results["rows"] == size)].min() for size in sizes]
            section.draw(
                lambda axes: draw_learning_curve(axes, sizes, least, self.classes is not None),
                "The least error on the rows held out, by how many rows the trials were fitted to, "
                "with the best settings tried: where it still falls, more rows would help",
            )
        keys = ("loss", "error", "stage", "rows", "gamma", "ridge", "transform", "seconds")
        rows = []
        for i in np.argsort(results["loss"], kind="stable").tolist():
            settings = {key: results[key][i] for key in results}
            mark = "chosen" if results["chosen"][i] else ""
            values = [results[key][i].item() for key in keys]
            values[2] = stage_name(values[2])
            rows.append([*values, mark, name_of_settings(settings)])
        listed = table((*keys, "", "settings"), rows, most=60)
        section.below.append(details(f"All {len(rows)} trials, the least loss first", listed))
        return section

    def _solving(self) -> Section:
        section, machine = Section("How it was solved"), self.machine
        names = {"alpha": ("path_", "alpha_path_"), "gamma": ("gamma_path_",)}
        for parameter, attributes in names.items():
            if any(hasattr(machine, name) for name in attributes):
                section.draw(
                    partial(_draw_path, machine, parameter),
                    f"Values of {parameter} that were tried",
                )
        lengths = [len(getattr(machine, name, ())) for name in ("trace_", "loss_curve_")]
        lengths.append(len(getattr(machine, "rounds_", {"time": ()})["time"]))
        if max(lengths) > 3:  # not for what is solved in a step
            section.draw(
                lambda axes: ConvergenceDisplay.from_estimator(machine, ax=axes),
                "The way of the solver to its solution",
            )
        map_ = getattr(machine, "feature_map_", None)
        if isinstance(map_, LocalKernel) and map_.n_features_in_ == 2:
            section.draw(
                lambda axes: PartitionDisplay.from_estimator(machine, ax=axes),
                "Leaves of the first tree, and some of the rows",
            )
        return section

    # -- what it takes -----------------------------------------------------------------------

    def _costs(self) -> Section:
        section, model = Section("Time and memory"), self.model
        rows: list[tuple[str, str]] = []
        if hasattr(model, "fit_seconds_"):
            rows.append(("search", f"{model.search_seconds_:.3g} s"))
            rows.append(("final fit", f"{model.fit_seconds_:.3g} s"))
        if self.n:
            speed = thousands(int(self.n / max(self.seconds, 1e-9)))
            rows.append(("predictions", f"{speed} rows per second, measured for this report"))
        is_file = self.origin is not None and self.origin.size is not None
        rows.append(("size of the model " + ("file" if is_file else "in memory"), self.size))
        section.add(table(("what", "how much"), rows))
        if stages := stage_seconds(model):
            total = sum(stages.values())
            shares = [(stage_name(k), s, f"{s / total:.1%}") for k, s in stages.items()]
            section.add(table(("stage of the search", "seconds", "share"), shares))
        return section


def _draw_path(machine: Any, parameter: str, axes: Any) -> None:
    PathDisplay.from_estimator(machine, parameter=parameter, ax=axes)
