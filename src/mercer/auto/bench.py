"""Settings fitted to some of the rows and judged on others, many of them together."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mercer.auto.goals import Classes, Encoding, Numbers
from mercer.auto.landmarks import Landmarks
from mercer.auto.leading import Outcome, Record
from mercer.auto.machines import Machine, exact_responses
from mercer.auto.parts import LeafSplit, Split
from mercer.auto.scoring import Judge
from mercer.auto.trials import (
    Settings,
    feature_map,
    feature_responses,
    feature_tol,
    machine_responses,
)
from mercer.auto.tuning import TUNING

__all__ = ["Evaluator"]


class _Targets:
    """Targets of some rows in all their encodings, also beside each other: (m, k) for all k."""

    def __init__(self, encodings: list[Encoding], weights: NDArray | None):
        self.encodings, self.weights = encodings, weights
        self.beside = np.column_stack([encoding.target for encoding in encodings])


@dataclass(frozen=True)
class Evaluator:
    """Parts of the rows of a table, on which settings are fitted and judged."""

    goal: Numbers | Classes
    judge: Judge
    parts: Sequence[Split | LeafSplit]  # rows to fit and rows to hold out, in one or several ways
    n_rows: int  # fitted by the final model, or by a leaf of it
    held: NDArray  # (h,) rows held out, each once
    # of each held-out row of the parts in held; None if parts hold out other rows
    places: NDArray | None
    most_fitted: int  # most rows that a trial can fit

    @classmethod
    def of_rows(
        cls, goal: Numbers | Classes, judge: Judge, parts: Sequence[Split], n_rows: int
    ) -> Evaluator:
        """Bench on parts that hold out different rows of a table."""
        held = np.concatenate([part.held for part in parts])
        return cls(goal, judge, parts, n_rows, held, None, min(len(part.fitted) for part in parts))

    @property
    def leaves(self) -> list[LeafSplit]:
        """The parts that are leaves."""
        return [part for part in self.parts if isinstance(part, LeafSplit)]

    def on_leaves(self, parts: Sequence[LeafSplit]) -> Evaluator:
        """Bench on leaves, which may share held-out rows."""
        held, places = np.unique(np.concatenate([part.held for part in parts]), return_inverse=True)
        most = max(len(part.fitted) for part in parts)
        return Evaluator(self.goal, self.judge, parts, most, held, places, most)

    def of_features(
        self,
        stage: str,
        group: Settings,
        ridges: Sequence[float],
        form: int | Landmarks,
        key: int,
        n_jobs: int | None,
    ) -> list[Outcome]:
        """Outcomes of features with settings of one gamma, for every ridge, on all rows to fit."""
        for part in self.parts:
            part.prepare(group)
        start, n_rows = time.perf_counter(), self.most_fitted
        targets, map_ = self._targets(n_rows), feature_map(group, form, key, n_jobs)
        tol = TUNING.landmark_tol
        if isinstance(form, int):
            tol = feature_tol(group, self.goal.kind)
        pieces = [
            list(
                feature_responses(
                    map_, *part.scaled(group, n_rows), target.beside, ridges, tol, target.weights
                )
            )
            for part, target in zip(self.parts, targets, strict=True)
        ]
        seconds = (time.perf_counter() - start) / len(ridges)
        return self._outcomes(stage, n_rows, group, ridges, targets, pieces, seconds)

    def of_paths(
        self,
        stage: str,
        group: Settings,
        ridges: Sequence[float],
        tol: float,
        n_jobs: int | None,
    ) -> list[Outcome]:
        """Outcomes of exact machines of one gamma on all rows to fit; ridges share products."""
        for part in self.parts:
            part.prepare(group)
        start, n_rows = time.perf_counter(), self.most_fitted
        targets = self._targets(n_rows, group.transform)
        pieces = [
            machine_responses(
                *(group, *part.scaled(group, n_rows), target.beside, ridges, tol),
                *(target.weights, n_jobs),
            )
            for part, target in zip(self.parts, targets, strict=True)
        ]
        seconds = (time.perf_counter() - start) / len(ridges)
        return self._outcomes(stage, n_rows, group, ridges, targets, pieces, seconds)

    def of_machines(
        self,
        stage: str,
        n_rows: int,
        groups: Sequence[Settings],
        ridges: Sequence[float],
        threads: int,
    ) -> list[list[Outcome]]:
        """Outcomes of exact machines, for every group of settings of one kernel and every ridge."""
        for group in groups:  # work that trials share is not in the time of each
            for part in self.parts:
                part.prepare(group)
        start = time.perf_counter()
        targets = self._targets(n_rows)
        machines = (
            Machine(group.gamma, *part.scaled(group, n_rows), target.beside, target.weights)
            for group in groups
            for part, target in zip(self.parts, targets, strict=True)
        )
        threads = min(threads, len(groups) * len(self.parts))
        found = list(exact_responses(groups[0].kernel, machines, ridges, threads))
        seconds = (time.perf_counter() - start) * threads / (len(groups) * len(ridges))
        n = len(self.parts)
        return [
            self._outcomes(
                stage, n_rows, group, ridges, targets, found[i * n : (i + 1) * n], seconds
            )
            for i, group in enumerate(groups)
        ]

    def _outcomes(
        self,
        stage: str,
        n_rows: int,
        group: Settings,
        ridges: Sequence[float],
        targets: Sequence[_Targets],  # of every part
        pieces: Sequence[Sequence[NDArray | None]],  # responses of every part for every ridge
        seconds: float,  # for a ridge
    ) -> list[Outcome]:
        """Losses of responses, for every ridge at which all parts have some."""
        outcomes = []
        encodings = targets[0].encodings
        for ridge, of_ridge in zip(ridges, zip(*pieces, strict=True), strict=True):
            answered = [piece for piece in of_ridge if piece is not None]
            if len(answered) < len(targets):
                continue
            for place, encoding in enumerate(encodings):
                answers = [
                    target.encodings[place].responses(
                        np.split(piece, len(encodings), axis=1)[place]
                    )
                    for piece, target in zip(answered, targets, strict=True)
                ]
                joined = self.per_row(np.concatenate(answers))
                settings = replace(group, ridge=float(ridge), transform=encoding.transform)
                verdict = self.judge(joined, self.held, settings.transform)
                record = Record(
                    *(stage, n_rows, settings, verdict.loss, verdict.error),
                    *(seconds / len(encodings), verdict.score),
                )
                outcomes.append(Outcome(record, joined, verdict.losses))
        return outcomes

    def _targets(self, n_rows: int, transform: str | None = None) -> list[_Targets]:
        """Targets of the first rows to fit, for every part; under one transform if it is given."""
        goal, targets = self.goal, []
        for own in (part.fitted[:n_rows] for part in self.parts):
            kinds = [e for e in goal.encodings(own) if transform in (None, e.transform)]
            targets.append(_Targets(kinds, goal.weights_of(own)))
        return targets

    def per_row(self, responses: NDArray) -> NDArray:
        """Mean response to every row held out, as several leaves may answer for one."""
        if self.places is None:
            return responses
        sums = np.zeros((len(self.held), responses.shape[1]))
        np.add.at(sums, self.places, responses)
        return sums / np.bincount(self.places)[:, None]
