"""Linear equations of quadratic problems, block by block and for several penalties at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from mercer.penalties import RKHSNorm
from mercer.problem.systems.base import Functions, Meter, System, SystemBlock
from mercer.problem.systems.kernel import KernelSystem
from mercer.problem.systems.normal import NormalSystem

if TYPE_CHECKING:
    from mercer.problem.objective import Problem

__all__ = [
    "Functions",
    "KernelSystem",
    "Meter",
    "NormalSystem",
    "System",
    "SystemBlock",
    "linear_system",
]


def linear_system(problem: Problem, alphas: ArrayLike | None = None) -> System:
    """The equations of a problem; see ``Problem.system``."""
    penalty = problem.penalty
    if not (problem.loss.quadratic and penalty.linear):
        raise ValueError(
            "linear equations need a quadratic loss and penalty 'l2' or 'rkhs'; got loss "
            f"{problem.loss.name!r} and penalty {penalty.name!r}."
        )
    values = np.atleast_1d(np.asarray([penalty.alpha] if alphas is None else alphas, np.float64))
    if values.ndim != 1 or not len(values) or not np.all((values >= 0) & (values < np.inf)):
        raise ValueError(f"alphas must be a list of finite numbers of at least 0; got {alphas!r}.")
    if isinstance(penalty, RKHSNorm) and not penalty.jitter and penalty.matrix is problem.design:
        return KernelSystem(problem, values)
    return NormalSystem(problem, values)
