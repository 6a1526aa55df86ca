"""Solvers of dual kernel machines: a variable a row, and kernel rows made when they are wanted."""

from mercer.solvers.dual.base import DualResult, DualSolver, DualState, Machine
from mercer.solvers.dual.box import BoxDual
from mercer.solvers.dual.pairs import PairwiseCD

__all__ = [
    "BoxDual",
    "DualResult",
    "DualSolver",
    "DualState",
    "Machine",
    "PairwiseCD",
]
