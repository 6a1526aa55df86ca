"""A block of columns on machines that are not there: one that was measured, and a network."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, log2

import numpy as np

from mercer._runtime.validation import positive_integer
from mercer.diagnostics import epoch_cost

__all__ = ["WORD", "Link", "SimulatedBlock", "broadcast_words", "simulate_block"]

WORD = 8  # bytes of a number in double precision, in which the cost model counts


@dataclass(frozen=True)
class Link:
    """What it takes to send from one machine to the next, and to give one more its task.

    Parameters
    ----------
    name : str
    latency : float
        Seconds that a transfer takes besides its bytes, >= 0.
    bandwidth : float
        Bytes a second, > 0; may be infinite.
    dispatch : float, default=0.0
        Seconds by which the task of one more machine holds the others up, >= 0: a scheduler hands
        out tasks one after the other.

    Raises
    ------
    ValueError
        If a number is out of its range.

    Examples
    --------
    >>> Link("10 Gb/s", latency=1e-4, bandwidth=1.25e9).seconds(1.25e9)
    1.0001
    """

    name: str
    latency: float
    bandwidth: float
    dispatch: float = 0.0

    def __post_init__(self) -> None:
        for value, name in ((self.latency, "latency"), (self.dispatch, "dispatch")):
            if not 0 <= value < np.inf:
                raise ValueError(f"{name} must be at least 0 and finite; got {value!r}.")
        if not self.bandwidth > 0:
            raise ValueError(f"bandwidth must be above 0; got {self.bandwidth!r}.")

    def seconds(self, sent: float) -> float:
        """Of one transfer of so many bytes."""
        return self.latency + sent / self.bandwidth


@dataclass(frozen=True)
class SimulatedBlock:
    """The time of one block on a number of machines, by its parts.

    Parameters
    ----------
    machines : int
    measured : float
        Seconds on one machine, all told; the other parts come on top.
    broadcast : float
        Seconds until the last machine has the rows of the block.
    dispatch : float
        Seconds until the last machine has its task.
    sent : float
        Bytes that the cost model counts: those of one path from the root to a leaf.

    Attributes
    ----------
    seconds : float
    """

    machines: int
    measured: float
    broadcast: float
    dispatch: float
    sent: float

    @property
    def seconds(self) -> float:
        return self.measured + self.broadcast + self.dispatch


def broadcast_words(machines: int, rows: int, inputs: int, block_size: int) -> float:
    """Numbers that the cost model has for sending the rows of one block to all machines.

    ``block_size * inputs * log2(machines)``, from :func:`mercer.diagnostics.epoch_cost` of the full
    kernel.

    Parameters
    ----------
    machines : int
    rows : int
        Of each machine; at least ``block_size`` in all.
    inputs, block_size : int

    Examples
    --------
    >>> broadcast_words(8, rows=16384, inputs=440, block_size=6144) / (6144 * 440)
    3.0
    """
    n = rows * machines
    size = {"block_size": block_size, "n_inputs": inputs, "n_machines": machines}
    cost = epoch_cost("exact", n, extended=True, **size)
    return cost.words["data"] * block_size / n


def simulate_block(
    measured: float,
    machines: Iterable[int],
    link: Link,
    *,
    rows: int,
    inputs: int,
    block_size: int,
) -> list[SimulatedBlock]:
    """Seconds of one block of a kernel matrix when every machine brings as many rows of its own.

    One machine takes what was measured. M of them do the same work side by side; before that the
    rows of the block go to all along a tree, in ``ceil(log2 M)`` rounds of one transfer each, of
    which the cost model counts ``log2 M`` times the bytes; and M tasks are handed out in turn.
    Machines are equally fast, and none waits for a link that another one uses.

    Parameters
    ----------
    measured : float
        Seconds of one block on one machine, > 0.
    machines : iterable of int
    link : Link
    rows : int
        Of each machine.
    inputs, block_size : int

    Returns
    -------
    list of SimulatedBlock

    Raises
    ------
    TypeError, ValueError
        If a number is out of its range.

    References
    ----------
    Tu, Roelofs, Venkataraman and Recht, Large scale kernel learning using block coordinate descent,
    2016, section 5.5 and table 1.

    Examples
    --------
    >>> link = Link("10 Gb/s", latency=1e-4, bandwidth=1.25e9)
    >>> size = {"rows": 16384, "inputs": 4096, "block_size": 6144}
    >>> [round(one.seconds, 2) for one in simulate_block(20.0, [1, 8, 128], link, **size)]
    [20.0, 20.48, 21.13]
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
