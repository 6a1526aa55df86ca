"""Models of any kind, fitted over the shards of an engine."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from mercer.auto.base import AutoKernelMachine
from mercer.engines.engine import Engine
from mercer.estimators import KernelClassifier, KernelRegressor
from mercer.estimators.local import LocalKernelMachine

__all__ = ["fit_over"]


def fit_over(
    model: Any,
    engine: Engine,
    *,
    callback: Callable[[Any], bool] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Any:
    """A model, fitted in place to the shards of an engine.

    Parameters
    ----------
    model : estimator
        KernelRegressor, KernelClassifier, LocalKernelRegressor, LocalKernelClassifier,
        AutoKernelRegressor or AutoKernelClassifier.
    engine : Engine
    callback : callable, default=None
        Called with the state of the solver after every iteration; True ends the fit.
    checkpoint : path-like, default=None
        See :func:`~mercer.distributed.fitting.fit_machine`; of kernel machines alone.

    Returns
    -------
    estimator
        ``model``.

    Raises
    ------
    TypeError
        For other models.
    ValueError
        In one sentence, for settings or data that make no sense, or that need one process.
    """
    if isinstance(model, (KernelRegressor, KernelClassifier)):
        from mercer.distributed.fitting import fit_machine

        return fit_machine(model, engine, callback=callback, checkpoint=checkpoint)
    name = type(model).__name__
    if checkpoint is not None:
        raise ValueError(f"checkpoint must be left out for {name}, which keeps none.")
    if isinstance(model, LocalKernelMachine):
        from mercer.distributed.leaves import fit_local_machine

        return fit_local_machine(model, engine, callback=callback)
    if isinstance(model, AutoKernelMachine):
        from mercer.distributed.automatic import fit_automatic

        return fit_automatic(model, engine)
    raise TypeError(
        "model must be a KernelRegressor, KernelClassifier, or Local… or Auto… one of these; got "
        f"{name}."
    )
