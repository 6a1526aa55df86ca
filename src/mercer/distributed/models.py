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
    """A model of mercer's machines, fitted in place to the shards of an engine.

    ``callback`` receives the solver's state after every iteration; True ends the fit.
    ``checkpoint``, of kernel machines alone: see :func:`~mercer.distributed.fitting.fit_machine`. A
    TypeError for other models; a ValueError for settings or data that make no sense, or that need
    one process.
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
