"""Settings fitted to some of the rows and judged on others, many of them together."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mercer._array import n_threads
from mercer.auto.goals import Classes, Encoding, Numbers
from mercer.auto.leading import Outcome, Record, Stage
from mercer.auto.machines import Machine, exact_responses
from mercer.auto.parts import LeafPart, Part
from mercer.auto.scoring import Judge
from mercer.auto.trials import Settings, feature_responses, feature_tol
from mercer.maps import FeatureMap

__all__ = ["Bench"]


class _Targets:
    """Targets of some rows in all their encodings, also beside each other: (m, k) for all k."""

    def __init__(self, encodings: list[Encoding], weights: NDArray | None):
        self.encodings, self.weights = encodings, weights
        self.beside = np.column_stack([encoding.target for encoding in encodings])


class Bench:
    """Parts of the rows of a table, on which settings are tried.

    Parameters
    ----------
    parts : sequence of Part or LeafPart
        Rows to fit and rows to hold out, in one or several ways.
    goal : Numbers or Classes
    judge : Judge
        Of responses to the rows held out.
    n_jobs : int or None
    """

    parts: Sequence[Part | LeafPart]
    _n_rows: int  # that the final model is fitted to, or a leaf of it

    def __init__(
        self,
        parts: Sequence[Part | LeafPart],
        goal: Numbers | Classes,
        judge: Judge,
        n_jobs: int | None,
    ):
        self.parts, self.goal, self.judge, self.n_jobs = parts, goal, judge, n_jobs
        self._stage = Stage("", 0, False)
        self._held = np.concatenate([part.held for part in self.parts])
        self._answered: NDArray | None = None  # which of these every response of the parts is to

    @property
    def n_fitted(self) -> int:
        """Most rows that can be fitted to."""
        return min(len(part.fitted) for part in self.parts)

    def _judge_by(self, parts: Sequence[LeafPart]) -> None:
        """Try settings on leaves from now on."""
        self.parts, self._n_rows = parts, max(len(part.fitted) for part in parts)
        held = np.concatenate([part.held for part in parts])
        self._held, self._answered = np.unique(held, return_inverse=True)

    def _tried(
        self,
        n_rows: int,
        group: Settings,
        ridges: Sequence[float],
        map_: FeatureMap | None = None,
    ) -> list[Outcome]:
        """Outcomes of the settings of one gamma; nothing of the search is changed."""
        if map_ is None:
            return self._tried_together(n_rows, [group], ridges, n_threads(self.n_jobs))[0]
        start = time.perf_counter()
        targets = self._targets(n_rows)
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
        return self._outcomes(n_rows, group, ridges, targets, pieces, seconds)

    def _tried_together(
        self, n_rows: int, groups: Sequence[Settings], ridges: Sequence[float], threads: int
    ) -> list[list[Outcome]]:
        """Outcomes of the exact machines of some groups of one kernel; nothing is changed."""
        for group in groups:  # what trials share is not in the time of each
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
            self._outcomes(n_rows, group, ridges, targets, found[i * n : (i + 1) * n], seconds)
            for i, group in enumerate(groups)
        ]

    def _outcomes(
        self,
        n_rows: int,
        group: Settings,
        ridges: Sequence[float],
        targets: Sequence[_Targets],  # of every part
        pieces: Sequence[Sequence[NDArray | None]],  # responses of every part for every ridge
        seconds: float,  # for a ridge
    ) -> list[Outcome]:
        """How good responses are, for every ridge that all parts have some for."""
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
                joined = self._per_row(np.concatenate(answers))
                settings = replace(group, ridge=float(ridge), transform=encoding.transform)
                verdict = self.judge(joined, self._held, settings.transform)
                record = Record(
                    *(self._stage.name, n_rows, settings, verdict.loss, verdict.error),
                    *(seconds / len(encodings), verdict.score),
                )
                outcomes.append(Outcome(record, joined, verdict.losses))
        return outcomes

    def _targets(self, n_rows: int) -> list[_Targets]:
        """Targets of the first rows to fit, for every part."""
        rows = [part.fitted[:n_rows] for part in self.parts]
        goal = self.goal
        return [_Targets(list(goal.encodings(own)), goal.weights_of(own)) for own in rows]

    def _per_row(self, responses: NDArray) -> NDArray:
        """The mean response to every held-out row, of which leaves may have answered several."""
        if self._answered is None:
            return responses
        sums = np.zeros((len(self._held), responses.shape[1]))
        np.add.at(sums, self._answered, responses)
        return sums / np.bincount(self._answered)[:, None]
