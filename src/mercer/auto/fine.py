"""Settings of tables without noise, chosen where rows lie nearly as close as in the whole table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mercer.auto.leading import rank_loss
from mercer.auto.rungs import Rung, SearchState, Trial, Waves
from mercer.auto.trials import Settings
from mercer.auto.tuning import TUNING

__all__ = ["FINE", "VIEWS", "fine_rows"]


def fine_rows(n: int, seconds_left: float = np.inf) -> int:
    """Rows that a trial fits for a final model of n rows, or as many as there is time for."""
    least, most = TUNING.fine_rows
    of_time = most * np.sqrt(max(0.0, seconds_left) / TUNING.fine_seconds)
    return int(min(np.clip(TUNING.fine_share * n, least, most), of_time))


def other_views(search: SearchState) -> Waves:
    """Try the best settings with other scales at their gamma; return the best record per view.

    Few rows favour scales that turn inputs. Views far behind the best are left out.
    """
    if search.best is None:
        return []
    settings = search.best.settings
    views = [replace(settings, power=power) for power in TUNING.powers[settings.kernel]]
    ridges = [4.0 * settings.ridge, settings.ridge]
    trials = [Trial(view, [view.gamma], ridges) for view in [settings, *_scaled(views, search)]]
    if settings.kernel == "laplacian":  # strong ridges have hidden what a smooth target gains
        smooth = replace(settings, kernel="gaussian", scales="cosines")
        views = [replace(smooth, power=power) for power in TUNING.powers["gaussian"]]
        trials += [Trial(view, *TUNING.view_smooth) for view in _scaled(views, search)]
    found = yield list({trial.settings: trial for trial in trials}.values())
    ranked = sorted(found.values(), key=rank_loss)[: TUNING.views]
    return [r.settings for r in ranked if r.loss <= TUNING.views_near * ranked[0].loss]


def _scaled(views: list[Settings], search: SearchState) -> list[Settings]:
    """Settings in the scales that their powers have, and turned where inputs are few."""
    plain = [replace(v, turned=False, scales=v.scales if v.power else "cosines") for v in views]
    full = [v for v in plain if v.power == 1 and v.kernel == "gaussian"]
    few = search.n_inputs <= TUNING.turned_inputs
    return plain + [replace(v, turned=True, scales="cosines") for v in full if few]


def closer(search: SearchState) -> Waves:
    """The finalists, then narrower kernels, or wider ones where narrower ones err clearly more.

    Each gamma has ridges to both sides of one, which share its kernel. Narrower kernels come with
    a stronger ridge: they bear it, and iterations want it. Returns the settings of the narrowest
    kernel whose loss is near the least one: rows still to come favour it.
    """
    best, stronger = None, 1.0
    while best is None and stronger <= TUNING.fine_strongest:
        found = yield [_path(f, stronger) for f in search.finalists]
        best = min(found.values(), key=rank_loss, default=None)
        stronger *= 4 * TUNING.end_ridge_step
    if best is None:
        return None
    doublings = np.log2(max(1.0, search.bench.n_rows / search.bench.most_fitted))
    near = 1.0 + TUNING.fine_ahead * doublings
    step = np.sqrt(TUNING.gamma_step[best.settings.kernel])
    least, is_clear, at = best.loss, False, best
    for _ in range(TUNING.fine_steps):
        narrower = yield from _moved(at.settings, step)
        is_clear = narrower is None or narrower.loss > TUNING.fine_clear * near * least
        if narrower is None or narrower.loss > near * least:
            break
        at, least = narrower, min(least, narrower.loss)
    if at is best and is_clear:
        for _ in range(TUNING.fine_steps):
            wider = yield from _moved(at.settings, 1 / step)
            if wider is None or near * wider.loss > at.loss:
                break
            at = wider
    for _ in range(TUNING.fine_steps):
        own = [r for r in search.records if r.settings.gamma == at.settings.gamma]
        if at.settings.ridge > min(r.settings.ridge for r in own):
            break
        weaker = yield from _moved(at.settings, 1.0)
        if weaker is None or weaker.loss > TUNING.fine_gain * at.loss:
            break
        at = weaker
    return at.settings


def _moved(settings: Settings, factor: float) -> Waves:
    """Best record at ``factor`` times the gamma; 1 weakens the ridges. None if none converges."""
    step = TUNING.end_ridge_step if factor > 1 else 1 / TUNING.end_ridge_step
    path = _path(replace(settings, gamma=settings.gamma * factor, ridge=settings.ridge * step))
    if factor == 1:
        path = path._replace(ridges=[r for r in path.ridges if r < settings.ridge])
    found = (yield [path]) if path.ridges else {}
    return next(iter(found.values()), None)


def _path(settings: Settings, stronger: float = 1.0) -> Trial:
    """Trial of the settings at ridges around theirs, or stronger ones, the strongest first."""
    ridges = stronger * settings.ridge * np.array(TUNING.fine_ridges)
    ridges = np.unique(np.maximum(ridges, TUNING.least_fine_ridge))[::-1]
    return Trial(settings, [settings.gamma], ridges.tolist())


# After rung 3, instead of leaves, where held-out errors are small.
VIEWS = Rung("views", None, (other_views,))
FINE = Rung("fine", None, (closer,), by_paths=True)
