"""Choice of the settings of an automatic model, rung by rung, on held-out rows of a table."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.arrays import n_threads
from mercer._runtime.threads import blas_threads, side_by_side
from mercer.auto.bench import Bench
from mercer.auto.fine import FINE, VIEWS, fine_rows
from mercer.auto.goals import Classes, Numbers
from mercer.auto.holdout import relative_error
from mercer.auto.landmarks import Landmarks, landmarks_for
from mercer.auto.leading import Outcome, Record, Stage, promising, rank_loss
from mercer.auto.leaves import Cut, trial_leaves, worth
from mercer.auto.parts import LeafPart, Part, leaf_parts, splits, spread_out
from mercer.auto.progress import Monitor
from mercer.auto.rungs import (
    ALL_ROWS,
    DENSE,
    FEATURES,
    LANDMARKS,
    LEAVES,
    RUNGS,
    Rung,
    Trial,
    Waves,
)
from mercer.auto.scoring import Judge
from mercer.auto.trials import Settings
from mercer.auto.tuning import TUNING
from mercer.maps.partition import usual_overlap

__all__ = ["Choice", "Record", "Search"]

_Work: TypeAlias = tuple[Settings, Settings, tuple[float, ...]]  # of the trial, to try, ridges


@dataclass(frozen=True)
class Choice:
    """Record of the best settings, and their responses (h, k), transformed, to held-out rows."""

    record: Record
    rows: NDArray
    responses: NDArray


class Search:
    """Choice of the settings for one table, rung by rung.

    ``key`` seeds all random numbers; no trial begins after ``deadline``, a time of
    ``perf_counter()``. Without a judge responses are judged by their losses. The monitor receives
    stages and trials, and may stop the search.
    """

    def __init__(
        self,
        table: Any,
        y: NDArray,
        goal: Numbers | Classes,
        key: int,
        n_jobs: int | None,
        deadline: float,
        judge: Judge | None = None,
        monitor: Monitor | None = None,
    ):
        self.parts = [
            Part(table, y, goal.kind, *rows, key, goal.weights, goal.groups, goal.times is not None)
            for rows in splits(goal, key, len(y))
        ]
        self.goal, self.key, self.n_jobs, self.deadline = goal, key, n_jobs, deadline
        self.judge = judge or Judge(goal)
        self.whole = Bench.of_rows(goal, self.judge, self.parts, len(y))
        self.bench = self.whole
        self.stage = Stage("", 0, False)
        self.monitor = Monitor() if monitor is None else monitor
        self.records: list[Record] = []  # in the order of the trials
        self.choice: Choice | None = None  # of the last stage: later stages fit more rows
        self.partner: Settings | None = None  # of trees whose mean with the best ones errs less
        self.finalists: list[Settings] = []
        self.treatments: Sequence[tuple[str, int]] = []
        self.label_ways: Sequence[str] = ("numbers",)
        self.n_inputs, self.is_thin = 1, False
        self.first_rows = self.parts[0].fitted  # few settings were tried on them

    @property
    def best(self) -> Record | None:
        """Record of the best settings so far."""
        return None if self.choice is None else self.choice.record

    @property
    def held_rows(self) -> NDArray:
        """Rows held out of the best settings' model."""
        return np.arange(0) if self.choice is None else self.choice.rows

    @property
    def held_responses(self) -> NDArray | None:
        """Responses (h, k) of the best settings' model to the rows held out."""
        return None if self.choice is None else self.choice.responses

    @property
    def settings(self) -> Settings:
        """The best settings so far, or the default of most tables."""
        return Settings() if self.best is None else self.best.settings

    def forget_rows(self) -> None:
        """Free the treated rows of the trials."""
        self.parts = []
        self.bench = self.whole = replace(self.whole, parts=[])

    # -- rungs -------------------------------------------------------------------------------------

    def run(
        self,
        treatments: Sequence[tuple[str, int]],
        n_inputs: int,
        label_ways: Sequence[str] = ("numbers",),
    ) -> None:
        """Try all candidates on few rows, and the better ones on more."""
        self.treatments, self.label_ways, self.n_inputs = treatments, label_ways, n_inputs
        groups: dict[Settings, Record] = {}
        for rung in RUNGS:
            found: dict[Settings, Record] = {}
            self._climb(rung, found)
            groups |= found
            kept = promising(groups, self.finalists or list(groups), rung.keep or {}, TUNING.near)
            others = {group: groups[group] for group in groups if group not in kept}
            self.finalists = [groups[group].settings for group in kept]
            groups = {groups[group].settings: groups[group] for group in kept} | others
        if n_inputs >= TUNING.wide_inputs:
            self.finalists += _of_a_lasso(groups, self.finalists)

    def on_all_rows(self, n_inputs: int) -> None:
        """Compare the finalists on as many rows as there are, for the exact kernel machine."""
        self.n_inputs = n_inputs
        self.is_thin = self.whole.n_rows > TUNING.denser * self._rows_of(ALL_ROWS)
        self._climb(ALL_ROWS)
        best = self.best
        if best is None or best.stage != self.stage.name or self._is_late():
            return
        if len(self.parts) == 1 and self._relative_error() <= TUNING.fine_error:
            self._where_errors_are_small()
            return
        if not self.is_thin:
            return
        # Rows of a leaf that share a text and a fold have equal codes, as no new row has: leaves
        # would show too narrow a kernel (errors of .35 in place of .25 on 24 554 rows of schools).
        if best.settings.kernel == "laplacian" and best.settings.labels != "words":
            self._where_rows_are_dense(best)

    def _relative_error(self) -> float:
        """Held-out error of the best settings, relative to that of a constant; 1 before any."""
        if self.choice is None:
            return 1.0
        transform = self.choice.record.settings.transform
        return relative_error(self.goal, self.choice.rows, self.choice.responses, transform)

    def _where_errors_are_small(self) -> None:
        """Try scales, gammas and ridges of more rows, whose number limits small errors."""
        most = fine_rows(self.whole.n_rows, self.deadline - time.perf_counter())
        if most < TUNING.view_rows:
            return
        for rung, n_rows in ((VIEWS, min(TUNING.view_rows, most)), (FINE, most)):
            given = self.goal, self.key, self.whole.n_rows, self._shrunk(n_rows, most=n_rows)
            part = replace(self._part(self.first_rows), n_of_scales=TUNING.last_scale_rows)
            parts = [replace(part, fitted=fitted, held=held) for fitted, held in splits(*given)]
            self.bench = Bench.of_rows(self.goal, self.judge, parts, self.whole.n_rows)
            [result] = self._climb(rung)
            if rung is VIEWS:
                self.finalists = result
            elif result is not None:
                outcome = self.stage.outcome_of(result)
                self.choice = Choice(outcome.record, self.bench.held, outcome.responses)

    def _where_rows_are_dense(self, best: Record) -> None:
        """Try narrower Laplacians, weaker penalties and other scales on leaves, as dense as all."""
        size = self._shrunk(TUNING.dense_rows)
        overlap = usual_overlap(self.whole.n_rows, size)
        parts = leaf_parts(self._leaf_table(), best.settings, size, TUNING.dense_leaves, overlap)
        if not parts:
            return
        choice, bench = self.choice, self.bench
        self.bench = bench.on_leaves(parts)
        [outcome] = self._climb(DENSE)
        if outcome is not None:
            choice = Choice(outcome.record, self.bench.held, outcome.responses)
        self.choice, self.bench = choice, bench

    def on_leaves(self, cut: Cut) -> float:
        """Compare the finalists on leaves of the final size; return the worth of a row of a leaf.

        Rows of a leaf are as dense as all rows and want a narrower kernel and a weaker penalty than
        few rows of the whole table. The worth is a number of rows of the table, infinite without
        time for the trials that show it.
        """
        if not self.finalists or self._is_late():
            return np.inf
        size, count = trial_leaves(cut.leaf_size)
        parts = leaf_parts(self._leaf_table(), self.finalists[0], size, count, cut.overlap)
        if not parts:  # as groups may lie, each of them in a leaf of its own
            return np.inf
        self.bench, self.is_thin = self.whole.on_leaves(parts), False
        self._climb(LEAVES)
        worth_of_a_leaf = self._worth_of_a_leaf(parts)
        if self.best is not None and self.best.stage == LEAVES.name:
            self._pair_up()
        return worth_of_a_leaf

    def _pair_up(self) -> None:
        """Choose the settings of other trees, by the held-out loss of the mean of both."""

        def loss(responses: NDArray, transform: str) -> float:
            return self.judge(responses, self.bench.held, transform).loss

        partner, mean = self.stage.partner(loss)
        if partner is not None and mean is not None and self.choice is not None:
            self.partner, self.choice = partner, replace(self.choice, responses=mean)

    def part_from_partner(self) -> None:
        """Answer for the held-out rows as a model of the best settings alone does."""
        leader = self.stage.leader
        if self.partner is not None and leader is not None and self.choice is not None:
            self.partner = None
            self.choice = replace(self.choice, responses=leader.responses)

    def _worth_of_a_leaf(self, parts: list[LeafPart]) -> float:
        """Rows of the whole table that a row of a leaf is worth, by their losses."""
        best = self.best
        if best is None or best.stage != LEAVES.name or self._is_late():
            return np.inf
        bench = self.whole.on_leaves([spread_out(parts, 4 * best.rows)])
        losses = []
        for n_rows in (best.rows, 4 * best.rows):
            [outcomes] = bench.of_machines(
                *(self.stage.name, n_rows, [best.settings], [best.settings.ridge]),
                n_threads(self.n_jobs),
            )
            same = [o for o in outcomes if o.record.settings.transform == best.settings.transform]
            losses.append(same[0].record.loss if same else best.loss)
        return worth(best.loss, losses[0], losses[1])

    def on_landmarks(self, end: float) -> Landmarks | None:
        """Landmarks of the final model, to be fitted by ``end``; None if leaves serve better."""
        choice, bench, stage, partner = self.choice, self.bench, self.stage, self.partner
        if choice is None or choice.record.stage != LEAVES.name or self._is_late():
            return None
        n_rows = self.whole.n_rows
        if n_rows < TUNING.landmark_rows or landmarks_for(n_rows, self.n_inputs) is None:
            return None
        self.bench = self.whole.on_leaves([spread_out(bench.leaves, TUNING.landmark_rows)])
        self._climb(LANDMARKS)
        best, transform = self.best, choice.record.settings.transform
        loss = self.judge(choice.responses, choice.rows, transform).loss
        if best is not None and best.loss < TUNING.landmark_gain * loss:
            seconds_left = TUNING.reserve * (end - time.perf_counter())
            form = landmarks_for(n_rows, self.n_inputs, seconds_left, best.seconds)
            if form is not None:
                self.partner = None
                return form
        self.choice, self.bench, self.stage, self.partner = choice, bench, stage, partner
        return None

    def _leaf_table(self) -> Part:
        """Rows to cut leaves from: by groups or time, a fifth of them held out, else in leaves
        alone."""
        most, n = TUNING.leaf_table_rows, self.whole.n_rows
        if self.goal.has_rule:
            most_held = int(TUNING.held_groups * most)
            fitted, held = splits(self.goal, self.key, n, most - most_held, most_held)[0]
            return replace(self._part(fitted), held=held)
        order = np.concatenate(splits(self.goal, self.key, n, n)[0][::-1])
        return self._part(order[:most])

    def _part(self, rows: NDArray) -> Part:
        """Part that fits some rows of the table; one row has to be held out."""
        return replace(self.parts[0], fitted=rows, held=rows[:1])

    def on_few_inputs(self, n_inputs: int) -> bool:
        """Try features, and exact machines of inputs selected by a lasso; True for machines."""
        few = [finalist for finalist in self.finalists if finalist.scales == "linear"]
        others = [finalist for finalist in self.finalists if finalist not in few]
        if few:
            self.finalists = few
            self.on_all_rows(n_inputs)
        choice, bench, self.finalists = self.choice, self.bench, others
        self.on_features(n_inputs)
        if not few or choice is None:
            return False
        if self.best is not None and self.best.loss < choice.record.loss:
            return False
        self.choice, self.bench = choice, bench
        return True

    def on_features(self, n_inputs: int) -> None:
        """Compare gammas and ridges with the random features that replace the kernel."""
        self.n_inputs = n_inputs
        self._enter(FEATURES.name)
        seconds_left = max(0.0, self.deadline - time.perf_counter())
        share = min(1.0, seconds_left / TUNING.feature_seconds)
        n_fitted, n_held = (int(share * rows) for rows in TUNING.feature_rows)
        if n_fitted > self.bench.most_fitted:  # there is time for more rows
            larger = splits(self.goal, self.key, self.whole.n_rows, n_fitted, n_held)
            part = self._part(self.first_rows)
            parts = [replace(part, fitted=fitted, held=held) for fitted, held in larger]
            self.bench = Bench.of_rows(self.goal, self.judge, parts, self.whole.n_rows)
        self._climb(FEATURES)

    # -- trials ------------------------------------------------------------------------------------

    def _climb(self, rung: Rung, found: dict[Settings, Record] | None = None) -> list[Any]:
        """Try all candidates of a rung; return their results. ``found`` gets the best records."""
        self._enter(rung.name)
        n_rows = self._rows_of(rung)
        found = {} if found is None else found
        results = []
        for candidates in rung.candidates:
            waves: Waves = candidates(self)
            try:
                trials = next(waves)
                while True:
                    outcomes = self._try(rung, n_rows, trials)
                    for group, record in outcomes.items():
                        found[group] = min(found.get(group, record), record, key=rank_loss)
                    trials = waves.send(outcomes)
            except StopIteration as end:
                results.append(end.value)
        return results

    def _rows_of(self, rung: Rung) -> int:
        """Rows that a trial of a rung fits."""
        if rung.rows is None:
            return self.bench.most_fitted
        rows = rung.rows if isinstance(rung.rows, int) else rung.rows[self.goal.kind]
        return self._shrunk(rows, rung.work)

    def _shrunk(self, n_rows: int, work: float = 0.0, most: int | None = None) -> int:
        """Fewer rows for many inputs, whose distances cost more; at most ``most``.

        ``work`` is rows² × inputs that a trial has in any case.
        """
        n_inputs = max(1, self.n_inputs)
        share = min(1.0, np.sqrt(TUNING.full_columns / n_inputs))
        wanted = max(int(n_rows * share), 200, int(np.sqrt(work / n_inputs)))
        return min(self.bench.most_fitted if most is None else most, n_rows, wanted)

    def _try(self, rung: Rung, n_rows: int, trials: Iterable[Trial]) -> dict[Settings, Record]:
        """The best record of the settings of every trial that there was time for; all are kept."""
        works = [
            (trial.settings, replace(trial.settings, gamma=float(gamma)), tuple(trial.ridges))
            for trial in trials
            for gamma in trial.gammas
        ]
        if rung.form is not None or rung.by_paths:
            return self._try_in_turn(rung, works)
        best: dict[Settings, Record] = {}
        chunks = self._chunks(n_rows, works)
        threads = -(-n_threads(self.n_jobs) // max(1, len(chunks)))

        def outcomes(chunk: list[_Work]) -> list[list[Outcome]]:
            if self._is_late():
                return []
            groups, ridges = [work[1] for work in chunk], chunk[0][2]
            return self.bench.of_machines(rung.name, n_rows, groups, ridges, threads)

        # Matrices are so small that threads of BLAS would wait for each other most of the time.
        with blas_threads(1), closing(side_by_side(outcomes, chunks, self.n_jobs)) as results:
            for chunk, of_chunk in zip(chunks, results, strict=True):
                # Trials that would have begun too late have no outcomes.
                for (group, _, _), of_work in zip(chunk, of_chunk, strict=False):
                    record = self._record(of_work)
                    if record is not None:
                        best[group] = min(best.get(group, record), record, key=rank_loss)
        return best

    def _try_in_turn(self, rung: Rung, works: list[_Work]) -> dict[Settings, Record]:
        """Outcomes of features or of paths of ridges, one by one: each uses all threads."""
        best: dict[Settings, Record] = {}
        for group, settings, ridges in works:
            if self._is_late():
                break
            if rung.form is None:
                tol = TUNING.error_share * self._relative_error()
                outcomes = self.bench.of_paths(rung.name, settings, ridges, tol, self.n_jobs)
            else:
                form = rung.form
                outcomes = self.bench.of_features(
                    rung.name, settings, ridges, form, self.key, self.n_jobs
                )
            record = self._record(outcomes)
            if record is not None:
                best[group] = min(best.get(group, record), record, key=rank_loss)
        return best

    def _chunks(self, n_rows: int, works: Iterable[_Work]) -> list[list[_Work]]:
        """Groups of neighbours that share their preparation, while the shared work pays."""
        chunks: list[list[_Work]] = []
        same, room = None, 0.0
        for work in works:
            _, settings, ridges = work
            needs = *settings.treatment, settings.turned, settings.kernel
            sizes = [min(n_rows, len(part.fitted)) for part in self.bench.parts]
            factors = len(ridges) * sum(size**3 for size in sizes)
            if (needs, ridges) != same or factors > room:
                chunks.append([])
                same, room = (needs, ridges), TUNING.chunk_work
            chunks[-1].append(work)
            room -= factors
        return chunks

    def _enter(self, name: str) -> None:
        """Begin a stage, whose records are compared with each other alone."""
        if name != self.stage.name:
            self.stage = Stage(name, self.bench.n_rows, self.goal.kind == "classes")
            self.monitor.enter(name)

    def _is_late(self) -> bool:
        """Whether the time for another trial is over; there always is time for the first."""
        is_over = self.monitor.is_stopped or time.perf_counter() > self.deadline
        return self.best is not None and is_over

    def _record(self, outcomes: Sequence[Outcome]) -> Record | None:
        """Keep the records of outcomes; returns the best of them."""
        best: Record | None = None
        for outcome in outcomes:
            record = outcome.record
            self.records.append(record)
            best = record if best is None else min(best, record, key=rank_loss)
            self.stage.add(outcome)
        leader = self.stage.leader
        if leader is not None:
            self.choice = Choice(leader.record, self.bench.held, leader.responses)
        self.monitor.tried(outcomes, self.best)
        return best


def _of_a_lasso(groups: dict[Settings, Record], finalists: list[Settings]) -> list[Settings]:
    """The best settings in scales of a lasso that are not kept yet: few rows hide their gain."""
    others = [g for g in groups if g.scales == "linear" and g not in finalists]
    others.sort(key=lambda group: rank_loss(groups[group]))
    return [groups[group].settings for group in others[:1]]
