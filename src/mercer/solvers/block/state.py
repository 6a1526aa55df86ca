"""The state of block coordinate descent, and what a checkpoint keeps of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.device_arrays import on_host
from mercer.equations import BlockSolves, Equations
from mercer.solvers.base import State, TraceRow, add_rows
from mercer.solvers.block.checkpoint import Checkpoint
from mercer.solvers.block.subspace import Subspace

__all__ = ["BlockState"]

# Arrays and numbers of the state in a checkpoint, beside the arrays of the equations.
_ARRAYS = ("index", "relative", "n_iter", "squares")
_FACTS = ("key", "block_size", "iteration", "position", "n_blocks", "rank", "estimated")


@dataclass(kw_only=True)
class BlockState(State):
    """The state of block coordinate descent, for all strengths at once."""

    system: Equations
    alphas: NDArray[np.float64]  # all strengths, solved or not
    key: int
    block_size: int
    rank: int  # number of functions that are combined with the last epochs
    blocks: list[NDArray]
    index: NDArray[np.int64]  # numbers of the strengths at work
    relative: NDArray[np.float64]  # residual of every strength, the largest over its outputs
    n_iter: NDArray[np.int64]
    traces: list[list[TraceRow]]
    solves: BlockSolves
    subspace: Subspace | None
    checkpoint: Checkpoint | None = None
    finished: dict[int, NDArray] = field(default_factory=dict)
    squares: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    cached: bool = False  # whether all blocks are in memory from the first epoch on
    position: int = 0  # blocks done in this epoch
    n_blocks: int = 0  # over all epochs
    estimated: bool = True  # whether ``relative`` is a norm of block-wise residuals, not that at x

    @property
    def coefs(self) -> list[NDArray]:
        """θ of every strength."""
        places = {int(number): place for place, number in enumerate(self.index)}
        return [
            on_host(self.system.theta(self.system.x, places[number]))
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
        seconds = self.clock.seconds
        with self.clock.pause():
            self.optimality = float(self.relative.max())
            values, relative = self.system.values().sum(axis=1), self.relative[self.index]
            x = (self.system.x[:, self.system.of(place)] for place in range(len(self.index)))
            add_rows(self, self.traces, seconds, self.index, values, relative, x)

    def keep(self, places: NDArray) -> None:
        """Keep the active strengths at these indices."""
        width = self.system.width
        columns = (places[:, None] * width + np.arange(width)).ravel()
        self.system.keep(places)
        self.index = self.index[places]
        self.solves.forget(self.index)
        if len(self.squares):
            self.squares = self.squares[columns]

    def save(self) -> None:
        """Write the state to the checkpoint, if there is one."""
        if self.checkpoint is None:
            return
        facts = {name: getattr(self, name) for name in _FACTS}
        facts["seconds"], facts["phases"] = self.clock.seconds, dict(self.clock.phases)
        with self.clock.pause():
            facts["traces"] = [[asdict(row) for row in trace] for trace in self.traces]
            self.checkpoint.save(self._arrays(), facts)

    def restore(self, arrays: dict[str, NDArray], facts: dict[str, Any]) -> None:
        """Go where ``save`` was; an error of any kind means that it has not written this."""
        self.keep(_increasing(arrays["own.index"], len(self.alphas)))
        self._check(arrays)
        groups: dict[str, dict[str, NDArray]] = {}
        for name, array in arrays.items():
            owner, rest = name.split(".", 1)
            groups.setdefault(owner, {})[rest] = array
        for name in _ARRAYS:
            setattr(self, name, groups["own"][name])
        self.finished = {int(k): theta for k, theta in groups.get("finished", {}).items()}
        self.system.restore(groups["system"])
        if self.subspace is not None:
            self.subspace.restore(groups["past"])
        for name in _FACTS:
            if type(facts[name]) is not type(getattr(self, name)) or facts[name] < 0:
                kind = type(getattr(self, name)).__name__
                raise ValueError(f"checkpoint: {name} must be {kind} >= 0; got {facts[name]!r}.")
            setattr(self, name, facts[name])
        self.traces = [[TraceRow(**row) for row in trace] for trace in facts["traces"]]
        if len(self.traces) != len(self.alphas):
            raise ValueError("there must be a trace for every strength")
        phases = {name: float(seconds) for name, seconds in facts["phases"].items()}
        self.clock.go_on(float(facts["seconds"]), phases)

    def _arrays(self) -> dict[str, NDArray]:
        """All arrays that later steps depend on, by name."""
        past = {} if self.subspace is None else self.subspace.arrays()
        return {
            **{f"system.{name}": array for name, array in self.system.saved().items()},
            **{f"past.{name}": array for name, array in past.items()},
            **{f"finished.{number}": theta for number, theta in self.finished.items()},
            **{f"own.{name}": getattr(self, name) for name in _ARRAYS},
        }

    def _check(self, arrays: dict[str, NDArray]) -> None:
        """Raise for arrays of another fit, or of other active strengths."""
        changes = self.system.state
        n_past = 0
        if self.subspace is not None:
            n_past = sum(name.startswith("past.") for name in arrays) // len(changes)
            if not 0 < n_past <= self.subspace.depth + 1:
                raise ValueError("the past must be that of some epochs")
        theta = np.empty(self.problem.shape, dtype=self.problem.dtype)
        gone = set(range(len(self.alphas))) - set(self.index.tolist())
        expected = {
            **self._arrays(),
            "own.squares": np.empty(self.system.shape[1]),
            **{f"past.{k}.{name}": like for k in range(n_past) for name, like in changes.items()},
            **{f"finished.{number}": theta for number in gone},
        }
        forms, wanted = ({k: (a.shape, a.dtype) for k, a in d.items()} for d in (arrays, expected))
        if forms != wanted:
            raise ValueError("arrays must have the names, shapes and dtypes of the fit's own")


def _increasing(index: NDArray, n: int) -> NDArray[np.int64]:
    """``index`` if it is increasing numbers below n."""
    index = np.asarray(index)
    steps = np.diff(index, prepend=-1, append=n)
    if index.dtype != np.int64 or index.ndim != 1 or np.any(steps < 1):
        raise ValueError("index must be increasing numbers")
    return index
