"""Automatic models over many machines: the search that one machine makes, on the same rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer._runtime.arrays import check_memory
from mercer.auto.base import AutoKernelMachine
from mercer.auto.tuning import TUNING
from mercer.distributed.tables import FarTable, targets_of
from mercer.engines.engine import Engine

__all__ = ["fit_automatic"]


def fit_automatic(
    model: AutoKernelMachine, engine: Engine, callback: Callable[[Any], bool] | None = None
) -> AutoKernelMachine:
    """Fit an automatic model to the shards of an engine.

    Targets and weights come here, and of the table the rows that the search looks at, about a
    hundred thousand: it goes as it does on one machine and ends with the same settings, but for
    landmarks in place of leaves, which it does not try. Leaves of the model of all rows are solved
    where these are; the exact machine of few rows is fitted here.

    Parameters
    ----------
    model : AutoKernelRegressor or AutoKernelClassifier
    engine : Engine
    callback : callable, default=None
        Called after every few nodes of the trees of the last fit; True stops it.

    Returns
    -------
    model
        The same, fitted as an ordinary model of one machine.

    Raises
    ------
    ValueError, TypeError, MemoryError
        In one sentence, as the model does, for sparse rows, and for more than 2000 columns.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import AutoKernelRegressor
    >>> from mercer.distributed import Here, Shard
    >>> from mercer.distributed.automatic import fit_automatic
    >>> X = np.random.default_rng(0).normal(size=(300, 4))
    >>> engine = Here([Shard(X[:90], np.sin(X[:90, 2])), Shard(X[90:], np.sin(X[90:, 2]))])
    >>> model = fit_automatic(AutoKernelRegressor(random_state=0), engine)
    >>> int(model.feature_importances_.argmax())
    2
    """
    table = FarTable.of(engine)
    n, n_inputs = table.shape
    if n_inputs > TUNING.most_dense:
        raise ValueError(
            f"X must have at most {TUNING.most_dense} columns over many machines; got {n_inputs}, "
            f"which mercer.{type(model).__name__} takes on one."
        )
    check_memory(16.0 * n, f"the targets of {n} rows", "fit to fewer rows")
    target, weights = targets_of(engine)
    table.callback = callback
    counted = n if weights is None else int(np.count_nonzero(weights))
    X = table[np.arange(n)] if model._is_few(counted) else table
    return model.fit(X, target, weights)
