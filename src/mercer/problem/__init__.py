"""Problems: a design, targets, a loss and a penalty; the only place that sums over rows."""

from mercer.problem.certificates import dual_gap, dual_gaps
from mercer.problem.objective import Point, Problem
from mercer.problem.sharded import Meter, ShardedProblem

__all__ = [
    "Meter",
    "Point",
    "Problem",
    "ShardedProblem",
    "dual_gap",
    "dual_gaps",
]
