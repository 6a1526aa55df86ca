"""Block coordinate descent."""

from mercer.solvers.block.solver import BlockCoordinateDescent

__all__ = ["BlockCoordinateDescent"]
