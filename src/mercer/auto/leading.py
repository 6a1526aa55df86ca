"""Outcomes of the trials of one stage of a search, and which of them leads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mercer.auto.trials import Settings
from mercer.auto.tuning import TUNING

_LEFT_OUT = 2  # degree of freedom of scales by left-out errors

__all__ = ["Outcome", "Record", "Stage", "better", "promising", "rank_loss"]


@dataclass(frozen=True)
class Record:
    """Settings, and how good their predictions were."""

    stage: str  # name of a rung
    rows: int  # that they were fitted to
    settings: Settings
    # On held-out rows: mean squared error, in units of the variance or, for classes, of responses
    # from -1 to 1, and its root or the share of wrong classes.
    loss: float
    error: float
    seconds: float
    score: float = np.nan  # on held-out rows, where a scorer chooses


@dataclass(frozen=True)
class Outcome:
    """A record, held-out responses and the loss of each row, or of blocks of rows for a scorer."""

    record: Record
    responses: NDArray
    losses: NDArray | Callable[[], NDArray]

    def compared(self) -> NDArray:
        """Losses per row or block, whose paired differences test another outcome for chance."""
        return self.losses() if callable(self.losses) else self.losses

    def is_surely_less(self, other: Outcome, n_errors: float) -> bool:
        """Whether the loss is below that of another outcome for the same rows, by more than chance
        makes it: so many standard errors of the paired differences."""
        gain = other.compared() - self.compared()
        return bool(gain.mean() > n_errors * gain.std() / np.sqrt(len(gain)))


class Stage:
    """The best outcomes on one set of held-out rows, of every kernel, transform and scales."""

    def __init__(self, name: str, n_rows: int, classes: bool):
        self.name, self.n_rows, self.classes = name, n_rows, classes
        self._best: dict[tuple[str, str, str], Outcome] = {}
        self._of_view: dict[Settings, Outcome] = {}
        self._outcomes: dict[Settings, Outcome] = {}

    def add(self, outcome: Outcome) -> None:
        """Take an outcome into account."""
        settings = outcome.record.settings
        self._outcomes[settings] = outcome
        kind = settings.kernel, settings.transform, settings.scales
        if kind not in self._best or outcome.record.loss < self._best[kind].record.loss:
            self._best[kind] = outcome
        view = _view(settings)
        if view not in self._of_view or outcome.record.loss < self._of_view[view].record.loss:
            self._of_view[view] = outcome

    def outcome_of(self, settings: Settings) -> Outcome:
        """The outcome of settings that were tried on this stage."""
        return self._outcomes[settings]

    def best_like(self, settings: Settings) -> Outcome | None:
        """Best outcome of settings with any gamma and ridge, else equal."""
        return self._of_view.get(_view(settings))

    def partner(
        self, loss: Callable[[NDArray, str], float]
    ) -> tuple[Settings, NDArray] | tuple[None, None]:
        """Settings whose mean response with the leader's is best, and that mean; or None."""
        best: tuple[Settings, NDArray] | tuple[None, None] = None, None
        leader = self.leader
        if leader is None:
            return best
        least = TUNING.pair_loss * leader.record.loss
        for other in self.beside(leader):
            mean = (leader.responses + other.responses) / 2
            of_mean = loss(mean, leader.record.settings.transform)
            if of_mean < least:
                least, best = of_mean, (other.record.settings, mean)
        return best

    def beside(self, leader: Outcome) -> list[Outcome]:
        """Outcomes of another view of the rows than the leader's: the best of every such view.

        A view is everything but gamma and ridge. Target and kernel are the leader's: what another
        kernel is worth on the few rows of a trial says little of all rows (a Gaussian tree as good
        as a Laplacian one on 1000 rows erred by 21 % instead of 19 % on 245 000).
        """
        own = leader.record.settings
        return [
            outcome
            for view, outcome in self._of_view.items()
            if view != _view(own) and view.transform == own.transform and view.kernel == own.kernel
        ]

    @property
    def leader(self) -> Outcome | None:
        """The best of the plainest kind, unless a fancier one is better by enough."""
        leader: Outcome | None = None

        def rank(outcome: Outcome) -> tuple[int, int, float]:
            settings = outcome.record.settings
            return _fanciness(settings), _degree(settings), outcome.record.loss

        for outcome in sorted(self._best.values(), key=rank):
            if leader is None or self._leads(outcome, leader):
                leader = outcome
        return leader

    def _leads(self, outcome: Outcome, other: Outcome) -> bool:
        """Whether an outcome is better than a plainer one by the losses of the held-out rows.

        If they differ in kernel or transform, by two standard errors of the difference, by four if
        in both, by one more for scales of a machine, by two more for scales by left-out errors, or
        by so much that long tails, which make these errors large, are no excuse. A kernel in scales
        by left-out errors was chosen by these: it counts only in small tables, whose folds hold out
        the rows of these errors.
        Classes change at borders, not smoothly: there a smooth kernel soon learns no more, and has
        to be ahead by more the more rows are still to come.
        """
        of_other = other.compared()
        gain = of_other - outcome.compared()
        doubt = TUNING.sure * float(gain.std()) / np.sqrt(len(gain))
        settings, plainer = outcome.record.settings, other.record.settings
        more = _fanciness(settings) - _fanciness(plainer)
        degree = _degree(settings) if _degree(settings) > _degree(plainer) else 0
        much = TUNING.much_by_scales[degree] if degree and not more else TUNING.much
        tested = more + TUNING.sure_of_scales[degree]
        is_of_other_rows = degree == _LEFT_OUT and self.n_rows > TUNING.fold_rows
        if is_of_other_rows and _is_plain(plainer) and not _is_plain(settings):
            tested -= 1
        enough = min(doubt * tested, much * float(of_other.mean()))
        if self.classes and more and _is_smooth(settings) and not _is_smooth(plainer):
            doublings = max(0.0, np.log2(self.n_rows / outcome.record.rows))
            enough = max(enough, TUNING.ahead * doublings * float(outcome.compared().mean()))
        return bool(gain.mean() > enough)


def _view(settings: Settings) -> Settings:
    """Settings with gamma and ridge 1: equal for all settings of one view of the rows."""
    return replace(settings, gamma=1.0, ridge=1.0)


def _fanciness(settings: Settings) -> int:
    """Count of choices other than the plain ones of most tables, scales apart."""
    return (not _is_plain(settings)) + (settings.transform != "identity")


def _degree(settings: Settings) -> int:
    """Rank of scales by their freedom: 0 of cosines, 1 of other models, 2 by left-out errors."""
    return _LEFT_OUT if settings.scales == "left-out" else int(settings.scales != "cosines")


def _is_plain(settings: Settings) -> bool:
    return settings.kernel in ("laplacian", "linear")


def _is_smooth(settings: Settings) -> bool:
    return settings.kernel == "gaussian"


def promising(
    losses: dict[Settings, Record], groups: list[Settings], most: dict[str, int], near: float
) -> list[Settings]:
    """The best groups of each kernel, the best first; the Gaussian only if it is near the best."""
    ranked = sorted(groups, key=lambda group: rank_loss(losses[group]))
    enough = near * rank_loss(losses[ranked[0]]) if ranked else 0.0
    kept: list[Settings] = []
    for kernel, count in most.items():
        of_kernel = [group for group in ranked if group.kernel == kernel]
        if of_kernel and (kernel == "laplacian" or rank_loss(losses[of_kernel[0]]) <= enough):
            kept += of_kernel[:count]
    return sorted(kept, key=lambda group: rank_loss(losses[group]))


def better(record: Record | None, other: Record | None) -> Record | None:
    """The one of less loss, the first of equal ones; None if there is none."""
    if record is None or other is None:
        return other if record is None else record
    return min(record, other, key=rank_loss)


def rank_loss(record: Record) -> float:
    """The loss with the handicaps of transformed targets and of smooth kernels."""
    settings = record.settings
    handicap = TUNING.transform_margin * (settings.transform != "identity")
    return record.loss * (1 + handicap + TUNING.gaussian_margin * (settings.kernel == "gaussian"))
