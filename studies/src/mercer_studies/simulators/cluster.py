"""A block of columns on machines that are not there: one that was measured, and a network."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, log2

import numpy as np

from mercer._runtime.validation import positive_integer
from mercer_studies.costs import epoch_cost

WORD = 8  # bytes of a number in double precision, in which the cost model counts


@dataclass(frozen=True)
class Link:
    """Cost of a transfer between two machines, and of handing out one more task.

    ``dispatch``: seconds by which the task of one more machine holds the others up, >= 0: a
    scheduler hands out tasks one after the other.
    """

    name: str
    latency: float  # seconds that a transfer takes besides its bytes, >= 0
    bandwidth: float  # bytes a second, > 0; may be infinite
    dispatch: float = 0.0

    def __post_init__(self) -> None:
        for value, name in ((self.latency, "latency"), (self.dispatch, "dispatch")):
            if not 0 <= value < np.inf:
                raise ValueError(f"{name} must be at least 0 and finite; got {value!r}.")
        if not self.bandwidth > 0:
            raise ValueError(f"bandwidth must be above 0; got {self.bandwidth!r}.")

    def seconds(self, sent: float) -> float:
        """Seconds of one transfer."""
        return self.latency + sent / self.bandwidth


@dataclass(frozen=True)
class SimulatedBlock:
    """The time of one block on a number of machines, by its parts."""

    machines: int
    measured: float  # seconds on one machine, all told; the other parts come on top
    broadcast: float  # seconds until the last machine has the rows of the block
    dispatch: float  # seconds until the last machine has its task
    sent: float  # bytes that the cost model counts: those of one path from the root to a leaf

    @property
    def seconds(self) -> float:
        return self.measured + self.broadcast + self.dispatch


def broadcast_words(machines: int, rows: int, inputs: int, block_size: int) -> float:
    """Numbers that the cost model has for sending the rows of one block to all machines.

    ``block_size * inputs * log2(machines)``, from ``costs.epoch_cost`` of the full kernel.
    ``rows``: of each machine; at least ``block_size`` in all.
    """
    n = rows * machines
    size = {"block_size": block_size, "n_inputs": inputs, "n_machines": machines}
    cost = epoch_cost("exact", n, extended=True, **size)
    return cost.words["data"] * block_size / n


def simulate_block(
    measured: float, machines: Iterable[int], link: Link, *, rows: int, inputs: int, block_size: int
) -> list[SimulatedBlock]:
    """Seconds of one block of a kernel matrix when every machine brings as many rows of its own.

    One machine takes what was measured. M of them do the same work side by side; before that the
    rows of the block go to all along a tree, in ``ceil(log2 M)`` rounds of one transfer each, of
    which the cost model counts ``log2 M`` times the bytes; and M tasks are handed out in turn.
    Machines are equally fast, and none waits for a link that another one uses. ``measured``:
    seconds of one block on one machine, > 0; ``rows``: of each machine. Tu, Roelofs, Venkataraman
    and Recht, Large scale kernel learning using block coordinate descent, 2016, section 5.5 and
    table 1.
    """
    if not 0 < measured < np.inf:
        raise ValueError(f"measured must be above 0 and finite; got {measured!r}.")
    found = []
    for each in machines:
        count = positive_integer(each, "machines")
        sent = WORD * broadcast_words(count, rows, inputs, block_size)
        broadcast = ceil(log2(count)) * link.latency + sent / link.bandwidth
        dispatch = (count - 1) * link.dispatch
        found.append(SimulatedBlock(count, measured, broadcast, dispatch, sent))
    return found
