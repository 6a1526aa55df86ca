"""Diagnostics: how full bins are, how far features are from a kernel, what an epoch costs."""

from mercer.diagnostics.collisions import (
    Collisions,
    asymptotic_speedup,
    collisions,
    predicted_speedup,
)
from mercer.diagnostics.costs import EpochCost, epoch_cost, kernel_bytes
from mercer.diagnostics.kernel_error import KernelError, kernel_error

__all__ = [
    "Collisions",
    "EpochCost",
    "KernelError",
    "asymptotic_speedup",
    "collisions",
    "epoch_cost",
    "kernel_bytes",
    "kernel_error",
    "predicted_speedup",
]
