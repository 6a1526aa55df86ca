"""Settings of tables without noise, chosen where rows lie nearly as close as in the whole table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mercer.auto.leading import rank_loss
from mercer.auto.rungs import Rung, Standing, Trial, Waves
from mercer.auto.trials import Settings
from mercer.auto.tuning import TUNING

__all__ = ["FINE", "VIEWS", "fine_rows"]


def fine_rows(n: int) -> int:
    """Rows that a trial fits for a final model of n rows."""
    least, most = TUNING.fine_rows
    return int(np.clip(TUNING.fine_share * n, least, most))


def other_views(search: Standing) -> Waves:
    """The best settings, and those with other scales at their gamma.

    Few rows favour scales that turn inputs: they leave less to be learned. Returns the best record
    of each view that is not far behind the best, the best first.
    """
    if search.best is None:
        return []
    settings = search.best.settings
    views = [settings]
    if settings.kernel == "gaussian":
        views += [replace(settings, power=power, turned=False) for power in (0.0, 1.0)]
        if search.n_inputs <= TUNING.turned_inputs:
            views.append(replace(settings, power=1.0, turned=True))
    else:
        views += [replace(settings, power=power) for power in TUNING.powers["laplacian"]]
    views = [view if view.power else replace(view, scales="cosines") for view in views]
    ridges = [4.0 * settings.ridge, settings.ridge]
    found = yield [Trial(view, [view.gamma], ridges) for view in dict.fromkeys(views)]
    ranked = sorted(found.values(), key=rank_loss)[: TUNING.fine_views]
    return [r.settings for r in ranked if r.loss <= TUNING.fine_near * ranked[0].loss]


def closer(search: Standing) -> Waves:
    """The finalists, then narrower kernels than the best one, or wider ones, while these gain.

    Each gamma has ridges to both sides of one, which share its kernel. Narrower kernels come with
    a stronger ridge, as they bear one, and their iterations want it.
    """
    yield [_path(finalist) for finalist in search.finalists]
    best = search.best
    if best is None or best.stage != FINE.name:
        return
    step = np.sqrt(TUNING.gamma_step[best.settings.kernel])
    for factor, stronger in ((step, 4.0), (1 / step, 0.25)):
        start = best
        for _ in range(TUNING.fine_steps):
            at = best.settings
            yield [_path(replace(at, gamma=at.gamma * factor, ridge=at.ridge * stronger))]
            leading = search.best
            if leading is None or leading.loss > TUNING.fine_gain * best.loss:
                break
            best = leading
        if best is not start:
            return


def _path(settings: Settings) -> Trial:
    """Trial of the settings at ridges around theirs, the strongest first."""
    ridges = settings.ridge * np.array(TUNING.fine_ridges)
    ridges = np.unique(np.maximum(ridges, TUNING.least_fine_ridge))[::-1]
    return Trial(settings, [settings.gamma], ridges.tolist())


# After rung 3, instead of leaves, where held-out errors are small.
VIEWS = Rung("views", None, (other_views,))
FINE = Rung("fine", None, (closer,), by_paths=True)
