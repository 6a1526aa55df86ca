"""Course of the automatic search: the table of its rungs, and the settings that each rung tries.

Few rows tell hopeless settings from promising ones; more rows, or rows that lie as close together
as in the whole table, tell promising ones apart. Candidates of a rung come in waves, as the next
settings depend on the outcomes of the last ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from mercer._runtime.threads import side_by_side
from mercer.auto.bench import Evaluator
from mercer.auto.landmarks import Landmarks
from mercer.auto.leading import Record, Stage, better, rank_loss
from mercer.auto.parts import LeafSplit, Split
from mercer.auto.trials import KnownScales, Settings
from mercer.auto.tuning import TUNING

__all__ = [
    "ALL_ROWS",
    "FEATURES",
    "IDENTITIES",
    "LANDMARKS",
    "LEAVES",
    "RUNGS",
    "Rung",
    "SearchState",
    "Trial",
    "beyond_ends",
    "neighbours",
]


class Trial(NamedTuple):
    """Settings to fit with every one of some gammas and ridges."""

    settings: Settings
    gammas: Sequence[float]
    ridges: Sequence[float]


class SearchState(Protocol):
    """State of a search, on which the next candidates depend."""

    n_inputs: int
    treatments: Sequence[tuple[str, int]]  # of the columns, the likeliest first
    label_ways: Sequence[str]  # treatments of labels, the likeliest first
    has_identities: bool  # whether values repeat that a kernel may tell apart
    n_jobs: int | None
    # Scales of least left-out error and their ridge, by treatment and kernel.
    known_scales: KnownScales
    finalists: list[Settings]  # best settings of the groups that go on, the best first
    records: list[Record]  # of all trials
    bench: Evaluator  # rows of the trials
    stage: Stage  # outcomes on these rows

    @property
    def deadline(self) -> float:
        """Time of ``perf_counter()`` after which no trial begins."""

    @property
    def best(self) -> Record | None:
        """Record of the best settings so far."""

    def relative_error(self) -> float:
        """Held-out error of the best settings, relative to that of a constant; 1 before any."""


# Waves of trials; the best record of the settings of each trial is sent back.
Waves: TypeAlias = Generator[list[Trial], dict[Settings, Record], Any]


# -- candidates of rungs 1 and 2 -----------------------------------------------------------------


def coarse(search: SearchState) -> Waves:
    """Powers of the scales, treatments of the columns, then smooth kernels and turned inputs."""
    n_inputs, labels = search.n_inputs, search.label_ways[0]
    treatments = [(*treatment, labels) for treatment in search.treatments]
    lasso = [Settings(*treatments[0], power=1.0, scales="linear", kernel="gaussian")]
    if n_inputs > TUNING.most_dense:  # quick candidates only
        equal = [Settings(*treatment, kernel="gaussian") for treatment in treatments[:2]]
        yield _grids([*equal, *lasso])
        return
    powers = TUNING.powers["laplacian"]
    found = yield _grids(Settings(*treatments[0], power=power) for power in powers)
    best = min(found, key=lambda g: rank_loss(found[g]), default=Settings(*treatments[0]))
    found |= yield _grids(Settings(*treatment, power=best.power) for treatment in treatments[1:])
    best = min(found, key=lambda g: rank_loss(found[g]), default=best)
    found |= yield _grids(replace(best, labels=way) for way in search.label_ways[1:])
    best = min(found, key=lambda g: rank_loss(found[g]), default=best)
    powers = TUNING.powers["gaussian"]
    smooth = [replace(best, kernel="gaussian", power=power) for power in powers]
    if smooth and best.numbers != "standard":
        smooth.append(replace(smooth[-1], numbers="standard", max_integers=0))
    if n_inputs >= TUNING.wide_inputs:
        smooth += [*lasso, replace(lasso[0], kernel="laplacian")]
    if n_inputs <= TUNING.turned_inputs:
        smooth += [replace(group, turned=True) for group in smooth if group.power == 1]
    yield _grids(smooth)


def _grids(groups: Iterable[Settings]) -> list[Trial]:
    """Gammas and ridges of the first rung; in scales of a lasso also a nearly linear kernel."""
    trials = []
    for group in groups:
        gammas = TUNING.gammas[group.kernel]
        if group.scales == "linear":
            gammas = (TUNING.wide_gamma * gammas[0], *gammas)
        trials.append(Trial(group, gammas, TUNING.ridges[group.kernel]))
    return trials


def finer(search: SearchState) -> Waves:
    """Ridges between those of the grid, then gammas to both sides at the best of them."""
    trials = []
    for finalist in search.finalists:
        ridges = TUNING.ridges[finalist.kernel]
        between = np.sqrt(np.multiply(ridges[1:], ridges[:-1])).tolist()
        trials.append(Trial(finalist, [finalist.gamma], [*ridges, *between]))
    found = yield trials
    sides = []
    for trial, record in found.items():
        settings, step = record.settings, TUNING.gamma_step[record.settings.kernel]
        gammas = [settings.gamma / step, settings.gamma * step]
        sides.append(Trial(trial, gammas, [settings.ridge]))
    yield sides


# -- candidates of rung 3 ------------------------------------------------------------------------


def on_more_rows(search: SearchState) -> Waves:
    """The best settings of each kernel, with a weaker penalty and a narrower kernel.

    Few rows favour smooth kernels.
    """
    trials = []
    for place, finalist in enumerate(search.finalists):
        gamma, ridge = finalist.gamma, finalist.ridge
        narrow = [gamma * TUNING.gamma_step[finalist.kernel]] if place == 0 else []
        trials.append(Trial(finalist, [gamma, *narrow], [ridge, ridge / 3]))
    if TUNING.wide_inputs <= search.n_inputs <= TUNING.most_dense:
        # Nearly a ridge regression: of many inputs, each may matter a little.
        linear = Settings("standard", kernel="gaussian", gamma=TUNING.linear_gamma)
        trials.append(Trial(linear, [linear.gamma], TUNING.linear_ridges))
    yield trials


def learned_scales(search: SearchState) -> Waves:
    """The best settings of this stage in scales that kernel machines have learned."""
    best = _best_of_stage(search)
    if best is None or best.turned:
        return
    part = search.bench.parts[0]
    whole = part.whole if isinstance(part, LeafSplit) else part
    views = [best]
    if whole is part:  # leaves are cut from so many rows that another treatment takes long
        views.append(replace(best, numbers="robust", max_integers=0))  # may not suit cosines
    trials = []
    for view in dict.fromkeys(views):
        if whole.rows(view)[0].shape[1] > TUNING.learned_inputs:
            continue
        learned = replace(view, scales="machine", power=best.power or 1.0)
        if view == best:
            trials.append(Trial(learned, [best.gamma], [best.ridge]))
        if view.kernel == "laplacian":
            # Inputs that say little fade, which leaves room for a narrower kernel.
            learned = replace(learned, scales="exponential")
            narrow = TUNING.gamma_step["laplacian"] * best.gamma
            trials.append(Trial(learned, [best.gamma], [best.ridge]))
            trials.append(Trial(learned, [narrow], [best.ridge / 3]))
    yield trials


def least_left_out(search: SearchState) -> Waves:
    """The best treatment of this stage in scales that make the left-out error of a kernel least."""
    best = _best_of_stage(search)
    if best is not None and not search.has_identities and not _is_over(search):
        yield from _by_left_out_errors(search, best, [best])


def identities(search: SearchState) -> Waves:
    """The best settings so far, and scales by left-out errors that tell apart what repeats.

    Trials fit as many rows as there are: of few, hardly two share a value.
    """
    if search.best is None or _is_over(search):
        return
    best = search.best.settings
    yield [Trial(best, [best.gamma], [best.ridge, best.ridge / 3])]
    views = [replace(best, identities=is_told) for is_told in (True, False)]
    yield from _by_left_out_errors(search, best, views)


def _is_over(search: SearchState) -> bool:
    """Whether next to nothing is left to gain, at ridges that take float64."""
    return search.relative_error() < TUNING.left_out_error


def _by_left_out_errors(search: SearchState, present: Settings, views: list[Settings]) -> Waves:
    """Kernels of least left-out error on few rows in their scales of more, by held-out rows.

    Then gammas and ridges around the best of them. Nothing is tried that few rows show to be hardly
    better than the present settings.
    """
    part = search.bench.parts[0]
    whole = part.whole if isinstance(part, LeafSplit) else part
    near_best = {finalist.kernel for finalist in search.finalists}
    kernels = [k for k in TUNING.left_out_gammas if k != "gaussian" or k in near_best]
    kernels.sort(key=lambda kernel: kernel != present.kernel)  # which tells of the others
    plain = [replace(view, turned=False, scales="left-out", power=1.0) for view in views]
    plain = [view for view in plain if _has_few_scales(whole, view)]
    start = time.perf_counter()
    of_present = whole.left_out_error(present)
    seconds = time.perf_counter() - start
    # Scales by few rows take as long as some twenty such errors, by more as ten of more rows.
    if not plain or time.perf_counter() + 20 * len(plain) * seconds > search.deadline:
        return
    near = _near_least_error(search, whole, of_present, plain, kernels)
    seconds *= whole.left_out_search(plain[0]).growth
    if time.perf_counter() + 10 * len(near) * seconds > search.deadline:
        return
    refined = list(side_by_side(whole.at_least_left_out, near, search.n_jobs))
    for settings in refined:
        known = whole.named_scales(settings)
        search.known_scales[settings.treatment, settings.kernel] = known
    others = [p for p in search.bench.parts if isinstance(p, Split) and p is not part]
    list(side_by_side(lambda p: p[0].scales(p[1]), list(product(others, refined)), search.n_jobs))
    found = (
        (yield [Trial(s, [s.gamma], [s.ridge, s.ridge / 4]) for s in refined]) if refined else {}
    )
    if not found:
        return
    best = min(found.values(), key=rank_loss).settings
    gammas = np.multiply(TUNING.left_out_gammas[best.kernel], best.gamma).tolist()
    yield [Trial(best, gammas, [best.ridge])]


def _has_few_scales(whole: Split, view: Settings) -> bool:
    """Whether the inputs, labels of a column as one, are so few that scales are sought for them."""
    if whole.rows(view)[0].shape[1] > TUNING.most_dense:
        return False
    return whole.left_out_search(view).n_scales <= TUNING.left_out_inputs


def _near_least_error(
    search: SearchState,
    whole: Split,
    present: float,
    views: list[Settings],
    kernels: list[str],
) -> list[Settings]:
    """Views with the kernels of the least left-out errors of few rows, if they are enough.

    Enough is a share of the present error, unless only more rows show what labels tell. Other
    kernels follow the first one where it goes half of the way.
    """
    errors: dict[Settings, float] = {}

    def add(candidates: list[Settings]) -> None:
        on_few = partial(whole.left_out, refined=False)
        found = side_by_side(on_few, candidates, search.n_jobs)
        errors.update((c, f.error) for c, f in zip(candidates, found, strict=True))

    def enough(view: Settings) -> float:
        is_open = whole.left_out_search(view).few_hardly_share
        return np.inf if is_open else TUNING.left_out_gain * present

    firsts = {view: replace(view, kernel=kernels[0]) for view in views}
    add(list(firsts.values()))
    views = [v for v in views if errors[firsts[v]] <= 0.5 * (enough(v) + present)]
    kernels = kernels[: 1 if time.perf_counter() > search.deadline else None]
    add([replace(view, kernel=kernel) for view in views for kernel in kernels[1:]])
    most = TUNING.left_out_kernels if len(search.bench.parts) == 1 else 1
    near: list[Settings] = []
    for view in views:
        ranked = sorted(
            (replace(view, kernel=kernel) for kernel in kernels), key=errors.__getitem__
        )
        least = TUNING.left_out_near * errors[ranked[0]]
        least = min(least, TUNING.left_out_far * min(errors.values()), enough(view))
        near += [candidate for candidate in ranked[:most] if errors[candidate] <= least]
    return near


def past_the_ends(search: SearchState) -> Waves:
    """Weaker penalties and other gammas than any so far, while held-out rows gain by them."""
    for _ in range(TUNING.end_steps):
        best, settings = search.best, _best_of_stage(search)
        if best is None or settings is None:
            return
        steps = beyond_ends(settings, [r.settings for r in search.records])
        if not steps:
            return
        yield [Trial(step, [step.gamma], ridges) for step, ridges in steps]
        if search.best is None or search.best.loss > TUNING.end_gain * best.loss:
            return


def _best_of_stage(search: SearchState) -> Settings | None:
    """The best settings, if they are of the present stage."""
    best = search.best
    return best.settings if best is not None and best.stage == search.stage.name else None


def beyond_ends(best: Settings, tried: Iterable[Settings]) -> list[tuple[Settings, list[float]]]:
    """One step past the ends of the ridges, and of the gammas, tried with a kernel.

    Empty if neither the ridge nor the gamma of ``best``, the settings of least loss, is an end of
    the values tried with its kernel.
    """
    unit = best.kernel, best.scales == "left-out"
    alike = [s for s in tried if (s.kernel, s.scales == "left-out") == unit]
    factor = TUNING.gamma_step[best.kernel]
    outer, inner = (replace(best, gamma=best.gamma * f) for f in (1 / factor, factor))
    weaker = max(best.ridge / TUNING.end_ridge_step, TUNING.least_ridge_of_all)
    ridges = [weaker] if weaker < best.ridge <= min(s.ridge for s in alike) else []
    steps = {best: ridges}
    is_widest = best.gamma <= min(s.gamma for s in alike)
    is_narrowest = best.gamma >= max(s.gamma for s in alike)
    # a weaker ridge may suit another gamma, inside the ends as well
    steps[inner] = [best.ridge] * is_narrowest + ridges
    if outer.gamma > TUNING.least_gamma:
        steps[outer] = [best.ridge] * (is_widest and not is_narrowest) + ridges
    return [(settings, own) for settings, own in steps.items() if own]


# -- candidates on leaves ------------------------------------------------------------------------


def step_by_step(search: SearchState) -> Waves:
    """The finalists on leaves, then neighbours of the best settings while held-out rows gain."""
    trials: Iterable[tuple[Settings, list[float]]]
    trials = [(f, [f.ridge, f.ridge / 3]) for f in search.finalists]
    tried: set[Settings] = set()
    for _ in range(TUNING.leaf_steps):
        leading = search.best
        yield _not_tried(trials, tried)
        best = search.best
        if best is None or best is leading:
            return
        again = leading is not None and leading.stage == "leaves"
        if again and leading and best.loss > TUNING.leaf_gain * leading.loss:
            return
        trials = neighbours(best.settings, _other_treatments(search))


def _other_treatments(search: SearchState) -> Sequence[tuple[str, int]]:
    """Treatments of the columns to try again; none of many inputs, which take long."""
    return search.treatments if search.n_inputs <= TUNING.treated_inputs else []


def _not_tried(steps: Iterable[tuple[Settings, list[float]]], tried: set[Settings]) -> list[Trial]:
    """Trials of the ridges that are new, which ``tried`` then holds."""
    trials = []
    for settings, ridges in steps:
        new = [ridge for ridge in ridges if replace(settings, ridge=ridge) not in tried]
        tried |= {replace(settings, ridge=ridge) for ridge in new}
        if new:
            trials.append(Trial(settings, [settings.gamma], new))
    return trials


def neighbours(
    settings: Settings, treatments: Sequence[tuple[str, int]] = ()
) -> Iterator[tuple[Settings, list[float]]]:
    """Settings one step away, each with its ridges, also with the other ``treatments``."""
    factor = TUNING.gamma_step[settings.kernel]
    weaker = max(settings.ridge / TUNING.ridge_step, TUNING.least_ridge)
    near = [settings.ridge, weaker]
    yield replace(settings, gamma=settings.gamma * factor), near
    yield replace(settings, gamma=settings.gamma / factor), near[:1]
    yield settings, [settings.ridge * TUNING.ridge_step, weaker]
    for power in TUNING.powers[settings.kernel]:
        if power != settings.power and not settings.turned:
            yield replace(settings, power=power), near[:1]
    for numbers, max_integers in treatments:
        if (numbers, max_integers) != (settings.numbers, settings.max_integers):
            yield replace(settings, numbers=numbers, max_integers=max_integers), near[:1]


# -- candidates with random features ---------------------------------------------------------------


def with_features(search: SearchState) -> Waves:
    """Gammas and ridges of random features, which want a narrower kernel or a stronger penalty."""
    if search.n_inputs > TUNING.most_dense:  # most of them zero, as counts of words are
        plain = search.finalists[0] if search.finalists else Settings()
        yield [Trial(replace(plain, kernel="linear"), [1.0], TUNING.text_ridges)]
    for place, finalist in enumerate(search.finalists):
        if finalist.kernel != "gaussian":
            yield from _with_bins(finalist)
        elif place == 0:
            yield [Trial(finalist, [finalist.gamma], (finalist.ridge, 10 * finalist.ridge))]


def _with_bins(settings: Settings) -> Waves:
    """Gamma up while held-out rows gain, or else down; then another ridge."""

    def at(settings: Settings, factor: float, ridge: float) -> Waves:
        found = yield [Trial(settings, [settings.gamma * factor], [ridge])]
        return next(iter(found.values()), None)

    (first, second), factor = TUNING.bin_ridges, TUNING.bin_gamma
    best = yield from at(settings, factor, first)
    for turn in range(TUNING.bin_steps):
        factor *= TUNING.bin_step
        more = yield from at(settings, factor, first)
        if turn == 0 and better(best, more) is best:
            less = yield from at(settings, TUNING.bin_gamma / TUNING.bin_step, first)
            best = better(best, less)
            break
        if better(best, more) is best:
            break
        best = more
    if best is not None:
        yield from at(best.settings, 1.0, second)


# -- candidates with landmarks ---------------------------------------------------------------------


def with_landmarks(search: SearchState) -> Waves:
    """The best settings on leaves and, if these gain, finalists of their kernel and a wider one."""
    of_leaves = search.best
    if of_leaves is None:
        return
    settings = of_leaves.settings
    yield [Trial(settings, [settings.gamma], [settings.ridge])]
    best, leading = _best_of_stage(search), search.best
    if best is None or leading is None or leading.loss > TUNING.landmark_gain * of_leaves.loss:
        return
    others = [f for f in search.finalists if f.kernel == best.kernel and f != best]
    yield [Trial(other, [other.gamma], [other.ridge]) for other in others]
    best = _best_of_stage(search) or best
    yield [Trial(best, [best.gamma / TUNING.gamma_step[best.kernel]], [best.ridge])]


# -- the table -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rung:
    """Stage of the search: settings fitted to rows of one kind, and compared with each other."""

    name: str
    # of a trial at most, per kind of target, fewer if inputs are many; None: all
    rows: int | dict[str, int] | None
    candidates: tuple[Callable[[SearchState], Waves], ...]  # each makes waves of trials
    # groups of settings of each kernel that the next rung takes over
    keep: dict[str, int] | None = None
    work: float = 0.0  # rows² × inputs that a trial has in any case
    # random features, or landmarks, for the kernel; None: exact machines
    form: int | Landmarks | None = None
    by_paths: bool = False  # of weak ridges, and of many rows, machines in float64, one by one


# A thin sample of the table, for every model.
RUNGS = (
    Rung("rung 1", TUNING.rung_rows[0], (coarse,), keep=TUNING.kept),
    Rung("rung 2", TUNING.rung_rows[1], (finer,), keep=TUNING.kept_last),
)
# More of them, for exact kernel machines of all rows.
ALL_ROWS = Rung(
    "rung 3",
    TUNING.last_rung_rows,
    (on_more_rows, learned_scales, least_left_out, past_the_ends),
    work=TUNING.last_rung_work,
)
# Rows that lie as close together as those of the whole table, instead of rung 3 for local machines.
LEAVES = Rung("leaves", None, (step_by_step, learned_scales, least_left_out, past_the_ends))
# After rung 3, where labels or whole numbers repeat.
IDENTITIES = Rung("identities", TUNING.identity_rows, (identities, past_the_ends))
# Instead of rung 3 for random features.
FEATURES = Rung("features", None, (with_features,), form=TUNING.trial_features)
# After leaves whose rows are worth little more than any others.
LANDMARKS = Rung("landmarks", None, (with_landmarks,), form=Landmarks(TUNING.trial_landmarks))
