"""Gamma and ridge on more rows, where the loss still falls with their number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np

from mercer.auto.leading import Record
from mercer.auto.rungs import SearchState, Trial, Waves
from mercer.auto.trials import Settings
from mercer.auto.tuning import TUNING

__all__ = ["growing"]

# Part of the fall of the loss, over the rows still to come, by which a narrower kernel may be
# behind: it is ahead by then. One behind by .02 with 8000 rows of an arm without noise, whose loss
# fell by .6 a doubling, was ahead by .16 with 20 000.
_AHEAD = 0.1
# Sides of gamma, and steps of the ridge there: a narrower kernel bears a stronger one.
_SIDES = {1: (1, 0), -1: (0, -1), 0: (1, -1)}
# Fall of the loss with twice the rows from which a Laplacian has Gaussians beside it, and their
# ridges: stronger ones of fewer rows hide what they gain.
_SMOOTH_FALL, _SMOOTH_RIDGES = 0.5, (1e-3, 1e-5)


def growing(search: SearchState, fall: float) -> Waves:
    """Steps of gamma and ridge from the best settings, while the loss falls; return the last ones.

    Steps to every side come first, then more to those sides that gained. ``fall`` is the share by
    which the loss falls with twice the rows.
    """
    if search.best is None:
        return None
    settings = search.best.settings
    views = [settings, *(_smooth(search, settings) if fall >= _SMOOTH_FALL else [])]
    found = yield [Trial(view, [view.gamma], [view.ridge]) for view in views]
    if not found:
        return None
    at = min(found.values(), key=_loss)
    doublings = np.log2(max(1.0, search.bench.n_rows / search.bench.most_fitted))
    near = 1.0 + _AHEAD * fall * doublings
    least, tried, sides = at.loss, set(found), list(_SIDES)
    for _ in range(TUNING.growth_steps):
        trials = {side: _towards(at.settings, side, tried) for side in sides}
        found = yield [trial for trial in trials.values() if trial.ridges]
        shares = {
            side: found[trial.settings].loss / (near if side > 0 else TUNING.growth_gain) / least
            for side, trial in trials.items()
            if trial.settings in found
        }
        gains = [side for side in shares if shares[side] < 1]
        gains = [s for s in gains if s >= 0 or _is_sure(search, found[trials[s].settings], at)]
        if gains:
            at = found[trials[min(gains, key=shares.__getitem__)].settings]
            least, sides = min(least, at.loss), gains
        elif len(sides) < len(_SIDES):  # no further there: once more to every side
            sides = list(_SIDES)
        else:
            break
    return at.settings


def _is_sure(search: SearchState, record: Record, other: Record) -> bool:
    """Whether a record errs less by more than chance: rows to come speak against wider kernels."""
    of_record, of_other = (search.stage.outcome_of(each.settings) for each in (record, other))
    return of_record.is_surely_less(of_other, TUNING.sure)


def _loss(record: Record) -> float:
    return record.loss


def _smooth(search: SearchState, settings: Settings) -> Iterator[Settings]:
    """Gaussians of weak ridges in scales of cosines, beside a Laplacian."""
    if settings.kernel == "laplacian":
        plain = replace(settings, kernel="gaussian", scales="cosines", power=1.0)
        turns = [False, True] if search.n_inputs <= TUNING.turned_inputs else [False]
        for turned, ridge in product(turns, _SMOOTH_RIDGES):
            yield replace(plain, turned=turned, ridge=ridge)


def _towards(settings: Settings, side: int, tried: set[Settings]) -> Trial:
    """Trial of the gamma at a side of the settings, and of ridges that ``tried`` then holds."""
    gamma = float(settings.gamma * np.sqrt(TUNING.gamma_step[settings.kernel]) ** side)
    factors = [TUNING.end_ridge_step**power for power in _SIDES[side]]
    ridges = {max(settings.ridge * factor, TUNING.least_ridge_of_all) for factor in factors}
    there = replace(settings, gamma=gamma)
    new = sorted(r for r in ridges if replace(there, ridge=r) not in tried)
    tried |= {replace(there, ridge=ridge) for ridge in new}
    return Trial(there, [gamma], new[::-1])
