"""Problems: a design, targets, a loss and a penalty; the only place that sums over rows."""

from mercer.problem.certificates import dual_gap, dual_gaps
from mercer.problem.objective import Point, Problem
from mercer.problem.row_space import RowSpace
from mercer.problem.sharded import ShardedProblem
from mercer.problem.systems import KernelSystem, Meter, NormalSystem, System

__all__ = [
    "KernelSystem",
    "Meter",
    "NormalSystem",
    "Point",
    "Problem",
    "RowSpace",
    "ShardedProblem",
    "System",
    "dual_gap",
    "dual_gaps",
]
