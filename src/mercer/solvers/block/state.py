"""Where block coordinate descent stands."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.problem import System
from mercer.solvers.base import State, TraceRow, check_range
from mercer.solvers.block.checkpoint import Checkpoint, rows_from_text, rows_to_text
from mercer.solvers.block.local import LocalSolves
from mercer.solvers.block.subspace import Subspace

__all__ = ["BlockState"]


@dataclass(kw_only=True)
class BlockState(State):
    """Where block coordinate descent stands, for all strengths at once.

    Attributes
    ----------
    alphas : ndarray of shape (q,)
        All strengths asked for.
    coefs : list of ndarray
        θ of every strength.
    relative : ndarray of shape (q,)
        Relative residual of every strength, the largest over its outputs.
    n_blocks : int
        Blocks done so far, over all epochs.
    position : int
        Blocks done in this epoch.
    """

    system: System
    alphas: NDArray[np.float64]
    key: int
    blocks: list[NDArray]
    index: NDArray[np.int64]  # numbers of the strengths at work
    relative: NDArray[np.float64]
    n_iter: NDArray[np.int64]
    traces: list[list[TraceRow]]
    local: LocalSolves
    subspace: Subspace | None
    checkpoint: Checkpoint | None = None
    finished: dict[int, NDArray] = field(default_factory=dict)
    squares: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    held: bool = False  # whether all blocks are in memory from the first epoch on
    position: int = 0
    n_blocks: int = 0
    estimated: bool = True  # whether ``relative`` is what blocks saw, not the residual at x

    @property
    def coefs(self) -> list[NDArray]:
        """θ of every strength."""
        places = {int(number): place for place, number in enumerate(self.index)}
        return [
            self.system.theta(self.system.x, places[number])
            if number in places
            else self.finished[number]
            for number in range(len(self.alphas))
        ]

    @property
    def coef(self) -> NDArray:
        """θ of the first strength."""
        return self.coefs[0]

    @property
    def objective(self) -> float:
        """F of the first strength when it was last looked at."""
        return self.traces[0][-1].objective

    def observe(self) -> None:
        """Write a row into the trace of every strength at work."""
        seconds, phases = self.clock.seconds, dict(self.clock.phases)
        with self.clock.pause():
            values = self.system.values().sum(axis=1)
            check_range(self.problem, values)
            self.optimality = float(self.relative.max())
            for place, number in enumerate(self.index):
                x = self.system.x[:, self.system.of(place)]
                row = TraceRow(
                    seconds,
                    float(values[place]),
                    float(self.relative[number]),
                    int(np.count_nonzero(x)),
                    dict(phases),
                )
                self.traces[number].append(row)

    def keep(self, places: NDArray) -> None:
        """Let all strengths go but those at these places among the ones at work."""
        width = self.system.width
        columns = (places[:, None] * width + np.arange(width)).ravel()
        self.system.keep(places)
        self.index = self.index[places]
        self.local.forget(self.index)
        if len(self.squares):
            self.squares = self.squares[columns]
        if self.subspace is not None:
            self.subspace.keep(columns)

    def save(self) -> None:
        """Write all of it to the checkpoint."""
        if self.checkpoint is None:
            return
        seconds, phases = self.clock.seconds, dict(self.clock.phases)
        with self.clock.pause():
            arrays = {f"system.{name}": array for name, array in self.system.state().items()}
            if self.subspace is not None:
                past = self.subspace.arrays()
                arrays.update({f"past.{name}": array for name, array in past.items()})
            for number, theta in self.finished.items():
                arrays[f"finished.{number}"] = theta
            for name in ("index", "relative", "n_iter", "squares"):
                arrays[f"own.{name}"] = getattr(self, name)
            facts = {
                name: getattr(self, name)
                for name in ("key", "iteration", "position", "n_blocks", "estimated")
            }
            facts["traces"] = rows_to_text(self.traces)
            facts["seconds"], facts["phases"] = seconds, phases
            self.checkpoint.save(arrays, facts)

    def restore(self, arrays: dict[str, NDArray], facts: dict[str, Any]) -> None:
        """Go on where ``save`` was."""
        groups: dict[str, dict[str, NDArray]] = {}
        for name, array in arrays.items():
            owner, rest = name.split(".", 1)
            groups.setdefault(owner, {})[rest] = array
        self.keep(groups["own"]["index"])
        for name, array in groups["own"].items():
            setattr(self, name, array)
        self.finished = {int(k): theta for k, theta in groups.get("finished", {}).items()}
        self.system.restore(groups["system"])
        if self.subspace is not None:
            self.subspace.restore(groups["past"])
        self.traces = rows_from_text(facts.pop("traces"))
        self.clock.go_on(facts.pop("seconds"), facts.pop("phases"))
        for name, value in facts.items():
            setattr(self, name, value)
