"""Successive halving: all treatments on few rows, the better ones on more."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mercer import kernels
from mercer._array import n_threads
from mercer._blas import blas_threads
from mercer._threads import side_by_side
from mercer.auto.bench import Bench
from mercer.auto.goals import Classes, Numbers
from mercer.auto.leading import Outcome, Record, Stage, better, promising, rank_loss
from mercer.auto.leaves import Cut, beyond_ends, narrower, neighbours, rescaled, trial_leaves, worth
from mercer.auto.parts import MOST_DENSE, LeafPart, Part, leaf_parts, splits, spread_out
from mercer.auto.progress import Monitor
from mercer.auto.scoring import Judge
from mercer.auto.trials import Settings, feature_map
from mercer.maps.partition import usual_overlap

__all__ = ["Record", "Search"]

# What is tried on the first rung, in units of the median distance and of the kernel matrix.
_GAMMAS = {"laplacian": (0.5, 2.0), "gaussian": (0.3, 1.0)}
_RIDGES = {"laplacian": (0.1, 1.0), "gaussian": (0.003, 0.1)}
_FACTOR = {"laplacian": 2.0, "gaussian": 3.0}
_POWERS = (0.0, 0.5, 1.0)
_SMOOTH_POWERS = (0.0, 1.0)
_MOST_TURNED = 60  # inputs whose combinations are tried
_WIDE = 100  # inputs from which scales of a lasso are tried, too
# A ridge regression, nearly: of many inputs, each may matter a little.
_ALMOST_LINEAR = Settings("standard", kernel="gaussian", gamma=0.1)
_LINEAR_STEPS = [0.1, 0.03, 0.01, 0.003]  # ridges
_MOST_LEARNED = 300  # inputs, treated, whose scales are learned from a machine

_FIRST_ROWS, _SECOND_ROWS = 400, 1000
# Of classes more: a smooth kernel has to be ahead by the more the fewer rows show it.
_THIRD_ROWS = {"continuous": 1500, "classes": 2000}
_COLUMNS = 40  # columns from which a table gets fewer rows on the first rungs
_THIRD_WORK = 2e9  # differences between inputs of rows per trial of the third rung: 30 ms
_KEPT = {"laplacian": 2, "gaussian": 1}  # groups of the first rung that go on
_ONE = {"laplacian": 1, "gaussian": 1}
_NEAR = 1.1  # times the least loss, up to which a smooth kernel is tried once more
_FEATURES = 512
# Of trials with features: of 8000 rows they take a fifth of w8a's fit longer, for no lower errors.
_FEATURE_ROWS, _FEATURE_HELD_ROWS, _FEATURE_SECONDS = 5000, 2500, 1.0
_FEATURE_RIDGES = (0.3, 0.07)
_LINEAR_RIDGES = (1.0, 0.1)
_NARROWER, _STEP, _STEPS = 1.5, 2.0, 3  # first factor of gamma, factor of a step, most steps
_LEAF_TABLE_ROWS = 100_000  # rows that leaves of a search are cut from
_HELD_GROUPS = 0.2  # of these, the share of the groups that are held out
_MOST_TREATED = 60  # inputs with which all treatments are tried on leaves once more
_LEAF_STEPS = 6  # of gamma, ridge and power, at most
_LEAF_GAIN = 0.995  # times the loss that another step has to reach to be followed by one more
_END_STEPS, _END_GAIN = 10, 0.98  # most steps past the ends; times the loss, to take another one
_DENSER = 2.5  # times the rows of the last rung, from which all rows lie much closer together
_DENSE_ROWS, _DENSE_LEAVES = 1000, 16  # of places where settings are tried at that density
_BEHIND = 1.03  # times the rung's least loss, beyond which learned scales stay as they are
_MOST_FADED = 25  # inputs for which faded edges of bins add little noise

_CHUNK = 1e9  # multiplications of factors that are one piece of work: some 10 ms


_Work: TypeAlias = tuple[Settings, Settings, tuple[float, ...]]  # group, settings to try, ridges


def _gammas(settings: Settings) -> tuple[float, ...]:
    """Gammas of the first rung: wide kernels, too, are next to linear in scales of a lasso."""
    gammas = _GAMMAS[settings.kernel]
    return (0.1 * gammas[0], *gammas) if settings.scales == "linear" else gammas


def _of_a_lasso(records: dict[Settings, Record], kept: list[Settings]) -> list[Settings]:
    """The best group in scales of a lasso that is not kept yet: few rows hide what it gains."""
    others = [g for g in records if g.scales == "linear" and g not in kept]
    return sorted(others, key=lambda group: rank_loss(records[group]))[:1]


class Search(Bench):
    """The choice of settings for one table."""

    records: list[Record]  # in the order they were made
    best: Record | None  # of the last stage: later stages fit more rows
    partner: Settings | None  # of trees whose mean with those of ``best`` errs less
    held_rows: NDArray  # held-out rows, and the responses of ``best`` to them, (h, k)
    held_responses: NDArray | None  # transformed as the settings of ``best`` say
    first_rows: NDArray  # that few settings were tried on
    n_components: int  # features of the trials with features
    whole_parts: list[Part]  # of the rungs

    def __init__(
        self,
        table: Any,  # frame, array or CSR of n rows
        y: NDArray,  # of n rows
        goal: Numbers | Classes,
        key: int,  # fixes all random numbers
        n_jobs: int | None,
        deadline: float,  # of ``time.perf_counter()``, after which nothing new is begun
        judge: Judge | None = None,  # of responses to held-out rows, by their losses if None
        monitor: Monitor | None = None,  # that is told of stages and trials, and may stop them
    ):
        self.whole_parts = [
            Part(table, y, goal.kind, fitted, held, key, goal.weights, goal.groups)
            for fitted, held in splits(goal, key, len(y))
        ]
        super().__init__(self.whole_parts, goal, judge or Judge(goal), n_jobs)
        self.key, self.deadline = key, deadline
        self.monitor = Monitor() if monitor is None else monitor
        self.records, self.best, self.partner = [], None, None
        self.held_responses, self.held_rows = None, np.arange(0)
        self.n_components = _FEATURES
        self._finalists: list[Settings] = []
        self._treatments: Sequence[tuple[str, int]] = []
        self._n_rows = len(y)
        self.first_rows = self.parts[0].fitted

    @property
    def settings(self) -> Settings:
        """The best settings so far, or those that serve most tables."""
        return Settings() if self.best is None else self.best.settings

    def run(self, treatments: Sequence[tuple[str, int]], n_inputs: int) -> None:
        """Try everything on few rows, the better part on more."""
        self._treatments = treatments if n_inputs <= _MOST_TREATED else []
        records = self._first(treatments, n_inputs)
        kept = promising(records, list(records), _KEPT, _NEAR)
        more = self._shrunk(_SECOND_ROWS, n_inputs)
        records |= self._refine(more, {group: records[group].settings for group in kept})
        kept = promising(records, kept, _ONE, _NEAR)
        if n_inputs >= _WIDE:
            kept += _of_a_lasso(records, kept)
        self._finalists = [records[group].settings for group in kept]

    def _first(
        self, treatments: Sequence[tuple[str, int]], n_inputs: int
    ) -> dict[Settings, Record]:
        """The best record of every group that is tried on few rows.

        The first treatment says to which power scales are best, the power which treatment is; both
        are tried with a smooth kernel, and learned scales that turn inputs.
        """
        rows, records = self._shrunk(_FIRST_ROWS, n_inputs), dict[Settings, Record]()

        def best_of(groups: Iterable[Settings]) -> Settings:
            trials = [(g, _gammas(g), _RIDGES[g.kernel]) for g in groups]
            records.update(self._try("rung 1", rows, trials))
            plain = Settings(*treatments[0])
            return min(records, key=lambda group: rank_loss(records[group]), default=plain)

        lasso = [Settings(*treatments[0], power=1.0, scales="linear", kernel="gaussian")]
        if n_inputs > MOST_DENSE:  # all that is quick, above all for sparse rows
            equal = [Settings(*treatment, kernel="gaussian") for treatment in treatments[:2]]
            best_of([*equal, *lasso])
            return records
        best = best_of(Settings(*treatments[0], power=power) for power in _POWERS)
        best = best_of(Settings(*treatment, power=best.power) for treatment in treatments[1:])
        smooth = [replace(best, kernel="gaussian", power=power) for power in _SMOOTH_POWERS]
        if smooth and best.numbers != "standard":
            smooth.append(replace(smooth[-1], numbers="standard", max_integers=0))
        if n_inputs >= _WIDE:
            smooth += [*lasso, replace(lasso[0], kernel="laplacian")]
        if n_inputs <= _MOST_TURNED:
            smooth += [replace(group, turned=True) for group in smooth if group.power == 1]
        best_of(smooth)
        return records

    def _refine(self, n_rows: int, at: dict[Settings, Settings]) -> dict[Settings, Record]:
        """Ridges on a finer grid, then gammas to both sides at the best of them."""
        finer = {
            kernel: [*ridges, *np.sqrt(np.multiply(ridges[1:], ridges[:-1])).tolist()]
            for kernel, ridges in _RIDGES.items()
        }
        trials = [(group, [s.gamma], finer[s.kernel]) for group, s in at.items()]
        records = self._try("rung 2", n_rows, trials)
        sides = [
            (group, [s.gamma / _FACTOR[s.kernel], s.gamma * _FACTOR[s.kernel]], [s.ridge])
            for group, s in ((group, record.settings) for group, record in records.items())
        ]
        for group, record in self._try("rung 2", n_rows, sides).items():
            records[group] = min(records[group], record, key=rank_loss)
        return records

    def on_all_rows(self, n_inputs: int) -> None:
        """The best of each kernel on as many rows as there are, for the exact kernel machine.

        Few rows favour smooth kernels, so kernels that are near each other are compared once more,
        and more rows bear a weaker penalty and a narrower kernel.
        """
        n_rows = self._shrunk(_THIRD_ROWS[self.goal.kind], n_inputs, _THIRD_WORK)
        is_thin = self._n_rows > _DENSER * n_rows
        trials = []
        for place, finalist in enumerate(self._finalists):
            gamma, ridge = finalist.gamma, finalist.ridge
            later = is_thin and finalist.kernel == "laplacian"  # tried where rows are dense
            next_gamma = [gamma * _FACTOR[finalist.kernel]] if place == 0 and not later else []
            trials.append((finalist, [gamma, *next_gamma], [ridge, ridge / 3]))
        if _WIDE <= n_inputs <= MOST_DENSE:
            trials.append((_ALMOST_LINEAR, [_ALMOST_LINEAR.gamma], _LINEAR_STEPS))
        self._try("rung 3", n_rows, trials)
        self._learn_scales(n_rows, is_thin)
        self._go_beyond_ends(n_rows, is_thin)
        if is_thin and self.best is not None:
            self._where_rows_are_dense(self.best, self._shrunk(_DENSE_ROWS, n_inputs))

    def _go_beyond_ends(self, n_rows: int, is_thin: bool) -> None:
        """Try weaker penalties and other gammas than any so far, while held-out rows gain by them.

        Gammas of the Laplacian are tried where rows are dense, if rows are thin here.
        """
        for _ in range(_END_STEPS):
            best = self.best
            if best is None or best.stage != self._stage.name or self._is_late():
                return
            ridges_alone = is_thin and best.settings.kernel == "laplacian"
            steps = beyond_ends(best.settings, [r.settings for r in self.records], ridges_alone)
            self._try(self._stage.name, n_rows, [(s, [s.gamma], ridges) for s, ridges in steps])
            if not steps or self.best is None or self.best.loss > _END_GAIN * best.loss:
                return

    def _where_rows_are_dense(self, best: Record, size: int) -> None:
        """A narrower Laplacian or a weaker penalty, if rows as dense as all rows bear it.

        The rows of a rung are a thin sample. Leaves of a partition are small, too, but their rows
        lie as close together as those of the final model. What leaves cannot tell is whether a
        kernel should be wider than they are.
        """
        settings = best.settings
        if best.stage != self._stage.name or settings.kernel != "laplacian" or self._is_late():
            return
        before = best, self.held_responses, self.held_rows
        by_rung = self.parts, self._n_rows, self._held, self._answered
        overlap = usual_overlap(self._n_rows, size)
        parts = leaf_parts(self._leaf_table(), settings, size, _DENSE_LEAVES, overlap)
        if not parts:
            return
        self._judge_by(parts)
        chosen = self._narrowed(settings)
        chosen = self._rescaled(settings) or chosen
        self.best, self.held_responses, self.held_rows = before
        if chosen is not None:
            self.best = chosen.record
            self.held_responses, self.held_rows = chosen.responses, self._held
        self.parts, self._n_rows, self._held, self._answered = by_rung

    def _narrowed(self, settings: Settings) -> Outcome | None:
        """What errs clearly less than some settings, step by step to narrower kernels; or None."""
        at, tried = settings, set[Settings]()
        first, least = np.nan, np.nan
        for _ in range(_LEAF_STEPS):
            works = []
            for step, ridges in narrower(at):
                new = [r for r in ridges if replace(step, ridge=r) not in tried]
                tried |= {replace(step, ridge=r) for r in new}
                works += [(step, [step.gamma], new)] if new else []
            self._try("leaves", self._n_rows, works)
            if np.isnan(first):
                losses = [r.loss for r in self.records if (r.stage, r.settings) == ("leaves", at)]
                first = least = losses[0] if losses else np.nan
            best = self._stage.best_like(settings)
            if best is None or not best.record.loss < _LEAF_GAIN * least:
                break
            at, least = best.record.settings, best.record.loss
        return best if best is not None and least < first else None

    def _rescaled(self, settings: Settings) -> Outcome | None:
        """What errs surely less in scales of exponential machines than these settings with the best
        gamma and ridge so far; or None, as for numbers, or where the rung has them far behind."""
        standing = self._stage.best_like(settings)
        of_rung = [r for r in self.records if r.stage == "rung 3"]
        least = min((r.loss for r in of_rung if r.settings.scales == "exponential"), default=np.inf)
        is_near = bool(of_rung) and least <= _BEHIND * min(r.loss for r in of_rung)
        if standing is None or self.goal.kind != "classes" or not is_near:
            return None
        others = list(rescaled(standing.record.settings, self._treatments))
        self._try("leaves", self._n_rows, [(s, [s.gamma], [s.ridge]) for s in others])
        found = [self._stage.best_like(s) for s in others]
        surely = [o for o in found if o is not None and o.is_surely_less(standing)]
        return min(surely, key=lambda o: o.record.loss, default=None)

    def _learn_scales(self, n_rows: int, is_thin: bool = False) -> None:
        """The best settings of this stage in scales that kernel machines have learned."""
        if self.best is None or self.best.stage != self._stage.name or self.best.settings.turned:
            return
        best, part = self.best.settings, self.parts[0]
        whole = part.whole if isinstance(part, LeafPart) else part
        views = [best]
        if whole is part:  # leaves are cut from so many rows that another treatment takes long
            views.append(replace(best, numbers="robust", max_integers=0))  # may not suit cosines
        views = [v for v in dict.fromkeys(views) if whole.rows(v)[0].shape[1] <= _MOST_LEARNED]
        trials = []
        for view in views:
            learned = replace(view, scales="machine", power=best.power or 1.0)
            if view == best:
                trials.append((learned, best.gamma, best.ridge))
            if view.kernel == "laplacian":
                # Inputs that say little fade, which leaves room for a narrower kernel.
                learned = replace(learned, scales="exponential")
                less_wide = _FACTOR["laplacian"] * best.gamma
                trials.append((learned, best.gamma, best.ridge))
                if not is_thin:  # or it is tried where rows are dense
                    trials.append((learned, less_wide, best.ridge / 3))
        works = [(settings, [gamma], [ridge]) for settings, gamma, ridge in trials]
        self._try(self._stage.name, n_rows, works)

    def on_leaves(self, cut: Cut) -> float:
        """The best of each kernel, step by step, on leaves as the final model has them.

        There rows lie as close together as all rows do, and want a narrower kernel and a weaker
        penalty than few rows of the whole table.

        Returns
        -------
        float
            How many rows of the whole table a row of a leaf is worth; infinite if there was no time
            to tell.
        """
        if not self._finalists or self._is_late():
            return np.inf
        size, count = trial_leaves(cut.leaf_size)
        parts = leaf_parts(self._leaf_table(), self._finalists[0], size, count, cut.overlap)
        if not parts:  # as groups may lie, each of them in a leaf of its own
            return np.inf
        self._judge_by(parts)
        trials = [(f, [f.ridge, f.ridge / 3]) for f in self._finalists]
        tried: set[Settings] = set()
        for _ in range(_LEAF_STEPS):
            works = []
            for settings, ridges in trials:
                new = [r for r in ridges if replace(settings, ridge=r) not in tried]
                tried |= {replace(settings, ridge=r) for r in new}
                works += [(settings, [settings.gamma], new)] if new else []
            leading = self.best
            self._try("leaves", self._n_rows, works)
            if self.best is None or self.best is leading:
                break
            again = leading is not None and leading.stage == "leaves"
            if again and leading and self.best.loss > _LEAF_GAIN * leading.loss:
                break
            trials = list(neighbours(self.best.settings, self._treatments))
        self._learn_scales(self._n_rows)
        self._go_beyond_ends(self._n_rows, False)
        worth_of_a_leaf = self._worth_of_a_leaf()
        if self.best is not None and self.best.stage == "leaves":
            self._pair_up()
        return worth_of_a_leaf

    def _pair_up(self) -> None:
        """Choose the settings of other trees, by the held-out rows' loss of the mean of both."""

        def loss(responses: NDArray, transform: str) -> float:
            return self.judge(responses, self._held, transform).loss

        partner, mean = self._stage.partner(loss)
        if partner is not None:
            self.partner, self.held_responses = partner, mean

    def part_from_partner(self) -> None:
        """Answer for the held-out rows as a model of the best settings alone does."""
        leader = self._stage.leader
        if self.partner is not None and leader is not None:
            self.partner, self.held_responses = None, leader.responses

    def _worth_of_a_leaf(self) -> float:
        """Rows of the whole table that a row of a leaf is worth, by their losses."""
        parts, best = [part for part in self.parts if isinstance(part, LeafPart)], self.best
        if best is None or best.stage != "leaves" or self._is_late():
            return np.inf
        few = best.rows
        self._judge_by([spread_out(parts, 4 * few)])
        losses = []
        for n_rows in (few, 4 * few):
            outcomes = self._tried(n_rows, best.settings, [best.settings.ridge])
            same = [o for o in outcomes if o.record.settings.transform == best.settings.transform]
            losses.append(same[0].record.loss if same else best.loss)
        self._judge_by(parts)
        return worth(best.loss, losses[0], losses[1])

    def _leaf_table(self) -> Part:
        """Rows to cut leaves from, as many of them held out as of other parts if there are groups,
        or else in leaves alone."""
        most_held = int(_HELD_GROUPS * _LEAF_TABLE_ROWS)
        most_fitted = _LEAF_TABLE_ROWS - most_held
        if self.goal.groups is not None:
            fitted, held = splits(self.goal, self.key, self._n_rows, most_fitted, most_held)[0]
            return replace(self._whole(fitted), held=held)
        order = np.concatenate(splits(self.goal, self.key, self._n_rows, self._n_rows)[0][::-1])
        return self._whole(order[:_LEAF_TABLE_ROWS])

    def _whole(self, rows: NDArray) -> Part:
        """Rows to cut leaves from; one has to be held out."""
        first = self.parts[0]
        if not isinstance(first, Part):
            return first.whole
        return replace(first, fitted=rows, held=rows[:1])

    def on_few_inputs(self, n_inputs: int) -> bool:
        """Try features, and exact machines of the inputs that a lasso has left; True for these."""
        few = [finalist for finalist in self._finalists if finalist.scales == "linear"]
        self._finalists = [finalist for finalist in self._finalists if finalist not in few]
        if not few:
            self.on_features(n_inputs)
            return False
        others, self._finalists = self._finalists, few
        self.on_all_rows(n_inputs)
        chosen = self.best, self.held_responses, self.held_rows
        parts, held, self._finalists = self.parts, self._held, others
        self.on_features(n_inputs)
        if chosen[0] is None or (self.best is not None and self.best.loss < chosen[0].loss):
            return False
        self.best, self.held_responses, self.held_rows = chosen
        self.parts, self._held = parts, held
        return True

    def on_features(self, n_inputs: int) -> None:
        """Gamma and ridge with the random features that replace the kernel.

        Features are noisy and want a narrower kernel or a stronger penalty.
        """
        self._enter("features")
        self._hold_out_more()
        if n_inputs > MOST_DENSE:  # of which most are zero, as counts of words are
            plain = self._finalists[0] if self._finalists else Settings()
            self._on_features(replace(plain, kernel="linear", gamma=1.0), 1.0, _LINEAR_RIDGES)
        for place, finalist in enumerate(self._finalists):
            if finalist.kernel != "gaussian":
                self._on_bins(finalist, faded=n_inputs <= _MOST_FADED)
            elif place == 0:
                self._on_features(finalist, 1.0, (finalist.ridge, 10 * finalist.ridge))

    def _hold_out_more(self) -> None:
        """More rows to fit and to hold out, as far as there is time for them."""
        seconds_left = max(0.0, self.deadline - time.perf_counter())
        share = min(1.0, seconds_left / _FEATURE_SECONDS)
        sizes = int(share * _FEATURE_ROWS), int(share * _FEATURE_HELD_ROWS)
        if sizes[0] > self.n_fitted:
            part = self._whole(self.first_rows)
            larger = splits(self.goal, self.key, self._n_rows, *sizes)
            self.parts = [replace(part, fitted=rows, held=held) for rows, held in larger]
            self._held = np.concatenate([held for _, held in larger])

    def _on_bins(self, settings: Settings, faded: bool) -> None:
        """Gamma up for as long as that helps, or else down; then another ridge, and faded edges."""
        first, second = _FEATURE_RIDGES
        factor = _NARROWER
        best = self._on_features(settings, factor, [first])
        for turn in range(_STEPS):
            factor *= _STEP
            more = self._on_features(settings, factor, [first])
            if turn == 0 and better(best, more) is best:
                best = better(best, self._on_features(settings, _NARROWER / _STEP, [first]))
                break
            if better(best, more) is best:
                break
            best = more
        if best is None:
            return
        best = better(best, self._on_features(best.settings, 1.0, [second])) or best
        if faded:
            rows = self.parts[0].scaled(best.settings, _SECOND_ROWS)[0]
            unit = float(kernels.get("smooth", "median").resolve(rows).gamma)
            smooth = replace(best.settings, kernel="smooth")
            self._on_features(smooth, unit, [best.settings.ridge])

    def _on_features(
        self, settings: Settings, factor: float, ridges: Sequence[float]
    ) -> Record | None:
        """The best record of features, for a multiple of gamma."""
        if self._is_late():
            return None
        trial = replace(settings, gamma=settings.gamma * factor)
        map_ = feature_map(trial, self.n_components, self.key, self.n_jobs)
        return self._record(self._tried(self.n_fitted, trial, ridges, map_))

    def _shrunk(self, n_rows: int, n_inputs: int, work: float = 0.0) -> int:
        """Fewer rows for tables of many columns, whose distances cost more.

        ``work`` is the number of differences between inputs of rows that may be made in any case.
        """
        share = min(1.0, np.sqrt(_COLUMNS / max(1, n_inputs)))
        most = max(int(n_rows * share), 200, int(np.sqrt(work / max(1, n_inputs))))
        return min(self.n_fitted, n_rows, most)

    def _try(
        self,
        stage: str,
        n_rows: int,
        trials: Iterable[tuple[Settings, Sequence[float], Sequence[float]]],
    ) -> dict[Settings, Record]:
        """The best record of every group that there was time for; all are kept.

        A trial is a group with gammas and ridges.
        """
        self._enter(stage)
        best: dict[Settings, Record] = {}
        works = [
            (group, replace(group, gamma=float(gamma)), tuple(ridges))
            for group, gammas, ridges in trials
            for gamma in gammas
        ]
        chunks = self._chunks(n_rows, works)
        threads = -(-n_threads(self.n_jobs) // max(1, len(chunks)))

        def outcomes(chunk: list[_Work]) -> list[list[Outcome]]:
            if self._is_late():
                return []
            return self._tried_together(n_rows, [work[1] for work in chunk], chunk[0][2], threads)

        # Matrices are so small that threads of BLAS would wait for each other most of the time.
        with blas_threads(1), closing(side_by_side(outcomes, chunks, self.n_jobs)) as results:
            for chunk, of_chunk in zip(chunks, results, strict=True):
                # There are no outcomes of what would have begun too late.
                for (group, _, _), of_work in zip(chunk, of_chunk, strict=False):
                    record = self._record(of_work)
                    if record is not None:
                        best[group] = min(best.get(group, record), record, key=rank_loss)
        return best

    def _chunks(self, n_rows: int, works: Iterable[_Work]) -> list[list[_Work]]:
        """Neighbours that share what takes time to prepare, of no more work than pays."""
        chunks: list[list[_Work]] = []
        same, room = None, 0.0
        for work in works:
            _, settings, ridges = work
            needs = settings.numbers, settings.max_integers, settings.turned, settings.kernel
            factors = len(ridges) * sum(min(n_rows, len(part.fitted)) ** 3 for part in self.parts)
            if (needs, ridges) != same or factors > room:
                chunks.append([])
                same, room = (needs, ridges), _CHUNK
            chunks[-1].append(work)
            room -= factors
        return chunks

    def _enter(self, name: str) -> None:
        """Records of a new stage are compared with each other alone."""
        if name != self._stage.name:
            self._stage = Stage(name, self._n_rows, self.goal.kind == "classes")
            self.monitor.enter(name)

    def _is_late(self) -> bool:
        """The time for another trial is over; there always is time for the first."""
        is_over = self.monitor.is_stopped or time.perf_counter() > self.deadline
        return self.best is not None and is_over

    def _record(self, outcomes: Sequence[Outcome]) -> Record | None:
        """The best of some records; all are kept."""
        best: Record | None = None
        for outcome in outcomes:
            record = outcome.record
            self.records.append(record)
            best = record if best is None else min(best, record, key=rank_loss)
            self._stage.add(outcome)
        leader = self._stage.leader
        if leader is not None:
            self.best = leader.record
            self.held_responses, self.held_rows = leader.responses, self._held
        self.monitor.tried(outcomes, self.best)
        return best
