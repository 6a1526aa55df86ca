"""Automatic models over many machines: the search that one machine makes, on the same rows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any

import numpy as np
from sklearn.base import is_regressor

from mercer._runtime.arrays import check_memory
from mercer.auto.base import AutoKernelMachine
from mercer.auto.course import is_few
from mercer.auto.tuning import TUNING
from mercer.distributed.tables import FarTable, targets_of
from mercer.distributed.targets import less_offset
from mercer.engines.engine import Engine

__all__ = ["fit_automatic"]


def fit_automatic(
    model: AutoKernelMachine, engine: Engine, callback: Callable[[Any], bool] | None = None
) -> AutoKernelMachine:
    """Fit an automatic model in place to the shards of an engine, and return it.

    Targets, weights and offsets come here, and of the table the rows that the search looks at,
    about a hundred thousand: it ends with the settings of one machine. Leaves of the model of all
    rows and stages of landmarks are solved on the workers; the exact machine of few rows is fitted
    here.
    ``callback`` is called after every few nodes of the trees of the last fit; True stops it.

    A ValueError, TypeError or MemoryError as of the model, for sparse rows, and for more than 2000
    columns.
    """
    table = FarTable.of(engine)
    n, n_inputs = table.shape
    if n_inputs > TUNING.most_dense:
        raise ValueError(
            f"X must have at most {TUNING.most_dense} columns over many machines; got {n_inputs}, "
            f"which mercer.{type(model).__name__} takes on one."
        )
    check_memory(16.0 * n, f"the targets of {n} rows", "fit to fewer rows")
    target, weights, offset = targets_of(model, engine)
    beside = {}
    with ExitStack() as stack:
        if offset is not None:
            beside = {"offset": offset}
            if is_regressor(model):
                shifted = stack.enter_context(closing(engine.changed(less_offset)))
                table = FarTable(shifted, table.sizes, table.example)
        table.callback = callback
        counted = n if weights is None else int(np.count_nonzero(weights))
        X = table[np.arange(n)] if is_few(counted) else table
        return model.fit(X, target, weights, **beside)
