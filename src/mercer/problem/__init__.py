"""Problems: a design, targets, a loss and a penalty; the only place that sums over rows."""

from mercer.problem.objective import Problem
from mercer.problem.row_space import RowSpace
from mercer.problem.systems import KernelSystem, Meter, NormalSystem, System

__all__ = [
    "KernelSystem",
    "Meter",
    "NormalSystem",
    "Problem",
    "RowSpace",
    "System",
]
