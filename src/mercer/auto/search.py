"""Trials of the settings of an automatic model on held-out rows of a table, and the best so far."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.arrays import n_threads
from mercer._runtime.threads import side_by_side
from mercer.auto.bench import Evaluator
from mercer.auto.goals import Classes, Numbers
from mercer.auto.holdout import relative_error
from mercer.auto.leading import Outcome, Record, Stage, rank_loss
from mercer.auto.ledger import PREPARATION, Ledger
from mercer.auto.parts import Split, splits
from mercer.auto.progress import Monitor
from mercer.auto.rungs import (
    Rung,
    Trial,
    Waves,
)
from mercer.auto.scoring import Judge
from mercer.auto.trials import KnownScales, Settings
from mercer.auto.tuning import TUNING
from mercer.equations.small_ridge import LEAST_SINGLE

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
        self.known_scales: KnownScales = {}
        self.parts = [
            Split(
                *(
                    table,
                    y,
                    goal.kind,
                    *rows,
                    key,
                    goal.weights,
                    goal.groups,
                    goal.times is not None,
                ),
                known_scales=self.known_scales,
            )
            for rows in splits(goal, key, len(y))
        ]
        self.goal, self.key, self.n_jobs = goal, key, n_jobs
        # Later trials move it: they tell how long the final fit takes.
        self.last_begin: Callable[[], float] = lambda: deadline
        self.judge = judge or Judge(goal)
        self.whole = Evaluator.of_rows(goal, self.judge, self.parts, len(y))
        self.bench = self.whole
        self.stage = Stage("", 0, False)
        self.monitor = Monitor() if monitor is None else monitor
        self.records: list[Record] = []  # in the order of the trials
        self.ledger = Ledger(self.records)
        self.choice: Choice | None = None  # of the last stage: later stages fit more rows
        self.partner: Settings | None = None  # of trees whose mean with the best ones errs less
        self.finalists: list[Settings] = []
        self.treatments: Sequence[tuple[str, int]] = []
        self.label_ways: Sequence[str] = ("numbers",)
        self.n_inputs, self.has_identities = 1, False
        self.first_rows = self.parts[0].fitted  # few settings were tried on them

    @property
    def deadline(self) -> float:
        """Time of ``perf_counter()`` after which no trial begins."""
        return self.last_begin()

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

    # -- rows of trials ---------------------------------------------------------------------------

    def leaf_table(self) -> Split:
        """Rows to cut leaves from: by groups or time, a fifth of them held out, else in leaves
        alone."""
        most, n = TUNING.leaf_table_rows, self.whole.n_rows
        if self.goal.has_rule:
            most_held = int(TUNING.held_groups * most)
            fitted, held = splits(self.goal, self.key, n, most - most_held, most_held)[0]
            return replace(self.part(fitted), held=held)
        order = np.concatenate(splits(self.goal, self.key, n, n)[0][::-1])
        return self.part(order[:most])

    def part(self, rows: NDArray) -> Split:
        """Part that fits some rows of the table; one row has to be held out."""
        return replace(self.parts[0], fitted=rows, held=rows[:1])

    def relative_error(self) -> float:
        """Held-out error of the best settings, relative to that of a constant; 1 before any."""
        if self.choice is None:
            return 1.0
        transform = self.choice.record.settings.transform
        return relative_error(self.goal, self.choice.rows, self.choice.responses, transform)

    # -- trials ------------------------------------------------------------------------------------

    def climb(self, rung: Rung, found: dict[Settings, Record] | None = None) -> list[Any]:
        """Try all candidates of a rung; return their results. ``found`` gets the best records."""
        self.enter(rung.name)
        n_rows = self.rows_of(rung)
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

    def rows_of(self, rung: Rung) -> int:
        """Rows that a trial of a rung fits."""
        if rung.rows is None:
            return self.bench.most_fitted
        rows = rung.rows if isinstance(rung.rows, int) else rung.rows[self.goal.kind]
        return self.shrunk(rows, rung.work)

    def shrunk(
        self,
        n_rows: int,
        work: float = 0.0,
        most: int | None = None,
        n_inputs: int | None = None,
    ) -> int:
        """Fewer rows for many inputs, whose distances cost more; at most ``most``.

        ``work`` is rows² × inputs that a trial has in any case.
        """
        n_inputs = max(1, self.n_inputs if n_inputs is None else n_inputs)
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
        if rung.form is not None:
            return self._try_in_turn(rung, works)
        # Of many rows, and at ridges as weak as the rounding of float32, iterations or factors in
        # float64, one after the other.
        many = n_rows > TUNING.most_direct_rows
        weak = [w for w in works if rung.by_paths and (many or min(w[2]) < LEAST_SINGLE)]
        best = self._try_in_turn(rung, weak)
        works = [work for work in works if work not in weak]
        chunks = self._chunks(n_rows, works)
        threads = -(-n_threads(self.n_jobs) // max(1, len(chunks)))

        def outcomes(chunk: list[_Work]) -> tuple[list[list[Outcome]], float]:
            if self.is_late(self._predicted(n_rows, chunk) / n_threads(self.n_jobs)):
                return [], 0.0
            start, groups, ridges = time.perf_counter(), [work[1] for work in chunk], chunk[0][2]
            found = self.bench.of_machines(rung.name, n_rows, groups, ridges, threads)
            n_outcomes = sum(map(len, found))
            return found, (time.perf_counter() - start) / max(1, n_outcomes)

        weights, was_in_time = list[float](), False  # weights are wall seconds of each trial
        with closing(side_by_side(outcomes, chunks, self.n_jobs)) as results:
            for chunk, (of_chunk, seconds) in zip(chunks, results, strict=True):
                was_in_time |= bool(of_chunk)
                # Trials that would have begun too late have no outcomes.
                for (group, _, _), of_work in zip(chunk, of_chunk, strict=False):
                    record = self._record(of_work)
                    weights += [seconds] * len(of_work)
                    if record is not None:
                        best[group] = min(best.get(group, record), record, key=rank_loss)
        if was_in_time:
            self.charge(rung.name, weights)
        return best

    def _try_in_turn(self, rung: Rung, works: list[_Work]) -> dict[Settings, Record]:
        """Outcomes of features or of paths of ridges, one by one: each uses all threads."""
        best: dict[Settings, Record] = {}
        for group, settings, ridges in works:
            if self.is_late():
                break
            if rung.form is None:
                tol = TUNING.error_share * self.relative_error()
                outcomes = self.bench.of_paths(rung.name, settings, ridges, tol, self.n_jobs)
            else:
                form = rung.form
                outcomes = self.bench.of_features(
                    rung.name, settings, ridges, form, self.key, self.n_jobs
                )
            record = self._record(outcomes)
            self.charge(rung.name)
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

    def enter(self, name: str) -> None:
        """Begin a stage, whose records are compared with each other alone."""
        if name != self.stage.name:
            self.stage = Stage(name, self.bench.n_rows, self.goal.kind == "classes")
            self.monitor.enter(name)

    def is_late(self, seconds: float = 0.0) -> bool:
        """Whether there is no time for trials of so many seconds; there always is for the first."""
        is_over = self.monitor.is_stopped or time.perf_counter() + seconds > self.deadline
        return self.best is not None and is_over

    def _predicted(self, n_rows: int, works: list[_Work]) -> float:
        """Seconds of processor that trials take, whose factors grow with the cube of the rows."""
        if self.best is None or not np.isfinite(self.deadline):
            return 0.0
        n_trials = sum(len(ridges) for _, _, ridges in works)
        return n_trials * self.best.seconds * (n_rows / self.best.rows) ** 3

    def charge(self, stage: str, weights: Sequence[float] = ()) -> None:
        """Charge the wall time since the last charge to the trials since then.

        Without any, it is that of work of ``stage`` that belongs to no trial.
        """
        self.ledger.charge(self._untried(stage), weights)

    def end(self) -> float:
        """Charge the time that is left; return the time of ``perf_counter()``."""
        return self.ledger.close(self._untried(self.stage.name or PREPARATION))

    def _untried(self, stage: str) -> Record:
        """Record of work without a trial."""
        return Record(stage, 0, self.settings, np.nan, np.nan, 0.0)

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
