"""Problems: a design, targets, a loss and a penalty; the only place that sums over rows."""

from mercer.problem.certificates import dual_gap, dual_gaps
from mercer.problem.objective import Point, Problem

__all__ = [
    "Point",
    "Problem",
    "dual_gap",
    "dual_gaps",
]
