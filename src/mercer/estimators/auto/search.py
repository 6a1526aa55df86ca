"""Successive halving: all treatments on few rows, the better ones on more."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from mercer import kernels
from mercer._random import Slot, Streams
from mercer.estimators.auto.goals import Classes, Numbers
from mercer.estimators.auto.trials import (
    METRICS,
    Settings,
    exact_responses,
    feature_responses,
)
from mercer.estimators.scales import GradientScaler, at_unit_distance, scaled
from mercer.maps import FeatureMap, RandomBinning, RandomFourier
from mercer.preparation import TablePreparer

__all__ = ["Record", "Search", "feature_map", "rows_of"]

# What is tried on the first rung, in units of the median distance and of the kernel matrix.
_GAMMAS = {"laplacian": (0.5, 2.0), "gaussian": (0.3, 1.0)}
_RIDGES = {"laplacian": (0.1, 1.0), "gaussian": (0.003, 0.1)}
_FACTOR = {"laplacian": 2.0, "gaussian": 3.0}
_POWERS = (0.0, 0.5, 1.0)
_SMOOTH_POWERS = (0.0, 1.0)
_MOST_TURNED = 60  # inputs whose combinations are tried
_MOST_INPUTS = 2000  # for which scales are learned and rows of a search are dense

_FIRST_ROWS, _SECOND_ROWS, _THIRD_ROWS, _HELD_ROWS = 400, 1000, 2000, 1500
_FEW_ROWS, _FOLDS = 1000, 5  # so few rows are held out in turn
_COLUMNS = 40  # a table of more columns gets fewer rows on the first rungs
_KEPT = {"laplacian": 2, "gaussian": 1}  # of the groups of the first rung
_ONE = {"laplacian": 1, "gaussian": 1}
_NEAR = 1.1  # of the least loss, up to which a smooth kernel is worth a second look
_MARGIN = 0.02  # by which a transformed target has to lower the loss
_SURE = 2.0  # standard errors that a step away from what serves most tables has to gain
_MUCH = 0.2  # share of the loss that is enough in any case
_SMOOTH_MARGIN = 0.03  # by which the Gaussian has to
_FEATURE_ROWS, _FEATURES = 4000, 512
_FEATURE_GAMMAS = (1.5, 3.5)
_FEATURE_RIDGES = (0.2, 0.7)


@dataclass(frozen=True)
class Record:
    """How settings did.

    Parameters
    ----------
    stage : {"rung 1", "rung 2", "rung 3", "features"}
    rows : int
        Rows they were fitted to.
    settings : Settings
    loss, error : float
        On rows held out: mean squared error in units of the variance (of responses from -1 to 1 for
        classes), and its root or the share of wrong classes.
    seconds : float
    """

    stage: str
    rows: int
    settings: Settings
    loss: float
    error: float
    seconds: float


@dataclass
class _Part:
    """A way to hold rows out: the tables of both sides, treated and scaled when asked for."""

    table: Any
    y: Any
    kind: str
    fitted: NDArray[np.int64]
    held: NDArray[np.int64]
    key: int
    prepared: dict[Any, tuple[Any, Any]] = field(default_factory=dict)
    scales: dict[Any, NDArray] = field(default_factory=dict)

    def rows(self, settings: Settings) -> tuple[Any, Any]:
        """Rows to fit and rows to predict under settings, but for kernel, gamma and ridge."""
        treatment = settings.numbers, settings.max_integers
        if treatment not in self.prepared:
            preparer = TablePreparer(
                settings.numbers,
                max_integers=settings.max_integers,
                target=self.kind,
                random_state=np.random.default_rng(self.key),
            )
            fitted = preparer.fit_transform(rows_of(self.table, self.fitted), self.y[self.fitted])
            held = preparer.transform(rows_of(self.table, self.held))
            self.prepared[treatment] = _short(fitted), _short(held)
        return self.prepared[treatment]

    def scaled(self, settings: Settings, n_rows: int) -> tuple[Any, Any]:
        """The same in learned scales: the first rows to fit, and all to predict."""
        fitted, held = self.rows(settings)
        metric = METRICS[settings.kernel]
        which = settings.numbers, settings.max_integers, settings.turned
        if settings.power and which not in self.scales:
            scaler = GradientScaler(
                full=settings.turned,
                target=self.kind,
                random_state=np.random.default_rng(self.key),
            ).fit(fitted, self.y[self.fitted])
            self.scales[which] = scaler.matrix_ if settings.turned else scaler.scales_
        learned = self.scales.get(which, np.ones(fitted.shape[1]))
        if not settings.turned:
            learned = learned**settings.power
        matrix = at_unit_distance(fitted, learned, metric).astype(np.float32)
        return scaled(fitted[:n_rows], matrix), scaled(held, matrix)


class Search:
    """The choice of settings for one table.

    Parameters
    ----------
    table : frame, array or CSR of n rows
    y : ndarray of n rows
    goal : Numbers or Classes
    key : int
        Fixes what is random.
    n_jobs : int or None
    deadline : float
        Of ``time.perf_counter()``, after which nothing new is begun.

    Attributes
    ----------
    records : list of Record
        In the order they were made.
    best : Record or None
        The best one so far; those of later stages, on more rows, replace those of earlier ones.
    held_rows : ndarray of int
        Rows that were held out.
    held_responses : ndarray of shape (h, k) or None
        To them, of the best settings, transformed as these say.
    n_components : int
        Features of the trials with features.
    """

    def __init__(
        self,
        table: Any,
        y: NDArray,
        goal: Numbers | Classes,
        key: int,
        n_jobs: Any,
        deadline: float,
    ):
        self.goal, self.key, self.n_jobs, self.deadline = goal, key, n_jobs, deadline
        self.records: list[Record] = []
        self.best: Record | None = None
        self._stage_best: Record | None = None
        self._best_losses = np.empty(0)
        self.held_responses: NDArray | None = None
        self.held_rows: NDArray = np.arange(0)
        self.n_components = _FEATURES
        self._finalists: list[Settings] = []
        n = len(y)
        self.parts = [
            _Part(table, y, goal.kind, fitted, held, key) for fitted, held in _splits(goal, key, n)
        ]

    @property
    def n_fitted(self) -> int:
        """Most rows that can be fitted to."""
        return min(len(part.fitted) for part in self.parts)

    def run(self, treatments: Sequence[tuple[str, int]], n_inputs: int) -> None:
        """Try everything on few rows, the better part on more, and the best by its features."""
        few = self._shrunk(_FIRST_ROWS, n_inputs)
        groups = self._groups(treatments, n_inputs)
        losses = {}
        self._stage_best = None
        for group in groups:
            loss = self._try("rung 1", few, group, _GAMMAS[group.kernel], _RIDGES[group.kernel])
            if loss is not None:
                losses[group] = loss
        kept = _promising(losses, list(losses), _KEPT, _NEAR)
        more = self._shrunk(_SECOND_ROWS, n_inputs)
        self._stage_best = None
        for group in kept:
            again = self._refine(more, group, losses[group].settings)
            losses[group] = again or losses[group]
        self._finalists = [
            losses[group].settings for group in _promising(losses, kept, _ONE, _NEAR)
        ]

    def _refine(self, n_rows: int, group: Settings, at: Settings) -> Record | None:
        """Ridges on a finer grid, then gammas to both sides at the best of them."""
        ridges = _RIDGES[group.kernel]
        middle = np.sqrt(np.multiply(ridges[1:], ridges[:-1])).tolist()
        best = self._try("rung 2", n_rows, group, [at.gamma], [*ridges, *middle])
        if best is None:
            return None
        factor, ridge = _FACTOR[group.kernel], best.settings.ridge
        sides = (at.gamma / factor, at.gamma * factor)
        other = self._try("rung 2", n_rows, group, sides, [ridge])
        return min((r for r in (best, other) if r is not None), key=_worth)

    def finish(self, exact: bool, n_inputs: int) -> None:
        """The best of each kernel on as many rows as there are, in the form of the final model.

        Few rows favour smooth kernels, so kernels that are near each other are compared once more.
        Where features replace the kernel, gamma and ridge are chosen anew: features are noisy and
        want a narrower kernel or a stronger penalty.
        """
        self._stage_best = None
        for place, found in enumerate(self._finalists):
            if exact:
                rows = self._shrunk(_THIRD_ROWS, n_inputs)
                self._try_more_rows(rows, found, narrower=place == 0)
                continue
            smooth = found.kernel == "gaussian"
            ridges = (found.ridge, 10 * found.ridge) if smooth else _FEATURE_RIDGES
            map_ = feature_map(found, self.n_components, self.key, self.n_jobs)
            for factor in (1.0,) if smooth else _FEATURE_GAMMAS:
                gamma = found.gamma * factor
                self._try("features", self.n_fitted, found, [gamma], ridges, map_)

    def _try_more_rows(self, n_rows: int, found: Settings, narrower: bool) -> None:
        """More rows bear a weaker penalty and a narrower kernel."""
        ridges = [found.ridge, found.ridge / 3]
        best = self._try("rung 3", n_rows, found, [found.gamma], ridges)
        if narrower and best is not None:
            gamma = found.gamma * _FACTOR[found.kernel]
            self._try("rung 3", n_rows, found, [gamma], [best.settings.ridge])

    def _shrunk(self, n_rows: int, n_inputs: int) -> int:
        """Fewer rows for tables of many columns, whose distances cost more."""
        share = min(1.0, np.sqrt(_COLUMNS / max(1, n_inputs)))
        return min(self.n_fitted, max(int(n_rows * share), min(n_rows, 200)))

    def _groups(self, treatments: Sequence[tuple[str, int]], n_inputs: int) -> list[Settings]:
        """Settings that differ in what has to be computed anew; the likeliest first."""
        if n_inputs > _MOST_INPUTS:  # all that is quick, above all for sparse rows
            return [Settings(*treatment, kernel="gaussian") for treatment in treatments[:2]]
        groups = [
            Settings(*treatment, power=power) for power, treatment in product(_POWERS, treatments)
        ]
        smooth = [
            Settings(*treatment, power=power, kernel="gaussian")
            for power, treatment in product(_SMOOTH_POWERS, treatments[:2])
        ]
        if n_inputs <= _MOST_TURNED:
            smooth += [replace(group, turned=True) for group in smooth if group.power == 1]
        return groups + smooth

    def _try(
        self,
        stage: str,
        n_rows: int,
        group: Settings,
        gammas: Iterable[float],
        ridges: Sequence[float],
        map_: FeatureMap | None = None,
    ) -> Record | None:
        """The best record of a group, or None if there is no time; all are kept."""
        best: Record | None = None
        for gamma in gammas:
            if self.best is not None and time.perf_counter() > self.deadline:
                return best
            start = time.perf_counter()
            found = self._responses(n_rows, replace(group, gamma=float(gamma)), ridges, map_)
            seconds = (time.perf_counter() - start) / max(1, len(found))
            for settings, responses in found.items():
                losses, error = self._judged(settings, responses)
                record = Record(stage, n_rows, settings, float(losses.mean()), error, seconds)
                self.records.append(record)
                if best is None or _worth(record) < _worth(best):
                    best = record
                if self._leads(record, losses):
                    self._stage_best = self.best = record
                    self._best_losses = losses
                    self.held_responses = np.concatenate(responses)
                    self.held_rows = np.concatenate([part.held for part in self.parts])
        return best

    def _leads(self, record: Record, losses: NDArray) -> bool:
        """Whether a record is the best of its stage, by the losses of the rows held out.

        Of two that differ in kernel or transform the plainer one leads unless the other is better
        by two standard errors of the difference, by four if it differs in both, or by so much
        that long tails, which make these errors large, are no excuse.
        """
        if self._stage_best is None:
            return True
        gain = self._best_losses - losses
        doubt = _SURE * float(gain.std()) / np.sqrt(len(gain))
        more = _fanciness(record.settings) - _fanciness(self._stage_best.settings)
        enough = min(doubt * abs(more), _MUCH * float(self._best_losses.mean()))
        return float(gain.mean()) > enough * np.sign(more)

    def _responses(
        self, n_rows: int, group: Settings, ridges: Sequence[float], map_: FeatureMap | None
    ) -> dict[Settings, list[NDArray]]:
        """Responses to the held rows of every part, for every ridge and transform."""
        found: dict[Settings, list[NDArray]] = {}
        for part in self.parts:
            fitted, held = part.scaled(group, n_rows)
            encodings = list(self.goal.encodings(part.fitted[:n_rows]))
            target = np.column_stack([encoding.target for encoding in encodings])
            if map_ is None:
                kernel = kernels.get(group.kernel, group.gamma)
                tried = exact_responses(kernel, fitted, held, target.astype(np.float32), ridges)
            else:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    at = map_.with_gamma(group.gamma)
                    tried = iter(
                        list(feature_responses(at, fitted, held, target.astype(np.float32), ridges))
                    )
            for ridge, responses in tried:
                pieces = np.split(responses, len(encodings), axis=1)
                for encoding, piece in zip(encodings, pieces, strict=True):
                    at_ridge = replace(group, ridge=float(ridge), transform=encoding.transform)
                    found.setdefault(at_ridge, []).append(encoding.responses(piece))
        return {s: pieces for s, pieces in found.items() if len(pieces) == len(self.parts)}

    def _judged(self, settings: Settings, responses: list[NDArray]) -> tuple[NDArray, float]:
        rows = np.concatenate([part.held for part in self.parts])
        return self.goal.losses(np.concatenate(responses), rows, settings.transform)


def feature_map(settings: Settings, n_components: int, key: int, n_jobs: Any) -> FeatureMap:
    """The map of random features that stands for a kernel."""
    seed = int(key % 2**31)
    if settings.kernel == "laplacian":
        return RandomBinning(n_components=n_components, random_state=seed, n_jobs=n_jobs)
    return RandomFourier("gaussian", n_components=n_components, random_state=seed, n_jobs=n_jobs)


def rows_of(table: Any, rows: NDArray) -> Any:
    """Some rows of a frame, an array or a CSR matrix."""
    if hasattr(table, "iloc"):
        return table.iloc[rows]
    return table[rows]


def _splits(goal: Numbers | Classes, key: int, n: int) -> list[tuple[NDArray, NDArray]]:
    """Rows to fit and rows to hold out: one part of many rows, or each fifth of few in turn.

    Rows come in random order, classes mixed evenly, so that the first of them are a fair sample.
    """
    order = np.argsort(Streams(key, np.arange(n)).uniform(1, Slot.VALIDATION)[:, 0])
    strata = goal.strata()
    if strata is not None:  # row i of a class of c rows stands at (i + 1/2) / c of the whole
        labels = strata[order]
        by_class = np.argsort(labels, kind="stable")
        counts = np.bincount(labels)
        first = np.repeat(np.cumsum(counts) - counts, counts)
        place = (np.arange(n) - first + 0.5) / counts[labels[by_class]]
        order = order[by_class[np.argsort(place, kind="stable")]]
    if n <= _FEW_ROWS:
        folds = np.arange(n) % min(_FOLDS, n)
        return [(order[folds != f], order[folds == f]) for f in range(min(_FOLDS, n))]
    n_held = min(_HELD_ROWS, n // 4)
    return [(order[n_held : n_held + _FEATURE_ROWS], order[:n_held])]


def _promising(
    losses: dict[Settings, Record], groups: list[Settings], most: dict[str, int], near: float
) -> list[Settings]:
    """The best groups of each kernel, the best first; the Gaussian only if it is near the best.

    Few rows favour smooth kernels, so the Laplacian is not given up early.
    """
    ranked = sorted(groups, key=lambda group: _worth(losses[group]))
    enough = near * _worth(losses[ranked[0]]) if ranked else 0.0
    kept: list[Settings] = []
    for kernel, count in most.items():
        own = [group for group in ranked if group.kernel == kernel]
        if own and (kernel == "laplacian" or _worth(losses[own[0]]) <= enough):
            kept += own[:count]
    return sorted(kept, key=lambda group: _worth(losses[group]))


def _worth(record: Record) -> float:
    """The loss with the handicaps of transformed targets and of smooth kernels.

    The latter gain less from rows still to come.
    """
    settings = record.settings
    handicap = _MARGIN * (settings.transform != "identity")
    return record.loss * (1 + handicap + _SMOOTH_MARGIN * (settings.kernel == "gaussian"))


def _fanciness(settings: Settings) -> int:
    """How far settings are from what serves most tables."""
    return (settings.kernel == "gaussian") + (settings.transform != "identity")


def _short(X: Any) -> Any:
    """Rows in float32, and dense unless they are long."""
    if hasattr(X, "toarray") and X.shape[1] <= _MOST_INPUTS:
        X = X.toarray()
    return X.astype(np.float32)
