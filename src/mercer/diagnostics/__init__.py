"""What fitted features say about themselves: how full bins are, how near they come to a kernel."""

from mercer.diagnostics.collisions import (
    Collisions,
    asymptotic_speedup,
    collisions,
    predicted_speedup,
)
from mercer.diagnostics.kernel_error import KernelError, kernel_error

__all__ = [
    "Collisions",
    "KernelError",
    "asymptotic_speedup",
    "collisions",
    "kernel_error",
    "predicted_speedup",
]
