"""Rung of the automatic search that leaves out labels without which a classifier errs less."""

from __future__ import annotations

from dataclasses import replace

from mercer.auto.leading import Outcome
from mercer.auto.parts import LeafSplit
from mercer.auto.rungs import Rung, SearchState, Trial, Waves
from mercer.auto.trials import Settings
from mercer.auto.tuning import TUNING

__all__ = ["COLUMNS", "candidates"]


def without_columns(search: SearchState) -> Waves:
    """The best settings without columns of many labels, each alone, then the best ones together.

    Returns the outcome whose loss is surely less than that of all columns, or None.
    """
    if search.best is None:
        return None
    best, names = search.best.settings, candidates(search)
    alone = [_without(search, best, [name]) for name in names]
    yield _trials([best, *alone])
    first = search.stage.best_like(best)
    if first is None:
        return None
    pairs = zip(names, map(search.stage.best_like, alone), strict=True)
    losses = {name: _of(outcome) for name, outcome in pairs if outcome is not None}
    gains = [name for name in sorted(losses, key=losses.__getitem__) if losses[name] < _of(first)]
    together = [_without(search, best, gains[:count]) for count in range(2, len(gains) + 1)]
    yield _trials(together)
    tried = [o for s in [*alone, *together] if (o := search.stage.best_like(s)) is not None]
    least = min(tried, key=_of, default=None)
    if least is None or _of(least) >= TUNING.left_out_loss * _of(first):
        return None
    settings, step = least.record.settings, TUNING.gamma_step[best.kernel]
    gammas = [settings.gamma * step, settings.gamma / step]
    yield [
        Trial(settings, gammas, [settings.ridge]),
        Trial(settings, gammas[:1], [settings.ridge / 3]),
    ]
    found = search.stage.best_like(settings)
    much = TUNING.much_without * _of(first)  # enough with any tails
    surely = _of(least) <= much or least.is_surely_less(first, TUNING.sure_of_columns)
    return found if surely else None


def candidates(search: SearchState) -> list[str]:
    """Columns of many labels that a classifier may leave out, those that count most first."""
    if search.best is None or search.bench.goal.kind != "classes":
        return []
    part = search.bench.parts[0]
    whole = part.whole if isinstance(part, LeafSplit) else part
    return whole.of_many_labels(search.best.settings)[: TUNING.most_left_out]


def _of(outcome: Outcome) -> float:
    return outcome.record.loss


def _trials(settings: list[Settings]) -> list[Trial]:
    return [Trial(s, [s.gamma], [s.ridge]) for s in settings]


def _without(search: SearchState, best: Settings, names: list[str]) -> Settings:
    """Settings without columns of some names as well, in the scales that are known of others."""
    other = replace(best, without=tuple(sorted({*best.without, *names})))
    known = search.known_scales.get((best.treatment, best.kernel))
    if known is not None:
        search.known_scales[other.treatment, other.kernel] = known
    return other


# After rung 3, where a column has many labels.
COLUMNS = Rung("columns", TUNING.last_rung_rows, (without_columns,), work=TUNING.last_rung_work)
