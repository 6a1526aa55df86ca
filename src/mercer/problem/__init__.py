"""Problems: a design, targets, a loss and a penalty; the only place that sums over rows."""

from mercer.problem.objective import Problem
from mercer.problem.sharded import Meter, ShardedProblem

__all__ = [
    "Meter",
    "Problem",
    "ShardedProblem",
]
