"""Local kernel machines fitted over many machines: the ordinary models, whose leaves are tasks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from sklearn.base import is_regressor
from sklearn.utils.validation import check_array, validate_data

from mercer._runtime.rows import PreparedRows
from mercer._runtime.sparse import canonical_csr
from mercer.distributed.tables import FarTable, targets_of
from mercer.distributed.targets import less_offset
from mercer.engines.engine import Engine
from mercer.engines.memory import WorkerStore
from mercer.engines.shards import Shard, gathered
from mercer.estimators.inputs import float_types
from mercer.estimators.local import LocalKernelMachine
from mercer.solvers.forest import ForestProgress

__all__ = ["fit_local_machine"]

Callback = Callable[[ForestProgress], bool]


def fit_local_machine(
    model: LocalKernelMachine, engine: Engine, callback: Callback | None = None
) -> LocalKernelMachine:
    """Fit a local kernel machine in place to the shards of an engine, and return it.

    ``callback`` is called after every few nodes of a tree with the leaves solved so far; True stops
    the fit. The fitted model holds the rows: in memory or, without room, in files that are deleted
    with the model. A ValueError, TypeError or MemoryError as of the model, and for sparse rows.
    """
    model._begin_fit()
    table = FarTable.of(engine)
    target, weights, offset = targets_of(model, engine)
    dtype = np.result_type(*gathered(engine, _float_type))
    how = dtype, table.shape[1], is_regressor(model)
    with closing(engine.changed(_as_numbers, *how)) as numbers:
        checked = FarTable(numbers, table.sizes, np.empty((1, table.shape[1]), dtype), None)
        checked.callback = callback
        model.fit(PreparedRows(checked), target, weights, offset)
    validate_data(model, table.example, reset=True, skip_check_array=True)  # names of the columns
    return model


# -- on workers ------------------------------------------------------------------------------------


def _float_type(shard: Shard) -> np.dtype:
    """Float type for the rows of a shard; the shorter one for shards without rows."""
    if not len(shard):
        return np.dtype(np.float32)
    return _checked(shard.X).dtype


def _checked(X: Any) -> NDArray:
    X = canonical_csr(X)
    checked: NDArray = check_array(X, dtype=float_types(X), input_name="X")
    return checked


def _as_numbers(
    memory: WorkerStore,
    number: int,
    shard: Shard,
    dtype: DTypeLike,
    n_inputs: int,
    are_numbers: bool,
) -> Shard:
    if are_numbers:
        shard = less_offset(memory, number, shard)
    X = _checked(shard.X) if len(shard) else np.empty((0, n_inputs))
    return Shard(np.ascontiguousarray(X, dtype=dtype), shard.target, shard.weights)
