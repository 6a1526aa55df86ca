"""Traces and results of several strengths that are solved at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from mercer.solvers.base import Result, State, TraceRow, check_range

__all__ = ["add_rows", "results_of"]


def add_rows(
    state: State,
    traces: list[list[TraceRow]],
    seconds: float,
    numbers: NDArray[np.int64],
    values: NDArray[np.float64],
    relative: NDArray[np.float64],
    unknowns: Iterable[NDArray],
) -> None:
    """Write a row into the trace of each of the numbered strengths, for that time."""
    check_range(state.problem, values)
    for number, value, residual, x in zip(numbers, values, relative, unknowns, strict=True):
        n_nonzero = int(np.count_nonzero(x))
        row = TraceRow(seconds, float(value), float(residual), n_nonzero, dict(state.clock.phases))
        traces[number].append(row)


def results_of(
    coefs: list[NDArray],
    n_iter: Sequence[int] | NDArray[np.int64],
    relative: NDArray[np.float64],
    tol: float,
    traces: list[list[TraceRow]],
    interrupted: bool,
) -> list[Result]:
    """One result for each strength; an interrupt concerns those that were not solved."""
    return [
        Result(
            coef,
            int(n_iter[number]),
            bool(relative[number] <= tol),
            float(relative[number]),
            traces[number],
            interrupted and bool(relative[number] > tol),
            "residual",
        )
        for number, coef in enumerate(coefs)
    ]
