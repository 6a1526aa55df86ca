"""Classes by the logistic loss, whose responses are log odds, where held-out rows gain by it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer._runtime.rows import FarRows
from mercer.auto.goals import Classes, Numbers
from mercer.auto.holdout import final_splits
from mercer.auto.leading import Outcome, Record
from mercer.auto.parts import Split
from mercer.auto.rungs import FEATURES, LANDMARKS
from mercer.auto.search import Choice, Search
from mercer.auto.trials import Settings, log_odds, machine_responses
from mercer.auto.tuning import TUNING

__all__ = ["STAGE", "check_knows_offset", "try_log_odds"]

STAGE = "log odds"  # of the search


def try_log_odds(search: Search) -> None:
    """Replace the best settings of an exact machine by those of log odds, if these err less.

    Kernel, scales and gamma stay. A ridge of the squared loss, whose curvature is 1, is worth a
    quarter of it for the logistic loss, whose curvature is at most 1/4: some factors of that are
    tried. Responses of both losses to the same held-out rows are judged by their probabilities.
    With an offset, which the squared loss does not know, the best log odds replace it.
    """
    goal, best = search.goal, search.best
    if not isinstance(goal, Classes) or best is None or search.is_late():
        return
    n, table = search.whole.n_rows, search.parts[0].table
    if sparse.issparse(table) or isinstance(table, FarRows):
        return
    if goal.offset is None and not _is_worth_it(search, goal, best.settings):
        return
    parts = _parts(search, n)
    if all(goal.has_all_classes(part.fitted) for part in parts):
        with suppress(MemoryError):  # of two kernels: the squared loss takes less
            _compare(search, goal, best.settings, parts)


def check_knows_offset(goal: Numbers | Classes, transform: str) -> None:
    """Raise if there is an offset and the responses are no log odds, to which it is added."""
    if goal.offset is not None and transform != "log-odds":
        raise ValueError(
            "offset must be None for an AutoKernelClassifier of more than two classes, of several "
            "labels, of sparse "
            f"rows or more than {TUNING.exact_rows}, with a device, or with too few rows or too "
            "short a time_budget for trials of log odds; a KernelClassifier of two classes with "
            "loss='logistic' takes it."
        )


def _is_worth_it(search: Search, goal: Classes, settings: Settings) -> bool:
    """True if there is time for log odds, and classes overlap."""
    n = search.whole.n_rows
    # Products with the kernel are as many as the root of its condition number.
    work = float(n) ** 2 * goal.truth(np.arange(1), "identity").shape[1]
    work *= np.sqrt(n / settings.ridge)
    of_few, of_more = TUNING.log_odds_seconds
    is_short = search.deadline - time.perf_counter() < of_few + of_more * work
    if is_short or work > TUNING.log_odds_work:
        return False
    return search.relative_error() >= TUNING.log_odds_error


def _parts(search: Search, n: int) -> Sequence[Split]:
    """Rows to fit and to hold out: those of the search, or of many rows more of them."""
    (least, _), share = TUNING.final_held, TUNING.final_held_share
    if n <= least * share:
        return search.parts
    first = search.parts[0]
    pairs = final_splits(search.goal, search.key, n)
    return [replace(first, fitted=fitted, held=held) for fitted, held in pairs]


def _compare(search: Search, goal: Classes, settings: Settings, parts: Sequence[Split]) -> None:
    """Judge squared and logistic machines on the parts, and keep what errs least."""
    search.enter(STAGE)
    held = np.concatenate([part.held for part in parts])
    least = np.inf
    if goal.offset is None:
        squared = _squared(search, goal, settings, parts, held)
        if squared is None:
            search.charge(STAGE)
            return
        least = search.judge.of_probabilities(squared, held, "identity")
        least *= TUNING.log_odds_gain
    unit, factors = settings.ridge / 4, TUNING.log_odds_factors
    stronger: Sequence[float] = factors
    while stronger and not search.is_late():
        ridges, stronger = [factor * unit for factor in stronger], ()
        for outcome in _outcomes(search, goal, settings, parts, held, ridges):
            record = outcome.record
            search.records.append(record)
            loss = search.judge.of_probabilities(outcome.responses, held, "log-odds")
            if loss < least:
                least, search.choice = loss, Choice(record, held, outcome.responses)
                is_end = record.settings.ridge == factors[0] * unit
                stronger = (TUNING.log_odds_end,) if is_end else ()
            search.monitor.tried([outcome], search.best)
        search.charge(STAGE)


def _squared(
    search: Search,
    goal: Classes,
    settings: Settings,
    parts: Sequence[Split],
    held: NDArray[np.int64],
) -> NDArray[np.float64] | None:
    """Responses (h, k) of the squared loss to the held-out rows; None without a solution.

    Those of the search serve if its trial of the settings has fitted all rows of the parts, or all
    but one of the larger folds, by an exact machine.
    """
    choice = search.choice
    if choice is not None and np.array_equal(choice.rows, held):
        record, least = choice.record, min(len(part.fitted) for part in parts)
        if record.rows == least and record.stage not in (FEATURES.name, LANDMARKS.name):
            return choice.responses
    pieces = []
    for part in parts:
        [encoding] = goal.encodings(part.fitted)
        [found] = machine_responses(
            *(settings, *part.scaled(settings, len(part.fitted)), encoding.target),
            *([settings.ridge], TUNING.tol[goal.kind], goal.weights_of(part.fitted), search.n_jobs),
        )
        if found is None:
            return None
        pieces.append(encoding.responses(found))
    return np.concatenate(pieces)


def _outcomes(
    search: Search,
    goal: Classes,
    settings: Settings,
    parts: Sequence[Split],
    held: NDArray[np.int64],
    ridges: Sequence[float],
) -> list[Outcome]:
    """Outcomes of log odds, the strongest ridge first, where all parts have a solution."""
    start = time.perf_counter()
    pieces = [
        log_odds(
            *(settings, *part.scaled(settings, len(part.fitted)), goal.indicators(part.fitted)),
            *(ridges, goal.weights_of(part.fitted), search.n_jobs),
            *(goal.offset_of(part.fitted), goal.offset_of(part.held)),
        )
        for part in parts
    ]
    seconds = (time.perf_counter() - start) / len(ridges)
    n_rows, outcomes = min(len(part.fitted) for part in parts), []
    for ridge, of_ridge in zip(ridges, zip(*pieces, strict=True), strict=True):
        found = [piece for piece in of_ridge if piece is not None]
        if len(found) == len(parts):
            responses = np.concatenate(found).astype(np.float64)
            own = replace(settings, ridge=ridge, transform="log-odds")
            verdict = search.judge(responses, held, own.transform)
            facts = verdict.loss, verdict.error, seconds, verdict.score
            record = Record(STAGE, n_rows, own, *facts)
            outcomes.append(Outcome(record, responses, verdict.losses))
    return outcomes
