"""Exact kernel machines on few rows, many of them together: what trials are made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer import _core, kernels
from mercer._runtime.threads import flushed_denormals
from mercer.designs.kernel_rows import times
from mercer.equations.small_ridge import LEAST_SINGLE, refined_kernel_ridge

__all__ = ["Machine", "exact_responses"]

_TOL = 2e-4  # relative residual of a machine that serves to be judged
_ACCURATE = 1e-3  # the same above which a machine is solved once more, by itself
_ROOT = {"laplacian": 1.0, "exponential": 1.0, "gaussian": 0.5}  # of gamma, by which it scales rows
_TOGETHER = 2**23  # numbers that the rows of machines solved together hold, at most: 32 MB


@dataclass(frozen=True)
class Machine:
    """An exact kernel machine: rows to fit, and rows to predict."""

    gamma: float
    fitted: Any  # (m, d), an array or CSR of float32
    held: Any  # (h, d)
    target: NDArray[np.float64]  # (m, k)
    weights: NDArray[np.float64] | None = None  # (m,), by which ridges are divided


def exact_responses(
    kernel: str, machines: Iterable[Machine], ridges: Sequence[float], threads: int
) -> Iterator[list[NDArray[np.float64] | None]]:
    """Responses of every machine to its held rows, (h, k) for every ridge; None without a factor.

    Machines have the same number k of targets and a "laplacian" or "gaussian" kernel. The core
    solves ``threads`` of them together, one per thread, and drops them before the next ones;
    threads change no bit.
    """
    for batch in _batches(machines):
        is_dense = not any(sparse.issparse(machine.fitted) for machine in batch)
        if is_dense and min(ridges) >= LEAST_SINGLE * max(map(_most_weight, batch)):
            found = _in_core(kernel, batch, ridges, threads)
        else:
            found = [[None] * len(ridges) for _ in batch]
        for machine, responses in zip(batch, found, strict=True):
            yield _completed(kernel, machine, ridges, responses)


def _most_weight(machine: Machine) -> float:
    return 1.0 if machine.weights is None else float(machine.weights.max())


def _batches(machines: Iterable[Machine]) -> Iterator[list[Machine]]:
    """Machines whose rows may be held together."""
    batch: list[Machine] = []
    size = 0
    for machine in machines:
        of_machine = (machine.fitted.shape[0] + machine.held.shape[0]) * machine.fitted.shape[1]
        if batch and size + of_machine > _TOGETHER:
            yield batch
            batch, size = [], 0
        batch.append(machine)
        size += of_machine
    if batch:
        yield batch


def _in_core(
    kernel: str, machines: Sequence[Machine], ridges: Sequence[float], threads: int
) -> list[list[NDArray[np.float64] | None]]:
    """Responses by factors in float32, refined; None where float32 is too short."""
    # From the middle one on: its factor also serves for ridges that are near.
    from_middle = np.argsort(np.abs(np.log(ridges) - np.log(ridges).mean()), kind="stable")
    factors = [machine.gamma ** _ROOT[kernel] for machine in machines]
    fitted = _stacked([machine.fitted for machine in machines], factors)
    held = _stacked([machine.held for machine in machines], factors)
    target = np.concatenate([machine.target for machine in machines])
    starts = np.cumsum([0, *(machine.fitted.shape[0] for machine in machines)])
    ends = np.cumsum([machine.held.shape[0] for machine in machines])
    given = [machine.weights for machine in machines if machine.weights is not None]
    weights = np.concatenate(given) if given else None  # all machines have some, or none
    order, scale = np.arange(len(fitted)), np.ones(fitted.shape[1])
    q, k, n = len(ridges), target.shape[1], len(machines)
    coef, constants, residual = np.empty((q, len(order), k)), np.empty((q, n, k)), np.empty((q, n))
    strengths = np.array(ridges, dtype=np.float64)[from_middle]
    with flushed_denormals():
        _core.solve_leaves(
            *(fitted, order, starts, kernel, 1.0, scale, target, weights),
            *(strengths, False, _TOL, coef, constants, residual, threads),
        )
    # All ridges share the kernels of the held rows.
    beside = np.ascontiguousarray(np.moveaxis(coef, 0, 1).reshape(len(order), q * k))
    of_rows = np.repeat(np.arange(n), np.diff(ends, prepend=0))
    sums = np.zeros((len(held), q * k))
    small = _core.predict_leaves(
        *(held, np.arange(len(held)), of_rows, np.ones(len(held)), fitted, order, starts),
        *(kernel, 1.0, scale, beside, np.zeros((n, q * k)), sums, threads),
    )
    in_turn = np.argsort(from_middle)
    serves = (residual[in_turn] <= _ACCURATE) & small
    of_ridges = np.moveaxis(sums.reshape(len(held), q, k), 1, 0)[in_turn]
    return [
        [responses if fits else None for responses, fits in zip(piece, served, strict=True)]
        for piece, served in zip(np.split(of_ridges, ends[:-1], axis=1), serves.T, strict=True)
    ]


def _stacked(rows: Sequence[NDArray], factors: Sequence[float]) -> NDArray[np.float32]:
    """Rows of all machines below each other, scaled to gamma 1; absent columns become zeros."""
    ends = np.cumsum([len(own) for own in rows])
    stack = np.zeros((ends[-1], max(own.shape[1] for own in rows)), dtype=np.float32)
    for own, end, factor in zip(rows, ends, factors, strict=True):
        own_place = stack[end - len(own) : end, : own.shape[1]]
        np.multiply(own, np.float32(factor), out=own_place)
    return stack


def _completed(
    kernel: str,
    machine: Machine,
    ridges: Sequence[float],
    responses: list[NDArray[np.float64] | None],
) -> list[NDArray[np.float64] | None]:
    """Responses for all ridges that the matrix has a factor for, those at hand among them."""
    if all(at_ridge is not None for at_ridge in responses):
        return responses
    of_rows = kernels.get(kernel, machine.gamma)
    matrix, target, roots = of_rows(machine.fitted), machine.target, None
    if machine.weights is not None:  # by their roots s: (s K s + ridge I) b = s y, and a = s b
        roots = np.sqrt(machine.weights)[:, None]
        matrix, target = (roots * matrix * roots.T).astype(matrix.dtype), roots * target
    coefs = [
        refined_kernel_ridge(matrix, target, ridge) if at_ridge is None else None
        for ridge, at_ridge in zip(ridges, responses, strict=True)
    ]
    del matrix  # its memory is free for the kernel of the held rows
    across = of_rows(machine.held, machine.fitted)
    return [
        at_ridge if coef is None else times(across, coef if roots is None else roots * coef)
        for at_ridge, coef in zip(responses, coefs, strict=True)
    ]
