"""Course of the automatic search: which rungs follow on which, and the form of the final model."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer._runtime.arrays import n_threads
from mercer.auto.bench import Evaluator
from mercer.auto.columns import COLUMNS, candidates
from mercer.auto.final import FinalModel
from mercer.auto.fine import FINE, VIEWS, fine_rows
from mercer.auto.landmarks import Landmarks, landmarks_for
from mercer.auto.leading import Record, promising, rank_loss
from mercer.auto.leaves import Cut, cut_for, trial_leaves, worth
from mercer.auto.parts import LeafSplit, leaf_parts, splits, spread_out
from mercer.auto.rungs import ALL_ROWS, DENSE, FEATURES, IDENTITIES, LANDMARKS, LEAVES, RUNGS
from mercer.auto.search import Choice, Search
from mercer.auto.trials import Settings
from mercer.auto.tuning import TUNING
from mercer.maps.partition import usual_overlap

__all__ = ["first_rungs", "has_time_twice", "is_few", "last_rungs", "part_from_partner"]

# Squared errors of all held-out rows of classes, of which a row of response 0 has 1, below which
# they are learned: with 1 in place of it, the log loss of a table in 48 was .0029 for .0015.
_LEARNED = 0.01


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
    last = search.records[-1]
    kernel = last.settings.kernel if search.best is None else search.settings.kernel
    needed = TUNING.exact_cost[kernel] * last.seconds * max(n / last.rows, 1.0) ** 2
    return is_few(n) and needed < TUNING.reserve * seconds_left


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
    search.is_thin = search.whole.n_rows > TUNING.denser * search.rows_of(ALL_ROWS)
    search.climb(ALL_ROWS)
    if search.has_identities and not search.is_late():
        _where_values_repeat(search)
    _where_columns_mislead(search)
    best = search.best
    if best is None or best.stage != search.stage.name or search.is_late():
        return
    if len(search.parts) == 1 and search.relative_error() <= TUNING.fine_error:
        if not _is_learned(search):
            _where_errors_are_small(search)
        return
    if not search.is_thin:
        return
    # Rows of a leaf that share a text and a fold have equal codes, as no new row has: leaves
    # would show too narrow a kernel (errors of .35 in place of .25 on 24 554 rows of schools).
    if best.settings.labels == "words":
        return
    if search.whole.n_rows > TUNING.denser * best.rows:
        if best.settings.kernel in ("laplacian", "exponential"):
            _where_rows_are_dense(search, [best, *_of_other_scales(search, best)])
    elif best.settings.kernel == "laplacian":
        _where_rows_are_dense(search, [best])


def _is_learned(search: Search) -> bool:
    """True of classes where all held-out rows together err by a hundredth of a row of response 0.

    Held-out rows show no gain then. On nine such tables of 120 the trials of small errors took half
    of the search, and the log loss of new rows fell by at most .0013.
    """
    choice = search.choice
    if choice is None or search.goal.kind != "classes":
        return False
    squares, _ = search.goal.losses(choice.responses, choice.rows, choice.record.settings.transform)
    return bool(np.sum(squares) < _LEARNED)


def _of_other_scales(search: Search, best: Record) -> list[Record]:
    """The best Laplacian of the last rung in other scales than those by left-out errors, if any.

    Where rows are much denser the order of the two may be another: a Laplacian behind by a quarter
    with 2500 rows of 26 letters was ahead by a seventh with 15 000. Where they are not, leaves show
    less than the rung: few of their rows share a label.
    """
    others = [
        record
        for record in search.records
        if record.stage == "rung 3"
        and record.settings.kernel == "laplacian"
        and record.settings.scales != "left-out"
    ]
    if best.settings.scales != "left-out" or not others:
        return []
    other = min(others, key=rank_loss)
    return [replace(other, settings=replace(other.settings, without=best.settings.without))]


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


def _where_errors_are_small(search: Search) -> None:
    """Try scales, gammas and ridges of more rows, whose number limits small errors."""
    most = fine_rows(search.whole.n_rows, search.deadline - time.perf_counter())
    if search.settings.identities:  # whose columns take their time
        width = np.count_nonzero(search.parts[0].scales(search.settings))
        search.n_inputs = max(search.n_inputs, int(width))
    if most < TUNING.view_rows:
        return
    for rung, n_rows in ((VIEWS, min(TUNING.view_rows, most)), (FINE, most)):
        given = search.goal, search.key, search.whole.n_rows, search.shrunk(n_rows, most=n_rows)
        part = replace(search.part(search.first_rows), n_of_scales=TUNING.last_scale_rows)
        parts = [replace(part, fitted=fitted, held=held) for fitted, held in splits(*given)]
        search.bench = Evaluator.of_rows(search.goal, search.judge, parts, search.whole.n_rows)
        [result] = search.climb(rung)
        if rung is VIEWS:
            search.finalists = result
        elif result is not None:
            outcome = search.stage.outcome_of(result)
            search.choice = Choice(outcome.record, search.bench.held, outcome.responses)


def _where_rows_are_dense(search: Search, rivals: Sequence[Record]) -> None:
    """Try narrower kernels, weaker penalties and other scales on leaves, as dense as all rows.

    Of several rivals, the first of which is the best so far, the one that errs least there stays.
    """
    size, first = search.shrunk(TUNING.dense_rows), rivals[0].settings
    overlap = usual_overlap(search.whole.n_rows, size)
    parts = leaf_parts(search.leaf_table(), first, size, TUNING.dense_leaves, overlap)
    if not parts or search.choice is None:
        return
    choice, bench = search.choice, search.bench
    search.bench = bench.on_leaves(parts)
    least, ahead = np.inf, choice
    for rival in rivals:
        search.choice = replace(choice, record=rival)
        [outcome] = search.climb(DENSE)
        found = outcome or search.stage.best_like(rival.settings)
        if found is None or found.record.loss >= least:
            continue
        least = found.record.loss
        if outcome is not None or rival is not rivals[0]:
            ahead = Choice(found.record, search.bench.held, found.responses)
    search.choice = ahead
    _where_columns_mislead(search)
    search.bench = bench


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
    search.bench, search.is_thin = search.whole.on_leaves(parts), False
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
