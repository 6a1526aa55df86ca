"""What features and systems say of themselves: bins, kernels met, steps and costs to expect."""

from mercer.diagnostics.block_costs import EpochCost, epoch_cost, kernel_bytes, phase_times
from mercer.diagnostics.block_descent import (
    BlockRates,
    block_rates,
    effective_lipschitz,
    hessian_of,
    restricted_lipschitz,
)
from mercer.diagnostics.collisions import (
    Collisions,
    asymptotic_speedup,
    collisions,
    predicted_speedup,
)
from mercer.diagnostics.kernel_error import KernelError, kernel_error

__all__ = [
    "BlockRates",
    "Collisions",
    "EpochCost",
    "KernelError",
    "asymptotic_speedup",
    "block_rates",
    "collisions",
    "effective_lipschitz",
    "epoch_cost",
    "hessian_of",
    "kernel_bytes",
    "kernel_error",
    "phase_times",
    "predicted_speedup",
    "restricted_lipschitz",
]
