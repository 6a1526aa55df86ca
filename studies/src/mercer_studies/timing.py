"""Clocks of the studies: phases of a fit, repeated where it is quick, and its memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from mercer.compare import memory
from mercer.solvers import Result, TraceRow

RUNS, QUICK = 3, 10.0  # runs of a fit, fewer once they have taken so many seconds
MEMORY = "highest resident memory while fitting and predicting, above what was held before"


PHASES = ("generate", "gram", "reduce", "solve", "update")
"""Phases of a block step: make columns and their Gram matrix, sum over machines, solve, update."""


class Stopwatch:
    """Seconds of one phase after the other.

    >>> clock = Stopwatch()
    >>> clock.lap("solve")
    >>> list(clock.phases)
    ['solve']
    """

    def __init__(self) -> None:
        self.phases: dict[str, float] = {}
        self._since = time.perf_counter()

    def lap(self, name: str) -> None:
        """End the phase of this name; the next one begins."""
        now = time.perf_counter()
        self.phases[name] = now - self._since
        self._since = now


class Timed(Protocol):
    """Result of a run with the seconds of its phases."""

    seconds: dict[str, float]


Fit = TypeVar("Fit", bound=Timed)


@dataclass
class Repeated(Generic[Fit]):
    """The last of some equal fits, the median of every phase, and the memory of the first.

    ``seconds``: ``features`` and ``solve`` are None where the fit does not part them; ``fit`` is
    always there.
    """

    fit: Fit
    seconds: dict[str, float | None]
    runs: dict[str, list[float]]  # values behind the medians
    memory: dict[str, Any]


def repeated(run: Callable[[], Fit]) -> Repeated[Fit]:
    """Fit, and again while that is quick.

    ``run``: returns an object whose ``seconds`` has the phase ``fit``, or else ``features`` and,
    unless nothing is solved, ``solve``.

    >>> from types import SimpleNamespace
    >>> fit = lambda: SimpleNamespace(seconds={"features": 2.0, "solve": 1.0})
    >>> repeated(fit).seconds["fit"]
    3.0
    """
    with memory.PeakMemory() as peak:
        fit = run()
    laps = [fit.seconds]
    while len(laps) < RUNS and sum(sum(one.values()) for one in laps) < QUICK:
        fit = run()
        laps.append(fit.seconds)
    for one in laps:
        one["fit"] = one.get("fit") or one["features"] + one.get("solve", 0.0)
    runs = {name: [one[name] for one in laps] for name in laps[0]}
    seconds: dict[str, float | None] = {"features": None, "solve": None}
    seconds |= {name: float(np.median(values)) for name, values in runs.items()}
    return Repeated(fit, seconds, runs, {"added": peak.added, "peak": peak.peak, "kind": MEMORY})


def median(seconds: Sequence[float | None]) -> float | None:
    """The median of some times, of which None is longer than any; None if that is the median."""
    value = float(np.median([np.inf if one is None else one for one in seconds]))
    return value if np.isfinite(value) else None


def phase_times(result: Result | Sequence[TraceRow]) -> dict[str, NDArray[np.float64]]:
    """Seconds of every phase in every step that the trace has a row for.

    ``result``: of a solver with ``trace="block"`` for the phases of single blocks. Returns shape
    (rows - 1,): phases in the order in which they are done, and ``"other"``: what belongs to none
    of them.
    """
    trace: Sequence[Any] = result.trace if isinstance(result, Result) else list(result)
    if len(trace) < 2:
        raise ValueError(f"result must have a trace of two rows or more; got {len(trace)}.")
    known = {name for row in trace for name in row.phases}
    names = [name for name in PHASES if name in known]
    names += sorted(known.difference(names))
    found = {name: np.diff([row.phases.get(name, 0.0) for row in trace]) for name in names}
    spent = np.diff([row.time for row in trace])
    found["other"] = np.maximum(0.0, spent - sum(found.values(), np.zeros(len(spent))))
    return found
