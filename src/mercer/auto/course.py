"""Course of the automatic search: which rungs follow on which, and the form of the final model."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer._runtime.arrays import n_threads
from mercer.auto.bench import Evaluator
from mercer.auto.columns import COLUMNS, candidates
from mercer.auto.final import FinalModel
from mercer.auto.growth import growing
from mercer.auto.landmarks import Landmarks, landmarks_for
from mercer.auto.leading import Record, promising, rank_loss
from mercer.auto.leaves import Cut, cut_for, trial_leaves, worth
from mercer.auto.parts import LeafSplit, Split, leaf_parts, splits, spread_out
from mercer.auto.rungs import ALL_ROWS, FEATURES, IDENTITIES, LANDMARKS, LEAVES, RUNGS, Rung
from mercer.auto.search import Choice, Search
from mercer.auto.trials import Settings
from mercer.auto.tuning import TUNING
from mercer.equations.small_ridge import LEAST_SINGLE

__all__ = [
    "MORE_ROWS",
    "first_rungs",
    "has_time_twice",
    "is_few",
    "last_rungs",
    "part_from_partner",
    "trials_end",
]

MORE_ROWS = "more rows", "most rows"  # stages in which gamma and ridge are chosen again


def first_rungs(
    search: Search,
    treatments: Sequence[tuple[str, int]],
    n_inputs: int,
    label_ways: Sequence[str] = ("numbers",),
) -> None:
    """Try all candidates on few rows, and the better ones on more."""
    search.treatments, search.label_ways, search.n_inputs = treatments, label_ways, n_inputs
    groups: dict[Settings, Record] = {}
    for rung in RUNGS:
        found: dict[Settings, Record] = {}
        search.climb(rung, found)
        groups |= found
        kept = promising(groups, search.finalists or list(groups), rung.keep or {}, TUNING.near)
        others = {group: groups[group] for group in groups if group not in kept}
        search.finalists = [groups[group].settings for group in kept]
        groups = {groups[group].settings: groups[group] for group in kept} | others
    if n_inputs >= TUNING.wide_inputs:
        search.finalists += _of_a_lasso(groups, search.finalists)


def _of_a_lasso(groups: dict[Settings, Record], finalists: list[Settings]) -> list[Settings]:
    """The best settings in scales of a lasso that are not kept yet: few rows hide their gain."""
    others = [g for g in groups if g.scales == "linear" and g not in finalists]
    others.sort(key=lambda group: rank_loss(groups[group]))
    return [groups[group].settings for group in others[:1]]


def last_rungs(search: Search, X: Any, end: float) -> FinalModel:
    """Make the last trials, and return the form of the model: exact, leaves or features."""
    n, n_inputs = X.shape
    if sparse.issparse(X) or n_inputs > TUNING.most_dense:
        if n <= TUNING.exact_rows and on_few_inputs(search, n_inputs):
            return None
        return _n_components(search, n, end - time.perf_counter())
    if is_exact(search, n, end - time.perf_counter()):
        on_all_rows(search, n_inputs)
        return None
    cut = cut_for(n, n_inputs)
    worth = on_leaves(search, cut)
    last = search.records[-1] if search.records else None
    if worth * cut.leaf_size < TUNING.global_rows:
        landmarks = on_landmarks(search, end)
        if landmarks is not None:
            return landmarks
    seconds_left = TUNING.reserve * (end - time.perf_counter())
    if last is None or not np.isfinite(seconds_left):
        return cut_for(n, n_inputs, worth)
    n_leaves = len(search.bench.parts) if last.stage == "leaves" else 1
    threads = min(n_threads(search.n_jobs), n_leaves)
    leaf_seconds = last.seconds / n_leaves / threads
    return cut_for(n, n_inputs, worth, seconds_left, leaf_seconds, last.rows)


def is_exact(search: Search, n: int, seconds_left: float) -> bool:
    """True if the exact kernel machine is within reach: by rows, or by the time there is."""
    if not np.isfinite(seconds_left):
        return is_few(n)
    if not search.records:
        return False
    return is_few(n) and _exact_seconds(search, n) < TUNING.reserve * seconds_left


def trials_end(search: Search, start: float, budget: float, first: float) -> float:
    """Time after which no trial begins, of a fit that began at ``start``.

    So much is left for the final fit as it is to take by the last trials, at most half of the
    budget. ``first`` are the seconds of rungs 1 and 2.
    """
    n, final = search.whole.n_rows, np.inf
    if search.records and is_few(n):
        factors, treated = TUNING.after_trials
        final = factors * _exact_seconds(search, n) + treated * first
    return start + budget * TUNING.end_share - min(final, TUNING.trial_share * budget)


def _exact_seconds(search: Search, n: int) -> float:
    """Time that the exact kernel machine of n rows takes, by that of the last trial."""
    last = search.best or search.records[-1]
    return TUNING.exact_cost[last.settings.kernel] * last.seconds * max(n / last.rows, 1.0) ** 2


def is_few(n: int) -> bool:
    """True if the exact kernel machine may be the model of so many rows."""
    return n <= TUNING.exact_rows


def has_time_twice(search: Search, n: int, end: float) -> bool:
    """True if there is time for two fits of the final form."""
    if not np.isfinite(end):
        return True
    return is_exact(search, n, 0.5 * (end - time.perf_counter()))


def _n_components(search: Search, n: int, seconds_left: float) -> int:
    """As many features as help, and as there is time for."""
    least = TUNING.least_features
    most = min(TUNING.features[search.settings.kernel], max(least, TUNING.most_codes // n))
    if not np.isfinite(seconds_left):
        return most
    most *= TUNING.more_features
    trials = [r for r in search.records if r.stage == "features"]
    if not trials:  # no time even for these
        return least
    per_feature = n * max(r.seconds / r.rows for r in trials) / TUNING.trial_features
    return int(np.clip(TUNING.reserve * seconds_left / per_feature, least, most))


def on_all_rows(search: Search, n_inputs: int) -> None:
    """Compare the finalists on as many rows as there are, for the exact kernel machine."""
    search.n_inputs = n_inputs
    search.climb(ALL_ROWS)
    if search.has_identities and not search.is_late():
        _where_values_repeat(search)
    _where_columns_mislead(search)
    if search.best is not None and search.best.stage == search.stage.name:
        _on_more_rows(search)


def _on_more_rows(search: Search) -> None:
    """Choose gamma and ridge again on more rows, where these lower the loss by much.

    Not of classes that overlap, which get trials of log odds instead: letters, digits, forests and
    others of 4000 to 12 000 rows had the same test errors at up to three times the time.
    """
    is_clear = search.goal.kind != "classes" or search.relative_error() < TUNING.log_odds_error
    fall = _fall(search) if len(search.parts) == 1 and is_clear else np.nan
    sizes = TUNING.most_direct_rows, TUNING.growth_rows
    for name, most in zip(MORE_ROWS, sizes, strict=True):
        before = search.best
        if before is None or not fall >= TUNING.growth_fall:  # nor if it is not known
            return
        parts = _larger(search, most)
        n_rows = len(parts[0].fitted)
        if n_rows < TUNING.growth_least * before.rows or not _has_time(search, before, n_rows):
            return
        search.bench = Evaluator.of_rows(search.goal, search.judge, parts, search.whole.n_rows)
        # Weak ridges are learned from what float32 rounds away: 1200 rows without noise erred five
        # times as much by trials in float32.
        [settings] = search.climb(Rung(name, None, (partial(growing, fall=fall),), by_paths=True))
        if settings is None:
            return
        outcome = search.stage.outcome_of(settings)
        search.choice = Choice(outcome.record, search.bench.held, outcome.responses)
        if settings == before.settings or search.whole.n_rows < TUNING.growth_table:
            return


def _fall(search: Search) -> float:
    """Share by which the loss of the best settings falls from half of their rows to all; or NaN."""
    best = search.best
    half = 0 if best is None else best.rows // 2
    if best is None or half < TUNING.least_half or search.is_late():
        return np.nan
    losses = []
    for n_rows in (half, best.rows):
        settings, threads = best.settings, n_threads(search.n_jobs)
        [outcomes] = search.bench.of_machines(
            MORE_ROWS[0], n_rows, [settings], [settings.ridge], threads
        )
        losses += [o.record.loss for o in outcomes if o.record.settings == settings]
    search.charge(MORE_ROWS[0])
    return 1.0 - losses[1] / losses[0] if len(losses) == 2 and losses[0] > 0 else np.nan


def _larger(search: Search, most: int) -> list[Split]:
    """Parts that fit at most so many rows, fewer for many inputs, in scales of as many."""
    width = search.n_inputs
    if search.settings.identities:  # whose columns take their time
        width = max(width, int(np.count_nonzero(search.parts[0].scales(search.settings))))
    is_weak = search.settings.ridge < LEAST_SINGLE  # whose factors are of float64
    most = min(most, TUNING.weak_rows) if is_weak and most <= TUNING.most_direct_rows else most
    n_rows = search.shrunk(most, most=most, n_inputs=width)
    part = replace(search.part(search.first_rows), n_of_scales=TUNING.last_scale_rows)
    given = splits(search.goal, search.key, search.whole.n_rows, n_rows)
    return [replace(part, fitted=fitted, held=held) for fitted, held in given]


def _has_time(search: Search, best: Record, n_rows: int) -> bool:
    """Whether there is time for trials of so many rows, whose factors take the cube of them."""
    left = search.deadline - time.perf_counter()
    return 6 * TUNING.growth_steps * best.seconds * (n_rows / best.rows) ** 3 < left


def _where_columns_mislead(search: Search) -> None:
    """Try to leave out columns of many labels; else the choice stays as it was."""
    if search.is_late() or not candidates(search):
        return
    choice, stage = search.choice, search.stage
    [found] = search.climb(COLUMNS)
    if found is None:
        search.choice, search.stage = choice, stage
    else:
        search.choice = Choice(found.record, search.bench.held, found.responses)


def _where_values_repeat(search: Search) -> None:
    """Try scales that tell apart what repeats; else the choice stays as it was."""
    choice, stage = search.choice, search.stage
    search.climb(IDENTITIES)
    if search.settings.scales != "left-out":
        search.choice, search.stage = choice, stage


def on_leaves(search: Search, cut: Cut) -> float:
    """Compare the finalists on leaves of the final size; return the worth of a row of a leaf.

    Rows of a leaf are as dense as all rows and want a narrower kernel and a weaker penalty than
    few rows of the whole table. The worth is a number of rows of the table, infinite without
    time for the trials that show it.
    """
    if not search.finalists or search.is_late():
        return np.inf
    size, count = trial_leaves(cut.leaf_size)
    parts = leaf_parts(search.leaf_table(), search.finalists[0], size, count, cut.overlap)
    if not parts:  # as groups may lie, each of them in a leaf of its own
        return np.inf
    search.bench = search.whole.on_leaves(parts)
    search.climb(LEAVES)
    worth_of_a_leaf = _worth_of_a_leaf(search, parts)
    if search.best is not None and search.best.stage == LEAVES.name:
        _pair_up(search)
    search.charge(LEAVES.name)
    return worth_of_a_leaf


def _pair_up(search: Search) -> None:
    """Choose the settings of other trees, by the held-out loss of the mean of both."""

    def loss(responses: NDArray, transform: str) -> float:
        return search.judge(responses, search.bench.held, transform).loss

    partner, mean = search.stage.partner(loss)
    if partner is not None and mean is not None and search.choice is not None:
        search.partner, search.choice = partner, replace(search.choice, responses=mean)


def part_from_partner(search: Search) -> None:
    """Answer for the held-out rows as a model of the best settings alone does."""
    leader = search.stage.leader
    if search.partner is not None and leader is not None and search.choice is not None:
        search.partner = None
        search.choice = replace(search.choice, responses=leader.responses)


def _worth_of_a_leaf(search: Search, parts: list[LeafSplit]) -> float:
    """Rows of the whole table that a row of a leaf is worth, by their losses."""
    best = search.best
    if best is None or best.stage != LEAVES.name or search.is_late():
        return np.inf
    bench = search.whole.on_leaves([spread_out(parts, 4 * best.rows)])
    losses = []
    for n_rows in (best.rows, 4 * best.rows):
        [outcomes] = bench.of_machines(
            *(search.stage.name, n_rows, [best.settings], [best.settings.ridge]),
            n_threads(search.n_jobs),
        )
        same = [o for o in outcomes if o.record.settings.transform == best.settings.transform]
        losses.append(same[0].record.loss if same else best.loss)
    return worth(best.loss, losses[0], losses[1])


def on_landmarks(search: Search, end: float) -> Landmarks | None:
    """Landmarks of the final model, to be fitted by ``end``; None if leaves serve better."""
    choice, bench, stage, partner = search.choice, search.bench, search.stage, search.partner
    if choice is None or choice.record.stage != LEAVES.name or search.is_late():
        return None
    n_rows = search.whole.n_rows
    if n_rows < TUNING.landmark_rows or landmarks_for(n_rows, search.n_inputs) is None:
        return None
    search.bench = search.whole.on_leaves([spread_out(bench.leaves, TUNING.landmark_rows)])
    search.climb(LANDMARKS)
    best, transform = search.best, choice.record.settings.transform
    loss = search.judge(choice.responses, choice.rows, transform).loss
    if best is not None and best.loss < TUNING.landmark_gain * loss:
        seconds_left = TUNING.reserve * (end - time.perf_counter())
        form = landmarks_for(n_rows, search.n_inputs, seconds_left, best.seconds)
        if form is not None:
            search.partner = None
            return form
    search.choice, search.bench, search.stage, search.partner = choice, bench, stage, partner
    return None


def on_few_inputs(search: Search, n_inputs: int) -> bool:
    """Try features, and exact machines of inputs selected by a lasso; True for machines."""
    few = [finalist for finalist in search.finalists if finalist.scales == "linear"]
    others = [finalist for finalist in search.finalists if finalist not in few]
    if few:
        search.finalists = few
        on_all_rows(search, n_inputs)
    choice, bench, search.finalists = search.choice, search.bench, others
    on_features(search, n_inputs)
    if not few or choice is None:
        return False
    if search.best is not None and search.best.loss < choice.record.loss:
        return False
    search.choice, search.bench = choice, bench
    return True


def on_features(search: Search, n_inputs: int) -> None:
    """Compare gammas and ridges with the random features that replace the kernel."""
    search.n_inputs = n_inputs
    search.enter(FEATURES.name)
    seconds_left = max(0.0, search.deadline - time.perf_counter())
    share = min(1.0, seconds_left / TUNING.feature_seconds)
    n_fitted, n_held = (int(share * rows) for rows in TUNING.feature_rows)
    if n_fitted > search.bench.most_fitted:  # there is time for more rows
        larger = splits(search.goal, search.key, search.whole.n_rows, n_fitted, n_held)
        part = search.part(search.first_rows)
        parts = [replace(part, fitted=fitted, held=held) for fitted, held in larger]
        search.bench = Evaluator.of_rows(search.goal, search.judge, parts, search.whole.n_rows)
    search.climb(FEATURES)
