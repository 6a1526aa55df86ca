"""Rows with labels that the fit has not met: their errors, from labels held out, and a warning."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit, xlogy
from sklearn.base import clone

from mercer._runtime.messages import shown
from mercer._runtime.random import Slot, shuffled
from mercer._runtime.state import State, is_array
from mercer.auto.goals import Classes
from mercer.auto.search import Search
from mercer.auto.trials import log_odds, machine_responses
from mercer.auto.tuning import TUNING
from mercer.estimators.scaling import InputScaler
from mercer.preparation import TableColumns, TablePreparer, rows_of, treated
from mercer.preparation.gaps import read_like
from mercer.preparation.numeric import Values
from mercer.preparation.unmet import (
    Unmet,
    label_codes,
    places_of_labels,
    repeating_numbers,
    with_labels_unmet,
)

_Steps: TypeAlias = tuple[TablePreparer, InputScaler]

__all__ = ["SEVERAL", "UnmetErrors", "laws_of_rows", "unmet_errors", "warn_of_unmet"]

SEVERAL = -1  # in place of a column: labels of several columns are unknown
_ROWS = 800  # most rows of a trial, a third of them held out
_LEAST_ROWS = 60  # held out, from which their errors are learned
_MOST_READ = 50_000  # rows among which labels are chosen: 0.3 s for ten columns
_FEW_LABELS = 30  # so that rows at random have as many of each as a machine learns from
_FOLDS = 3
_STEPS = 50  # of the machine of log odds, whose ridge may be small for few rows
_COLUMNS = 2  # columns of labels of the largest shares that errors are learned for
_LEAST_SHARE = 0.02  # of a column in distances, below which its labels hardly matter
_GROWTH = 1.1  # of errors, below which unknown labels are as good as known ones
_SLACK = 0.8  # of a probability that makes a set, as those of a machine of fewer rows differ
_TAIL = 0.95  # quantile at which sizes of errors are compared
_CONSPICUOUS = 0.05  # least share of rows that a warning is for
_CHANCE = 0.01  # probability of as many unknown labels by chance, above which no warning comes


@dataclass(frozen=True)
class UnmetErrors:
    """Errors on rows whose label in a column is unknown to the fit.

    A machine of the chosen settings has seen no row with the labels of the rows that it answers.
    """

    growth: float  # root mean loss, per that of rows held out by chance
    scores: NDArray  # (m, k) errors, or (m,) 1 less the probabilities of the true classes
    known: Values | None = None  # of a column of numbers that the preparer takes as quantities

    def check_state(self) -> None:
        """Refuse attributes that no fit leaves."""
        State(self).number("growth", 0.0)
        known = State(self).instance("known", (Values, type(None)))
        if known is not None:
            known.check_state()
        fits = is_array(self.scores, None) and self.scores.ndim in (1, 2)
        State(self).check("scores", "be an array of floats", fits)


def unmet_errors(
    search: Search,
    steps: _Steps,
    X: Any,
    y: NDArray,
    shares: NDArray,
    scores_of: Callable[[NDArray, NDArray], NDArray],
    n_jobs: int | None,
) -> dict[int, UnmetErrors]:
    """Errors where a label is unknown, by the place of its column; empty where labels say little.

    ``steps`` are the fitted preparer and scaler, ``shares`` each column's part in distances, and
    ``scores_of`` makes scores of rows and of the responses to them.
    """
    preparer, n = steps[0], X.shape[0]
    if search.choice is None or n < _FOLDS * _LEAST_ROWS or preparer.sparse_scaler_ is not None:
        return {}
    rows = np.sort(shuffled(search.key, n, _MOST_READ, Slot.SHUFFLE))
    columns = read_like([preparer], X if len(rows) == n else rows_of(X, rows))
    if columns is None:
        return {}
    numbers = repeating_numbers(preparer, columns) if len(rows) == n else {}
    places = [*places_of_labels(preparer), *numbers]
    places = [place for place in places if shares[place] >= _LEAST_SHARE]
    places = sorted(places, key=lambda place: -shares[place])[:_COLUMNS]
    if not places:
        return {}
    rows = rows[_rows_of_labels(label_codes(columns, places[0]), search.key)]
    trial = _LabelTrial(search, steps, X, y, rows, n_jobs)
    laws = _of_columns(trial, places, scores_of)
    return {place: replace(law, known=numbers.get(place)) for place, law in laws.items()}


def _rows_of_labels(codes: NDArray, key: int) -> NDArray[np.int64]:
    """Rows of whole labels at random, as a model meets them; of few labels rows at random."""
    met, places, counts = np.unique(codes, return_inverse=True, return_counts=True)
    rows = np.arange(len(codes))
    if len(met) > _FEW_LABELS:
        order = shuffled(key, len(met), len(met), Slot.SHUFFLE)
        last = int(np.searchsorted(np.cumsum(counts[order]), _ROWS)) + 1
        rows = np.flatnonzero(np.isin(places, order[:last]))
    return np.sort(rows[shuffled(key, len(rows), _ROWS, Slot.SHUFFLE)])


def _of_columns(
    trial: _LabelTrial, places: list[int], scores_of: Callable[[NDArray, NDArray], NDArray]
) -> dict[int, UnmetErrors]:
    """Errors where labels of one of the columns are unknown, or of several."""
    groups = trial.goal.groups
    known = trial.responses(np.arange(len(trial.rows)) if groups is None else groups[trial.rows])
    found = {}
    for place in places:
        law = trial.law(known, place, [], scores_of)
        if law is not None:
            found[place] = law
    if len(found) > 1:
        first, *others = found
        law = trial.law(known, first, others, scores_of)
        found[SEVERAL] = law or found[first]
    return found


class _LabelTrial:
    """Machines of the chosen settings, fitted to some rows without some of their labels."""

    def __init__(
        self,
        search: Search,
        steps: _Steps,
        X: Any,
        y: NDArray,
        rows: NDArray,
        n_jobs: int | None,
    ):
        self.search, self.steps, self.n_jobs = search, steps, n_jobs
        self.X, self.y, self.rows = X, y, rows
        self.goal, self.settings = search.goal, search.settings

    @property
    def truth(self) -> NDArray:
        """Responses of a model without error."""
        return self.goal.truth(self.rows, self.settings.transform)

    def law(
        self,
        known: tuple[NDArray, NDArray],
        place: int,
        blank: list[int],
        scores_of: Callable[[NDArray, NDArray], NDArray],
    ) -> UnmetErrors | None:
        """Errors where labels of some columns are unknown; None if they are not larger.

        ``known`` are rows left out by chance and the responses to them. Labels of the column
        ``place`` are held out, all rows of each together; labels of ``blank`` are unknown, too.
        """
        codes = label_codes(self.columns(self.rows), place)
        n_labels = len(np.unique(codes[codes >= 0]))
        if n_labels < 2:
            return None
        rows, responses = self.responses(codes, blank)
        if min(len(rows), len(known[0])) < _LEAST_ROWS:
            return None
        transform = self.settings.transform
        losses = [
            np.mean(self.goal.losses(answers, which, transform)[0])
            for which, answers in ((rows, responses), known)
        ]
        growth = float(np.sqrt(losses[0] / max(losses[1], 1e-12 * losses[0] or 1.0)))
        if growth < _GROWTH:
            return None
        scores = scores_of(rows, responses)
        if not isinstance(self.goal, Classes):
            scores = scores * self._factor(scores, scores_of(*known), n_labels)
        else:
            scores = 1 - _SLACK * (1 - scores)
        return UnmetErrors(growth, scores)

    def _factor(self, unmet: NDArray, known: NDArray, n_labels: int) -> NDArray[np.float64]:
        """Factor of errors of few rows: the model knows the other columns better.

        The variance that unknown labels add is that of few rows. Of few labels it is uncertain,
        which Student's law accounts for.
        """
        rows, responses = self.search.held_rows, self.search.held_responses
        base = self.goal.truth(rows, self.settings.transform) - responses
        large, of_known, of_base = (
            np.square(np.quantile(np.abs(e), _TAIL, axis=0)) for e in (unmet, known, base)
        )
        ratio = (of_base + np.maximum(large - of_known, 0.0)) / np.where(large > 0, large, 1.0)
        student = stdtrit(n_labels - 1, _TAIL) / stdtrit(np.inf, _TAIL)
        return np.asarray(student * np.sqrt(ratio))

    def columns(self, rows: NDArray) -> TableColumns:
        """Columns of some rows, as the model reads them."""
        return cast(TableColumns, read_like(self.steps[:1], rows_of(self.X, rows)))

    def responses(
        self, codes: NDArray, blank: Collection[int] = ()
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Rows that are held out by their codes, a third or, of few codes, all in turn.

        Also responses (m, k) to them, without labels of ``blank``. Rows of codes below 0, and to
        which a machine has no solution, are left out.
        """
        met, places = np.unique(codes, return_inverse=True)
        fold = (shuffled(self.search.key, len(met), len(met), Slot.SHUFFLE) % _FOLDS)[places]
        out = np.full(self.truth.shape, np.nan)
        for f in range(_FOLDS if len(met) < _FEW_LABELS else 1):
            if (fold == f).any():
                found = self._machine(*self._treated(fold != f, blank), fold != f)
                out[fold == f] = np.nan if found is None else found
        kept = (codes >= 0) & np.isfinite(out).all(axis=1)
        return self.rows[kept], out[kept]

    def _treated(self, one: NDArray, blank: Collection[int]) -> tuple[NDArray, NDArray]:
        """Rows to fit and all others, treated by what the first tell, in the model's scales."""
        rows, goal = self.rows[one], self.goal
        fitted, held = self.columns(rows), self.columns(self.rows[~one])
        y = self.y[rows] if isinstance(goal, Classes) else self.truth[one]
        y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
        preparer = clone(self.steps[0]).set_params(without=())
        groups = None if goal.groups is None else goal.groups[rows]
        first, second = treated(preparer, fitted, held, y, goal.weights_of(rows), groups)
        if blank:
            own = np.isin(preparer.origins_, list(blank))
            second[:, own] = with_labels_unmet(preparer, blank).transform(held)[:, own]
        names = preparer.get_feature_names_out(fitted.names)
        return self._scaled(first, names), self._scaled(second, names)

    def _machine(self, fitted: NDArray, held: NDArray, one: NDArray) -> NDArray | None:
        """Responses to the rows beside ``one`` of the machine of the rows of ``one``."""
        weights, settings = self.goal.weights_of(self.rows[one]), self.settings
        if isinstance(self.goal, Classes) and settings.transform == "log-odds":
            target, offset = self.goal.indicators(self.rows)[one], self.goal.offset_of(self.rows)
            both = (None, None) if offset is None else (offset[one], offset[~one])
            given = fitted, held, target, [settings.ridge], weights, self.n_jobs
            return log_odds(settings, *given, both[0], both[1], _STEPS)[0]
        ridges, tol = [settings.ridge], TUNING.tol[self.goal.kind]
        of_rows = self.truth[one], ridges, tol, weights, self.n_jobs
        return machine_responses(settings, fitted, held, *of_rows)[0]

    def _scaled(self, rows: NDArray, names: NDArray) -> NDArray:
        """Treated rows in the scales of the model; columns that it lacks are left out."""
        known = {name: j for j, name in enumerate(_numbered(self.steps[0].get_feature_names_out()))}
        pairs = [(j, known[name]) for j, name in enumerate(_numbered(names)) if name in known]
        whole = np.zeros((len(rows), len(known)), dtype=np.float32)
        whole[:, [to for _, to in pairs]] = rows[:, [j for j, _ in pairs]]
        return np.asarray(self.steps[1].transform(whole))


def _numbered(names: NDArray) -> list[tuple[str, int]]:
    """Names with their places among equal ones: parts of a column may use one name each."""
    met: Counter[str] = Counter()
    found = []
    for name in names.tolist():
        met[name] += 1
        found.append((name, met[name]))
    return found


def laws_of_rows(n: int, unmet: Mapping[int, Unmet]) -> list[tuple[int, NDArray[np.bool_]]]:
    """Place of a column, or ``SEVERAL``, and the rows whose label it does not know there."""
    counts = np.sum([each.rows for each in unmet.values()], axis=0) if unmet else np.zeros(n)
    found = [(place, each.rows & (counts == 1)) for place, each in unmet.items()]
    found.append((SEVERAL, counts > 1))
    return [(place, rows) for place, rows in found if rows.any()]


def warn_of_unmet(
    names: list[str], unmet: Mapping[int, Unmet], laws: Mapping[int, UnmetErrors]
) -> None:
    """Warn of the column with the most labels unknown to the fit, if they are no chance."""
    told = [place for place, each in unmet.items() if _is_conspicuous(each)]
    if not told:
        return
    place = max(told, key=lambda i: laws[i].growth * np.count_nonzero(unmet[i].rows))
    each, n = unmet[place], int(np.count_nonzero(unmet[place].rows))
    others = f" (and {len(told) - 1} more)" * (len(told) > 1)
    remedy = "fit the model to rows with such labels."
    if each.alike is not None:
        remedy = f"the fit has met {shown(each.alike)}: write labels as in the rows of the fit."
    warnings.warn(
        f"column {names[place]!r}{others} holds labels that the fit has not met in {n} of "
        f"{len(each.rows)} rows, such as {shown(each.example)}, where errors are about "
        f"{min(laws[place].growth, 99.0):.2g} times as large; {remedy}",
        UserWarning,
        stacklevel=4,
    )


def _is_conspicuous(unmet: Unmet) -> bool:
    """Whether chance hardly gives as many unknown labels, by Chernoff's bound."""
    n, share = len(unmet.rows), float(np.mean(unmet.rows))
    if share <= max(unmet.share, _CONSPICUOUS):
        return False
    beside = xlogy(1 - share, (1 - share) / (1 - unmet.share))
    return bool(n * (xlogy(share, share / unmet.share) + beside) > -np.log(_CHANCE))
